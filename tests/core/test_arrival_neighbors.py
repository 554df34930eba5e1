"""Whom each point knows: against a plain transcription, in any chunking, and when points leave or never get in."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grinch.refine.neighbor_cost as polish_module
from effort import trials
from grinch import Grinch
from grinch.core.arrival_neighbors import KnownNeighbors
from grinch.core.engine import Engine
from grinch.core.rules import FAST
from grinch.datasets import arrival, load
from grinch.linkage.named import linkage_of
from grinch.metrics import dendrogram_purity
from grinch.refine.neighbor_cost import COUNTED, Polisher


def engine_of(n_features, k=25, linkage="average", metric="sqeuclidean"):
    return Engine(linkage_of(linkage, metric), FAST, n_neighbors=k, n_features=n_features, hook=Polisher())


def known(engine):
    """The neighbours that each point knows of, by slot, as lists."""
    neighbors = engine.hook.neighbors
    neighbors.meet(engine)
    return {
        int(x): [int(j) for j in neighbors.among(engine.slots(), engine.slots()[-1] + 1)[x] if j >= 0]
        for x in engine.slots()
    }


def plainly(X, k, width):
    """The same, by the book: everybody keeps the nearest of those that they found and that found them."""
    lists = []
    for x in range(len(X)):
        found = sorted(range(x), key=lambda j: (((X[x] - X[j]) ** 2).sum(), j))[:k][:width]
        lists.append(found)
        for j in found:
            lists[j].append(x)
            # Sorting keeps the order of equals: whoever was known first stays.
            lists[j] = sorted(lists[j], key=lambda i: ((X[i] - X[j]) ** 2).sum())[:width]
    return dict(enumerate(lists))


@given(st.integers(1, 60), st.integers(1, 30), st.integers(0, 2**32 - 1))
@settings(max_examples=trials(12, 300))
def test_whom_a_point_knows(n, k, seed):
    # Whole numbers, so that scores are exact and ties are ties.
    X = np.random.default_rng(seed).integers(0, 30, (n, 2)).astype(float)
    engine = engine_of(2, k)
    engine.insert(X)
    assert known(engine) == plainly(X, k, COUNTED)


def test_in_any_chunking_and_with_removals():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6)) + 3 * np.eye(6)[np.sort(rng.integers(0, 6, 700))]
    trees = set()
    for size in (1, 97, 700):
        model = Grinch()
        for begin, stop, gone in ((0, 400, range(50, 250)), (400, 700, range(450, 500))):
            for first in range(begin, stop, size):
                model.partial_fit(X[first : min(first + size, stop)])
            model.remove(gone)
        trees.add(model.tree_.to_newick())
    assert len(trees) == 1


def test_who_leaves_is_known_to_nobody(rng):
    engine = engine_of(3)
    engine.insert(rng.normal(size=(200, 3)))
    before = known(engine)
    gone = np.sort(rng.permutation(200)[:120])
    engine.remove(gone)
    assert known(engine) == {
        x: [j for j in near if j not in set(gone.tolist())] for x, near in before.items() if x not in set(gone.tolist())
    }
    left = known(engine)
    slots = engine.compact()
    assert slots is not None
    assert known(engine) == {i: [int(np.searchsorted(slots, j)) for j in left[int(x)]] for i, x in enumerate(slots)}
    scores = engine.hook.neighbors.scores
    near = engine.hook.neighbors.near
    for x in range(80):
        n = int((near[x] >= 0).sum())
        assert (np.diff(scores[x, :n]) <= 0).all()
    # Those that come now are known, too.
    engine.insert(rng.normal(size=(40, 3)))
    assert any(j >= 80 for x in range(80) for j in known(engine)[x])


def test_little_is_kept_of_few_points_and_nothing_of_too_many(rng):
    engine = engine_of(2)
    engine.insert(rng.normal(size=(100, 2)))
    assert len(pickle.dumps(engine.hook)) < 100_000
    neighbors = KnownNeighbors(80, 5)
    neighbors.note_scored(engine, 80, np.zeros((20, 25), np.int32))
    assert (neighbors.is_complete, len(neighbors.near)) == (False, 0)


def test_sorted_arrival_is_level_with_random():
    digits = load("digits")
    X, y, purity = digits.vectors, digits.labels, {}
    for order in ("random", "sorted"):
        rows = [arrival(y, order, seed) for seed in range(2)]
        purity[order] = np.mean([dendrogram_purity(Grinch().fit(X[o]).tree_, y[o]) for o in rows])
    assert purity["sorted"] > purity["random"] - 0.03


def test_a_polishing_that_was_interrupted_is_made_up_for(monkeypatch):
    X = np.random.default_rng(0).normal(size=(300, 8))
    whole, interrupted, real = Grinch().fit(X), Grinch(), polish_module.polish

    def once(engine, neighbors):
        if engine.n_slots > 100:
            monkeypatch.setattr(polish_module, "polish", real)
            raise KeyboardInterrupt
        real(engine, neighbors)

    monkeypatch.setattr(polish_module, "polish", once)
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(X)
    assert 100 < interrupted.n_leaves_ < 300
    interrupted.partial_fit(X[interrupted.n_leaves_ :])
    assert interrupted.tree_.to_newick() == whole.tree_.to_newick()
