"""The graph of neighbours, the cost of a tree by it, and swaps that bring neighbours together.

Two points that name each other are neighbours for good. Where only one names the other, it is often a point of a small
group that has no more members to name, or one at the edge: such a pair counts a tenth. ``near`` has the neighbours of
each leaf, best first, padded with NONE; a :class:`Graph` has every pair once.

The cost of a pair is how many points are under its lowest common ancestor, and the cost of a tree is the weighted mean
over all pairs: Dasgupta's cost (STOC 2016) of the graph of neighbours, for an edge. It needs no labels, and of several
trees of the same points the one with the lower cost is mostly the purer (docs/development/settings.md).

A tree of up to 16,384 points is polished as it grows: at certain numbers of points, swaps bring neighbours together.
Among copies of one point, which of them is whose neighbour says nothing, so the tree itself is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from grinch._by_reference import by_reference
from grinch._compile import entry, jitable, kernel
from grinch._types import Counts, Flags, Floats, Ids, Slots, as_id
from grinch._vectors import squared_lengths
from grinch.core.arrival_neighbors import KnownNeighbors
from grinch.core.engine import Engine
from grinch.core.rules import EXACT
from grinch.saving.state import item, require
from grinch.summaries.arrays import STALE, State, new_arrays, refresh, sibling_score, similarity
from grinch.tree.links import (
    NONE,
    OFFSET,
    PARENT,
    ROOT,
    Links,
    Paths,
    TreeArrays,
    fill_depths,
    fill_paths,
    fill_preorder,
    fill_sizes,
    is_leaf,
    left,
    new_paths,
    no_nodes,
    parent,
    place_of_common_ancestor,
    right,
    sibling,
    swap,
)

# How many of its neighbours a point may name.
NAMED = 20
# What a pair weighs in which both name each other, and in which one does.
MUTUAL, ONE_SIDED = 10, 1
# Two groups are neighbours if the pairs between them are this part of all pairs of the smaller one; fewer are chance.
MIN_PART = 1 / 200
# Two points this many times as far apart as neighbours mostly are, are none: an outlier stays outside.
FAR_APART = 4096


@by_reference
class Graph(NamedTuple):
    """Pairs of neighbours, each once.

    ``ends`` has the two leaves of every pair and ``weights`` what it counts; two groups are to be brought together only
    if the pairs between them weigh ``least`` for every point of the smaller one.
    """

    ends: Ids
    weights: Ids
    least: float


def graph_of(near: Ids, least_part: float = MIN_PART) -> Graph:
    """Return the pairs of neighbours and what they weigh.

    >>> near = np.array([[1, 2], [0, NONE], [3, NONE], [2, NONE]], np.int32)
    >>> graph = graph_of(near)
    >>> graph.ends.tolist(), graph.weights.tolist()
    ([[0, 1], [0, 2], [2, 3]], [10, 1, 10])
    """
    ends, weights = np.empty((near.size, 2), np.int32), np.empty(near.size, np.int32)
    n = fill_graph(near, ends, weights)
    # Every pair is one of both its ends.
    per_point = 2 * int(weights[:n].sum()) / max(int((near != NONE).any(axis=1).sum()), 1)
    return Graph(ends[:n].copy(), weights[:n].copy(), least_part * per_point)


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
            ends[n, 0], ends[n, 1], weights[n] = i, j, MUTUAL if is_mutual else ONE_SIDED
            n += 1
    return n


def without_far(near: Ids, rows: Any) -> Ids:
    """Return neighbours but for those that are far away all the same; ``rows`` are the points, where distances count.

    They are a matrix, dense or sparse, or None where distances do not count.
    """
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


def _may_be_far(near: Ids, rows: Any) -> bool:
    """Return whether some points may be far apart for how near nearest neighbours are, so that it is worth checking."""
    some = np.unique(np.linspace(0, len(near) - 1, 128).astype(np.intp))
    gaps = _gaps(rows, some, near[some, 0])
    largest, smallest = rows.max(axis=0), rows.min(axis=0)
    across = _length(largest.astype(np.float64) - smallest)
    return bool(gaps.any() and across > FAR_APART / 8 * np.median(gaps[gaps > 0]))


def _gaps(rows: Any, some: Slots, others: Ids) -> Floats:
    """Return the distances of points from others; 0 where there is no other."""
    steps = rows[some].astype(np.float64) - rows[others]
    return np.where(others == NONE, 0.0, np.sqrt(squared_lengths(steps)))


def _length(row: Any) -> float:
    return float(scipy.sparse.linalg.norm(row) if scipy.sparse.issparse(row) else np.linalg.norm(row))


# Two to four hundred sweeps are the most that 20,000 points took.
MAX_SWEEPS = 500
# A node may come to an aunt that is this many times as far away as the sibling it leaves.
FARTHER = 2.0
# Columns of the pairs that are counted, after the two leaves.
WEIGHT, NEXT = 2, 3
# Marks of nodes: a swap may pay for it; it is beside a swap of this sweep.
WAITING, TOUCHED = 1, 2


@by_reference
class Counted(NamedTuple):
    """Counts over the nodes of a tree, and scratch space.

    By node: ``sizes``, its leaves; ``starts``, how many leaves are left of it; ``pairs``, the weight of the pairs that
    part there; ``aunt_pairs``, of those between its own leaves and its aunt's; ``last_edge`` of those that part there.
    ``edges`` has for each pair its two leaves, its weight, and the next pair that parts at the same node, in a ring.
    ``leaves`` has the leaves from left to right; ``others`` the neighbours of each leaf, and the weights, from
    ``first_other`` on.
    ``marks`` tells the nodes that a swap may pay for from those around the swaps of a sweep. ``queue`` has those of the
    sweep under way.
    """

    preorder: Ids
    queue: Ids
    leaves: Ids
    paths: Paths
    sizes: Counts
    starts: Ids
    pairs: Counts
    aunt_pairs: Counts
    last_edge: Ids
    edges: Ids
    first_other: Counts
    others: Ids
    marks: Flags


class NeighborCost:
    """The neighbours of the points of a tree under construction, and where in the tree each pair of them parts.

    Sweeps look only at what is around the swaps of the sweep before, as long as nothing else changes the tree.
    """

    def __init__(self, graph: Graph, capacity: int):
        self.graph, self.weight = graph, int(graph.weights.sum())
        self._parents = no_nodes(0)
        self._total = 0
        self._counted = Counted(
            preorder=no_nodes(0),
            queue=no_nodes(0),
            leaves=no_nodes(capacity),
            paths=new_paths(2 * capacity),
            sizes=np.zeros(2 * capacity, np.int64),
            starts=np.zeros(2 * capacity, np.int32),
            pairs=np.zeros(2 * capacity, np.int64),
            aunt_pairs=np.zeros(2 * capacity, np.int64),
            last_edge=np.full(2 * capacity, NONE, np.int32),
            edges=np.empty((len(graph.ends), 4), np.int32),
            first_other=np.zeros(capacity + 1, np.int64),
            others=np.empty((2 * len(graph.ends), 2), np.int32),
            marks=np.zeros(2 * capacity, np.uint8),
        )
        fill_others(graph, self._counted.first_other, self._counted.others)

    def cost(self, links: Links) -> float:
        """Return the mean number of points under the common ancestor of two neighbours; nan without any."""
        self._count(links)
        return self._total / self.weight if self.weight else float("nan")

    def sweep(self, links: Links, most: int = 1) -> int:
        """Swap a node with its aunt wherever that lowers the cost, from the bottom to the top.

        Once, or up to ``most`` times as long as anything is swapped. Returns how many swaps were made.
        """
        return self.swept(links, lambda graph, counted: sweep_tree(state_of(links), graph, counted, most, float("nan")))

    def swept(self, links: Links, task: Callable[[Graph, Counted], tuple[int, int]]) -> int:
        """Return how many swaps a sweep makes; ``task`` makes it, and returns that and what they gain."""
        self._count(links)
        # Until the sweep is through, nothing that was counted holds.
        self._parents = no_nodes(0)
        made, gain = task(self.graph, self._counted)
        self._parents, self._total = links.table[:, PARENT].copy(), self._total - int(gain)
        return int(made)

    def _count(self, links: Links) -> None:
        """Count everything, unless this is the tree that the last sweep left behind."""
        if np.array_equal(self._parents, links.table[:, PARENT]):
            return
        n_nodes = 2 * links.n_leaves - 1
        if len(self._counted.preorder) != n_nodes:
            self._counted = self._counted._replace(preorder=no_nodes(n_nodes), queue=no_nodes(n_nodes))
        state = state_of(links)
        parted = no_nodes(len(self.graph.ends))
        find_parted(state, self.graph, self._counted, parted)
        # Pairs that part at the same node are looked at together, so they are kept together.
        order = np.argsort(parted, kind="stable")
        self._counted.edges[:, :2], self._counted.edges[:, WEIGHT] = self.graph.ends[order], self.graph.weights[order]
        self._total = int(count_pairs(state, self._counted, parted[order]))
        self._parents = links.table[:, PARENT].copy()


@entry
def find_parted(tree: State, graph: Graph, counted: Counted, parted: Ids) -> None:
    """Count the leaves under each node, lay out the tree in heavy paths, and find the place where each pair parts."""
    offset, preorder, paths = tree.head[OFFSET], counted.preorder, counted.paths
    fill_preorder(tree.table, tree.head[ROOT], offset, preorder)
    fill_sizes(tree.table, preorder, offset, counted.sizes)
    fill_paths(tree.table, preorder, offset, counted.sizes, paths)
    for e in range(graph.ends.shape[0]):
        u, v = graph.ends[e]
        parted[e] = place_of_common_ancestor(paths, paths.places[u], paths.places[v])


@kernel
def fill_others(graph: Graph, first_other: Counts, others: Ids) -> None:
    """List the neighbours of each leaf and the weights: those of a leaf follow those of the leaf before."""
    for e in range(graph.ends.shape[0]):
        for end in graph.ends[e]:
            first_other[end + 1] += 1
    for i in range(1, first_other.shape[0]):
        first_other[i] += first_other[i - 1]
    for e in range(graph.ends.shape[0] - 1, -1, -1):
        for side in (0, 1):
            # From the last on, so that what is counted down ends where the leaf begins, one leaf further on.
            at = first_other[graph.ends[e, side] + 1] - 1
            first_other[graph.ends[e, side] + 1] = at
            others[at, 0], others[at, 1] = graph.ends[e, 1 - side], graph.weights[e]
    for i in range(first_other.shape[0] - 1):
        first_other[i] = first_other[i + 1]
    first_other[first_other.shape[0] - 1] = others.shape[0]


@entry
def count_pairs(tree: State, counted: Counted, parted: Ids) -> int:
    """Count all pairs by the places where they part, and let all nodes wait for a swap; returns the cost."""
    counted.last_edge[:] = NONE
    counted.pairs[:] = 0
    for e in range(parted.shape[0] - 1, -1, -1):
        v = as_id(counted.paths.nodes[parted[e]])
        hang(counted, e, v)
        counted.pairs[v] += counted.edges[e, WEIGHT]
    counted.marks[:] = WAITING
    number_leaves(tree, counted)
    total = 0
    for i in range(counted.preorder.shape[0]):
        v = as_id(counted.preorder[i])
        total += counted.pairs[v] * counted.sizes[v]
        if not is_leaf(tree, v):
            count_aunt_pairs(tree, counted, v)
    return total


@jitable
def hang(counted: Counted, e: int, v: int) -> None:
    """Note that pair e parts at node v."""
    last = counted.last_edge[v]
    if last == NONE:
        counted.last_edge[v] = counted.edges[e, NEXT] = e
    else:
        counted.edges[e, NEXT] = counted.edges[last, NEXT]
        counted.edges[last, NEXT] = e


@jitable
def hang_all(counted: Counted, last: int, v: int) -> None:
    """Note that all pairs of a ring, given by its last, part at node v."""
    if last == NONE:
        return
    other = counted.last_edge[v]
    if other == NONE:
        counted.last_edge[v] = last
    else:
        first = counted.edges[last, NEXT]
        counted.edges[last, NEXT] = counted.edges[other, NEXT]
        counted.edges[other, NEXT] = first


@entry
def sweep_tree(state: State, graph: Graph, counted: Counted, most: int, ceiling: float) -> tuple[int, int]:
    """Sweep up to ``most`` times, children before parents; returns how many swaps were made and what they gain.

    The linkage has to agree with every swap, unless ``ceiling``, the score of two identical points, is nan.
    """
    made, gain, asks = 0, 0, ceiling == ceiling
    if asks:
        refresh(state, as_id(state.head[ROOT]))
    for _ in range(most):
        before = made
        for i in range(number_leaves(state, counted) - 1, -1, -1):
            v = as_id(counted.queue[i])
            if not may_swap(state, counted, v):
                continue
            b, c = left(state, v), right(state, v)
            with_b, with_c = swap_gain(state, graph, counted, b), swap_gain(state, graph, counted, c)
            if with_c > with_b:
                b, c, with_b, with_c = c, b, with_c, with_b
            if asks and with_b > 0 and not is_approved(state, counted, b, ceiling):
                b, c, with_b = c, b, with_c
                if with_b > 0 and not is_approved(state, counted, b, ceiling):
                    continue
            if with_b > 0:
                swap_with_aunt(state, counted, c)
                if asks:
                    renew(state, v)
                made += 1
                gain += with_b
        if made == before:
            break
    return made, gain


@jitable
def is_approved(state: State, counted: Counted, b: int, ceiling: float) -> bool:
    """Return whether b's aunt is not much farther from b than its sibling, and the pairs outweigh the distance."""
    v, c = parent(state, b), sibling(state, b)
    a, sizes = sibling(state, v), counted.sizes
    gap, gap_now = ceiling - similarity(state, b, a), ceiling - sibling_score(state, v)
    if gap > FARTHER * gap_now:
        return False
    return gap * counted.pairs[v] * sizes[a] <= gap_now * counted.aunt_pairs[b] * sizes[c]


