"""Linkages on sparse vectors: the formulas of :mod:`grinch.linkage.named`, from products of rows.

A row is its columns, ascending, and their values. The mean of a group is a row as well, with an entry for each column
that one of its vectors has. All formulas need only products and lengths:

    |m_A − m_B|²  =  |m_A|² + |m_B|² − 2 m_A · m_B

Products of float32 are exact in float64 and added there, so nothing is lost by the difference.

A mean may be kept in short: of many entries only the largest, ``most``. What is dropped is bounded: with m the mean, k
what is kept of it and r ≥ |m − k| (a moment besides, DROPPED),

    |m_A · m_B − k_A · k_B|  ≤  r_A |m_B| + r_B |m_A| + r_A r_B
"""

from __future__ import annotations

import math

import numpy as np

from grinch._compile import jitable
from grinch._types import Floats, Ids, Vectors32
from grinch._vectors import ROUNDING, first_not_below
from grinch.linkage.named import AVERAGE_DOT, AVERAGE_SQEUCLIDEAN, CENTROID, COSINE, COUNT, LENGTH, SPREAD, TANIMOTO

# Columns of moments besides those of dense vectors: the length of what was dropped from the mean, at most; and the
# squared length of the mean, which of whole numbers has no rounding.
DROPPED, SQUARE = 3, 4
N_MOMENTS = 5


@jitable
def formula_of_product(formula: int, product: float, moments: Floats, u: int, v: int) -> float:
    """Return the formulas, by number, from the product of two means."""
    if formula == AVERAGE_DOT:
        return product
    if formula == COSINE:
        lengths = moments[u, LENGTH] * moments[v, LENGTH]
        return product / lengths if lengths > 0.0 else 0.0
    squares = moments[u, SQUARE] + moments[v, SQUARE]
    if formula == TANIMOTO:
        return product / (squares - product) if squares > 0.0 else 0.0
    gap = squared_gap(product, squares)
    if formula == AVERAGE_SQEUCLIDEAN:
        return -(gap + moments[u, SPREAD] + moments[v, SPREAD])
    if formula == CENTROID:
        return -gap
    # What is left is Ward's.
    n_u, n_v = moments[u, COUNT], moments[v, COUNT]
    return -gap * n_u * n_v / (n_u + n_v)


@jitable
def squared_gap(product: float, squares: float) -> float:
    """Return the squared distance of two vectors, from the sum of their squared lengths."""
    gap = squares - 2.0 * product
    return gap if gap > ROUNDING * squares else 0.0


@jitable
def product_with(spread_out: Vectors32, columns: Ids, values: Vectors32) -> float:
    """Return the product of a row with one spread out over all columns; to the last bit as :func:`product_of`."""
    total = 0.0
    for i in range(columns.shape[0]):
        total += np.float64(spread_out[columns[i]]) * np.float64(values[i])
    return total


@jitable
def unite(
    columns: Ids,
    values: Vectors32,
    other_columns: Ids,
    other_values: Vectors32,
    share: float,
    united_columns: Ids,
    united_values: Vectors32,
) -> tuple[int, float]:
    """Write down row + share (other - row); how many entries that has, and the product of the two."""
    n, i, product, part, nothing = 0, 0, 0.0, np.float32(share), np.float32(0)
    for j in range(other_columns.shape[0]):
        column, b = other_columns[j], other_values[j]
        # Runs of entries without a counterpart are most of a long row; loops over them have no branches.
        stop = first_not_below(columns, column, i)
        n = _put_alone(columns, values, i, stop, part, united_columns, united_values, n)
        i = stop
        a = nothing
        if i < columns.shape[0] and columns[i] == column:
            a = values[i]
            product += np.float64(a) * np.float64(b)
            i += 1
        united_columns[n], united_values[n] = column, a + part * (b - a)
        n += 1
    return _put_alone(columns, values, i, columns.shape[0], part, united_columns, united_values, n), product


@jitable
def _put_alone(
    columns: Ids,
    values: Vectors32,
    start: int,
    stop: int,
    part: np.float32,
    united_columns: Ids,
    united_values: Vectors32,
    n: int,
) -> int:
    """Write down entries of a row that the other does not have; how many there are in all."""
    # As arrays that begin with 0: only then several are written at once.
    end = n + stop - start
    to, columns_here = united_columns[n:end], columns[start:stop]
    for i in range(to.shape[0]):
        to[i] = columns_here[i]
    means, values_here = united_values[n:end], values[start:stop]
    for i in range(means.shape[0]):
        means[i] = values_here[i] + part * (np.float32(0) - values_here[i])
    return end


@jitable
def keep_largest(columns: Ids, values: Vectors32, n: int, most: int, sizes: Vectors32) -> tuple[int, float]:
    """Keep the ``most`` largest of n entries, of equals the first; how many are left, and the squares of the others.

    ``sizes`` is scratch space.
    """
    if n <= most:
        return n, 0.0
    for i in range(n):
        sizes[i] = abs(values[i])
    least = nth_largest(sizes, n, most)
    spare = most
    for i in range(n):
        spare -= abs(values[i]) > least
    kept, dropped = 0, 0.0
    for i in range(n):
        size = abs(values[i])
        is_kept = size > least or (size == least and spare > 0)
        if size == least:
            spare -= 1
        if is_kept:
            columns[kept], values[kept] = columns[i], values[i]
            kept += 1
        else:
            dropped += np.float64(size) * np.float64(size)
    return kept, dropped


@jitable
def nth_largest(sizes: Vectors32, n: int, rank: int) -> float:
    """Return the size that ``rank`` of n sizes are at least as large as; they are put in another order."""
    low, high, at = 0, n - 1, rank - 1
    while low < high:
        pivot = sizes[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while sizes[i] > pivot:
                i += 1
            while sizes[j] < pivot:
                j -= 1
            if i <= j:
                sizes[i], sizes[j] = sizes[j], sizes[i]
                i += 1
                j -= 1
        if at <= j:
            high = j
        elif at >= i:
            low = i
        else:
            break
    return sizes[at]


@jitable
def merge_moments(moments: Floats, p: int, left: int, right: int, product: float, dropped: float) -> None:
    """Write the moments of the union of two groups, of which the right one is not larger.

    ``product`` is that of their means, ``dropped`` the length of what is not kept of the new one.
    """
    n_l, n_r = moments[left, COUNT], moments[right, COUNT]
    a, b, share = moments[left, SQUARE], moments[right, SQUARE], n_r / (n_l + n_r)
    rest = 1.0 - share
    within = rest * moments[left, SPREAD] + share * moments[right, SPREAD]
    moments[p, COUNT] = n_l + n_r
    moments[p, SPREAD] = within + share * rest * squared_gap(product, a + b)
    square = max(rest * rest * a + share * share * b + 2.0 * share * rest * product, 0.0)
    moments[p, SQUARE], moments[p, LENGTH] = square, math.sqrt(square)
    moments[p, DROPPED] = rest * moments[left, DROPPED] + share * moments[right, DROPPED] + dropped
