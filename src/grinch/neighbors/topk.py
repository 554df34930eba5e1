"""The k nearest earlier points, exactly, from blocks of a matrix product: compiled kernels.

A matrix product rounds differently for different shapes, and then near-ties would fall differently for different batch
sizes. So the product only proposes: each query keeps a few more candidates than it needs, they are scored again by
the linkage's own kernel, and ties go to the point that arrived first. Where rounding could have hidden a candidate,
the query is answered by scoring every point.
"""

from __future__ import annotations

import numpy as np

from grinch._compile import entry, jitable, kernel
from grinch._types import Floats, Ids, Numbers, Slots, Vectors32, as_id
from grinch.summaries.arrays import Arrays
from grinch.summaries.upkeep import vector_score
from grinch.tree.links import NONE

_STRIDE = 64


@jitable
def _is_worse(f_a: float, a: int, f_b: float, b: int) -> bool:
    """Whether candidate a ranks behind b: by value, then by arrival."""
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


@jitable
def _rank(arrays: Arrays, x: int, names: Ids, found: Ids, scores: Floats) -> int:
    """Score the named candidates of x, but for x itself, and keep the best; returns how many were kept."""
    filled = 0
    for i in range(names.shape[0]):
        name = as_id(names[i])
        if name != NONE and name != x:
            filled = keep_best(vector_score(arrays, x, name), name, scores, found, filled, found.shape[0])
    return filled


@entry
def rank(arrays: Arrays, queries: Slots, proposed: Ids, found: Ids, scores: Floats) -> None:
    """Score the proposed candidates of each query with the linkage and keep the best, padded with NONE."""
    for r in range(queries.shape[0]):
        filled = _rank(arrays, queries[r], proposed[r], found[r], scores[r])
        found[r, filled:] = NONE


@entry
def settle(
    arrays: Arrays,
    queries: Slots,
    limits: Slots,
    values: Vectors32,
    proposed: Ids,
    slack: Floats,
    found: Ids,
    scores: Floats,
) -> int:
    """As ``rank``, but where rounding may have hidden a candidate, every point is scored; returns how often.

    ``slack[r]`` is how far a product of query r may be off; negative if it is exact, ties included.
    """
    k, scans = found.shape[1], 0
    for r in range(queries.shape[0]):
        heap, lowest = values[r], values[r, 0]
        certain = 0
        for i in range(heap.shape[0]):
            certain += heap[i] > lowest + 2.0 * slack[r] and proposed[r, i] != queries[r]
        if lowest > -np.inf and slack[r] >= 0.0 and certain < k:
            scans += 1
            filled = 0
            for j in range(limits[r]):
                if j == queries[r] or arrays.gone[j]:
                    continue
                filled = keep_best(vector_score(arrays, queries[r], j), j, scores[r], found[r], filled, k)
        else:
            filled = _rank(arrays, queries[r], proposed[r], found[r], scores[r])
        found[r, filled:] = NONE
    return scans
