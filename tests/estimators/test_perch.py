"""PERCH: its promise on separated data, its cuts and its metrics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from grinch import Online, Perch
from grinch.datasets import separated
from grinch.metrics import dendrogram_purity


@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.integers(1, 12), min_size=2, max_size=8),
    d=st.integers(1, 5),
    balance=st.booleans(),
    exact_leaves=st.sampled_from([1, 2, 16]),
)
def test_separated_data_are_pure_in_every_order(seed, sizes, d, balance, exact_leaves):
    """Every point is closer to all of its cluster than to any other point."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centres = np.zeros((len(sizes), d))
    # Balls of radius 1 whose centres are at least 4 apart: within 2, across more than 2.
    centres[:, 0] = 4.5 * rng.permutation(len(sizes))
    inside = rng.normal(size=(len(labels), d))
    inside *= rng.random((len(labels), 1)) ** (1 / d) / np.linalg.norm(inside, axis=1, keepdims=True)
    tree = Perch(balance=balance, exact_leaves=exact_leaves).fit(centres[labels] + inside).tree_
    if max(sizes) > 1:
        assert dendrogram_purity(tree, labels) == 1.0


@pytest.mark.parametrize(("balance", "expected", "rotations"), [(False, 0.695, 1146), (True, 0.671, 1125)])
def test_purity_and_rotations_are_those_of_the_authors_programs(balance, expected, rotations):
    """Of their Python without balance rotations, and of their Scala, which look at the points of up to ten leaves."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    model = Perch(balance=balance, exact_leaves=10).fit(X[order])
    assert dendrogram_purity(model.tree_, y[order]) == pytest.approx(expected, abs=0.002)
    assert model.stats_["rotations"] == rotations
    assert dendrogram_purity(Online(metric="sqeuclidean").fit(X[order]).tree_, y[order]) < expected - 0.05


def test_balance_rotations_make_the_tree_shallower():
    X = np.arange(200.0).reshape(-1, 1)
    plain, balanced = Perch().fit(X), Perch(balance=True).fit(X)
    assert balanced.stats_["balance_rotations"] > 0
    assert balanced.tree_.depths().mean() < 0.6 * plain.tree_.depths().mean()


def test_cuts_by_every_cost_and_by_threshold(rng):
    X, y = separated("cliques", n_classes=5, per_class=20, n_features=3, random_state=1)
    model = Perch(n_clusters=5, shuffle=True, random_state=0).fit(X)
    for cost in ("half_diameter_times_n", "diameter", "kmeans"):
        assert adjusted_rand_score(y, model.set_params(cost=cost).labels_) == 1.0
    assert len(np.unique(model.set_params(cost="n").labels_)) == 5
    model.set_params(n_clusters=None, threshold=-model.tree_.heights()[model.tree_.root] - 1)
    assert model.labels_.max() == 0
    with pytest.raises(ValueError, match="cost must be one of"):
        Perch(cost="area").fit(X)
    with pytest.raises(ValueError, match="max_leaves must be a whole number of at least 2; got 1"):
        Perch(max_leaves=1).fit(X)
    with pytest.raises(ValueError, match="search must be one of 'exact', 'beam'; got 'index'"):
        Perch(search="index").fit(X)


def test_cosine_goes_by_direction(rng):
    directions = np.eye(4)[rng.integers(0, 3, 60)] + 0.05 * rng.normal(size=(60, 4))
    X = directions * rng.uniform(0.1, 10, (60, 1))
    y = directions.argmax(axis=1)
    assert dendrogram_purity(Perch(metric="cosine").fit(X).tree_, y) == 1.0
