"""The cut that follows its tree is always the cut of the tree handed out; tests/core/test_life.py has more of it."""

from __future__ import annotations

import numpy as np
import pytest

from effort import at_night
from grinch import Grinch, Online, Rotate, cuts
from grinch.tree import links as move_log


def assert_is_the_cut(model, n_clusters):
    by_hand = {"height": cuts.cut_n_clusters, "sizeable": cuts.cut_sizeable}[model.cut]
    np.testing.assert_array_equal(model.labels_, by_hand(model.tree_, n_clusters))


@pytest.mark.parametrize("k", [at_night(1), 2, at_night(8), 250])
@pytest.mark.parametrize("estimator", [Grinch, at_night(Rotate), at_night(Online)])
def test_single_points(rng, estimator, k):
    """Enough points for the tree to be polished, and to grow several times."""
    X = np.concatenate([rng.normal(size=(1500, 3)), np.repeat(rng.normal(size=(5, 3)), 20, axis=0)])
    X = rng.permutation(X)
    model = estimator(n_clusters=k).fit(X[:500])
    for i in range(500, len(X)):
        model.partial_fit(X[i : i + 1])
        if i % 7 == 0:
            assert_is_the_cut(model, k)


def test_more_moves_than_are_followed(rng, monkeypatch):
    monkeypatch.setattr(move_log, "MAX_MOVED", 100)
    X = rng.normal(size=(2000, 3))
    model = Grinch(n_clusters=5).fit(X[:1000])
    for first in (1000, 1010, 1500, 1505):
        assert_is_the_cut(model, 5)
        model.partial_fit(X[first:1999])
    assert_is_the_cut(model, 5)


def test_what_a_linkage_raises_while_labels_are_read(rng):
    is_wrong = []

    def linkage(a, b):
        if is_wrong:
            raise ArithmeticError("not today")
        return -abs(np.mean(a) - np.mean(b))

    points = rng.normal(size=40).tolist()
    model = Grinch(linkage, n_clusters=4).fit(points[:30])
    assert_is_the_cut(model, 4)
    model.partial_fit(points[30:])
    is_wrong.append(True)
    with pytest.raises(ValueError, match="not today"):
        model.labels_
    is_wrong.clear()
    assert_is_the_cut(model, 4)


def test_after_an_insert_that_was_undone(rng):
    count = []

    def linkage(a, b):
        if 1e9 in a or 1e9 in b:
            count.append(1)
            if len(count) > 45:
                raise ArithmeticError("too far")
        return -abs(np.mean(a) - np.mean(b))

    points = rng.normal(size=40).tolist()
    model = Grinch(linkage, n_clusters=4).fit(points)
    assert_is_the_cut(model, 4)
    with pytest.raises(ValueError, match="too far"):
        model.partial_fit([0.5, 1e9])
    assert model.n_leaves_ == 41
    assert_is_the_cut(model, 4)
