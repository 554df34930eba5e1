"""Search under any linkage: ask it about every earlier record, or about those that some source proposes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from grinch._types import Floats, Ids, Slots
from grinch.neighbors.base import Neighbors
from grinch.neighbors.sources import Proposer, proposer_from_state, proposer_to_state
from grinch.saving.state import MANY, State, item, require, scalar
from grinch.summaries.counters import SCORES
from grinch.summaries.records import RecordSummaries
from grinch.tree.links import NONE


class ScanSearch:
    """The k nearest earlier records by the linkage itself, among all of them or among those the proposers name.

    ``batch`` records are looked up at a time; 1 where the proposers are also asked about groups on the way.
    """

    def __init__(self, summaries: RecordSummaries, k: int, proposers: Sequence[Proposer] = (), batch: int = 1):
        self.summaries, self.k, self.proposers, self.batch = summaries, k, proposers, batch
        self._has_gaps = False
        if proposers:
            summaries.look_around(self._around)

    @classmethod
    def from_state(cls, state: Any, summaries: RecordSummaries, sources: Sequence[Any]) -> Self:
        """Return the search of a state; ``sources`` of candidates are those that the user gave."""
        proposers = item(state, "proposers")
        require(isinstance(proposers, list), "there are no proposers")
        made = [proposer_from_state(each, sources) for each in proposers]
        search = cls(summaries, scalar(state, "k", int), made, scalar(state, "batch", int))
        search._has_gaps = scalar(state, "has_gaps", bool)
        return search

    def to_state(self) -> State:
        proposers = [proposer_to_state(proposer, i) for i, proposer in enumerate(self.proposers)]
        numbers = {"k": int(self.k), "batch": int(self.batch), "has_gaps": bool(self._has_gaps)}
        return {"part": "scan_search", **numbers, "proposers": proposers}

    def validate(self) -> None:
        require(1 <= self.k <= MANY, f"{self.k} neighbours cannot be looked for")
        require(1 <= self.batch <= MANY, f"records cannot be looked up {self.batch} at a time")
        for proposer in self.proposers:
            proposer.validate(self.summaries.capacity)

    def write(self, at: int, rows: Any) -> None:
        for proposer in self.proposers:
            proposer.write(at, rows)

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        proposals = [proposer.stream(start, stop, limit) for proposer in self.proposers]

        def asked() -> Iterator[tuple[int, Ids]]:
            for x in range(start, stop):
                if proposals:
                    yield x, _united([next(proposal) for proposal in proposals])
                else:
                    yield x, np.arange(x if limit is None else limit, dtype=np.int32)

        return self._batched(start, asked())

    def nearest(self, leaves: Slots, limit: int) -> Iterator[Neighbors]:
        for proposer in self.proposers:
            proposer.settle(limit)
        return self._batched(0, ((x, self._others(x, limit)) for x in leaves.tolist()))

    def catch_up(self, count: int) -> None:
        """So many records are there that were never looked for."""
        for proposer in self.proposers:
            for _ in proposer.stream(0, count, None):
                pass
            proposer.settle(count)

    def _others(self, x: int, limit: int) -> Ids:
        """Whom a record in the tree is compared with."""
        found = np.array(self._around([x]), np.int32) if self.proposers else np.arange(limit, dtype=np.int32)
        return found[found != x]

    def _batched(self, start: int, asked: Iterable[tuple[int, Ids]]) -> Iterator[Neighbors]:
        """Neighbours of records, several at a time; what is raised on the way comes after those found before it."""
        scored: list[tuple[Ids, Floats]] = []
        try:
            for x, others in asked:
                scored.append(self._scored(x, others))
                if len(scored) == self.batch:
                    yield Neighbors(start, self._ranked(scored))
                    start, scored = start + len(scored), []
        except GeneratorExit:
            raise
        except BaseException:
            if scored:
                yield Neighbors(start, self._ranked(scored))
            raise
        if scored:
            yield Neighbors(start, self._ranked(scored))

    def changed(self, leaves: Slots) -> None:
        self._has_gaps = True
        for proposer in self.proposers:
            proposer.changed(leaves, self.summaries.gone(leaves))

    def rewritten(self) -> None:
        """Records stay as they are."""

    def compacted(self, leaves: Slots) -> None:
        self._has_gaps = False
        for proposer in self.proposers:
            proposer.compacted(leaves)

    def _scored(self, x: int, others: Ids) -> tuple[Ids, Floats]:
        """Those of these records that are not gone, and their scores with x."""
        if self._has_gaps:
            others = others[~self.summaries.gone(others)]
        self.summaries.arrays.counts[SCORES] += len(others)
        return others, self.summaries.scores(x, others.tolist())

    def _ranked(self, scored: list[tuple[Ids, Floats]]) -> Ids:
        """The best of each, padded with NONE; ties go to the one that came first."""
        width = max(self.k, max(len(others) for others, _ in scored))
        ids = np.full((len(scored), width), NONE, np.int32)
        values = np.full((len(scored), width), -np.inf)
        for i, (others, scores) in enumerate(scored):
            ids[i, : len(others)], values[i, : len(others)] = others, scores
        # Ascending positions: a stable sort leaves the first of equals in front, and what is padded behind.
        return np.take_along_axis(ids, np.argsort(-values, axis=1, kind="stable")[:, : self.k], axis=1)

    def _around(self, leaves: list[int]) -> list[int]:
        found: list[int] = _united([proposer.around(leaves) for proposer in self.proposers]).tolist()
        return found


def _united(proposed: Sequence[Iterable[int]]) -> Ids:
    """All records that were proposed, each once, in ascending order."""
    found = [each if isinstance(each, np.ndarray) else np.fromiter(each, np.int32) for each in proposed]
    return np.unique(np.concatenate(found)) if len(found) > 1 else np.sort(found[0])
