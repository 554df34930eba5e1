"""Where a tree is cut into a number of clusters: by the splits of the greatest keys.

Of splits with equal keys, those above and to the left come first. If keys never fall towards the root (heights), all
nodes above the cut are splits that are taken. If they do, some are not: what leaves a branch there joins the next split
below, on its smaller side, for else one large cluster takes them all (docs/development/cuts.md). ``best``, the
greatest key at or below a node, says where to look, so that what is below the cut is not looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._by_reference import by_reference
from grinch._checks import check_count
from grinch._compile import jitable, kernel
from grinch._types import Counts, Flags, Floats, Ids, Labels, Mask, Numbers, Slots, as_id
from grinch.cuts.flat import check_n_clusters
from grinch.cuts.labels import labels_of
from grinch.tree import Tree
from grinch.tree.links import NONE, ROOT, Links, is_leaf, left, parent, right

# The key of what is never split.
NEVER = -1.0
# Marks of nodes above the cut; the others are 1.
TAKEN = 2
# Of the room between two ranks, what is beside the way down gets such a part.
NARROW = 128
# Ranks are from 0 up to this.
LAST_RANK = 2**62


@by_reference
class Splits(NamedTuple):
    """What is known of a node as a split, by node.

    ``lows``: minus the lowest score at or below it; ``counts``: its points; ``keys``: how early it is taken; ``best``:
    the greatest key at or below it.
    """

    lows: Floats
    counts: Numbers
    keys: Floats
    best: Floats


def new_splits(n: int) -> Splits:
    """Return room for ``n`` nodes, all of them leaves for now."""
    return Splits(np.full(n, -np.inf), np.ones(n, np.int64), np.full(n, NEVER), np.full(n, NEVER))


@by_reference
class Ends(NamedTuple):
    """The nodes that a cut leaves whole, and the number of the cluster of each; and what is needed to find them.

    Found so far are some nodes, those still to be looked below (``is_below``) and those that may be taken as splits:
    ``found``; ``ranks``, which rise from above and from the left; ``after``, the next in this order; ``heap`` has those
    that wait, the next one on top. By node: ``is_above``, 1 above the cut and 2 for the splits that are taken;
    ``outlets``, the end that is joined by what leaves the branch above.
    """

    nodes: Ids
    clusters: Ids
    found: Ids
    is_below: Flags
    ranks: Counts
    after: Ids
    heap: Ids
    is_above: Flags
    outlets: Ids


def new_ends(n_leaves: int, n_ids: int) -> Ends:
    """Return room for the ends of a tree; what is not needed of it costs nothing."""
    nodes, clusters = np.empty(n_leaves, np.int32), np.empty(n_leaves, np.int32)
    most = 3 * n_leaves + 1
    found, after, heap = (np.empty(most, np.int32) for _ in range(3))
    is_below, ranks = np.empty(most, np.uint8), np.empty(most, np.int64)
    return Ends(
        nodes, clusters, found, is_below, ranks, after, heap, np.zeros(n_ids, np.uint8), np.empty(n_ids, np.int32)
    )


@kernel
def raise_splits(
    tree: Links, scores: Floats, ceiling: float, base: float, least: int, nodes: Slots, to: Splits
) -> None:
    """Find out about these nodes, which come children first and have these scores.

    Scores beyond the ceiling count as equal. Keys are heights above ``base`` times ab / (a + b), with a and b the
    points on both sides; a split with fewer than ``least`` points on a side is never taken.
    """
    for i in range(nodes.shape[0]):
        v = nodes[i]
        a, b = left(tree, v), right(tree, v)
        to.lows[v] = max(-min(scores[i], ceiling), max(to.lows[a], to.lows[b]))
        to.counts[v] = to.counts[a] + to.counts[b]
        to.keys[v] = min(to.best[a], to.best[b])
        if min(to.counts[a], to.counts[b]) >= least:
            weight = to.counts[a] / to.counts[v] * to.counts[b]
            to.keys[v] = max(to.keys[v], max(to.lows[v] - base, 0.0) * weight)
        to.best[v] = max(to.keys[v], max(to.best[a], to.best[b]))


@kernel
def find_ends(
    tree: Links, keys: Floats, best: Floats, counts: Numbers, least: float, n_clusters: int, ends: Ends
) -> tuple[int, int]:
    """Cut into ``n_clusters``, or fewer if no more splits have a key of at least ``least``.

    Fills ``ends``; returns how many clusters and how many ends there are. Where keys never fall towards the root they
    are ``best`` as well.
    """
    n_above = _take_splits(tree, keys, best, least, n_clusters - 1, ends)
    if n_above == 0:
        ends.nodes[0], ends.clusters[0] = tree.head[ROOT], 0
        return 1, 1
    # The nodes above the cut, parents first, in the room of the heap.
    above, n, n_ends = ends.heap, 1, 0
    above[0] = tree.head[ROOT]
    for i in range(n_above):
        v = as_id(above[i])
        for child in (left(tree, v), right(tree, v)):
            if ends.is_above[child] > 0:
                above[n] = child
                n += 1
            else:
                ends.outlets[child] = n_ends
                ends.nodes[n_ends] = child
                n_ends += 1
    for i in range(n_above - 1, -1, -1):
        v = as_id(above[i])
        a, b = left(tree, v), right(tree, v)
        is_left = counts[a] <= counts[b] if ends.is_above[v] == TAKEN else ends.is_above[a] > 0
        ends.outlets[v] = ends.outlets[a] if is_left else ends.outlets[b]
    n = 0
    for i in range(n_ends):
        if ends.is_above[parent(tree, as_id(ends.nodes[i]))] == TAKEN:
            ends.clusters[i] = n
            n += 1
    for i in range(n_ends):
        above_it = parent(tree, as_id(ends.nodes[i]))
        if ends.is_above[above_it] != TAKEN:
            ends.clusters[i] = ends.clusters[ends.outlets[above_it]]
    return n, n_ends


@jitable
def _take_splits(tree: Links, keys: Floats, best: Floats, least: float, most: int, ends: Ends) -> int:
    """Mark the splits of the greatest keys and all nodes above them; returns how many nodes that are."""
    ends.found[0], ends.is_below[0], ends.ranks[0], ends.after[0] = tree.head[ROOT], 1, 0, NONE
    n, n_taken, n_above, waiting = 1, 0, 0, 0
    if not is_leaf(tree, tree.head[ROOT]) and best[tree.head[ROOT]] >= least:
        ends.heap[0], waiting = 0, 1
    while waiting > 0 and n_taken < most:
        i = as_id(ends.heap[0])
        waiting = _pop(keys, best, ends, waiting)
        v = as_id(ends.found[i])
        # Down to the split of the greatest key; what is passed waits.
        while ends.is_below[i] == 1:
            if _room_after(ends, i) < 2 * NARROW:
                _spread(ends, n)
            ends.is_below[i] = 0
            is_taken = keys[v] == best[v]
            if not is_taken and keys[v] >= least:
                waiting = _push(keys, best, ends, waiting, i)
            room, last, onward = _room_after(ends, i), i, i
            step = room // 3 if is_taken else room // NARROW
            for child in (left(tree, v), right(tree, v)):
                if not is_leaf(tree, child) and best[child] >= least:
                    ends.found[n], ends.is_below[n] = child, 1
                    # The way down may be long, so it gets nearly all of the room.
                    is_past = not is_taken and last != i and onward == last
                    ends.ranks[n] = ends.ranks[i] + (room - step if is_past else step * (1 if last == i else 2))
                    ends.after[n], ends.after[last] = ends.after[last], n
                    last = n
                    # If both sides had the greatest key, v would be a split of that key itself.
                    if not is_taken and best[child] == best[v]:
                        onward = n
                    else:
                        waiting = _push(keys, best, ends, waiting, n)
                    n += 1
            i, v = onward, as_id(ends.found[onward])
        n_taken += 1
        n_above += _mark_above(tree, ends.is_above, v)
    return n_above


@jitable
def _mark_above(tree: Links, is_above: Flags, v: int) -> int:
    """Mark a split that is taken and what is above it; returns how many nodes were not marked before."""
    count = 1 if is_above[v] == 0 else 0
    is_above[v] = TAKEN
    v = parent(tree, v)
    while v != NONE and is_above[v] == 0:
        is_above[v] = 1
        count += 1
        v = parent(tree, v)
    return count


@jitable
def _room_after(ends: Ends, i: int) -> int:
    stop = LAST_RANK if ends.after[i] == NONE else ends.ranks[ends.after[i]]
    return stop - ends.ranks[i]


@jitable
def _spread(ends: Ends, n: int) -> None:
    """Give n nodes ranks at equal distances; the root is always the first."""
    i, step = 0, LAST_RANK // n
    for place in range(n):
        ends.ranks[i] = place * step
        i = as_id(ends.after[i])


@jitable
def _is_before(keys: Floats, best: Floats, ends: Ends, i: int, j: int) -> bool:
    a = best[ends.found[i]] if ends.is_below[i] == 1 else keys[ends.found[i]]
    b = best[ends.found[j]] if ends.is_below[j] == 1 else keys[ends.found[j]]
    return a > b or (a == b and ends.ranks[i] < ends.ranks[j])


@jitable
def _push(keys: Floats, best: Floats, ends: Ends, n: int, i: int) -> int:
    """Let one that was found wait; returns how many are waiting."""
    at = n
    while at > 0 and _is_before(keys, best, ends, i, as_id(ends.heap[(at - 1) // 2])):
        ends.heap[at] = ends.heap[(at - 1) // 2]
        at = (at - 1) // 2
    ends.heap[at] = i
    return n + 1


@jitable
def _pop(keys: Floats, best: Floats, ends: Ends, n: int) -> int:
    """Take the next one off the heap of n; returns how many are left."""
    n -= 1
    last, at = as_id(ends.heap[n]), 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and _is_before(keys, best, ends, as_id(ends.heap[child + 1]), as_id(ends.heap[child])):
            child += 1
        if _is_before(keys, best, ends, last, as_id(ends.heap[child])):
            break
        ends.heap[at] = ends.heap[child]
        at = child
    ends.heap[at] = last
    return n


def cut_sizeable(tree: Tree, n_clusters: int, min_size: int = 1) -> Labels:
    """Cut into ``n_clusters`` by the most sizeable splits; every other point joins the branch that it left.

    The cut by height (:func:`cut_n_clusters`) counts every outlier as a cluster, and spends most of its splits on them.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    n_clusters : int
        The number of clusters; fewer if there are not enough splits, or points.
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
    _, n_ends = find_ends(tree.links, splits.keys, splits.best, splits.counts, 0.0, n_clusters, ends)
    nodes = ends.nodes[:n_ends].astype(np.intp)
    above = tree.parents()[nodes]
    is_hung = (above != NONE) & (ends.is_above[above] != TAKEN)
    return nodes, ends.clusters[:n_ends].astype(np.int64), is_hung
