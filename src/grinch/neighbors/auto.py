"""Exact search while it is faster, the index beyond."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from grinch._types import Slots
from grinch.neighbors.base import Neighbors
from grinch.neighbors.exact import ExactSearch
from grinch.neighbors.index import IndexSearch
from grinch.summaries.vectors import VectorSummaries

# Measured on two cores at 64 dimensions: docs/settings.md. A multiple of the index's block.
EXACT_UP_TO = 786_432


class AutoSearch:
    """Exact up to EXACT_UP_TO points, then approximate where usearch is installed."""

    def __init__(self, summaries: VectorSummaries, k: int):
        self.summaries, self.k = summaries, k
        self._exact = ExactSearch(summaries, k)
        self._index: IndexSearch | None = None

    def write(self, at: int, rows: Any) -> None:
        """The summaries have all there is to know."""

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        at = start if limit is None else limit
        if find_spec("usearch") is None or (limit is not None and at <= EXACT_UP_TO):
            yield from self._exact.stream(start, stop, limit)
            return
        turn = min(max(start, EXACT_UP_TO), stop) if limit is None else start
        if start < turn:
            yield from self._exact.stream(start, turn)
        if turn < stop:
            self._index = self._index or IndexSearch(self.summaries, self.k)
            yield from self._index.stream(turn, stop, limit)

    def nearest(self, leaves: Slots, limit: int) -> Iterator[Neighbors]:
        search = self._index if self._index is not None and limit > EXACT_UP_TO else self._exact
        yield from search.nearest(leaves, limit)

    def changed(self, leaves: Slots) -> None:
        self._exact.changed(leaves)
        if self._index is not None:
            self._index.changed(leaves)

    def compacted(self, leaves: Slots) -> None:
        self._exact.compacted(leaves)
        if self._index is not None:
            self._index.compacted(leaves)
