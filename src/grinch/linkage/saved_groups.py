"""Groups of :class:`~grinch.linkage.Pairwise` in files: each after the two that it was made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch.errors import SavedModelError
from grinch.linkage.pairwise import Group, Member, numbers_of, words_of
from grinch.saving.json_values import value_bytes, value_of
from grinch.saving.state import State, array, item


class GroupsOut:
    """Groups in the order in which they are written."""

    def __init__(self) -> None:
        self._index: dict[int, int] = {}
        self._groups: list[Group] = []

    def reference(self, value: Any) -> Any:
        """Return what stands for a group in the values of a file; None for anything else."""
        if type(value) is not Group:
            return None
        waiting = [value]
        while waiting:
            group = waiting[-1]
            parts = [part for part in group.parts or () if id(part) not in self._index]
            waiting += parts
            if not parts:
                waiting.pop()
                if id(group) not in self._index:
                    self._index[id(group)] = len(self._groups)
                    self._groups.append(group)
        return {"group": self._index[id(value)]}

    def to_state(self) -> State:
        groups = self._groups
        parts = [[self._index[id(part)] for part in group.parts] if group.parts else [-1, -1] for group in groups]
        single = [group.block for group in groups if not group.parts]
        found: State = {
            "parts": np.array(parts, np.int32).reshape(-1, 2),
            "numbers": words_of([group.number for group in groups]),
        }
        if all(isinstance(block, np.ndarray) for block in single):
            rows = np.concatenate(single).astype(np.float64, copy=False) if single else np.zeros((0, 0))
            return found | {"rows": rows, "records": None}
        return found | {"rows": None, "records": value_bytes([block[0].record for block in single], "a record")}


class GroupsIn:
    """The groups of a state."""

    def __init__(self, state: Any):
        parts, numbers = array(state, "parts", "<i4", 2), numbers_of(array(state, "numbers", "<u8", 2))
        if parts.shape != (len(numbers), 2) or (parts >= np.arange(len(parts))[:, None]).any() or (parts < -1).any():
            raise SavedModelError("groups of records are not made of earlier ones")
        is_single = (parts == -1).all(axis=1)
        if (parts[~is_single] == -1).any():
            raise SavedModelError("a group of records is made of one other")
        single = iter(_blocks(state, [numbers[i] for i in np.flatnonzero(is_single)]))
        self._groups: list[Group] = []
        for number, (a, b) in zip(numbers, parts.tolist(), strict=True):
            parts_of = None if a < 0 else (self._groups[a], self._groups[b])
            self._groups.append(Group(next(single) if a < 0 else None, parts_of, number))

    def at(self, tag: str, index: Any) -> Group:
        """Return the group that a reference stands for."""
        if tag != "group" or type(index) is not int or not 0 <= index < len(self._groups):
            raise SavedModelError(f"{tag!r} {index!r:.60} is no value that this version knows")
        return self._groups[index]


def _blocks(state: Any, numbers: list[int]) -> list[Any]:
    """Return what single records are: rows of a matrix, or records with their numbers."""
    if item(state, "rows") is not None:
        rows = array(state, "rows", "<f8", 2)
        found: list[Any] = [rows[i : i + 1] for i in range(len(rows))]
    else:
        records = value_of(array(state, "records", "|u1", 1))
        found = [[Member(number, record)] for number, record in zip(numbers, records, strict=True)]
    if len(found) != len(numbers):
        raise SavedModelError(f"{len(found)} records are there for {len(numbers)} groups of one")
    return found
