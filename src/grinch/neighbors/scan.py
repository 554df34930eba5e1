"""Search under any linkage: ask it about every earlier record, or about those that some source proposes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from grinch.linkage.store import RecordStore
from grinch.neighbors.base import Neighbors
from grinch.neighbors.sources import Proposer
from grinch.tally import SCORES, Tally


class ScanSearch:
    """The k nearest earlier records by the linkage itself, among all of them or among those the proposers name."""

    def __init__(self, store: RecordStore, k: int, tally: Tally, proposers: Sequence[Proposer] = ()):
        self.store, self.k, self.tally, self.proposers = store, k, tally, proposers
        if proposers:
            store.sums.around = self._around

    def write(self, at: int, records: Sequence[Any]) -> None:
        """Tell the proposers of records to come."""
        for proposer in self.proposers:
            proposer.write(at, records)

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        proposals = [proposer.stream(start, stop, limit) for proposer in self.proposers]
        for x in range(start, stop):
            earlier: Sequence[int] = range(x if limit is None else limit)
            if proposals:
                earlier = sorted({leaf for proposal in proposals for leaf in next(proposal)})
            scores = self.store.sums.scores(x, earlier)
            self.tally.counts[SCORES] += len(earlier)
            # Ties go to the record that came first.
            best = heapq.nlargest(self.k, zip(scores, (-j for j in earlier), strict=True))
            row = np.full((1, self.k), -1, np.int32)
            row[0, : len(best)] = [-j for _, j in best]
            yield Neighbors(x, row)

    def _around(self, leaves: list[int]) -> set[int]:
        return {leaf for proposer in self.proposers for leaf in proposer.around(leaves)}
