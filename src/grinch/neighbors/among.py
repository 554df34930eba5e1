"""Neighbours of points that nothing has been built of yet."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from grinch._types import Ids
from grinch.linkage.named import linkage_of
from grinch.neighbors.auto import AutoSearch
from grinch.neighbors.sparse import SparseSearch
from grinch.summaries.sparse import SparseSummaries
from grinch.summaries.vectors import VectorSummaries
from grinch.tree import NONE


def nearest_among(rows: Any, k: int) -> Ids:
    """By row, the k nearest others by Euclidean distance, best first, padded with NONE; by cells beyond 16,384 rows.

    >>> nearest_among(np.array([[0.0], [1.0], [7.0], [9.0]], np.float32), 1).ravel().tolist()
    [1, 0, 3, 2]
    """
    if scipy.sparse.issparse(rows):
        return _nearest_among_sparse(rows, k)
    n = len(rows)
    summaries = VectorSummaries(linkage_of("average", "sqeuclidean"), rows.shape[1])  # type: ignore[arg-type]
    summaries.grow(n)
    done = 0
    while done < n:
        taken = summaries.take(done, rows[done:])
        if not taken:
            summaries.move(done)
        done += taken
    return _all_found(AutoSearch(summaries, k), n, k)


def _nearest_among_sparse(rows: Any, k: int) -> Ids:
    n = rows.shape[0]
    summaries = SparseSummaries(linkage_of("average", "sqeuclidean"), rows.shape[1])  # type: ignore[arg-type]
    summaries.grow(n)
    summaries.take(0, rows)
    return _all_found(SparseSearch(summaries, k), n, k)


def _all_found(search: Any, n: int, k: int) -> Ids:
    near = np.full((n, k), NONE, np.int32)
    for first, found in search.nearest(np.arange(n), n):
        near[first : first + len(found), : found.shape[1]] = found
    return near
