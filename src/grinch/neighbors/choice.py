"""The choice of a search: by its name, by sources of candidates, by the number of points, or as a file has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse

from grinch._types import Ids, Slots
from grinch.errors import SavedModelError, unknown_name
from grinch.linkage.named import VECTOR_LINKAGES
from grinch.neighbors.cells import CellSearch
from grinch.neighbors.exact import ExactSearch, Neighbors, Search
from grinch.neighbors.nsw import NswSearch
from grinch.neighbors.scan import ScanSearch, Source
from grinch.neighbors.sparse import MAX_POINTS, SparseSearch
from grinch.saving.state import State, item, require, scalar
from grinch.summaries import RecordSummaries, SparseSummaries, Summaries, VectorSummaries
from grinch.summaries.arrays import Arrays
from grinch.tree import NONE
from grinch.tree.links import NO_LIMIT

SEARCHES = ("auto", "exact", "index", "nsw")
RECORDS_AT_ONCE = 16
# The most records that are searched exactly, unless that is asked for.
RECORDS_EXACT_UP_TO = 2000
# The most points that are searched exactly. Measured: docs/development/search.md. A multiple of BATCH.
EXACT_UP_TO = 16_384


def check_search(search: Any) -> None:
    """Raise an error unless ``search`` is a name, a source of candidates, or a list of sources."""
    if isinstance(search, str):
        if search not in SEARCHES:
            raise unknown_name("search", search, SEARCHES, " (or ByVector(...), ByKey(...), or a list of them)")
        return
    sources = search if isinstance(search, (list, tuple)) else [search]
    if not sources or not all(isinstance(source, Source) and not isinstance(source, type) for source in sources):
        raise TypeError(
            f"search must be one of {', '.join(map(repr, SEARCHES))}, or ByVector(...), ByKey(...), or a list of them;"
            f" got {search!r}"
        )


def make_search(search: Any, summaries: Summaries, k: int, at_once: bool = True) -> Search:
    """Return the search of a name, or by the points there are summaries of for ``"auto"``.

    ``at_once``: records may be looked up several at a time, for nothing else is asked of the search meanwhile.
    """
    check_search(search)
    if isinstance(summaries, RecordSummaries):
        if search == "index":
            raise ValueError(
                "search='index' needs a linkage on vectors; for yours, use search='nsw' or ByVector(embed, index=True)"
            )
        # Grafts that search again need to know all records, so there is nothing to be gained.
        if search == "nsw" or (search == "auto" and at_once):
            return NswSearch(summaries, k, exact_up_to=RECORDS_EXACT_UP_TO if search == "auto" else 0)
        sources = () if isinstance(search, str) else search if isinstance(search, (list, tuple)) else (search,)
        return ScanSearch(summaries, k, [source.proposer() for source in sources], RECORDS_AT_ONCE if at_once else 1)
    if not isinstance(search, str):
        raise ValueError(
            "ByVector and ByKey are for linkages of your own; vectors are searched by 'exact', 'index' or 'nsw'"
        )
    if search == "nsw":
        return NswSearch(summaries, k)
    if isinstance(summaries, SparseSummaries):
        return SparseSearch(summaries, k, most_points=NO_LIMIT if search == "exact" else MAX_POINTS)
    if search == "index":
        return CellSearch(summaries, k)
    return ExactSearch(summaries, k) if search == "exact" else AutoSearch(summaries, k)


def search_of_state(state: Any, summaries: Summaries, sources: Sequence[Any]) -> Search:
    """Return the search of a state on the points there are summaries of; ``sources`` are those that the user gave."""
    if item(state, "part") == "nsw_search":
        return NswSearch.from_state(state, summaries)
    if isinstance(summaries, RecordSummaries):
        return ScanSearch.from_state(state, summaries, sources)
    if isinstance(summaries, SparseSummaries):
        return SparseSearch.from_state(state, summaries)
    kinds: dict[Any, Any] = {"exact_search": ExactSearch, "cell_search": CellSearch, "auto_search": AutoSearch}
    kind = kinds.get(item(state, "part"))
    if kind is None:
        raise SavedModelError(f"{state['part']!r:.60} is no search that this version knows")
    found: Search = kind.from_state(state, summaries)
    return found


class AutoSearch(ExactSearch):
    """Exact up to EXACT_UP_TO points, then by cells.

    Points enter the cells from half of that on, two for each that comes, so that no insert waits at the turn.
    """

    _made_cells: CellSearch | None = None

    @property
    def _cells(self) -> CellSearch:
        """The cells, made when the first point enters them."""
        if self._made_cells is None:
            self._made_cells = CellSearch(self.summaries, self.k)
        return self._made_cells

    @classmethod
    def from_state(cls, state: Any, summaries: VectorSummaries) -> Self:
        """Return the search of a state on the points there are summaries of."""
        search = super().from_state(item(state, "exact"), summaries)
        search._made_cells = CellSearch.from_state(item(state, "cells"), summaries)
        require(search.k == scalar(state, "k", int), "two searches look for different numbers of neighbours")
        return search

    def to_state(self) -> State:
        parts = {"exact": super().to_state(), "cells": self._cells.to_state()}
        return {"part": "auto_search", "k": int(self.k), **parts}

    def validate(self) -> None:
        require(self.k == self._cells.k, "two searches look for different numbers of neighbours")
        super().validate()
        self._cells.validate()

    def arriving(self, start: int, stop: int) -> Iterator[Neighbors]:
        turn = min(max(start, EXACT_UP_TO), stop)
        if start < turn:
            for part in super().arriving(start, turn):
                if 2 * part.start > EXACT_UP_TO:
                    self._cells.enter_up_to(2 * part.start - EXACT_UP_TO)
                yield part
        if turn < stop:
            yield from self._cells.stream(turn, stop)

    def nearest(self, leaves: Slots, limit: int) -> Iterator[Neighbors]:
        return self._cells.nearest(leaves, limit) if limit > EXACT_UP_TO else super().nearest(leaves, limit)

    def find(self, arrays: Arrays, slots: Slots, limit: int) -> Ids:
        return self._cells.find(arrays, slots, limit) if limit > EXACT_UP_TO else super().find(arrays, slots, limit)

    def frozen(self, summaries: VectorSummaries, limit: int) -> Any:
        return self._cells.frozen(summaries, limit) if limit > EXACT_UP_TO else super().frozen(summaries, limit)

    def catch_up(self, count: int) -> None:
        if count > EXACT_UP_TO:
            self._cells.enter_up_to(count)

    def rewritten(self) -> None:
        super().rewritten()
        self._made_cells = None

    def compacted(self, leaves: Slots) -> None:
        super().compacted(leaves)
        if self._made_cells is not None:
            self._made_cells.compacted(leaves)


def nearest_among(rows: Any, k: int) -> Ids:
    """Return the k nearest others of each row by Euclidean distance, best first, padded with NONE.

    The search is exact up to 16,384 rows, and by cells beyond.

    >>> nearest_among(np.array([[0.0], [1.0], [7.0], [9.0]], np.float32), 1).ravel().tolist()
    [1, 0, 3, 2]
    """
    n, linkage = rows.shape[0], VECTOR_LINKAGES["average"]["sqeuclidean"]
    kind = SparseSummaries if scipy.sparse.issparse(rows) else VectorSummaries
    summaries = kind(linkage, rows.shape[1])
    summaries.grow(n)
    summaries.take_all(0, rows)
    near = np.full((n, k), NONE, np.int32)
    for first, found in make_search("auto", summaries, k).nearest(np.arange(n), n):
        near[first : first + len(found), : found.shape[1]] = found
    return near
