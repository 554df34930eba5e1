"""Reading points from files: arrays, tables, and the id-label-vector lists of this field's older tools."""

from __future__ import annotations

import csv
import gzip
import io
import warnings
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import numpy.typing as npt

from grinch.errors import missing_extra, unknown_name

FORMATS = (".npy", ".npz", ".csv", ".tsv", ".parquet")


class Points(NamedTuple):
    """Vectors read from a file, and what the file says of each of them."""

    vectors: npt.NDArray[Any]
    ids: npt.NDArray[Any] | None
    labels: npt.NDArray[Any] | None


class FileError(ValueError):
    """A file that cannot be read as points."""


def read_points(path: str | Path, label: str | None = None, id: str | None = None, drop: Iterable[str] = ()) -> Points:
    """Read the points of a .npy, .npz, .csv, .tsv or .parquet file (.csv and .tsv also gzipped).

    ``label``, ``id`` and ``drop`` name columns (in an .npz, arrays); every other column is a feature. A table without
    a header is all numbers, or ``id, label, numbers …``.
    """
    path = Path(path)
    if not path.exists():
        raise FileError(f"FILE {str(path)!r} does not exist")
    if path.is_dir():
        raise FileError(f"FILE {str(path)!r} is a folder; give a file ending in {', '.join(FORMATS)}")
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix not in FORMATS:
        raise FileError(f"FILE must end in {', '.join(FORMATS)}; got {path.name!r}")
    try:
        if suffix == ".npy":
            return _read_npy(path, label, id)
        if suffix == ".npz":
            return _read_npz(path, label, id)
        if suffix == ".parquet":
            return _read_parquet(path, label, id, set(drop))
        return _read_table(path, "," if suffix == ".csv" else "\t", label, id, set(drop))
    except FileError:
        raise
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise FileError(f"FILE {str(path)!r} cannot be read as {suffix} (truncated or damaged?): {error}") from error


def _read_npy(path: Path, label: str | None, id: str | None) -> Points:
    if label or id:
        raise FileError(
            f"FILE {path.name!r} is a single array and has no columns; --label and --id need .npz or a table"
        )
    vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    if vectors.ndim != 2:
        raise FileError(f"FILE {path.name!r} must hold a matrix (points x features); got shape {vectors.shape}")
    return Points(vectors, None, None)


def _read_npz(path: Path, label: str | None, id: str | None) -> Points:
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
        names = arrays.files
        for option, name in (("--label", label), ("--id", id)):
            if name is not None and name not in names:
                raise FileError(str(unknown_name(option, name, names)))
        matrices = [n for n in names if n not in (label, id) and arrays[n].ndim == 2]
        main = "X" if "X" in names else (matrices[0] if len(matrices) == 1 else None)
        if main is None:
            raise FileError(
                f"FILE {path.name!r} must hold the points as array 'X'; it has {', '.join(map(repr, names))}"
            )
        if label is None and "y" in names:
            label = "y"
        vectors = arrays[main]
        if vectors.ndim > 2:
            vectors = vectors.reshape(len(vectors), -1)
        points = Points(vectors, arrays[id] if id else None, arrays[label] if label else None)
    for name, values in ((label, points.labels), (id, points.ids)):
        if values is not None and len(values) != len(vectors):
            raise FileError(
                f"array {name!r} must have one entry for each of the {len(vectors)} points; got {len(values)}"
            )
    return points


