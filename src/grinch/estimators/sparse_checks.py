"""The insides of a sparse matrix, which anyone can change: checked before compiled code goes by them."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

BUILD_AGAIN = "Nothing was inserted; build it again from rows and columns, for example with scipy.sparse.coo_array"


def check_indices(X: Any) -> None:
    """Compiled code would write past the end of an array for an index that is out of range.

    The other formats have no such indices (dia), or scipy checks them when it converts them (dok).
    """
    if X.format == "coo" and len(X.shape) <= 2:
        _check_coo(X)
    elif X.format in ("csr", "csc", "bsr"):
        _check_compressed(X)
    elif X.format == "lil":
        _check_lists(X)


def checked_csr(X: Any) -> Any:
    """A sparse matrix in sparse rows; what scipy has made of it is checked as well."""
    check_indices(X)
    rows = X.tocsr()
    if rows is not X:
        check_indices(rows)
    return rows


def _check_coo(X: Any) -> None:
    n_rows, n_columns = _shape(X)
    if not X.row.shape == X.col.shape == (len(X.data),):
        _refuse(f"has a row and a column for each of its {len(X.data)} values; got {len(X.row)} and {len(X.col)}")
    _check_range("rows", X.row, n_rows)
    at = _first_outside(X.col, n_columns)
    if at is not None:
        _refuse_index("columns", X.col[at], n_columns, f"in row {X.row[at]}")


def _check_compressed(X: Any) -> None:
    n_rows, n_columns = _shape(X)
    high, wide = _block(X)
    lines, others = (n_columns, n_rows) if X.format == "csc" else (n_rows // high, n_columns // wide)
    indptr, indices = X.indptr, X.indices
    if indptr.shape != (lines + 1,):
        _refuse(f"has an indptr of {lines + 1} numbers; got {len(indptr)}")
    if indices.ndim != 1 or len(indices) != len(X.data):
        _refuse(f"has one of its indices for each of its {len(X.data)} values; got {len(indices)}")
    if not (indptr[0] == 0 and indptr[-1] <= len(indices) and (indptr[1:] >= indptr[:-1]).all()):
        _refuse("has an indptr that rises from 0 to at most the number of its indices")
    at = _first_outside(indices, others)
    if at is not None:
        line = min(int(np.searchsorted(indptr, at, side="right")) - 1, lines - 1)
        where = f"in column {line}" if X.format == "csc" else f"in row {line * high}"
        _refuse_index("indices", indices[at], others, where)


def _block(X: Any) -> tuple[int, int]:
    """The rows and columns of a block: of all but BSR matrices 1 and 1."""
    if X.format != "bsr":
        if X.data.ndim != 1:
            _refuse(f"has its values in one dimension; got {X.data.ndim}")
        return 1, 1
    sides = X.data.shape[1:]
    if len(sides) != 2 or not all(side > 0 and length % side == 0 for side, length in zip(sides, X.shape, strict=True)):
        _refuse(f"has blocks that fill its shape {X.shape}; got data of shape {X.data.shape}")
    return int(sides[0]), int(sides[1])


def _check_lists(X: Any) -> None:
    n_rows, n_columns = X.shape
    if not X.rows.shape == X.data.shape == (n_rows,):
        _refuse(f"has {n_rows} lists of columns and of values; got {len(X.rows)} and {len(X.data)}")
    for i, (columns, values) in enumerate(zip(X.rows.tolist(), X.data.tolist(), strict=True)):
        if not isinstance(columns, list) or not isinstance(values, list) or len(columns) != len(values):
            _refuse(f"has a list of columns and one of as many values for each row; row {i} has not")
        # Python's numbers: they may be larger than any of numpy's.
        if columns and not (min(columns) >= 0 and max(columns) < n_columns):
            _refuse_index("columns", min(columns) if min(columns) < 0 else max(columns), n_columns, f"in row {i}")


def _shape(X: Any) -> tuple[int, int]:
    n_rows, n_columns = X.shape if len(X.shape) == 2 else (1, X.shape[0])
    return n_rows, n_columns


def _check_range(name: str, index: npt.NDArray[Any], length: int) -> None:
    at = _first_outside(index, length)
    if at is not None:
        _refuse_index(name, index[at], length, f"at place {at}")


def _first_outside(index: npt.NDArray[Any], length: int) -> int | None:
    if not len(index) or (index.min() >= 0 and index.max() < length):
        return None
    return int(np.argmax((index < 0) | (index >= length)))


def _refuse_index(name: str, wrong: Any, length: int, where: str) -> NoReturn:
    raise ValueError(
        f"X must be a sparse matrix whose {name} are from 0 to {length - 1}; one is {wrong}, {where}. {BUILD_AGAIN}"
    )


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"X must be a sparse matrix that {what}. {BUILD_AGAIN}")
