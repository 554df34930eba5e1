"""How far apart a tree puts neighbours, and swaps that bring them together.

Every point has a few neighbours. The cost of a pair is how many points are under its lowest common ancestor, and the
cost of a tree is the mean over all pairs: Dasgupta's cost (STOC 2016) of the graph of neighbours, for an edge. It needs
no labels, and of several trees of the same points the one with the lower cost is mostly the purer (docs/settings.md).

``table`` is that of :class:`~grinch.tree.links.Links`; ``near`` has the neighbours of each leaf, padded with NONE.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._compile import kernel
from grinch._types import Counts, Flags, Ids
from grinch.tree import walks
from grinch.tree.links import LEAVES, LEFT, NONE, OFFSET, PARENT, RIGHT, ROOT, Links, swap
from grinch.tree.paths import Paths, fill_paths, new_paths

# How many neighbours of a point count: with more, large classes gain and small ones lose.
COUNTED = 10
# Two to four hundred sweeps are the most that 20,000 points took.
MOST_SWEEPS = 500


class Swaps(NamedTuple):
    """What a sweep did: how many swaps it made, and the summed cost of all pairs before and after it."""

    made: int
    before: float
    after: float


class NeighborCost:
    """The neighbours of the points of a tree under construction, and where in the tree each pair of them parts.

    Where they part is counted again only around the swaps of the last sweep, as long as nothing else changes the tree.
    """

    def __init__(self, near: Ids, capacity: int):
        self.near, self.n_pairs = near, int((near != NONE).sum())
        self._parted = np.full((*near.shape, 3), NONE, np.int32)
        self._parents = walks.no_nodes(0)
        self._sizes = np.zeros(2 * capacity, np.int64)
        self._pairs, self._aunt_pairs = np.zeros(2 * capacity, np.int32), np.zeros(2 * capacity, np.int32)
        self._is_touched, self._is_changed = np.zeros(2 * capacity, np.uint8), np.zeros(2 * capacity, np.uint8)
        self._paths = new_paths(2 * capacity)

    def cost(self, links: Links) -> float:
        """The mean number of points under the common ancestor of two neighbours; nan without any."""
        self._count(links)
        return self._total() / self.n_pairs if self.n_pairs else float("nan")

    def sweep(self, links: Links) -> Swaps:
        """Swap a node with its aunt wherever that lowers the cost, from the bottom to the top, once."""
        preorder = self._count(links)
        before = self._total()
        self._is_touched[:] = 0
        scratch = (self._sizes, self._pairs, self._aunt_pairs, self._is_touched, self._is_changed)
        made, gain = swap_with_aunts(links, preorder, *scratch)
        self._parents = links.table[:, PARENT].copy()
        return Swaps(int(made), before, before - float(gain))

    def _total(self) -> float:
        return float(self._pairs @ self._sizes)

    def _count(self, links: Links) -> Ids:
        """Count the leaves under each node, and the pairs that part there; the order it was done in."""
        preorder = walks.no_nodes(2 * int(links.head[LEAVES]) - 1)
        offset = int(links.head[OFFSET])
        walks.fill_preorder(links.table, int(links.head[ROOT]), offset, preorder)
        self._sizes[:] = 0
        walks.fill_sizes(links.table, preorder, offset, self._sizes)
        fill_paths(links.table, preorder, offset, self._sizes, self._paths)
        if not np.array_equal(self._parents, links.table[:, PARENT]):
            # Not the tree that the last sweep left behind: nothing that was counted holds.
            self._parted[..., 0] = NONE
            self._pairs[:] = 0
            self._aunt_pairs[:] = 0
        count_pairs(self.near, self._paths, self._is_changed, self._parted, self._pairs, self._aunt_pairs)
        self._is_changed[:] = 0
        self._parents = links.table[:, PARENT].copy()
        return preorder


@kernel
def count_pairs(near: Ids, paths: Paths, is_changed: Flags, parted: Ids, pairs: Ids, aunt_pairs: Ids) -> None:
    """By node, the pairs of neighbours that part there; and those of its own leaves with leaves of its aunt.

    ``parted`` has for each pair the node where it parts and, on both sides, the grandchild of that node it came by.
    """
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


@kernel
def swap_with_aunts(
    tree: Links,
    preorder: Ids,
    sizes: Counts,
    pairs: Ids,
    aunt_pairs: Ids,
    is_touched: Flags,
    is_changed: Flags,
) -> tuple[int, int]:
    """One sweep, children before parents; returns the number of swaps and what they gain.

    For v with children b and c and sibling a, each of the three can be the one that stays outside. The pairs of the two
    that stay together save as many points as are in the third. Nodes around a swap wait for the next count, which is
    for the pairs that part at the nodes in ``is_changed``.
    """
    table, made, gain = tree.table, 0, 0
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        p = table[v, PARENT]
        if v < tree.head[OFFSET] or p == NONE:
            continue
        a, b, c = table[p, LEFT] + table[p, RIGHT] - v, table[v, LEFT], table[v, RIGHT]
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
            if table[p, PARENT] != NONE:
                is_changed[table[p, PARENT]] = 1
    return made, gain
