"""Cuts by height or by score, and labels from any cut."""

from __future__ import annotations

import sys

import numpy as np

from grinch._checks import check_count, check_number
from grinch._types import Floats, Ids
from grinch._types import Labels as Labels
from grinch._types import Mask as Mask
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
    """Cut where the linkage allows: from the top, keep the first node whose children score at least ``threshold``.

    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch import Tree
    >>> cut_threshold(Tree.from_scipy(linkage([[0.0], [1.0], [5.0], [9.0]])), -1.5).tolist()
    [0, 0, 1, 2]
    """
    check_threshold(threshold)
    return labels_of(tree, splits_threshold(tree, float(threshold)))


def check_cut(n_clusters: object, threshold: object) -> None:
    """At most one way to cut, and a sound one."""
    if n_clusters is not None:
        check_n_clusters(n_clusters)
    if threshold is not None:
        check_threshold(threshold)
        if abs(float(threshold)) > sys.float_info.max:  # type: ignore[arg-type]
            raise ValueError(
                f"threshold must be finite; got {threshold!r}. For one cluster of all points: n_clusters=1"
            )
    if n_clusters is not None and threshold is not None:
        raise ValueError(
            "n_clusters and threshold are two ways to cut: give one of them;"
            f" got n_clusters={n_clusters!r} and threshold={threshold!r}"
        )


def splits(tree: Tree, n_clusters: int | None, threshold: float | None) -> Mask:
    """By node id, whether the cut goes through it: by ``threshold`` if there is one, else by ``n_clusters``."""
    if threshold is not None:
        return splits_threshold(tree, threshold)
    return splits_n_clusters(tree, n_clusters or 1)


def check_n_clusters(n_clusters: object) -> None:
    check_count("n_clusters", n_clusters, 1)


def check_threshold(threshold: object) -> None:
    check_number("threshold", threshold, "a number, a score of the linkage")


def split_order(tree: Tree) -> Ids:
    """Internal nodes in the order in which cuts into 2, 3, 4 … clusters split them."""
    internal = tree.internal_nodes()
    # Preorder puts parents first among equals, and keys never fall upwards: what is split is a top of the tree.
    return internal[np.argsort(-tree.split_keys()[internal], kind="stable")]


def splits_n_clusters(tree: Tree, n_clusters: int) -> Mask:
    """By node id, whether the cut into ``n_clusters`` goes through it."""
    is_split = np.zeros(tree.n_ids, dtype=np.bool_)
    is_split[split_order(tree)[: n_clusters - 1]] = True
    return is_split


def splits_threshold(tree: Tree, threshold: float) -> Mask:
    """By node id, whether its children score below the threshold."""
    with np.errstate(invalid="ignore"):
        return np.asarray(known_scores(tree) < threshold)


def known_scores(tree: Tree) -> Floats:
    """The scores of a tree that has them."""
    if tree.n_leaves > 1 and np.isnan(tree.scores[tree.root]):
        raise ValueError("threshold needs a tree that knows its scores; this one does not: cut by n_clusters")
    return tree.scores


def node_labels(tree: Tree, is_split: Mask) -> Labels:
    """Cluster numbers by node id, -1 above the cut; clusters count up in the order their first points arrived."""
    return numbered_by_arrival(tree.number_subtrees(is_split), tree.n_leaves)


def numbered_by_arrival(labels: Labels, n: int) -> Labels:
    """The same clusters numbered from 0 on in the order of their first points among the first ``n``; -1 stays -1."""
    points = np.flatnonzero(labels[:n] >= 0)[::-1]
    firsts = np.full(labels.max(initial=-1) + 1, n, dtype=np.int64)
    # Of several points of a cluster the one that is written last stays: the first.
    firsts[labels[points]] = points
    n_clusters = int((firsts < n).sum())
    rank = np.full(len(firsts) + 1, -1, dtype=np.int64)  # one more, where -1 points
    rank[np.argsort(firsts, kind="stable")[:n_clusters]] = np.arange(n_clusters)
    return rank[labels]


def labels_of(tree: Tree, is_split: Mask) -> Labels:
    """Cluster numbers by point."""
    return node_labels(tree, is_split)[: tree.n_leaves]
