"""Neighbours that favour neither distance nor angle, and how far apart a tree puts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._top_k import nearest_rows
from grinch._types import Ids, Mask
from grinch.tree import NONE, Tree

# How many nearest by each of the two are compared.
COUNTED = 10
# Rows of similarities that are looked at together.
BLOCK = 512


def agreed_neighbors(points: npt.NDArray[Any]) -> Ids:
    """Return, by point, those that are among its nearest by distance and by angle, padded with NONE.

    Ten nearest by each; more where fewer than one a point is in both.

    >>> agreed_neighbors(np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [0.1, 2.0]]))[:, 0].tolist()
    [1, 0, 3, 2]
    """
    n = len(points)
    centred = points.astype(np.float64) - points.mean(axis=0, dtype=np.float64)
    lengths = np.linalg.norm(points.astype(np.float64), axis=1, keepdims=True)
    directions = points / np.where(lengths > 0, lengths, 1.0)
    # Of x·y - |y|²/2, the largest is the nearest.
    shift = -0.5 * np.einsum("ij,ij->i", centred, centred)
    k = min(COUNTED, n - 1)
    while True:
        by_distance, by_angle = nearest_rows(centred, shift, k), nearest_rows(directions, np.zeros(n), k)
        is_in_both = np.concatenate(
            [_is_in(by_distance[i : i + BLOCK], by_angle[i : i + BLOCK]) for i in range(0, n, BLOCK)]
        )
        if is_in_both.sum() >= n or k == n - 1:
            break
        k = min(2 * k, n - 1)
    kept = np.where(is_in_both, by_distance, NONE)
    return np.ascontiguousarray(np.take_along_axis(kept, np.argsort(~is_in_both, axis=1, kind="stable"), axis=1))


def _is_in(a: Ids, b: Ids) -> Mask:
    """Return which entries of each row of ``a`` are in the same row of ``b``."""
    return (a[:, :, None] == b[:, None, :]).any(axis=2)


def neighbor_cost(tree: Tree, near: Ids) -> float:
    """Return the mean number of points under the common ancestor of two neighbours.

    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> neighbor_cost(tree, np.array([[1, 2], [0, NONE], [NONE, NONE]]))
    2.3333333333333335
    """
    points, columns = np.nonzero(near != NONE)
    sizes = tree.sizes()[tree.common_ancestors(points, near[points, columns])]
    return int(sizes.sum(dtype=np.int64)) / len(sizes)
