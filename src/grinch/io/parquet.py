"""Points in Parquet files: a column for each feature, or one column of lists; and their values as a matrix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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

# The name that pandas gives to the index of a frame when it writes it beside the columns.
INDEX_NAME = re.compile(r"__index_level_\d+__")


def open_parquet(path: str | Path) -> Any:
    """Open a Parquet file; its columns are read through small buffers, since there may be many of them."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("reading .parquet", "pyarrow", "parquet") from None
    return pyarrow.parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False)


def read_parquet(path: Path, asked: Asked) -> Points:
    """Return the points of a .parquet file; columns that are dropped are not read."""
    with open_parquet(path) as file:
        features = choose_features(list(file.schema_arrow.names), asked)
        columns = [*features, *asked.beside]
        check_unpacked_size(path.name, file.metadata.num_rows * len(columns) * 8)
        table = file.read(columns)
    if table.num_rows == 0:
        raise FileError(f"FILE {path.name!r} has no rows")
    kinds = [table.schema.field(name).type for name in features]
    is_list = len(features) == 1 and is_list_type(kinds[0])
    for name, kind in zip(features, kinds, strict=True):
        if not is_list and not is_number_type(kind):
            raise FileError(
                f"column {shown(name)} must be numeric, but row 1 holds {shown(table.column(name)[0].as_py())}."
                " If it is no feature, say so with --label, --id or --drop (kept beside: --payload; a text to cluster"
                " by: --text)"
            )
    width = len(table.column(features[0])[0].as_py() or ()) if is_list else len(features)
    dtype = np.result_type(*(_numpy_type(kind.value_type if is_list else kind) for kind in kinds))
    vectors = np.empty((table.num_rows, width), dtype)
    fill(vectors, table.to_batches(), features, is_list, path.name)
    ids, labels = (table.column(name).to_numpy() if name else None for name in (asked.id, asked.label))
    kept = {name: table.column(name).to_pylist() for name in asked.keep}
    return Points(vectors, ids, labels, kept, None if is_list else features)


# Columns --------------------------------------------------------------------------------------------------------------


class Columns(NamedTuple):
    """The columns that are read, with their types: several of numbers, or one of lists."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    is_list: bool
    dtype: str

    def shown(self) -> str:
        """Return the first columns, each with its type, and how many more there are."""
        pairs = [f"{name}: {kind}" for name, kind in zip(self.names, self.types, strict=True)]
        more = f" and {len(pairs) - MOST_NAMES} more" if len(pairs) > MOST_NAMES else ""
        return ", ".join(pairs[:MOST_NAMES]) + more


def choose_columns(schema: Any, asked: Sequence[str] | str | None, path: str) -> Columns:
    """Return the columns asked for, or all of numbers, or the only one of lists of numbers."""
    fields = {field.name: field.type for field in schema}
    numbers = [name for name, kind in fields.items() if is_number_type(kind) and not INDEX_NAME.fullmatch(name)]
    lists = [name for name, kind in fields.items() if is_list_type(kind)]
    names = choose_names(fields, numbers, lists, asked, repr(path))
    is_list = len(names) == 1 and names[0] in lists
    for name in names:
        if not is_list and not is_number_type(fields[name]):
            raise FileError(
                f"columns must name columns of numbers, or a single one of lists of numbers; {name!r} in"
                f" {path!r} holds {fields[name]}"
            )
    types = [fields[name].value_type if is_list else fields[name] for name in names]
    dtype = float_type(*{_numpy_type(kind) for kind in types})
    return Columns(tuple(names), tuple(str(fields[name]) for name in names), is_list, dtype.str)


def choose_names(
    known: Iterable[Any], numbers: list[Any], lists: list[Any], asked: Sequence[str] | str | None, where: str
) -> list[Any]:
    """Return the names asked for, if they are known; else all of numbers, or the only one of lists.

    Where there are both, numbers may be ids or classes.
    """
    if asked is not None:
        names = [asked] if isinstance(asked, str) else list(asked)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"columns must be names of columns, each once; got {asked!r}")
        for name in names:
            if name not in known:
                raise unknown_name("columns", name, map(str, known))
        return names
    if not numbers and not lists:
        raise ValueError(f"X must have columns of numbers, or a column of lists of numbers; {where} has none")
    if not lists or (len(lists) == 1 and not numbers):
        return numbers or lists
    there = ", ".join(map(shown, [*lists, *numbers][:MOST_NAMES]))
    raise ValueError(
        f"columns must say which of {there} in {where} are the points: columns={lists[0]!r} for a column of lists, or a"
        " list of the names of columns of numbers"
    )


def list_width(file: Any, columns: Columns) -> int:
    """Return the length of the lists in a column: that of the first; 0 if there is none."""
    for batch in file.iter_batches(1, columns=list(columns.names)):
        if batch.num_rows:
            # One that is null is refused when it is read.
            return len(batch.column(0)[0]) if batch.column(0)[0].is_valid else 1
    return 0


def is_number_type(kind: Any) -> bool:
    """Return whether a type of pyarrow is one of numbers."""
    from pyarrow import types

    return any(is_kind(kind) for is_kind in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def is_list_type(kind: Any) -> bool:
    """Return whether a type of pyarrow is one of lists of numbers."""
    from pyarrow import types

    is_list = any(is_kind(kind) for is_kind in (types.is_list, types.is_large_list, types.is_fixed_size_list))
    return is_list and is_number_type(kind.value_type)


def _numpy_type(kind: Any) -> str:
    return "float64" if "decimal" in str(kind) else np.dtype(kind.to_pandas_dtype()).str


# Values ---------------------------------------------------------------------------------------------------------------


def fill(
    rows: npt.NDArray[Any], batches: Iterable[Any], names: Sequence[str], is_list: bool, path: str, first: int = 0
) -> None:
    """Put batches of columns, or of one column of lists, into ``rows``, which begin at row ``first`` of their file."""
    done = 0
    for batch in batches:
        target, row = rows[done : done + batch.num_rows], first + done
        done += batch.num_rows
        for position, name in enumerate(names):
            values = batch.column(batch.schema.get_field_index(name))
            _check_no_null(values, path, row, name)
            if is_list:
                values = _flat(values, rows.shape[1], path, row, name)
                target[:] = _to_numpy(values).reshape(target.shape)
            else:
                target[:, position] = _to_numpy(values)


def _flat(lists: Any, width: int, path: str, row: int, name: str) -> Any:
    """Return the values of lists of equal length, one after the other."""
    lengths = np.asarray(lists.value_lengths())
    if (lengths != width).any():
        wrong = int(np.argmax(lengths != width))
        raise FileError(
            f"X must have lists of equal length; {path!r} has {lengths[wrong]} numbers in row {row + wrong} of column"
            f" {name!r}, and {width} in the first"
        )
    values = lists.flatten()
    _check_no_null(values, path, row, name, width)
    return values


def _to_numpy(values: Any) -> npt.NDArray[Any]:
    if "decimal" in str(values.type):
        values = values.cast("float64")
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _check_no_null(values: Any, path: str, row: int, name: str, width: int = 1) -> None:
    if values.null_count:
        at = row + int(np.argmax(np.asarray(values.is_null()))) // width
        raise FileError(
            f"X must hold numbers, but {path!r} has an empty value (null) in row {at} of column {name!r}."
            " Drop that row or fill the value in"
        )
