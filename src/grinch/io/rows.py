"""Points on disk that are read piece by piece: arrays, sparse matrices, Parquet files and records."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch.errors import missing_extra
from grinch.estimators.checks import check_values, in_order
from grinch.estimators.sparse_checks import checked_csr
from grinch.io.arrays import read_header
from grinch.io.parquet import (
    Columns,
    choose_columns,
    fill_from_columns,
    fill_from_lists,
    list_width,
)
from grinch.io.points import FileError, float_type
from grinch.io.read import read_points
from grinch.io.write import digest, replacing

# A piece is read in one go; of float32.
PIECE_BYTES = 32 * 2**20

Pieces = list[tuple[int, int]]


class Rows(Protocol):
    """Points on disk. Small, so that it goes to every worker."""

    @property
    def n_rows(self) -> int:
        """The number of points."""

    @property
    def n_features(self) -> int:
        """The number of columns; 0 for records."""

    @property
    def pieces(self) -> Pieces:
        """First row and the row after the last of what is read in one go, in order."""

    @property
    def stamp(self) -> str:
        """The same for the same content, as far as can be told without reading all of it."""

    def read(self, piece: int) -> Any:
        """The rows of a piece: a matrix of float32 or float64, all of them finite, or a list of records."""

    def take(self, rows: npt.NDArray[np.int64]) -> Any:
        """These rows, in ascending order."""


def rows_per_piece(n_features: int) -> int:
    """As many rows as a piece may have."""
    return max(1, PIECE_BYTES // (4 * n_features))


def cut_into_pieces(lengths: Iterable[int], longest: int) -> Pieces:
    """Pieces of parts that follow each other; no piece is in two parts.

    >>> cut_into_pieces([5, 2], 3)
    [(0, 3), (3, 5), (5, 7)]
    """
    pieces, start = [], 0
    for length in lengths:
        stop = start + length
        pieces += [(first, min(first + longest, stop)) for first in range(start, stop, longest)]
        start = stop
    return pieces


def by_piece(
    pieces: Pieces, rows: npt.NDArray[np.int64], take: Callable[[int, npt.NDArray[np.int64]], Any]
) -> list[Any]:
    """What ``take`` returns for each piece that has some of the rows; it is given their positions in the piece."""
    wanted = np.asarray(rows, dtype=np.int64)
    n_rows = pieces[-1][1] if pieces else 0
    if len(wanted) and (wanted[0] < 0 or wanted[-1] >= n_rows or (np.diff(wanted) < 0).any()):
        raise ValueError(f"rows must be in ascending order, from 0 to {n_rows - 1}; got {wanted!r:.80}")
    starts = np.array([start for start, _ in pieces])
    bounds = np.searchsorted(wanted, [*starts, n_rows])
    return [
        take(piece, wanted[bounds[piece] : bounds[piece + 1]] - starts[piece])
        for piece in np.flatnonzero(np.diff(bounds)).tolist()
    ]


def stamp_of_files(paths: Iterable[str | Path], *more: object) -> str:
    """By path, size and time of the last change of each; ``more`` is what else is to be the same."""
    files = [(os.fspath(path), (state := os.stat(path)).st_size, state.st_mtime_ns) for path in paths]
    return digest(json.dumps([files, [repr(thing) for thing in more]]))


class ArrayFile(NamedTuple):
    """A matrix in a file."""

    path: str
    n_rows: int
    dtype: str
    offset: int
    by_column: bool
    """Whether numbers of a column, not of a row, lie side by side."""


@dataclass(frozen=True)
class ArrayRows:
    """The rows of one matrix after the other."""

    files: tuple[ArrayFile, ...]
    n_features: int
    stamp: str
    checked: bool = False
    """Whether the numbers are known to be finite."""

    @property
    def n_rows(self) -> int:
        """The number of points."""
        return sum(file.n_rows for file in self.files)

    @cached_property
    def pieces(self) -> Pieces:
        """First row and the row after the last of what is read in one go."""
        return cut_into_pieces((file.n_rows for file in self.files), rows_per_piece(self.n_features))

    def read(self, piece: int) -> npt.NDArray[Any]:
        """The rows of a piece."""
        start, stop = self.pieces[piece]
        return self._copy(start, slice(0, stop - start))

    def take(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """These rows, in ascending order."""
        parts = by_piece(self.pieces, rows, lambda piece, inside: self._copy(self.pieces[piece][0], inside))
        return np.concatenate(parts) if parts else np.empty((0, self.n_features), self._dtype)

    @property
    def _dtype(self) -> np.dtype[Any]:
        return float_type(*{file.dtype for file in self.files})

    def _copy(self, start: int, inside: slice | npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Some rows from ``start`` on. The file is mapped only for this, since its pages count as the process's."""
        number = int(np.searchsorted(self._first_rows, start, side="right")) - 1
        file, first = self.files[number], start - int(self._first_rows[number])
        shape = (file.n_rows, self.n_features)
        whole = np.memmap(file.path, file.dtype, "r", file.offset, shape, "F" if file.by_column else "C")
        where = slice(first, first + inside.stop) if isinstance(inside, slice) else first + inside
        found = np.array(np.asarray(whole)[where], dtype=self._dtype, order="C")
        if not self.checked:
            _check(found, first, inside, file)
        return found

    @cached_property
    def _first_rows(self) -> npt.NDArray[np.int64]:
        return np.cumsum([0, *(file.n_rows for file in self.files[:-1])])


