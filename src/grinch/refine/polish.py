"""A small tree is polished as it grows: swaps that bring neighbours together, at certain numbers of points."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grinch._types import Ids, Slots
from grinch.core.engine import Engine
from grinch.refine.copies import copies_in_order, is_full_of_copies
from grinch.refine.neighbor_cost import NeighborCost
from grinch.refine.neighbor_graph import graph_of, without_far
from grinch.tree import walks
from grinch.tree.links import LEAVES, NONE, OFFSET, ROOT, Links, grown, shrunk

# In larger trees swaps would cost more than inserts.
POLISHED_UP_TO = 2048
POLISHING_SWEEPS = 50
# A polished tree may be this deep, if it was not deeper before.
DEEP = 128
# How many of the neighbours that a point had on arrival count.
COUNTED_ON_ARRIVAL = 5


def _polished_at() -> Iterator[int]:
    """A twentieth apart, a tenth beyond 1,000."""
    n = 40
    while n <= POLISHED_UP_TO:
        yield n
        n += n // (20 if n < 1000 else 10)


POLISHED_AT = tuple(_polished_at())


class ArrivalNeighbors:
    """The neighbours that the first points had on arrival: a graph that costs nothing, for a tree that grows."""

    def __init__(self) -> None:
        self.near: Ids = np.full((POLISHED_UP_TO, COUNTED_ON_ARRIVAL), NONE, np.int32)
        self.is_complete = True
        """Whether there is no other point in the tree."""

    def note(self, first: int, candidates: Ids) -> None:
        """The neighbours of the points from slot ``first`` on, best first."""
        if not self.near.flags.writeable:  # loaded by joblib
            self.near = self.near.copy()
        rows = candidates[: max(POLISHED_UP_TO - first, 0), :COUNTED_ON_ARRIVAL]
        self.near[first : first + len(rows), : rows.shape[1]] = rows
        self.near[first : first + len(rows), rows.shape[1] :] = NONE

    def among(self, slots: Slots) -> Ids:
        """By slot, the neighbours of these points among them; nothing for all other points."""
        is_in = np.zeros(POLISHED_UP_TO + 1, np.bool_)  # one more, where NONE points
        is_in[slots] = True
        near = self.near[: slots[-1] + 1]
        is_in_row = is_in[near] & is_in[: len(near), None]
        packed = np.take_along_axis(near, np.argsort(~is_in_row, axis=1, kind="stable"), axis=1)
        packed[np.arange(COUNTED_ON_ARRIVAL) >= is_in_row.sum(axis=1, keepdims=True)] = NONE
        return packed

    def compacted(self, slots: Slots) -> None:
        """Only these slots are left, counted from 0."""
        self.is_complete = self.is_complete and bool((slots < POLISHED_UP_TO).all())
        if self.is_complete:
            new_slot = np.full(POLISHED_UP_TO + 1, NONE, np.int32)
            new_slot[slots] = np.arange(len(slots))
            near = self.near.copy()
            near[: len(slots)] = new_slot[self.near[slots]]
            self.near = near


class Polisher:
    """A gardener (:class:`~grinch.core.engine.Gardener`) that polishes a tree of up to 2,048 points as it grows."""

    def __init__(self) -> None:
        self.neighbors = ArrivalNeighbors()

    def stops(self, first: int, stop: int) -> list[int]:
        return [] if first >= POLISHED_UP_TO else [n for n in POLISHED_AT if first < n <= stop]

    def found(self, first: int, candidates: Ids) -> None:
        if first < POLISHED_UP_TO:
            self.neighbors.note(first, candidates)

    def tend(self, engine: Engine) -> None:
        if self.neighbors.is_complete:
            polish(engine, self.neighbors)

    def compacted(self, slots: Slots) -> None:
        self.neighbors.compacted(slots)


def depth(links: Links) -> int:
    """How many steps it is from the root to the farthest leaf."""
    preorder, depths = walks.no_nodes(2 * int(links.head[LEAVES]) - 1), np.zeros(len(links.table), np.int32)
    walks.fill_preorder(links.table, int(links.head[ROOT]), int(links.head[OFFSET]), preorder)
    walks.fill_depths(links.table, preorder, int(links.head[OFFSET]), depths)
    return int(depths.max())


def polish(engine: Engine, neighbors: ArrivalNeighbors) -> None:
    """Bring neighbours together, as they were found when the points came: swaps until few are left."""
    look = engine.summaries.look(engine.n_slots)
    if is_full_of_copies(look):
        return
    # In as little room as the tree needs, for it may be the beginning of a large one.
    links = shrunk(engine.links, engine.n_slots)
    near = neighbors.among(engine.slots())
    near = without_far(near, engine.summaries.leaf_rows(len(near)))
    near = copies_in_order(near, look, links)
    before = depth(links)
    NeighborCost(graph_of(near, mutual=2, one_sided=1, least_part=0.0), engine.n_slots).sweep(
        links, most=POLISHING_SWEEPS
    )
    # Points that come along a line are neighbours in a row, and the best tree of a part of the row may be a chain.
    if depth(links) > max(before, DEEP):
        return
    engine.restore(grown(links, engine.summaries.capacity, engine.summaries.is_undoable))
