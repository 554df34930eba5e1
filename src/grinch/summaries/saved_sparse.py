"""Rows of sparse vectors in files: those of all points, and of the other nodes only those apart.

The row of an internal node is nearly always what the rows of its children give, to the last bit, and is made again
from them. Rows that are not, of large nodes that lag behind, are written as they are; those that are out of date are
not written at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from grinch._types import Counts, Flags, Ids
from grinch.linkage.sparse import N_MOMENTS
from grinch.saving.state import Fields, State, are_within, require
from grinch.summaries import memory
from grinch.summaries.arrays import LARGE, STALE, Arrays
from grinch.summaries.callbacks import LinkageFailed
from grinch.summaries.sparse_rows import find_apart, make_rows
from grinch.tree.links import NONE, SIZE, USED, Links
from grinch.tree.saved import preorder_of, validate_links

if TYPE_CHECKING:
    from grinch.summaries.sparse import SparseSummaries

# Rows that are looked at together.
PIECE = 4096
ROWS = Fields(
    leaf_sizes=("<i4", 1),
    leaf_columns=("<i4", 1),
    leaf_values=("<f4", 1),
    is_apart=("|u1", 1),
    apart_sizes=("<i4", 1),
    apart_columns=("<i4", 1),
    apart_values=("<f4", 1),
)


def rows_kept(table: Ids, stale: Flags) -> Flags:
    """Which internal nodes have a summary that somebody may read before it is computed again."""
    n = len(table) // 2
    is_outdated = (stale[n:] & STALE != 0) & (stale[n:] & LARGE == 0)
    return ((table[n:, SIZE] != NONE) & ~is_outdated).astype(np.uint8)


def starts_of(sizes: npt.NDArray[Any]) -> Counts:
    """Where rows of these sizes start, one after the other; last, where they end."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def rows_to_state(summaries: SparseSummaries, links: Links) -> State:
    """Return the rows of the points of a tree, and those of other nodes that do not follow from them."""
    arrays, capacity, n = summaries.arrays, summaries.capacity, int(links.head[USED])
    sizes, end = np.zeros(capacity, np.int32), summaries.end_of(n)
    sizes[:n] = arrays.row_sizes[:n]
    is_apart = np.zeros(capacity, np.uint8)
    find_apart(_with_scratch(arrays), links.table, rows_kept(links.table, arrays.stale), is_apart)
    apart = capacity + np.flatnonzero(is_apart)
    columns, values = summaries.rows_of(apart)
    return {
        "leaf_sizes": sizes,
        "leaf_columns": arrays.leaf_columns[:end],
        "leaf_values": arrays.leaf_values[:end],
        "is_apart": is_apart,
        "apart_sizes": arrays.row_sizes[apart],
        "apart_columns": columns,
        "apart_values": values,
    }


def _with_scratch(arrays: Arrays) -> Arrays:
    """The same arrays with scratch space of their own, for others may be reading."""
    n = len(arrays.united_columns)
    scratch: dict[str, Any] = {"united_columns": np.empty(n, np.int32)}
    scratch |= {name: np.empty(n, np.float32) for name in ("united_values", "united_sizes")}
    return arrays._replace(**scratch)


def put_rows(summaries: SparseSummaries, state: Any, links: Links) -> None:
    """Give summaries that have all else the rows of their nodes."""
    validate_links(links)
    kept = ROWS.read(state)
    arrays, capacity, n = summaries.arrays, summaries.capacity, int(links.head[USED])
    require(0 < summaries.n_features < 2**31 and n <= capacity == len(links.marks), "there is no room for rows")
    require(len(kept["leaf_sizes"]) == len(kept["is_apart"]) == capacity, "rows are not there for every node")
    require(are_within(kept["leaf_sizes"], 0, 2**31), "a row has less than no entries")
    require(arrays.moments.shape == (2 * capacity, N_MOMENTS), "vectors have no lengths")
    require(arrays.stale.shape == (2 * capacity,), "'stale' is not there for every node")
    require(arrays.gone.shape == (capacity,), "points are not marked as gone or not")
    starts, sizes = np.zeros(2 * capacity, np.int64), np.zeros(2 * capacity, np.int32)
    starts[:capacity], sizes[:capacity] = starts_of(kept["leaf_sizes"])[:-1], kept["leaf_sizes"]
    summaries.arrays = arrays._replace(
        calls=memory.addresses(),
        row_starts=starts,
        row_sizes=sizes,
        leaf_columns=kept["leaf_columns"],
        leaf_values=kept["leaf_values"],
    )
    summaries.blocks = memory.OwnedBlocks()
    summaries.blocks.hold(starts, capacity)
    _check_leaves(summaries, n)
    summaries.make_scratch()
    _make_internal(summaries, links, kept)


