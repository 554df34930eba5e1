"""The nearest points that each point has met: a graph of neighbours that needs no search of its own.

A point that arrives finds neighbours among the points before it. Those after it find it in turn, if they are near, and
so become known to it. So hardly any neighbour is missed, in whatever order the points come.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from grinch._compile import entry
from grinch._types import Counts, Ids, Mask, Slots, Vectors32, as_id
from grinch.core.engine import Engine
from grinch.core.entries import known_to, put_in_order, score_found
from grinch.saving.state import Fields, State, are_within, require
from grinch.tree.links import NONE, SIZE

FIELDS = Fields(
    most_points=int,
    width=int,
    is_complete=bool,
    unit=float,
    near=("<i4", 2),
    scores=("<f4", 2),
    met=("<i8", 1),
)


class KnownNeighbors:
    """The neighbours that the first points know of, by slot, best first; up to ``most_points`` points.

    ``near[x]`` has the neighbours that x found until it has met them (:meth:`meet`), and then the nearest of those and
    of the points that met x since; ``scores`` says how near. ``met`` is how many slots have been through that.
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

    def to_state(self) -> State:
        return FIELDS.take(self)

    @classmethod
    def from_state(cls, state: Any) -> Self:
        return FIELDS.new(cls, state)

    def validate(self, n: int, is_due: bool) -> None:
        """Refuse what is not of ``n`` points; ``is_due`` says whether a polish comes before the next one."""
        require(self.near.shape == self.scores.shape and self.near.shape[1] == self.width, "neighbours have no scores")
        require(self.met.shape == (1,) and 0 <= self.met[0] <= n, "not that many points have met")
        require(np.isfinite(self.unit) and self.unit > 0, "scores of neighbours have no unit")
        if self.is_complete:
            require(len(self.near) >= min(n, self.most_points), "neighbours are not known of all points")
            require(not is_due or n <= self.most_points, "too many points are to be polished")
        near = self.near[:n]
        require(are_within(near, NONE, max(min(n, len(self.near)), 1)), "a neighbour is none of the points")
        is_none = near == NONE
        require(not (is_none[:, :-1] & ~is_none[:, 1:]).any(), "there are gaps between neighbours")

    def note(self, engine: Engine, first: int, candidates: Ids) -> None:
        """The neighbours that the points from slot ``first`` on found, best first; those may not get in after all."""
        if not self.is_complete:
            return
        if first >= self.most_points:
            # Too many points for all to be known: there is nothing to keep.
            self.give_up()
            return
        rows = candidates[: self.most_points - first, : self.width]
        stop = first + len(rows)
        self._make_room(stop)
        self._use_unit(float(engine.summaries.in_units(np.ones(1))[0]))
        self.near[first:stop, : rows.shape[1]] = rows
        self.near[first:stop, rows.shape[1] :] = NONE
        # Before they are in the tree, so that none of them gets in where the linkage raises anything.
        engine.run(score_found, np.arange(first, stop), self.near[first:stop], self.scores[first:stop])

    def give_up(self) -> None:
        """There are points whose neighbours will never be known."""
        self.is_complete = False
        self._forget()

    def _use_unit(self, unit: float) -> None:
        """From here on, scores are in this unit: it changes where that of the stored vectors does."""
        if unit != self.unit:
            with np.errstate(over="ignore"):
                self.scores = (self.scores * np.float64(self.unit / unit)).astype(np.float32)
            self.unit = unit

    def _make_room(self, n: int) -> None:
        is_locked = not (self.near.flags.writeable and self.scores.flags.writeable and self.met.flags.writeable)
        if n > len(self.near) or is_locked:  # joblib locks what it loads
            room = len(self.near) if n <= len(self.near) else min(max(n, 2 * len(self.near)), self.most_points)
            near, scores = np.full((room, self.width), NONE, np.int32), np.zeros((room, self.width), np.float32)
            near[: len(self.near)], scores[: len(self.scores)] = self.near, self.scores
            self.near, self.scores, self.met = near, scores, self.met.copy()

    def meet(self, engine: Engine) -> None:
        """All points of the tree become known to those that they found."""
        self._make_room(engine.n_slots)
        meet_all(engine.links.table, self.near, self.scores, self.met, engine.n_slots)

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
def meet_all(table: Ids, near: Ids, scores: Vectors32, met: Counts, stop: int) -> None:
    """Let the points from slot ``met[0]`` to ``stop`` be known to the neighbours they found.

    ``table`` is that of the tree: who is no longer in it meets nobody.
    """
    last = near.shape[1] - 1
    while met[0] < stop:
        x = as_id(met[0])
        for i in range(known_to(near, x) if table[x, SIZE] != NONE else 0):
            leaf, f = as_id(near[x, i]), scores[x, i]
            if table[leaf, SIZE] != NONE and (near[leaf, last] == NONE or f > scores[leaf, last]):
                put_in_order(near, scores, leaf, x, f, min(known_to(near, leaf), last))
        met[0] += 1
