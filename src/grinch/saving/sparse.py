"""Summaries of sparse vectors as they are kept: the rows of all points, and of the other nodes only those apart.

The row of an internal node is nearly always what the rows of its children give, to the last bit, and is made again
from them. Rows that are not, of large nodes that lag behind, are written as they are; those that are out of date are
not written at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._types import Counts, Flags, Floats, Ids
from grinch.errors import SavedModelError
from grinch.linkage.base import Linkage, VectorLinkage
from grinch.linkage.sparse import N_MOMENTS
from grinch.linkage.vector import FORMULAS
from grinch.saving.must import are_within, must
from grinch.saving.schema import Source, Taken, entry, take_fields
from grinch.saving.trees import check_tree, preorder_of
from grinch.summaries import SparseSummaries, memory
from grinch.summaries.arrays import LARGE, STALE, Arrays
from grinch.summaries.callbacks import LinkageFailed
from grinch.summaries.sparse import PIECE, enlarged_entries
from grinch.summaries.sparse_rows import find_apart, make_rows, predict_scores
from grinch.tree.links import NONE, SIZE, USED, Links

PART = "sparse_summaries"
ROWS = {
    "leaf_sizes": ("<i4", 1),
    "leaf_columns": ("<i4", 1),
    "leaf_values": ("<f4", 1),
    "is_apart": ("|u1", 1),
    "apart_sizes": ("<i4", 1),
    "apart_columns": ("<i4", 1),
    "apart_values": ("<f4", 1),
}


def rows_kept(table: Ids, stale: Flags) -> Flags:
    """Which internal nodes have a summary that somebody may read before it is computed again."""
    n = len(table) // 2
    is_outdated = (stale[n:] & STALE != 0) & (stale[n:] & LARGE == 0)
    return ((table[n:, SIZE] != NONE) & ~is_outdated).astype(np.uint8)


def starts_of(sizes: npt.NDArray[Any]) -> Counts:
    """Where rows of these sizes start, one after the other; last, where they end."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


# Taking apart ---------------------------------------------------------------------------------------------------------


def take_sparse(summaries: SparseSummaries, links: Links, out: Taken, prefix: str) -> dict[str, Any]:
    """All but the arrays that dense vectors have as well."""
    arrays, capacity, n = summaries.arrays, summaries.capacity, int(links.head[USED])
    found = take_fields(PART, summaries, out, prefix)
    found["formula"] = FORMULAS[arrays.formula]
    sizes, end = np.zeros(capacity, np.int32), summaries.end_of(n)
    sizes[:n] = arrays.row_sizes[:n]
    is_apart = np.zeros(capacity, np.uint8)
    find_apart(_with_scratch(arrays), links.table, rows_kept(links.table, arrays.stale), is_apart)
    apart = capacity + np.flatnonzero(is_apart)
    columns, values = summaries.rows_of(apart)
    rows: dict[str, npt.NDArray[Any]] = {
        "leaf_sizes": sizes,
        "leaf_columns": arrays.leaf_columns[:end],
        "leaf_values": arrays.leaf_values[:end],
        "is_apart": is_apart,
        "apart_sizes": arrays.row_sizes[apart],
        "apart_columns": columns,
        "apart_values": values,
    }
    return found | {"rows": {name: out.keep(f"{prefix}.{name}", rows[name]) for name in ROWS}}


def _with_scratch(arrays: Arrays) -> Arrays:
    """The same arrays with scratch space of their own, for others may be reading."""
    n = len(arrays.united_columns)
    scratch: dict[str, Any] = {"united_columns": np.empty(n, np.int32)}
    scratch |= {name: np.empty(n, np.float32) for name in ("united_values", "united_sizes")}
    return arrays._replace(**scratch)


# Putting together -----------------------------------------------------------------------------------------------------


def check_linkage(data: Any, linkage: VectorLinkage | Linkage) -> VectorLinkage:
    """The linkage of sparse vectors, if it is the one that they were summarised under."""
    formula = entry(data, "formula")
    if not isinstance(linkage, VectorLinkage) or linkage.is_custom or formula != FORMULAS[linkage.formula]:
        raise SavedModelError(f"the model was built by the formula {formula!r:.60}, not by {linkage!r:.60}")
    return linkage


