"""An inverted index that grows: for each column, the points that have it.

Points are indexed in segments, each of them whole and never changed. As soon as a segment is as large as the one before
it, the two become one; so there are few, and a point is copied few times.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grinch._compile import jitable, kernel
from grinch._types import Counts, Flags, Floats, Ids, Slots, Vectors32, as_id
from grinch.linkage.sparse import first_not_below
from grinch.linkage.vector import LENGTH, TANIMOTO
from grinch.neighbors.topk import offer_block
from grinch.summaries.arrays import Arrays
from grinch.summaries.memory import float32_at, int32_at
from grinch.summaries.upkeep import row_of, sparse_product

# Points whose products with a query are added up together: they stay in the first-level cache.
BLOCK = 4096


class Segment(NamedTuple):
    """Points from ``first`` on up to ``end``: ``starts`` says by column where its points (``slots``) begin."""

    first: int
    end: int
    starts: Counts
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
        """Points after the last one, as a CSR matrix."""
        segments = [*self.segments, _segment(rows, self.end)]
        while len(segments) > 1 and _size(segments[-2]) <= 2 * _size(segments[-1]):
            newer, older = segments.pop(), segments.pop()
            segments.append(_joined(older, newer))
        # In one step, for another thread may be reading.
        self.segments = segments


def _size(segment: Segment) -> int:
    return segment.end - segment.first


def _segment(rows: Any, first: int) -> Segment:
    columns = rows.tocsc()
    columns.sort_indices()
    slots = (columns.indices + first).astype(np.int32)
    return Segment(first, first + rows.shape[0], columns.indptr.astype(np.int64), slots, columns.data)


def _joined(older: Segment, newer: Segment) -> Segment:
    n_columns = max(len(older.starts), len(newer.starts)) - 1
    before, after = (_padded(segment.starts, n_columns) for segment in (older, newer))
    n = len(older.slots) + len(newer.slots)
    slots, values = np.empty(n, np.int32), np.empty(n, np.float32)
    _join(before, older.slots, older.values, after, newer.slots, newer.values, slots, values)
    return Segment(older.first, newer.end, before + after, slots, values)


def _padded(starts: Counts, n_columns: int) -> Counts:
    """Columns that came later are empty."""
    return np.concatenate([starts, np.full(n_columns + 1 - len(starts), starts[-1])])


@kernel
def _join(
    before: Counts,
    old_slots: Ids,
    old_values: Vectors32,
    after: Counts,
    new_slots: Ids,
    new_values: Vectors32,
    slots: Ids,
    values: Vectors32,
) -> None:
    at = 0
    for column in range(before.shape[0] - 1):
        for i in range(before[column], before[column + 1]):
            slots[at], values[at] = old_slots[i], old_values[i]
            at += 1
        for i in range(after[column], after[column + 1]):
            slots[at], values[at] = new_slots[i], new_values[i]
            at += 1


# What is asked of it ------------------------------------------------------------------------------------------------


@kernel
def count_points(
    arrays: Arrays, queries: Slots, limits: Slots, starts: Counts, slots: Ids, offsets: Counts, counts: Counts
) -> None:
    """Add, for each column of each query, the points of a segment that have it, as far as they are before its limit.

    ``offsets`` says where the columns of each query begin in ``counts``.
    """
    for r in range(queries.shape[0]):
        at_columns, _, n = row_of(arrays, as_id(queries[r]))
        columns = int32_at(at_columns, n)
        for i in range(n):
            if columns[i] + 1 < starts.shape[0]:
                here = slots[starts[columns[i]] : starts[columns[i] + 1]]
                counts[offsets[r] + i] += first_not_below(here, limits[r], 0)


@kernel
def offer_segment(
    arrays: Arrays,
    queries: Slots,
    limits: Slots,
    first: int,
    end: int,
    starts: Counts,
    slots: Ids,
    weights: Vectors32,
    offsets: Counts,
    is_used: Flags,
    cursors: Counts,
    products: Floats,
    scale: Floats,
    shift: Floats,
    values: Floats,
    ids: Ids,
) -> None:
    """Offer the points of a segment to each query's heap, by the columns that are used (see ``topk.offer_block``)."""
    for r in range(queries.shape[0]):
        x, stop = as_id(queries[r]), min(end, limits[r])
        at_columns, at_values, n = row_of(arrays, x)
        columns, row = int32_at(at_columns, n), float32_at(at_values, n)
        for i in range(n):
            cursors[i] = starts[columns[i]] if columns[i] + 1 < starts.shape[0] else starts[starts.shape[0] - 1]
        for begin in range(first, stop, BLOCK):
            block_end = min(begin + BLOCK, stop)
            block = products[:1, : block_end - begin]
            block[0, :] = 0.0
            for i in range(n):
                if is_used[offsets[r] + i] and columns[i] + 1 < starts.shape[0]:
                    at, last, weight = cursors[i], starts[columns[i] + 1], np.float64(row[i])
                    while at < last and slots[at] < block_end:
                        block[0, slots[at] - begin] += weight * np.float64(weights[at])
                        at += 1
                    cursors[i] = at
            _as_similarities(arrays, x, begin, block)
            offer_block(block, begin, limits[r : r + 1], scale, shift, values[r : r + 1], ids[r : r + 1])


@kernel
def offer_rows(
    arrays: Arrays,
    queries: Slots,
    firsts: Slots,
    limits: Slots,
    products: Floats,
    scale: Floats,
    shift: Floats,
    values: Floats,
    ids: Ids,
) -> None:
    """Offer the points from ``firsts`` on, which no segment was asked for, to each query's heap."""
    for r in range(queries.shape[0]):
        x = as_id(queries[r])
        for begin in range(firsts[r], limits[r], BLOCK):
            block = products[:1, : min(BLOCK, limits[r] - begin)]
            for j in range(block.shape[1]):
                block[0, j] = sparse_product(arrays, x, begin + j)
            _as_similarities(arrays, x, begin, block)
            offer_block(block, begin, limits[r : r + 1], scale, shift, values[r : r + 1], ids[r : r + 1])


@jitable
def _as_similarities(arrays: Arrays, x: int, first: int, products: Floats) -> None:
    """Tanimoto's coefficients instead of products, for no factor makes them of these."""
    if arrays.formula == TANIMOTO:
        own = arrays.moments[x, LENGTH] ** 2
        for j in range(products.shape[1]):
            product = products[0, j]
            if product > 0.0:
                products[0, j] = product / (own + arrays.moments[first + j, LENGTH] ** 2 - product)
