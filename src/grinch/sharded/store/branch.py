"""One branch: a store of its own, and the numbers in which its points came to the whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._types import Counts
from grinch.sharded.store.routing import Router, Sample, drawn
from grinch.store import DamagedStore, Store, disk
from grinch.store.database import Id
from grinch.tree import Tree

ORDER = "order.bin"


class Branch:
    """A store in a folder of a sharded store.

    ``order`` is a file with the arrival number of each point by its position in the store. It is written before the
    points are, so whatever position is in the store has its number; what is behind counts for nothing and is written
    over. Inside, ids are those of the user's points, or the arrival numbers where points have no ids.
    """

    def __init__(self, store: Store, router: Router):
        self.store, self.router = store, router
        self.name = store.folder.name
        self._order: Counts = np.empty(0, np.int64)
        self._sample: Sample | None = None

    @property
    def n_points(self) -> int:
        return len(self.store)

    @property
    def number(self) -> int:
        return int(self.name.split("-")[1])

    @property
    def order(self) -> Counts:
        """By position, the arrival numbers of all points that ever were in the branch."""
        n = self.store._now().n_given
        if n > len(self._order):
            try:
                # What is behind may be of points that never came.
                self._order = np.fromfile(self._path, "<i8", n).astype(np.int64)
            except FileNotFoundError:
                self._order = np.empty(0, np.int64)
            if n > len(self._order):
                raise DamagedStore(
                    f"{self._path} is damaged: it must hold the numbers of {n:,} points, and has {len(self._order):,}."
                    " Restore the sharded store from a backup, and change it by grinch.open of the whole folder alone"
                )
        return self._order[:n]

    @property
    def _path(self) -> Path:
        return self.store.folder / ORDER

    def positions(self) -> Counts:
        """The positions of the points that are there, ascending: the order of the store's ids and leaves."""
        return self.store._now().positions()

    def numbers(self) -> Counts:
        """Their arrival numbers."""
        return self.order[self.positions()]

    def ids(self, is_named: bool) -> list[Id]:
        return self.store.ids if is_named else self.numbers().tolist()

    def has(self, names: list[Id]) -> npt.NDArray[np.bool_]:
        """Which of these ids are here."""
        return np.array([position is not None for position in self.store._db.positions_of(names)], np.bool_)

    def rows(self, positions: Counts) -> Any:
        """The rows at these positions, dense or CSR."""
        return self.store.rows_at(positions)

    # Changes ------------------------------------------------------------------------------------------------------

    def insert(
        self, rows: Any, names: list[Id], payload: list[Any] | None, numbers: Counts, columns: Any = None
    ) -> None:
        """Insert points that are not there yet; those that are, are passed over."""
        is_new = ~self.has(names)
        if not is_new.any():
            return
        if not is_new.all():
            kept = np.flatnonzero(is_new).tolist()
            names = [names[i] for i in kept]
            payload = None if payload is None else [payload[i] for i in kept]
            rows, numbers = rows[kept], numbers[kept]
        sample = self.sample
        self._note(numbers)
        self.store.insert(rows, ids=names, payload=payload, columns=columns)
        self._sample = self.router.grown(sample, numbers, rows)

    def adopt(
        self,
        rows: Any,
        names: list[Id],
        payload: list[Any] | None,
        numbers: Counts,
        tree: Tree,
        columns: Any,
    ) -> None:
        """The first points of a branch, with the tree that they have already: leaf i is row i."""
        self._note(numbers)
        self.store.adopt(rows, tree, ids=names, payload=payload, columns=columns)
        self._sample = None

    def _note(self, numbers: Counts) -> None:
        """The numbers of points to come are on disk, behind those there are."""
        known = self.order
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            disk.write_at(file, numbers.astype("<i8"), 8 * len(known))
            disk.sync(file)
        finally:
            os.close(file)
        need = len(known) + len(numbers)
        if need > len(self._order):
            room = np.empty(max(need, 2 * len(known)), np.int64)
            room[: len(known)] = known
            self._order = room
        self._order[len(known) : need] = numbers

    def remove(self, names: list[Id]) -> None:
        """Remove points; those that are not there are passed over."""
        here = [name for name, is_here in zip(names, self.has(names), strict=True) if is_here]
        if not here:
            return
        gone, sample = self._numbers_of(here), self.sample
        self.store.remove(here)
        is_gone = np.isin(sample.numbers, gone)
        if is_gone.any():
            # Of a small branch all are routing points; of a large one, others take their place.
            self._sample = sample.without(is_gone) if self.n_points < len(sample.numbers) else None

    def update(self, names: list[Id], rows: Any, payload: list[Any] | None) -> None:
        sample = self.sample
        self.store.update(names, rows, payload)
        if rows is not None and np.isin(self._numbers_of(names), sample.numbers).any():
            self._sample = None

    def _numbers_of(self, names: list[Id]) -> Counts:
        return self.order[self.store._positions(names)]

    def look_again(self) -> None:
        """For a reader: see what is committed by now, without going on to it; that takes no time."""
        self.store._db.look_again()

    def catch_up(self) -> None:
        """For a reader: go on to what was seen."""
        before = self.store.version
        if self.store._catch_up() != before:
            self._sample = None

    # Routing ------------------------------------------------------------------------------------------------------

    @property
    def sample(self) -> Sample:
        """The routing points."""
        if self._sample is None:
            positions = self.positions()
            numbers = self.order[positions]
            chosen = drawn(numbers)
            width = self.store.n_features or 0
            rows = self.rows(positions[chosen]) if width else np.empty((0, 0), np.float32)
            self._sample = self.router.sample(numbers[chosen], rows)
        return self._sample
