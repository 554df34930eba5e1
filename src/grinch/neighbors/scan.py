"""Search under any linkage: ask it about every earlier record, or about those that some source proposes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from grinch._types import Ids, Slots
from grinch.neighbors.base import Neighbors
from grinch.neighbors.sources import Proposer
from grinch.summaries.counters import SCORES
from grinch.summaries.records import RecordSummaries


class ScanSearch:
    """The k nearest earlier records by the linkage itself, among all of them or among those the proposers name.

    ``batch`` records are looked up at a time; 1 where the proposers are also asked about groups on the way.
    """

    def __init__(self, summaries: RecordSummaries, k: int, proposers: Sequence[Proposer] = (), batch: int = 1):
        self.summaries, self.k, self.proposers, self.batch = summaries, k, proposers, batch
        if proposers:
            summaries.look_around(self._around)

    def write(self, at: int, rows: Any) -> None:
        for proposer in self.proposers:
            proposer.write(at, rows)

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        proposals = [proposer.stream(start, stop, limit) for proposer in self.proposers]

        def asked() -> Iterator[tuple[int, Iterable[int]]]:
            for x in range(start, stop):
                earlier: Iterable[int] = range(x if limit is None else limit)
                yield x, sorted({leaf for proposal in proposals for leaf in next(proposal)}) if proposals else earlier

        return self._batched(start, asked())

    def nearest(self, leaves: Slots, limit: int) -> Iterator[Neighbors]:
        others = ((x, sorted(self._around([x])) if self.proposers else range(limit)) for x in leaves.tolist())
        return self._batched(0, others)

    def _batched(self, start: int, asked: Iterable[tuple[int, Iterable[int]]]) -> Iterator[Neighbors]:
        """Neighbours of records, several at a time; what is raised on the way comes after those found before it."""
        rows: list[Ids] = []
        try:
            for x, others in asked:
                rows.append(self._ranked(x, others))
                if len(rows) == self.batch:
                    yield Neighbors(start, np.stack(rows))
                    start, rows = start + len(rows), []
        except GeneratorExit:
            raise
        except BaseException:
            if rows:
                yield Neighbors(start, np.stack(rows))
            raise
        if rows:
            yield Neighbors(start, np.stack(rows))

    def changed(self, leaves: Slots) -> None:
        for proposer in self.proposers:
            proposer.changed(leaves, self.summaries.gone(leaves))

    def compacted(self, leaves: Slots) -> None:
        for proposer in self.proposers:
            proposer.compacted(leaves)

    def _ranked(self, x: int, others: Iterable[int]) -> Ids:
        """The best of these records for x, but for x itself and what is gone; ties go to the one that came first."""
        asked = np.fromiter(others, np.int32)
        asked = asked[(asked != x) & ~self.summaries.gone(asked)]
        scores = np.asarray(self.summaries.scores(x, asked.tolist()), np.float64)
        self.summaries.arrays.counts[SCORES] += len(asked)
        row = np.full(self.k, -1, np.int32)
        # Ascending positions: a stable sort leaves the first of equals in front.
        best = asked[np.argsort(-scores, kind="stable")[: self.k]]
        row[: len(best)] = best
        return row

    def _around(self, leaves: list[int]) -> set[int]:
        return {leaf for proposer in self.proposers for leaf in proposer.around(leaves)}