@jitable
def renew(state: State, v: int) -> None:
    """Update v after a child of it was exchanged with v's sibling: no other node has other leaves than before."""
    p = parent(state, v)
    state.sibling_scores[v] = state.sibling_scores[p] = float("nan")
    state.stale[v] = STALE
    refresh(state, v)


@jitable
def number_leaves(tree: TreeArrays, counted: Counted) -> int:
    """Number the leaves from left to right, and queue the nodes that wait, parents first; returns how many."""
    offset, preorder, marks = tree.head[OFFSET], counted.preorder, counted.marks
    fill_preorder(tree.table, tree.head[ROOT], offset, preorder)
    n_waiting, n_leaves = 0, 0
    for i in range(preorder.shape[0]):
        v = preorder[i]
        counted.starts[v] = n_leaves
        marks[v] &= WAITING
        if v < offset:
            counted.leaves[n_leaves] = v
            n_leaves += 1
        elif marks[v]:
            counted.queue[n_waiting] = v
            n_waiting += 1
    return n_waiting


@jitable
def count_aunt_pairs(tree: TreeArrays, counted: Counted, v: int) -> None:
    """Count the pairs that part at v for the grandchildren of v that they come by."""
    b, c = left(tree, v), right(tree, v)
    forget_aunt(tree, counted, b)
    forget_aunt(tree, counted, c)
    e = last = as_id(counted.last_edge[v])
    while e != NONE:
        # Leaves are numbered from left to right, so the lower of the two is under b.
        s, t = counted.starts[counted.edges[e, 0]], counted.starts[counted.edges[e, 1]]
        add_to_child(tree, counted, b, min(s, t), counted.edges[e, WEIGHT])
        add_to_child(tree, counted, c, max(s, t), counted.edges[e, WEIGHT])
        e = as_id(counted.edges[e, NEXT])
        if e == last:
            break


