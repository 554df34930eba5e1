"""Input that only looks like a matrix of numbers: what is said of it, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

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
        vectors = "make rows of texts with grinch.text.TextVectors().fit_transform(texts)"
        if not isinstance(first, str):
            vectors = "turn them into vectors first"
        raise ValueError(
            f"X must be a matrix of numbers for a linkage given by name; got {type(first).__name__} records such as"
            f" {first!r:.60}. Nothing was inserted; {vectors}, or write a linkage for them (a function of two lists of"
            " records)"
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