def put_rows(summaries: SparseSummaries, data: Any, source: Source, links: Links) -> None:
    """Give summaries that have all else the rows of their nodes."""
    check_tree(links)
    kept = {name: source.array(entry(data, name), *kind) for name, kind in ROWS.items()}
    arrays, capacity, n = summaries.arrays, summaries.capacity, int(links.head[USED])
    must(0 < summaries.n_features < 2**31 and n <= capacity == len(links.marks), "there is no room for rows")
    must(len(kept["leaf_sizes"]) == len(kept["is_apart"]) == capacity, "rows are not there for every node")
    must(are_within(kept["leaf_sizes"], 0, 2**31), "a row has less than no entries")
    must(arrays.moments.shape == (2 * capacity, N_MOMENTS), "vectors have no lengths")
    must(arrays.stale.shape == (2 * capacity,), "'stale' is not there for every node")
    must(arrays.gone.shape == (capacity,), "points are not marked as gone or not")
    starts, sizes = np.zeros(2 * capacity, np.int64), np.zeros(2 * capacity, np.int32)
    starts[:capacity], sizes[:capacity] = starts_of(kept["leaf_sizes"])[:-1], kept["leaf_sizes"]
    summaries.arrays = arrays._replace(
        calls=memory.addresses(),
        row_starts=starts,
        row_sizes=sizes,
        leaf_columns=kept["leaf_columns"],
        leaf_values=kept["leaf_values"],
    )
    summaries.enlarge_entries, summaries.blocks = enlarged_entries, memory.Blocks()
    summaries.blocks.hold(starts, capacity)
    _check_leaves(summaries, n)
    summaries.make_scratch()
    _make_internal(summaries, links, kept)


def _make_internal(summaries: SparseSummaries, links: Links, kept: dict[str, npt.NDArray[Any]]) -> None:
    arrays, is_apart, sizes = summaries.arrays, kept["is_apart"], kept["apart_sizes"]
    must(are_within(is_apart, 0, 2) and int(is_apart.sum()) == len(sizes), "rows apart are not those of nodes")
    _check_sizes(summaries, sizes)
    check_rows(kept["apart_columns"], kept["apart_values"], sizes, summaries.n_features)
    by_node = np.zeros(len(is_apart), np.int32)
    by_node[is_apart != 0] = sizes
    rows = starts_of(by_node), kept["apart_columns"], kept["apart_values"]
    order, needed = preorder_of(links.table, links.head), rows_kept(links.table, arrays.stale)
    try:
        must(make_rows(arrays, links.table, order, needed, is_apart, *rows), "a row is missing")
    except LinkageFailed:
        raise MemoryError("no memory is left for summaries of sparse vectors") from None


# Checks ---------------------------------------------------------------------------------------------------------------


def check_rows(columns: Ids, values: npt.NDArray[np.float32], sizes: npt.NDArray[Any], n_features: int) -> None:
    """Rows one after the other: each with columns that are there, in ascending order, and finite values."""
    must(not len(sizes) or sizes.min() >= 0, "a row has less than no entries")
    must(int(sizes.sum(dtype=np.int64)) == len(columns) == len(values), "rows do not have as many entries as they say")
    must(are_within(columns, 0, n_features), "an entry of a row is in a column that is not there")
    rises, ends = np.diff(columns) > 0, np.cumsum(sizes, dtype=np.int64)
    rises[ends[(ends > 0) & (ends < len(columns))] - 1] = True
    must(rises.all(), "the columns of a row are not in ascending order")
    must(np.isfinite(values).all(), "a vector is not finite")


def check_sparse(summaries: SparseSummaries, n: int) -> None:
    """Rows of the first ``n`` points and of all internal nodes, as compiled code takes them."""
    arrays, capacity = summaries.arrays, summaries.capacity
    must(0 < summaries.n_features < 2**31, "vectors have no columns")
    for name in ("row_starts", "row_sizes"):
        must(getattr(arrays, name).shape == (2 * capacity,), f"{name!r} is not there for every node")
    must(arrays.moments.shape == (2 * capacity, N_MOMENTS), "vectors have no lengths")
    must(np.isfinite(arrays.moments).all(), "a vector is not finite")
    must(np.isfinite(summaries.longest) and summaries.longest >= 0, "the longest vector has no length")
    _check_leaves(summaries, n)
    starts, sizes = arrays.row_starts[capacity:], arrays.row_sizes[capacity:]
    _check_sizes(summaries, sizes)
    must(((starts == 0) == (sizes == 0)).all(), "a row has entries that are nowhere")
    for first in range(0, capacity, PIECE):
        some = np.arange(first, min(first + PIECE, capacity))
        check_rows(*summaries.rows_of(capacity + some), sizes[some], summaries.n_features)


