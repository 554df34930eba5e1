"""Checks of the arrays inside a sparse matrix, which users can change, before compiled code relies on them."""

from __future__ import annotations

from typing import Any

BUILD_AGAIN = "Nothing was inserted; build it again from rows and columns, for example with scipy.sparse.coo_array"


def check_indices(X: Any) -> None:
    """Refuse indices out of range, for which compiled code would write past the end of an array.

    scipy checks the arrays of a new matrix, so one is made of those of X, which are not copied. The other formats have
    no such indices (dia), or scipy checks them when it converts them (dok).
    """
    try:
        if X.format == "coo" and len(X.shape) <= 2:
            type(X)((X.data, getattr(X, "coords", None) or (X.row, X.col)), shape=X.shape)
        elif X.format in ("csr", "csc", "bsr"):
            _check_compressed(X)
        elif X.format == "lil":
            _check_lists(X)
    except ValueError as error:
        raise ValueError(f"X must be a sparse matrix whose arrays fit together: {error}. {BUILD_AGAIN}") from None


def checked_csr(X: Any) -> Any:
    """Return a sparse matrix in sparse rows; the result of scipy's conversion is checked as well."""
    check_indices(X)
    rows = X.tocsr()
    if rows is not X:
        check_indices(rows)
    return rows


def _check_compressed(X: Any) -> None:
    new = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
    if X.format == "bsr" and any(length % side for side, length in zip(X.data.shape[1:], X.shape, strict=True)):
        raise ValueError(f"blocks of shape {X.data.shape[1:]} do not fill the shape {X.shape}")
    try:
        new.check_format()
    except ValueError as error:
        raise ValueError(
            f"{error} (the indices are from {X.indices.min(initial=0)} to {X.indices.max(initial=0)})"
        ) from None


def _check_lists(X: Any) -> None:
    n_rows, n_columns = X.shape
    if not X.rows.shape == X.data.shape == (n_rows,):
        raise ValueError(f"it has {n_rows} rows, {len(X.rows)} lists of columns and {len(X.data)} of values")
    for i, (columns, values) in enumerate(zip(X.rows.tolist(), X.data.tolist(), strict=True)):
        if not isinstance(columns, list) or not isinstance(values, list) or len(columns) != len(values):
            raise ValueError(f"row {i} has no list of columns and of as many values")
        # Python's numbers: they may be larger than any of numpy's.
        if columns and not (min(columns) >= 0 and max(columns) < n_columns):
            raise ValueError(
                f"columns are from 0 to {n_columns - 1}; those of row {i} are from {min(columns)} to {max(columns)}"
            )
