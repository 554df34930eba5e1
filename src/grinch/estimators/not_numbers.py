"""Input that only looks like a matrix of numbers: what is said of it, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

# What the values of a matrix may be besides real numbers, and what to do about it.
OTHER_KINDS = {
    "c": "Complex data not supported: X must hold real numbers; got {dtype}. Put real and imaginary parts side by side,"
    " for example with numpy.hstack([X.real, X.imag])",
    "M": "X must hold numbers; got dates ({dtype}). Turn them into numbers first, for example days since the first one",
    "m": "X must hold numbers; got spans of time ({dtype}). Turn them into numbers first, for example seconds:"
    " X / numpy.timedelta64(1, 's')",
    "V": "X must be a matrix of numbers; got records with fields ({dtype})."
    " numpy.lib.recfunctions.structured_to_unstructured makes a matrix of them",
}


def check_kind(X: Any) -> None:
    """What numpy would turn into numbers without a word: by its type alone, so it costs nothing."""
    if isinstance(X, np.ma.MaskedArray):
        raise ValueError(
            "X must not be a masked array, whose masked values would count like any other."
            " Fill them in first, for example with X.filled(0), or drop those rows"
        )
    kind = getattr(getattr(X, "dtype", None), "kind", "f")
    if kind in OTHER_KINDS:
        raise ValueError(OTHER_KINDS[kind].format(dtype=X.dtype) + ". Nothing was inserted")


def check_indices(X: Any) -> None:
    """Compiled code would write past the end of an array for an index that is out of range."""
    for name, index, length in _index_arrays(X):
        if len(index) and not (index.min() >= 0 and index.max() < length):
            wrong = index.min() if index.min() < 0 else index.max()
            raise ValueError(
                f"X must be a sparse matrix whose {name} are from 0 to {length - 1}; one is {wrong}."
                " Nothing was inserted; build it again from rows and columns, for example with scipy.sparse.coo_array"
            )
    if X.format in ("csr", "csc") and not _is_pointer(X.indptr, len(X.indices)):
        raise ValueError("X must be a sparse matrix whose indptr rises from 0 to at most the number of its indices")


def _index_arrays(X: Any) -> list[tuple[str, npt.NDArray[Any], int]]:
    rows, columns = X.shape if len(X.shape) == 2 else (1, X.shape[0])
    if X.format == "coo":
        return [("rows", X.row, rows), ("columns", X.col, columns)]
    if X.format in ("csr", "csc"):
        return [("indices", X.indices, columns if X.format == "csr" else rows)]
    return []


def _is_pointer(indptr: npt.NDArray[Any], n: int) -> bool:
    return bool(indptr[0] == 0 and indptr[-1] <= n and (indptr[1:] >= indptr[:-1]).all())


def check_columns(X: Any) -> None:
    """Name the column of a data frame that keeps it from being a matrix of numbers."""
    for name, values in _frame_columns(X):
        kind = _column_kind(values)
        if kind is not None:
            raise ValueError(
                f"X must hold numbers, but column {name!r} holds {kind}. Nothing was inserted; drop the column, or turn"
                " it into numbers first (for example with sklearn.preprocessing.OneHotEncoder)"
            ) from None


def check_not_records(X: Any) -> None:
    """Texts and other records are for a linkage of one's own; to reshape them would not help."""
    first = next(iter(X), None) if isinstance(X, (list, tuple, np.ndarray)) else None
    if isinstance(first, (str, bytes, dict)):
        raise ValueError(
            f"X must be a matrix of numbers for a linkage given by name; got {type(first).__name__} records such as"
            f" {first!r:.60}. Nothing was inserted; turn them into vectors first, or write a linkage for them"
            " (a function of two lists of records)"
        ) from None


def _frame_columns(X: Any) -> Iterable[tuple[Any, Any]]:
    """Name and values of each column of a data frame of pandas or polars; nothing of anything else."""
    if not hasattr(X, "columns"):
        return ()
    # Of pandas's columns several may have the same name.
    return X.items() if hasattr(X, "items") else ((name, X[name]) for name in X.columns)


def _column_kind(values: Any) -> str | None:
    """What a column holds if it is not numbers."""
    array = np.asarray(values)
    if array.dtype.kind in "mM":
        return "dates or times"
    if array.dtype.kind == "c":
        return "complex numbers"
    present = [value for value in array.tolist() if value is not None] if array.dtype.kind in "OUST" else []
    found = next((value for value in present if not _is_number(value)), None)
    return None if found is None else f"{type(found).__name__} values such as {found!r}"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    except TypeError:
        return type(value).__name__ == "NAType"  # what pandas writes for a missing number
    return True
