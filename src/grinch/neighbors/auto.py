"""Exact search as long as it is cheap, cells beyond."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from grinch._types import Ids, Slots
from grinch.neighbors.base import Neighbors
from grinch.neighbors.cells import CellSearch
from grinch.neighbors.exact import ExactSearch
from grinch.saving.state import State, item, require, scalar
from grinch.summaries.arrays import Arrays
from grinch.summaries.vectors import VectorSummaries

# Measured: docs/development/search.md. A multiple of BATCH.
EXACT_UP_TO = 16_384


class AutoSearch:
    """Exact up to EXACT_UP_TO points, then by cells.

    Points enter the cells from half of that on, two for each that comes, so that nobody waits at the turn.
    """

    def __init__(self, summaries: VectorSummaries, k: int):
        self.summaries, self.k = summaries, k
        self._exact = ExactSearch(summaries, k)
        self._cells = CellSearch(summaries, k)

    @classmethod
    def from_state(cls, state: Any, summaries: VectorSummaries) -> Self:
        """Return the search of a state on the points there are summaries of."""
        search = object.__new__(cls)
        search.summaries, search.k = summaries, scalar(state, "k", int)
        search._exact = ExactSearch.from_state(item(state, "exact"), summaries)
        search._cells = CellSearch.from_state(item(state, "cells"), summaries)
        return search

    def to_state(self) -> State:
        parts = {"exact": self._exact.to_state(), "cells": self._cells.to_state()}
        return {"part": "auto_search", "k": int(self.k), **parts}

    def validate(self) -> None:
        require(self.k == self._exact.k == self._cells.k, "two searches look for different numbers of neighbours")
        self._exact.validate()
        self._cells.validate()

    def write(self, at: int, rows: Any) -> None:
        """The summaries have all there is to know."""

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        if limit is not None:
            yield Neighbors(start, self.find(self.summaries.arrays, np.arange(start, stop), limit))
            return
        turn = min(max(start, EXACT_UP_TO), stop)
        if start < turn:
            for part in self._exact.stream(start, turn):
                self._cells.enter_up_to(2 * part.start - EXACT_UP_TO)
                yield part
        if turn < stop:
            yield from self._cells.stream(turn, stop)

    def nearest(self, leaves: Slots, limit: int) -> Iterator[Neighbors]:
        yield from self._search(limit).nearest(leaves, limit)

    def find(self, arrays: Arrays, slots: Slots, limit: int) -> Ids:
        return self._search(limit).find(arrays, slots, limit)

    def frozen(self, summaries: VectorSummaries, limit: int) -> ExactSearch | CellSearch:
        return self._search(limit).frozen(summaries, limit)

    def catch_up(self, count: int) -> None:
        """So many points are there that were never looked for."""
        if count > EXACT_UP_TO:
            self._cells.enter_up_to(count)

    def changed(self, leaves: Slots) -> None:
        self._exact.changed(leaves)

    def rewritten(self) -> None:
        self._exact.rewritten()
        self._cells.rewritten()

    def compacted(self, leaves: Slots) -> None:
        self._exact.compacted(leaves)
        self._cells.compacted(leaves)

    def _search(self, limit: int) -> ExactSearch | CellSearch:
        return self._cells if limit > EXACT_UP_TO else self._exact
