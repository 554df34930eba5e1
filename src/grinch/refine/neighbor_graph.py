"""Who counts as a neighbour of whom, and how much.

Two points that name each other are neighbours for good. Where only one names the other, it is often a point of a small
group that has no more members to name, or one at the edge: such a pair counts a tenth. ``near`` has the neighbours of
each leaf, best first, padded with NONE; a :class:`Graph` has every pair once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from grinch._by_reference import by_reference
from grinch._compile import kernel
from grinch._types import Floats, Ids, Slots
from grinch.tree.links import NONE

# How many of its neighbours a point may name.
NAMED = 20
# What a pair weighs in which both name each other, and in which one does.
MUTUAL, ONE_SIDED = 10, 1
# Two groups are neighbours if the pairs between them are this part of all pairs of the smaller one; fewer are chance.
LEAST_PART = 1 / 200
# Two points this many times as far apart as neighbours mostly are, are none: an outlier stays outside.
FAR_APART = 4096


@by_reference
class Graph(NamedTuple):
    """Pairs of neighbours, each once.

    ``ends`` has the two leaves of every pair and ``weights`` what it counts; two groups are to be brought together only
    if the pairs between them weigh ``least`` for every point of the smaller one.
    """

    ends: Ids
    weights: Ids
    least: float


def graph_of(near: Ids, mutual: int = MUTUAL, one_sided: int = ONE_SIDED, least_part: float = LEAST_PART) -> Graph:
    """The pairs of neighbours and what they weigh.

    >>> near = np.array([[1, 2], [0, NONE], [3, NONE], [2, NONE]], np.int32)
    >>> graph = graph_of(near)
    >>> graph.ends.tolist(), graph.weights.tolist()
    ([[0, 1], [0, 2], [2, 3]], [10, 1, 10])
    """
    ends, weights = np.empty((near.size, 2), np.int32), np.empty(near.size, np.int32)
    n = fill_graph(near, mutual, one_sided, ends, weights)
    # Every pair is one of both its ends.
    per_point = 2 * int(weights[:n].sum()) / max(int((near != NONE).any(axis=1).sum()), 1)
    return Graph(ends[:n].copy(), weights[:n].copy(), least_part * per_point)


@kernel
def fill_graph(near: Ids, mutual: int, one_sided: int, ends: Ids, weights: Ids) -> int:
    """Write down every pair once; returns how many there are."""
    n = 0
    for i in range(near.shape[0]):
        for k in range(near.shape[1]):
            j = near[i, k]
            if j == NONE:
                break
            is_mutual = False
            for m in range(near.shape[1]):
                is_mutual |= near[j, m] == i
            if is_mutual and j < i:
                continue
            ends[n, 0], ends[n, 1], weights[n] = i, j, mutual if is_mutual else one_sided
            n += 1
    return n


def without_far(near: Ids, rows: Any) -> Ids:
    """Neighbours but for those that are far away all the same; ``rows`` are the points, where distances count.

    They are a matrix, dense or sparse, or None where distances do not count.
    """
    if rows is None or not _may_be_far(near, rows):
        return near
    gaps = np.zeros(near.shape)
    for start in range(0, len(near), 4096):
        part = np.arange(start, min(start + 4096, len(near)))
        for k in range(near.shape[1]):
            gaps[part, k] = _gaps(rows, part, near[part, k])
    is_far = gaps > FAR_APART * np.median(gaps[gaps > 0])
    kept = np.where(is_far, NONE, near).astype(np.int32)
    return np.ascontiguousarray(np.take_along_axis(kept, np.argsort(kept == NONE, axis=1, kind="stable"), axis=1))


def _may_be_far(near: Ids, rows: Any) -> bool:
    """Whether points are so far apart, beside some that are nearest to each other, that a closer look is worth it."""
    some = np.unique(np.linspace(0, len(near) - 1, 128).astype(np.intp))
    gaps = _gaps(rows, some, near[some, 0])
    largest, smallest = rows.max(axis=0), rows.min(axis=0)
    across = _length(largest.astype(np.float64) - smallest)
    return bool(gaps.any() and across > FAR_APART / 8 * np.median(gaps[gaps > 0]))


def _gaps(rows: Any, some: Slots, others: Ids) -> Floats:
    """The distances of points from others; 0 where there is no other."""
    steps = rows[some].astype(np.float64) - rows[others]
    if scipy.sparse.issparse(steps):
        squares = np.asarray(steps.multiply(steps).sum(axis=1)).ravel()
    else:
        squares = np.einsum("ij,ij->i", steps, steps)
    return np.where(others == NONE, 0.0, np.sqrt(squares))


def _length(row: Any) -> float:
    return float(scipy.sparse.linalg.norm(row) if scipy.sparse.issparse(row) else np.linalg.norm(row))
