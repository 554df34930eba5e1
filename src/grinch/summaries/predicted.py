"""What a summary should be, from those of the children: for files, which hold only how far off that is.

The moves round as the processor likes best. These functions round in one way on every processor (no sum is reordered,
nothing is fused), so what is written on one is read on any other, to the last bit.
"""

from __future__ import annotations

import numpy as np

from grinch._compile import compiled
from grinch._types import Flags, Floats, Ids, Vectors32
from grinch.linkage.vector import AVERAGE_DOT, CENTROID, COSINE, COUNT, LENGTH, SPREAD, WARD
from grinch.tree.links import LEFT, NONE, RIGHT


@compiled
def code_means(
    means: Vectors32, bits: Ids, moments: Floats, table: Ids, order: Ids, kept: Flags, offset: int, off_by: Ids
) -> None:
    """How far the bits of internal means are from those of the mean of the children, children first.

    ``bits`` are those of ``means``; ``kept`` says, by internal node, which are written, and ``off_by`` gets the rest.
    """
    mean = np.empty(means.shape[1], np.float32)
    as_bits = mean.view(np.int32)
    for i in range(order.shape[0] - 1, -1, -1):
        v = order[i]
        if v >= offset and kept[v - offset]:
            _mean_of_children(means, moments, table, v, mean)
            for j in range(mean.shape[0]):
                off_by[v - offset, j] = bits[v, j] - as_bits[j]


@compiled
def decode_means(
    means: Vectors32, bits: Ids, moments: Floats, table: Ids, order: Ids, kept: Flags, offset: int, off_by: Ids
) -> None:
    """The means that :func:`code_means` was given."""
    mean = np.empty(means.shape[1], np.float32)
    as_bits = mean.view(np.int32)
    for i in range(order.shape[0] - 1, -1, -1):
        v = order[i]
        if v >= offset and kept[v - offset]:
            _mean_of_children(means, moments, table, v, mean)
            for j in range(mean.shape[0]):
                bits[v, j] = as_bits[j] + off_by[v - offset, j]


@compiled
def _mean_of_children(means: Vectors32, moments: Floats, table: Ids, v: int, mean: Vectors32) -> None:
    """As :func:`grinch.linkage.vector.merge_rows` does it where the processor multiplies and adds in one step."""
    a, b = table[v, LEFT], table[v, RIGHT]
    if moments[a, COUNT] < moments[b, COUNT]:
        a, b = b, a
    total = moments[a, COUNT] + moments[b, COUNT]
    share = np.float64(np.float32(moments[b, COUNT] / total)) if total > 0.0 else 0.0
    for j in range(mean.shape[0]):
        step = np.float64(np.float32(means[b, j] - means[a, j]))
        mean[j] = np.float32(share * step + np.float64(means[a, j]))


@compiled
def predict_scores(formula: int, means: Vectors32, moments: Floats, near: Ids, scores: Vectors32) -> None:
    """The scores of points with their neighbours, about as the formula has them."""
    for x in range(near.shape[0]):
        for i in range(near.shape[1]):
            y = near[x, i]
            if y == NONE:
                break
            total = 0.0
            if formula in (COSINE, AVERAGE_DOT):
                for j in range(means.shape[1]):
                    total += np.float64(means[x, j]) * np.float64(means[y, j])
                lengths = moments[x, LENGTH] * moments[y, LENGTH]
                if formula == COSINE:
                    total = total / lengths if lengths > 0.0 else 0.0
            else:
                for j in range(means.shape[1]):
                    step = np.float64(means[x, j]) - np.float64(means[y, j])
                    total -= step * step
                if formula == WARD:
                    total *= 0.5
                elif formula != CENTROID:
                    total -= moments[x, SPREAD] + moments[y, SPREAD]
            scores[x, i] = np.float32(total)
