"""Cuts that know the labels: the best that a tree offers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._compile import kernel
from grinch._types import Floats, Ids, Labels, Mask
from grinch.cuts.flat import known_scores
from grinch.cuts.labels import labels_of
from grinch.cuts.persistence import totals_by_step
from grinch.tree import Tree
from grinch.tree.lca import class_codes, class_lca, labelled_sizes, pairs_under


def cut_best_f1(tree: Tree, labels: npt.ArrayLike) -> Labels:
    """Return the clusters, each a node of the tree, with the greatest :func:`~grinch.metrics.pairwise_f1` of all such.

    Exact. It measures the quality of a tree independently of where it is cut. F1 is a ratio of two sums over the
    clusters, 2·TP / (pairs found + true pairs); Dinkelbach's method maximises it: for the best ratio r so far, find the
    clusters that maximise 2·TP - r·found (one pass up the tree), until r no longer grows. That takes a handful of
    passes of O(n).

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
    """Return, by node id, whether the cut with the greatest pairwise F1 goes through it."""
    together = pairs_under(tree, class_lca(tree, class_codes(labels, tree.n_leaves)))
    sizes = tree.sizes().astype(np.float64)
    found = sizes * (sizes - 1) / 2
    is_split = np.ones(len(found), dtype=np.bool_)
    is_split[: tree.offset] = False
    true = together[tree.root] if tree.n_leaves > 1 else 0.0
    if not true:
        return is_split
    nodes, children = tree.internal_nodes(), tree.child_pairs()
    gathered, candidate = np.zeros((2, len(found))), is_split.copy()
    best = 0.0
    while True:
        _split_for_ratio(nodes, children, together, found, best, gathered, candidate)
        ratio = 2 * gathered[0, tree.root] / (gathered[1, tree.root] + true)
        if ratio <= best:
            return is_split
        best, is_split = ratio, candidate.copy()


@kernel
def _split_for_ratio(
    nodes: Ids, children: Ids, together: Floats, found: Floats, ratio: float, gathered: Floats, is_split: Mask
) -> None:
    """Find clusters under each node that maximise the sum of 2·together - ratio·found; ``gathered`` has both sums.

    The sums are of whole numbers, so that they are exact and only the comparison is rounded.
    """
    for i in range(nodes.shape[0] - 1, -1, -1):
        v, left, right = nodes[i], children[nodes[i], 0], children[nodes[i], 1]
        split_together = gathered[0, left] + gathered[0, right]
        split_found = gathered[1, left] + gathered[1, right]
        is_split[v] = 2 * (split_together - together[v]) > ratio * (split_found - found[v])
        gathered[0, v] = split_together if is_split[v] else together[v]
        gathered[1, v] = split_found if is_split[v] else found[v]


class BestThreshold(NamedTuple):
    """A threshold for :func:`~grinch.cuts.cut_threshold`, and the pairwise F1 it reached."""

    threshold: float
    f1: float


def best_threshold(tree: Tree, labels: npt.ArrayLike) -> BestThreshold:
    """Return the threshold whose cut has the greatest pairwise F1 on the labelled points, to be used elsewhere.

    A node is a cluster of the cut for thresholds above the scores of all its ancestors and up to its own, so one sweep
    over the sorted scores counts every cut there is, in O(n log n).

    Parameters
    ----------
    tree : Tree
        A cluster tree that knows its scores.
    labels : array-like of shape (n_leaves,)
        The true class of each point. Points without one (None or nan) are left out: a few labels are enough.

    Returns
    -------
    BestThreshold
        ``threshold`` and ``f1``. The best cut is the same between two scores of the tree; the threshold is their
        middle, or the greatest that keeps all points together where that is best. Among equals, the lowest.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch import Tree
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0]]))
    >>> best_threshold(tree, ["a", "a", "b", "b"])
    BestThreshold(threshold=-4.0, f1=1.0)
    """
    codes = class_codes(labels, tree.n_leaves)
    meetings = class_lca(tree, codes)
    if not len(meetings.nodes):
        raise ValueError(
            "labels must have two points of one class, else every threshold is as good; got no such two: label more"
        )
    nodes, scores, above = tree.internal_nodes(), known_scores(tree), np.full(tree.n_ids, -np.inf)
    # A node without a score is never split, as if it scored highest.
    scores = np.where(np.isnan(scores), np.inf, scores)
    _fill_best_above(tree.preorder(), tree.parents(), scores, above)
    steps = np.unique(scores[nodes])
    # Cut i is that of the thresholds from steps[i - 1] (exclusive) to steps[i]; the last one leaves only single points.
    begin, end = np.searchsorted(steps, above[nodes], side="right"), np.searchsorted(steps, scores[nodes], side="right")
    begin[0] = 0
    counted = labelled_sizes(tree, codes)[nodes].astype(np.float64)
    together = totals_by_step(begin, end, pairs_under(tree, meetings)[nodes], len(steps))
    found = totals_by_step(begin, end, counted * (counted - 1) / 2, len(steps))
    f1 = 2 * together / (found + meetings.pairs.sum())
    first = int(np.argmax(f1))
    # The cut into single points has an F1 of 0, so that the best one ends before it.
    last = first + int(np.argmax(f1[first:] != f1[first])) - 1
    return BestThreshold(_middle(steps, first, last), float(f1[first]))


def _middle(steps: Floats, first: int, last: int) -> float:
    """Return the middle of the thresholds of cuts first to last."""
    low, high = float(steps[first - 1]) if first else -np.inf, float(steps[last])
    # Beyond the scores, and beside an infinite one, there is no middle; and none between neighbouring numbers.
    middle = low / 2 + high / 2
    return middle if np.isfinite(middle) and low < middle else high


@kernel
def _fill_best_above(preorder: Ids, parents: Ids, scores: Floats, above: Floats) -> None:
    """Fill in, by node, the highest score among its ancestors; ``above`` starts out as -inf."""
    for i in range(1, preorder.shape[0]):
        v = preorder[i]
        p = parents[v]
        above[v] = max(above[p], scores[p])
