"""A fitted tree: its builder, the ids of its points, and what is read off it (tree, points, cuts), each made once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any, Protocol, Self, cast

import numpy as np
import numpy.typing as npt

from grinch._types import Advance, Counts, Floats, Ids, Labels, Slots, Vectors32
from grinch.core.engine import Engine
from grinch.cuts.automatic import AutomaticCut, automatic_cut
from grinch.cuts.choice import Choice
from grinch.cuts.graph import N_NEIGHBORS, NeighborGraph, comparable, weighted
from grinch.cuts.labels import labels_of
from grinch.cuts.persistence import mean_gaps
from grinch.cuts.tracking import GrowingTree, LiveCut, WholeCut
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.neighbors import nearest_among
from grinch.refine.passes import Refinement
from grinch.saving.json_values import value_bytes, value_of
from grinch.saving.state import MANY, Fields, State, are_within, array, item, require
from grinch.summaries import RecordSummaries
from grinch.summaries.arrays import StoredPoints
from grinch.tree import NONE, Tree

# An engine that found fewer neighbours of each point is not asked for them: a graph of them says little.
LEAST_NEIGHBORS = 10
# Distances between copies of a direction are below this in float32.
ROUNDING = 1e-6


class Builder(Protocol):
    """A builder of trees that inserts points: Grinch's engine, or that of another system.

    All but the engine also have ``kept()``, the points in the order they came with the linkage that compares them.
    """

    @property
    def n_leaves(self) -> int:
        """The number of points in the tree."""

    @property
    def stats(self) -> dict[str, int]:
        """Counts of the work that was done."""

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        """Insert points in order, and call ``progress`` with their number; an error on the way leaves a valid tree."""

    def tree(self) -> Tree:
        """Return the current tree; later points do not change it."""

    def to_state(self) -> State:
        """Return the state that a file holds."""


class Fit:
    """A builder, the ids of its points, and what was last read off it.

    Slots of the builder are in the order of insertion, leaves of the tree handed out in the order of positions.
    ``parameters`` are those that the tree is built by.
    """

    def __init__(self, builder: Builder, parameters: dict[str, Any]):
        self.builder, self.parameters = builder, parameters
        self.ids = PointIds()
        self.refinements: list[Any] = []
        self.checked: Any = None
        """The parameters that were last accepted."""
        # The builder if points can be removed from it: only then are there empty slots.
        self._engine = builder if isinstance(builder, Engine) else None
        self._tree: Tree | None = None
        self._labels: Labels | None = None
        self._cut: Hashable = None
        self._automatic: AutomaticCut | None = None
        self._live: LiveCut | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_live": None}

    def to_state(self) -> State:
        """Return what a file holds of the fit, without the parameters."""
        return {
            "builder": self.builder.to_state(),
            "ids": self.ids.to_state(),
            "refinements": [asdict(each) for each in self.refinements],
        }

    @classmethod
    def from_state(cls, state: Any, builder: Builder, parameters: dict[str, Any]) -> Fit:
        """Return the fit of a state, around its builder."""
        fit = cls(builder, parameters)
        fit.ids = PointIds.from_state(item(state, "ids"))
        fit.refinements = [Refinement(**each) for each in item(state, "refinements")]
        return fit

    def validate(self, n_features: int | None) -> None:
        """Refuse ids that do not match the points, and vectors of another length than ``n_features``."""
        summaries = getattr(self.builder, "summaries", None)
        width = getattr(summaries, "n_features", n_features)
        require(width == n_features, "vectors are not as long as they should be")
        self.ids.validate(self._n_slots)
        there = self.ids.positions[self._slots()]
        require(len(np.unique(there)) == len(there), "two points have the same position")

    # Points -------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Forget the tree after a change of the builder, and the ids of points that were not inserted after all."""
        self._tree = None
        self.ids.cut_off(self._n_slots)

    def removed(self, slots: Slots) -> None:
        """Forget the tree and the ids in these slots, of which a removal that was interrupted has emptied some."""
        self._tree = None
        self.ids.forget(np.array([slot for slot in slots.tolist() if not self._has(slot)], np.intp))

    def slot_of(self, name: Hashable) -> int | None:
        """Return the slot of a point in the tree by its id, or None."""
        return self.ids.slot_of(name, self._has, self._slots)

    def __contains__(self, name: Hashable) -> bool:
        return self.slot_of(name) is not None

    def is_named(self) -> bool | None:
        """Return whether the points in the tree have ids given by the user; None if there are no points."""
        return None if self.n_leaves == 0 else self.ids.names is not None

    def point_ids(self) -> list[Any]:
        """Return the ids of the points in the tree, in the order of its leaves."""
        return self.ids.in_order(self._slots())

    def positions(self) -> Counts:
        """Return the positions of the points in the tree, in the order of its leaves."""
        return self.ids.positions[self.ids.sorted(self._slots())]

    def points(self) -> StoredPoints:
        """Return the points in the order of the tree's leaves; later changes may change them."""
        engine = self._engine
        if engine is None:
            kept: StoredPoints = cast(Any, self.builder).kept()
        else:
            kept = engine.summaries.points(engine.slots())
        return kept if self.ids.is_in_order else kept.taken(self.by_row(np.arange(self.n_leaves)))

    def asking(self) -> AbstractContextManager[None]:
        """Return a context in which the linkage is asked, and must not use the model."""
        return nullcontext() if self._engine is None else self._engine.busy()

    @property
    def _n_slots(self) -> int:
        return self.n_leaves if self._engine is None else self._engine.n_slots

    def _has(self, slot: int) -> bool:
        return self._engine is None or self._engine.has(slot)

    def _slots(self) -> Slots:
        return np.arange(self.n_leaves) if self._engine is None else self._engine.slots()

    # The tree -----------------------------------------------------------------------------------------------------

    @property
    def n_leaves(self) -> int:
        return self.builder.n_leaves

    def tree(self) -> Tree:
        """Return the tree, whose leaves are in the order of positions; the same one until the builder changes."""
        if self._tree is None:
            tree, positions = self.builder.tree(), self.ids.positions[self._slots()]
            is_plain = bool((positions == np.arange(len(positions))).all())
            tree = tree if self.ids.is_in_order else tree.relabelled(self.leaves())
            tree.names = None if is_plain and self.ids.names is None else self.point_ids()
            self._tree, self._cut, self._automatic = tree, None, None
        return self._tree

    def leaves(self) -> Counts:
        """Return, by leaf of the builder's tree, the leaf of the tree handed out."""
        if self.ids.is_in_order:
            return np.arange(self.n_leaves)
        return np.argsort(np.argsort(self.ids.positions[self._slots()], kind="stable"))

    def public_ids(self, nodes: Slots) -> Counts:
        """Return node ids of the builder's tree as ids of the tree handed out."""
        n = self.n_leaves
        return np.concatenate([self.leaves(), np.arange(n, 2 * n)])[nodes]

    def by_row(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values given by point in the order of insertion, in the order of the tree's leaves."""
        ordered = np.empty_like(values)
        ordered[self.leaves()] = values
        return ordered

    # Cuts ---------------------------------------------------------------------------------------------------------

    def node_labels(self, cut: Hashable, find: Callable[[Tree], Labels]) -> Labels:
        """Return flat clusters by node id, -1 above the cut: ``find(tree)``, cached under the key ``cut``."""
        tree = self.tree()
        if self._labels is None or self._cut != cut:
            self._labels, self._cut = find(tree), cut
        return self._labels

    def live_cut(self, choice: Choice) -> LiveCut | None:
        """Return the cut that follows the builder's tree, by its slots and nodes; None if none can."""
        tree = self.growing_tree()
        if tree is None or not choice.is_plain or not LiveCut.can_follow(tree, choice):
            return None
        # Set when all is done: after an error, the cut is made again from nothing.
        live, self._live = self._live, None
        if live is None or not live.is_like(tree, choice):
            live = LiveCut(tree, choice)
        live.update(
            tree, choice, np.arange(self.ids.n_slots) if self.ids.is_in_order else self.ids.sorted(self._slots())
        )
        self._live = live
        return live

    def labels(self, cut: LiveCut) -> Labels:
        """Return the clusters of a cut by point."""
        is_plain = self.ids.is_in_order and self.n_leaves == self.ids.n_slots
        return cut.labels(slice(self.ids.n_slots) if is_plain else self.ids.sorted(self._slots()))

    def growing_tree(self) -> GrowingTree | None:
        """Return the tree under construction, for cuts that follow it; None if the builder logs no moves."""
        if self._engine is None:
            return None
        return GrowingTree(self._engine, self.ids.positions, self._cut_automatically)

    def _cut_automatically(self, choice: Choice) -> WholeCut:
        """Return the automatic cut that is chosen; where there are fewer layers, the coarsest."""
        found, tree = self.automatic(), self.tree()
        layer = choice.layer_of(found, self.comparable_rows(), or_coarsest=True)
        labels = labels_of(tree, layer.is_split, layer.becomes)
        # Clusters of a layer are made of those of a finer one; what is whole in the layer itself stays whole if it can.
        values = np.full(tree.n_ids, -np.inf)
        values[: tree.n_leaves] = labels
        highest = tree.max_upward(values)
        values[: tree.n_leaves] = -labels
        is_mixed = highest != -tree.max_upward(values)
        assert layer.as_found is not None
        return WholeCut(layer.as_found | (layer.is_split & is_mixed), labels)

    @property
    def has_automatic(self) -> bool:
        """Whether the automatic cut of the current tree is known already."""
        return self._tree is not None and self._automatic is not None

    def automatic(self) -> AutomaticCut:
        """Return the automatic cut of the current tree: the one whose clusters persist longest."""
        tree = self.tree()
        if self._automatic is None:
            self._automatic = self._find_automatic(tree)
        return self._automatic

    def _find_automatic(self, tree: Tree) -> AutomaticCut:
        if tree.n_leaves < 3:
            return automatic_cut(tree, None, tree.heights())
        if self._engine is not None and isinstance(self._engine.summaries, RecordSummaries):
            # Records are compared by their linkage alone.
            return automatic_cut(tree, weighted(self.neighbors(), None), tree.heights())
        kept = self.points()
        rows = comparable_rows(kept)
        if rows is None:
            heights = tree.heights()
        elif is_cut_by_heights(kept.linkage):
            heights = known_heights(tree, kept.linkage)
        else:
            heights = mean_gaps(tree, rows, "euclidean")
        return automatic_cut(tree, self._graph(rows), heights)

    def _graph(self, rows: Vectors32 | None) -> NeighborGraph | None:
        """Return the neighbour graph of the points, by leaf of the tree handed out."""
        if self._engine is not None and (rows is None or self._engine.search.k >= LEAST_NEIGHBORS):
            return weighted(self.neighbors(), rows)
        return None if rows is None else weighted(nearest_among(rows, N_NEIGHBORS), rows)

    def neighbors(self) -> Ids:
        """Return the neighbours that the engine found of each point, by leaf of the tree handed out."""
        engine = self._engine
        assert engine is not None
        slots, near = engine.slots(), engine.neighbors()
        leaf_of = np.full(engine.n_slots + 1, NONE, np.int32)  # one more, where NONE points
        leaf_of[slots] = self.leaves()
        return self.by_row(leaf_of[near[slots]])

    def comparable_rows(self) -> Vectors32 | None:
        """Return the points as rows whose Euclidean distances are those that count; None for records."""
        return comparable_rows(self.points()) if self.n_leaves else None


def comparable_rows(kept: StoredPoints) -> Vectors32 | None:
    """Return points as rows whose Euclidean distances are those that count; None for records."""
    if not kept.is_vectors:
        return None
    linkage = kept.linkage
    if isinstance(linkage, VectorLinkage):
        if isinstance(kept.rows, np.ndarray) and (linkage.is_spherical or linkage.leaf_metric == "sqeuclidean"):
            return np.asarray(kept.rows, np.float32)
        return comparable(kept.rows, "euclidean" if linkage.leaf_metric == "sqeuclidean" else "cosine")
    return comparable(kept.rows, "cosine" if getattr(linkage, "distance", "") == "cosine" else "euclidean")


def is_cut_by_heights(linkage: VectorLinkage | Linkage) -> bool:
    """Return whether the scores of a tree are the mean squared distances of two sides, which need not be computed."""
    return isinstance(linkage, VectorLinkage) and linkage.name == "average" and not linkage.is_custom


def known_heights(tree: Tree, linkage: VectorLinkage | Linkage) -> Floats:
    """Return the heights of a tree, with copies of a direction at 0."""
    heights = tree.heights()
    if isinstance(linkage, VectorLinkage) and linkage.leaf_metric != "sqeuclidean":
        heights[heights < ROUNDING] = 0.0
    return heights


class PointIds:
    """The ids of the points of a builder, by slot.

    A point has a slot, a position (the number of points given before it, which never changes), and maybe a name given
    by the user. Slots are in the order of insertion; shuffling, updates and compaction make positions differ from them.
    """

    _FIELDS = Fields(n_slots=int, is_in_order=bool, _next=int, _positions=("<i8", 1))

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
        # The slot by name, filled on demand for the slots up to _filed.
        self._slot_of: dict[Hashable, int] = {}
        self._filed = 0
        # The slot by position, where positions do not rise with the slots; None until it is needed.
        self._by_position: Slots | None = None

    @property
    def positions(self) -> Counts:
        """The position of the point in each slot."""
        return self._positions[: self.n_slots]

    @property
    def n_given(self) -> int:
        """The number of positions that were given, which is the position of the next point."""
        return self._next

    def to_state(self) -> State:
        """Return what a file holds of the ids."""
        names = None if self.names is None else value_bytes(self.names, "an id")
        slot, position, is_shuffled = self._latest
        found = self._FIELDS.take(self) | {"positions": self.positions}
        return found | {"names": names, "latest": [int(slot), int(position), bool(is_shuffled)]}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Return the ids of a state."""
        ids, latest = cls(), item(state, "latest")
        vars(ids).update(cls._FIELDS.read(state))
        ids.names = None if item(state, "names") is None else value_of(array(state, "names", "|u1", 1))
        is_right = isinstance(latest, list) and [type(each) for each in latest] == [int, int, bool]
        require(is_right, "the points that came last are none")
        ids._latest = (latest[0], latest[1], latest[2])
        return ids

    def validate(self, n: int) -> None:
        """Refuse what cannot be the ids of ``n`` slots."""
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
        """Note points that are about to be inserted, by these names, in this order."""
        self._latest = (self.n_slots, self._next, order is not None)
        self.is_in_order &= order is None
        if names is None or self.names is None:
            self.names = None if names is None else []
        if self.names is not None and names is not None:
            # Added to the same list, so that a stream of single points costs no copies.
            self.names += names if order is None else [names[i] for i in order.tolist()]
        self._add_positions(np.arange(self._next, self._next + count) if order is None else self._next + order)
        self._next += count

    def extend_like(self, slots: Slots) -> None:
        """Note that the points in these slots are about to be inserted again, under their positions and names."""
        self._latest = (self.n_slots, self._next, False)
        self.is_in_order = False
        if self.names is not None:
            self.names += [self.names[slot] for slot in slots.tolist()]
        self._add_positions(self.positions[slots])

    def cut_off(self, n_slots: int) -> None:
        """Forget points from this slot on, which were not inserted; their positions are given again."""
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
        """Forget the points in these slots, which were removed."""
        for slot in slots.tolist() if self._filed else ():
            name = self.name_of(slot)
            if slot < self._filed and self._slot_of.get(name) == slot:
                del self._slot_of[name]

    def compact(self, slots: Slots) -> None:
        """Keep only these slots, numbered from 0."""
        self._positions, self.n_slots = self.positions[slots], len(slots)
        self.is_in_order = bool((np.diff(self._positions) > 0).all())
        self.names = None if self.names is None else [self.names[slot] for slot in slots.tolist()]
        self._slot_of, self._filed, self._by_position = {}, 0, None

    def _add_positions(self, positions: Counts) -> None:
        need = self.n_slots + len(positions)
        if need > len(self._positions) or not self._positions.flags.writeable:
            room = np.empty(max(need, 2 * len(self._positions)), np.int64)
            room[: self.n_slots] = self.positions
            self._positions = room
        self._positions[self.n_slots : need] = positions
        self.n_slots, self._by_position = need, None

    # Lookups ------------------------------------------------------------------------------------------------------

    def name_of(self, slot: int) -> Any:
        """Return the id in a slot, also before the point is inserted: its name, or its position."""
        return int(self._positions[slot]) if self.names is None else self.names[slot]

    def in_order(self, slots: Slots) -> list[Any]:
        """Return the ids in these slots, by position."""
        ordered = self.sorted(slots)
        if self.names is None:
            return list(self._positions[ordered].tolist())
        return [self.names[slot] for slot in ordered.tolist()]

    def sorted(self, slots: Slots) -> Slots:
        """Return ascending slots by position."""
        return slots if self.is_in_order else slots[np.argsort(self._positions[slots], kind="stable")]

    def slot_of(self, name: Hashable, is_there: Callable[[int], bool], there: Callable[[], Slots]) -> int | None:
        """Return the slot of a point by its id, or None.

        ``is_there(slot)`` says whether a slot has a point, and ``there()`` returns the slots that have one.
        """
        if self.names is None:
            if not isinstance(name, (int, np.integer)) or not 0 <= name < 2**62:
                return None
            slot = int(self.slots_at(np.array([name], np.int64), there)[0])
            return slot if slot >= 0 and is_there(slot) else None
        if self._filed < self.n_slots:
            new = [slot for slot in range(self._filed, self.n_slots) if is_there(slot)]
            self._slot_of.update(zip(map(self.name_of, new), new, strict=True))
            self._filed = self.n_slots
        return self._slot_of.get(name)

    def slots_at(self, positions: Counts, there: Callable[[], Slots]) -> Slots:
        """Return the slots that have the points of these positions, or had them; -1 for none."""
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
