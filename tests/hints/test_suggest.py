"""The suggested linkage, on data made so that it can only be one kind, and its neighbours against brute force."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from effort import at_night
from grinch import Grinch
from grinch.hints.suggest import LINKAGES, _closest_pairs, agreed_neighbors, neighbor_cost, suggest_linkage
from grinch.metrics import dendrogram_purity
from grinch.tree import NONE, Tree
from trees import random_tree

# Of 600 directions by seed 0, no linkage costs clearly less than another, so that the first stays.
by_seed_and_size = pytest.mark.parametrize(("seed", "n"), [(1, 600), *(at_night(seed, 600) for seed in range(2, 9))])
BY_ANGLE, BY_DISTANCE = {("average", "cosine"), ("cosine", "cosine")}, {"sqeuclidean"}


def directions(rng, n):
    """Fifteen directions; how long a vector is says nothing."""
    y = rng.integers(0, 15, n)
    X = rng.normal(size=(15, 12))[y] + 0.2 * rng.normal(size=(n, 12))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X * rng.lognormal(0, 1, n)[:, None], y


def steps(rng, n):
    """Ten groups one behind the other on a line through the origin; the angle says nothing."""
    y = rng.integers(0, 10, n)
    return 2.0 + 3.0 * y[:, None] + 0.3 * rng.normal(size=(n, 6)), y


def purity(linkage, metric, X, y):
    return dendrogram_purity(Grinch(linkage, metric=metric).fit(X).tree_, y)


@by_seed_and_size
def test_where_lengths_say_nothing_an_angle_is_suggested(seed, n):
    X, y = directions(np.random.default_rng(seed), n)
    hint = suggest_linkage(X, random_state=seed)
    assert (hint.linkage, hint.metric) in BY_ANGLE
    assert purity(hint.linkage, hint.metric, X, y) > 0.99
    assert purity("ward", None, X, y) < 0.9


@by_seed_and_size
def test_where_angles_say_nothing_a_distance_is_suggested(seed, n):
    X, y = steps(np.random.default_rng(seed), n)
    hint = suggest_linkage(X, random_state=seed)
    assert hint.metric in BY_DISTANCE
    assert purity(hint.linkage, hint.metric, X, y) > 0.99
    assert purity("average", "cosine", X, y) < 0.5


def test_the_same_again_for_a_seed_and_whatever_holds_the_numbers(rng):
    X = np.abs(np.round(rng.normal(size=(90, 5)), 1))
    before = X.copy()
    few = {"sample": 60, "n_orders": 2}
    hint = suggest_linkage(X, **few, random_state=3)
    assert hint == suggest_linkage(X, **few, random_state=3)
    assert hint == suggest_linkage(scipy.sparse.csr_matrix(X), **few, random_state=3)
    assert hint.candidates != suggest_linkage(X, **few, random_state=4).candidates
    assert hint.n_points == 60
    assert (before == X).all()


def test_rows_are_those_that_were_asked_for_and_print(rng):
    X, _ = steps(rng, 100)
    hint = suggest_linkage(X, ["cosine", ("average", "dot"), "ward"], n_orders=2)
    assert [(c.linkage, c.metric) for c in hint.candidates] == [
        ("cosine", "cosine"),
        ("average", "dot"),
        ("ward", "sqeuclidean"),
    ]
    for c in hint.candidates:
        assert 0 < c.cost <= 1
        assert c.deviation >= 0
        assert 0 <= c.agreement <= 1
    assert hint.linkage == "ward"
    lines = str(hint).splitlines()
    assert lines[1].startswith("ward ")
    assert lines[-1].startswith("ward keeps neighbours in the smallest groups")
    Grinch(hint.linkage, metric=hint.metric).fit(X)
    assert len(suggest_linkage(X, n_orders=2).candidates) == len(LINKAGES)


def test_the_first_stays_where_nothing_is_clearly_better():
    """Far apart groups on the axes: every linkage finds them."""
    X = np.repeat(10 * np.eye(4), 5, axis=0) + np.random.default_rng(0).normal(scale=0.1, size=(20, 4))
    for linkages in (["ward", "cosine"], ["cosine", "ward"]):
        hint = suggest_linkage(X, linkages)
        assert abs(hint.candidates[0].cost - hint.candidates[1].cost) < 0.05 * hint.candidates[0].cost
        assert hint.linkage == linkages[0]
    assert suggest_linkage(X, ["centroid"]).reason == "centroid is the only linkage given."


def test_the_closest_two_of_three():
    tree = Tree.from_scipy([[0, 1, 1.0, 2], [4, 2, 2.0, 3], [5, 3, 3.0, 4]])
    # Of 2, 0, 1 the last two are siblings; of 0, 3, 2 the first and the last are closest.
    assert _closest_pairs(tree, np.array([[2, 0], [0, 3], [1, 2]])).tolist() == [2, 0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"linkages": "ward"}, "linkages must be a list of names, .* got 'ward'. Put a single one into a list"),
        ({"linkages": []}, "linkages must name at least one linkage; got none"),
        ({"linkages": ["wart"]}, "linkages must be one of .*; got 'wart'; did you mean 'ward'"),
        (
            {"linkages": ["single"]},
            "linkages must be one of 'cosine', 'average', 'centroid', 'ward', 'tanimoto' .* got 'single'",
        ),
        ({"linkages": [("average", "cosin")]}, "linkages must be one of .* as the metric of 'average'; got 'cosin'"),
        ({"linkages": [max]}, "linkages must be one of"),
        ({"n_orders": 1}, "n_orders must be a whole number of at least 2; got 1"),
        ({"sample": 2}, "sample must be a whole number of at least 3; got 2"),
        ({"sample": 10.5}, "sample must be a whole number of at least 3; got 10.5"),
        ({"X": [[1.0, 2.0], [3.0, 4.0]]}, "X must have at least 3 rows to compare trees of them; got 2"),
        ({"X": [[1.0], [2.0], [np.nan]]}, "X must be finite, but contains NaN in row 2, column 0"),
        ({"X": [1.0, 2.0, 3.0]}, "Expected 2D array"),
    ],
)
def test_what_it_cannot_work_with_is_refused_in_words(settings, message):
    given = {"X": np.eye(4), **settings}
    with pytest.raises(ValueError, match=message):
        suggest_linkage(**given)


def test_points_that_are_all_alike():
    hint = suggest_linkage(np.ones((12, 3)), n_orders=2)
    assert hint.linkage == "average"
    assert np.isfinite([c.cost for c in hint.candidates]).all()


def test_neighbours_are_those_of_brute_force(rng):
    X = rng.normal(size=(60, 3)) + 1
    distances = ((X[:, None] - X) ** 2).sum(axis=2)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    angles = -(unit @ unit.T)
    for values in (distances, angles):
        np.fill_diagonal(values, np.inf)
    near = agreed_neighbors(X)
    for i in range(60):
        both = set(np.argsort(distances[i])[:10].tolist()) & set(np.argsort(angles[i])[:10].tolist())
        assert set(near[i].tolist()) - {NONE} == both
        assert (near[i][len(both) :] == NONE).all()


def test_where_distance_and_angle_agree_on_little_more_are_looked_at():
    """On a line all angles are equal, so the ten nearest by angle are any ten."""
    near = agreed_neighbors(np.arange(1.0, 201.0)[:, None])
    assert (near != NONE).sum() >= 200
    for n in (3, 8):
        assert (agreed_neighbors(np.ones((n, 2))) != NONE).sum() == n * (n - 1)


def test_the_cost_is_the_mean_size_of_common_ancestors(rng):
    tree = random_tree(rng, 30)
    near = rng.integers(NONE, 30, (30, 4)).astype(np.int32)
    sizes = [tree.size(tree.lca(i, int(j))) for i, row in enumerate(near) for j in row if j != NONE]
    assert neighbor_cost(tree, near) == np.mean(sizes)
