"""Copies and orders that would make a chain of a tree: depth and cost stay near those of random points."""

from __future__ import annotations

import numpy as np
import pytest

from effort import trials
from grinch import Grinch, Rules
from grinch.metrics import dendrogram_purity

N = trials(5_000, 20_000)
EUCLIDEAN = {"linkage": "average", "metric": "sqeuclidean"}


def cost(model):
    """Scores and merges of an insert, on average."""
    return (model.stats_["scores"] + model.stats_["merges"]) / model.n_leaves_


@pytest.fixture(scope="module")
def usual():
    """What random points of the same number cost."""
    return cost(Grinch().fit(np.random.default_rng(0).normal(size=(N, 16))))


def three_points(n):
    rng = np.random.default_rng(1)
    return rng.normal(size=(3, 16))[rng.integers(0, 3, n)]


@pytest.mark.parametrize(
    ("X", "settings", "most"),
    [
        (np.ones((N, 16)), {}, 40),
        (np.ones((N, 16)), {"linkage": "ward"}, 40),
        (three_points(N), {}, 40),
        pytest.param(three_points(N), EUCLIDEAN, 40, marks=pytest.mark.slow),
        (np.arange(N)[:, None] + 1.0, {}, 200),
        (np.arange(N)[:, None] + 1.0, EUCLIDEAN, 200),
        (np.column_stack([np.arange(N), np.ones(N)]), {}, 200),
        pytest.param(
            np.outer(np.arange(N), np.ones(16)) + np.arange(16), {"linkage": "cosine"}, 200, marks=pytest.mark.slow
        ),
        (1.001 ** np.arange(N)[:, None], {"linkage": "ward"}, 200),
    ],
    ids=["one", "one, ward", "three", "three, distance", "ray", "line", "line beside 0", "line, cosine", "geometric"],
)
def test_neither_deep_nor_dear(X, settings, most, usual):
    model = Grinch(**settings).fit(X)
    assert model.tree_.depths().max() <= most
    assert cost(model) <= 3 * usual


@pytest.mark.parametrize("settings", [{}, EUCLIDEAN, {"linkage": "ward"}, {"linkage": "centroid"}], ids=str)
@pytest.mark.parametrize("order", ["mixed", "sorted"])
def test_copies_stay_together(settings, order):
    y = np.random.default_rng(2).integers(0, 40, 1500)
    y = np.sort(y) if order == "sorted" else y
    X = np.random.default_rng(3).normal(size=(40, 8))[y]
    assert dendrogram_purity(Grinch(**settings).fit(X).tree_, y) == 1.0


def test_some_copies_among_other_points():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1500, 8))
    X[rng.permutation(1500)[:150]] = X[0]
    tree = Grinch().fit(X).tree_
    copies = (X[:, None] == X[0]).all(axis=(1, 2))
    assert dendrogram_purity(tree, np.where(copies, 0, 1 + np.arange(1500))) > 0.99
    assert tree.depths().max() < 60


def test_chains_without_the_rules():
    """What the rules are there for: without them the same points make a chain."""
    X = np.arange(1000)[:, None] + 1.0
    plain = {"polish": False, "balanced_ties": False, "release": False}
    for settings in ({}, EUCLIDEAN):
        assert Grinch(mode=Rules.fast(**plain), **settings).fit(X).tree_.depths().max() > 400


@pytest.mark.parametrize("linkage", ["average", "ward", lambda a, b: -abs(np.mean(a) - np.mean(b))])
def test_removal_keeps_copies_in_order(linkage):
    X = np.repeat([[1.0, 0.0], [0.0, 1.0]], 60, axis=0)
    model = Grinch(linkage).fit(X if isinstance(linkage, str) else X[:, 0])
    model.remove(range(0, 120, 2))
    tree = model.tree_
    tree.check()
    assert tree.n_leaves == 60
    assert dendrogram_purity(tree, np.repeat([0, 1], 30)) == 1.0
