"""Engines inside models, checks of all that they hold, and a linkage that fails at a chosen call."""

from __future__ import annotations

import numpy as np

from grinch.summaries import VectorSummaries
from grinch.summaries.arrays import STALE
from grinch.tree.checks import check_links
from grinch.tree.links import LIMIT, SIZE


def engine_in(model):
    """The engine of a fitted model."""
    return model.current_fit().builder


class Raises:
    """Mean negative distance of numbers, that fails at its nth call."""

    def __init__(self, at, error):
        self.calls, self.at, self.error = 0, at, error

    def __call__(self, a, b):
        self.calls += 1
        if self.calls == self.at:
            raise self.error
        return -abs(sum(a) / len(a) - sum(b) / len(b))


def leaf_sets(engine):
    """The slots under every internal node."""
    return {v: engine.links.leaves_under(v) for v in engine.links.nodes()[1].tolist()}


def check_against_recomputation(engine, tolerance=1e-4):
    """Every summary that counts as fresh is, within rounding, that of its leaves."""
    assert isinstance(engine.summaries, VectorSummaries)
    sums = engine.summaries.arrays
    for v, members in leaf_sets(engine).items():
        if not sums.stale[v]:  # nor large, for those may lag
            rows = sums.means[members].astype(np.float64)
            scale = 1.0 + np.abs(rows).max()
            np.testing.assert_allclose(sums.means[v], rows.mean(axis=0), atol=tolerance * scale)
            assert sums.moments[v, 0] == len(members)
            if engine.linkage.name == "average" and engine.linkage.metric != "sqeuclidean":
                continue  # products need no spread
            spread = ((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean()
            np.testing.assert_allclose(sums.moments[v, 1], spread, atol=tolerance * scale**2)


def check_engine(engine):
    check_links(engine.links)
    table = engine.links.table
    for v in engine.links.nodes()[1].tolist():
        p = table[v, 0]
        if engine.summaries.arrays.stale[v] & STALE and p >= 0:
            is_large = engine.rules.lag and table[p, SIZE] > engine.links.head[LIMIT]
            assert is_large or engine.summaries.arrays.stale[p], "a stale node's parent is stale"
            assert np.isnan(engine.summaries.arrays.sibling_scores[p]), "a stale node's parent has no cached bond"
    if isinstance(engine.summaries, VectorSummaries):
        check_against_recomputation(engine)
    slots = engine.slots()
    for first, found in engine.search.nearest(slots, engine.n_slots):
        for x, row in zip(slots[first : first + len(found)], found, strict=True):
            named = row[row >= 0]
            assert set(named.tolist()) <= set(slots.tolist()) - {int(x)}
            assert len(named) == min(len(slots) - 1, found.shape[1])


class PlacesNow:
    """What an engine says now, in ids of its tree: what a view made now has to say for good."""

    def __init__(self, engine, queries):
        self.queries, self.newick, self.slots = queries, engine.tree().to_newick(), engine.slots()
        places = engine.place(queries)
        nodes = (np.where(each < 0, -1, engine.numbered(each)) for each in (places.nearest, places.sibling))
        self.nearest, self.sibling, self.score = *nodes, places.score
        self.view = engine.view()

    def check(self):
        found = self.view.place(self.queries)
        for name in ("nearest", "sibling", "score"):
            np.testing.assert_array_equal(getattr(found, name), getattr(self, name))
        assert self.view.tree.to_newick() == self.newick
        np.testing.assert_array_equal(self.view.slots, self.slots)