def _check_leaves(summaries: SparseSummaries, n: int) -> None:
    arrays = summaries.arrays
    starts, sizes = arrays.row_starts[:n], arrays.row_sizes[:n]
    ends = starts_of(sizes)
    must(np.array_equal(starts, ends[:-1]), "rows do not follow each other")
    must(ends[-1] <= len(arrays.leaf_columns) == len(arrays.leaf_values), "rows have entries that are not there")
    must(summaries.longest_row >= sizes.max(initial=0), "the longest row is none")
    check_rows(arrays.leaf_columns[: ends[-1]], arrays.leaf_values[: ends[-1]], sizes, summaries.n_features)


def _check_sizes(summaries: SparseSummaries, sizes: npt.NDArray[Any]) -> None:
    """Sizes of internal rows: scratch space is made for no longer ones."""
    must(are_within(sizes, 0, min(summaries.arrays.most_entries, summaries.n_features) + 1), "a row is too long")


# Made smaller for a file ----------------------------------------------------------------------------------------------


def pack_rows(arrays: dict[str, npt.NDArray[Any]], prefix: str, n: int) -> None:
    """Rows of the first ``n`` nodes of either kind, and columns by how far each is from the one before."""
    for name in ("leaf_sizes", "is_apart"):
        arrays[f"{prefix}.{name}"] = arrays[f"{prefix}.{name}"][:n]
    for name in ("leaf_columns", "apart_columns"):
        arrays[f"{prefix}.{name}"] = np.diff(arrays[f"{prefix}.{name}"], prepend=np.int32(0))


def unpack_rows(arrays: dict[str, npt.NDArray[Any]], prefix: str, n: int, capacity: int) -> None:
    """What :func:`pack_rows` was given, with room for ``capacity`` points."""
    for name in ("leaf_columns", "apart_columns"):
        steps = arrays[f"{prefix}.{name}"]
        if steps.dtype != np.int32 or steps.ndim != 1:
            raise SavedModelError("the columns of rows are no numbers")
        arrays[f"{prefix}.{name}"] = np.cumsum(steps, dtype=np.int32)
    for name in ("leaf_sizes", "is_apart"):
        old = arrays[f"{prefix}.{name}"]
        if old.shape != (n,):
            raise SavedModelError(f"there must be a row for each of {n} nodes; there are {len(old)}")
        arrays[f"{prefix}.{name}"] = np.concatenate([old, np.zeros(capacity - n, old.dtype)])


def expected_scores(
    formula: Any, arrays: dict[str, npt.NDArray[Any]], prefix: str, moments: Floats, near: Ids
) -> npt.NDArray[np.int32]:
    """The bits of the scores of neighbours, from the rows of a file that is not packed yet, or no longer."""
    sizes, columns, values = (arrays[f"{prefix}.{name}"] for name in ("leaf_sizes", "leaf_columns", "leaf_values"))
    if (sizes.dtype.str, columns.dtype.str, values.dtype.str) != ("<i4", "<i4", "<f4") or sizes.ndim != 1:
        raise SavedModelError("the rows of points are no rows")
    must(columns.ndim == values.ndim == 1 and len(near) <= min(len(sizes), len(moments)), "neighbours are of no points")
    must(moments.dtype.str == "<f8" and moments.shape[1:] == (N_MOMENTS,), "vectors have no lengths")
    must(are_within(sizes, 0, 2**31) and sizes.sum(dtype=np.int64) == len(columns) == len(values), "rows are cut off")
    must(are_within(near, NONE, min(len(sizes), len(moments))), "a neighbour is not among the points")
    scores = np.zeros(near.shape, np.float32)
    if formula in FORMULAS:
        predict_scores(FORMULAS.index(formula), starts_of(sizes), columns, values, moments, near, scores)
    return scores.view(np.int32)
