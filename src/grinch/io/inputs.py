"""Points of any kind that a user hands in, as rows on disk."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch.errors import ShardError, cause_of
from grinch.estimators.checks import check_columns, check_kind, check_not_records, check_records, check_values
from grinch.io.parquet import asked_columns, default_columns
from grinch.io.points import FileError, float_type
from grinch.io.rows import (
    ArrayRows,
    Rows,
    SparseRows,
    is_written,
    memmap_rows,
    npy_rows,
    parquet_rows,
    record_rows,
    rows_per_piece,
    sparse_rows,
    written_file,
)
from grinch.io.write import digest, replacing

if TYPE_CHECKING:
    from grinch.running import Workers

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


Blocks = Iterator[npt.NDArray[Any]]


def matrix_rows(X: Any, folder: Path, columns: Sequence[str] | str | None) -> ArrayRows | SparseRows:
    """The rows of an array, a sparse matrix or a frame, in files that have their digest for a name."""
    if scipy.sparse.issparse(X) and columns is None:
        check_kind(X)
        return sparse_rows(X, folder)
    matrix = _as_matrix(X, columns)
    n_rows, width = matrix.shape
    if not n_rows or not width:
        raise ValueError(f"X must have at least one row and one column; got {n_rows} rows and {width} columns")
    dtype = float_type(matrix.dtype)
    stamp = _digest(matrix, dtype)
    path = folder / f"{stamp}.npy"
    if not is_written(path):
        check_room(folder, n_rows * width * dtype.itemsize)
        with replacing(path, "wb") as file:
            write_header(file, (n_rows, width), dtype)
            for block in _blocks(matrix, dtype):
                file.write(block.data)
    return ArrayRows((written_file(path)[0],), width, stamp, checked=True)


def write_header(file: IO[bytes], shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    """The beginning of an .npy file."""
    np.lib.format.write_array_header_1_0(file, {"descr": dtype.str, "fortran_order": False, "shape": shape})


def check_room(folder: Path, needed: int) -> None:
    """Refuse before it is begun what does not fit on the disk."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"folder must have room for X: it takes {needed:,} bytes, and {free:,} are free in {str(folder)!r}."
            " Choose another folder"
        )


def _as_matrix(X: Any, columns: Sequence[str] | str | None) -> Any:
    check_kind(X)
    if is_frame(X):
        return frame_matrix(X, frame_columns(X, columns))
    if columns is not None:
        raise ValueError(f"columns are of Parquet files and data frames; X is {type(X).__name__} and has none")
    try:
        rows = np.asarray(X)
        rows = rows.astype(np.float64) if rows.dtype == object else rows
    except (TypeError, ValueError):
        check_columns(X)
        check_not_records(X)
        raise
    check_not_records(rows)
    check_kind(rows)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise ValueError(
            f"X must be a matrix of real numbers (points x features); got shape {rows.shape} of {rows.dtype}."
            " Use X.reshape(-1, 1) if it is a single feature"
        )
    return rows


def _digest(matrix: Any, dtype: np.dtype[Any]) -> str:
    """Of shape, type and all numbers, which are checked on the way."""
    found = hashlib.blake2b(f"{matrix.shape} {dtype.str}".encode(), digest_size=16)
    row = 0
    for block in _blocks(matrix, dtype):
        check_values(block, row)
        found.update(block.data)
        row += len(block)
    return found.hexdigest()


def _blocks(matrix: Any, dtype: np.dtype[Any]) -> Blocks:
    n_rows, width = matrix.shape
    step = rows_per_piece(width)
    for start in range(0, n_rows, step):
        block = matrix[start : start + step]
        yield np.ascontiguousarray(block, dtype=dtype)


if TYPE_CHECKING:
    from grinch.running import Workers

STAGE = "input"


def is_dask(X: Any) -> bool:
    """Whether it is a collection of dask."""
    return hasattr(X, "__dask_graph__")


def dask_rows(X: Any, folder: Path, columns: Sequence[str] | str | None, workers: Workers | None) -> ArrayRows:
    """The rows of the blocks in order. A block that is on disk from an earlier run is not computed again."""
    from dask.base import tokenize

    blocks = _delayed_blocks(X, columns)
    stamp = digest(tokenize(X, columns))
    place = folder / stamp
    place.mkdir(exist_ok=True)
    paths = [place / f"block-{number:05d}.npy" for number in range(len(blocks))]
    missing = {path: block for path, block in zip(paths, blocks, strict=True) if not is_written(path)}
    if missing:
        _write_all(missing, columns, workers, folder)
    return _joined(paths, stamp)


def _delayed_blocks(X: Any, columns: Any) -> list[Any]:
    """One for each range of rows, however many those are."""
    if hasattr(X, "chunks") and getattr(X, "ndim", 0) == 2:
        if columns is not None:
            raise ValueError("columns are of Parquet files and data frames; X is a dask array and has none")
        whole_rows = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
        return list(whole_rows.to_delayed().ravel())
    if hasattr(X, "npartitions") and hasattr(X, "columns"):
        return list(X.to_delayed())
    raise ValueError(
        f"X must be a dask array with two dimensions, or a dask dataframe; got {type(X).__name__}"
        f" with {getattr(X, 'ndim', 'no')} dimensions"
    )


def _write_all(missing: dict[Path, Any], columns: Any, workers: Workers | None, folder: Path) -> None:
    import dask

    run = secrets.token_hex(4)
    write = dask.delayed(write_block, pure=False)
    # Together, so that what blocks have in common is computed once.
    tasks = {
        path: write(block, str(path), columns, dask_key_name=f"{STAGE}-{path.stem}-{run}")
        for path, block in missing.items()
    }
    if workers is None:
        dask.compute(*tasks.values())
        return
    futures = dict(zip(workers.client.compute(list(tasks.values())), tasks, strict=True))
    try:
        _wait(futures, folder)
    finally:
        workers.client.cancel(list(futures))


def _wait(futures: dict[Any, Path], folder: Path) -> None:
    from distributed import as_completed

    for future in as_completed(futures):
        try:
            future.result()
        except Exception as error:
            raise ShardError(STAGE, futures[future].stem, cause_of(error), str(folder)) from error


def write_block(block: Any, path: str, columns: Any) -> int:
    """Write the rows of a block as .npy, when they are known to be finite; the value is their number."""
    if is_frame(block):
        rows = frame_matrix(block, frame_columns(block, columns)) if len(block) else np.empty((0, 0), np.float32)
    else:
        rows = block.toarray() if scipy.sparse.issparse(block) else np.asarray(block)
    rows = np.ascontiguousarray(rows, dtype=float_type(rows.dtype))
    check_values(rows, 0, f" of {Path(path).stem}")
    with replacing(path, "wb") as file:
        write_header(file, rows.shape, rows.dtype)
        file.write(rows.data if rows.size else b"")
    return len(rows)


def _joined(paths: Sequence[Path], stamp: str) -> ArrayRows:
    """The blocks that have rows; all must be equally wide."""
    found = [(path, *written_file(path)) for path in paths]
    full = [(path, file, width) for path, file, width in found if file.n_rows]
    if not full:
        raise ValueError(f"X must have at least one row; all of its {len(paths)} blocks are empty")
    first, _, n_features = full[0]
    for path, _, width in full:
        if width != n_features:
            raise FileError(
                f"X must be equally wide everywhere; {path.stem} has {width} columns, and {first.stem} {n_features}"
            )
    return ArrayRows(tuple(file for _, file, _ in full), n_features, stamp, checked=True)


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