@jitable
def forget_aunt(tree: TreeArrays, counted: Counted, v: int) -> None:
    """Reset the counts of the children of v, which have another aunt."""
    if not is_leaf(tree, v):
        counted.aunt_pairs[left(tree, v)] = counted.aunt_pairs[right(tree, v)] = 0


@jitable
def add_to_child(tree: TreeArrays, counted: Counted, v: int, at: int, weight: int) -> None:
    """Count a pair with the aunt of v's children, from the leaf with this number under v."""
    if not is_leaf(tree, v):
        child = right(tree, v)
        if at < counted.starts[child]:
            child = left(tree, v)
        counted.aunt_pairs[child] += weight


@jitable
def may_swap(tree: TreeArrays, counted: Counted, v: int) -> bool:
    """Return whether v's children have an aunt, and no node around v was touched; then v waits no longer.

    Nodes around a swap wait for the next sweep.
    """
    p = parent(tree, v)
    if p == NONE:
        return False
    around = counted.marks[p] | counted.marks[v] | counted.marks[sibling(tree, v)]
    around |= counted.marks[left(tree, v)] | counted.marks[right(tree, v)]
    if around & TOUCHED:
        return False
    counted.marks[v] = 0
    return True


@jitable
def swap_gain(tree: TreeArrays, graph: Graph, counted: Counted, b: int) -> int:
    """Return what the cost falls by if b's sibling swaps places with b's aunt; 0 if the two have too few pairs to tell.

    For v with children b and c and sibling a, each of the three can be the one that stays outside. The pairs of the two
    that stay together save as many points as are in the third.
    """
    v, c = parent(tree, b), sibling(tree, b)
    a, sizes = sibling(tree, v), counted.sizes
    if counted.aunt_pairs[b] < graph.least * min(sizes[a], sizes[b]):
        return 0
    return as_id(counted.aunt_pairs[b] * sizes[c] - counted.pairs[v] * sizes[a])


