"""Linkages on vectors, all O(d) by their closed forms, compiled.

A node is summarised by the mean m of its vectors, their number n, their spread s (mean squared distance to m) and
the length of m. Means, not sums: in float32 a sum of a million vectors loses the next one, a mean does not.
Every formula below is then free of cancellation:

    mean over all pairs of a·b          =  m_A · m_B
    mean over all pairs of |a − b|²     =  |m_A − m_B|² + s_A + s_B
    cosine of the summed vectors        =  m_A · m_B / (|m_A| |m_B|)
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import overload

from grinch._compile import NO_COUNTS, jitable, kernel
from grinch.linkage.compiled import VectorGroup
from grinch.summaries import upkeep as summaries
from grinch.tree.links import NONE, USED, size

FORMULAS = ("cosine", "average_dot", "average_sqeuclidean", "centroid", "ward")
COSINE, AVERAGE_DOT, AVERAGE_SQEUCLIDEAN, CENTROID, WARD = range(len(FORMULAS))

COUNT, SPREAD, LENGTH = 0, 1, 2


class VectorSummaries(NamedTuple):
    """Per node: mean (float32), count, spread and length (float64); leaves first, internal nodes from the offset.

    ``gone`` marks leaves that were taken out, which no search finds. ``nodes`` and ``answers`` are scratch space for
    questions to the linkage. ``formula`` is the number of a formula below, or a compiled function of a user's own;
    ``trouble`` notes that it returned no number, and for which nodes.
    """

    means: npt.NDArray[np.float32]
    moments: npt.NDArray[np.float64]
    bonds: npt.NDArray[np.float64]
    stale: npt.NDArray[np.uint8]
    gone: npt.NDArray[np.uint8]
    nodes: npt.NDArray[np.int32]
    answers: npt.NDArray[np.float64]
    trouble: npt.NDArray[np.int64]
    formula: Any

    def score(self, u: int, v: int) -> float:
        return vector_score(self, u, v)

    def score_many(self, v: int, nodes: npt.NDArray[np.int32], n: int) -> None:
        vector_score_many(self, v, nodes, n)

    def leaves_around(self, tree: Any, v: int) -> int:
        return all_leaves(tree, self)

    def merge(self, p: int, left: int, right: int) -> None:
        vector_merge(self, p, left, right)


@kernel
def dot(a, b):
    total = np.float32(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return np.float64(total)


@kernel
def squared_distance(a, b):
    total = np.float32(0)
    for i in range(a.shape[0]):
        step = a[i] - b[i]
        total += step * step
    return np.float64(total)


@kernel
def _step_toward(out, a, b, share):
    """Out = a + share (b - a); equal vectors stay as they are to the last bit."""
    for i in range(a.shape[0]):
        out[i] = a[i] + share * (b[i] - a[i])


@jitable
def named_score(sums, u, v):
    """The formulas, by number."""
    a, b = sums.means[u], sums.means[v]
    if sums.formula == COSINE:
        lengths = sums.moments[u, LENGTH] * sums.moments[v, LENGTH]
        return dot(a, b) / lengths if lengths > 0.0 else 0.0
    if sums.formula == AVERAGE_DOT:
        return dot(a, b)
    gap = squared_distance(a, b)
    if sums.formula == AVERAGE_SQEUCLIDEAN:
        return -(gap + sums.moments[u, SPREAD] + sums.moments[v, SPREAD])
    if sums.formula == CENTROID:
        return -gap
    n_u, n_v = sums.moments[u, COUNT], sums.moments[v, COUNT]
    return -gap * n_u * n_v / (n_u + n_v)


@jitable
def group_of(sums, v):
    moments = sums.moments[v]
    return VectorGroup(sums.means[v], moments[COUNT], moments[SPREAD], moments[LENGTH])


@jitable
def users_score(sums, u, v):
    """The user's own function; what is not a number is noted, and is the worst score until the insert is undone."""
    value = sums.formula(group_of(sums, u), group_of(sums, v))
    if np.isnan(value):
        sums.trouble[0], sums.trouble[1], sums.trouble[2] = 1, u, v
        return -np.inf
    return value


def vector_score(sums, u, v):
    """f(u, v) under whichever formula."""
    return named_score(sums, u, v) if isinstance(sums.formula, int) else users_score(sums, u, v)


@jitable
def vector_score_many(sums, v, nodes, n):
    for i in range(n):
        sums.answers[i] = vector_score(sums, v, nodes[i])


@jitable
def all_leaves(tree, sums):
    n = 0
    for leaf in range(tree.head[USED]):
        if size(tree, leaf) != NONE:
            sums.nodes[n] = leaf
            n += 1
    return n


@jitable
def vector_merge(sums, p, left, right):
    if sums.moments[left, COUNT] < sums.moments[right, COUNT]:
        left, right = right, left
    n_l, n_r = sums.moments[left, COUNT], sums.moments[right, COUNT]
    share = n_r / (n_l + n_r)
    _step_toward(sums.means[p], sums.means[left], sums.means[right], np.float32(share))
    sums.moments[p, COUNT] = n_l + n_r
    gap = squared_distance(sums.means[left], sums.means[right])
    within = (1.0 - share) * sums.moments[left, SPREAD] + share * sums.moments[right, SPREAD]
    sums.moments[p, SPREAD] = within + share * (1.0 - share) * gap
    sums.moments[p, LENGTH] = math.sqrt(dot(sums.means[p], sums.means[p]))


def _is_vector(sums: types.Type) -> bool:
    return isinstance(sums, types.NamedTuple) and sums.instance_class is VectorSummaries


@overload(vector_score, jit_options=NO_COUNTS)
def _compiled_vector_score(sums, u, v):
    if isinstance(sums.types[sums.fields.index("formula")], types.Integer):
        return lambda sums, u, v: named_score(sums, u, v)
    return lambda sums, u, v: users_score(sums, u, v)


@overload(summaries.score, jit_options=NO_COUNTS)
def _compiled_score(sums, u, v):
    if _is_vector(sums):
        return lambda sums, u, v: vector_score(sums, u, v)
    return None


@overload(summaries.score_many, jit_options=NO_COUNTS)
def _compiled_score_many(sums, v, nodes, n):
    if _is_vector(sums):
        return lambda sums, v, nodes, n: vector_score_many(sums, v, nodes, n)
    return None


@overload(summaries.leaves_around, jit_options=NO_COUNTS)
def _compiled_leaves_around(tree, sums, v):
    if _is_vector(sums):
        return lambda tree, sums, v: all_leaves(tree, sums)
    return None


@overload(summaries.merge, jit_options=NO_COUNTS)
def _compiled_merge(sums, p, left, right):
    if _is_vector(sums):
        return lambda sums, p, left, right: vector_merge(sums, p, left, right)
    return None
