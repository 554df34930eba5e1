"""The k nearest earlier points, exactly, from blocks of a matrix product: compiled kernels.

A matrix product rounds differently for different shapes, and then near-ties would fall differently for different batch
sizes. So the product only proposes: each query keeps a few more candidates than it needs, they are scored again by
the linkage's own kernel, and ties go to the point that arrived first. Where rounding could have hidden a candidate,
the query is answered by scoring every point.
"""

from __future__ import annotations

import numpy as np

from grinch._compile import entry, jitable
from grinch._top_k import keep_best
from grinch._types import Floats, Ids, Slots, Vectors32, as_id
from grinch.summaries.arrays import Arrays
from grinch.summaries.upkeep import vector_score
from grinch.tree.links import NONE


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
