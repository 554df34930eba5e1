"""The neighbours that points find when they arrive: a graph of neighbours that needs no search of its own.

A point that arrives finds neighbours among the points before it. Those after it find it in turn, if they are near, and
so become known to it. So hardly any neighbour is missed, in whatever order the points come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from grinch._compile import entry
from grinch._types import Counts, Ids, Mask, Slots, Vectors32, as_id
from grinch.core.moves import known_to, put_in_order, score_found
from grinch.saving.state import Fields, State, are_within, require, scalar
from grinch.tree.links import NO_LIMIT, NONE, SIZE

if TYPE_CHECKING:
    from grinch.core.engine import Engine


class ArrivalNeighbors:
    """The neighbours that each point found when it arrived, by slot, best first; all of them arrived before it."""

    fields = Fields(near=("<i4", 2))

    def __init__(self, width: int):
        self.max_points, self.width = NO_LIMIT, width
        self.near: Ids = np.empty((0, width), np.int32)

    def to_state(self) -> State:
        return self.fields.take(self)

    @classmethod
    def from_state(cls, state: Any) -> Self:
        neighbors = cls.fields.new(cls, state)
        neighbors.max_points, neighbors.width = NO_LIMIT, neighbors.near.shape[1]
        return neighbors

    def validate(self, n: int, width: int) -> None:
        """Raise an error for a state that is not of ``n`` points with ``width`` neighbours each."""
        require(self.width == width and len(self.near) >= n, "candidates are not there for all records")
        require(are_within(self.near[:n], NONE, max(n, 1)), "a candidate is none of the records")

    def note(self, first: int, candidates: Ids) -> None:
        """Write down the neighbours of the points from slot ``first`` on, best first."""
        rows = candidates[: self.max_points - first, : self.width]
        stop = first + len(rows)
        self._reserve(stop)
        self.near[first:stop, : rows.shape[1]] = rows
        self.near[first:stop, rows.shape[1] :] = NONE

    def _reserve(self, n: int) -> None:
        """Make room for n points; joblib makes arrays read-only when it loads them."""
        if n > len(self.near) or not self.near.flags.writeable:
            self.near = self._enlarged(self.near, n, NONE)

    def _enlarged(self, old: Any, n: int, fill: int) -> Any:
        """Return a copy of an array that has room for n points."""
        room = len(old) if n <= len(old) else min(max(n, 2 * len(old)), self.max_points)
        new = np.full((room, self.width), fill, old.dtype)
        new[: len(old)] = old
        return new

    def among(self, slots: Slots, n_slots: int) -> Ids:
        """Return, for the first slots, the neighbours of these points among them; none for all other points."""
        near, is_in = self.near[:n_slots], np.zeros(len(self.near) + 1, np.bool_)  # one more, where NONE points
        is_in[slots] = True
        return _packed(near, is_in[near] & is_in[: len(near), None])[0]

    def compacted(self, slots: Slots) -> None:
        """Keep these slots only, numbered from 0."""
        self._renumber(slots)

    def _renumber(self, slots: Slots) -> Slots:
        """Keep these slots only; return which column each neighbour was in."""
        new_slot = np.full(len(self.near) + 1, NONE, np.int32)
        new_slot[slots] = np.arange(len(slots))
        near = new_slot[self.near[slots]]
        self.near, columns = _packed(near, near != NONE)
        return columns


class KnownNeighbors(ArrivalNeighbors):
    """The neighbours that the first points know of, by slot, best first; up to ``max_points`` points.

    ``near[x]`` has the neighbours that x found until it has met them (:meth:`meet`), and then the nearest of those and
    of the points that met x since; ``scores`` are their scores with x. ``met`` is how many slots went through that.
    ``is_complete``: there is no other point in the tree.
    """

    fields = Fields(width=int, is_complete=bool, unit=float, near=("<i4", 2), scores=("<f4", 2), met=("<i8", 1))

    def __init__(self, max_points: int, width: int):
        super().__init__(width)
        self.max_points, self.is_complete = max_points, True
        self._forget()

    def _forget(self) -> None:
        self.near = np.empty((0, self.width), np.int32)
        self.scores: Vectors32 = np.empty((0, self.width), np.float32)
        self.met: Counts = np.zeros(1, np.int64)
        self.unit = 1.0

    def to_state(self) -> State:
        return {"most_points": int(self.max_points), **super().to_state()}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        neighbors = cls.fields.new(cls, state)
        neighbors.max_points = scalar(state, "most_points", int)
        return neighbors

    def validate_known(self, n: int, is_due: bool) -> None:
        """Raise an error for a state that is not of ``n`` points; ``is_due``: a polish comes before the next one."""
        require(self.near.shape == self.scores.shape and self.near.shape[1] == self.width, "neighbours have no scores")
        require(self.met.shape == (1,) and 0 <= self.met[0] <= n, "not that many points have met")
        require(np.isfinite(self.unit) and self.unit > 0, "scores of neighbours have no unit")
        if self.is_complete:
            require(len(self.near) >= min(n, self.max_points), "neighbours are not known of all points")
            require(not is_due or n <= self.max_points, "too many points are to be polished")
        near = self.near[:n]
        require(are_within(near, NONE, max(min(n, len(self.near)), 1)), "a neighbour is none of the points")
        is_none = near == NONE
        require(not (is_none[:, :-1] & ~is_none[:, 1:]).any(), "there are gaps between neighbours")

    def note_scored(self, engine: Engine, first: int, candidates: Ids) -> None:
        """Write down the neighbours of the points from slot ``first`` on, and score them; points may be refused later.

        With too many points for all to be known, everything is forgotten.
        """
        if self.is_complete and first >= self.max_points:
            self.give_up()
        if not self.is_complete:
            return
        self._use_unit(float(engine.summaries.in_units(np.ones(1))[0]))
        self.note(first, candidates)
        new = slice(first, min(first + len(candidates), self.max_points))
        # Before they are in the tree, so that none of them gets in where the linkage raises anything.
        engine.run(score_found, np.arange(new.start, new.stop), self.near[new], self.scores[new])

    def adopt(self, engine: Engine, count: int) -> None:
        """Find the neighbours of the points of a tree that was built elsewhere."""
        if count >= self.max_points:
            self.give_up()
            return
        for first, candidates in engine.search.stream(0, count):
            self.note_scored(engine, first, candidates)

    def give_up(self) -> None:
        """Forget everything: the neighbours of some points will never be known."""
        self.is_complete = False
        self._forget()

    def _use_unit(self, unit: float) -> None:
        """Convert scores to this unit: it changes where that of the stored vectors does."""
        if unit != self.unit:
            with np.errstate(over="ignore"):
                self.scores = (self.scores * np.float64(self.unit / unit)).astype(np.float32)
            self.unit = unit

    def _reserve(self, n: int) -> None:
        arrays = self.near, self.scores, self.met
        if n > len(self.near) or not all(array.flags.writeable for array in arrays):
            self.near, self.scores = self._enlarged(self.near, n, NONE), self._enlarged(self.scores, n, 0)
            self.met = self.met.copy()

    def meet(self, engine: Engine) -> None:
        """Let all points of the tree become known to those that they found."""
        self._reserve(engine.n_slots)
        meet_all(engine.links.table, self.near, self.scores, self.met, engine.n_slots)

    def compacted(self, slots: Slots) -> None:
        """Keep these slots only, numbered from 0."""
        self.is_complete = self.is_complete and bool((slots < len(self.near)).all())
        if not self.is_complete:
            self._forget()
            return
        self.scores = np.take_along_axis(self.scores[slots], self._renumber(slots), axis=1)
        self.met = np.searchsorted(slots, self.met).astype(np.int64)


def _packed(near: Ids, is_kept: Mask) -> tuple[Ids, Slots]:
    """Return the neighbours that are kept, without gaps and padded with NONE, and which column each was in."""
    columns = np.argsort(~is_kept, axis=1, kind="stable")
    packed = np.take_along_axis(near, columns, axis=1)
    packed[np.arange(near.shape[1]) >= is_kept.sum(axis=1, keepdims=True)] = NONE
    return packed, columns


@entry
def meet_all(table: Ids, near: Ids, scores: Vectors32, met: Counts, stop: int) -> None:
    """Let the points from slot ``met[0]`` to ``stop`` be known to the neighbours they found.

    ``table`` is that of the tree: points that are no longer in it meet no others.
    """
    last = near.shape[1] - 1
    while met[0] < stop:
        x = as_id(met[0])
        for i in range(known_to(near, x) if table[x, SIZE] != NONE else 0):
            leaf, f = as_id(near[x, i]), scores[x, i]
            if table[leaf, SIZE] != NONE and (near[leaf, last] == NONE or f > scores[leaf, last]):
                put_in_order(near, scores, leaf, x, f, min(known_to(near, leaf), last))
        met[0] += 1
