"""Where candidates come from when a linkage is too expensive to be asked about every record.

A source is what a user gives to ``Grinch(search=...)``: :class:`ByVector`, :class:`ByKey`, or a list of them. It
makes a proposer, which belongs to one engine and knows its records.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from grinch._checks import check_count
from grinch._interrupts import uninterrupted
from grinch._types import Ids, Slots
from grinch.errors import unknown_name
from grinch.linkage.named import VECTOR_LINKAGES
from grinch.neighbors.exact import ExactSearch
from grinch.summaries.frame import LONGEST
from grinch.summaries.vectors import VectorSummaries

# Rows kept free for records that are looked up but not inserted.
SPARE = 256


class Proposer(Protocol):
    """Names earlier records that may be near."""

    def write(self, at: int, records: Sequence[Any]) -> None:
        """Records to come, from position ``at`` on."""
        ...

    def stream(self, start: int, stop: int, limit: int | None) -> Iterator[Iterable[int]]:
        """For each of the records start to stop, some that came before it (or before ``limit``)."""
        ...

    def settle(self, count: int) -> None:
        """There are this many records now; those beyond were named in a stream and never came."""
        ...

    def around(self, leaves: list[int]) -> Iterable[int]:
        """Some records near a group of them; the group itself may be among them."""
        ...

    def changed(self, leaves: Slots, gone: npt.NDArray[np.bool_]) -> None:
        """These records are gone, or back again."""
        ...

    def compacted(self, leaves: Slots) -> None:
        """Only these records are left, counted from 0."""
        ...


@runtime_checkable
class Source(Protocol):
    """Makes a proposer for an engine."""

    def proposer(self) -> Proposer: ...


@dataclass(frozen=True)
class ByVector:
    """Candidates are the nearest by a vector of each record; the linkage then ranks them.

    Parameters
    ----------
    embed : callable
        ``embed(records)`` of a list of records: a matrix, one row each.
    n : int, default=50
        How many candidates.
    metric : {"cosine", "dot", "sqeuclidean"}, default="cosine"
        What near means.
    index : bool, default=False
        Find them approximately, by cells of near vectors.
    """

    embed: Callable[[Sequence[Any]], Any]
    n: int = 50
    metric: str = "cosine"
    index: bool = False

    def __post_init__(self) -> None:
        if self.metric not in VECTOR_LINKAGES["average"]:
            raise unknown_name("metric", self.metric, VECTOR_LINKAGES["average"])
        check_count("n", self.n, 1)

    def proposer(self) -> Proposer:
        return _NearVectors(self)


@dataclass(frozen=True)
class ByKey:
    """Candidates are the records that share a key.

    Parameters
    ----------
    keys : callable
        ``keys(record)`` is a key (any hashable value), a list, tuple or set of keys, or None for none.
    most : int, default=1000
        Of a key with more records than this, only the latest are candidates.
    """

    keys: Callable[[Any], Any]
    most: int = 1000

    def __post_init__(self) -> None:
        check_count("most", self.most, 1)

    def proposer(self) -> Proposer:
        return _SharedKeys(self)


class _NearVectors:
    def __init__(self, source: ByVector):
        self.source = source
        self.summaries: VectorSummaries | None = None
        self.search: Any = None
        self.inserted = 0
        # Records to come or to be looked up, from this position on: which of the two it is, a stream says.
        self.at, self.coming = 0, np.empty((0, 0))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "coming": np.empty((0, 0))}

    def write(self, at: int, records: Sequence[Any]) -> None:
        vectors = np.asarray(self.source.embed(records))
        vectors = vectors if vectors.dtype in (np.float32, np.float64) else vectors.astype(np.float64)
        if vectors.ndim != 2 or len(vectors) != len(records) or not np.isfinite(vectors).all():
            raise ValueError(
                f"embed must return a finite matrix with a row for each of the {len(records)} records; got shape"
                f" {vectors.shape}"
            )
        lengths = np.abs(vectors).max(axis=1, initial=0.0) * np.sqrt(vectors.shape[1])
        if (lengths > LONGEST).any():
            raise ValueError(
                f"embed must return vectors that can be squared in float32, up to length {LONGEST:g}; that of record"
                f" {np.argmax(lengths)} is longer. Scale them first"
            )
        if self.summaries is None:
            self.summaries = VectorSummaries(VECTOR_LINKAGES["average"][self.source.metric], vectors.shape[1])
            self.search = self._new_search(self.summaries)
        if vectors.shape[1] != self.summaries.n_features:
            raise ValueError(
                f"embed must return rows of {self.summaries.n_features} numbers as before; got {vectors.shape[1]}"
            )
        self.summaries.own_arrays()
        need = at + len(records)
        if need > self.summaries.capacity:
            self.summaries.grow(max(need + SPARE, int(1.5 * self.summaries.capacity)))
        self.at, self.coming = at, vectors

    def _new_search(self, summaries: VectorSummaries) -> Any:
        if self.source.index:
            from grinch.neighbors.cells import CellSearch

            return CellSearch(summaries, self.source.n)
        return ExactSearch(summaries, self.source.n)

    def stream(self, start: int, stop: int, limit: int | None) -> Iterator[Ids]:
        while start < stop:
            end = self._take(start, self.coming[start - self.at : stop - self.at], limit is None)
            for part in self.search.stream(start, end, limit):
                for i, row in enumerate(part.candidates):
                    # The record itself is in the tree by the time a graft asks around it.
                    self.inserted = part.start + i + 1 if limit is None else limit
                    yield row[row >= 0]
            start = end

    def _take(self, start: int, vectors: npt.NDArray[Any], to_stay: bool) -> int:
        """Store vectors as far as one frame reaches; the end."""
        assert self.summaries is not None
        if not to_stay:
            self.summaries.write(start, vectors)
            return start + len(vectors)
        while not (taken := self.summaries.take(start, vectors)):
            with uninterrupted():
                self.summaries.move(start)
                self.search.rewritten()
        return start + taken

    def settle(self, count: int) -> None:
        assert self.summaries is not None
        self.summaries.own_arrays()
        self.inserted = count

    def around(self, leaves: list[int]) -> Ids:
        assert self.summaries is not None
        points = self.summaries.arrays.means[: self.inserted]
        centre = points[leaves].mean(axis=0, dtype=np.float64).astype(np.float32)
        scores = points @ centre
        if self.source.metric == "sqeuclidean":
            scores -= 0.5 * np.einsum("ij,ij->i", points, points)
        scores[self.summaries.gone(slice(0, self.inserted))] = -np.inf
        # Enough to have n outside the group.
        n = min(self.source.n + len(leaves), len(points))
        return np.argpartition(-scores, n - 1)[:n].astype(np.int32)

    def changed(self, leaves: Slots, gone: npt.NDArray[np.bool_]) -> None:
        assert self.summaries is not None
        self.summaries.own_arrays()
        self.summaries.set_gone(leaves[gone], True)
        self.summaries.set_gone(leaves[~gone], False)
        self.search.changed(leaves)

    def compacted(self, leaves: Slots) -> None:
        assert self.summaries is not None
        self.summaries.compact(leaves, leaves[:0], len(leaves) + SPARE)
        self.search.compacted(leaves)
        self.inserted = len(leaves)


class _SharedKeys:
    def __init__(self, source: ByKey):
        self.source = source
        self.of_key: defaultdict[Hashable, list[int]] = defaultdict(list)
        self.of_record: list[tuple[Hashable, ...]] = []
        self.filed = 0

    def write(self, at: int, records: Sequence[Any]) -> None:
        del self.of_record[at:]
        self.of_record += [_as_keys(self.source.keys(record)) for record in records]

    def _file(self, stop: int) -> None:
        """Enter records under their keys up to ``stop``; take out what was entered beyond it."""
        for position in range(self.filed, stop):
            for key in self.of_record[position]:
                self.of_key[key].append(position)
        if stop < self.filed:
            for positions in self.of_key.values():
                while positions and positions[-1] >= stop:
                    positions.pop()
        self.filed = stop

    def stream(self, start: int, stop: int, limit: int | None) -> Iterator[Iterable[int]]:
        for x in range(start, stop):
            self._file(x if limit is None else limit)
            found = self._sharing(self.of_record[x])
            if limit is None:
                self._file(x + 1)
            yield found

    def settle(self, count: int) -> None:
        self._file(count)

    def around(self, leaves: list[int]) -> Iterable[int]:
        return self._sharing({key for leaf in leaves for key in self.of_record[leaf]})

    def changed(self, leaves: Slots, gone: npt.NDArray[np.bool_]) -> None:
        for position, is_gone in zip(leaves.tolist(), gone, strict=True):
            for key in self.of_record[position]:
                if is_gone:
                    self.of_key[key].remove(position)
                else:
                    bisect.insort(self.of_key[key], position)

    def compacted(self, leaves: Slots) -> None:
        self.of_record = [self.of_record[position] for position in leaves]
        self.of_key.clear()
        self.filed = 0
        self._file(len(leaves))

    def _sharing(self, keys: Iterable[Hashable]) -> set[int]:
        # A key that nobody has must not be entered by looking it up.
        return {position for key in keys for position in self.of_key.get(key, ())[-self.source.most :]}


def _as_keys(keys: Any) -> tuple[Hashable, ...]:
    if keys is None:
        return ()
    if isinstance(keys, (list, tuple, set, frozenset)):
        return tuple(keys)
    return (keys,)
