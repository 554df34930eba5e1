"""Search on sparse vectors by an inverted index that grows: exact, or by the most telling columns alone.

Points are indexed in segments, each of them whole and never changed. As soon as a segment is as large as the one before
it, the two become one; so there are few, and a point is copied few times.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, Self

import numpy as np

from grinch._by_reference import by_reference
from grinch._compile import jitable, kernel
from grinch._types import Counts, Flags, Floats, Ids, Slots, Vectors32, as_id
from grinch._vectors import first_not_below, offer_block
from grinch.linkage.named import TANIMOTO
from grinch.linkage.sparse import SQUARE
from grinch.neighbors.exact import EXTRA, ExactSearch, ranked
from grinch.saving.state import State, require, scalar
from grinch.summaries.arrays import Arrays, row_of
from grinch.summaries.callbacks import float32_at, int32_at
from grinch.summaries.sparse import SparseSummaries
from grinch.tree.links import NO_LIMIT, NONE

# Points whose products with a query are added up together: they stay in the first-level cache.
BLOCK = 4096


@by_reference
class Segment(NamedTuple):
    """Points from ``first`` on up to ``end``: ``starts`` says by column where its points (``slots``) begin."""

    first: int
    end: int
    starts: Ids
    slots: Ids
    values: Vectors32


class Postings:
    """All points up to ``end``, by column."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []

    @property
    def end(self) -> int:
        return self.segments[-1].end if self.segments else 0

    def append(self, rows: Any) -> None:
        """Add points after the last one, given as a CSR matrix."""
        segments = [*self.segments, _segment(rows, self.end)]
        while len(segments) > 1 and _are_joined(*segments[-2:]):
            newer, older = segments.pop(), segments.pop()
            segments.append(_joined(older, newer))
        # In one step, for another thread may be reading.
        self.segments = segments


def _are_joined(older: Segment, newer: Segment) -> bool:
    """Return whether to join two segments: the older is not much larger, and places in the result fit into 32 bits."""
    is_small = older.end - older.first <= 2 * (newer.end - newer.first)
    return is_small and len(older.slots) + len(newer.slots) < 2**31


def _segment(rows: Any, first: int) -> Segment:
    columns = rows.tocsc()
    columns.sort_indices()
    slots = (columns.indices + first).astype(np.int32)
    return Segment(first, first + rows.shape[0], columns.indptr.astype(np.int32), slots, columns.data)


def _joined(older: Segment, newer: Segment) -> Segment:
    n_columns = max(len(older.starts), len(newer.starts)) - 1
    older, newer = (segment._replace(starts=_padded(segment.starts, n_columns)) for segment in (older, newer))
    n, starts = len(older.slots) + len(newer.slots), older.starts + newer.starts
    whole = Segment(older.first, newer.end, starts, np.empty(n, np.int32), np.empty(n, np.float32))
    _join(older, newer, whole)
    return whole


def _padded(starts: Ids, n_columns: int) -> Ids:
    """Return the starts for ``n_columns`` columns: those that came later are empty."""
    return np.concatenate([starts, np.full(n_columns + 1 - len(starts), starts[-1])])


@kernel
def _join(older: Segment, newer: Segment, whole: Segment) -> None:
    at = 0
    for column in range(whole.starts.shape[0] - 1):
        for part in (older, newer):
            for i in range(part.starts[column], part.starts[column + 1]):
                whole.slots[at], whole.values[at] = part.slots[i], part.values[i]
                at += 1


# What is asked of it ------------------------------------------------------------------------------------------------


@by_reference
class Queries(NamedTuple):
    """Points that are looked up, each among those before its limit.

    ``offsets`` says where the columns of each begin in ``is_used``, which says whether they count.
    """

    slots: Slots
    limits: Slots
    offsets: Counts
    is_used: Flags


@by_reference
class Heaps(NamedTuple):
    """The best that was offered to each query, as in :mod:`grinch._vectors`, with the products as scratch.

    ``are_positive``: only points that have something in common with a query are taken, so that all others are skipped.
    """

    products: Floats
    scale: Floats
    shift: Floats
    values: Floats
    ids: Ids
    are_positive: bool


@kernel
def count_points(arrays: Arrays, queries: Queries, segment: Segment, counts: Counts) -> None:
    """Add, for each column of each query, the points of a segment that have it, as far as they are before its limit."""
    starts, slots = segment.starts, segment.slots
    for r in range(queries.slots.shape[0]):
        at_columns, _, n = row_of(arrays, as_id(queries.slots[r]))
        columns = int32_at(at_columns, n)
        for i in range(n):
            if columns[i] + 1 < starts.shape[0]:
                here = slots[starts[columns[i]] : starts[columns[i] + 1]]
                counts[queries.offsets[r] + i] += first_not_below(here, queries.limits[r], 0)


