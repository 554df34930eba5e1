"""Exact search under any linkage: score every earlier record."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from grinch.linkage.store import RecordStore
from grinch.neighbors.base import Neighbors
from grinch.tally import SCORES, Tally


class ScanSearch:
    """The k nearest earlier records by asking the linkage about each of them."""

    def __init__(self, store: RecordStore, k: int, tally: Tally):
        self.store, self.k, self.tally = store, k, tally

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        for x in range(start, stop):
            earlier = range(x if limit is None else limit)
            # Ties go to the record that came first.
            best = heapq.nlargest(self.k, ((self.store.sums.score(x, j), -j) for j in earlier))
            self.tally.counts[SCORES] += len(earlier)
            row = np.full((1, self.k), -1, np.int32)
            row[0, : len(best)] = [-j for _, j in best]
            yield Neighbors(x, row)