def _check(found: npt.NDArray[Any], first: int, inside: slice | npt.NDArray[np.int64], file: ArrayFile) -> None:
    where = f" of file {file.path!r}"
    if isinstance(inside, slice):
        check_values(found, first, where)
        return
    try:
        check_values(found)
    except ValueError:
        for row, values in zip(inside.tolist(), found, strict=True):
            check_values(values[None], first + row, where)


def npy_rows(paths: Sequence[Path]) -> ArrayRows:
    """The rows of .npy files, which must be equally wide."""
    files: list[ArrayFile] = []
    width = 0
    for path in paths:
        rows = read_points(path).vectors
        width = width or rows.shape[1]
        if rows.shape[1] != width:
            raise FileError(
                f"X must be files of equal width; {str(path)!r} has {rows.shape[1]} columns, and"
                f" {str(paths[0])!r} has {width}"
            )
        files.append(_mapped(rows, path.resolve()))
    return ArrayRows(tuple(files), width, stamp_of_files(path.resolve() for path in paths))


def memmap_rows(rows: np.memmap[Any, Any]) -> ArrayRows | None:
    """The rows of a memory map as they are in its file; None if what is in memory may differ from that."""
    base: object = rows.base
    # A part of a memory map is one too, with the place of the whole.
    is_whole = isinstance(base, mmap.mmap) and (rows.flags.c_contiguous or rows.flags.f_contiguous)
    if rows.filename is None or not is_whole or rows.mode == "c" or rows.ndim != 2 or not rows.size:
        return None
    if rows.mode != "r":
        rows.flush()
    file = _mapped(rows, Path(rows.filename).resolve())
    return ArrayRows((file,), rows.shape[1], stamp_of_files([file.path], file, rows.shape[1]))


def _mapped(rows: Any, path: Path) -> ArrayFile:
    return ArrayFile(str(path), rows.shape[0], rows.dtype.str, rows.offset, not rows.flags.c_contiguous)


def written_file(path: Path) -> tuple[ArrayFile, int]:
    """A matrix that was written here, which may have no rows, and its width."""
    with open(path, "rb") as file:
        header = read_header(path.name, file, path.stat().st_size)
        n_rows, width = header.shape
        return ArrayFile(str(path.resolve()), n_rows, header.dtype.str, file.tell(), False), width


def is_written(path: Path) -> bool:
    """Whether such a matrix is there, and whole."""
    try:
        written_file(path)
    except (OSError, ValueError):
        return False
    return True


