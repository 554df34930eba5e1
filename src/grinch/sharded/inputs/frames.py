"""Data frames of pandas and polars as matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.estimators.checks import check_columns
from grinch.sharded.inputs.parquet_columns import asked_columns, default_columns
from grinch.sharded.inputs.rows import float_type

# What pyarrow and polars call some types of numbers.
OTHER_NAMES = {"boolean": "bool", "float": "float32", "halffloat": "float16"}


def is_frame(X: Any) -> bool:
    """Whether it is a data frame: one of pandas or polars, or a part of one of dask."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "shape")


def frame_columns(frame: Any, columns: Sequence[str] | str | None) -> list[Any]:
    """Those asked for, or all of numbers, or the only one of lists."""
    names = list(frame.columns)
    if columns is not None:
        return asked_columns(columns, names)
    kinds = {name: _kind(frame[name]) for name in names}
    numbers, lists = ([name for name in names if kinds[name] == kind] for kind in ("number", "list"))
    return default_columns(numbers, lists, "X")


def frame_matrix(frame: Any, names: Sequence[Any]) -> npt.NDArray[Any]:
    """The values of some columns; those that are missing are NaN."""
    if len(names) == 1 and _kind(frame[names[0]]) == "list":
        return _stacked(frame[names[0]].to_list(), names[0])
    chosen = frame[list(names)]
    try:
        types = [_numpy_type(chosen[name]) for name in names]
        columns = [_values(chosen[name]) for name in names]
    except (TypeError, ValueError):
        check_columns(chosen)
        raise
    return np.column_stack(columns).astype(float_type(*set(types)), copy=False)


def _stacked(lists: list[Any], name: Any) -> npt.NDArray[Any]:
    for row, values in enumerate(lists):
        if values is None or len(values) != len(lists[0]):
            raise ValueError(
                f"X must have lists of equal length; column {name!r} has"
                f" {'none' if values is None else len(values)} in row {row}, and {len(lists[0])} numbers in the first"
            )
    rows = np.array(lists)
    return rows.astype(float_type(rows.dtype), copy=False)


def _kind(column: Any) -> str:
    kind = str(column.dtype).lower()
    if kind.startswith(("list", "array", "large_list", "fixed_size_list")):
        return "list"
    if kind == "object":
        first = next((value for value in column.to_list() if value is not None), None)
        return "list" if isinstance(first, (list, tuple, np.ndarray)) else "other"
    return "number" if kind.split("[")[0].startswith(("int", "uint", "float", "double", "bool", "decimal")) else "other"


def _numpy_type(column: Any) -> str:
    """A name that numpy knows: Int16 of pandas and polars, ``double[pyarrow]``, Decimal."""
    kind = str(column.dtype).lower().split("[")[0].split("(")[0]
    try:
        return np.dtype(OTHER_NAMES.get(kind, kind)).str
    except TypeError:
        return "float64"


def _values(column: Any) -> npt.NDArray[Any]:
    if hasattr(column, "null_count"):
        return np.asarray(column.cast(float).to_numpy())
    dtype = np.float32 if float_type(_numpy_type(column)) == np.float32 else np.float64
    return np.asarray(column.to_numpy(dtype=dtype, na_value=np.nan))
