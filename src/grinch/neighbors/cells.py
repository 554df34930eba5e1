"""Approximate search on vectors: an inverted file whose cells divide as they fill.

Nothing is ever trained again: a full cell is divided in two, which costs as much as its members, so no insert waits for
long. Points enter in blocks that end at multiples of BATCH, whatever the chunking, and those that have not entered yet
are compared one by one: what is found follows from the positions of points alone. Candidates are ranked by the
linkage's own kernel, from the vectors themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from mmap import mmap
from typing import Any, Self
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from grinch._checks import cores
from grinch._interrupts import uninterrupted
from grinch._types import Ids, Slots
from grinch.neighbors import cell_kernels as kernels
from grinch.neighbors.cell_kernels import Cells
from grinch.neighbors.exact import BATCH, Guard, Neighbors, VectorSearch, ahead, batches, ranked
from grinch.saving.state import MANY, Fields, State, are_within, array, item, require, scalar
from grinch.summaries.arrays import Arrays
from grinch.summaries.vectors import VectorSummaries
from grinch.tree.links import NONE

# Measured: docs/development/search.md.
ROOM = 384
PROBES = 6
EXTRA = 16
# Cells that exchange members when one of them is divided.
AROUND = 8
# Bytes that are set aside at once: they take no memory before they are written to, and copies are few.
SET_ASIDE = 2**26
# The homes of more points than this that enter at once are looked for in several threads.
MANY_AT_ONCE = 2**16
# No cell of a file has room for more members.
MAX_ROOM = 2**16
FIELDS = Fields(room=int, probes=int, extra=int, around=int)


class CellSearch(VectorSearch):
    """About the k nearest earlier points.

    Parameters
    ----------
    summaries : VectorSummaries
        The points.
    k : int
        How many are found.
    room : int
        The most members of a cell.
    probes : int
        How many cells are looked through.
    extra : int
        How many candidates are ranked by the linkage beyond k.
    around : int
        How many cells exchange members when one is divided; 1 for none.
    """

    def __init__(
        self,
        summaries: VectorSummaries,
        k: int,
        room: int = ROOM,
        probes: int = PROBES,
        extra: int = EXTRA,
        around: int = AROUND,
    ):
        self.summaries, self.k = summaries, k
        self.room, self.probes, self.extra, self.around = room, probes, extra, around
        self.jobs = cores()
        # Held while cells change.
        self._guard = Guard()
        self._cells = self._new_cells(0)
        self._begin()

    def _begin(self) -> None:
        """Make what a file does not hold."""
        self._homes = np.full(BATCH, NONE, np.int32)
        # Views that use the cells: these are copied before they change, as long as there is one.
        self._frozen: WeakSet[CellSearch] = WeakSet()

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name not in ("_homes", "_frozen")}
        return state | {"_cells": self._copied(self.n_cells)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if not all(part.flags.writeable for part in self._cells):  # joblib's memory maps
            self._cells = self._copied(self.n_cells)
        self._begin()

    @classmethod
    def from_state(cls, state: Any, summaries: VectorSummaries) -> Self:
        """Return the search of a state on the points there are summaries of."""
        numbers = FIELDS.read(state)
        require(1 <= numbers["room"] <= MAX_ROOM, f"cells cannot have room for {numbers['room']} members")
        search = cls(summaries, scalar(state, "k", int), **numbers)
        homes, cells = array(state, "homes", "<i4", 1), search._cells_from_state(item(state, "cells"))
        search._homes, search._cells = homes, cells
        if not all(part.flags.writeable for part in cells):
            search._cells = search._copied(search.n_cells)
        return search

    def _cells_from_state(self, state: Any) -> Cells:
        kinds = {name: (part.dtype.str, part.ndim) for name, part in self._cells._asdict().items()}
        return Cells(**Fields(**kinds).read(state))

    def to_state(self) -> State:
        found = {"part": "cell_search", "k": int(self.k), **FIELDS.take(self), "homes": self._homes}
        # With some room to grow, and not with all that is set aside.
        rows = min(self.n_cells + self.n_cells // 4, len(self._cells.sizes))
        ends = {"tiles": _tiles(rows), "head": 2}
        return found | {"cells": {name: part[: ends.get(name, rows)] for name, part in self._cells._asdict().items()}}

    def validate(self) -> None:
        cells, rows = self._cells, len(self._cells.sizes)
        super().validate()
        require(cells.head.shape == (2,) and 0 <= cells.head[kernels.CELLS] <= rows, "there are not that many cells")
        require(0 <= cells.head[kernels.ENTERED] <= self.summaries.capacity, "more points are in cells than there are")
        require(all(1 <= number <= MANY for number in (self.room, self.probes, self.around)), "cells have no room")
        require(0 <= self.extra <= MANY and self._homes.shape == (BATCH,), "cells have no room")
        shapes, expected = ([part.shape for part in each._asdict().values()] for each in (cells, self._new_cells(rows)))
        require(shapes == expected, "cells do not have their centres and members")
        n = self.n_cells
        require(are_within(cells.sizes[:n], 0, self.room + 1), f"a cell has more than {self.room} members")
        require(are_within(self._homes, NONE, max(n, 1)), "a point is to enter a cell that is not there")
        for part in (cells.centres[:n], cells.halves[:n], cells.tiles[: _tiles(n)]):
            require(np.isfinite(part).all(), "a centre of a cell is not finite")
        is_member = np.arange(self.room) < cells.sizes[:n, None]
        require(are_within(cells.ids[:n][is_member], 0, max(self.entered, 0)), "a member of a cell is no point")

    @property
    def n_cells(self) -> int:
        return int(self._cells.head[kernels.CELLS])

    @property
    def entered(self) -> int:
        """The number of points in cells; those from here on are compared one by one."""
        return int(self._cells.head[kernels.ENTERED])

    def arriving(self, start: int, stop: int) -> Iterator[Neighbors]:
        if self.entered > start:
            # An interrupted fit left points here that never reached the tree.
            self.rewritten()
        self.enter_up_to(start)
        ranges = list(batches(start, stop))
        if len(ranges) < 2 or self.jobs == 1:
            yield from (self._batch(lo, hi) for lo, hi in ranges)
            return
        with ThreadPoolExecutor(max(self.jobs - 1, 1), thread_name_prefix="grinch-search") as pool:
            # One batch after the other, ahead of the inserts: each needs the cells that the one before left.
            yield from ahead(lambda lo, hi: self._batch(lo, hi, pool), ranges, 1)

    def nearest(self, leaves: Slots, limit: int) -> Iterator[Neighbors]:
        self.enter_up_to(limit)

        def task(lo: int, hi: int) -> Neighbors:
            return Neighbors(lo, self._found(self.summaries.arrays, leaves[lo:hi], np.full(hi - lo, limit))[0])

        yield from ahead(task, list(batches(0, len(leaves))), self.jobs)

    def find(self, arrays: Arrays, slots: Slots, limit: int) -> Ids:
        with self._guard.lock:
            return self._found(arrays, slots, np.full(len(slots), limit))[0]

    def frozen(self, summaries: VectorSummaries, limit: int) -> Self:
        twin = object.__new__(type(self))
        with self._guard.lock:
            vars(twin).update(vars(self))
            self._frozen.add(twin)
        twin.summaries, twin._guard = summaries, Guard()
        return twin

    def catch_up(self, count: int) -> None:
        self.enter_up_to(count)

    def compacted(self, leaves: Slots) -> None:
        """Give members their new numbers where they are; only those of nearly empty cells move."""
        with uninterrupted(), self._guard.lock:
            numbers = np.full(self.entered, NONE, np.int32)
            left = int(np.searchsorted(leaves, self.entered))
            numbers[leaves[:left]] = np.arange(left)
            self._cells, self._frozen = self._copied(self.n_cells), WeakSet()
            loose = np.empty(left, np.int32)
            loose = np.sort(loose[: kernels.renumber(self._cells, numbers, loose)])
            for lo, hi in batches(0, len(loose)):
                self._enter(loose[lo:hi].astype(np.intp), np.full(hi - lo, NONE, np.int32), left)
            self._cells.head[kernels.ENTERED] = left
            self._homes[:] = NONE

    def rewritten(self) -> None:
        """Forget all points: they enter again."""
        with self._guard.lock:
            self._cells, self._frozen = self._new_cells(0), WeakSet()
            self._homes[:] = NONE

    def enter_up_to(self, stop: int) -> None:
        """Put points into cells, as many whole blocks as there are before ``stop``."""
        are_many = stop - self.entered > MANY_AT_ONCE and self.jobs > 1
        with ThreadPoolExecutor(self.jobs, "grinch-search") if are_many else nullcontext() as pool:
            for lo, hi in batches(self.entered, stop // BATCH * BATCH):
                self._enter_block(lo, hi, pool)

    def _batch(self, lo: int, hi: int, pool: Executor | None = None) -> Neighbors:
        queries, arrays, first = np.arange(lo, hi), self.summaries.arrays, self.entered
        parts = np.array_split(queries, min(self.jobs, len(queries))) if pool is not None else [queries]
        others = [pool.submit(self._found, arrays, part, part) for part in parts[1:]] if pool is not None else []
        found = [self._found(arrays, parts[0], parts[0]), *(other.result() for other in others)]
        self._homes[lo - first : hi - first] = np.concatenate([homes for _, homes in found])
        if hi % BATCH == 0:
            self._enter_block(first, hi)
        return Neighbors(lo, np.concatenate([candidates for candidates, _ in found]))

    def _found(self, arrays: Arrays, queries: Slots, limits: Slots) -> tuple[Ids, Ids]:
        """Return the k nearest of each query before its limit, and the cell that each would enter."""
        n, cells = len(queries), self._cells
        # One more than is asked for: among all points a query finds itself, and that does not count.
        best = np.full((n, self.k + self.extra + 1), -np.inf, np.float32)
        proposed = np.full(best.shape, NONE, np.int32)
        homes = np.full(n, NONE, np.int32)
        if self.n_cells:
            kernels.look_up(arrays, cells, queries, limits, self._workspace(), best, proposed, homes)
        recent = np.arange(self.entered, limits.max(), dtype=np.int32)
        recent = recent[arrays.gone[recent] == 0]
        recent = np.where(recent < limits[:, None], recent, np.int32(NONE))
        return ranked(arrays, queries, np.hstack([proposed, recent]), self.k), homes

    def _enter_block(self, lo: int, hi: int, pool: Executor | None = None) -> None:
        with self._guard.lock:
            self._enter(np.arange(lo, hi), self._homes[: hi - lo], hi, pool)

    def _enter(self, points: Slots, homes: Ids, entered: int, pool: Executor | None = None) -> None:
        """Put points into cells; homes that are not known are looked for first, if there is a pool by its threads."""
        is_full = self.n_cells + len(points) > len(self._cells.sizes)
        if is_full or self._frozen:
            self._cells = self._copied(self._ample() if is_full else len(self._cells.sizes))
            self._frozen = WeakSet()
        space = self._workspace()
        unknown = np.flatnonzero(homes == NONE)
        if len(unknown):
            parts = np.array_split(unknown, self.jobs) if pool is not None else [unknown]
            found = (map if pool is None else pool.map)(lambda part: self._homes_of(points[part]), parts)
            homes[unknown] = np.concatenate(list(found))
        split = _split_space(self.room, self.summaries.n_features)
        kernels.enter(self.summaries.arrays, self._cells, points, homes, entered, space, split)

    def _homes_of(self, points: Slots) -> Ids:
        homes = np.empty(len(points), np.int32)
        kernels.find_homes(self.summaries.arrays, self._cells, points, homes, self._workspace())
        return homes

    def _ample(self) -> int:
        """Return how many cells to make room for: for all points if cells are half full, and far more than now."""
        for_all = 2 * self.summaries.capacity // self.room
        set_aside = SET_ASIDE // (self.room * (self.summaries.n_features + 12))
        return max(for_all, set_aside, 3 * self.n_cells) + 2 * BATCH

    def _copied(self, capacity: int) -> Cells:
        """Return the cells there are, with room for this many."""
        cells, n_cells = self._new_cells(capacity), self.n_cells
        for name, old in self._cells._asdict().items():
            count = {"tiles": _tiles(n_cells), "head": 0}.get(name, n_cells)
            getattr(cells, name)[:count] = old[:count]
        cells.head[:] = self._cells.head
        return cells

    def _new_cells(self, capacity: int) -> Cells:
        members = capacity, self.room
        return Cells(
            centres=np.zeros((capacity, self.summaries.n_features), np.float32),
            tiles=np.zeros((_tiles(capacity), self.summaries.n_features, kernels.TILE), np.float32),
            halves=np.zeros(capacity, np.float32),
            sizes=np.zeros(capacity, np.int32),
            ids=_untouched(members, np.int32),
            codes=_untouched((*members, self.summaries.n_features), np.int8),
            scales=_untouched(members, np.float32),
            shifts=_untouched(members, np.float32),
            head=np.zeros(2, np.int64),
        )

    def _workspace(self) -> kernels.Workspace:
        n_features, linkage = self.summaries.n_features, self.summaries.linkage
        return kernels.Workspace(
            is_cosine=linkage.leaf_metric == "cosine",
            is_product=linkage.leaf_metric == "dot" and not linkage.is_spherical,
            together=np.empty((kernels.TOGETHER, n_features), np.float32),
            row=np.empty(n_features, np.float32),
            step=np.empty(n_features, np.float32),
            # A block makes no more cells than it has points.
            cell_scores=np.empty((kernels.TOGETHER, _tiles(self.n_cells + BATCH) * kernels.TILE), np.float32),
            scores=np.empty(self.room, np.float32),
            probed=np.empty(self.probes, np.int32),
            probed_scores=np.empty(self.probes),
            around=np.empty(self.around, np.int32),
            around_scores=np.empty(self.around),
        )


def _tiles(n_cells: int) -> int:
    """Return how many tiles this many cells take."""
    return -(-n_cells // kernels.TILE)


def _untouched(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array that takes memory as it is written to, by small pages.

    numpy asks for large ones, and an insert that comes upon a new one may wait for ten milliseconds and more.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return np.frombuffer(mmap(-1, max(size, 1)), np.int8, size).view(dtype).reshape(shape)


def _split_space(room: int, n_features: int) -> kernels.SplitSpace:
    return kernels.SplitSpace(
        rows=np.empty((room, n_features), np.float32),
        low=np.empty(n_features, np.float32),
        high=np.empty(n_features, np.float32),
        along=np.empty(room, np.float32),
        sides=np.empty(room, np.uint8),
        order=np.empty(room, np.int32),
    )
