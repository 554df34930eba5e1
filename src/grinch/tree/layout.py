"""The layout of the map: points on a plane, neighbours beside each other, laid out along the tree at first.

Points start on a Hilbert curve in the order of the tree's leaves, so that near relatives begin side by side. Then
neighbours attract each other, and random points repel each other, as in UMAP (McInnes, Healy and Melville, 2018).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._compile import kernel
from grinch._types import Floats, Ids

Plane = npt.NDArray[np.float32]

N_NEIGHBORS = 15
# Rounds for few points; of many points as many as this number of steps allows, but no fewer than the last one.
MAX_ROUNDS, STEPS, MIN_ROUNDS = 200, 27_000_000, 40
# The first step of points that have been laid out before.
LATER_STEP = 0.25
# Random points that each pair of neighbours is compared with.
REPELLED = 5
# How far a random point pushes at most, in units of the step.
MAX_PUSH = 4.0
# The square of the distance at which attraction is half as strong: 1 / SPREAD.
SPREAD = 0.25
# How much of a place on the map is by rank.
BY_RANK = 0.5
# The width of the plane on which the points start, for this many of them.
WIDTH, N_OF_WIDTH = 30.0, 22_500


def lay_out(near: Ids, start: Plane | None = None) -> Plane:
    """Return points on a plane, in the order of the tree's leaves from left to right.

    Parameters
    ----------
    near : array of shape (n, k)
        The nearest neighbours of each point, nearest first, padded with -1; points are numbered from left to right.
    start : array of shape (n, 2), optional
        Where points are at first; by default on a curve along the tree.

    Examples
    --------
    >>> near = np.array([[1, 2], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4]], np.int32)
    >>> plane = lay_out(near)
    >>> bool(np.linalg.norm(plane[0] - plane[2]) < np.linalg.norm(plane[0] - plane[3]))
    True
    """
    near, n = np.ascontiguousarray(near[:, :N_NEIGHBORS], np.int32), len(near)
    if n < 3:
        return np.column_stack([np.arange(n), np.zeros(n)]).astype(np.float32)
    rounds = int(np.clip(STEPS // (n * near.shape[1] + 1), MIN_ROUNDS, MAX_ROUNDS))
    on_curve = (hilbert_curve(n) - 0.5) * WIDTH * np.sqrt(n / N_OF_WIDTH)
    plane = np.array(on_curve if start is None else start, np.float32, order="C")
    _attract_and_repel(plane, near, rounds, 1.0 if start is None else LATER_STEP)
    return plane


def filled(plane: Plane) -> Plane:
    """Return a plane on which groups are closer together and wider: places half as they are and half by rank.

    >>> filled(np.array([[0, 0], [0, 1], [8, 2]], np.float32)).tolist()
    [[0.0, 0.0], [0.25, 0.5], [1.0, 1.0]]
    """
    n, low, high = len(plane), plane.min(axis=0), plane.max(axis=0)
    ranks = plane.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable") / max(n - 1, 1)
    width = np.where(high > low, high - low, 1)
    return np.asarray((1 - BY_RANK) * (plane - low) / width + BY_RANK * ranks, np.float32)


def hilbert_curve(n: int) -> Floats:
    """Return n points along a Hilbert curve through the unit square: what is near on the curve is near on the plane.

    >>> hilbert_curve(4).tolist()
    [[0.25, 0.25], [0.25, 0.75], [0.75, 0.75], [0.75, 0.25]]
    """
    side = 1
    while side * side < n:
        side *= 2
    at = (np.arange(n) * side**2) // max(n, 1)
    x, y, step = np.zeros(n, np.int64), np.zeros(n, np.int64), 1
    while step < side:
        right, up = (at >> 1) & 1, (at ^ (at >> 1)) & 1
        is_mirrored, is_swapped = (up == 0) & (right == 1), up == 0
        x, y = np.where(is_mirrored, step - 1 - x, x), np.where(is_mirrored, step - 1 - y, y)
        x, y = np.where(is_swapped, y, x), np.where(is_swapped, x, y)
        x, y, at, step = x + step * right, y + step * up, at >> 2, step * 2
    return (np.column_stack([x, y]) + 0.5) / side


def spread_over(plane: Plane, places: Ids, gaps: Ids, n: int) -> Plane:
    """Return the places of all n points: those of a sample, the others around the one that is next to them in the tree.

    ``places`` are those of the sample, from left to right; ``gaps[i]`` is the size of the smallest node over the
    points at i - 1 and i.
    """
    segment = np.searchsorted(places, np.arange(n), side="right") - 1
    # The size of the smallest node over a point and the sample to its left, or to its right.
    left = _running_max(np.where(np.isin(np.arange(n), places), 0, gaps), segment)
    right = _running_max(np.append(gaps[1:], n + 1)[::-1], (segment.max() - segment)[::-1])[::-1]
    right = np.where(segment + 1 < len(places), right, n + 2)
    owner = np.clip(np.where((left <= right) & (segment >= 0), segment, segment + 1), 0, len(places) - 1)
    typical = np.median(np.linalg.norm(np.diff(plane, axis=0), axis=1)) if len(plane) > 1 else 0.0
    spread = plane[owner] + scattered(n, 0.3 * float(typical))
    spread[places] = plane
    return np.asarray(spread, np.float32)


def _running_max(values: Any, segment: Any) -> Any:
    """Return the running maximum of values, which begins again in each segment (they rise)."""
    step = int(values.max(initial=0)) + 1
    offset = (segment.astype(np.int64) - segment.min(initial=0)) * step
    return np.maximum.accumulate(values + offset) - offset


def scattered(n: int, radius: float) -> Floats:
    """Return n places within a circle, evenly spread, and the same each time."""
    golden = np.pi * (3 - np.sqrt(5))
    angle, share = golden * np.arange(n), (np.arange(n) * 0.754877666) % 1
    return np.column_stack([np.cos(angle), np.sin(angle)]) * (radius * np.sqrt(share))[:, None]


@kernel
def _attract_and_repel(plane: Plane, near: Ids, rounds: int, first_step: float) -> None:
    """Move points towards their neighbours and away from random ones, by shorter and shorter steps."""
    n, state = near.shape[0], np.uint64(88172645463325252)
    for turn in range(rounds):
        step = np.float32(first_step * (1.0 - turn / rounds))
        for i in range(n):
            for j in range(near.shape[1]):
                other = near[i, j]
                if other < 0:
                    break
                dx, dy = plane[i, 0] - plane[other, 0], plane[i, 1] - plane[other, 1]
                pull = step * np.float32(-2.0 * SPREAD) / (np.float32(1.0) + np.float32(SPREAD) * (dx * dx + dy * dy))
                plane[i, 0] += pull * dx
                plane[i, 1] += pull * dy
                plane[other, 0] -= pull * dx
                plane[other, 1] -= pull * dy
                for _ in range(REPELLED):
                    state ^= state << np.uint64(13)
                    state ^= state >> np.uint64(7)
                    state ^= state << np.uint64(17)
                    other = np.int64(state % np.uint64(n))
                    dx, dy = plane[i, 0] - plane[other, 0], plane[i, 1] - plane[other, 1]
                    square = dx * dx + dy * dy
                    push = np.float32(2.0) / (
                        (np.float32(0.001) + square) * (np.float32(1.0) + np.float32(SPREAD) * square)
                    )
                    # Limited by its length: limited coordinates would draw groups as crosses.
                    push = step * min(push, np.float32(MAX_PUSH) / np.sqrt(square + np.float32(1e-12)))
                    plane[i, 0] += push * dx
                    plane[i, 1] += push * dy
