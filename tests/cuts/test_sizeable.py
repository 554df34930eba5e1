"""Cuts into clusters of some size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

from grinch import Tree
from grinch.cuts import cut_n_clusters, cut_sizeable


def by_hand(tree: Tree, n_clusters: int, min_size: int) -> list[set[int]]:
    """The clusters, split one after the other: always the one whose next split is highest."""
    heights, clusters = tree.heights(), [tree.root]
    while len(clusters) < n_clusters:
        splits = {top: split for top in clusters if (split := next_split(tree, top, min_size)) is not None}
        if not splits:
            break
        top = max(splits, key=lambda top: heights[splits[top]])
        clusters.remove(top)
        clusters.extend(tree.children(splits[top]))
    return [set(tree.leaves(top).tolist()) for top in clusters]


def next_split(tree: Tree, v: int, min_size: int) -> int | None:
    while not tree.is_leaf(v):
        small, big = sorted(tree.children(v), key=tree.size)
        if tree.size(small) >= min_size:
            return v
        v = big
    return None


def clusters_of(labels: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels[labels >= 0])}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("min_size", [1, 2, 5, 30])
def test_it_splits_what_is_highest_and_leaves_the_few_out(seed, min_size):
    X = np.random.default_rng(seed).normal(size=(150, 2)) ** 3
    tree = Tree.from_scipy(linkage(X, "average"))
    for n_clusters in (1, 2, 3, 7, 40, 400):
        labels = cut_sizeable(tree, n_clusters, min_size)
        assert clusters_of(labels) == set(map(frozenset, by_hand(tree, n_clusters, min_size)))
        firsts = [int(np.argmax(labels == label)) for label in range(labels.max() + 1)]
        assert firsts == sorted(firsts)


def test_with_clusters_of_one_point_it_is_the_cut_by_height():
    tree = Tree.from_scipy(linkage(np.random.default_rng(0).normal(size=(80, 3)), "average"))
    for n_clusters in (1, 2, 9, 80):
        assert cut_sizeable(tree, n_clusters, 1).tolist() == cut_n_clusters(tree, n_clusters).tolist()


def test_few_points():
    assert cut_sizeable(Tree.from_scipy([[0, 1, 1.0, 2]]), 2).tolist() == [0, 0]
    assert cut_sizeable(Tree(), 3).tolist() == []


@pytest.mark.parametrize(("name", "value"), [("n_clusters", 0), ("min_size", 0), ("min_size", 1.5)])
def test_it_says_what_is_wrong(name, value):
    tree = Tree.from_scipy([[0, 1, 1.0, 2]])
    with pytest.raises(ValueError, match=name):
        cut_sizeable(tree, **{"n_clusters": 2, name: value})
