"""Copies of one point when a tree is polished."""

from __future__ import annotations

import numpy as np

from grinch.core.engine import Engine
from grinch.core.rules import FAST
from grinch.linkage.named import linkage_of
from grinch.refine.neighbor_cost import duplicates_in_order, is_full_of_duplicates
from grinch.tree.links import NONE


def engine_of(X, linkage="average", metric=None):
    engine = Engine(linkage_of(linkage, metric), FAST, n_neighbors=5, n_features=X.shape[1])
    engine.insert(X)
    return engine


def test_who_looks_the_same():
    X = np.array([[1.0, 0], [0, 1], [2, 0], [1, 1e-3], [1, 1e-9], [0, 0]])
    look = engine_of(X, metric="cosine").summaries.look(len(X))
    assert look[0] == look[2] == look[4]
    assert len(set(look.tolist())) == 4
    look = engine_of(X, "ward").summaries.look(len(X))
    assert len(set(look.tolist())) == 6


def test_full_of_copies():
    assert not is_full_of_duplicates(None)
    assert not is_full_of_duplicates(np.arange(100))
    assert not is_full_of_duplicates(np.repeat(np.arange(50), 2)), "pairs are no crowd"
    assert not is_full_of_duplicates(np.append(np.zeros(3, int), 1 + np.arange(97)))
    assert is_full_of_duplicates(np.append(np.zeros(30, int), 1 + np.arange(70)))


def test_a_copy_has_the_next_ones_in_the_tree_as_neighbours():
    X = np.vstack([np.ones((6, 2)), np.random.default_rng(0).normal(size=(60, 2))])
    engine = engine_of(X, "ward")
    near = np.full((len(X), 5), NONE, np.int32)
    for first, found in engine.search.nearest(engine.slots(), len(X)):
        near[first : first + len(found)] = found
    ordered = duplicates_in_order(near, engine.summaries.look(len(X)), engine.links)
    leaves = [leaf for leaf in engine.tree().preorder().tolist() if leaf < 6]
    for before, copy, after in zip([None, *leaves], leaves, [*leaves[1:], None], strict=False):
        assert set(ordered[copy][ordered[copy] != NONE].tolist()) <= {before, after, *range(6, len(X))}
        assert {before, after} - {None} <= set(ordered[copy].tolist())
    for i in range(6, len(X)):
        assert sum(leaf in range(6) for leaf in ordered[i].tolist()) <= 1, "one of the copies is as good as all"
        others = [leaf for leaf in near[i].tolist() if leaf >= 6]
        assert [leaf for leaf in ordered[i].tolist() if leaf >= 6] == others


def test_pairs_are_left_alone():
    X = np.repeat(np.random.default_rng(1).normal(size=(20, 2)), 2, axis=0)
    engine = engine_of(X)
    near = np.arange(40, dtype=np.int32)[:, None] ^ 1
    assert duplicates_in_order(near, engine.summaries.look(40), engine.links) is near
