"""Neighbours of points that nothing has been built of yet."""

from __future__ import annotations

import numpy as np

from grinch._types import Ids, Vectors32
from grinch.linkage.named import linkage_of
from grinch.neighbors.auto import AutoSearch
from grinch.summaries.vectors import VectorSummaries
from grinch.tree import NONE


def nearest_among(rows: Vectors32, k: int) -> Ids:
    """By row, the k nearest others by Euclidean distance, best first, padded with NONE; by cells beyond 16,384 rows.

    >>> nearest_among(np.array([[0.0], [1.0], [7.0], [9.0]], np.float32), 1).ravel().tolist()
    [1, 0, 3, 2]
    """
    n = len(rows)
    summaries = VectorSummaries(linkage_of("average", "sqeuclidean"), rows.shape[1])  # type: ignore[arg-type]
    summaries.grow(n)
    done = 0
    while done < n:
        taken = summaries.take(done, rows[done:])
        if not taken:
            summaries.move(done)
        done += taken
    near = np.full((n, k), NONE, np.int32)
    for first, found in AutoSearch(summaries, k).nearest(np.arange(n), n):
        near[first : first + len(found), : found.shape[1]] = found
    return near
