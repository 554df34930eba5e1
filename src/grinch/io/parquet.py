"""Points in .parquet files: a column for each feature, or one column of lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch.errors import missing_extra, unknown_name
from grinch.io.points import (
    MOST_NAMES,
    Asked,
    FileError,
    Points,
    check_unpacked_size,
    choose_features,
    float_type,
    shown,
)

# What pandas calls the index of a frame when it writes it beside the columns.
INDEX_NAME = re.compile(r"__index_level_\d+__")


class Columns(NamedTuple):
    """The columns that are read, with their types: several of numbers, or one of lists."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    is_list: bool
    dtype: str

    def shown(self) -> str:
        """Names and types, for a message."""
        pairs = [f"{name}: {kind}" for name, kind in zip(self.names, self.types, strict=True)]
        more = f" and {len(pairs) - MOST_NAMES} more" if len(pairs) > MOST_NAMES else ""
        return ", ".join(pairs[:MOST_NAMES]) + more


def choose_columns(schema: Any, asked: Sequence[str] | str | None, path: str) -> Columns:
    """Those asked for, or all of numbers, or the only one of lists of numbers."""
    fields = {field.name: field.type for field in schema}
    numbers = [name for name, kind in fields.items() if _is_number(kind) and not INDEX_NAME.fullmatch(name)]
    lists = [name for name, kind in fields.items() if _is_list(kind)]
    names = asked_columns(asked, fields) if asked is not None else default_columns(numbers, lists, repr(path))
    is_list = len(names) == 1 and names[0] in lists
    for name in names:
        if not is_list and not _is_number(fields[name]):
            raise FileError(
                f"columns must name columns of numbers, or a single one of lists of numbers; {name!r} in"
                f" {path!r} holds {fields[name]}"
            )
    types = [fields[name].value_type if is_list else fields[name] for name in names]
    dtype = float_type(*{_numpy_type(kind) for kind in types})
    return Columns(tuple(names), tuple(str(fields[name]) for name in names), is_list, dtype.str)


def asked_columns(asked: Sequence[str] | str, known: Any) -> list[str]:
    """The columns that were asked for, if they are there."""
    names = [asked] if isinstance(asked, str) else list(asked)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"columns must be names of columns, each once; got {asked!r}")
    for name in names:
        if name not in known:
            raise unknown_name("columns", name, map(str, known))
    return names


def default_columns(numbers: list[str], lists: list[str], where: str) -> list[str]:
    """All of numbers, or the only one of lists: where there are both, numbers may be ids or classes."""
    if numbers and not lists:
        return numbers
    if len(lists) == 1 and not numbers:
        return lists
    if not lists:
        raise ValueError(f"X must have columns of numbers, or a column of lists of numbers; {where} has none")
    there = ", ".join(map(shown, [*lists, *numbers][:MOST_NAMES]))
    raise ValueError(
        f"columns must say which of {there} in {where} are the points: columns={lists[0]!r} for a column of lists, or a"
        " list of the names of columns of numbers"
    )


def list_width(file: Any, columns: Columns) -> int:
    """The length of the lists in a column: that of the first; 0 if there is none."""
    for batch in file.iter_batches(1, columns=list(columns.names)):
        if batch.num_rows and batch.column(0)[0].is_valid:
            return len(batch.column(0)[0])
        if batch.num_rows:
            return 1  # refused when it is read
    return 0


def fill_from_columns(rows: npt.NDArray[Any], batch: Any, names: Sequence[str], path: str, row: int) -> None:
    """Put a batch with a column for each feature into ``rows``, which begin at ``row`` of their file."""
    for position, name in enumerate(names):
        values = batch.column(batch.schema.get_field_index(name))
        if values.null_count:
            raise _empty(path, row + _first_null(values), name)
        rows[:, position] = _to_numpy(values)


def fill_from_lists(rows: npt.NDArray[Any], batch: Any, name: str, path: str, row: int) -> None:
    """Put a batch with one column of lists into ``rows``, which begin at ``row`` of their file."""
    lists, width = batch.column(0), rows.shape[1]
    if lists.null_count:
        raise _empty(path, row + _first_null(lists), name)
    lengths = np.asarray(lists.value_lengths())
    if (lengths != width).any():
        wrong = int(np.argmax(lengths != width))
        raise FileError(
            f"X must have lists of equal length; {path!r} has {lengths[wrong]} numbers in row {row + wrong} of column"
            f" {name!r}, and {width} in the first"
        )
    values = lists.flatten()
    if values.null_count:
        raise _empty(path, row + _first_null(values) // width, name)
    rows[:] = _to_numpy(values).reshape(-1, width)


def _to_numpy(values: Any) -> npt.NDArray[Any]:
    if "decimal" in str(values.type):
        values = values.cast("float64")
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _first_null(values: Any) -> int:
    return int(np.argmax(np.asarray(values.is_null())))


def _empty(path: str, row: int, name: str) -> FileError:
    return FileError(
        f"X must hold numbers, but {path!r} has an empty value (null) in row {row} of column {name!r}."
        " Drop that row or fill the value in"
    )


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return any(is_kind(kind) for is_kind in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    is_list = any(is_kind(kind) for is_kind in (types.is_list, types.is_large_list, types.is_fixed_size_list))
    return is_list and _is_number(kind.value_type)


def _numpy_type(kind: Any) -> str:
    return "float64" if "decimal" in str(kind) else np.dtype(kind.to_pandas_dtype()).str


def read_parquet(path: Path, asked: Asked) -> Points:
    """The points of a .parquet file; columns that are dropped are not read."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("reading .parquet", "pyarrow", "parquet") from None
    with pyarrow.parquet.ParquetFile(path) as file:
        features = choose_features(list(file.schema_arrow.names), asked)
        columns = [*features, *asked.beside]
        check_unpacked_size(path.name, file.metadata.num_rows * len(columns) * 8)
        table = file.read(columns)

    def column(name: str) -> npt.NDArray[Any]:
        return np.asarray(table.column(name).to_numpy())

    if table.num_rows == 0:
        raise FileError(f"FILE {path.name!r} has no rows")
    vectors = _vectors([column(name) for name in features], features)
    ids, labels = (column(name) if name else None for name in (asked.id, asked.label))
    kept = {name: table.column(name).to_pylist() for name in asked.keep}
    return Points(vectors, ids, labels, kept, features if vectors.shape[1] == len(features) else None)


def _vectors(columns: list[npt.NDArray[Any]], names: list[str]) -> npt.NDArray[Any]:
    first = columns[0]
    if len(columns) == 1 and first.dtype == object and isinstance(first[0], (list, np.ndarray)):
        # One column of lists: an embedding per row.
        return np.stack(first.tolist())
    for name, values in zip(names, columns, strict=True):
        if values.dtype.kind not in "fiub":
            raise FileError(
                f"column {shown(name)} must be numeric, but row 1 holds {shown(values[0])}."
                " If it is no feature, say so with --label, --id or --drop (kept beside: --payload; a text to cluster"
                " by: --text)"
            )
    return np.column_stack(columns)
