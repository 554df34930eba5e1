"""Search under any linkage: ask it about every earlier record, or about the candidates of some source.

A source is what a user gives to ``Grinch(search=...)``: :class:`ByVector`, :class:`ByKey`, or a list of them. It
makes a proposer, which belongs to one engine and knows its records.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from grinch._checks import check_count
from grinch._interrupts import uninterrupted
from grinch._types import Floats, Ids, Slots
from grinch.errors import NotSavable, SavedModelError, unknown_name
from grinch.linkage.base import (
    function_from_state,
    function_to_state,
    hand_in,
    linkage_to_state,
    only_entry,
    part_from_state,
    saved_as,
)
from grinch.linkage.named import VECTOR_LINKAGES
from grinch.neighbors.cells import CellSearch
from grinch.neighbors.exact import ExactSearch, Neighbors, Search
from grinch.saving.json_values import value_bytes, value_of
from grinch.saving.state import MANY, State, are_within, array, item, require, scalar
from grinch.summaries.arrays import SCORES
from grinch.summaries.records import RecordSummaries
from grinch.summaries.vectors import LONGEST, VectorSummaries
from grinch.tree.links import NO_LIMIT, NONE

# Rows kept free for records that are looked up but not inserted.
SPARE = 256


class Proposer(Protocol):
    """Names earlier records that may be near."""

    def write(self, at: int, records: Sequence[Any]) -> None:
        """Take note of records to come, from position ``at`` on."""

    def stream(self, start: int, stop: int, limit: int | None) -> Iterator[Iterable[int]]:
        """Yield for each of the records start to stop, some that came before it (or before ``limit``)."""

    def settle(self, count: int) -> None:
        """Forget records beyond this number, which were named in a stream and never came."""

    def around(self, leaves: list[int]) -> Iterable[int]:
        """Return some records near a group of them; the group itself may be among them."""

    def changed(self, leaves: Slots, gone: npt.NDArray[np.bool_]) -> None:
        """Take note that these records are gone, or back again."""

    def compacted(self, leaves: Slots) -> None:
        """Keep these records only, numbered from 0."""

    def validate(self, capacity: int) -> None:
        """Refuse a state that does not fit to room for this many records."""


@runtime_checkable
class Source(Protocol):
    """Makes a proposer for an engine."""

    def proposer(self) -> Proposer: ...


@saved_as("by_vector")
@dataclass(frozen=True)
class ByVector:
    """Candidates are the nearest by a vector of each record; the linkage then ranks them.

    Parameters
    ----------
    embed : callable
        ``embed(records)`` of a list of records: a matrix, one row each.
    n : int, default=50
        The number of candidates.
    metric : {"cosine", "dot", "sqeuclidean"}, default="cosine"
        The metric of the search.
    index : bool, default=False
        Search approximately, by cells of near vectors.
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

    def to_state(self) -> State:
        numbers = {"n": int(self.n), "metric": self.metric, "index": bool(self.index)}
        return {"embed": function_to_state(self.embed), **numbers}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        embed = function_from_state(state["embed"], "search")
        return cls(embed, n=state["n"], metric=state["metric"], index=state["index"])


@saved_as("by_key")
@dataclass(frozen=True)
class ByKey:
    """Candidates are the records that share a key.

    Parameters
    ----------
    keys : callable
        ``keys(record)`` is a key (any hashable value), a list, tuple or set of keys, or None for none.
    most : int, default=1000
        If more records than this share a key, only the latest are candidates.
    """

    keys: Callable[[Any], Any]
    most: int = 1000

    def __post_init__(self) -> None:
        check_count("most", self.most, 1)

    def keys_of(self, record: Any) -> tuple[Hashable, ...]:
        """Return the keys of a record."""
        keys = self.keys(record)
        if keys is None:
            return ()
        return tuple(keys) if isinstance(keys, (list, tuple, set, frozenset)) else (keys,)

    def proposer(self) -> Proposer:
        return _SharedKeys(self)

    def to_state(self) -> State:
        return {"keys": function_to_state(self.keys), "most": int(self.most)}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        return cls(function_from_state(state["keys"], "search"), most=state["most"])


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

    @classmethod
    def from_state(cls, state: Any, source: ByVector) -> Self:
        found = cls(source)
        found.inserted, found.at = scalar(state, "inserted", int), scalar(state, "at", int)
        if item(state, "summaries") is not None:
            linkage = VECTOR_LINKAGES["average"][source.metric]
            found.summaries = VectorSummaries.from_state(state["summaries"], linkage)
            found.search = found._search_kind().from_state(item(state, "search"), found.summaries)
        return found

    def to_state(self) -> State:
        found = {"part": "near_vectors", "inserted": int(self.inserted), "at": int(self.at)}
        if self.summaries is None:
            return found | {"summaries": None, "search": None}
        return found | {"summaries": self.summaries.to_state(), "search": self.search.to_state()}

    def validate(self, capacity: int) -> None:
        require(self.inserted >= 0 and self.at >= 0, "vectors of records are not counted")
        if self.summaries is not None:
            require(self.summaries.most_asked == NO_LIMIT, "there is no room for scores")
            require(self.inserted <= self.summaries.capacity <= 2 * capacity + MANY, "vectors are not of records")
            self.summaries.validate()
            require(self.search.k == self.source.n, "another number of candidates is proposed")
            self.search.validate()

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
            self.search = self._search_kind()(self.summaries, self.source.n)
        if vectors.shape[1] != self.summaries.n_features:
            raise ValueError(
                f"embed must return rows of {self.summaries.n_features} numbers as before; got {vectors.shape[1]}"
            )
        self.summaries.own_arrays()
        need = at + len(records)
        if need > self.summaries.capacity:
            self.summaries.grow(max(need + SPARE, int(1.5 * self.summaries.capacity)))
        self.at, self.coming = at, vectors

    def _search_kind(self) -> Any:
        return CellSearch if self.source.index else ExactSearch

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

    @classmethod
    def from_state(cls, state: Any, source: ByKey) -> Self:
        found = cls(source)
        found.filed = scalar(state, "filed", int)
        found.of_record = value_of(array(state, "of_record", "|u1", 1))
        found.of_key.update(dict(value_of(array(state, "of_key", "|u1", 1))))
        return found

    def to_state(self) -> State:
        of_key = [[key, positions] for key, positions in self.of_key.items()]
        what = "the keys of a record"
        values = {"of_record": value_bytes(self.of_record, what), "of_key": value_bytes(of_key, what)}
        return {"part": "shared_keys", "filed": int(self.filed), **values}

    def validate(self, capacity: int) -> None:
        is_list = type(self.of_record) is list
        require(is_list and 0 <= self.filed <= len(self.of_record) <= capacity, "keys are lost")
        require(all(type(keys) is tuple for keys in self.of_record), "the keys of a record are none")
        for positions in self.of_key.values():
            require(type(positions) is list and all(type(each) is int for each in positions), "keys are of no records")
            require(are_within(positions, 0, max(self.filed, 1)), "a key is that of a record that is not there")

    def write(self, at: int, records: Sequence[Any]) -> None:
        del self.of_record[at:]
        self.of_record += [self.source.keys_of(record) for record in records]

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
        # A key that no record has must not be entered by looking it up.
        return {position for key in keys for position in self.of_key.get(key, ())[-self.source.most :]}


