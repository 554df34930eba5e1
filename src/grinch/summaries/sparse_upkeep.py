"""Summaries of sparse vectors, for :mod:`grinch.summaries.upkeep`.

Functions marked ``outlined`` are compiled apart, when there are sparse vectors: dense ones are used without them.
"""

from __future__ import annotations

import numpy as np
from numba import typeof, types

from grinch._compile import jitable
from grinch._types import Ids, as_id
from grinch._vectors import product_of
from grinch.linkage.sparse import formula_of_product, keep_largest, merge_moments, product_with, unite
from grinch.linkage.vector import COUNT
from grinch.summaries.arrays import Arrays, SummaryArrays, new_arrays
from grinch.summaries.callbacks import (
    ALLOCATE,
    RELEASE,
    SPARSE_MERGE,
    SPARSE_SCORE,
    SPARSE_SCORE_ALL,
    call,
    call_int,
    outlined,
)
from grinch.summaries.memory import float32_at, int32_at

_ARRAYS = typeof(new_arrays(0, 0))


@jitable
def is_sparse(state: SummaryArrays) -> bool:
    return state.row_sizes.shape[0] > 0


@jitable
def row_of(state: SummaryArrays, v: int) -> tuple[int, int, int]:
    """A node's sparse row: the addresses of its columns and of their values, and how many there are."""
    start, n = as_id(state.row_starts[v]), as_id(state.row_sizes[v])
    if v >= state.gone.shape[0]:
        return start, start + 4 * n, n
    if start < 0:
        at = 4 * (-1 - start)
        return as_id(state.query_columns.ctypes.data) + at, as_id(state.query_values.ctypes.data) + at, n
    at = 4 * start
    return as_id(state.leaf_columns.ctypes.data) + at, as_id(state.leaf_values.ctypes.data) + at, n


@jitable
def sparse_product(state: SummaryArrays, u: int, v: int) -> float:
    """The product of the rows of two nodes."""
    columns, values, n = row_of(state, u)
    others, other_values, m = row_of(state, v)
    return product_of(int32_at(columns, n), float32_at(values, n), int32_at(others, m), float32_at(other_values, m))


@outlined(SPARSE_SCORE, types.float64(_ARRAYS, types.int64, types.int64))
def score_sparse_row(state: Arrays, u: int, v: int) -> float:
    """f(u, v) for two sparse rows."""
    return formula_of_product(state.formula, sparse_product(state, u, v), state.moments, u, v)


@outlined(SPARSE_SCORE_ALL, types.int64(_ARRAYS, types.int64, types.int32[::1], types.int64))
def score_sparse_rows(state: Arrays, v: int, nodes: Ids, n: int) -> int:
    """f(v, node) for the first n of ``nodes``: where there is room, v is spread out over all columns to meet them."""
    at_columns, at_values, size = row_of(state, v)
    columns, values = int32_at(at_columns, size), float32_at(at_values, size)
    has_room = state.spread_out.shape[0] > 0
    if has_room:
        for i in range(size):
            state.spread_out[columns[i]] = values[i]
    for i in range(n):
        node = as_id(nodes[i])
        if has_room:
            others, other_values, m = row_of(state, node)
            product = product_with(state.spread_out, int32_at(others, m), float32_at(other_values, m))
        else:
            product = sparse_product(state, v, node)
        state.answers[i] = formula_of_product(state.formula, product, state.moments, v, node)
    if has_room:
        for i in range(size):
            state.spread_out[columns[i]] = 0
    return n


@outlined(SPARSE_MERGE, types.boolean(_ARRAYS, types.int64, types.int64, types.int64))
def merge_sparse_rows(state: Arrays, p: int, left: int, right: int) -> bool:
    """Make p's row from its children's, in short if it is too long; returns whether there was memory for it."""
    if state.moments[left, COUNT] < state.moments[right, COUNT]:
        left, right = right, left
    share = state.moments[right, COUNT] / (state.moments[left, COUNT] + state.moments[right, COUNT])
    columns, values, n = row_of(state, left)
    others, other_values, m = row_of(state, right)
    n, product = unite(
        int32_at(columns, n),
        float32_at(values, n),
        int32_at(others, m),
        float32_at(other_values, m),
        share,
        state.united_columns,
        state.united_values,
    )
    n, dropped = keep_largest(state.united_columns, state.united_values, n, state.most_entries, state.united_sizes)
    merge_moments(state.moments, p, left, right, product, np.sqrt(dropped))
    return put_row(state, p, n)


@jitable
def put_row(state: SummaryArrays, p: int, n: int) -> bool:
    """Make the first n united entries the row of internal node p, in the block it has if that is of the same size.

    Returns whether there was memory for it.
    """
    if state.row_sizes[p] != n:
        if state.row_starts[p] != 0:
            call(state.calls[RELEASE], (as_id(state.row_starts[p]),))
        state.row_starts[p], state.row_sizes[p] = 0, 0
        if n > 0:
            address = call_int(state.calls[ALLOCATE], (8 * n,))
            if address == 0:
                return False
            state.row_starts[p], state.row_sizes[p] = address, n
    at_columns, at_values, size = row_of(state, p)
    columns, values = int32_at(at_columns, size), float32_at(at_values, size)
    for i in range(size):
        columns[i] = state.united_columns[i]
    for i in range(size):
        values[i] = state.united_values[i]
    return True
