"""Points on disk that are read piece by piece: arrays, sparse matrices, Parquet files and records."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._checks import taken
from grinch.estimators.checks import check_values, in_order
from grinch.estimators.sparse_checks import checked_csr
from grinch.io.arrays import read_header
from grinch.io.parquet import Columns, choose_columns, fill, list_width, open_parquet
from grinch.io.points import FileError, blaming, float_type
from grinch.io.read import read_points
from grinch.io.write import digest, replacing

# A piece is read in one go; of float32.
PIECE_BYTES = 32 * 2**20
# A row group is decoded from its beginning: one that is cut into too many pieces is read too often, and pieces that are
# too large take too much memory.
MOST_CUTS, LARGEST_CUT = 8, 4 * PIECE_BYTES
# Rows are decoded in batches of about this many bytes.
BATCH_BYTES = 4 * 2**20
# A column that is being read takes some MB, of pages and values that repeat.
COLUMNS_AT_A_TIME = 64
# The first records by which the size of one is estimated, and the most in a piece.
SAMPLED, MOST_RECORDS = 100, 100_000

Pieces = list[tuple[int, int]]


class Rows(ABC):
    """Points on disk. Small, so that it goes to every worker.

    ``n_rows`` is the number of points, ``n_features`` that of columns (0 for records), ``stamp`` the same for the same
    content, as far as can be known without reading all of it. ``pieces`` are first row and the row after the last of
    what is read in one go, in order.
    """

    n_rows: Any
    n_features: Any
    pieces: Any
    stamp: Any

    @abstractmethod
    def read(self, piece: int) -> Any:
        """Return the rows of a piece: a matrix of float32 or float64, all of them finite, or a list of records."""

    def read_some(self, piece: int, inside: npt.NDArray[np.int64]) -> Any:
        """Return the rows at these positions of a piece."""
        return taken(self.read(piece), inside)

    def take(self, rows: npt.NDArray[np.int64]) -> Any:
        """Return these rows, which must be in ascending order."""
        wanted, n_rows = np.asarray(rows, dtype=np.int64), self.n_rows
        if not len(wanted):
            return self.read_some(0, wanted)
        if wanted[0] < 0 or wanted[-1] >= n_rows or (np.diff(wanted) < 0).any():
            raise ValueError(f"rows must be in ascending order, from 0 to {n_rows - 1}; got {wanted!r:.80}")
        starts = np.array([start for start, _ in self.pieces])
        bounds = np.searchsorted(wanted, [*starts, n_rows])
        pieces = np.flatnonzero(np.diff(bounds)).tolist()
        return joined([self.read_some(i, wanted[bounds[i] : bounds[i + 1]] - starts[i]) for i in pieces])


# Rows in memory: a matrix, a sparse matrix, or a list of records ------------------------------------------------------


def joined(parts: Sequence[Any]) -> Any:
    """Return rows one after the other."""
    if not parts:
        return []
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    if scipy.sparse.issparse(parts[0]):
        return scipy.sparse.vstack(parts, format="csr")
    return [record for part in parts for record in part]


def n_bytes(rows: Any) -> int:
    """Return the bytes of rows, as far as they are known."""
    if scipy.sparse.issparse(rows):
        return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)
    return int(rows.nbytes) if isinstance(rows, np.ndarray) else 0


def rows_per_piece(n_features: int) -> int:
    """Return the number of rows that a piece may have."""
    return max(1, PIECE_BYTES // (4 * n_features))


def cut_into_pieces(lengths: Iterable[int], longest: int) -> Pieces:
    """Cut parts that follow each other into pieces; no piece is in two parts.

    >>> cut_into_pieces([5, 2], 3)
    [(0, 3), (3, 5), (5, 7)]
    """
    pieces, start = [], 0
    for length in lengths:
        stop = start + length
        pieces += [(first, min(first + longest, stop)) for first in range(start, stop, longest)]
        start = stop
    return pieces


def stamp_of_files(paths: Iterable[str | Path], *more: object) -> str:
    """Return a digest of path, size and time of the last change of each file, and of ``more``."""
    files = [(os.fspath(path), (state := os.stat(path)).st_size, state.st_mtime_ns) for path in paths]
    return digest(json.dumps([files, [repr(thing) for thing in more]]))


# Arrays ---------------------------------------------------------------------------------------------------------------


class ArrayFile(NamedTuple):
    """A matrix in a file."""

    path: str
    n_rows: int
    dtype: str
    offset: int
    by_column: bool
    """Whether numbers of a column, not of a row, lie side by side."""


@dataclass(frozen=True)
class ArrayRows(Rows):
    """The rows of one matrix after the other, in files where they lie as they do in memory."""

    files: tuple[ArrayFile, ...]
    n_features: int
    stamp: str
    checked: bool = False
    """Whether the numbers are known to be finite."""

    @property
    def n_rows(self) -> int:
        return sum(file.n_rows for file in self.files)

    @cached_property
    def pieces(self) -> Pieces:
        return cut_into_pieces((file.n_rows for file in self.files), rows_per_piece(self.n_features))

    def read(self, piece: int) -> npt.NDArray[Any]:
        start, stop = self.pieces[piece]
        return self._copy(start, slice(0, stop - start))

    def read_some(self, piece: int, inside: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        return self._copy(self.pieces[piece][0], inside)

    def _copy(self, start: int, inside: slice | npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Copy some rows from ``start`` on. The file is mapped for this only, as its pages count as the process's."""
        number = int(np.searchsorted(self._first_rows, start, side="right")) - 1
        file, first = self.files[number], start - int(self._first_rows[number])
        shape = (file.n_rows, self.n_features)
        whole = np.memmap(file.path, file.dtype, "r", file.offset, shape, "F" if file.by_column else "C")
        where = slice(first, first + inside.stop) if isinstance(inside, slice) else first + inside
        dtype = float_type(*{file.dtype for file in self.files})
        rows = np.array(np.asarray(whole)[where], dtype=dtype, order="C")
        if not self.checked:
            self._check(rows, where, f" of file {file.path!r}")
        return rows

    def _check(self, rows: npt.NDArray[Any], numbers: slice | npt.NDArray[np.int64], where: str) -> None:
        if isinstance(numbers, slice):
            check_values(rows, numbers.start, where)
            return
        try:
            check_values(rows)
        except ValueError:
            for number, row in zip(numbers.tolist(), rows, strict=True):
                check_values(row[None], number, where)

    @cached_property
    def _first_rows(self) -> npt.NDArray[np.int64]:
        return np.cumsum([0, *(file.n_rows for file in self.files[:-1])])