@jitable
def swap_with_aunt(tree: TreeArrays, counted: Counted, c: int) -> None:
    """Exchange c and its aunt, and count what changes by that."""
    v, b = parent(tree, c), sibling(tree, c)
    p, a = parent(tree, v), sibling(tree, v)
    pairs, aunt_pairs = counted.pairs, counted.aunt_pairs
    part_again(tree, counted, p, v, a, b, c)
    b_and_c, a_and_b, a_and_c = pairs[v], aunt_pairs[b], aunt_pairs[c]
    if parent(tree, p) != NONE:
        with_c = pairs_with_great_aunt(tree, counted, b, c)
        aunt_pairs[v] += aunt_pairs[a] - with_c
        aunt_pairs[c] = with_c
    aunt_pairs[a], aunt_pairs[b] = a_and_c, b_and_c
    pairs[v], pairs[p] = a_and_b, b_and_c + a_and_c
    swap(tree, a, c)
    counted.sizes[v] = counted.sizes[a] + counted.sizes[b]
    for node in (p, v, a, b, c):
        counted.marks[node] |= TOUCHED | WAITING


@jitable
def part_again(tree: TreeArrays, counted: Counted, p: int, v: int, a: int, b: int, c: int) -> None:
    """Let the pairs of a and b part at v, and those of c at p; count them for the children that get another aunt."""
    starts, edges = counted.starts, counted.edges
    last, others = as_id(counted.last_edge[p]), as_id(counted.last_edge[v])
    counted.last_edge[p] = counted.last_edge[v] = NONE
    # The aunt of b's children was c and will be a; that of a's was b and c, and will be b; c's had b and get a too.
    forget_aunt(tree, counted, a)
    forget_aunt(tree, counted, b)
    e = as_id(edges[last, NEXT]) if last != NONE else NONE
    while e != NONE:
        following = as_id(edges[e, NEXT]) if e != last else NONE
        s, t = starts[edges[e, 0]], starts[edges[e, 1]]
        if not starts[a] <= s < starts[a] + counted.sizes[a]:
            s, t = t, s
        if starts[c] <= t < starts[c] + counted.sizes[c]:
            add_to_child(tree, counted, c, t, edges[e, WEIGHT])
            hang(counted, e, p)
        else:
            add_to_child(tree, counted, a, s, edges[e, WEIGHT])
            add_to_child(tree, counted, b, t, edges[e, WEIGHT])
            hang(counted, e, v)
        e = following
    hang_all(counted, others, p)


