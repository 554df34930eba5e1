"""Cuts by height, by score, or where heights jump."""

from __future__ import annotations

import numpy as np

from grinch._checks import check_count, check_number
from grinch._types import Floats, Ids, Labels, Mask
from grinch.cuts.labels import labels_of
from grinch.tree import Tree


def cut_n_clusters(tree: Tree, n_clusters: int) -> Labels:
    """Cut into ``n_clusters``: undo the merges of greatest height, of equal ones the upper ones first.

    Scipy's ``fcluster(..., "maxclust")`` undoes all merges of equal height or none, and can find fewer clusters. With
    fewer points than ``n_clusters``, every point is a cluster of its own.

    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch import Tree
    >>> cut_n_clusters(Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0]])), 2).tolist()
    [0, 0, 1, 1]
    """
    check_n_clusters(n_clusters)
    return labels_of(tree, splits_n_clusters(tree, n_clusters))


def cut_threshold(tree: Tree, threshold: float) -> Labels:
    """Cut at a score of the linkage: from the top, keep the first node whose children score at least ``threshold``.

    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch import Tree
    >>> cut_threshold(Tree.from_scipy(linkage([[0.0], [1.0], [5.0], [9.0]])), -1.5).tolist()
    [0, 0, 1, 2]
    """
    check_threshold(threshold)
    return labels_of(tree, splits_threshold(tree, float(threshold)))


def splits(tree: Tree, n_clusters: int | None, threshold: float | None) -> Mask:
    """Return, by node id, whether the cut goes through it: by ``threshold`` if there is one, else by ``n_clusters``."""
    if threshold is not None:
        return splits_threshold(tree, threshold)
    return splits_n_clusters(tree, n_clusters or 1)


def check_n_clusters(n_clusters: object) -> None:
    check_count("n_clusters", n_clusters, 1)


def check_threshold(threshold: object) -> None:
    check_number("threshold", threshold, "a number, a score of the linkage")


def split_order(tree: Tree) -> Ids:
    """Return internal nodes in the order in which cuts into 2, 3, 4 … clusters split them."""
    internal = tree.internal_nodes()
    # Preorder puts parents first among equals, and keys never fall upwards: what is split is a top of the tree.
    return internal[np.argsort(-tree.split_keys()[internal], kind="stable")]


def splits_n_clusters(tree: Tree, n_clusters: int) -> Mask:
    """Return, by node id, whether the cut into ``n_clusters`` goes through it."""
    is_split = np.zeros(tree.n_ids, dtype=np.bool_)
    is_split[split_order(tree)[: n_clusters - 1]] = True
    return is_split


def splits_threshold(tree: Tree, threshold: float) -> Mask:
    """Return, by node id, whether its children score below the threshold."""
    with np.errstate(invalid="ignore"):
        return np.asarray(known_scores(tree) < threshold)


def known_scores(tree: Tree) -> Floats:
    """Return the scores of a tree that has them."""
    if tree.n_leaves > 1 and np.isnan(tree.scores[tree.root]):
        raise ValueError("threshold needs a tree that knows its scores; this one does not: cut by n_clusters")
    return tree.scores


def cut_inconsistency(tree: Tree, depth: int = 2, factor: float = 1.15) -> Labels:
    """Cut where heights jump: a cluster stays whole if no merge in it is far above those just below it.

    The inconsistency of a merge is its height above the mean of the heights, in standard deviations, down to
    ``depth`` levels, itself included; scipy's ``fcluster(Z, factor, "inconsistent", depth)`` is the same cut. It takes
    O(n · depth).

    Parameters
    ----------
    tree : Tree
        The cluster tree; see :meth:`grinch.Tree.heights` for its heights.
    depth : int
        Levels to look at, of at least 1.
    factor : float
        The greatest inconsistency within a cluster. With ``depth=2`` none exceeds 1.155.

    Returns
    -------
    array of shape (n_leaves,)
        Cluster numbers by point.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch import Tree
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [2.1], [9.0], [10.0], [11.2]]))
    >>> cut_inconsistency(tree).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    check_number("factor", factor, "a number of standard deviations")
    worst = tree.max_upward(inconsistencies(tree, check_count("depth", depth, 1)))
    worst[: tree.offset] = -np.inf
    return labels_of(tree, worst > factor)


def inconsistencies(tree: Tree, depth: int = 2) -> Floats:
    """Return, by node id, its height above the mean of ``depth`` levels, in standard deviations; 0 for leaves."""
    nodes, heights = tree.internal_nodes(), tree.heights()
    left, right = tree.child_pairs()[nodes].T
    # Number, mean and squares of heights, level by level; merged and not summed, because equal heights must give 0.
    moments, result = np.zeros((3, len(heights))), np.zeros(len(heights))
    own = np.array([np.ones(len(nodes)), heights[nodes], np.zeros(len(nodes))])
    for _ in range(depth):
        moments[:, nodes] = _merged(own, _merged(moments[:, left], moments[:, right]))
    count, mean, squares = moments[:, nodes]
    deviation = np.sqrt(squares / np.maximum(count - 1, 1))
    np.divide(heights[nodes] - mean, deviation, out=deviation, where=deviation > 0)
    result[nodes] = deviation
    return result


def _merged(a: Floats, b: Floats) -> Floats:
    """Return number, mean and summed squared deviations of two groups taken together."""
    (n_a, mean_a, squares_a), (n_b, mean_b, squares_b) = a, b
    count = n_a + n_b
    share, apart = n_b / np.maximum(count, 1), mean_b - mean_a
    return np.array([count, mean_a + share * apart, squares_a + squares_b + apart**2 * share * n_a])