@kernel
def offer_segment(arrays: Arrays, queries: Queries, segment: Segment, cursors: Counts, heaps: Heaps) -> None:
    """Offer the points of a segment to each query, by its columns that count; ``cursors`` is scratch space."""
    starts, slots = segment.starts, segment.slots
    n_columns = starts.shape[0] - 1
    for r in range(queries.slots.shape[0]):
        x, stop = as_id(queries.slots[r]), min(segment.end, queries.limits[r])
        at_columns, at_values, n = row_of(arrays, x)
        columns, row = int32_at(at_columns, n), float32_at(at_values, n)
        for i in range(n):
            cursors[i] = starts[min(columns[i], n_columns)]
        begin = segment.first
        while begin < stop:
            if heaps.are_positive:
                first = _first_with_a_column(columns, queries, r, segment, cursors, stop)
                begin += (first - begin) // BLOCK * BLOCK
                if first == stop:
                    break
            end = min(begin + BLOCK, stop)
            block = heaps.products[:1, : end - begin]
            block[0, :] = 0.0
            for i in range(n):
                if queries.is_used[queries.offsets[r] + i] and columns[i] < n_columns:
                    at, last, weight = cursors[i], starts[columns[i] + 1], np.float64(row[i])
                    while at < last and slots[at] < end:
                        block[0, slots[at] - begin] += weight * np.float64(segment.values[at])
                        at += 1
                    cursors[i] = at
            _offer(arrays, x, begin, block, r, queries, heaps)
            begin = end


@jitable
def _first_with_a_column(columns: Ids, queries: Queries, r: int, segment: Segment, cursors: Counts, stop: int) -> int:
    """Return the first point from the cursors on that has a column of query r that counts; ``stop`` for none."""
    first = stop
    for i in range(columns.shape[0]):
        end = segment.starts[min(columns[i] + 1, segment.starts.shape[0] - 1)]
        if queries.is_used[queries.offsets[r] + i] and cursors[i] < end:
            first = min(first, int(segment.slots[cursors[i]]))
    return first


@kernel
def count_rows(arrays: Arrays, queries: Queries, first: int, counts: Counts) -> None:
    """Count as ``count_points`` does, for the points from ``first`` on, which no segment has yet."""
    for r in range(queries.slots.shape[0]):
        at_columns, _, n = row_of(arrays, as_id(queries.slots[r]))
        columns = int32_at(at_columns, n)
        for point in range(first, queries.limits[r]):
            at_others, _, m = row_of(arrays, point)
            others = int32_at(at_others, m)
            i, j = 0, 0
            while i < n and j < m:
                a, b = columns[i], others[j]
                counts[queries.offsets[r] + i] += a == b
                i += a <= b
                j += b <= a


@kernel
def offer_rows(arrays: Arrays, queries: Queries, first: int, heaps: Heaps) -> None:
    """Offer the points from ``first`` on, which no segment has yet, to each query, by its columns that count."""
    for r in range(queries.slots.shape[0]):
        x = as_id(queries.slots[r])
        is_used = queries.is_used[queries.offsets[r] : queries.offsets[r + 1]]
        for begin in range(first, queries.limits[r], BLOCK):
            block = heaps.products[:1, : min(BLOCK, queries.limits[r] - begin)]
            for j in range(block.shape[1]):
                block[0, j] = _product_of_used(arrays, x, begin + j, is_used)
            _offer(arrays, x, begin, block, r, queries, heaps)


@jitable
def _product_of_used(arrays: Arrays, x: int, point: int, is_used: Flags) -> float:
    """Return the product of a query with a point, by its columns that count."""
    at_columns, at_values, n = row_of(arrays, x)
    at_others, at_other_values, m = row_of(arrays, point)
    columns, values = int32_at(at_columns, n), float32_at(at_values, n)
    others, other_values = int32_at(at_others, m), float32_at(at_other_values, m)
    i, j, total = 0, 0, 0.0
    while i < n and j < m:
        a, b = columns[i], others[j]
        if a == b and is_used[i]:
            total += np.float64(values[i]) * np.float64(other_values[j])
        i += a <= b
        j += b <= a
    return total


@jitable
def _offer(arrays: Arrays, x: int, first: int, products: Floats, r: int, queries: Queries, heaps: Heaps) -> None:
    """Offer points from ``first`` on, with these products, to query r."""
    _as_similarities(arrays, x, first, products)
    values, ids, limits = heaps.values[r : r + 1], heaps.ids[r : r + 1], queries.limits[r : r + 1]
    offer_block(products, first, limits, heaps.scale, heaps.shift, values, ids)


@jitable
def _as_similarities(arrays: Arrays, x: int, first: int, products: Floats) -> None:
    """Turn products into Tanimoto's coefficients, which no factor does."""
    if arrays.formula == TANIMOTO:
        own = arrays.moments[x, SQUARE]
        for j in range(products.shape[1]):
            product = products[0, j]
            if product > 0.0:
                products[0, j] = product / (own + arrays.moments[first + j, SQUARE] - product)


