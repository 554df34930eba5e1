"""Rows of vectors, dense or sparse: checks, lengths, products of sparse rows (columns ascending), and nearest rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._by_reference import by_reference
from grinch._compile import jitable, kernel
from grinch._types import Counts, Floats, Ids, Numbers, Slots, as_id

Columns = npt.NDArray[np.signedinteger[Any]]
Values = npt.NDArray[np.floating[Any]]

# A row this many times as long as another is searched for its columns, not walked through.
MUCH_LONGER = 16
# A squared distance below this part of the squared lengths is rounding.
ROUNDING = 1e-12
# Candidates that are compared with the worst of a heap at once.
_STRIDE = 64
# Rows of products that are looked at together.
_ROWS = 512


def check_vectors(vectors: Any, n: int) -> Any:
    """Return the vectors of ``n`` points as a matrix of finite numbers (dense, or CSR with ascending columns)."""
    matrix: Any = in_order(vectors.tocsr()) if scipy.sparse.issparse(vectors) else np.asarray(vectors)
    if matrix.ndim != 2 or matrix.shape[0] != n:
        raise ValueError(
            f"vectors must have one row for each of the {n} points, in the order they arrived; got shape {matrix.shape}"
        )
    values: npt.NDArray[Any] = matrix.data if scipy.sparse.issparse(matrix) else matrix
    if values.dtype.kind not in "fiub":
        raise ValueError(f"vectors must be numbers; got dtype {values.dtype}: convert them with astype(float)")
    # The sum is finite if all are (a second look tells an overflow apart), and needs no array of flags.
    if not np.isfinite(values.sum(dtype=np.float64)) and not np.isfinite(values).all():
        raise ValueError("vectors must be finite; got a nan or an infinity: drop those rows or fill them in")
    return matrix


def columns(matrix: npt.NDArray[Any]) -> Iterator[npt.NDArray[np.float64]]:
    """Yield each column of a dense matrix as an array of its own."""
    for j in range(matrix.shape[1]):
        yield matrix[:, j].astype(np.float64)


def unit_scale(matrix: Any) -> npt.NDArray[np.float64]:
    """Return the factor that makes each row a unit vector; 0 for a zero vector, which is similar to nothing."""
    if scipy.sparse.issparse(matrix):
        squared = squared_lengths(matrix)
    else:
        squared = np.zeros(matrix.shape[0])
        for column in columns(matrix):
            squared += column * column
    return np.divide(1.0, np.sqrt(squared), out=np.zeros_like(squared), where=squared > 0)


@jitable
def product_of(columns: Columns, values: Values, other_columns: Columns, other_values: Values) -> float:
    """Return the product of two rows, added column by column from the first on."""
    if columns.shape[0] > other_columns.shape[0]:
        columns, other_columns = other_columns, columns
        values, other_values = other_values, values
    n, m, total, j = columns.shape[0], other_columns.shape[0], 0.0, 0
    if n * MUCH_LONGER < m:
        for i in range(n):
            j = first_not_below(other_columns, columns[i], j)
            if j == m:
                break
            if other_columns[j] == columns[i]:
                total += np.float64(values[i]) * np.float64(other_values[j])
        return total
    i = 0
    while i < n and j < m:
        a, b = columns[i], other_columns[j]
        if a == b:
            total += np.float64(values[i]) * np.float64(other_values[j])
        i += a <= b
        j += b <= a
    return total


@jitable
def first_not_below(columns: Columns, column: int, start: int) -> int:
    """Return the first place from ``start`` on whose column is not below this one."""
    step, low, high = 1, start, start
    while high < columns.shape[0] and columns[high] < column:
        low, high = high + 1, high + step
        step *= 2
    high = min(high, columns.shape[0])
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low


def paired_products(a: Any, b: Any, rows: npt.NDArray[Any], others: npt.NDArray[Any]) -> Floats:
    """Return the product of row ``rows[i]`` of a CSR matrix with row ``others[i]`` of another, for each i.

    >>> import scipy.sparse
    >>> matrix = scipy.sparse.csr_matrix([[1.0, 0, 2], [0, 1, 3]])
    >>> paired_products(matrix, matrix, np.array([0, 0]), np.array([0, 1])).tolist()
    [5.0, 6.0]
    """
    a, b = in_order(a), in_order(b)
    products = np.empty(len(rows))
    _fill_products(_entries(a), _entries(b), rows.astype(np.int64), others.astype(np.int64), products)
    return products


def squared_distances(a: Any, b: Any, rows: npt.NDArray[Any], others: npt.NDArray[Any]) -> Floats:
    """Return the squared Euclidean distances of the same pairs; what may be rounding is 0."""
    squares = squared_lengths(a)[rows] + squared_lengths(b)[others]
    found = squares - 2 * paired_products(a, b, rows, others)
    return np.where(found > ROUNDING * squares, found, 0.0)


def squared_lengths(matrix: Any) -> Floats:
    """Return the sum of squares of each row of a matrix, dense or CSR, in float64."""
    if not scipy.sparse.issparse(matrix):
        return np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)
    of_row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    squared = np.bincount(of_row, matrix.data.astype(np.float64) ** 2, matrix.shape[0])
    # Of no entries at all, these are whole numbers.
    return squared.astype(np.float64)


def scaled(matrix: Any, factors: Floats) -> Any:
    """Return a CSR matrix in float64, each row times its factor."""
    matrix = matrix.astype(np.float64)
    matrix.data *= np.repeat(factors, np.diff(matrix.indptr))
    return matrix


def in_order(matrix: Any) -> Any:
    """Return the same CSR matrix with the columns of every row in ascending order, each once."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


