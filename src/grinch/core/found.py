"""Candidates that were found when points came: a graph of neighbours that costs nothing."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from grinch._types import Ids, Slots
from grinch.saving.state import Fields, State, are_within, require
from grinch.tree import NONE

FIELDS = Fields(_near=("<i4", 2))


class FoundOnArrival:
    """By slot, the candidates that a point had when it came, best first; all of them came before it."""

    def __init__(self, k: int):
        self._near: Ids = np.full((0, k), NONE, np.int32)

    def to_state(self) -> State:
        return FIELDS.take(self)

    @classmethod
    def from_state(cls, state: Any) -> Self:
        return FIELDS.new(cls, state)

    def validate(self, n: int, k: int) -> None:
        """Refuse what is not of ``n`` points with ``k`` candidates each."""
        require(self._near.shape[1] == k and len(self._near) >= n, "candidates are not there for all records")
        require(are_within(self._near[:n], NONE, max(n, 1)), "a candidate is none of the records")

    def note(self, first: int, candidates: Ids) -> None:
        """The candidates of the points from slot ``first`` on."""
        stop = first + len(candidates)
        if stop > len(self._near) or not self._near.flags.writeable:
            larger = np.full((max(stop, 3 * len(self._near) // 2), self._near.shape[1]), NONE, np.int32)
            larger[: len(self._near)] = self._near
            self._near = larger
        width = min(candidates.shape[1], self._near.shape[1])
        self._near[first:stop] = NONE
        self._near[first:stop, :width] = candidates[:, :width]

    def among(self, slots: Slots, n_slots: int) -> Ids:
        """By slot, the candidates that are among these points, and came together with one of them."""
        near = self._near[:n_slots].copy()
        is_in = np.zeros(n_slots + 1, np.bool_)  # one more, where NONE points
        is_in[slots] = True
        near[~(is_in[near] & is_in[:n_slots, None])] = NONE
        return np.take_along_axis(near, np.argsort(near == NONE, axis=1, kind="stable"), axis=1)

    def compacted(self, slots: Slots) -> None:
        """Only these slots are left, counted from 0."""
        new_slot = np.full(len(self._near) + 1, NONE, np.int32)
        new_slot[slots] = np.arange(len(slots))
        self._near = new_slot[self._near[slots]]
