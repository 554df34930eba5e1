"""Sparse rows of many nodes at a time: for files, which hold only those that the children do not give.

These functions round in one way on every processor.
"""

from __future__ import annotations

import numpy as np

from grinch._compile import entry, jitable
from grinch._types import Counts, Flags, Ids, Slots, Vectors32, as_id
from grinch.linkage.sparse import keep_largest, unite
from grinch.linkage.vector import COUNT
from grinch.summaries.arrays import Arrays
from grinch.summaries.callbacks import LinkageFailed
from grinch.summaries.memory import float32_at, int32_at
from grinch.summaries.sparse_upkeep import put_row, row_of
from grinch.tree.links import LEFT, RIGHT


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
