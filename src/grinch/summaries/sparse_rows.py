"""Memory beside numpy's, for what compiled code makes as it goes: it can ask for more in the middle of a move.

A block has the columns of a sparse row, and after them their values: four bytes for each.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from typing import Any

import numpy as np
from numba import typeof, types
from numba.extending import lower_builtin, type_callable
from numba.np.arrayobj import populate_array

from grinch._compile import entry, jitable
from grinch._sparse_rows import product_of
from grinch._types import Counts, Flags, Ids, Slots, Vectors32, as_id
from grinch.linkage.named import COUNT
from grinch.linkage.sparse import formula_of_product, keep_largest, merge_moments, product_with, unite
from grinch.summaries.arrays import Arrays, new_arrays
from grinch.summaries.callbacks import (
    ALLOCATE,
    N_CALLS,
    RELEASE,
    SPARSE_MERGE,
    SPARSE_SCORE,
    SPARSE_SCORE_ALL,
    LinkageFailed,
    call,
    call_int,
    outlined,
    outlined_addresses,
)
from grinch.tree.links import LEFT, RIGHT

_library = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
_allocate, _release = _library.malloc, _library.free
_allocate.restype, _allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_release.restype, _release.argtypes = None, [ctypes.c_void_p]


def addresses() -> Counts:
    """Return the addresses that compiled code calls for sparse rows and memory, among those of all that it may call."""
    found = np.zeros(N_CALLS, np.int64)
    for which, address in outlined_addresses().items():
        found[which] = address
    found[ALLOCATE] = ctypes.cast(_allocate, ctypes.c_void_p).value or 0
    found[RELEASE] = ctypes.cast(_release, ctypes.c_void_p).value or 0
    return found


def int32_at(address: int, n: int) -> Ids:
    """The n numbers at an address, as an array that owns nothing."""
    return np.ctypeslib.as_array((ctypes.c_int32 * int(n)).from_address(int(address)))


def float32_at(address: int, n: int) -> Vectors32:
    """The n numbers at an address, as an array that owns nothing."""
    return np.ctypeslib.as_array((ctypes.c_float * int(n)).from_address(int(address)))


# Not overloads: a compiled function must not return an array that it was not given.
def _lower(function: Any, kind: Any) -> None:
    @type_callable(function)  # type: ignore[untyped-decorator]
    def typed(context: Any) -> Any:
        return lambda address, n: types.Array(kind, 1, "C")

    @lower_builtin(function, types.int64, types.int64)  # type: ignore[untyped-decorator]
    def lowered(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.return_type)(context, builder)
        data, width = builder.inttoptr(args[0], array.data.type), context.get_constant(types.intp, 4)
        populate_array(array, data, [args[1]], [width], width, meminfo=None)
        return array._getvalue()


_lower(int32_at, types.int32)
_lower(float32_at, types.float32)


def new_block(columns: Ids, values: Vectors32) -> int:
    """The address of a block with a row; nothing is kept of an empty one (0)."""
    n = len(columns)
    if n == 0:
        return 0
    address = _allocate(8 * n)
    if not address:
        raise MemoryError(f"no memory for a summary of {n:,} entries")
    int32_at(address, n)[:], float32_at(address + 4 * n, n)[:] = columns, values
    return int(address)


class Blocks:
    """Owns the blocks whose addresses are in an array, but for those in its first part; frees them in the end."""

    def __init__(self) -> None:
        self.held: list[tuple[Counts, int]] = []
        """The array, and how many addresses at its front are no blocks."""
        # Not when the process ends: a thread that goes on until then would find its rows gone.
        weakref.finalize(self, release_all, self.held).atexit = False

    def hold(self, addresses: Counts, first: int) -> None:
        """From now on, the addresses are in this array."""
        self.held[:] = [(addresses, first)]


def release(addresses: Counts) -> None:
    """Free the blocks at these addresses and forget them."""
    for i in np.flatnonzero(addresses).tolist():
        _release(int(addresses[i]))
    addresses[:] = 0


def release_all(held: list[tuple[Counts, int]]) -> None:
    for found, first in held:
        release(found[first:])
    held.clear()


_ARRAYS = typeof(new_arrays(0, 0))


@jitable
def row_of(state: Arrays, v: int) -> tuple[int, int, int]:
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
def sparse_product(state: Arrays, u: int, v: int) -> float:
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
def put_row(state: Arrays, p: int, n: int) -> bool:
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


@entry
def gather_rows(arrays: Arrays, nodes: Slots, columns: Ids, values: Vectors32) -> None:
    """Copy the rows of some nodes, one after the other."""
    at = 0
    for i in range(nodes.shape[0]):
        at_columns, at_values, n = row_of(arrays, as_id(nodes[i]))
        here, there = int32_at(at_columns, n), float32_at(at_values, n)
        for j in range(n):
            columns[at], values[at] = here[j], there[j]
            at += 1


@entry
def find_apart(arrays: Arrays, table: Ids, kept: Flags, is_apart: Flags) -> None:
    """Mark, among the internal rows that are kept, those that the children do not give to the last bit."""
    offset = arrays.gone.shape[0]
    for i in range(kept.shape[0]):
        v = offset + i
        if kept[i]:
            is_apart[i] = not _has_both(table, kept, offset, v) or not _is_united(arrays, table, v)


@entry
def make_rows(
    arrays: Arrays,
    table: Ids,
    order: Ids,
    kept: Flags,
    is_apart: Flags,
    starts: Counts,
    columns: Ids,
    values: Vectors32,
) -> bool:
    """Make the internal rows that are kept, children first; those apart are given, and ``starts`` says where.

    False if a child that is needed is not kept.
    """
    offset = arrays.gone.shape[0]
    for i in range(order.shape[0] - 1, -1, -1):
        v = as_id(order[i])
        if v < offset or not kept[v - offset]:
            continue
        if is_apart[v - offset]:
            start = starts[v - offset]
            n = starts[v - offset + 1] - start
            for j in range(n):
                arrays.united_columns[j], arrays.united_values[j] = columns[start + j], values[start + j]
        elif _has_both(table, kept, offset, v):
            n = _unite_children(arrays, table, v)
        else:
            return False
        if not put_row(arrays, v, n):
            raise LinkageFailed
    return True


@jitable
def _has_both(table: Ids, kept: Flags, offset: int, v: int) -> bool:
    """Whether the rows of both children are known."""
    a, b = table[v, LEFT], table[v, RIGHT]
    return (a < offset or kept[a - offset] != 0) and (b < offset or kept[b - offset] != 0)


@jitable
def _unite_children(arrays: Arrays, table: Ids, v: int) -> int:
    """Make the row of a node from those of its children, as ``sparse_upkeep.merge_sparse_rows`` does."""
    a, b = as_id(table[v, LEFT]), as_id(table[v, RIGHT])
    if arrays.moments[a, COUNT] < arrays.moments[b, COUNT]:
        a, b = b, a
    total = arrays.moments[a, COUNT] + arrays.moments[b, COUNT]
    share = arrays.moments[b, COUNT] / total if total > 0.0 else 0.0
    columns, values, n = row_of(arrays, a)
    others, other_values, m = row_of(arrays, b)
    n, _ = unite(
        int32_at(columns, n),
        float32_at(values, n),
        int32_at(others, m),
        float32_at(other_values, m),
        share,
        arrays.united_columns,
        arrays.united_values,
    )
    n, _ = keep_largest(arrays.united_columns, arrays.united_values, n, arrays.most_entries, arrays.united_sizes)
    return n


@jitable
def _is_united(arrays: Arrays, table: Ids, v: int) -> bool:
    """Whether the row of a node is the one that its children give."""
    n = _unite_children(arrays, table, v)
    at_columns, at_values, size = row_of(arrays, v)
    if n != size:
        return False
    # Values by their bits: 0 is not -0.
    columns, bits, expected = int32_at(at_columns, n), int32_at(at_values, n), arrays.united_values[:n].view(np.int32)
    differ = 0
    for i in range(n):
        differ += columns[i] != arrays.united_columns[i] or bits[i] != expected[i]
    return differ == 0
