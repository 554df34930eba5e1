"""The k nearest earlier points, exactly, from blocks of a matrix product: compiled kernels.

A matrix product rounds differently for different shapes, and then near-ties would fall differently for different batch
sizes. So the product only proposes: each query keeps a few more candidates than it needs, they are scored again by
the linkage's own kernel, and ties go to the point that arrived first. Where rounding could have hidden a candidate,
the query is answered by scoring every point.
"""

from __future__ import annotations

import numpy as np

from grinch._compile import kernel
from grinch.linkage.vector import vector_score
from grinch.tree.links import NONE

_STRIDE = 64


@kernel
def _worse(f_a, a, f_b, b):
    """Whether candidate a ranks behind b: by value, then by arrival."""
    return f_a < f_b or (f_a == f_b and a > b)


@kernel
def _sift_down(values, ids, i, size):
    """Restore a heap with the worst candidate on top."""
    value, item = values[i], ids[i]
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and _worse(values[child + 1], ids[child + 1], values[child], ids[child]):
            child += 1
        if not _worse(values[child], ids[child], value, item):
            break
        values[i], ids[i] = values[child], ids[child]
        i = child
    values[i], ids[i] = value, item


@kernel
def offer_block(products, first, limits, scale, shift, values, ids):
    """Offer columns ``first …`` of a block of products to each query's heap; column j counts as product·scale + shift.

    Query r may only take points before ``limits[r]``. Heaps start out full of ``-inf``.
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
                    _sift_down(heap, names, 0, size)


@kernel
def _better(f_a, a, f_b, b):
    """Whether candidate a ranks before b: by score, then by arrival."""
    return f_a > f_b or (f_a == f_b and a < b)


@kernel
def _keep_best(f_new, new, scores, ids, filled, k):
    """Insert into a list sorted best first, of at most k entries; returns how many it holds."""
    if filled == k and not _better(f_new, new, scores[k - 1], ids[k - 1]):
        return filled
    at = filled if filled < k else k - 1
    while at > 0 and _better(f_new, new, scores[at - 1], ids[at - 1]):
        scores[at], ids[at] = scores[at - 1], ids[at - 1]
        at -= 1
    scores[at], ids[at] = f_new, new
    return min(filled + 1, k)


@kernel
def _rank(sums, x, names, found, scores):
    """Score the named candidates of x, but for x itself, and keep the best; returns how many were kept."""
    filled = 0
    for i in range(names.shape[0]):
        if names[i] != NONE and names[i] != x:
            filled = _keep_best(vector_score(sums, x, names[i]), names[i], scores, found, filled, found.shape[0])
    return filled


@kernel
def rank(sums, queries, proposed, found, scores):
    """Score the proposed candidates of each query with the linkage and keep the best, padded with NONE."""
    for r in range(queries.shape[0]):
        filled = _rank(sums, queries[r], proposed[r], found[r], scores[r])
        found[r, filled:] = NONE


@kernel
def settle(sums, queries, limits, values, proposed, slack, found, scores):
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
                if j == queries[r] or sums.gone[j]:
                    continue
                filled = _keep_best(vector_score(sums, queries[r], j), j, scores[r], found[r], filled, k)
        else:
            filled = _rank(sums, queries[r], proposed[r], found[r], scores[r])
        found[r, filled:] = NONE
    return scans
