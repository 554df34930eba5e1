"""Cuts into clusters of some size, where a point that leaves a group by itself makes no cluster."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._checks import check_count
from grinch._compile import kernel
from grinch._types import Ids, Labels, Mask
from grinch.cuts.flat import check_n_clusters, numbered_by_arrival
from grinch.tree import Tree


class SizeableSplits(NamedTuple):
    """The splits of a tree whose two sides both have some size, in the order in which cuts take them.

    ``nodes``: the highest first; ``tops``: for each, the node at which its points became a cluster of their own, from
    which only a few left on the way down to the split.
    """

    nodes: Ids
    tops: Ids


def cut_sizeable(tree: Tree, n_clusters: int, min_size: int = 2) -> Labels:
    """Cut into ``n_clusters`` of at least ``min_size`` points; the points that are in none of them have -1.

    The cut by height (:func:`cut_n_clusters`) counts every outlier as a cluster, and spends most of its splits on them.
    Here only splits into two groups of at least ``min_size`` points count; what leaves a group before it is split in
    that way is in no cluster, as in HDBSCAN's condensed tree. With fewer such splits, there are fewer clusters.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [7.5], [99.0]]))
    >>> cut_sizeable(tree, 2).tolist()
    [0, 0, 1, 1, -1]
    """
    check_n_clusters(n_clusters)
    tops = sizeable_tops(tree, sizeable_splits(tree, min_size), n_clusters)
    labels = np.full(tree.n_leaves, -1, np.int64)
    for number, top in enumerate(tops.tolist()):
        labels[tree.leaves(top)] = number
    return numbered_by_arrival(labels, tree.n_leaves)


def sizeable_splits(tree: Tree, min_size: int) -> SizeableSplits:
    """The splits whose smaller side has at least ``min_size`` points."""
    check_count("min_size", min_size, 1)
    internal, sizes = tree.internal_nodes(), tree.sizes()
    is_split = np.zeros(tree.n_ids, np.bool_)
    is_split[internal] = sizes[tree.child_pairs()[internal]].min(axis=1, initial=tree.n_leaves) >= min_size
    tops = np.full(tree.n_ids, tree.root, np.int32)
    _fill_tops(tree.preorder(), tree.parents(), is_split, tops)
    found = internal[is_split[internal]]
    # As in a cut by height: parents first among equals, and keys never fall upwards.
    found = found[np.argsort(-tree.split_keys()[found], kind="stable")]
    return SizeableSplits(found, tops[found])


def sizeable_tops(tree: Tree, splits: SizeableSplits, n_clusters: int) -> Ids:
    """The node of each of the clusters after the first ``n_clusters - 1`` splits."""
    if not tree.n_leaves:
        return np.empty(0, np.int32)
    taken = splits.nodes[: n_clusters - 1]
    is_top = np.zeros(tree.n_ids, np.bool_)
    is_top[tree.root] = True
    is_top[tree.child_pairs()[taken].ravel()] = True
    is_top[splits.tops[: n_clusters - 1]] = False
    found: Ids = np.flatnonzero(is_top).astype(np.int32)
    return found


@kernel
def _fill_tops(preorder: Ids, parents: Ids, is_split: Mask, tops: Ids) -> None:
    for i in range(1, preorder.shape[0]):
        v = preorder[i]
        above = parents[v]
        tops[v] = v if is_split[above] else tops[above]
