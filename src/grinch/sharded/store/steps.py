"""What a change does to the branches: a few steps, each of which is whole or not at all, and can be done again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from grinch._types import Counts, Slots
from grinch.sharded.store.branch import Branch
from grinch.store.database import Id

Branches = Mapping[str, Branch]


class Points(NamedTuple):
    """Points on their way into branches: rows, ids inside, what is kept beside them, and their arrival numbers."""

    rows: Any
    names: list[Id]
    payload: list[Any] | None
    numbers: Counts

    def taken(self, kept: Slots) -> Points:
        """Some of them."""
        at = kept.tolist()
        payload = None if self.payload is None else [self.payload[i] for i in at]
        return Points(self.rows[kept], [self.names[i] for i in at], payload, self.numbers[kept])


@dataclass(frozen=True)
class Insert:
    """Points come to a branch."""

    branch: str
    points: Points
    columns: list[str] | None = None

    def apply(self, branches: Branches) -> None:
        some = self.points
        branches[self.branch].insert(some.rows, some.names, some.payload, some.numbers, self.columns)

    def inverse(self, branches: Branches) -> Remove | Update:
        """What takes back the step, asked before it is done."""
        is_there = branches[self.branch].has(self.points.names)
        return Remove(self.branch, [n for n, is_it in zip(self.points.names, is_there, strict=True) if not is_it])


@dataclass(frozen=True)
class Remove:
    """Points leave a branch."""

    branch: str
    names: list[Id]

    def apply(self, branches: Branches) -> None:
        branches[self.branch].remove(self.names)

    def inverse(self, branches: Branches) -> Insert:
        return Insert(self.branch, points_of(branches[self.branch], self.names))


@dataclass(frozen=True)
class Update:
    """Points of a branch get other rows, or another payload."""

    branch: str
    names: list[Id]
    rows: Any
    payload: list[Any] | None

    def apply(self, branches: Branches) -> None:
        branches[self.branch].update(self.names, self.rows, self.payload)

    def inverse(self, branches: Branches) -> Self:
        before = points_of(branches[self.branch], self.names)
        rows = None if self.rows is None else before.rows
        return type(self)(self.branch, self.names, rows, None if self.payload is None else before.payload)


Step = Insert | Remove | Update


def points_of(branch: Branch, names: list[Id]) -> Points:
    """Points that are in a branch."""
    positions = branch.store._positions(names)
    return Points(branch.rows(positions), names, branch.store.payload(names), branch.order[positions])


def all_points_of(branch: Branch) -> Points:
    """All points of a branch, in the order of its leaves."""
    positions, store = branch.positions(), branch.store
    payload = [payload for _, payload in store._db.all_payloads()]
    return Points(branch.rows(positions), store.ids, payload, branch.order[positions])


def parts_of(owners: Slots) -> list[tuple[int, Slots]]:
    """By owner, which entries are its.

    >>> [(owner, kept.tolist()) for owner, kept in parts_of(np.array([2, 0, 2]))]
    [(0, [1]), (2, [0, 2])]
    """
    return [(owner, np.flatnonzero(owners == owner)) for owner in np.unique(owners).tolist()]
