"""Points of any kind that a user hands in, as rows on disk that every worker reads for itself."""

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
from grinch.io.parquet import choose_names
from grinch.io.points import FileError, float_type
from grinch.io.rows import (
    ArrayRows,
    Rows,
    SparseRows,
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
STAGE = "input"
# Names that pyarrow, pandas and polars give to some types of numbers.
NUMBERS = {"boolean": "bool", "float": "float32", "halffloat": "float16", "double": "float64"}


def open_rows(
    X: Any,
    folder: str | Path,
    *,
    columns: Sequence[str] | str | None = None,
    records: bool | None = None,
    workers: Workers | None = None,
) -> Rows:
    """Open points of any kind as rows that every worker reads for itself.

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
        The workers that compute the blocks of a dask array or dataframe.

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
    if hasattr(X, "__dask_graph__") and not records:
        return _dask_rows(X, place, columns, workers)
    if records or (records is None and _looks_like_records(X)):
        return record_rows(check_records(X, "one of your own"), place)
    mapped = memmap_rows(X) if isinstance(X, np.memmap) and columns is None else None
    return mapped or _matrix_rows(X, place, columns)


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


# Files ----------------------------------------------------------------------------------------------------------------


def _are_paths(X: Any) -> bool:
    """Return whether X is a path, or a list of paths; texts are taken for paths only if all of them end like one."""
    if isinstance(X, (str, os.PathLike)):
        return True
    if not isinstance(X, (list, tuple)) or not X:
        return False
    return all(isinstance(path, os.PathLike) or (isinstance(path, str) and path.endswith(SUFFIXES)) for path in X)


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
    _check_no_columns(columns, ".npy files have none")
    return npy_rows(paths)


def _check_no_columns(columns: Any, why: str) -> None:
    if columns is not None:
        raise ValueError(f"columns are of Parquet files and data frames; {why}")


def found_paths(X: str | os.PathLike[str]) -> list[Path]:
    """Return the file, those of a folder and the folders in it, or those that a pattern matches."""
    path = Path(X)
    if path.is_dir():
        found = [
            file
            for suffix in SUFFIXES
            for file in path.rglob(f"*{suffix}")
            # Left behind by other tools: halves of files, and what they know of the others.
            if not any(part[0] in "._" for part in file.relative_to(path).parts)
        ]
        missing = f"X: there is no .parquet and no .npy file in folder {str(path)!r}"
    elif not path.exists() and glob.has_magic(str(path)):
        found = [Path(name) for name in glob.glob(str(path), recursive=True)]
        missing = f"X: no file matches {str(path)!r}"
    else:
        return [path]
    if not found:
        raise FileError(missing)
    return sorted(found, key=_by_number)


def _by_number(path: Path) -> list[tuple[str, int]]:
    """Sort part-2 before part-10."""
    parts = re.split(r"(\d+)", str(path))
    return [(text, int(number or 0)) for text, number in zip(parts[::2], [*parts[1::2], ""], strict=True)]


# Points in memory, written once ---------------------------------------------------------------------------------------


def _matrix_rows(X: Any, folder: Path, columns: Sequence[str] | str | None) -> ArrayRows | SparseRows:
    """Write the rows of an array, a sparse matrix or a frame to files that have their digest for a name."""
    check_kind(X)
    if scipy.sparse.issparse(X) and columns is None:
        return sparse_rows(X, folder)
    matrix = _as_matrix(X, columns)
    n_rows, width = matrix.shape
    if not n_rows or not width:
        raise ValueError(f"X must have at least one row and one column; got {n_rows} rows and {width} columns")
    dtype = float_type(matrix.dtype)
    stamp = _digest(matrix, dtype)
    path = folder / f"{stamp}.npy"
    if written_file(path) is None:
        check_room(folder, n_rows * width * dtype.itemsize)
        with replacing(path, "wb") as file:
            write_header(file, (n_rows, width), dtype)
            for block in _blocks(matrix, dtype):
                file.write(block.data)
    return _joined([path], stamp)


def write_header(file: IO[bytes], shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    """Write the beginning of an .npy file."""
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
    if _is_frame(X):
        return _frame_matrix(X, columns)
    _check_no_columns(columns, f"X is {type(X).__name__} and has none")
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
    """Return a digest of shape, type and all numbers, which are checked on the way."""
    found = hashlib.blake2b(f"{matrix.shape} {dtype.str}".encode(), digest_size=16)
    row = 0
    for block in _blocks(matrix, dtype):
        check_values(block, row)
        found.update(block.data)
        row += len(block)
    return found.hexdigest()


def _blocks(matrix: Any, dtype: np.dtype[Any]) -> Iterator[npt.NDArray[Any]]:
    n_rows, width = matrix.shape
    step = rows_per_piece(width)
    for start in range(0, n_rows, step):
        yield np.ascontiguousarray(matrix[start : start + step], dtype=dtype)


# Frames of pandas and polars ------------------------------------------------------------------------------------------


def _is_frame(X: Any) -> bool:
    """Return whether X is a data frame: one of pandas or polars, or a part of one of dask."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "shape")


def _frame_matrix(frame: Any, columns: Sequence[str] | str | None) -> npt.NDArray[Any]:
    """Return the values of the columns asked for, all of numbers, or the only one of lists; NaN if missing."""
    kinds = {name: _number_type(frame[name]) for name in frame.columns}
    numbers = [name for name, kind in kinds.items() if kind is not None]
    wanted = kinds if columns is None else [columns] if isinstance(columns, str) else columns
    lists = [name for name, kind in kinds.items() if kind is None and name in wanted and _is_of_lists(frame[name])]
    names = choose_names(kinds, numbers, lists, columns, "X")
    if len(names) == 1 and names[0] in lists:
        return _stacked(frame[names[0]].to_list(), names[0])
    chosen = frame[list(names)]
    try:
        types = {name: float_type(kinds[name] or "float64") for name in names}
        values = [_values(chosen[name], types[name]) for name in names]
    except (TypeError, ValueError):
        check_columns(chosen)
        raise
    return np.column_stack(values).astype(float_type(*types.values()), copy=False)


def _stacked(lists: list[Any], name: Any) -> npt.NDArray[Any]:
    for row, values in enumerate(lists):
        if values is None or len(values) != len(lists[0]):
            raise ValueError(
                f"X must have lists of equal length; column {name!r} has"
                f" {'none' if values is None else len(values)} in row {row}, and {len(lists[0])} numbers in the first"
            )
    rows = np.array(lists)
    return rows.astype(float_type(rows.dtype), copy=False)


def _is_of_lists(column: Any) -> bool:
    kind = str(column.dtype).lower()
    if kind != "object":
        return kind.startswith(("list", "array", "large_list", "fixed_size_list"))
    return isinstance(next((value for value in column.to_list() if value is not None), None), (list, tuple, np.ndarray))


def _number_type(column: Any) -> str | None:
    """Return numpy's name of the numbers of a column: of Int16, ``double[pyarrow]``, Decimal; None if it has none."""
    kind = re.split(r"[\[(]", str(column.dtype).lower())[0]
    if kind.startswith("decimal"):
        return "float64"
    kind = NUMBERS.get(kind, kind)
    return kind if re.fullmatch(r"u?int\d+|float\d+|bool", kind) else None


def _values(column: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if hasattr(column, "null_count"):
        return np.asarray(column.cast(float).to_numpy())
    return np.asarray(column.to_numpy(dtype=dtype, na_value=np.nan))


# Arrays and frames of dask: each block is written by the worker that has it -------------------------------------------


def _dask_rows(X: Any, folder: Path, columns: Sequence[str] | str | None, workers: Workers | None) -> ArrayRows:
    """Write the blocks in order. A block that is on disk from an earlier run is not computed again."""
    from dask.base import tokenize

    blocks = _delayed_blocks(X, columns)
    stamp = digest(tokenize(X, columns))
    place = folder / stamp
    place.mkdir(exist_ok=True)
    paths = [place / f"block-{number:05d}.npy" for number in range(len(blocks))]
    missing = {path: block for path, block in zip(paths, blocks, strict=True) if written_file(path) is None}
    if missing:
        _write_all(missing, columns, workers, folder)
    return _joined(paths, stamp)


def _delayed_blocks(X: Any, columns: Any) -> list[Any]:
    """Return one for each range of rows, whatever their number."""
    if hasattr(X, "chunks") and getattr(X, "ndim", 0) == 2:
        _check_no_columns(columns, "X is a dask array and has none")
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
    from distributed import as_completed

    futures = dict(zip(workers.client.compute(list(tasks.values())), tasks, strict=True))
    try:
        for future in as_completed(futures):
            try:
                future.result()
            except Exception as error:
                raise ShardError(STAGE, futures[future].stem, cause_of(error), str(folder)) from error
    finally:
        workers.client.cancel(list(futures))


def write_block(block: Any, path: str, columns: Any) -> int:
    """Write the rows of a block as .npy, when they are known to be finite; return their number."""
    if _is_frame(block):
        rows = _frame_matrix(block, columns) if len(block) else np.empty((0, 0), np.float32)
    else:
        rows = block.toarray() if scipy.sparse.issparse(block) else np.asarray(block)
    rows = np.ascontiguousarray(rows, dtype=float_type(rows.dtype))
    check_values(rows, 0, f" of {Path(path).stem}")
    with replacing(path, "wb") as file:
        write_header(file, rows.shape, rows.dtype)
        file.write(rows.data if rows.size else b"")
    return len(rows)


def _joined(paths: Sequence[Path], stamp: str) -> ArrayRows:
    """Open the blocks that have rows; all must be equally wide."""
    found = {path: written for path in paths if (written := written_file(path)) is not None}
    full = {path: (file, width) for path, (file, width) in found.items() if file.n_rows}
    if not full:
        raise ValueError(f"X must have at least one row; all of its {len(paths)} blocks are empty")
    first, (_, n_features) = next(iter(full.items()))
    for path, (_, width) in full.items():
        if width != n_features:
            raise FileError(
                f"X must be equally wide everywhere; {path.stem} has {width} columns, and {first.stem} {n_features}"
            )
    return ArrayRows(tuple(file for file, _ in full.values()), n_features, stamp, checked=True)