# So many points at the end are compared one by one: they are indexed together.
AT_ONCE = 512
# So many at a time are put in order by columns.
PIECE = 2**14
# Of a query, the columns that the fewest points have are used, as long as these are at most this many in all. Measured:
# docs/development/sparse.md.
MAX_POINTS = 2**14


class SparseSearch(ExactSearch):
    """The k nearest earlier points by an inverted index.

    ``most_points`` is how many points a query may be compared with, counted once for each column they share.
    """

    number = np.float64

    def __init__(self, summaries: SparseSummaries, k: int, jobs: int | None = None, most_points: int = NO_LIMIT):
        super().__init__(summaries, k, jobs)
        self.most_points = most_points
        self.postings = Postings()

    @classmethod
    def from_state(cls, state: Any, summaries: SparseSummaries) -> Self:
        search = super().from_state(state, summaries)
        search.most_points = scalar(state, "most_points", int)
        return search

    def to_state(self) -> State:
        return {**super().to_state(), "part": "sparse_search", "most_points": int(self.most_points)}

    def validate(self) -> None:
        super().validate()
        require(self.most_points >= 1, "nothing is searched")

    def rewritten(self) -> None:
        super().rewritten()
        self.postings = Postings()

    def compacted(self, leaves: Slots) -> None:
        super().compacted(leaves)
        self.postings = Postings()

    def frozen(self, summaries: Any, limit: int) -> Self:
        twin = super().frozen(summaries, limit)
        # Segments never change.
        twin.postings = copy.copy(self.postings)
        return twin

    def _sync(self, start: int, stop: int) -> None:
        super()._sync(start, stop)
        with self._guard.lock:
            indexed = self.postings.end
            if indexed > start:
                # Points that were expected and never came are indexed: others have their slots now.
                self.postings, indexed = Postings(), 0
            if stop - indexed >= AT_ONCE:
                # In pieces, so that what is needed on the way does not grow with the points.
                for first in range(indexed, stop, PIECE):
                    self.postings.append(self.summaries.leaf_matrix(np.arange(first, min(first + PIECE, stop))))

    def _found(self, arrays: Arrays, queries: Slots, limits: Slots) -> Ids:
        """Return the k nearest of each query among the points before its limit."""
        found = np.empty((len(queries), self.k), np.int32)
        # Among many points, what has nothing in common with a query is none of its neighbours, and is not looked at.
        is_skipping = (limits > self.most_points) & (not self.summaries.linkage.is_euclidean)
        found[is_skipping] = self._nearest_of(arrays, queries[is_skipping], limits[is_skipping], 0.0)
        # Unless nothing has: then some of the first points are, for none is nearer.
        limits, is_alone = limits.copy(), is_skipping & (found[:, 0] == NONE)
        limits[is_alone] = np.minimum(limits[is_alone], np.argmax(self._shift > -np.inf) + self.k + EXTRA)
        rest = ~is_skipping | is_alone
        found[rest] = self._nearest_of(arrays, queries[rest], limits[rest], -np.inf)
        return found

    def _nearest_of(self, arrays: Arrays, queries: Slots, limits: Slots, least: float) -> Ids:
        """Return the same, of those that are nearer than ``least``."""
        if not len(queries):
            return np.empty((0, self.k), np.int32)
        n, width, segments = len(queries), self.k + EXTRA + 1, self.postings.segments
        values, proposed = np.full((n, width), least), np.full((n, width), -1, np.int32)
        heaps = Heaps(np.empty((1, BLOCK)), self._scale, self._shift, values, proposed, least == 0.0)
        sizes = arrays.row_sizes[queries]
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        asked = Queries(queries, limits, offsets, np.ones(int(offsets[-1]), np.uint8))
        if self.most_points != NO_LIMIT:
            asked = self._with_fewest_points(arrays, asked, segments)
        cursors = np.empty(int(sizes.max(initial=0)), np.int64)
        for segment in segments:
            offer_segment(arrays, asked, segment, cursors, heaps)
        offer_rows(arrays, asked, segments[-1].end if segments else 0, heaps)
        return ranked(arrays, queries, proposed, self.k)

    def _with_fewest_points(self, arrays: Arrays, asked: Queries, segments: list[Segment]) -> Queries:
        """Return the same queries by the columns that the fewest points have, as long as these are few enough."""
        counts, offsets = np.zeros(len(asked.is_used), np.int64), asked.offsets
        for segment in segments:
            count_points(arrays, asked, segment, counts)
        count_rows(arrays, asked, segments[-1].end if segments else 0, counts)
        of_query = np.repeat(np.arange(len(asked.slots)), np.diff(offsets))
        order = np.lexsort((counts, of_query))
        sums = np.cumsum(counts[order])
        before = np.concatenate([[0], sums])[offsets[:-1]]
        is_few = sums - before[of_query] <= self.most_points
        # The rarest column of a query counts in any case.
        is_few[offsets[:-1][np.diff(offsets) > 0]] = True
        is_used = np.empty(len(counts), np.uint8)
        is_used[order] = is_few
        return asked._replace(is_used=is_used)