@jitable
def pairs_with_great_aunt(tree: TreeArrays, counted: Counted, b: int, c: int) -> int:
    """Return the weight of the pairs of c with the aunt of its parent; b is c's sibling."""
    v = parent(tree, c)
    aunt, top = sibling(tree, parent(tree, v)), parent(tree, parent(tree, v))
    fewer = b if counted.sizes[b] < counted.sizes[c] else c
    # By the pairs of the fewer leaves, or by all that part at the top, whichever are fewer.
    if counted.others.shape[0] * counted.sizes[fewer] > counted.pairs[top] * counted.leaves.shape[0]:
        return pairs_from(counted, top, c)
    found = pairs_between(counted, fewer, aunt)
    return found if fewer == c else as_id(counted.aunt_pairs[v] - found)


@jitable
def pairs_from(counted: Counted, v: int, u: int) -> int:
    """Return the weight of the pairs that part at v and have a leaf under u."""
    first, stop, found = counted.starts[u], counted.starts[u] + counted.sizes[u], as_id(0)
    e = last = as_id(counted.last_edge[v])
    while e != NONE:
        s, t = counted.starts[counted.edges[e, 0]], counted.starts[counted.edges[e, 1]]
        if first <= s < stop or first <= t < stop:
            found += counted.edges[e, WEIGHT]
        e = as_id(counted.edges[e, NEXT])
        if e == last:
            break
    return found


