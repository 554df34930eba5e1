"""Cuts into a number of clusters that count, where what leaves a group in passing makes no cluster.

A split is the more sizeable the higher it is and the more points are on both of its sides: it counts its height times
ab / (a + b), which is how Ward weighs two groups of a and b points. The most sizeable splits of a tree are taken. A
split between two of them, one under each of its sides, is taken before the lesser of the two, so that k - 1 splits
always make k clusters.
"""

from __future__ import annotations

import numpy as np

from grinch._checks import check_count
from grinch._types import Floats, Labels, Mask, Slots
from grinch.cuts.flat import check_n_clusters, labels_of
from grinch.cuts.n_cluster_cut import TAKEN, Splits, find_sizeable_ends, new_ends, new_splits, raise_splits
from grinch.tree import NONE, Tree


def cut_sizeable(tree: Tree, n_clusters: int, min_size: int = 1) -> Labels:
    """Cut into ``n_clusters`` by the most sizeable splits; every other point joins the branch that it left.

    The cut by height (:func:`cut_n_clusters`) counts every outlier as a cluster, and spends most of its splits on them.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    n_clusters : int
        How many clusters; fewer if there are not enough splits, or points.
    min_size : int, default=1
        Only splits with as many points on both sides count.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [2.0], [9.0], [9.5], [10.0], [19.0]]))
    >>> cut_sizeable(tree, 2).tolist()
    [0, 0, 0, 1, 1, 1, 1]
    """
    check_n_clusters(n_clusters)
    check_count("min_size", min_size, 1)
    return labels_of(tree, *splits_sizeable(tree, n_clusters, min_size))


def splits_sizeable(tree: Tree, n_clusters: int, min_size: int = 1) -> tuple[Mask, Labels]:
    """Return where the cut into ``n_clusters`` goes through the tree, and which subtrees are one cluster then.

    The latter by the numbers of :meth:`grinch.Tree.number_subtrees`.
    """
    if tree.n_leaves < 2:
        nothing = np.zeros(tree.n_leaves, np.int64)
        return np.zeros(tree.n_ids, np.bool_), nothing
    ends, clusters, is_hung = sizeable_ends(tree, sizeable(tree, min_size), n_clusters)
    is_end = np.zeros(tree.n_ids, np.int64)
    is_end[ends] = 1
    is_split = tree.sum_upward(is_end) > is_end
    numbers, becomes = tree.number_subtrees(is_split)[ends], np.empty(len(ends), np.int64)
    # Clusters are numbered in the order of the ends that are not hung up.
    becomes[numbers] = numbers[~is_hung][clusters]
    return is_split, becomes


def sizeable(tree: Tree, min_size: int = 1) -> Splits:
    """Return how sizeable the splits of a tree are."""
    internal, splits, lows = tree.internal_nodes()[::-1], new_splits(tree.n_ids), tree.split_keys()
    raise_splits(
        tree.links, -lows[internal], np.inf, _base(tree, lows[internal]), min_size, internal.astype(np.intp), splits
    )
    return splits


def _base(tree: Tree, lows: Floats) -> float:
    """Return what heights count from: the score of two identical points, or the best there is."""
    if len(lows) and np.isnan(tree.scores[tree.root]):
        return 0.0
    finite = lows[np.isfinite(lows)]
    return float(finite.min() if len(finite) else 0.0) if tree.ceiling is None else -tree.ceiling


def sizeable_ends(tree: Tree, splits: Splits, n_clusters: int) -> tuple[Slots, Labels, Mask]:
    """Return the nodes that the cut into ``n_clusters`` leaves whole, the cluster of each, and which are hung up."""
    ends = new_ends(tree.n_leaves, tree.n_ids)
    _, n_ends = find_sizeable_ends(tree.links, splits, n_clusters, ends)
    nodes = ends.nodes[:n_ends].astype(np.intp)
    above = tree.parents()[nodes]
    is_hung = (above != NONE) & (ends.is_above[above] != TAKEN)
    return nodes, ends.clusters[:n_ends].astype(np.int64), is_hung
