"""Nodes that wait to be merged under single, complete or average linkage of a distance of scipy's, in O(n) memory.

The distances of a node to all others are a row. Of the latest rows as many are kept as fit into ``ROOM``; when two
nodes merge, the row of their union follows from theirs (Lance and Williams). Another row is computed from the points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from grinch._types import Floats, Ids, Slots
from grinch.baselines.agglomeration import Candidates, tree_of_merges
from grinch.linkage.pairwise import Pairwise
from grinch.tree import NONE, Tree

# Bytes for rows, and for distances that are computed at a time.
ROOM, PIECE = 2**26, 2**24


def undefined(metric: object) -> ValueError:
    return ValueError(
        f"metric={metric!r} is not defined for some rows of X (scipy gives nan), perhaps constant or zero ones;"
        " drop those rows or use another metric"
    )


class DistanceRows:
    """A pool of nodes for :func:`~grinch.baselines.agglomeration.merge_by_chain`."""

    def __init__(self, points: Floats, linkage: Pairwise):
        n = len(points)
        self.linkage, self.n_leaves, self.n_scores, self.size = linkage, n, 0, n
        self._points = points
        # By slot, of which a union takes one of its sides': the node in it, NONE if there is none, and its leaves.
        self._node, self._sizes = np.arange(n, dtype=np.int32), np.ones(n)
        self._slot_of_leaf = np.arange(n)
        self._slot_of = dict(enumerate(range(n)))
        self._sides, self._scores = list[tuple[int, int]](), list[float]()
        self._kept = np.empty((min(n, max(ROOM // (8 * max(n, 1)), 2)), n))
        # Places in these by slot, the latest row last.
        self._place: dict[int, int] = {}

    def nodes(self) -> Ids:
        return self._node[self._node != NONE]

    def scores(self, node: int) -> Candidates:
        """Return the scores of a node with all others."""
        row = self._row(self._slot_of[node])
        others = (self._node != NONE) & (self._node != node)
        self.n_scores += self.size - 1
        return Candidates(self._node[others], -row[others])

    def merge(self, u: int, v: int, score: float, scored: bool = False) -> None:
        """Replace two nodes by their union."""
        a, b = self._slot_of.pop(u), self._slot_of.pop(v)
        union, places = self._united(a, b, self._row(a), self._row(b)), list(self._place.values())
        self._kept[places, a] = self._united(a, b, self._kept[places, a], self._kept[places, b])
        self._kept[self._place[a]] = union
        # The row of b is the first that another takes the place of.
        self._place = {b: self._place.pop(b), **self._place}
        self._slot_of_leaf[self._slot_of_leaf == b] = a
        self._sizes[a] += self._sizes[b]
        node = self.n_leaves + len(self._sides)
        self._node[a], self._node[b], self._slot_of[node] = node, NONE, a
        self._sides.append((u, v))
        self._scores.append(score)
        self.size -= 1

    def tree(self) -> Tree:
        """Return the tree of all merges; what is still in the pool is joined at the top, with score -inf."""
        pairs, left_over = np.array(self._sides, np.int64).reshape(-1, 2), np.sort(self.nodes()).astype(np.int64)
        return tree_of_merges(self.n_leaves, pairs, np.array(self._scores), left_over, self.linkage.ceiling)

    def _row(self, slot: int) -> Floats:
        if slot in self._place:
            self._place[slot] = place = self._place.pop(slot)
        elif len(self._place) < len(self._kept):
            self._place[slot] = place = len(self._place)
            self._kept[place] = self._computed(slot)
        else:
            place = self._place.pop(next(iter(self._place)))
            self._place[slot] = place
            self._kept[place] = self._computed(slot)
        return self._kept[place]

    def _computed(self, slot: int) -> Floats:
        """Return the distances of a node to all others, from those of their leaves."""
        n, of_leaf = self.n_leaves, self._slot_of_leaf
        members = np.flatnonzero(of_leaf == slot)
        step = max(PIECE // (8 * n), 1)
        pieces: Any = (self._distances(members[i : i + step]) for i in range(0, len(members), step))
        if self.linkage.kind == "average":
            sums = sum(piece.sum(axis=0) for piece in pieces)
            return np.bincount(of_leaf, sums, n) / np.maximum(len(members) * self._sizes, 1.0)
        best = np.minimum if self.linkage.kind == "single" else np.maximum
        found = np.full(n, np.inf if self.linkage.kind == "single" else -np.inf)
        best.at(found, of_leaf, best.reduce([best.reduce(piece, axis=0) for piece in pieces], axis=0))
        return found

    def _distances(self, leaves: Slots) -> Floats:
        distances = np.asarray(cdist(self._points[leaves], self._points, self.linkage.distance))
        if np.isnan(distances).any():
            raise undefined(self.linkage.distance)
        return distances

    def _united(self, a: int, b: int, to_a: Floats, to_b: Floats) -> Floats:
        """Return the distances to the union of two nodes from those to both."""
        if self.linkage.kind == "average":
            return (self._sizes[a] * to_a + self._sizes[b] * to_b) / (self._sizes[a] + self._sizes[b])
        found: Floats = (np.minimum if self.linkage.kind == "single" else np.maximum)(to_a, to_b)
        return found