def _make_internal(summaries: SparseSummaries, links: Links, kept: dict[str, npt.NDArray[Any]]) -> None:
    arrays, is_apart, sizes = summaries.arrays, kept["is_apart"], kept["apart_sizes"]
    require(are_within(is_apart, 0, 2) and int(is_apart.sum()) == len(sizes), "rows apart are not those of nodes")
    _check_sizes(summaries, sizes)
    check_rows(kept["apart_columns"], kept["apart_values"], sizes, summaries.n_features)
    by_node = np.zeros(len(is_apart), np.int32)
    by_node[is_apart != 0] = sizes
    rows = starts_of(by_node), kept["apart_columns"], kept["apart_values"]
    order, needed = preorder_of(links.table, links.head), rows_kept(links.table, arrays.stale)
    try:
        require(make_rows(arrays, links.table, order, needed, is_apart, *rows), "a row is missing")
    except LinkageFailed:
        raise MemoryError("no memory is left for summaries of sparse vectors") from None


# Checks ---------------------------------------------------------------------------------------------------------------


def check_rows(columns: Ids, values: npt.NDArray[np.float32], sizes: npt.NDArray[Any], n_features: int) -> None:
    """Rows one after the other: each with columns that are there, in ascending order, and finite values."""
    require(not len(sizes) or sizes.min() >= 0, "a row has less than no entries")
    require(
        int(sizes.sum(dtype=np.int64)) == len(columns) == len(values), "rows do not have as many entries as they say"
    )
    require(are_within(columns, 0, n_features), "an entry of a row is in a column that is not there")
    rises, ends = np.diff(columns) > 0, np.cumsum(sizes, dtype=np.int64)
    rises[ends[(ends > 0) & (ends < len(columns))] - 1] = True
    require(rises.all(), "the columns of a row are not in ascending order")
    require(np.isfinite(values).all(), "a vector is not finite")


def validate_sparse(summaries: SparseSummaries, n: int) -> None:
    """Refuse rows of the first ``n`` points and of internal nodes that compiled code could not use."""
    arrays, capacity = summaries.arrays, summaries.capacity
    require(0 < summaries.n_features < 2**31, "vectors have no columns")
    for name in ("row_starts", "row_sizes"):
        require(getattr(arrays, name).shape == (2 * capacity,), f"{name!r} is not there for every node")
    require(arrays.moments.shape == (2 * capacity, N_MOMENTS), "vectors have no lengths")
    require(np.isfinite(arrays.moments).all(), "a vector is not finite")
    require(np.isfinite(summaries.longest) and summaries.longest >= 0, "the longest vector has no length")
    _check_leaves(summaries, n)
    starts, sizes = arrays.row_starts[capacity:], arrays.row_sizes[capacity:]
    _check_sizes(summaries, sizes)
    require(((starts == 0) == (sizes == 0)).all(), "a row has entries that are nowhere")
    for first in range(0, capacity, PIECE):
        some = np.arange(first, min(first + PIECE, capacity))
        check_rows(*summaries.rows_of(capacity + some), sizes[some], summaries.n_features)


def _check_leaves(summaries: SparseSummaries, n: int) -> None:
    arrays = summaries.arrays
    starts, sizes = arrays.row_starts[:n], arrays.row_sizes[:n]
    ends = starts_of(sizes)
    require(np.array_equal(starts, ends[:-1]), "rows do not follow each other")
    require(ends[-1] <= len(arrays.leaf_columns) == len(arrays.leaf_values), "rows have entries that are not there")
    require(summaries.longest_row >= sizes.max(initial=0), "the longest row is none")
    check_rows(arrays.leaf_columns[: ends[-1]], arrays.leaf_values[: ends[-1]], sizes, summaries.n_features)


def _check_sizes(summaries: SparseSummaries, sizes: npt.NDArray[Any]) -> None:
    """Sizes of internal rows: scratch space is made for no longer ones."""
    require(are_within(sizes, 0, min(summaries.arrays.most_entries, summaries.n_features) + 1), "a row is too long")
