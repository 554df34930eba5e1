"""How far apart a tree puts neighbours, and swaps that bring them together.

Every point has a few neighbours. The cost of a pair is how many points are under its lowest common ancestor, and the
cost of a tree is the mean over all pairs: Dasgupta's cost (STOC 2016) of the graph of neighbours, for an edge. It needs
no labels, and of several trees of the same points the one with the lower cost is mostly the purer (docs/settings.md).

``table`` is that of :class:`~grinch.tree.links.Links`; ``near`` has the neighbours of each leaf, padded with NONE.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._compile import kernel
from grinch.tree import walks
from grinch.tree.links import LEAVES, LEFT, NONE, OFFSET, PARENT, RIGHT, ROOT, Links, swap

Near = npt.NDArray[np.int32]

# Of the neighbours of a point, so many count: with more, large classes gain and small ones lose.
COUNTED = 10
MOST_SWEEPS = 50
# A sweep that lowers the cost by less than this part of it is the last.
LEAST_GAIN = 1e-3


class Swaps(NamedTuple):
    """What a sweep did: how many swaps it made, and the summed cost of all pairs before and after it."""

    made: int
    before: float
    after: float


class Neighborhood:
    """The neighbours of the points of a tree under construction."""

    def __init__(self, near: Near, capacity: int):
        self.near, self.n_pairs = near, int((near != NONE).sum())
        self._sizes, self._depths = np.zeros(2 * capacity, np.int64), np.zeros(2 * capacity, np.int32)
        self._pairs, self._aunt_pairs = np.zeros(2 * capacity, np.int64), np.zeros(2 * capacity, np.int64)
        self._is_touched = np.zeros(2 * capacity, np.uint8)

    def cost(self, links: Links) -> float:
        """The mean number of points under the common ancestor of two neighbours; nan without any."""
        self._count(links)
        return float(self._pairs @ self._sizes) / self.n_pairs if self.n_pairs else float("nan")

    def sweep(self, links: Links) -> Swaps:
        """Swap a node with its aunt wherever that lowers the cost, from the bottom to the top, once."""
        preorder = self._count(links)
        before = float(self._pairs @ self._sizes)
        self._is_touched[:] = 0
        scratch = (self._sizes, self._pairs, self._aunt_pairs, self._is_touched)
        made, gain = swap_with_aunts(links, preorder, *scratch)
        return Swaps(int(made), before, before - float(gain))

    def _count(self, links: Links) -> npt.NDArray[np.int32]:
        """Count anew the leaves, and the pairs that part at each node; the order it was done in."""
        preorder = walks.no_nodes(2 * int(links.head[LEAVES]) - 1)
        offset = int(links.head[OFFSET])
        walks.fill_preorder(links.table, int(links.head[ROOT]), offset, preorder)
        walks.fill_sizes(links.table, preorder, offset, self._sizes)
        walks.fill_depths(links.table, preorder, offset, self._depths)
        self._pairs[:] = 0
        self._aunt_pairs[:] = 0
        count_pairs(links.table, self._depths, self.near, self._pairs, self._aunt_pairs)
        return preorder


@kernel
def count_pairs(table, depths, near, pairs, aunt_pairs):
    """By node, the pairs of neighbours that part there; and those of its own leaves with leaves of its aunt."""
    for i in range(near.shape[0]):
        for k in range(near.shape[1]):
            if near[i, k] == NONE:
                break
            u, v = i, near[i, k]
            below_u, below_v = NONE, NONE
            child_u, child_v = NONE, NONE
            while u != v:
                if depths[u] >= depths[v]:
                    below_u, child_u, u = child_u, u, table[u, PARENT]
                else:
                    below_v, child_v, v = child_v, v, table[v, PARENT]
            pairs[u] += 1
            if below_u != NONE:
                aunt_pairs[below_u] += 1
            if below_v != NONE:
                aunt_pairs[below_v] += 1


@kernel
def swap_with_aunts(tree, preorder, sizes, pairs, aunt_pairs, is_touched):
    """One sweep, children before parents; returns the number of swaps and what they gain.

    For v with children b and c and sibling a, each of the three can be the one that stays outside. The pairs of the two
    that stay together save as many points as are in the third. Nodes around a swap wait for the next count.
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
    return made, gain
