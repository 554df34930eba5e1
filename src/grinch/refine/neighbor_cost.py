"""How far apart a tree puts neighbours, and swaps that bring them together.

Every point has a few neighbours. The cost of a pair is how many points are under its lowest common ancestor, and the
cost of a tree is the mean over all pairs: Dasgupta's cost (STOC 2016) of the graph of neighbours, for an edge. It needs
no labels, and of several trees of the same points the one with the lower cost is mostly the purer (docs/settings.md).

``table`` is that of :class:`~grinch.tree.links.Links`; ``near`` has the neighbours of each leaf, padded with NONE.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._compile import jitable, kernel
from grinch._types import Counts, Flags, Floats, Ids, Numbers, Slots, as_id
from grinch.tree import walks
from grinch.tree.links import LEAVES, NONE, OFFSET, PARENT, ROOT, Links, is_leaf, left, parent, right, sibling, swap
from grinch.tree.paths import Paths, fill_paths, new_paths

# How many neighbours of a point count: with more, large classes gain and small ones lose.
COUNTED = 10
# Two to four hundred sweeps are the most that 20,000 points took.
MOST_SWEEPS = 500
# Two points this many times as far apart as neighbours mostly are, are none: an outlier stays outside.
FAR_APART = 4096


class Swaps(NamedTuple):
    """What a sweep did: how many swaps it made, and the summed cost of all pairs before and after it."""

    made: int
    before: float
    after: float


class Counted(NamedTuple):
    """What is counted of a tree, and scratch space.

    By node: ``sizes``, its leaves; ``pairs``, the pairs of neighbours that part there; ``aunt_pairs``, those of its own
    leaves with leaves of its aunt. ``parted`` has for each pair the node where it parts and, on both sides, the
    grandchild of that node it came by. ``is_touched`` and ``is_changed`` mark what is around the swaps of a sweep.
    """

    preorder: Ids
    sizes: Counts
    paths: Paths
    pairs: Ids
    aunt_pairs: Ids
    parted: Ids
    is_touched: Flags
    is_changed: Flags


class NeighborCost:
    """The neighbours of the points of a tree under construction, and where in the tree each pair of them parts.

    Where they part is counted again only around the swaps of the last sweep, as long as nothing else changes the tree.
    """

    def __init__(self, near: Ids, capacity: int):
        self.near, self.n_pairs = near, int((near != NONE).sum())
        self._parents = walks.no_nodes(0)
        self._counted = Counted(
            preorder=walks.no_nodes(0),
            sizes=np.zeros(2 * capacity, np.int64),
            paths=new_paths(2 * capacity),
            pairs=np.zeros(2 * capacity, np.int32),
            aunt_pairs=np.zeros(2 * capacity, np.int32),
            parted=np.full((*near.shape, 3), NONE, np.int32),
            is_touched=np.zeros(2 * capacity, np.uint8),
            is_changed=np.zeros(2 * capacity, np.uint8),
        )

    def cost(self, links: Links) -> float:
        """The mean number of points under the common ancestor of two neighbours; nan without any."""
        before = self.sweep(links, most=0).before
        return before / self.n_pairs if self.n_pairs else float("nan")

    def sweep(self, links: Links, most: int = 1) -> Swaps:
        """Swap a node with its aunt wherever that lowers the cost, from the bottom to the top.

        Once, or up to ``most`` times as long as anything is swapped.
        """
        n_nodes = 2 * int(links.head[LEAVES]) - 1
        if len(self._counted.preorder) != n_nodes:
            self._counted = self._counted._replace(preorder=walks.no_nodes(n_nodes))
        if not np.array_equal(self._parents, links.table[:, PARENT]):
            # Not the tree that the last sweep left behind: nothing that was counted holds.
            self._counted.parted[..., 0] = NONE
            self._counted.pairs[:] = 0
            self._counted.aunt_pairs[:] = 0
        before, made, gain = sweep_tree(links, self.near, self._counted, most)
        self._parents = links.table[:, PARENT].copy()
        return Swaps(int(made), float(before), float(before - gain))


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
def sweep_tree(tree: Links, near: Ids, counted: Counted, most: int) -> tuple[int, int, int]:
    """Count, and swap up to ``most`` times; returns the cost of all pairs before, the swaps made and what they gain."""
    before, made, gain = 0, 0, 0
    for sweep in range(max(most, 1)):
        count_tree(tree, near, counted)
        if sweep == 0:
            for i in range(counted.preorder.shape[0]):
                v = counted.preorder[i]
                before += counted.pairs[v] * counted.sizes[v]
        if most == 0:
            break
        swaps, saved = swap_with_aunts(tree, counted)
        made += swaps
        gain += saved
        if swaps == 0:
            break
    return before, made, gain


@jitable
def count_tree(tree: Links, near: Ids, counted: Counted) -> None:
    """Count the leaves under each node, and the pairs that part there."""
    offset = tree.head[OFFSET]
    walks.fill_preorder(tree.table, tree.head[ROOT], offset, counted.preorder)
    walks.fill_sizes(tree.table, counted.preorder, offset, counted.sizes)
    fill_paths(tree.table, counted.preorder, offset, counted.sizes, counted.paths)
    count_pairs(near, counted.paths, counted.is_changed, counted.parted, counted.pairs, counted.aunt_pairs)
    counted.is_changed[:] = 0


@jitable
def count_pairs(near: Ids, paths: Paths, is_changed: Flags, parted: Ids, pairs: Ids, aunt_pairs: Ids) -> None:
    """Count the pairs that are new, or part at a node in ``is_changed``."""
    places, nodes, heads, above = paths.places, paths.nodes, paths.heads, paths.above
    for i in range(near.shape[0]):
        for k in range(near.shape[1]):
            if near[i, k] == NONE:
                break
            if parted[i, k, 0] != NONE:
                if not is_changed[parted[i, k, 0]]:
                    continue
                pairs[parted[i, k, 0]] -= 1
                for side in (1, 2):
                    if parted[i, k, side] != NONE:
                        aunt_pairs[parted[i, k, side]] -= 1
            u, v = places[i], places[near[i, k]]
            child_u, child_v, below_u, below_v = NONE, NONE, NONE, NONE
            while heads[u] != heads[v]:
                # The path that begins later holds no ancestor of the other's places, so it may be left.
                if heads[u] > heads[v]:
                    below_u = heads[u] + 1 if u > heads[u] else child_u
                    child_u = heads[u]
                    u = above[child_u]
                else:
                    below_v = heads[v] + 1 if v > heads[v] else child_v
                    child_v = heads[v]
                    v = above[child_v]
            top = min(u, v)
            if u > top:
                below_u = top + 2 if u > top + 1 else child_u
            if v > top:
                below_v = top + 2 if v > top + 1 else child_v
            parted[i, k, 0] = nodes[top]
            parted[i, k, 1] = nodes[below_u] if below_u != NONE else NONE
            parted[i, k, 2] = nodes[below_v] if below_v != NONE else NONE
            pairs[nodes[top]] += 1
            for side in (1, 2):
                if parted[i, k, side] != NONE:
                    aunt_pairs[parted[i, k, side]] += 1


@jitable
def swap_with_aunts(tree: Links, counted: Counted) -> tuple[int, int]:
    """One sweep, children before parents; returns the number of swaps and what they gain.

    For v with children b and c and sibling a, each of the three can be the one that stays outside. The pairs of the two
    that stay together save as many points as are in the third. Nodes around a swap wait for the next count, which is
    for the pairs that part at the nodes in ``is_changed``.
    """
    sizes, pairs, aunt_pairs = counted.sizes, counted.pairs, counted.aunt_pairs
    is_touched, is_changed = counted.is_touched, counted.is_changed
    made, gain = 0, 0
    is_touched[:] = 0
    for i in range(counted.preorder.shape[0] - 1, -1, -1):
        v = as_id(counted.preorder[i])
        p = parent(tree, v)
        if is_leaf(tree, v) or p == NONE:
            continue
        a, b, c = sibling(tree, v), left(tree, v), right(tree, v)
        if is_touched[p] or is_touched[v] or is_touched[a] or is_touched[b] or is_touched[c]:
            continue
        now, with_b, with_c = pairs[v] * sizes[a], aunt_pairs[b] * sizes[c], aunt_pairs[c] * sizes[b]
        if with_c > with_b:
            b, c, with_b = c, b, with_c
        if with_b > now:
            swap(tree, a, c)
            sizes[v] = sizes[a] + sizes[b]
            made += 1
            gain += with_b - now
            is_touched[p] = is_touched[v] = is_touched[a] = is_touched[b] = is_touched[c] = 1
            is_changed[p] = is_changed[v] = 1
            if parent(tree, p) != NONE:
                is_changed[parent(tree, p)] = 1
    return made, gain
