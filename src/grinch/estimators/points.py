"""The ids of points as they come, go and move."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from grinch._types import Counts, Slots
from grinch.saving.json_values import value_bytes, value_of
from grinch.saving.state import MANY, Fields, State, are_within, array, item, require

FIELDS = Fields(n_slots=int, is_in_order=bool, _next=int, _positions=("<i8", 1))


class PointIds:
    """Who is in which slot of a builder.

    A point has a slot, a position (how many were given before it, for good), and perhaps a name of the user's. Slots
    are in the order of insertion; shuffling, updates and compaction make positions differ from them.
    """

    def __init__(self) -> None:
        self.n_slots = 0
        self.names: list[Any] | None = None
        self.is_in_order = True
        """Whether positions rise with the slots."""
        # By slot; longer than needed, so that single points cost no copies.
        self._positions: Counts = np.empty(0, np.int64)
        # The position of the next point to come.
        self._next = 0
        # Where the points that came last begin: their first slot and position, and whether they were shuffled.
        self._latest: tuple[int, int, bool] = (0, 0, False)
        # By name, the slot; filled when it is needed, up to a slot.
        self._slot_of: dict[Hashable, int] = {}
        self._filed = 0
        # By position, the slot, where positions do not rise with the slots; None until it is needed.
        self._by_position: Slots | None = None

    @property
    def positions(self) -> Counts:
        """By slot, the position of the point."""
        return self._positions[: self.n_slots]

    @property
    def n_given(self) -> int:
        """How many positions were given: that of the next point to come."""
        return self._next

    def to_state(self) -> State:
        names = None if self.names is None else value_bytes(self.names, "an id")
        slot, position, is_shuffled = self._latest
        found = FIELDS.take(self) | {"positions": self.positions}
        return found | {"names": names, "latest": [int(slot), int(position), bool(is_shuffled)]}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        ids, latest = cls(), item(state, "latest")
        for name, value in FIELDS.read(state).items():
            setattr(ids, name, value)
        ids.names = None if item(state, "names") is None else value_of(array(state, "names", "|u1", 1))
        is_right = isinstance(latest, list) and [type(each) for each in latest] == [int, int, bool]
        require(is_right, "the points that came last are none")
        ids._latest = (latest[0], latest[1], latest[2])
        return ids

    def validate(self, n: int) -> None:
        """Refuse what is not the ids of ``n`` slots."""
        require(self.n_slots == n <= len(self._positions), f"there are ids for {self.n_slots} points, and {n} points")
        require(are_within(self.positions, 0, max(self._next, 0)), "a point has a position that was never given")
        is_in_order = not self.is_in_order or (np.diff(self.positions) > 0).all()
        require(is_in_order, "positions are said to be in order and are not")
        slot, position, _ = self._latest
        require(0 <= slot <= MANY**2 and 0 <= position <= self._next, "the points that came last are none")
        if self.names is not None:
            require(type(self.names) is list and len(self.names) == n, f"there are not {n} names")
            try:
                set(self.names)
            except TypeError:
                require(False, "an id cannot be one")

    # Points come and go -------------------------------------------------------------------------------------------

    def extend(self, count: int, names: Sequence[Any] | None, order: Counts | None = None) -> None:
        """Points are about to be inserted, by these names, in this order."""
        self._latest = (self.n_slots, self._next, order is not None)
        self.is_in_order &= order is None
        if names is None:
            self.names = None
        else:
            self._add_names(list(names) if order is None else [names[i] for i in order.tolist()])
        self._add_positions(np.arange(self._next, self._next + count) if order is None else self._next + order)
        self._next += count

    def extend_like(self, slots: Slots) -> None:
        """New versions of the points in these slots are about to be inserted, under their positions and names."""
        self._latest = (self.n_slots, self._next, False)
        self.is_in_order = False
        if self.names is not None:
            self._add_names([self.names[slot] for slot in slots.tolist()])
        self._add_positions(self.positions[slots])

    def cut_off(self, n_slots: int) -> None:
        """Points from this slot on never came; positions that were never used are given again."""
        first_slot, first_position, is_shuffled = self._latest
        if n_slots < self.n_slots and self._next > first_position:
            self._next = first_position + n_slots - first_slot
            if is_shuffled:
                came = self._positions[first_slot:n_slots]
                came[:] = first_position + np.argsort(np.argsort(came))
        self.n_slots, self._by_position = n_slots, None
        if self.names is not None:
            del self.names[n_slots:]

    def forget(self, slots: Slots) -> None:
        """These slots were emptied."""
        for slot in slots.tolist() if self._filed else ():
            name = self.name_of(slot)
            if slot < self._filed and self._slot_of.get(name) == slot:
                del self._slot_of[name]

    def compact(self, slots: Slots) -> None:
        """Only these slots are left, counted from 0."""
        self._positions, self.n_slots = self.positions[slots], len(slots)
        self.is_in_order = bool((np.diff(self._positions) > 0).all())
        self.names = None if self.names is None else [self.names[slot] for slot in slots.tolist()]
        self._slot_of, self._filed, self._by_position = {}, 0, None

    def _add_names(self, names: list[Any]) -> None:
        # The same list, so that a stream of single points costs no copies.
        self.names = names if self.names is None else self.names
        if self.names is not names:
            self.names += names

    def _add_positions(self, positions: Counts) -> None:
        need = self.n_slots + len(positions)
        if need > len(self._positions) or not self._positions.flags.writeable:
            room = np.empty(max(need, 2 * len(self._positions)), np.int64)
            room[: self.n_slots] = self.positions
            self._positions = room
        self._positions[self.n_slots : need] = positions
        self.n_slots, self._by_position = need, None

    # Who is who ---------------------------------------------------------------------------------------------------

    def name_of(self, slot: int) -> Any:
        """The id of a slot, filled or about to be: its name, or its position."""
        return int(self._positions[slot]) if self.names is None else self.names[slot]

    def in_order(self, slots: Slots) -> list[Any]:
        """The ids of these slots, by position."""
        ordered = self.sorted(slots)
        if self.names is None:
            found: list[Any] = self._positions[ordered].tolist()
            return found
        return [self.names[slot] for slot in ordered.tolist()]

    def sorted(self, slots: Slots) -> Slots:
        """Ascending slots by position."""
        return slots if self.is_in_order else slots[np.argsort(self._positions[slots], kind="stable")]

    def slot_of(self, is_there: Callable[[int], bool], there: Callable[[], Slots]) -> Mapping[Hashable, int]:
        """The slot of each point by id; ``is_there(slot)`` says whether it has a point, ``there()`` which ones have."""
        if self.names is None:
            return SlotsByPosition(self, is_there, there)
        new = [slot for slot in range(self._filed, self.n_slots) if is_there(slot)]
        self._slot_of.update(zip(map(self.name_of, new), new, strict=True))
        self._filed = self.n_slots
        return self._slot_of

    def slots_at(self, positions: Counts, there: Callable[[], Slots]) -> Slots:
        """The slots that have points of these positions, or had them; -1 for none."""
        if self.is_in_order:
            known = self.positions
            slots = np.searchsorted(known, positions)
            is_known = slots < len(known)
            is_known[is_known] = known[slots[is_known]] == positions[is_known]
            return np.where(is_known, slots, -1)
        if self._by_position is None:
            # An updated point has had several slots: the last one, or the one before if the update was broken off.
            slots = there()
            self._by_position = np.full(self._next + 1, -1, np.intp)
            self._by_position[self.positions[slots]] = slots
        return self._by_position[np.where((positions >= 0) & (positions < self._next), positions, self._next)]


class SlotsByPosition(Mapping[Hashable, int]):
    """The slots of points that have no names, by position: nothing is filed, so that a look costs next to nothing."""

    def __init__(self, ids: PointIds, is_there: Callable[[int], bool], there: Callable[[], Slots]):
        self._ids, self._is_there, self._there = ids, is_there, there

    def __getitem__(self, position: Hashable) -> int:
        if isinstance(position, (int, np.integer)) and 0 <= position < 2**62:
            slot = int(self._ids.slots_at(np.array([position], np.int64), self._there)[0])
            if slot >= 0 and self._is_there(slot):
                return slot
        raise KeyError(position)

    def __iter__(self) -> Iterator[int]:
        is_there = [self._is_there(slot) for slot in range(self._ids.n_slots)]
        return iter(self._ids.positions[np.array(is_there, np.bool_)].tolist())

    def __len__(self) -> int:
        return sum(1 for _ in self)
