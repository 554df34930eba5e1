"""The nearest points that each point has met: a graph of neighbours that needs no search of its own.

A point that arrives finds neighbours among the points before it. Those after it find it in turn, if they are near, and
so become known to it. So hardly any neighbour is missed, in whatever order the points come.
"""

from __future__ import annotations

import numpy as np

from grinch._compile import entry, jitable
from grinch._types import Counts, Ids, Mask, Slots, Vectors32, as_id
from grinch.core.engine import Engine
from grinch.core.state import State
from grinch.summaries.upkeep import score_all
from grinch.tree.links import NONE, size


class KnownNeighbors:
    """The neighbours that the first points know of, by slot, best first; up to ``most_points`` points.

    ``near[x]`` has the neighbours that x found, until x has met them (:meth:`meet`); then the nearest of those and of
    the points that met x since, with their ``scores``. ``met`` says how many slots have been through that.
    """

    def __init__(self, most_points: int, width: int):
        self.most_points, self.width = most_points, width
        self.is_complete = True
        """Whether there is no other point in the tree."""
        self._forget()

    def _forget(self) -> None:
        self.near: Ids = np.empty((0, self.width), np.int32)
        self.scores: Vectors32 = np.empty((0, self.width), np.float32)
        self.met: Counts = np.zeros(1, np.int64)
        self.unit = 1.0

    def note(self, first: int, candidates: Ids) -> None:
        """The neighbours that the points from slot ``first`` on found, best first; those may not get in after all."""
        if first >= self.most_points:
            # Too many points for all to be known: there is nothing to keep.
            self.is_complete = False
            self._forget()
        if not self.is_complete:
            return
        rows = candidates[: self.most_points - first, : self.width]
        self._make_room(first + len(rows))
        self.near[first : first + len(rows), : rows.shape[1]] = rows
        self.near[first : first + len(rows), rows.shape[1] :] = NONE

    def _make_room(self, n: int) -> None:
        is_locked = not (self.near.flags.writeable and self.scores.flags.writeable and self.met.flags.writeable)
        if n > len(self.near) or is_locked:  # joblib locks what it loads
            room = len(self.near) if n <= len(self.near) else min(max(n, 2 * len(self.near)), self.most_points)
            near, scores = np.full((room, self.width), NONE, np.int32), np.zeros((room, self.width), np.float32)
            near[: len(self.near)], scores[: len(self.scores)] = self.near, self.scores
            self.near, self.scores, self.met = near, scores, self.met.copy()

    def meet(self, engine: Engine) -> None:
        """All points of the tree become known to those that they found."""
        unit = float(engine.summaries.in_units(np.ones(1))[0])
        if unit != self.unit:
            self.scores *= self.unit / unit
            self.unit = unit
        self._make_room(engine.n_slots)
        with engine.explained():
            engine.run(meet_all, self.near, self.scores, self.met, engine.n_slots)

    def among(self, slots: Slots) -> Ids:
        """By slot, the neighbours of these points among them; nothing for all other points."""
        is_in = np.zeros(len(self.near) + 1, np.bool_)  # one more, where NONE points
        is_in[slots] = True
        near = self.near[: slots[-1] + 1]
        return _packed(near, is_in[near] & is_in[: len(near), None])[0]

    def compacted(self, slots: Slots) -> None:
        """Only these slots are left, counted from 0."""
        self.is_complete = self.is_complete and bool((slots < len(self.near)).all())
        if not self.is_complete:
            self._forget()
            return
        new_slot = np.full(len(self.near) + 1, NONE, np.int32)
        new_slot[slots] = np.arange(len(slots))
        near = new_slot[self.near[slots]]
        self.near, order = _packed(near, near != NONE)
        self.scores = np.take_along_axis(self.scores[slots], order, axis=1)
        self.met = np.searchsorted(slots, self.met).astype(np.int64)


def _packed(near: Ids, is_kept: Mask) -> tuple[Ids, Slots]:
    """The neighbours that are kept, in the same order without gaps, padded with NONE; and which column each was in."""
    order = np.argsort(~is_kept, axis=1, kind="stable")
    packed = np.take_along_axis(near, order, axis=1)
    packed[np.arange(near.shape[1]) >= is_kept.sum(axis=1, keepdims=True)] = NONE
    return packed, order


@entry
def meet_all(state: State, near: Ids, scores: Vectors32, met: Counts, stop: int) -> None:
    """Let the points from slot ``met[0]`` to ``stop`` meet the neighbours they found, and become known to them.

    What a linkage raises leaves all as it was before that point.
    """
    while met[0] < stop:
        x = as_id(met[0])
        n = drop_gone(state, near, x)
        score_all(state, x, near[x], n)
        for i in range(n):
            leaf, f = as_id(near[x, i]), float(np.float32(state.answers[i]))
            # The search has put them in order, but not always by this very score.
            put_in_order(near, scores, x, leaf, f, i)
            if near[leaf, near.shape[1] - 1] == NONE or f > scores[leaf, near.shape[1] - 1]:
                put_in_order(near, scores, leaf, x, f, known_to(near, leaf))
        met[0] += 1


@jitable
def drop_gone(state: State, near: Ids, x: int) -> int:
    """Leave only those neighbours of x that are in the tree, none if x is not; returns how many there are."""
    kept = 0
    for i in range(near.shape[1]):
        leaf = as_id(near[x, i])
        if leaf == NONE:
            break
        if size(state, x) != NONE and size(state, leaf) != NONE:
            near[x, kept] = leaf
            kept += 1
    near[x, kept:] = NONE
    return kept


@jitable
def known_to(near: Ids, leaf: int) -> int:
    """The column for one more neighbour of a leaf: the first that is free, or else the last."""
    n = near.shape[1] - 1
    while n > 0 and near[leaf, n - 1] == NONE:
        n -= 1
    return n


@jitable
def put_in_order(near: Ids, scores: Vectors32, x: int, leaf: int, f: float, at: int) -> None:
    """Make a leaf a neighbour of x, before all that score less; column ``at`` is free, and those after it are as well.

    Of equals those that came first are kept.
    """
    while at > 0 and scores[x, at - 1] < f:
        near[x, at], scores[x, at] = near[x, at - 1], scores[x, at - 1]
        at -= 1
    near[x, at], scores[x, at] = leaf, f
