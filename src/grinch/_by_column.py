"""Vectors a column at a time, so that sums over columns need no second copy of the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._sparse_rows import in_order, squared_lengths


def check_vectors(vectors: Any, n: int) -> Any:
    """The vectors of ``n`` points, as a matrix of finite numbers (dense, or CSR with columns in ascending order)."""
    matrix: Any = in_order(vectors.tocsr()) if scipy.sparse.issparse(vectors) else np.asarray(vectors)
    if matrix.ndim != 2 or matrix.shape[0] != n:
        raise ValueError(
            f"vectors must have one row for each of the {n} points, in the order they arrived; got shape {matrix.shape}"
        )
    values: npt.NDArray[Any] = matrix.data if scipy.sparse.issparse(matrix) else matrix
    if values.dtype.kind not in "fiub":
        raise ValueError(f"vectors must be numbers; got dtype {values.dtype}: convert them with astype(float)")
    # The sum is finite if all are (a second look tells an overflow apart), and needs no array of flags.
    if not np.isfinite(values.sum(dtype=np.float64)) and not np.isfinite(values).all():
        raise ValueError("vectors must be finite; got a nan or an infinity: drop those rows or fill them in")
    return matrix


def columns(matrix: npt.NDArray[Any]) -> Iterator[npt.NDArray[np.float64]]:
    """Each column of a dense matrix as an array of its own."""
    for j in range(matrix.shape[1]):
        yield matrix[:, j].astype(np.float64)


def unit_scale(matrix: Any) -> npt.NDArray[np.float64]:
    """By row, what makes it a unit vector; 0 for a zero vector, which is similar to nothing."""
    if scipy.sparse.issparse(matrix):
        squared = squared_lengths(matrix)
    else:
        squared = np.zeros(matrix.shape[0])
        for column in columns(matrix):
            squared += column * column
    return np.divide(1.0, np.sqrt(squared), out=np.zeros_like(squared), where=squared > 0)
