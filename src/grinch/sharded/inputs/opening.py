"""What can be handed in as points, and which reader it goes to."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grinch.estimators.checks import check_records
from grinch.files.points import FileError
from grinch.sharded.inputs.arrays import memmap_rows, npy_rows
from grinch.sharded.inputs.blocks import dask_rows, is_dask
from grinch.sharded.inputs.memory import matrix_rows
from grinch.sharded.inputs.parquet import parquet_rows
from grinch.sharded.inputs.records import record_rows
from grinch.sharded.inputs.rows import Rows

if TYPE_CHECKING:
    from grinch.sharded.running import Workers

SUFFIXES = (".parquet", ".npy")


def open_rows(
    X: Any,
    folder: str | Path,
    *,
    columns: Sequence[str] | str | None = None,
    records: bool | None = None,
    workers: Workers | None = None,
) -> Rows:
    """Points of any kind as rows that every worker reads for itself.

    Parameters
    ----------
    X : array, sparse matrix, memory map, frame, dask array or dataframe, path or paths, or list of records
        Paths are of .npy or Parquet files: one, a list in its order, or a folder or a glob such as
        ``"part-*.parquet"`` in the order of names, with numbers by value. What is in files is read where it is.
    folder : path
        What is handed in is written here once, under ``input``, and found again when it comes again.
    columns : str or list of str, optional
        Of Parquet files and frames: the columns of numbers, or one of lists of numbers. By default all of numbers, or
        the only one of lists.
    records : bool, optional
        Whether the members of a list are records rather than rows of numbers; by default, unless they are numbers.
    workers : Workers, optional
        Who computes the blocks of a dask array or dataframe.

    Examples
    --------
    >>> import tempfile
    >>> rows = open_rows(np.eye(3), tempfile.mkdtemp())
    >>> rows.n_rows, rows.n_features, rows.pieces
    (3, 3, [(0, 3)])
    >>> rows.take(np.array([1, 2]))
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    if not records and _are_paths(X):
        return _from_files(X, columns)
    place = Path(folder) / "input"
    place.mkdir(parents=True, exist_ok=True)
    if is_dask(X) and not records:
        return dask_rows(X, place, columns, workers)
    if records or (records is None and _looks_like_records(X)):
        return record_rows(check_records(X, "one of your own"), place)
    mapped = memmap_rows(X) if isinstance(X, np.memmap) and columns is None else None
    return mapped or matrix_rows(X, place, columns)


def _are_paths(X: Any) -> bool:
    """A path, or a list of nothing else; texts are taken for paths only if all of them end like one."""
    if isinstance(X, (str, os.PathLike)):
        return True
    if not isinstance(X, (list, tuple)) or not X:
        return False
    return all(isinstance(path, os.PathLike) or (isinstance(path, str) and path.endswith(SUFFIXES)) for path in X)


def _looks_like_records(X: Any) -> bool:
    if isinstance(X, np.ndarray) and X.dtype == object:
        return X.ndim == 1
    if not isinstance(X, (list, tuple)) or not len(X):
        return False
    if not isinstance(X[0], (list, tuple, np.ndarray)):
        return True
    try:
        return np.asarray(X).dtype.kind not in "fiub"
    except ValueError:
        return True  # of different lengths


def _from_files(X: Any, columns: Sequence[str] | str | None) -> Rows:
    paths = found_paths(X) if isinstance(X, (str, os.PathLike)) else [Path(path) for path in X]
    for path in paths:
        if not path.is_file():
            raise FileError(f"X: there is no file {str(path)!r}")
    suffixes = {path.suffix.lower() for path in paths}
    if len(suffixes) > 1 or not suffixes <= set(SUFFIXES):
        got = ", ".join(sorted(repr(path.name) for path in paths)[:5])
        raise FileError(f"X must be files that all end in .parquet or all in .npy; got {got}")
    if suffixes == {".parquet"}:
        return parquet_rows(paths, columns)
    if columns is not None:
        raise ValueError("columns are of Parquet files and data frames; .npy files have none")
    return npy_rows(paths)


def found_paths(X: str | os.PathLike[str]) -> list[Path]:
    """The file, those of a folder and the folders in it, or those that a pattern matches."""
    path = Path(X)
    if path.is_dir():
        found = [
            file
            for suffix in SUFFIXES
            for file in path.rglob(f"*{suffix}")
            # Left behind by other tools: halves of files, and what they know of the others.
            if not any(part[0] in "._" for part in file.relative_to(path).parts)
        ]
        if not found:
            raise FileError(f"X: there is no .parquet and no .npy file in folder {str(path)!r}")
        return sorted(found, key=_by_number)
    if not path.exists() and glob.has_magic(str(path)):
        found = [Path(name) for name in glob.glob(str(path), recursive=True)]
        if not found:
            raise FileError(f"X: no file matches {str(path)!r}")
        return sorted(found, key=_by_number)
    return [path]


def _by_number(path: Path) -> list[tuple[str, int]]:
    """part-2 before part-10."""
    parts = re.split(r"(\d+)", str(path))
    return [(text, int(number or 0)) for text, number in zip(parts[::2], [*parts[1::2], ""], strict=True)]
