"""Checks of the arrays inside a sparse matrix, which users can change, before compiled code relies on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

BUILD_AGAIN = "Nothing was inserted; build it again from rows and columns, for example with scipy.sparse.coo_array"


def check_indices(X: Any) -> None:
    """Refuse indices out of range, for which compiled code would write past the end of an array.

    The other formats have no such indices (dia), or scipy checks them when it converts them (dok).
    """
    if X.format == "coo" and len(X.shape) <= 2:
        _check_coo(X)
    elif X.format in ("csr", "csc", "bsr"):
        _check_compressed(X)
    elif X.format == "lil":
        _check_lists(X)


def checked_csr(X: Any) -> Any:
    """Return a sparse matrix in sparse rows; the result of scipy's conversion is checked as well."""
    check_indices(X)
    rows = X.tocsr()
    if rows is not X:
        check_indices(rows)
    return rows


def _check_coo(X: Any) -> None:
    n_rows, n_columns = _shape(X)
    if not X.row.shape == X.col.shape == (len(X.data),):
        _refuse(f"has a row and a column for each of its {len(X.data)} values; got {len(X.row)} and {len(X.col)}")
    _check_range("rows", X.row, n_rows, lambda at: f"at place {at}")
    _check_range("columns", X.col, n_columns, lambda at: f"in row {X.row[at]}")


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

    def where(at: int) -> str:
        line = min(int(np.searchsorted(indptr, at, side="right")) - 1, lines - 1)
        return f"in column {line}" if X.format == "csc" else f"in row {line * high}"

    _check_range("indices", indices, others, where)


def _block(X: Any) -> tuple[int, int]:
    """Return the rows and columns of a block: 1 and 1 except for BSR matrices."""
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


def _check_range(name: str, index: npt.NDArray[Any], length: int, where: Callable[[int], str]) -> None:
    if len(index) and not (index.min() >= 0 and index.max() < length):
        at = int(np.argmax((index < 0) | (index >= length)))
        _refuse_index(name, index[at], length, where(at))


def _refuse_index(name: str, wrong: Any, length: int, where: str) -> NoReturn:
    raise ValueError(
        f"X must be a sparse matrix whose {name} are from 0 to {length - 1}; one is {wrong}, {where}. {BUILD_AGAIN}"
    )


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"X must be a sparse matrix that {what}. {BUILD_AGAIN}")