def _read_parquet(path: Path, label: str | None, id: str | None, drop: set[str]) -> Points:
    try:
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("reading .parquet", "pyarrow", "parquet") from None
    table = pyarrow.parquet.read_table(path)
    names = list(table.column_names)
    features = _features(names, label, id, drop)

    def column(name: str) -> npt.NDArray[Any]:
        return np.asarray(table.column(name).to_numpy())

    first = column(features[0])
    if len(features) == 1 and first.dtype == object and len(first) and hasattr(first[0], "__len__"):
        # One column of lists: an embedding per row.
        vectors = np.stack([np.asarray(row, dtype=np.float32) for row in first])
    else:
        vectors = np.empty((table.num_rows, len(features)), np.float32)
        for i, name in enumerate(features):
            values = column(name)
            if values.dtype.kind not in "fiub":
                raise FileError(_not_a_number(name, 0, values[0] if len(values) else None))
            vectors[:, i] = values
    return Points(vectors, column(id) if id else None, column(label) if label else None)


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_table(path: Path, delimiter: str, label: str | None, id: str | None, drop: set[str]) -> Points:
    with _open(path) as lines:
        first = next(csv.reader(lines, delimiter=delimiter), None)
    if not first:
        raise FileError(f"FILE {path.name!r} is empty")
    if len(first) == 1 and ";" in first[0]:
        raise FileError(f"FILE {path.name!r} seems to be separated by ';'; .csv is read by ',' and .tsv by tabs")
    if all(map(_is_number, first)):
        names, has_header = [str(i) for i in range(len(first))], False
    elif len(first) > 2 and all(map(_is_number, first[2:])) and not (label or id or drop):
        # The list of id, label, vector that PERCH and the authors' code read.
        names, has_header, id, label = ["id", "label", *map(str, range(len(first) - 2))], False, "id", "label"
    else:
        names, has_header = first, True
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FileError(f"FILE {path.name!r} has more than one column {twice[0]!r}; rename or delete all but one")
    features = _features(names, label, id, drop)
    places = {name: i for i, name in enumerate(names)}

    def load(columns: list[str], dtype: Any) -> npt.NDArray[Any]:
        with _open(path) as lines:
            return np.loadtxt(
                lines,
                dtype=dtype,
                delimiter=delimiter,
                skiprows=int(has_header),
                usecols=[places[c] for c in columns],
                ndmin=2,
                comments=None,
                quotechar='"',
            )

    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            vectors = load(features, np.float32)
    except ValueError as error:
        raise FileError(_explain(path, delimiter, names, features, has_header) or str(error)) from error
    if len(vectors) == 0:
        raise FileError(f"FILE {path.name!r} has a header and no rows")
    texts = {name: load([name], str)[:, 0] for name in (label, id) if name}
    labels = texts.get(label or "")
    if labels is not None and (labels == "").any():
        labels = labels.astype(object)
        labels[labels == ""] = None
    return Points(vectors, texts.get(id or ""), labels)


def _features(names: list[str], label: str | None, id: str | None, drop: set[str]) -> list[str]:
    for option, name in (("--label", label), ("--id", id), *(("--drop", d) for d in sorted(drop))):
        if name is not None and name not in names:
            raise FileError(str(unknown_name(option, name, names)))
    features = [name for name in names if name not in {label, id, *drop}]
    if not features:
        raise FileError(f"FILE has no feature columns left; its columns are {', '.join(map(repr, names))}")
    return features


def _not_a_number(column: str, row: int, value: object) -> str:
    if value == "":
        return f"column {column!r} has no value in row {row + 1}; fill it in, or leave the column out: --drop {column}"
    return (
        f"column {column!r} must be numeric, but row {row + 1} holds {value!r}."
        f" If it is no feature, say what it is: --label {column}, --id {column} or --drop {column}"
    )


def _explain(path: Path, delimiter: str, names: list[str], features: list[str], has_header: bool) -> str | None:
    """Find the first cell that is to blame."""
    with _open(path) as lines:
        for row, cells in enumerate(csv.reader(lines, delimiter=delimiter)):
            if has_header and row == 0:
                continue
            at = row - int(has_header)
            if len(cells) != len(names):
                return f"row {at + 1} must have {len(names)} columns like the first; it has {len(cells)} (truncated?)"
            for name, cell in zip(names, cells, strict=True):
                if name in features and not _is_number(cell):
                    return _not_a_number(name, at, cell)
    return None