# In files -----------------------------------------------------------------------------------------------------------


def search_to_state(search: Any) -> State:
    """Return what ``search`` is in a file: a name, a source, or a list of them."""
    if isinstance(search, (list, tuple)):
        found = [search_to_state(each) for each in search]
        if any("hand_in" in each for each in found):
            return hand_in(search)
        return {"tuple" if isinstance(search, tuple) else "list": found}
    return linkage_to_state(search)


def search_from_state(state: Any, given: Any) -> Any:
    """Return what ``search`` was; ``given`` was handed in, or is None."""
    kind, content = only_entry(state)
    if kind == "name":
        if given is not None:
            raise ValueError(
                f"search is {content!r} in the saved model, and cannot be another one; got {given!r}. Leave it out"
            )
        return content
    if given is not None:
        return given
    if kind in ("list", "tuple"):
        found = [search_from_state(each, None) for each in content]
        return tuple(found) if kind == "tuple" else found
    if kind in ("by_vector", "by_key"):
        return part_from_state(state)
    raise SavedModelError(
        f"search is {content!r:.100}, which a file cannot hold. Pass the one that the model was built with: search=..."
    )


def proposer_to_state(proposer: Any, number: int) -> State:
    """Return the state of a proposer, which was made by the source of that number."""
    if not isinstance(proposer, (_NearVectors, _SharedKeys)):
        kind = type(proposer)
        raise NotSavable(
            f"search proposes candidates by {kind.__module__}.{kind.__qualname__}, which cannot be written to a file."
            " ByVector and ByKey can"
        )
    source = proposer.source
    if isinstance(source, ByVector) and source.embed is np.stack:
        # Not one of the user's: it stands for a distance of vectors.
        about: State = {"n": int(source.n), "metric": source.metric, "index": bool(source.index)}
    else:
        about = {"given": number}
    return proposer.to_state() | {"source": about}


def proposer_from_state(state: Any, sources: Sequence[Any]) -> Proposer:
    """Return the proposer of a state; ``sources`` are those that the user gave."""
    is_near, about = item(state, "part") == "near_vectors", item(state, "source")
    if isinstance(about, dict) and "given" in about:
        number = about["given"]
        if type(number) is not int or not 0 <= number < len(sources):
            raise SavedModelError(f"there is no source of candidates number {number!r}")
        source = sources[number]
    elif is_near:
        source = ByVector(np.stack, n=item(about, "n"), metric=item(about, "metric"), index=item(about, "index"))
    else:
        raise SavedModelError(f"{about!r:.60} is no source of candidates")
    return _NearVectors.from_state(state, source) if is_near else _SharedKeys.from_state(state, source)


class ScanSearch(Search):
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
        super().validate()
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
        for proposer in self.proposers:
            for _ in proposer.stream(0, count, None):
                pass
            proposer.settle(count)

    def _others(self, x: int, limit: int) -> Ids:
        """Return the records that one in the tree is compared with."""
        found = np.array(self._around([x]), np.int32) if self.proposers else np.arange(limit, dtype=np.int32)
        return found[found != x]

    def _batched(self, start: int, asked: Iterable[tuple[int, Ids]]) -> Iterator[Neighbors]:
        """Yield neighbours of records, several at a time; those found before an error come first."""
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

    def compacted(self, leaves: Slots) -> None:
        self._has_gaps = False
        for proposer in self.proposers:
            proposer.compacted(leaves)

    def _scored(self, x: int, others: Ids) -> tuple[Ids, Floats]:
        """Return those of these records that are not gone, and their scores with x."""
        if self._has_gaps:
            others = others[~self.summaries.gone(others)]
        self.summaries.arrays.counts[SCORES] += len(others)
        return others, self.summaries.scores(x, others.tolist())

    def _ranked(self, scored: list[tuple[Ids, Floats]]) -> Ids:
        """Return the best of each, padded with NONE; ties go to the one that came first."""
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
    """Return all records that were proposed, each once, in ascending order."""
    found = [each if isinstance(each, np.ndarray) else np.fromiter(each, np.int32) for each in proposed]
    return np.unique(np.concatenate(found)) if len(found) > 1 else np.sort(found[0])
