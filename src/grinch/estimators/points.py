"""What an estimator holds once it is fitted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch import cuts
from grinch.cuts.flat import Mask
from grinch.estimators.builder import Builder, Removing
from grinch.tree import Tree

Slots = npt.NDArray[np.intp]


class Fitted:
    """A builder and what was last read off it: the tree and a cut, each made when it is first asked for.

    A point has a slot in the builder, a position (how many were given before it, for good), and perhaps a name of the
    user's. Slots are in the order of insertion, leaves of the tree handed out in the order of positions.
    """

    def __init__(self, builder: Builder, order: npt.NDArray[np.int64] | None = None):
        self.builder = builder
        # Asked once, for the question takes longer than what is done with the answer, for every point.
        self._removing = builder if isinstance(builder, Removing) else None
        # By slot, the position of the point; None: the same. Shuffling, updates and compaction make them differ.
        self._positions: list[int] | None = None if order is None else order.tolist()
        # By slot, the name; None: points go by their positions.
        self.names: list[Any] | None = None
        # The position of the next point to come, and how many of those before it are only expected.
        self._next = self._expected = 0
        # By name, or by position, the slot; filed when it is needed, up to a slot.
        self._slot_of: dict[Hashable, int] = {}
        self._filed = 0
        self._has_gaps = False
        self.begun_with: dict[str, Any] = {}
        self.refinements: list[Any] = []
        self._tree: Tree | None = None
        self._labels: npt.NDArray[np.int64] | None = None
        self._cut: Hashable = None

    # Points come and go -------------------------------------------------------------------------------------------

    def expect(self, count: int, names: Sequence[Any] | None) -> None:
        """So many points are about to be inserted, by these names (in the order they are given)."""
        start, self._next, self._expected = self._next, self._next + count, count
        if self._positions is not None and len(self._positions) < self._n_slots() + count:
            self._positions += range(start, self._next)
        elif names is not None and self._positions is not None:
            names = [names[i] for i in self._positions]
        self.names = None if names is None else [*names] if self.names is None else self._longer(names)

    def expect_updates(self, slots: Slots) -> None:
        """New versions of these points are about to be inserted, and take over their positions and names."""
        if self._positions is None:
            self._positions = list(range(self._n_slots()))
        self._positions += [self._positions[slot] for slot in slots]
        if self.names is not None:
            self._longer([self.names[slot] for slot in slots])

    def _longer(self, names: Sequence[Any]) -> list[Any]:
        """The names with more of them: the same list, so that a stream of single points costs no copies."""
        assert self.names is not None
        self.names += names
        return self.names

    def settle(self) -> None:
        """The builder has changed: forget the tree, and what was expected and never came."""
        n = self._n_slots()
        self._tree = None
        if self.names is not None:
            del self.names[n:]
        if self._positions is None:
            self._next = n
        elif len(self._positions) > n:
            self._next -= min(len(self._positions) - n, self._expected)
            del self._positions[n:]
            if max(self._positions, default=-1) >= self._next:
                # A fit in shuffled order broke off: the rows that made it are counted from 0.
                self._positions = np.argsort(np.argsort(self._positions)).tolist()
        self._expected = 0

    def removed(self, slots: Slots) -> None:
        """These slots were emptied, or some of them if that was interrupted."""
        for slot in slots.tolist():
            if not self._has(slot) and slot < self._filed and self._slot_of.get(self.name_of(slot)) == slot:
                del self._slot_of[self.name_of(slot)]
        self._has_gaps = True
        self._tree = None

    def compacted(self, slots: Slots) -> None:
        """The builder closed its gaps: only these slots are left, counted from 0."""
        self._positions = slots.tolist() if self._positions is None else [self._positions[slot] for slot in slots]
        self.names = None if self.names is None else [self.names[slot] for slot in slots]
        self._slot_of, self._filed = {}, 0

    def _n_slots(self) -> int:
        return self.builder.n_leaves if self._removing is None else self._removing.n_slots

    def _has(self, slot: int) -> bool:
        return self._removing is None or self._removing.has(slot)

    def _slots(self) -> Slots:
        return np.arange(self.builder.n_leaves) if self._removing is None else self._removing.slots()

    # Names --------------------------------------------------------------------------------------------------------

    def slot_of(self) -> dict[Hashable, int]:
        """The slot of each point in the tree, by name (or by position, if they have none)."""
        n = self._n_slots()
        # All at once the first time; later one by one, so that a stream of single points does not look at all of them.
        new = [s for s in range(self._filed, n) if self._has(s)] if self._filed else self._slots().tolist()
        self._slot_of.update(zip(map(self.name_of, new), new, strict=True))
        self._filed = n
        return self._slot_of

    def is_named(self) -> bool | None:
        """Whether the points in the tree have names of the user's; None if there are none."""
        return None if self.builder.n_leaves == 0 else self.names is not None

    def ids(self) -> list[Any]:
        """The ids of the points in the tree, in the order of its leaves: names, or positions."""
        if self._positions is None and not self._has_gaps:
            return list(range(self.builder.n_leaves)) if self.names is None else self.names[: self.builder.n_leaves]
        slots = self._slots()
        return [self.name_of(slot) for slot in slots[np.argsort(self._position_of(slots), kind="stable")].tolist()]

    def name_of(self, slot: int) -> Any:
        """The id of a slot of the builder, filled or about to be."""
        if self.names is not None:
            return self.names[slot]
        return slot if self._positions is None else self._positions[slot]

    def _position_of(self, slots: Slots) -> npt.NDArray[np.int64]:
        return slots if self._positions is None else np.array(self._positions, dtype=np.int64)[slots]

    # What was found -----------------------------------------------------------------------------------------------

    def tree(self) -> Tree:
        if self._tree is None:
            tree = self.builder.tree()
            self._tree = tree if self._positions is None else tree.relabelled(self._leaf_of_arrival())
            self._tree.names = self.ids() if self.names is not None or self._has_gaps else None
            self._cut = None
        return self._tree

    def node_labels(self, cut: Hashable, splits: Callable[[Tree], Mask]) -> npt.NDArray[np.int64]:
        """Flat clusters by node id, -1 above the cut; ``cut`` names what ``splits`` does, so that it is done once."""
        tree = self.tree()
        if self._labels is None or self._cut != cut:
            self._labels, self._cut = cuts.node_labels(tree, splits(tree)), cut
        return self._labels

    def public_ids(self, nodes: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
        """Node ids of the builder's tree as ids of the tree handed out."""
        n = self.builder.n_leaves
        return np.concatenate([self._leaf_of_arrival(), np.arange(n, 2 * n)])[nodes]

    def by_row(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What is known of each point in the order they were inserted, in the order of the tree's leaves."""
        if self._positions is None:
            return values
        ordered = np.empty_like(values)
        ordered[self._leaf_of_arrival()] = values
        return ordered

    def _leaf_of_arrival(self) -> npt.NDArray[np.int64]:
        """By leaf of the builder's tree, the leaf of the tree handed out."""
        return np.argsort(np.argsort(self._position_of(self._slots()), kind="stable"))
