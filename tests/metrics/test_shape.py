"""The profile of a tree, against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from grinch import Tree
from grinch.metrics import (
    tree_profile,
)
from trees import random_trees


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
