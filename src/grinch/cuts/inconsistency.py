"""A cut that finds its own number of clusters: where heights jump."""

from __future__ import annotations

import numpy as np

from grinch._checks import check_count, check_number
from grinch._types import Floats, Labels
from grinch.cuts.flat import labels_of
from grinch.tree import Tree

Moments = tuple[Floats, Floats, Floats]


def cut_inconsistency(tree: Tree, depth: int = 2, factor: float = 1.15) -> Labels:
    """Cut where heights jump: a cluster is kept whole if no merge in it is far above those just below it.

    The inconsistency of a merge is how many standard deviations its height is above the mean of the heights down to
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
    """By node id, how many standard deviations its height is above the mean down to ``depth`` levels; leaves have 0."""
    nodes, heights = tree.internal_nodes(), tree.heights()
    left, right = tree.child_pairs()[nodes].T
    # Number, mean and squares of heights, level by level; merged and not summed, because equal heights must give 0.
    count, mean, squares = np.zeros((3, len(heights)))
    for _ in range(depth):
        below = _merged((count[left], mean[left], squares[left]), (count[right], mean[right], squares[right]))
        own = np.ones(len(nodes)), heights[nodes], np.zeros(len(nodes))
        count[nodes], mean[nodes], squares[nodes] = _merged(own, below)
    deviation = np.sqrt(squares[nodes] / np.maximum(count[nodes] - 1, 1))
    result = np.zeros(len(heights))
    np.divide(heights[nodes] - mean[nodes], deviation, out=deviation, where=deviation > 0)
    result[nodes] = deviation
    return result


def _merged(a: Moments, b: Moments) -> Moments:
    """Number, mean and summed squared deviations of two groups taken together."""
    (n_a, mean_a, squares_a), (n_b, mean_b, squares_b) = a, b
    count = n_a + n_b
    share = n_b / np.maximum(count, 1)
    apart = mean_b - mean_a
    return count, mean_a + share * apart, squares_a + squares_b + apart**2 * share * n_a
