"""Costs and shapes of trees, against their definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
import scipy.sparse
from hypothesis import given

from grinch import Tree
from grinch.metrics import dasgupta_cost, moseley_wang_revenue, tree_profile
from trees import random_trees


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_costs_of_trees_by_all_pairs(rng, similarity, wrap):
    vectors = rng.random((25, 4)) * (rng.random((25, 4)) < 0.6)
    vectors[3] = 0
    tree = Tree.from_scipy(sch.linkage(vectors, "average"))
    lengths = np.linalg.norm(vectors, axis=1)
    unit = vectors / np.where(lengths, lengths, 1)[:, None] if similarity == "cosine" else vectors
    cost = revenue = total = 0.0
    for i, j in itertools.combinations(range(25), 2):
        size, similar = tree.size(tree.lca(i, j)), unit[i] @ unit[j]
        cost, revenue, total = cost + similar * size, revenue + similar * (25 - size), total + similar
    assert dasgupta_cost(tree, wrap(vectors), similarity) == pytest.approx(cost)
    assert moseley_wang_revenue(tree, wrap(vectors), similarity) == pytest.approx(revenue)
    part = moseley_wang_revenue(tree, wrap(vectors), similarity, normalized=True)
    assert part == pytest.approx(revenue / (23 * total))
    assert 1 / 3 < part < 1


def test_costs_of_tiny_trees_and_unknown_similarities():
    for tree in (Tree(), Tree.from_scipy(np.empty((0, 4)))):
        assert dasgupta_cost(tree, np.ones((tree.n_leaves, 2))) == 0.0
        assert np.isnan(moseley_wang_revenue(tree, np.ones((tree.n_leaves, 2)), normalized=True))
    with pytest.raises(ValueError, match="similarity must be one of 'dot', 'cosine'; got 'cosin'; did you mean"):
        dasgupta_cost(Tree(), np.ones((0, 2)), "cosin")


@given(random_trees())
def test_the_profile_of_a_tree_by_hand(tree):
    profile = tree_profile(tree)
    depths = [len(list(tree.ancestors(leaf))) for leaf in range(tree.n_leaves)]
    nodes = [v for v in tree.nodes() if not tree.is_leaf(v)]
    sizes = [tree.size(v) for v in nodes]
    children = [sorted(map(tree.size, tree.children(v))) for v in nodes]
    assert profile.n_leaves == tree.n_leaves
    assert profile[1:4] == (pytest.approx(np.mean(depths)), np.median(depths), max(depths))
    assert (profile.sackin, profile.colless) == (sum(depths), sum(b - a for a, b in children))
    assert sum(profile.size_counts) == len(nodes)
    for i, count in enumerate(profile.size_counts):
        assert count == sum(2**i < size <= 2 ** (i + 1) for size in sizes)
    if nodes:
        ratios = [a / b for a, b in children]
        assert profile.balance == pytest.approx(np.mean(ratios))
        assert profile.weighted_balance == pytest.approx(np.average(ratios, weights=sizes))


def test_the_profile_of_an_empty_tree():
    profile = tree_profile(Tree())
    assert (profile.n_leaves, profile.max_depth, profile.size_counts) == (0, 0, ())
    assert np.isnan(profile.mean_depth)
    assert np.isnan(profile.balance)