def npy_rows(paths: Sequence[Path]) -> ArrayRows:
    """Open the rows of .npy files, which must be equally wide."""
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
    """Open the rows of a memory map as they are in its file; None if what is in memory may differ from that."""
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


def written_file(path: Path) -> tuple[ArrayFile, int] | None:
    """Return a matrix that was written here, which may have no rows, and its width; None if it is not there, whole."""
    try:
        with open(path, "rb") as file:
            header = read_header(f"FILE {path.name!r}", file, path.stat().st_size)
            n_rows, width = header.shape
            return ArrayFile(str(path.resolve()), n_rows, header.dtype.str, file.tell(), False), width
    except (OSError, ValueError):
        return None


# Sparse matrices ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SparseRows(Rows):
    """The rows of a CSR matrix in three files."""

    path: str
    n_rows: int
    n_features: int
    n_entries: int
    stamp: str
    parts: ClassVar = ("ends", "columns", "values")

    @cached_property
    def pieces(self) -> Pieces:
        return cut_into_pieces([self.n_rows], max(1, PIECE_BYTES * self.n_rows // (8 * max(self.n_entries, 1))))

    def read(self, piece: int) -> Any:
        start, stop = self.pieces[piece]
        ends, columns, values = (np.load(_part_path(self.path, part), mmap_mode="r") for part in self.parts)
        indptr = np.array(ends[start : stop + 1])
        here = slice(int(indptr[0]), int(indptr[-1]))
        parts = np.array(values[here]), np.array(columns[here]), indptr - indptr[0]
        return scipy.sparse.csr_matrix(parts, shape=(stop - start, self.n_features))


def sparse_rows(X: Any, folder: Path) -> SparseRows:
    """Write the rows of a sparse matrix to files that have their digest for a name."""
    rows = in_order(checked_csr(X))
    if not rows.shape[0] or not rows.shape[1]:
        raise ValueError(f"X must have at least one row and one column; got {rows.shape[0]} and {rows.shape[1]}")
    check_values(rows)
    arrays = rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(float_type(rows.dtype))
    found = hashlib.blake2b(f"sparse {rows.shape}".encode(), digest_size=16)
    for array in arrays:
        found.update(np.ascontiguousarray(array).data)
    path = str(folder / found.hexdigest())
    for part, array in zip(SparseRows.parts, arrays, strict=True):
        if not os.path.exists(_part_path(path, part)):
            with replacing(_part_path(path, part), "wb") as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    n_rows, n_features = rows.shape
    return SparseRows(path, int(n_rows), int(n_features), int(rows.nnz), found.hexdigest())


def _part_path(path: str, part: str) -> str:
    return f"{path}.{part}.npy"


# Parquet --------------------------------------------------------------------------------------------------------------


class RowGroups(NamedTuple):
    """Rows of a file that are read in one go: row groups from ``first`` to ``last``, or a part of one."""

    file: int
    first: int
    last: int
    skip: int
    """Rows of the first group that come before."""
    n_rows: int


@dataclass(frozen=True)
class ParquetRows(Rows):
    """The rows of one Parquet file after the other."""

    paths: tuple[str, ...]
    parts: tuple[RowGroups, ...]
    columns: Columns
    n_features: int
    stamp: str

    @property
    def n_rows(self) -> int:
        return sum(part.n_rows for part in self.parts)

    @cached_property
    def pieces(self) -> Pieces:
        stops = np.cumsum([part.n_rows for part in self.parts]).tolist()
        return list(zip([0, *stops], stops, strict=False))

    def read(self, piece: int) -> npt.NDArray[Any]:
        part, names, is_list = self.parts[piece], self.columns.names, self.columns.is_list
        rows = np.empty((part.n_rows, self.n_features), self.columns.dtype)
        before = sum(one.n_rows for one in self.parts[:piece] if one.file == part.file)
        path = self.paths[part.file]
        for left in range(0, len(names), COLUMNS_AT_A_TIME):
            some = names[left : left + COLUMNS_AT_A_TIME]
            target = rows if is_list else rows[:, left : left + len(some)]
            fill(target, self._batches(part, some), some, is_list, path, before)
        check_values(rows, before, f" of file {path!r}")
        return rows

    def _batches(self, part: RowGroups, names: tuple[str, ...]) -> Iterator[Any]:
        """Yield the rows of a part, in batches."""
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


def parquet_rows(paths: Sequence[Path], columns: Sequence[str] | str | None) -> ParquetRows:
    """Open the rows of Parquet files with the same columns; only the heads of the files are read."""
    resolved = tuple(str(path.resolve()) for path in paths)
    chosen: Columns | None = None
    n_features, groups = 0, []
    for path in resolved:
        with blaming(path, ".parquet", "X:"), open_parquet(path) as file:
            found = choose_columns(file.schema_arrow, columns, path)
            chosen = chosen or found
            if found != chosen:
                raise FileError(
                    f"X must be files with the same columns; those of {path!r} are {found.shown()}, and those of"
                    f" {resolved[0]!r} are {chosen.shown()}"
                )
            n_features = n_features or (list_width(file, found) if found.is_list else len(found.names))
            groups.append([file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)])
    if chosen is None or not n_features:
        raise FileError(f"X must have rows; there are none in {resolved[0]!r}" + " and the others" * (len(paths) > 1))
    parts = [part for number, sizes in enumerate(groups) for part in _parts(number, sizes, n_features)]
    return ParquetRows(resolved, tuple(parts), chosen, n_features, stamp_of_files(resolved, chosen))


def _parts(file: int, sizes: list[int], n_features: int) -> list[RowGroups]:
    """Put small row groups together, and cut large ones."""
    longest, parts = rows_per_piece(n_features), list[RowGroups]()
    for group, size in enumerate(sizes):
        last = parts[-1] if parts else None
        if not size:
            continue
        if last is not None and last.last == group - 1 and last.skip == 0 and last.n_rows + size <= longest:
            parts[-1] = last._replace(last=group, n_rows=last.n_rows + size)
            continue
        most = max(longest, min(-(-size // MOST_CUTS), LARGEST_CUT // (4 * n_features)))
        parts += [RowGroups(file, group, group, skip, min(most, size - skip)) for skip in range(0, size, most)]
    return parts


# Records --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordRows(Rows):
    """Records of any kind in a file of pickles, one for each piece."""

    path: str
    pieces: Pieces
    offsets: tuple[int, ...]
    stamp: str
    n_features: int = 0

    @property
    def n_rows(self) -> int:
        return self.pieces[-1][1]

    def read(self, piece: int) -> list[Any]:
        with open(self.path, "rb") as file:
            file.seek(self.offsets[piece])
            return list(pickle.load(file))


def record_rows(records: list[Any], folder: Path) -> RecordRows:
    """Write records to a file that has their digest for a name."""
    stamp = _digest(records)
    path, index = folder / f"{stamp}.pickles", folder / f"{stamp}.json"
    if not (path.exists() and index.exists()):
        size = len(_pickled(records[:SAMPLED])) / min(len(records), SAMPLED)
        offsets, step = [0], max(1, min(MOST_RECORDS, int(PIECE_BYTES / size)))
        with replacing(path, "wb") as file:
            for start in range(0, len(records), step):
                offsets.append(offsets[-1] + file.write(_pickled(records[start : start + step], start)))
        with replacing(index) as text:
            text.write(json.dumps({"step": step, "offsets": offsets[:-1]}))
    kept = json.loads(index.read_text(encoding="utf-8"))
    pieces = cut_into_pieces([len(records)], kept["step"])
    return RecordRows(str(path.resolve()), pieces, tuple(kept["offsets"]), stamp)


def _pickled(records: list[Any], first: int = 0) -> bytes:
    """Pickle records; classes of a script or a notebook go along by value, since workers cannot import them."""
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(records)
    try:
        return bytes(cloudpickle.dumps(records))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        if len(records) == 1:
            raise ValueError(
                f"X must hold records that can be pickled to go to workers; number {first}, a"
                f" {type(records[0]).__name__}, cannot: {error}"
            ) from None
    for position, record in enumerate(records, first):
        _pickled([record], position)
    raise ValueError("X must hold records that can be pickled to go to workers; together they cannot")


def _digest(records: list[Any]) -> str:
    found = hashlib.blake2b(str(len(records)).encode(), digest_size=16)
    for content in _contents(records):
        found.update(hashlib.blake2b(content, digest_size=16).digest())
    return found.hexdigest()


def _contents(records: list[Any]) -> Iterator[bytes]:
    """Yield the same bytes for the same record, in every process: not so of pickles, where sets are in any order."""
    for position, record in enumerate(records):
        try:
            yield json.dumps(record, sort_keys=True).encode()
        except (TypeError, ValueError, RecursionError):
            yield _pickled([record], position)
