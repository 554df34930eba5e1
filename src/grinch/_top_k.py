"""The k best of many candidates, by value and then by arrival: heaps, and all neighbours of rows by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from grinch._compile import jitable, kernel
from grinch._types import Floats, Ids, Numbers, Slots, as_id

# Candidates that are compared with the worst of a heap at once.
_STRIDE = 64
# Rows of products that are looked at together.
_ROWS = 512


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
