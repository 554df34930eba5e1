"""How far apart a tree puts neighbours, and swaps that bring them together.

Every point has a few neighbours. The cost of a pair is how many points are under its lowest common ancestor, and the
cost of a tree is the mean over all pairs: Dasgupta's cost (STOC 2016) of the graph of neighbours, for an edge. It needs
no labels, and of several trees of the same points the one with the lower cost is mostly the purer (docs/settings.md).

``near`` has the neighbours of each leaf, padded with NONE; a :class:`Graph` has every pair of neighbours once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._compile import jitable, kernel
from grinch._types import Counts, Flags, Floats, Ids, Numbers, Slots, as_id
from grinch.tree import walks
from grinch.tree.links import LEAVES, NONE, OFFSET, PARENT, ROOT, Links, is_leaf, left, parent, right, sibling, swap
from grinch.tree.paths import Paths, fill_paths, new_paths, place_of_common_ancestor

# How many neighbours of a point count: with more, large classes gain and small ones lose.
COUNTED = 10
# Two to four hundred sweeps are the most that 20,000 points took.
MOST_SWEEPS = 500
# Two points this many times as far apart as neighbours mostly are, are none: an outlier stays outside.
FAR_APART = 4096


class Graph(NamedTuple):
    """Pairs of neighbours, each once: the two leaves of every pair, and its weight."""

    ends: Ids
    weights: Ids


class Swaps(NamedTuple):
    """What a sweep did: how many swaps it made, and the summed cost of all pairs before and after it."""

    made: int
    before: float
    after: float


class Counted(NamedTuple):
    """What is counted of a tree, and scratch space.

    By node: ``sizes``, its leaves; ``starts``, how many leaves are left of it; ``pairs``, the weight of the pairs that
    part there; ``aunt_pairs``, of those between its own leaves and its aunt's; ``first_pair`` of those that part there,
    and ``next_pair``, by pair, the one after it. ``is_waiting`` marks the nodes that a swap may pay for, ``is_touched``
    and ``is_changed`` those around the swaps of a sweep. ``queue`` has room for the nodes of the sweep under way.
    """

    preorder: Ids
    queue: Ids
    paths: Paths
    sizes: Counts
    starts: Ids
    pairs: Counts
    aunt_pairs: Counts
    first_pair: Ids
    next_pair: Ids
    is_waiting: Flags
    is_touched: Flags
    is_changed: Flags


class NeighborCost:
    """The neighbours of the points of a tree under construction, and where in the tree each pair of them parts.

    A sweep looks only at what is around the swaps of the sweep before it, as long as nothing else changes the tree.
    """

    def __init__(self, graph: Graph, capacity: int):
        self.graph, self.weight = graph, int(graph.weights.sum())
        self._parents = walks.no_nodes(0)
        self._total = 0
        self._counted = Counted(
            preorder=walks.no_nodes(0),
            queue=walks.no_nodes(0),
            paths=new_paths(2 * capacity),
            sizes=np.zeros(2 * capacity, np.int64),
            starts=np.zeros(2 * capacity, np.int32),
            pairs=np.zeros(2 * capacity, np.int64),
            aunt_pairs=np.zeros(2 * capacity, np.int64),
            first_pair=np.full(2 * capacity, NONE, np.int32),
            next_pair=np.full(len(graph.ends), NONE, np.int32),
            is_waiting=np.zeros(2 * capacity, np.uint8),
            is_touched=np.zeros(2 * capacity, np.uint8),
            is_changed=np.zeros(2 * capacity, np.uint8),
        )

    def cost(self, links: Links) -> float:
        """The mean number of points under the common ancestor of two neighbours; nan without any."""
        self._count(links)
        return self._total / self.weight if self.weight else float("nan")

    def sweep(self, links: Links, most: int = 1) -> Swaps:
        """Swap a node with its aunt wherever that lowers the cost, from the bottom to the top.

        Once, or up to ``most`` times as long as anything is swapped.
        """
        self._count(links)
        before = self._total
        # Until the sweep is through, nothing that was counted holds.
        self._parents = walks.no_nodes(0)
        made, gain = sweep_tree(links, self.graph, self._counted, most)
        self._parents, self._total = links.table[:, PARENT].copy(), before - int(gain)
        return Swaps(int(made), float(before), float(self._total))

    def _count(self, links: Links) -> None:
        """Count everything, unless this is the tree that the last sweep left behind."""
        if np.array_equal(self._parents, links.table[:, PARENT]):
            return
        n_nodes = 2 * int(links.head[LEAVES]) - 1
        if len(self._counted.preorder) != n_nodes:
            self._counted = self._counted._replace(preorder=walks.no_nodes(n_nodes), queue=walks.no_nodes(n_nodes))
        self._total = int(count_tree(links, self.graph, self._counted))
        self._parents = links.table[:, PARENT].copy()


def graph_of(near: Ids) -> Graph:
    """The pairs of neighbours; those that name each other weigh twice as much as those of which only one does."""
    ends = np.empty((near.size, 2), np.int32)
    weights = np.empty(near.size, np.int32)
    n = fill_graph(near, ends, weights)
    return Graph(ends[:n].copy(), weights[:n].copy())


@kernel
def fill_graph(near: Ids, ends: Ids, weights: Ids) -> int:
    """Write down every pair once; returns how many there are."""
    n = 0
    for i in range(near.shape[0]):
        for k in range(near.shape[1]):
            j = near[i, k]
            if j == NONE:
                break
            is_mutual = False
            for m in range(near.shape[1]):
                is_mutual |= near[j, m] == i
            if is_mutual and j < i:
                continue
            ends[n, 0], ends[n, 1], weights[n] = i, j, 2 if is_mutual else 1
            n += 1
    return n


def without_far(near: Ids, rows: Numbers | None) -> Ids:
    """Neighbours but for those that are far away all the same; ``rows`` are the points, where distances count."""
    if rows is None or not _may_be_far(near, rows):
        return near
    gaps = np.zeros(near.shape)
    for start in range(0, len(near), 4096):
        part = np.arange(start, min(start + 4096, len(near)))
        for k in range(near.shape[1]):
            gaps[part, k] = _gaps(rows, part, near[part, k])
    is_far = gaps > FAR_APART * np.median(gaps[gaps > 0])
    kept = np.where(is_far, NONE, near).astype(np.int32)
    return np.ascontiguousarray(np.take_along_axis(kept, np.argsort(kept == NONE, axis=1, kind="stable"), axis=1))


def _may_be_far(near: Ids, rows: Numbers) -> bool:
    """Whether points are so far apart, beside some that are nearest to each other, that a closer look is worth it."""
    some = np.unique(np.linspace(0, len(near) - 1, 128).astype(np.intp))
    gaps = _gaps(rows, some, near[some, 0])
    across = np.linalg.norm(np.max(rows, axis=0).astype(np.float64) - np.min(rows, axis=0))
    return bool(gaps.any() and across > FAR_APART / 8 * np.median(gaps[gaps > 0]))


def _gaps(rows: Numbers, some: Slots, others: Ids) -> Floats:
    """The distances of points from others; 0 where there is no other."""
    steps = rows[some].astype(np.float64) - rows[others]
    return np.where(others == NONE, 0.0, np.sqrt(np.einsum("ij,ij->i", steps, steps)))


@kernel
def count_tree(tree: Links, graph: Graph, counted: Counted) -> int:
    """Count the whole tree, and let all nodes wait for a swap; returns the cost of all pairs."""
    offset, preorder = tree.head[OFFSET], counted.preorder
    walks.fill_preorder(tree.table, tree.head[ROOT], offset, preorder)
    walks.fill_sizes(tree.table, preorder, offset, counted.sizes)
    fill_paths(tree.table, preorder, offset, counted.sizes, counted.paths)
    counted.first_pair[:] = NONE
    counted.pairs[:] = 0
    for e in range(graph.ends.shape[0]):
        places = counted.paths.places
        place = place_of_common_ancestor(counted.paths, places[graph.ends[e, 0]], places[graph.ends[e, 1]])
        hang(counted, graph, e, counted.paths.nodes[place])
    total = 0
    for i in range(preorder.shape[0]):
        v = preorder[i]
        total += counted.pairs[v] * counted.sizes[v]
        counted.is_changed[v] = counted.is_waiting[v] = 1
    return total


@jitable
def hang(counted: Counted, graph: Graph, e: int, v: int) -> None:
    """Pair e parts at node v."""
    counted.next_pair[e] = counted.first_pair[v]
    counted.first_pair[v] = e
    counted.pairs[v] += graph.weights[e]


@kernel
def sweep_tree(tree: Links, graph: Graph, counted: Counted, most: int) -> tuple[int, int]:
    """Sweep up to ``most`` times; returns how many swaps were made and what they gain."""
    made, gain = 0, 0
    for _ in range(most):
        n = lay_out(tree, counted)
        for i in range(counted.preorder.shape[0]):
            if counted.is_changed[counted.preorder[i]]:
                count_aunt_pairs(tree, graph, counted, counted.preorder[i])
        swaps, saved = swap_with_aunts(tree, graph, counted, n)
        made += swaps
        gain += saved
        if swaps == 0:
            break
    return made, gain


@jitable
def lay_out(tree: Links, counted: Counted) -> int:
    """Walk through the tree: number the leaves from left to right, and queue the nodes that wait; returns how many."""
    offset, preorder, starts = tree.head[OFFSET], counted.preorder, counted.starts
    walks.fill_preorder(tree.table, tree.head[ROOT], offset, preorder)
    n, n_leaves = 0, 0
    for i in range(preorder.shape[0]):
        v = preorder[i]
        starts[v] = n_leaves
        counted.is_touched[v] = 0
        if v < offset:
            n_leaves += 1
        elif counted.is_waiting[v]:
            counted.queue[n] = v
            n += 1
    return n


@jitable
def count_aunt_pairs(tree: Links, graph: Graph, counted: Counted, v: int) -> None:
    """Count the pairs that part at v for the grandchildren of v that they come by."""
    counted.is_changed[v] = 0
    if is_leaf(tree, v):
        return
    starts, aunt_pairs, b, c = counted.starts, counted.aunt_pairs, left(tree, v), right(tree, v)
    b_left, b_right, c_left, c_right = NONE, NONE, NONE, NONE
    if not is_leaf(tree, b):
        b_left, b_right = left(tree, b), right(tree, b)
        aunt_pairs[b_left] = aunt_pairs[b_right] = 0
    if not is_leaf(tree, c):
        c_left, c_right = left(tree, c), right(tree, c)
        aunt_pairs[c_left] = aunt_pairs[c_right] = 0
    e = counted.first_pair[v]
    while e != NONE:
        # Leaves are numbered from left to right, so the lower of the two is under b.
        s, t = starts[graph.ends[e, 0]], starts[graph.ends[e, 1]]
        under_b, under_c = min(s, t), max(s, t)
        if b_left != NONE:
            aunt_pairs[b_left if under_b < starts[b_right] else b_right] += graph.weights[e]
        if c_left != NONE:
            aunt_pairs[c_left if under_c < starts[c_right] else c_right] += graph.weights[e]
        e = counted.next_pair[e]


@jitable
def swap_with_aunts(tree: Links, graph: Graph, counted: Counted, n: int) -> tuple[int, int]:
    """One sweep over the first n nodes of the queue, children before parents; returns the swaps made and their gain.

    For v with children b and c and sibling a, each of the three can be the one that stays outside. The pairs of the two
    that stay together save as many points as are in the third. Nodes around a swap wait for the next sweep.
    """
    sizes, pairs, aunt_pairs = counted.sizes, counted.pairs, counted.aunt_pairs
    is_touched, is_changed, is_waiting = counted.is_touched, counted.is_changed, counted.is_waiting
    made, gain = 0, 0
    for i in range(n - 1, -1, -1):
        v = as_id(counted.queue[i])
        p = parent(tree, v)
        if p == NONE:
            continue
        a, b, c = sibling(tree, v), left(tree, v), right(tree, v)
        if is_touched[p] or is_touched[v] or is_touched[a] or is_touched[b] or is_touched[c]:
            continue
        is_waiting[v] = 0
        now, with_b, with_c = pairs[v] * sizes[a], aunt_pairs[b] * sizes[c], aunt_pairs[c] * sizes[b]
        if with_c > with_b:
            b, c, with_b = c, b, with_c
        if with_b > now:
            part_again(graph, counted, p, v, c)
            swap(tree, a, c)
            sizes[v] = sizes[a] + sizes[b]
            made += 1
            gain += with_b - now
            for node in (p, v, a, b, c):
                is_touched[node] = is_waiting[node] = 1
            is_changed[p] = is_changed[v] = 1
            if parent(tree, p) != NONE:
                is_changed[parent(tree, p)] = 1
    return made, gain


@jitable
def part_again(graph: Graph, counted: Counted, p: int, v: int, c: int) -> None:
    """Node c is about to leave v for p, and its sibling to come: whose pairs part where, by the leaves of c."""
    at_p, at_v = counted.first_pair[p], counted.first_pair[v]
    counted.first_pair[p] = counted.first_pair[v] = NONE
    counted.pairs[p] = counted.pairs[v] = 0
    first, last = counted.starts[c], counted.starts[c] + counted.sizes[c]
    while at_p != NONE:
        e, at_p = at_p, counted.next_pair[at_p]
        s, t = counted.starts[graph.ends[e, 0]], counted.starts[graph.ends[e, 1]]
        hang(counted, graph, e, p if first <= s < last or first <= t < last else v)
    while at_v != NONE:
        e, at_v = at_v, counted.next_pair[at_v]
        hang(counted, graph, e, p)
