"""Exact search while it is faster, the index beyond."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from grinch.neighbors.base import Neighbors, Slots
from grinch.neighbors.exact import ExactSearch
from grinch.neighbors.index import IndexSearch
from grinch.summaries.store import VectorStore

# Measured on two cores at 64 dimensions: docs/settings.md. A multiple of the index's block.
EXACT_UP_TO = 786_432


class AutoSearch:
    """Exact up to EXACT_UP_TO points, then approximate where usearch is installed."""

    def __init__(self, store: VectorStore, k: int):
        self.store, self.k = store, k
        self._exact = ExactSearch(store, k)
        self._index: IndexSearch | None = None

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        at = start if limit is None else limit
        if find_spec("usearch") is None or (limit is not None and at <= EXACT_UP_TO):
            yield from self._exact.stream(start, stop, limit)
            return
        turn = min(max(start, EXACT_UP_TO), stop) if limit is None else start
        if start < turn:
            yield from self._exact.stream(start, turn)
        if turn < stop:
            self._index = self._index or IndexSearch(self.store, self.k)
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
