"""Labels from a cut: clusters numbered by arrival, small groups that join clusters, and points that belong nowhere.

A group is a subtree that a cut leaves whole. ``becomes`` has, by the number of a group
(:meth:`grinch.Tree.number_subtrees`), the group whose cluster it is in: itself, or the one it joins. By default those
groups join that lie within a cluster many times their size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from grinch._types import Counts, Floats, Ids, Labels, Mask
from grinch._vectors import squared_distances, squared_lengths
from grinch.cuts.cluster_tree import cluster_nodes
from grinch.cuts.graph import NeighborGraph, distances_of
from grinch.cuts.persistence import edges_under, isolation
from grinch.tree import NONE, Tree

# A group is small if it has a smaller share than this of the points of the cluster that a typical point is in.
SMALL = 0.2
# It joins a cluster if its points are no farther from those of the cluster than this many times as far as the latter
# are from each other, in squares.
REACH = 1.7
# Groups, or pairs of them, that are looked at together.
PIECE = 4096


class Groups(NamedTuple):
    """Groups of points: how many there are in each, their means, and their mean squared distance from these."""

    sizes: Counts
    means: Any
    spreads: Floats


def joined(
    tree: Tree,
    is_split: Mask,
    rows: Any = None,
    graph: NeighborGraph | None = None,
    min_size: int = 1,
    within: Labels | None = None,
) -> tuple[Mask, Labels]:
    """Let small groups join clusters, so that each has at least ``min_size`` points.

    ``rows`` are the points, as from :func:`grinch.cuts.graph.comparable`; without them and a graph, only groups join
    that have to. ``within`` has clusters, by point, in which a group and what it joins have to be together. Returns
    where the tree is split, and ``becomes``.
    """
    forced = None
    if min_size > 1:
        is_split, forced = merge_small(tree, is_split, min_size, rows, within)
    if rows is not None and graph is not None:
        becomes = join_near(tree, is_split, rows, graph, within)
    else:
        becomes = np.arange(int(tree.number_subtrees(is_split).max(initial=-1)) + 1)
    # What has to join may join what joins something larger.
    return is_split, becomes if forced is None else becomes[forced[becomes]]


def join_near(tree: Tree, is_split: Mask, rows: Any, graph: NeighborGraph, within: Labels | None = None) -> Labels:
    """Let small groups join the nearest cluster among those of their neighbours; returns ``becomes``.

    ``rows`` are the points, as from :func:`grinch.cuts.graph.comparable`; ``within`` has clusters, by point, in which
    a group and what it joins have to be together.
    """
    own = tree.number_subtrees(is_split)[: tree.n_leaves]
    sizes = np.bincount(own)
    becomes, is_small = np.arange(len(sizes)), sizes < SMALL * typical_size(sizes)
    if not is_small.any():
        return becomes
    points = np.flatnonzero(is_small[own])
    near = graph.near[points]
    others = own[near]
    is_known = (near != NONE) & ~is_small[others]
    if within is not None:
        is_known &= within[near] == within[points][:, None]
    pairs = np.sort(np.repeat(own[points], is_known.sum(axis=1)) * len(sizes) + others[is_known])
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]]
    groups = groups_of(rows, own)
    small, large = np.divmod(pairs, len(sizes))
    gaps = _gaps(groups, small, large)
    inside = 2 * groups.spreads * sizes / np.maximum(sizes - 1, 1)
    joins = np.flatnonzero(gaps + groups.spreads[small] + groups.spreads[large] <= REACH * inside[large])
    # The nearest is written last, and stays.
    joins = joins[np.lexsort((-large[joins], -gaps[joins]))]
    becomes[small[joins]] = large[joins]
    return becomes


def merge_small(
    tree: Tree, is_split: Mask, min_size: int, rows: Any = None, within: Labels | None = None
) -> tuple[Mask, Labels]:
    """Let groups of fewer than ``min_size`` points join the nearest cluster under their lowest ancestor that has one.

    Where an ancestor of enough points has no cluster of as many under it, it becomes one. Without ``rows``, the
    largest cluster is taken. Returns where the tree is split, and ``becomes``; ``within`` is as in :func:`join_near`.
    """
    sizes, is_large = tree.sizes(), np.zeros(tree.n_ids)
    ends = ends_of(tree, is_split)
    is_large[ends[sizes[ends] >= min_size]] = 1
    lacks, internal = tree.max_upward(is_large) == 0, tree.internal_nodes()
    enough = internal[lacks[internal] & (sizes[internal] >= min_size)]
    lowest = enough[(sizes[tree.child_pairs()[enough]] < min_size).all(axis=1)]
    is_large[lowest] = 1
    is_split = is_split & (tree.max_upward(is_large) > 0)
    is_split[lowest] = False
    ends = ends_of(tree, is_split)
    own = tree.number_subtrees(is_split)[: tree.n_leaves]
    becomes, counts = np.arange(len(ends)), sizes[ends]
    small = np.flatnonzero(counts < min_size)
    if len(ends) < 2 or not len(small):
        return is_split, becomes
    large = np.flatnonzero(counts >= min_size)
    first, last = _numbers_under(tree, ends, tree.parents()[ends[small]])
    groups = None if rows is None else groups_of(rows, own)
    of_end = np.zeros(len(ends), np.int64) if within is None else within[np.unique(own, return_index=True)[1]]
    for start in range(0, len(small), PIECE):
        some, part = small[start : start + PIECE], slice(start, start + PIECE)
        is_open = of_end[large] == of_end[some][:, None]
        is_near = is_open & (large >= first[part, None]) & (large <= last[part, None])
        # A coarser cut may have taken a group to a cluster elsewhere.
        is_open = np.where(is_near.any(axis=1)[:, None], is_near, is_open)
        costs = -counts[large][None].astype(np.float64) if groups is None else _all_gaps(groups, some, large)
        becomes[some] = large[np.where(is_open, costs, np.inf).argmin(axis=1)]
    return is_split, becomes


def ends_of(tree: Tree, is_split: Mask) -> Ids:
    """Return the nodes that a cut leaves whole, from left to right."""
    nodes = tree.preorder()
    numbers = tree.number_subtrees(is_split)[nodes]
    return nodes[np.flatnonzero(numbers >= 0)[np.unique(numbers[numbers >= 0], return_index=True)[1]]]


def groups_of(rows: Any, own: Labels) -> Groups:
    """Return the groups of some rows, ``own`` being the number of the group of each."""
    sizes = np.bincount(own)
    ones = scipy.sparse.csr_array((np.ones(len(own), np.float32), (own, np.arange(len(own)))), (len(sizes), len(own)))
    squares = squared_lengths(rows)
    means = ones @ rows
    means = means.multiply(1 / sizes[:, None]).tocsr() if scipy.sparse.issparse(rows) else means / sizes[:, None]
    spreads = np.bincount(own, squares) / sizes - squared_lengths(means)
    return Groups(sizes, means, np.where(sizes > 1, np.maximum(spreads, 0.0), 0.0))


def typical_size(sizes: Counts) -> int:
    """Return the size of the cluster that a typical point is in: half of the points are in one at least as large."""
    falling = np.sort(sizes)[::-1]
    return int(falling[np.searchsorted(np.cumsum(falling), falling.sum() / 2)])


def _numbers_under(tree: Tree, ends: Ids, nodes: Ids) -> tuple[Counts, Counts]:
    """Return the first and the last number of a group below each of some nodes: they count from left to right."""
    order = tree.preorder()
    places, is_end = np.zeros(tree.n_ids, np.int64), np.zeros(tree.n_ids, np.int64)
    places[order], is_end[ends] = np.arange(len(order)), 1
    before = np.concatenate([[0], np.cumsum(is_end[order])])
    first = places[nodes]
    return before[first], before[first + 2 * tree.sizes()[nodes].astype(np.int64) - 1] - 1


def _gaps(groups: Groups, some: Labels, others: Labels) -> Floats:
    """Return the squared distances of the means of these pairs of groups."""
    if scipy.sparse.issparse(groups.means):
        return squared_distances(groups.means, groups.means, some, others)
    found = [np.empty(0)]
    for start in range(0, len(some), PIECE):
        part = slice(start, start + PIECE)
        steps = groups.means[some[part]] - groups.means[others[part]]
        found.append(np.einsum("ij,ij->i", steps, steps, dtype=np.float64))
    return np.concatenate(found)


def _all_gaps(groups: Groups, some: Labels, others: Labels) -> Floats:
    """Return the squared distances of the means of each of some groups from each of the others."""
    a, b = groups.means[some], groups.means[others]
    products = a @ b.T
    dense = products.toarray() if scipy.sparse.issparse(products) else products
    return np.asarray(squared_lengths(a)[:, None] + squared_lengths(b) - 2.0 * dense, np.float64)


def node_labels(tree: Tree, is_split: Mask, becomes: Labels | None = None) -> Labels:
    """Return cluster numbers by node id, -1 above the cut; clusters count up in the order their first points arrived.

    ``becomes`` has, by the number of a subtree that is left whole, that of the one whose cluster it is in, or -1.
    """
    numbers = tree.number_subtrees(is_split)
    if becomes is not None:
        numbers = np.append(becomes, -1)[numbers]
    return numbered_by_arrival(numbers, tree.n_leaves)


def numbered_by_arrival(labels: Labels, n: int) -> Labels:
    """Number clusters from 0 on in the order of their first points among the first ``n``; -1 stays -1."""
    points = np.flatnonzero(labels[:n] >= 0)[::-1]
    firsts = np.full(labels.max(initial=-1) + 1, n, dtype=np.int64)
    # Of several points of a cluster the one that is written last stays: the first.
    firsts[labels[points]] = points
    n_clusters = int((firsts < n).sum())
    rank = np.full(len(firsts) + 1, -1, dtype=np.int64)  # one more, where -1 points
    rank[np.argsort(firsts, kind="stable")[:n_clusters]] = np.arange(n_clusters)
    return rank[labels]


def labels_of(tree: Tree, is_split: Mask, becomes: Labels | None = None) -> Labels:
    """Return cluster numbers by point."""
    return node_labels(tree, is_split, becomes)[: tree.n_leaves]


# A point with a smaller share than this of its neighbours in its own cluster belongs nowhere.
LEAST_SHARE = 0.25
# So does a point that is farther from its neighbours than is usual in its cluster, by as many deviations.
DEVIATIONS = 3.0
# What is usual in a cluster is known if it has at least these shares of the size and isolation of a typical one.
KNOWN_SIZE, KNOWN_ISOLATION = 0.5, 0.7
# A deviation below the median: half of what lies between the quantiles of a standard deviation.
LOWER = 0.16


def without_noise(
    tree: Tree, labels: Labels, graph: NeighborGraph | None, rows: Any = None, min_size: int = 2
) -> Labels:
    """Return cluster numbers by node id, as :func:`node_labels` does, with -1 for points that belong nowhere.

    Those are the points that are alone in their cluster; those with less than a quarter of their neighbours (by the
    weights of ``graph``) in their own cluster, or of as many neighbours as it can hold; and, where ``rows`` are known
    (as from :func:`grinch.cuts.graph.comparable`), those that are much farther from their neighbours than is usual in
    their cluster. In a cluster that is small or hardly stands apart, what is usual in the others counts. A cluster that
    is left with fewer than ``min_size`` points belongs nowhere as a whole.

    >>> from grinch.cuts import node_labels
    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> without_noise(tree, node_labels(tree, np.arange(tree.n_ids) == tree.root), None)[:3].tolist()
    [0, 0, -1]
    """
    n = tree.n_leaves
    own = labels[:n]
    is_noise: Mask = own < 0
    if not is_noise.all():
        sizes = np.bincount(own[own >= 0])
        is_noise = is_noise | (sizes[own] < 2)
        if graph is not None:
            room = np.minimum((sizes[own] - 1) / max(graph.near.shape[1], 1), 1.0)
            is_noise |= share_inside(graph, own) < LEAST_SHARE * room
            if rows is not None and graph.near.shape[1]:
                is_noise |= _is_sparse(tree, own, graph, rows)
        is_noise |= np.bincount(own[~is_noise], minlength=len(sizes))[own] < min_size
    kept = labels.copy()
    kept[:n][is_noise] = NONE
    left = np.zeros(int(own.max(initial=-1)) + 2, np.bool_)  # one more, where -1 points
    left[own[~is_noise]] = True
    return numbered_by_arrival(np.where(left[kept], kept, NONE), n)


def share_inside(graph: NeighborGraph, labels: Labels) -> Floats:
    """Return, by point, which share of its edges, by weight, stays in its own cluster; 1 without any."""
    points, places = np.nonzero(graph.near != NONE)
    others, weights = graph.near[points, places], graph.weights[points, places]
    inside = weights * (labels[points] == labels[others])
    n = len(labels)
    total = np.bincount(points, weights, n) + np.bincount(others, weights, n)
    stays = np.bincount(points, inside, n) + np.bincount(others, inside, n)
    return np.divide(stays, total, out=np.ones(n), where=total > 0)


def _is_sparse(tree: Tree, own: Labels, graph: NeighborGraph, rows: Any) -> Mask:
    """Return, by point, whether it is much farther from its neighbours than is usual."""
    clustered = np.flatnonzero(own >= 0)
    labels, sizes = own[clustered], np.bincount(own[clustered])
    far = _reach(graph, rows)[clustered]
    middle = _quantile(far, labels, sizes, 0.5)
    apart = isolation(tree, graph, edges_under(tree, graph))[cluster_nodes(tree, own)]
    order = np.argsort(apart)
    typical = apart[order][np.searchsorted(np.cumsum(sizes[order]), sizes.sum() / 2)]
    is_known = (sizes >= KNOWN_SIZE * typical_size(sizes)) & (apart >= KNOWN_ISOLATION * typical)
    if not is_known.any():
        is_known = sizes == sizes.max()
    usual = is_known[labels]
    # Of few points the deviation is hardly known: never less than that of all.
    common = -float(np.quantile((far - middle[labels])[usual], LOWER))
    deviation = np.maximum(middle - _quantile(far, labels, sizes, LOWER), common)
    everywhere = float(np.median(far[usual])) + DEVIATIONS * common
    limits = np.where(is_known, middle + DEVIATIONS * deviation, everywhere)
    found = np.zeros(len(own), np.bool_)
    found[clustered] = far > limits[labels]
    return found


def _reach(graph: NeighborGraph, rows: Any) -> Floats:
    """Return, by point, the logarithm of the distance of the neighbour in the middle of its list."""
    known = np.maximum((graph.near != NONE).sum(axis=1), 1)
    squared = distances_of(graph.near, rows)[np.arange(len(known)), (known - 1) // 2].astype(np.float64)
    least = squared[squared > 0].min(initial=1.0)
    return np.log(np.maximum(squared, least)) / 2


def _quantile(values: Floats, labels: Labels, sizes: Labels, q: float) -> Floats:
    """Return, by label, a quantile of the values that have it."""
    order = np.lexsort((values, labels))
    starts = np.cumsum(sizes) - sizes
    return values[order][starts + np.floor(q * (sizes - 1)).astype(np.int64)]