@jitable
def pairs_between(counted: Counted, u: int, v: int) -> int:
    """Return the weight of the pairs between the leaves of two nodes, by those of the first."""
    first, stop, found = counted.starts[v], counted.starts[v] + counted.sizes[v], as_id(0)
    for i in range(counted.starts[u], counted.starts[u] + counted.sizes[u]):
        leaf = counted.leaves[i]
        for j in range(counted.first_other[leaf], counted.first_other[leaf + 1]):
            if first <= counted.starts[counted.others[j, 0]] < stop:
                found += counted.others[j, 1]
    return found


_NO_SUMMARIES = new_arrays(0, 0)


def state_of(links: Links) -> State:
    """Return a tree as a state without summaries: functions on trees are compiled for states alone."""
    return State(*links, *_NO_SUMMARIES, EXACT)  # type: ignore[call-arg, arg-type]


# Copies of points ----------------------------------------------------------------------------------------------------

# Where more than one in this many points has two duplicates or more, neighbours do not say what belongs together.
DUPLICATES_ONE_IN = 8


def is_full_of_duplicates(look: Counts | None) -> bool:
    """Return whether too many points are duplicates for a tree to be polished; ``look`` as below."""
    if look is None or len(look) == 0:
        return False
    counts = np.unique(look, return_counts=True)[1]
    return bool(counts[counts > 2].sum() * DUPLICATES_ONE_IN > len(look))


def duplicates_in_order(near: Ids, look: Counts | None, links: Links) -> Ids:
    """Return the same neighbours, but of three copies or more those beside each other in the tree are neighbours.

    Ties go to the first to arrive, so all copies would have the same few neighbours, and a tree that brings neighbours
    together would be a chain. ``look`` has a number for each point, the same for copies; None if that is not known.
    """
    if look is None:
        return near
    _, group, counts = np.unique(look, return_inverse=True, return_counts=True)
    if counts.max(initial=0) < 3:
        return near
    group = np.where(counts[group] > 2, group, NONE)
    is_copy = (near != NONE) & (group[near] == group[: len(near), None]) & (group[: len(near), None] != NONE)
    before, after = _duplicates_beside(group, links)
    # As often as before, for what counts is how many neighbours are copies and how many are not.
    copies = np.where(np.arange(near.shape[1]) % 2 == 0, after[: len(near), None], before[: len(near), None])
    other = np.where(np.arange(near.shape[1]) % 2 == 1, after[: len(near), None], before[: len(near), None])
    found = np.where(is_copy, np.where(copies == NONE, other, copies), near).astype(np.int32)
    # Of the copies of another point one is as good as all.
    groups = np.where((near == NONE) | is_copy, NONE, group[near])
    again = np.zeros(near.shape, np.bool_)
    for j in range(1, near.shape[1]):
        again[:, j] = (groups[:, j] != NONE) & (groups[:, :j] == groups[:, j, None]).any(axis=1)
    found[again] = NONE
    return np.ascontiguousarray(np.take_along_axis(found, np.argsort(found == NONE, axis=1, kind="stable"), axis=1))


