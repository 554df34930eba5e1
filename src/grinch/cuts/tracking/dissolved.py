"""The clusters of an automatic cut that dissolved in its last ten cuts, and the clusters that they come back as.

The points of each are remembered from when it dissolved, without those that were removed since. What is remembered
between two cuts is a generation; when a cut is made, the eleventh is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from grinch._compile import jitable, kernel
from grinch._types import Counts, Labels, Mask, Slots, as_id
from grinch.cuts.tracking.follower import Arrays
from grinch.tree.links import Links, is_leaf, left, parent, right

# For how many cuts a cluster is remembered.
N_CUTS = 10
# Two clusters are much the same if they share this many fifths of the larger.
FIFTHS = 3


def _no_numbers() -> Any:
    return np.empty(0, np.int64)


@dataclass
class Generation:
    """Clusters that dissolved after one cut, before the next.

    By cluster: ``ids``, -1 once it has come back, and ``sizes``, how many of its points are still there. By point:
    ``positions``, ascending, each once for every cluster it was in; and ``clusters``, the numbers of these.
    """

    cut: int
    ids: Labels = field(default_factory=_no_numbers)
    sizes: Counts = field(default_factory=_no_numbers)
    positions: Counts = field(default_factory=_no_numbers)
    clusters: Slots = field(default_factory=_no_numbers)

    def add(self, owners: Labels, positions: Counts) -> None:
        """Remember points by the cluster that each was in."""
        ids, numbers, sizes = np.unique(owners, return_inverse=True, return_counts=True)
        positions = np.append(self.positions, positions)
        clusters = np.append(self.clusters, len(self.ids) + numbers)
        self.ids, self.sizes = np.append(self.ids, ids), np.append(self.sizes, sizes)
        order = np.argsort(positions, kind="stable")
        self.positions, self.clusters = positions[order], clusters[order]

    def shared_with(self, positions: Counts) -> tuple[Slots, Slots]:
        """Return the pairs of a point here and one of some others, by ascending position, that are the same."""
        n = len(self.positions)
        here, there = np.empty(n, np.intp), np.empty(n, np.intp)
        count = _pair(self.positions, positions, here, there) if n and len(positions) else 0
        return here[:count], there[:count]


class Dissolved:
    """The clusters of one cut that dissolved in the last ten cuts."""

    def __init__(self) -> None:
        self._generations = [Generation(0)]

    def begin(self) -> None:
        """Begin another generation, for a cut was made; forget the one of eleven cuts ago."""
        cut = self._generations[-1].cut + 1
        self._generations = [old for old in self._generations if cut - old.cut <= N_CUTS and (old.ids >= 0).any()]
        self._generations.append(Generation(cut))

    def add(self, links: Links, oldest: Counts, nodes: Slots, owners: Labels) -> None:
        """Remember the points under some nodes, with the cluster that those under each were in."""
        if len(nodes):
            slots, numbers = leaves_of(links, nodes)
            self._generations[-1].add(owners[numbers], oldest[slots])

    def remove(self, positions: Counts) -> None:
        """Note that points are no longer there."""
        positions = np.sort(positions)
        for each in self._generations:
            here, _ = each.shared_with(positions)
            np.subtract.at(each.sizes, each.clusters[here], 1)

    @property
    def is_empty(self) -> bool:
        return not any(len(each.ids) for each in self._generations)

    def come_back(
        self, links: Links, oldest: Counts, ends: Slots, clusters: Slots, sizes: Counts, shared: Counts
    ) -> tuple[Slots, Labels]:
        """Return the numbers of the clusters that are remembered ones, and the ids of these, which are forgotten.

        Parameters
        ----------
        links, oldest
            The tree, and by node the position of the oldest point.
        ends, clusters : arrays
            The nodes of the clusters, and the number of the cluster of each.
        sizes, shared : arrays
            By cluster, the number of its points, and of those that were in the cluster that it is now; all of them if
            no other can have more of a claim.
        """
        is_open = shared < sizes
        some = is_open[clusters]
        if not some.any():
            return np.empty(0, np.intp), np.empty(0, np.int64)
        slots, numbers = leaves_of(links, ends[some])
        order = np.argsort(oldest[slots])
        positions, numbers = oldest[slots][order], clusters[some][numbers[order]]
        pairs = [np.empty((0, 4), np.int64)]
        for at, each in enumerate(self._generations):
            here, there = each.shared_with(positions)
            both, counts = np.unique(each.clusters[here] * len(sizes) + numbers[there], return_counts=True)
            old, new = np.divmod(both, max(len(sizes), 1))
            is_same = are_much_the_same(counts, each.sizes[old], sizes[new]) & (counts > shared[new])
            is_same &= each.ids[old] >= 0
            pairs.append(np.column_stack([new, -counts, np.full(len(old), -at), old])[is_same])
        found = np.unique(np.concatenate(pairs), axis=0)  # in this order: the most shared, of equals the latest
        found = found[np.unique(found[:, 0], return_index=True)[1]]
        ids = np.array([self._forget(-at, old) for at, old in found[:, 2:].tolist()], np.int64)
        return found[:, 0], ids

    def _forget(self, at: int, cluster: int) -> int:
        ids = self._generations[at].ids
        found, ids[cluster] = int(ids[cluster]), -1
        return found

    # Saving -------------------------------------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return what is remembered as arrays; the last cut has an entry of its own, with no cluster."""
        generations = self._generations
        first = np.cumsum([0, *(len(each.ids) for each in generations)])
        return {
            "cuts": np.array([each.cut for each in generations], np.int64),
            "lengths": np.array([(len(each.ids), len(each.positions)) for each in generations], np.int64),
            "ids": np.concatenate([each.ids for each in generations]),
            "sizes": np.concatenate([each.sizes for each in generations]),
            "positions": np.concatenate([each.positions for each in generations]),
            "clusters": np.concatenate([each.clusters + at for each, at in zip(generations, first, strict=False)]),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Go on with what was remembered."""
        dissolved, at, point = cls(), 0, 0
        dissolved._generations = []
        for cut, (n, n_points) in zip(arrays["cuts"].tolist(), arrays["lengths"].tolist(), strict=True):
            ids, sizes = (arrays[name][at : at + n].copy() for name in ("ids", "sizes"))
            positions, clusters = (arrays[name][point : point + n_points] for name in ("positions", "clusters"))
            dissolved._generations.append(Generation(cut, ids, sizes, positions, clusters - at))
            at, point = at + n, point + n_points
        return dissolved


def are_much_the_same(shared: Counts, sizes: Counts, others: Counts) -> Mask:
    """Return which clusters share at least three fifths of the larger of two."""
    return 5 * shared >= FIFTHS * np.maximum(sizes, others)


def leaves_of(links: Links, nodes: Slots) -> tuple[Slots, Slots]:
    """Return the leaves under some nodes, none of which is under another, and the place of the node of each."""
    n = links.n_leaves
    slots, numbers = np.empty(n, np.intp), np.empty(n, np.intp)
    count = _fill_leaves(links, nodes, slots, numbers)
    return slots[:count], numbers[:count]


@kernel
def _fill_leaves(tree: Links, nodes: Slots, slots: Slots, numbers: Slots) -> int:
    count = 0
    for i in range(nodes.shape[0]):
        top = as_id(nodes[i])
        v = top
        while v != -1:
            if is_leaf(tree, v):
                slots[count], numbers[count] = v, i
                count += 1
                v = _next(tree, v, top)
            else:
                v = left(tree, v)
    return count


@jitable
def _next(tree: Links, leaf: int, top: int) -> int:
    """Return the right sibling that comes next after a leaf, below ``top``; -1 if there is none."""
    v = as_id(leaf)
    while v != top:
        p = parent(tree, v)
        if right(tree, p) != v:
            return right(tree, p)
        v = p
    return as_id(-1)


@kernel
def _pair(positions: Counts, others: Counts, here: Slots, there: Slots) -> int:
    """Fill in where two ascending arrays are the same; the second has each number once."""
    count, j = 0, 0
    for i in range(positions.shape[0]):
        while j < others.shape[0] and others[j] < positions[i]:
            j += 1
        if j == others.shape[0]:
            break
        if others[j] == positions[i]:
            here[count], there[count] = i, j
            count += 1
    return count
