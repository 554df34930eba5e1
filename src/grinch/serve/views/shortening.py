"""Sparse rows for the eye: the directions in which they vary most, so that nothing dense is as wide as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from grinch._types import Vectors32
from grinch._vectors import scaled, unit_scale

# Rows with no more columns are shown as they are.
MOST_COLUMNS = 256
N_DIRECTIONS = 32
# Of these many rows the directions are found; more change them little.
MOST_ROWS = 10_000


class Shortening:
    """The directions of the first rows it is given; they stay, so that a map does not turn as points come."""

    def __init__(self) -> None:
        self.directions: Vectors32 | None = None
        self._n = 0

    def fit(self, rows: Any, n: int) -> None:
        """Find the directions from some of n rows, unless they were found of half as many or more."""
        if self.directions is not None and self.directions.shape[0] == rows.shape[1] and n <= 2 * self._n:
            return
        from sklearn.decomposition import TruncatedSVD

        step = -(-rows.shape[0] // MOST_ROWS)
        some = rows[::step] if step > 1 else rows
        # Columns that no row has would only take room.
        used = np.unique(some.indices)
        width = min(N_DIRECTIONS, len(used), some.shape[0])
        self._n, self.directions = n, np.zeros((rows.shape[1], N_DIRECTIONS), np.float32)
        if width:
            found = TruncatedSVD(width, random_state=0).fit(some[:, used])
            self.directions[used, :width] = found.components_.T

    def __call__(self, rows: Any) -> Vectors32:
        assert self.directions is not None
        return np.asarray(rows @ self.directions, np.float32)


def is_wide(rows: Any) -> bool:
    """Whether rows are shortened before they are shown."""
    return scipy.sparse.issparse(rows) and rows.shape[1] > MOST_COLUMNS


def sparse_units(rows: Any) -> Any:
    """Sparse rows of length 1; zero vectors stay."""
    return scaled(rows, unit_scale(rows)).astype(np.float32)
