"""Points that are handed in are written once, so that workers read what they need of them."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch.estimators.checks import check_columns, check_kind, check_not_records, check_values
from grinch.files.write import replacing
from grinch.sharded.inputs.arrays import ArrayRows, is_written, written_file
from grinch.sharded.inputs.frames import frame_columns, frame_matrix, is_frame
from grinch.sharded.inputs.rows import float_type, rows_per_piece
from grinch.sharded.inputs.sparse import SparseRows, sparse_rows

Blocks = Iterator[npt.NDArray[Any]]


def matrix_rows(X: Any, folder: Path, columns: Sequence[str] | str | None) -> ArrayRows | SparseRows:
    """The rows of an array, a sparse matrix or a frame, in files that have their digest for a name."""
    if scipy.sparse.issparse(X) and columns is None:
        check_kind(X)
        return sparse_rows(X, folder)
    matrix = _as_matrix(X, columns)
    n_rows, width = matrix.shape
    if not n_rows or not width:
        raise ValueError(f"X must have at least one row and one column; got {n_rows} rows and {width} columns")
    dtype = float_type(matrix.dtype)
    stamp = _digest(matrix, dtype)
    path = folder / f"{stamp}.npy"
    if not is_written(path):
        check_room(folder, n_rows * width * dtype.itemsize)
        with replacing(path, "wb") as file:
            write_header(file, (n_rows, width), dtype)
            for block in _blocks(matrix, dtype):
                file.write(block.data)
    return ArrayRows((written_file(path)[0],), width, stamp, checked=True)


def write_header(file: IO[bytes], shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    """The beginning of an .npy file."""
    np.lib.format.write_array_header_1_0(file, {"descr": dtype.str, "fortran_order": False, "shape": shape})


def check_room(folder: Path, needed: int) -> None:
    """Refuse before it is begun what does not fit on the disk."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"folder must have room for X: it takes {needed:,} bytes, and {free:,} are free in {str(folder)!r}."
            " Choose another folder"
        )


def _as_matrix(X: Any, columns: Sequence[str] | str | None) -> Any:
    check_kind(X)
    if is_frame(X):
        return frame_matrix(X, frame_columns(X, columns))
    if columns is not None:
        raise ValueError(f"columns are of Parquet files and data frames; X is {type(X).__name__} and has none")
    try:
        rows = np.asarray(X)
        rows = rows.astype(np.float64) if rows.dtype == object else rows
    except (TypeError, ValueError):
        check_columns(X)
        check_not_records(X)
        raise
    check_not_records(rows)
    check_kind(rows)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise ValueError(
            f"X must be a matrix of real numbers (points x features); got shape {rows.shape} of {rows.dtype}."
            " Use X.reshape(-1, 1) if it is a single feature"
        )
    return rows


def _digest(matrix: Any, dtype: np.dtype[Any]) -> str:
    """Of shape, type and all numbers, which are checked on the way."""
    found = hashlib.blake2b(f"{matrix.shape} {dtype.str}".encode(), digest_size=16)
    row = 0
    for block in _blocks(matrix, dtype):
        check_values(block, row)
        found.update(block.data)
        row += len(block)
    return found.hexdigest()


def _blocks(matrix: Any, dtype: np.dtype[Any]) -> Blocks:
    n_rows, width = matrix.shape
    step = rows_per_piece(width)
    for start in range(0, n_rows, step):
        block = matrix[start : start + step]
        yield np.ascontiguousarray(block, dtype=dtype)