PARTS = ("ends", "columns", "values")


@dataclass(frozen=True)
class SparseRows:
    """The rows of a CSR matrix in three files."""

    path: str
    n_rows: int
    n_features: int
    n_entries: int
    stamp: str

    @cached_property
    def pieces(self) -> Pieces:
        """First row and the row after the last of what is read in one go."""
        longest = max(1, PIECE_BYTES * self.n_rows // (8 * max(self.n_entries, 1)))
        return cut_into_pieces([self.n_rows], longest)

    def read(self, piece: int) -> Any:
        """The rows of a piece."""
        start, stop = self.pieces[piece]
        ends, columns, values = (np.load(_file(Path(self.path), part), mmap_mode="r") for part in PARTS)
        indptr = np.array(ends[start : stop + 1])
        here = slice(int(indptr[0]), int(indptr[-1]))
        parts = np.array(values[here]), np.array(columns[here]), indptr - indptr[0]
        return scipy.sparse.csr_matrix(parts, shape=(stop - start, self.n_features))

    def take(self, rows: npt.NDArray[np.int64]) -> Any:
        """These rows, in ascending order."""
        parts = by_piece(self.pieces, rows, lambda piece, inside: self.read(piece)[inside])
        return scipy.sparse.vstack(parts, format="csr") if parts else self.read(0)[:0]


def sparse_rows(X: Any, folder: Path) -> SparseRows:
    """The rows of a sparse matrix in files that have their digest for a name."""
    rows = in_order(checked_csr(X))
    if not rows.shape[0] or not rows.shape[1]:
        raise ValueError(f"X must have at least one row and one column; got {rows.shape[0]} and {rows.shape[1]}")
    check_values(rows)
    arrays = rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(float_type(rows.dtype))
    found = hashlib.blake2b(f"sparse {rows.shape}".encode(), digest_size=16)
    for array in arrays:
        found.update(np.ascontiguousarray(array).data)
    path = folder / found.hexdigest()
    for part, array in zip(PARTS, arrays, strict=True):
        if not _file(path, part).exists():
            with replacing(_file(path, part), "wb") as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    n_rows, n_features = rows.shape
    return SparseRows(str(path), int(n_rows), int(n_features), int(rows.nnz), found.hexdigest())


def _file(path: Path, part: str) -> Path:
    return path.with_name(f"{path.name}.{part}.npy")


# A row group is decoded from its beginning: one that is cut into too many pieces is read too often, and pieces that are
# too large take too much memory.
MOST_CUTS, LARGEST_CUT = 8, 4 * PIECE_BYTES
# Rows are decoded in batches of about this many bytes.
BATCH_BYTES = 4 * 2**20
# A column that is being read takes some MB, of pages and values that repeat.
COLUMNS_AT_A_TIME = 64


class Part(NamedTuple):
    """Rows of a file that are read in one go: row groups from ``first`` to ``last``, or a part of one."""

    file: int
    first: int
    last: int
    skip: int
    """Rows of the first group that come before."""
    n_rows: int


@dataclass(frozen=True)
class ParquetRows:
    """The rows of one Parquet file after the other."""

    paths: tuple[str, ...]
    parts: tuple[Part, ...]
    columns: Columns
    n_features: int
    stamp: str

    @property
    def n_rows(self) -> int:
        """The number of points."""
        return sum(part.n_rows for part in self.parts)

    @cached_property
    def pieces(self) -> Pieces:
        """First row and the row after the last of what is read in one go."""
        stops = np.cumsum([part.n_rows for part in self.parts]).tolist()
        return list(zip([0, *stops], stops, strict=False))

    def read(self, piece: int) -> npt.NDArray[Any]:
        """The rows of a piece."""
        part = self.parts[piece]
        rows = np.empty((part.n_rows, self.n_features), self.columns.dtype)
        path, row = self.paths[part.file], self.pieces[piece][0] - self._first_rows[part.file]
        for left in range(0, len(self.columns.names), COLUMNS_AT_A_TIME):
            names = self.columns.names[left : left + COLUMNS_AT_A_TIME]
            where = slice(None) if self.columns.is_list else slice(left, left + len(names))
            self._fill(rows[:, where], part, names, row)
        check_values(rows, row, f" of file {path!r}")
        return rows

    def take(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """These rows, in ascending order. Every piece that has one of them is read."""
        parts = by_piece(self.pieces, rows, lambda piece, inside: self.read(piece)[inside])
        return np.concatenate(parts) if parts else np.empty((0, self.n_features), self.columns.dtype)

    def _fill(self, rows: npt.NDArray[Any], part: Part, names: tuple[str, ...], row: int) -> None:
        """Put the values of some columns where they belong."""
        done = 0
        for batch in self._batches(part, names):
            target = rows[done : done + batch.num_rows]
            if self.columns.is_list:
                fill_from_lists(target, batch, names[0], self.paths[part.file], row + done)
            else:
                fill_from_columns(target, batch, names, self.paths[part.file], row + done)
            done += batch.num_rows

    def _batches(self, part: Part, names: tuple[str, ...]) -> Iterator[Any]:
        """The rows of a part, in batches."""
        size = min(max(1, BATCH_BYTES // (4 * self.n_features)), part.n_rows)
        before, left = part.skip, part.n_rows
        with open_parquet(self.paths[part.file]) as file:
            groups = range(part.first, part.last + 1)
            for batch in file.iter_batches(size, groups, list(names), use_threads=False):
                rows = batch.slice(before, left)
                before, left = max(0, before - batch.num_rows), left - rows.num_rows
                if rows.num_rows:
                    yield rows
                if not left:
                    return

    @cached_property
    def _first_rows(self) -> list[int]:
        """The number of the first row of each file."""
        counts = np.zeros(len(self.paths) + 1, dtype=np.int64)
        for part in self.parts:
            counts[part.file + 1] += part.n_rows
        return list(np.cumsum(counts).tolist())


def open_parquet(path: str) -> Any:
    """A Parquet file; its columns are read through small buffers, since there may be many of them."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("reading .parquet", "pyarrow", "parquet") from None
    return pyarrow.parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False)


def parquet_rows(paths: Sequence[Path], columns: Sequence[str] | str | None) -> ParquetRows:
    """The rows of Parquet files with the same columns; only the heads of the files are read."""
    resolved = tuple(str(path.resolve()) for path in paths)
    chosen: Columns | None = None
    n_features, groups = 0, []
    for path in resolved:
        try:
            with open_parquet(path) as file:
                found = choose_columns(file.schema_arrow, columns, path)
                _check_same(found, chosen or found, path, resolved[0])
                chosen = chosen or found
                n_features = n_features or (list_width(file, found) if found.is_list else len(found.names))
                groups.append([file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)])
        except (FileError, ImportError):
            raise
        # Whatever a damaged file makes the reader raise, it is the file that is to blame.
        except Exception as error:
            raise FileError(f"X: {path!r} cannot be read as .parquet (truncated or damaged?): {error}") from error
    if chosen is None or not n_features:
        raise FileError(f"X must have rows; there are none in {resolved[0]!r}" + " and the others" * (len(paths) > 1))
    parts = [part for number, sizes in enumerate(groups) for part in _parts(number, sizes, n_features)]
    return ParquetRows(resolved, tuple(parts), chosen, n_features, stamp_of_files(resolved, chosen))


def _check_same(found: Columns, first: Columns, path: str, first_path: str) -> None:
    if found != first:
        raise FileError(
            f"X must be files with the same columns; those of {path!r} are {found.shown()}, and those of"
            f" {first_path!r} are {first.shown()}"
        )


def _parts(file: int, sizes: list[int], n_features: int) -> list[Part]:
    """Small row groups together, and large ones cut."""
    longest, parts = rows_per_piece(n_features), list[Part]()
    for group, size in enumerate(sizes):
        last = parts[-1] if parts else None
        if not size:
            continue
        if last is not None and last.last == group - 1 and last.skip == 0 and last.n_rows + size <= longest:
            parts[-1] = last._replace(last=group, n_rows=last.n_rows + size)
            continue
        most = max(longest, min(-(-size // MOST_CUTS), LARGEST_CUT // (4 * n_features)))
        parts += [Part(file, group, group, skip, min(most, size - skip)) for skip in range(0, size, most)]
    return parts


# So many of the first records say how large one is.
SAMPLED = 100
MOST_RECORDS = 100_000


@dataclass(frozen=True)
class RecordRows:
    """Records in a file of pickles, one for each piece."""

    path: str
    pieces: Pieces
    offsets: tuple[int, ...]
    stamp: str
    n_features: int = 0

    @property
    def n_rows(self) -> int:
        """The number of records."""
        return self.pieces[-1][1]

    def read(self, piece: int) -> list[Any]:
        """The records of a piece."""
        with open(self.path, "rb") as file:
            file.seek(self.offsets[piece])
            return list(pickle.load(file))

    def take(self, rows: npt.NDArray[np.int64]) -> list[Any]:
        """These records, in ascending order."""

        def some(piece: int, inside: npt.NDArray[np.int64]) -> list[Any]:
            records = self.read(piece)
            return [records[position] for position in inside.tolist()]

        return [record for part in by_piece(self.pieces, rows, some) for record in part]


def record_rows(records: list[Any], folder: Path) -> RecordRows:
    """Records in a file that has their digest for a name."""
    stamp = _digest(records)
    path, index = folder / f"{stamp}.pickles", folder / f"{stamp}.json"
    if not (path.exists() and index.exists()):
        offsets, step = [0], _records_per_piece(records)
        with replacing(path, "wb") as file:
            for start in range(0, len(records), step):
                offsets.append(offsets[-1] + file.write(_pickled(records[start : start + step], start)))
        with replacing(index) as text:
            text.write(json.dumps({"step": step, "offsets": offsets[:-1]}))
    kept = json.loads(index.read_text(encoding="utf-8"))
    pieces = [(start, min(start + kept["step"], len(records))) for start in range(0, len(records), kept["step"])]
    return RecordRows(str(path.resolve()), pieces, tuple(kept["offsets"]), stamp)


def _records_per_piece(records: list[Any]) -> int:
    size = len(_pickled(records[:SAMPLED])) / min(len(records), SAMPLED)
    return max(1, min(MOST_RECORDS, int(PIECE_BYTES / size)))


def _pickled(records: list[Any], first: int = 0) -> bytes:
    """Classes of a script or a notebook go along by what they are, since workers cannot import them."""
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(records)
    try:
        return bytes(cloudpickle.dumps(records))
    except (TypeError, AttributeError, pickle.PicklingError):
        _refuse(records, first)


def _refuse(records: list[Any], first: int) -> NoReturn:
    import cloudpickle

    for position, record in enumerate(records, first):
        try:
            cloudpickle.dumps(record)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise ValueError(
                f"X must hold records that can be pickled to go to workers; number {position}, a"
                f" {type(record).__name__}, cannot: {error}"
            ) from None
    raise ValueError("X must hold records that can be pickled to go to workers; together they cannot")


def _digest(records: list[Any]) -> str:
    found = hashlib.blake2b(str(len(records)).encode(), digest_size=16)
    for content in _contents(records):
        found.update(hashlib.blake2b(content, digest_size=16).digest())
    return found.hexdigest()


def _contents(records: list[Any]) -> Iterator[bytes]:
    """The same bytes for the same record, in every process: not so of pickles, where sets are in any order."""
    for position, record in enumerate(records):
        try:
            yield json.dumps(record, sort_keys=True).encode()
        except (TypeError, ValueError, RecursionError):
            yield _pickled([record], position)
