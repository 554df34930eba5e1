"""Cuts that know the answer: how well could this tree be cut, had one the labels?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grinch._compile import kernel
from grinch.classes import class_codes, class_meetings, pairs_under
from grinch.cuts.flat import Labels, Mask, labels_of
from grinch.tree import Tree
from grinch.tree.links import LEFT, RIGHT

FloatArray = npt.NDArray[np.float64]


def cut_best_f1(tree: Tree, labels: npt.ArrayLike) -> Labels:
    """The clusters, each a node of the tree, that have the greatest :func:`~grinch.metrics.pairwise_f1` of all such.

    It is exact, and tells what a tree has to offer apart from where it is cut. F1 is a ratio of two sums over the
    clusters, 2·TP / (pairs found + true pairs); Dinkelbach's method maximises it by asking, for the best ratio r so
    far, for the clusters that maximise 2·TP - r·found (one pass up the tree) until r stands still. That takes a
    handful of passes of O(n).

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    labels : array-like of shape (n_leaves,)
        The true class of each point; a point without one (None or nan) is a class of its own, as for ``pairwise_f1``.

    Returns
    -------
    array of shape (n_leaves,)
        Cluster numbers by point. Among equals, the larger clusters.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch import Tree
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0], [20.0]]))
    >>> cut_best_f1(tree, ["a", "a", "a", "a", "b"]).tolist()
    [0, 0, 0, 0, 1]
    """
    return labels_of(tree, splits_best_f1(tree, labels))


def splits_best_f1(tree: Tree, labels: npt.ArrayLike) -> Mask:
    """By node id, whether the cut with the greatest pairwise F1 goes through it."""
    together = pairs_under(tree, class_meetings(tree, class_codes(labels, tree.n_leaves)))
    sizes = tree.sizes().astype(np.float64)
    found = sizes * (sizes - 1) / 2
    is_split = np.ones(len(found), dtype=np.bool_)
    is_split[: tree.offset] = False
    true = together[tree.root] if tree.n_leaves > 1 else 0.0
    if not true:
        return is_split
    preorder, gathered, trial = tree.preorder(), np.zeros((2, len(found))), is_split.copy()
    best = 0.0
    while True:
        _split_for_ratio(tree.links.table, preorder, tree.offset, together, found, best, gathered, trial)
        ratio = 2 * gathered[0, tree.root] / (gathered[1, tree.root] + true)
        if ratio <= best:
            return is_split
        best, is_split = ratio, trial.copy()


@kernel
def _split_for_ratio(table, preorder, offset, together, found, ratio, gathered, is_split):
    """Clusters under each node that maximise the sum of 2·together - ratio·found; ``gathered`` has both sums, apart.

    The sums are of whole numbers, so that they are exact and only the comparison is rounded.
    """
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        if v < offset:
            continue
        left, right = table[v, LEFT], table[v, RIGHT]
        split_together = gathered[0, left] + gathered[0, right]
        split_found = gathered[1, left] + gathered[1, right]
        is_split[v] = 2 * (split_together - together[v]) > ratio * (split_found - found[v])
        gathered[0, v] = split_together if is_split[v] else together[v]
        gathered[1, v] = split_found if is_split[v] else found[v]