def _duplicates_beside(group: Counts, links: Links) -> tuple[Ids, Ids]:
    """Return the copies before and after each point in the tree, without all others; NONE where there is none."""
    preorder = links.preorder()
    leaves = preorder[preorder < links.head[OFFSET]]
    leaves = leaves[group[leaves] != NONE]
    leaves = leaves[np.argsort(group[leaves], kind="stable")]
    one, next_one = leaves[:-1], leaves[1:]
    is_pair = group[one] == group[next_one]
    before, after = np.full(len(group), NONE, np.int32), np.full(len(group), NONE, np.int32)
    after[one[is_pair]], before[next_one[is_pair]] = next_one[is_pair], one[is_pair]
    return before, after


# Polishing -----------------------------------------------------------------------------------------------------------

# Where the exact search ends; a larger tree would stand still for a quarter of a second.
POLISHED_UP_TO = 16_384
POLISHING_SWEEPS = 50
# A polished tree may be this deep, if it was not deeper before.
DEEP = 128
# How many of the neighbours that a point knows of count.
COUNTED = 25


def _polished_at() -> Iterator[int]:
    """Yield a twentieth apart, a tenth beyond 1,000 and a quarter beyond 2,048."""
    n = 40
    while n <= POLISHED_UP_TO:
        yield n
        n += n // (20 if n < 1000 else 10 if n < 2048 else 4)


POLISHED_AT = tuple(_polished_at())


class Polisher:
    """A :class:`~grinch.core.engine.TreeHook` that polishes a tree of up to 16,384 points as it grows."""

    def __init__(self) -> None:
        self.neighbors = KnownNeighbors(POLISHED_UP_TO, COUNTED)

    @classmethod
    def from_state(cls, state: Any) -> Self:
        polisher = cls()
        polisher.neighbors = KnownNeighbors.from_state(item(state, "neighbors"))
        is_usual = polisher.neighbors.max_points == POLISHED_UP_TO and polisher.neighbors.width == COUNTED
        require(is_usual, "other neighbours are known than should be")
        return polisher

    def stops(self, first: int, stop: int) -> list[int]:
        return [] if first >= POLISHED_UP_TO else [n for n in POLISHED_AT if first < n <= stop]

    def run(self, engine: Engine) -> None:
        if self.neighbors.is_complete:
            polish(engine, self.neighbors)


def depth(links: Links) -> int:
    """Return the number of edges from the root to the farthest leaf."""
    depths = np.zeros(len(links.table), np.int32)
    fill_depths(links.table, links.preorder(), links.offset, depths)
    return int(depths.max())


def polish(engine: Engine, neighbors: KnownNeighbors) -> None:
    """Bring neighbours together, as far as they are known: swaps until few are left."""
    neighbors.meet(engine)
    look = engine.summaries.look(engine.n_slots)
    if is_full_of_duplicates(look):
        return
    # In as little room as the tree needs, for it may be the beginning of a large one.
    links = engine.links.resized(engine.n_slots)
    slots = engine.slots()
    near = neighbors.among(slots, int(slots[-1]) + 1)
    near = without_far(near, engine.summaries.leaf_rows(len(near)))
    near = duplicates_in_order(near, look, links)
    before = depth(links)
    graph = graph_of(near, least_part=0.0)
    NeighborCost(graph, engine.n_slots).sweep(links, most=POLISHING_SWEEPS)
    # Points that come along a line are neighbours in a row, and the best tree of a part of the row may be a chain.
    if depth(links) > max(before, DEEP):
        return
    engine.restore(links.resized(engine.summaries.capacity, engine.summaries.is_undoable))