@by_reference
class Entries(NamedTuple):
    """Sparse rows one after the other: where each starts, and last where they end; columns, and values."""

    starts: Counts
    columns: Columns
    values: Values


def _entries(matrix: Any) -> Entries:
    """Return the rows of a matrix in the same types for all, so that one kernel serves them."""
    starts, columns = (np.asarray(array, np.int64) for array in (matrix.indptr, matrix.indices))
    return Entries(starts, columns, np.asarray(matrix.data, np.float64))


@kernel
def _fill_products(a: Entries, b: Entries, rows: Counts, others: Counts, products: Floats) -> None:
    for i in range(rows.shape[0]):
        u, v = rows[i], others[i]
        here, there = slice(a.starts[u], a.starts[u + 1]), slice(b.starts[v], b.starts[v + 1])
        products[i] = product_of(a.columns[here], a.values[here], b.columns[there], b.values[there])


# The k best of many candidates, by value and then by arrival ----------------------------------------------------------


def nearest_rows(rows: Any, shift: Numbers, k: int) -> Ids:
    """Return, by row of a dense or CSR matrix, the k others with the largest product plus shift, best first.

    With minus half of the squared lengths as the shift, these are the nearest. Ties go to the first row.

    >>> rows = np.array([[0.0], [1.0], [7.0], [9.0]])
    >>> nearest_rows(rows, -0.5 * np.einsum("ij,ij->i", rows, rows), 1).ravel().tolist()
    [1, 0, 3, 2]
    """
    n = rows.shape[0]
    nearest = np.empty((n, max(k, 0)), np.int32)
    for start in range(0, n if k > 0 else 0, _ROWS):
        products = rows[start : start + _ROWS] @ rows.T
        values = np.asarray(products.toarray() if scipy.sparse.issparse(products) else products, shift.dtype)
        own = np.arange(len(values))
        values[own, start + own] = -np.inf
        best, ids = np.full((len(values), k), -np.inf, shift.dtype), np.full((len(values), k), n, np.int32)
        offer_block(values, 0, np.full(len(values), n), np.ones(n, shift.dtype), shift, best, ids)
        nearest[start : start + _ROWS] = np.take_along_axis(ids, np.lexsort((ids, -best)), axis=1)
    return nearest


@jitable
def _is_worse(f_a: float, a: int, f_b: float, b: int) -> bool:
    """Return whether candidate a ranks behind b: by value, then by arrival."""
    return f_a < f_b or (f_a == f_b and a > b)


@jitable
def sift_down(values: Numbers, ids: Ids, i: int, size: int) -> None:
    """Restore a heap with the worst candidate on top."""
    value, item = values[i], ids[i]
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and _is_worse(values[child + 1], ids[child + 1], values[child], ids[child]):
            child += 1
        if not _is_worse(values[child], ids[child], value, item):
            break
        values[i], ids[i] = values[child], ids[child]
        i = child
    values[i], ids[i] = value, item


@kernel
def offer_block(
    products: Numbers, first: int, limits: Slots, scale: Numbers, shift: Numbers, values: Numbers, ids: Ids
) -> None:
    """Offer columns ``first …`` of a block of products to each query's heap; column j counts as product·scale + shift.

    Query r may only take points before ``limits[r]``. Heaps start out full of ``-inf``. All numbers are float32, or all
    are float64.
    """
    size = values.shape[1]
    for r in range(products.shape[0]):
        heap, names = values[r], ids[r]
        stop = min(products.shape[1], limits[r] - first)
        for start in range(0, stop, _STRIDE):
            end = min(start + _STRIDE, stop)
            row = products[r, start:end]
            factor, term = scale[first + start : first + end], shift[first + start : first + end]
            # Most strides hold nothing new; counting has no branches, so it runs in SIMD lanes.
            hits, bar = np.int32(0), heap[0]
            for j in range(end - start):
                hits += np.int32(row[j] * factor[j] + term[j] > bar)
            if hits == 0:
                continue
            for j in range(end - start):
                value = row[j] * factor[j] + term[j]
                if value > heap[0]:
                    heap[0], names[0] = value, first + start + j
                    sift_down(heap, names, 0, size)


@jitable
def keep_best(f_new: float, new: int, scores: Floats, ids: Ids, filled: int, k: int) -> int:
    """Insert into a list sorted best first, of at most k entries; returns how many it holds."""
    if filled == k and not _is_worse(scores[k - 1], as_id(ids[k - 1]), f_new, new):
        return filled
    at = filled if filled < k else k - 1
    while at > 0 and _is_worse(scores[at - 1], as_id(ids[at - 1]), f_new, new):
        scores[at], ids[at] = scores[at - 1], ids[at - 1]
        at -= 1
    scores[at], ids[at] = f_new, new
    return min(filled + 1, k)
