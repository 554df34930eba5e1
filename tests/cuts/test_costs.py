"""Cuts by a cost of nodes, against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from grinch import Tree
from grinch.cuts import cut_by_cost, node_costs, splits_by_cost
from refusals import refused
from trees import random_trees


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
    n_nodes = tree.n_ids
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
    refused("vectors must have one row for each of the 2 points", cut_by_cost, tree, [[0.0]], 2)
    refused("vectors must be finite", cut_by_cost, tree, [[0.0], [float("nan")]], 2)
    refused("vectors must be numbers", cut_by_cost, tree, [["a"], ["b"]], 2)
    refused("costs must have one entry for each of the 4 node ids", splits_by_cost, tree, [1.0], 2)
    refused("n_clusters must be a whole number", cut_by_cost, tree, [[0.0], [1.0]], 0)
