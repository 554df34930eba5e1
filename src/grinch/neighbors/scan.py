"""Search under any linkage: ask it about every earlier record, or about those that some source proposes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.core.counters import SCORES, Tally
from grinch.neighbors.base import Neighbors, Slots
from grinch.neighbors.sources import Proposer
from grinch.summaries.store import RecordStore


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
            earlier: Iterable[int] = range(x if limit is None else limit)
            if proposals:
                earlier = sorted({leaf for proposal in proposals for leaf in next(proposal)})
            yield Neighbors(x, self._ranked(x, earlier))

    def nearest(self, leaves: Slots, limit: int) -> Iterator[Neighbors]:
        for i, x in enumerate(leaves.tolist()):
            others = sorted(self._around([x])) if self.proposers else range(limit)
            yield Neighbors(i, self._ranked(x, others))

    def changed(self, leaves: Slots) -> None:
        for proposer in self.proposers:
            proposer.changed(leaves, self.store.gone(leaves.tolist()))

    def compacted(self, leaves: Slots) -> None:
        for proposer in self.proposers:
            proposer.compacted(leaves)

    def _ranked(self, x: int, others: Iterable[int]) -> npt.NDArray[np.int32]:
        """The best of these records for x, but for x itself and what is gone; ties go to the one that came first."""
        asked = [leaf for leaf in others if leaf != x]
        asked = [leaf for leaf, gone in zip(asked, self.store.gone(asked), strict=True) if not gone]
        scores = self.store.sums.scores(x, asked)
        self.tally.counts[SCORES] += len(asked)
        best = heapq.nlargest(self.k, zip(scores, (-j for j in asked), strict=True))
        row = np.full((1, self.k), -1, np.int32)
        row[0, : len(best)] = [-j for _, j in best]
        return row

    def _around(self, leaves: list[int]) -> set[int]:
        return {leaf for proposer in self.proposers for leaf in proposer.around(leaves)}
