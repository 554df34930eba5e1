"""Linkages on vectors, all O(d) by their closed forms, compiled.

A group is summarised by the mean m of its vectors, their number n, their spread s (mean squared distance to m) and
the length of m. Means, not sums: in float32 a sum of a million vectors loses the next one, a mean does not.
Every formula below is then free of cancellation:

    mean over all pairs of a·b          =  m_A · m_B
    mean over all pairs of |a − b|²     =  |m_A − m_B|² + s_A + s_B
    cosine of the summed vectors        =  m_A · m_B / (|m_A| |m_B|)
    Tanimoto coefficient of the means   =  m_A · m_B / (|m_A|² + |m_B|² − m_A · m_B)

The functions take a table of means and one of moments (n, s, length) and the rows of two groups in them.
"""

from __future__ import annotations

import math

import numpy as np

from grinch._compile import jitable, kernel
from grinch._types import Floats, Vectors32

FORMULAS = ("cosine", "average_dot", "average_sqeuclidean", "centroid", "ward", "tanimoto")
COSINE, AVERAGE_DOT, AVERAGE_SQEUCLIDEAN, CENTROID, WARD, TANIMOTO = range(len(FORMULAS))

# Columns of moments.
COUNT, SPREAD, LENGTH = 0, 1, 2


@kernel
def dot(a: Vectors32, b: Vectors32) -> float:
    total = np.float32(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return np.float64(total)


@kernel
def squared_distance(a: Vectors32, b: Vectors32) -> float:
    total = np.float32(0)
    for i in range(a.shape[0]):
        step = a[i] - b[i]
        total += step * step
    return np.float64(total)


@kernel
def _step_toward(out: Vectors32, a: Vectors32, b: Vectors32, share: np.float32) -> None:
    """Out = a + share (b - a); equal vectors stay as they are to the last bit."""
    for i in range(a.shape[0]):
        out[i] = a[i] + share * (b[i] - a[i])


@jitable
def formula_score(formula: int, means: Vectors32, moments: Floats, u: int, v: int) -> float:
    """The formulas, by number."""
    a, b = means[u], means[v]
    if formula == COSINE:
        lengths = moments[u, LENGTH] * moments[v, LENGTH]
        return dot(a, b) / lengths if lengths > 0.0 else 0.0
    if formula == AVERAGE_DOT:
        return dot(a, b)
    if formula == TANIMOTO:
        product = dot(a, b)
        union = moments[u, LENGTH] ** 2 + moments[v, LENGTH] ** 2 - product
        return product / union if union > 0.0 else 0.0
    gap = squared_distance(a, b)
    if formula == AVERAGE_SQEUCLIDEAN:
        return -(gap + moments[u, SPREAD] + moments[v, SPREAD])
    if formula == CENTROID:
        return -gap
    n_u, n_v = moments[u, COUNT], moments[v, COUNT]
    return -gap * n_u * n_v / (n_u + n_v)


@jitable
def merge_rows(formula: int, means: Vectors32, moments: Floats, p: int, left: int, right: int) -> None:
    """Make row p of the rows of the two groups that it is the union of, as far as the formula looks at it."""
    if moments[left, COUNT] < moments[right, COUNT]:
        left, right = right, left
    n_l, n_r = moments[left, COUNT], moments[right, COUNT]
    share = n_r / (n_l + n_r)
    _step_toward(means[p], means[left], means[right], np.float32(share))
    moments[p, COUNT] = n_l + n_r
    if formula == AVERAGE_DOT:
        return
    gap = squared_distance(means[left], means[right])
    within = (1.0 - share) * moments[left, SPREAD] + share * moments[right, SPREAD]
    moments[p, SPREAD] = within + share * (1.0 - share) * gap
    moments[p, LENGTH] = math.sqrt(dot(means[p], means[p]))


@kernel
def score_others(formula: int, means: Vectors32, moments: Floats, scores: Floats) -> None:
    """Row 0 with each of the rows after it."""
    for i in range(scores.shape[0]):
        scores[i] = formula_score(formula, means, moments, 0, i + 1)
