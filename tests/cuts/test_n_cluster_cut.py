"""Cuts into a number of clusters that count, point by point from the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage

from grinch import Tree
from grinch.cuts import cut_n_clusters, cut_sizeable
from refusals import refused
from trees import chain, random_trees


def by_hand(tree: Tree, n_clusters: int, min_size: int) -> list[int]:
    """Take the splits of the greatest keys, then let each point walk down from the root."""
    heights, keys, best = tree.heights(), {}, {}
    for v in reversed(list(tree.nodes())):
        keys[v] = -1.0
        if not tree.is_leaf(v):
            a, b = tree.children(v)
            m, n = tree.size(a), tree.size(b)
            own = heights[v] * (m / (m + n) * n) if min(m, n) >= min_size else -1.0
            keys[v] = max(own, min(best[a], best[b]))
            best[v] = max(keys[v], best[a], best[b])
        else:
            best[v] = -1.0
    order = {v: i for i, v in enumerate(tree.nodes())}
    splits = sorted((v for v in tree.nodes() if keys[v] >= 0), key=lambda v: (-keys[v], order[v]))
    taken = set(splits[: n_clusters - 1])
    is_above = {u for v in taken for u in (v, *tree.ancestors(v))}

    def home(leaf: int) -> int:
        v, is_hung = tree.root, False
        while v in is_above:
            sides = sorted(tree.children(v), key=tree.size)
            if v in taken and is_hung:
                v = sides[0]
            elif v in taken:
                v = next(side for side in sides if leaf in tree.leaves(side))
            else:
                onward = next(side for side in sides if side in is_above)
                is_hung = is_hung or leaf not in tree.leaves(onward)
                v = onward
        return v

    homes = [home(leaf) for leaf in range(tree.n_leaves)]
    return [list(dict.fromkeys(homes)).index(v) for v in homes]


@given(random_trees(), st.data(), st.integers(1, 25), st.integers(1, 4))
def test_the_most_sizeable_splits_are_taken(tree, data, n_clusters, min_size):
    values = st.sampled_from([-3.0, -1.0, -0.5, 0.0])
    scores = np.array(data.draw(st.lists(values, min_size=tree.n_ids, max_size=tree.n_ids)))
    tree = Tree.from_links(tree.links, scores, 0.0)
    labels = cut_sizeable(tree, n_clusters, min_size)
    assert labels.tolist() == by_hand(tree, n_clusters, min_size)
    if min_size == 1:
        assert labels.max() + 1 == min(n_clusters, tree.n_leaves)
    else:
        assert np.bincount(labels).min() >= min(min_size, tree.n_leaves)


@pytest.mark.parametrize("seed", range(5))
def test_outliers_are_no_clusters(seed):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(4), 100)
    centres = np.array([[0, 0], [0, 9], [9, 0], [9, 9]])
    X = np.concatenate([centres[y] + rng.normal(size=(400, 2)), [[99, 50], [-70, 3]]])
    tree = Tree.from_scipy(linkage(X, "average"))
    assert sorted(np.bincount(cut_n_clusters(tree, 4)[:400], minlength=4))[-2] < 250
    sizes = np.bincount(cut_sizeable(tree, 4)[:400])
    assert len(sizes) == 4
    assert sizes.min() > 80


def test_a_tree_without_heights_is_cut_by_sizes():
    tree = Tree.from_newick("(((a,b),(c,d)),e);")
    # 3 edges down and 4 / 5 against 2 edges down and 4 / 4.
    assert cut_sizeable(tree, 2).tolist() == [0, 0, 0, 0, 1]
    tree = Tree.from_newick("((((a,b),c),((d,e),f)),g);")
    assert cut_sizeable(tree, 2).tolist() == [0, 0, 0, 1, 1, 1, 0]


def test_infinite_scores_come_first():
    tree = Tree.from_merges(np.array([[0, 1], [2, 3], [4, 5]]), np.array([-1.0, -2.0, -np.inf]))
    assert cut_sizeable(tree, 2).tolist() == [0, 0, 1, 1]
    assert cut_sizeable(tree, 3).tolist() == [0, 0, 1, 2]


def test_few_points():
    assert cut_sizeable(Tree.from_scipy([[0, 1, 1.0, 2]]), 2).tolist() == [0, 1]
    assert cut_sizeable(Tree.from_scipy([[0, 1, 1.0, 2]]), 2, min_size=2).tolist() == [0, 0]
    assert cut_sizeable(Tree(), 3).tolist() == []


def test_a_deep_chain_is_cut_without_recursion():
    tree = chain(100_000)
    assert np.bincount(cut_sizeable(tree, 50)).min() >= 1
    assert cut_sizeable(tree, 50).max() == 49


@pytest.mark.parametrize(("name", "value"), [("n_clusters", 0), ("min_size", 0), ("min_size", 1.5)])
def test_it_says_what_is_wrong(name, value):
    refused(name, cut_sizeable, Tree.from_scipy([[0, 1, 1.0, 2]]), **{"n_clusters": 2, name: value})
