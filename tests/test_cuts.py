"""Cuts against brute force and scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from sklearn.metrics import adjusted_rand_score

from grinch import Tree
from grinch.cuts import cut_best_f1, cut_by_cost, cut_n_clusters, cut_threshold, node_costs, splits_by_cost
from grinch.metrics import pairwise_f1
from trees import labelled_trees, labels_from, partitions, random_trees


@pytest.mark.parametrize("method", ["average", "ward", "single"])
def test_cuts_are_those_of_scipy(rng, method):
    matrix = sch.linkage(rng.normal(size=(80, 3)), method)
    tree = Tree.from_scipy(matrix)
    for k in (1, 2, 5, 40, 80):
        labels = cut_n_clusters(tree, k)
        assert adjusted_rand_score(sch.fcluster(matrix, k, "maxclust"), labels) == 1
        assert labels.max() == k - 1
    for height in np.quantile(matrix[:, 2], [0.1, 0.5, 0.9]):
        assert adjusted_rand_score(sch.fcluster(matrix, height, "distance"), cut_threshold(tree, -height)) == 1


def test_labels_count_up_in_the_order_of_arrival(rng):
    labels = cut_n_clusters(Tree.from_scipy(sch.linkage(rng.normal(size=(50, 2)))), 7)
    _, first = np.unique(labels, return_index=True)
    assert (np.diff(first) > 0).all()


def test_a_threshold_cut_goes_from_the_top():
    """The root scores well, so it is kept although a node below it does not."""
    tree = Tree.from_scipy([[0, 1, 4.0, 2], [2, 3, 1.0, 3]])
    assert cut_threshold(tree, -2.0).tolist() == [0, 0, 0]
    assert cut_threshold(tree, -0.5).tolist() == [0, 1, 2]
    assert cut_threshold(tree, -5).tolist() == [0, 0, 0]


def test_cuts_of_tiny_trees():
    tree = Tree()
    assert cut_n_clusters(tree, 3).tolist() == []
    tree.attach()
    assert cut_n_clusters(tree, 3).tolist() == [0]
    assert cut_threshold(tree, 0.5).tolist() == [0]
    tree.attach(beside=0)
    assert cut_n_clusters(tree, 3).tolist() == [0, 1]
    with pytest.raises(ValueError, match="threshold needs a tree that knows its scores"):
        cut_threshold(tree, 0.5)


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "3", None])
def test_n_clusters_must_be_a_count(bad):
    with pytest.raises(ValueError, match="n_clusters must be a whole number of at least 1; got"):
        cut_n_clusters(Tree(), bad)


@pytest.mark.parametrize("bad", ["0.5", float("nan"), True, None])
def test_threshold_must_be_a_number(bad):
    with pytest.raises(ValueError, match="threshold must be a number"):
        cut_threshold(Tree(), bad)


@given(labelled_trees(max_leaves=9, classes=["a", "b", "c", None]))
def test_the_best_cut_is_the_best_of_all_cuts(case):
    tree, labels = case
    best = max(pairwise_f1(labels, labels_from(tree, nodes)) for nodes in partitions(tree))
    cut = cut_best_f1(tree, labels)
    assert pairwise_f1(labels, cut) == pytest.approx(best, abs=1e-12)
    clusters = {frozenset(np.flatnonzero(cut == k).tolist()) for k in cut}
    assert clusters <= {frozenset(tree.leaves(v).tolist()) for v in tree.nodes()}


def test_the_best_cut_of_tiny_and_classless_trees():
    tree = Tree()
    assert cut_best_f1(tree, []).tolist() == []
    tree.attach()
    assert cut_best_f1(tree, ["a"]).tolist() == [0]
    tree.attach(beside=0)
    assert cut_best_f1(tree, ["a", "b"]).tolist() == [0, 1]
    assert cut_best_f1(tree, ["a", "a"]).tolist() == [0, 0]


def brute_cost(points, cost):
    diameter = float(np.linalg.norm(np.ptp(points, axis=0)))
    return {
        "n": len(points),
        "diameter": diameter,
        "half_diameter_times_n": diameter * len(points) / 2,
        "kmeans": ((points - points.mean(axis=0)) ** 2).sum(),
    }[cost]


@pytest.mark.parametrize("cost", ["n", "diameter", "half_diameter_times_n", "kmeans"])
@pytest.mark.parametrize("wrap", [np.asarray, np.float32, scipy.sparse.csr_array])
def test_costs_of_nodes(rng, cost, wrap):
    vectors = (rng.normal(size=(40, 5)) * (rng.random((40, 5)) < 0.6)).astype(np.float32).astype(np.float64)
    tree = Tree.from_scipy(sch.linkage(vectors, "average"))
    costs = node_costs(tree, wrap(vectors), cost)
    for v in tree.nodes():
        members = vectors[tree.leaves(v)]
        assert costs[v] == pytest.approx(0.0 if tree.is_leaf(v) else brute_cost(members, cost))
        if cost == "diameter" and len(members) > 1:
            assert costs[v] >= pdist(members).max() - 1e-9


@given(random_trees(), st.integers(1, 20), st.data())
def test_each_split_is_of_the_costliest_cluster(tree, k, data):
    n_nodes = len(tree.links.table)
    costs = np.array(data.draw(st.lists(st.floats(0, 9), min_size=n_nodes, max_size=n_nodes, unique=True)))
    frontier = [tree.root]
    while len(frontier) < k and not all(map(tree.is_leaf, frontier)):
        worst = max((v for v in frontier if not tree.is_leaf(v)), key=lambda v: costs[v])
        frontier.remove(worst)
        frontier += tree.children(worst)
    is_split = splits_by_cost(tree, costs, k)
    assert set(np.flatnonzero(is_split)) == set(tree.nodes()) - {u for v in frontier for u in under(tree, v)}


def under(tree, v):
    return [v, *itertools.chain.from_iterable(under(tree, child) for child in tree.children(v))]


def test_a_cut_by_cost(rng):
    vectors = rng.normal(size=(60, 2))
    tree = Tree.from_scipy(sch.linkage(vectors, "ward"))
    for k in (1, 2, 9, 60, 70):
        assert len(np.unique(cut_by_cost(tree, vectors, k))) == min(k, 60)
    assert cut_by_cost(Tree(), np.empty((0, 2)), 3).tolist() == []


def test_what_a_cut_by_cost_refuses():
    tree = Tree.from_scipy([[0, 1, 1.0, 2]])
    with pytest.raises(ValueError, match=r"cost must be one of .*; got 'kmean'; did you mean 'kmeans'"):
        cut_by_cost(tree, [[0.0], [1.0]], 2, cost="kmean")
    with pytest.raises(ValueError, match="vectors must have one row for each of the 2 points"):
        cut_by_cost(tree, [[0.0]], 2)
    with pytest.raises(ValueError, match="vectors must be finite"):
        cut_by_cost(tree, [[0.0], [float("nan")]], 2)
    with pytest.raises(ValueError, match="vectors must be numbers"):
        cut_by_cost(tree, [["a"], ["b"]], 2)
    with pytest.raises(ValueError, match="costs must have one entry for each of the 4 node ids"):
        splits_by_cost(tree, [1.0], 2)
    with pytest.raises(ValueError, match="n_clusters must be a whole number"):
        cut_by_cost(tree, [[0.0], [1.0]], 0)
