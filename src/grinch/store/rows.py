"""The rows of all points that ever came to a store, by number.

Vectors are in files that only grow, dense ones in one file and sparse ones in two; records are in the database.
"""

from __future__ import annotations

import copy
import mmap
import os
import re
import secrets
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._checks import count_rows
from grinch._types import Counts
from grinch.saving.disk import CHUNK, as_bytes, checksum, naming, sync, sync_folder, write_at
from grinch.store import inputs
from grinch.store.damage import damaged, reading
from grinch.store.database import Database, Id, Operation
from grinch.store.inputs import csr_of, sparse_matrix

ENDS = ".ends"


class BlockChecksums:
    """Checksums of the beginning of a file that only grows, one for each block of a megabyte.

    Bytes are covered once they are committed. A block that an earlier process wrote is compared with its checksum when
    it is first read.

    >>> blocks = BlockChecksums()
    >>> blocks.prepare(0, b"abc")
    >>> blocks.commit()
    >>> blocks.length
    3
    """

    def __init__(self, sums: Iterable[int] = (), length: int = 0):
        self._sums = [int(one) for one in sums]
        if len(self._sums) != -(-length // CHUNK):
            raise ValueError(f"there are {len(self._sums)} checksums for {length:,} bytes")
        self.length = length
        self._is_verified = np.zeros(len(self._sums), np.bool_)
        self._prepared: tuple[list[int], int] | None = None
        self._lock = threading.Lock()

    @property
    def sums(self) -> npt.NDArray[np.uint32]:
        return np.array(self._sums, np.uint32)

    def prepare(self, at: int, data: npt.NDArray[Any] | bytes) -> None:
        """Add bytes that were written at byte ``at``, behind all others; :meth:`commit` covers them."""
        if self._prepared is None or at == self.length:
            # From the block on in which the bytes that are covered end.
            self._prepared = self._sums[self.length // CHUNK :], self.length
        sums, end = self._prepared
        if at != end:
            raise ValueError(f"bytes must be added at {end:,}; got {at:,}")
        left = as_bytes(data)
        while left:
            room = CHUNK - at % CHUNK
            piece, left = left[:room], left[room:]
            before = 0 if room == CHUNK else sums.pop()
            sums.append(zlib.crc32(piece, before))
            at += len(piece)
        self._prepared = sums, at

    def commit(self) -> None:
        """Cover what was prepared."""
        if self._prepared is not None:
            sums, length = self._prepared
            with self._lock:
                self._sums[self.length // CHUNK :] = sums
                new = len(self._sums) - len(self._is_verified)
                if new:
                    self._is_verified = np.append(self._is_verified, np.ones(new, np.bool_))
                self.length, self._prepared = length, None

    def rollback(self) -> None:
        """Forget what was prepared."""
        self._prepared = None

    @property
    def is_verified(self) -> bool:
        """Whether all blocks have been compared."""
        return bool(self._is_verified.all())

    def unverified(self) -> Counts:
        """Return the numbers of the blocks that were never compared."""
        return np.flatnonzero(~self._is_verified)

    def verify(self, content: npt.NDArray[np.uint8], numbers: Counts) -> None:
        """Compare some blocks with their checksums, each once; ``content`` is that of the file.

        Raises ValueError if one is not as it was written.
        """
        numbers = numbers[numbers < len(self._is_verified)]
        for i in np.unique(numbers[~self._is_verified[numbers]]).tolist():
            with self._lock:
                if self._is_verified[i]:
                    continue  # by another thread, which may have added to it since
                if checksum(content[i * CHUNK : min((i + 1) * CHUNK, self.length)]) != self._sums[i]:
                    raise ValueError(f"the checksum of the block at byte {i * CHUNK:,} is wrong")
                self._is_verified[i] = True


class RowFile:
    """Rows of numbers in a file, one after the other, to which rows are added at the end.

    The caller knows where the end is: rows beyond it, of changes that failed, are overwritten.

    >>> import tempfile
    >>> file = RowFile(Path(tempfile.mkdtemp()) / "rows.f32", np.dtype("float32"), 2)
    >>> file.append(0, np.array([[1, 2], [3, 4]], np.float32))
    >>> file.rows(2)[[1]].tolist()
    [[3.0, 4.0]]
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], width: int, blocks: BlockChecksums | None = None):
        self.path, self.dtype, self.width = path, dtype.newbyteorder("<"), width
        self.blocks = BlockChecksums() if blocks is None else blocks
        self._map: npt.NDArray[Any] = np.empty((0, width), self.dtype)
        self._file: int | None = None
        self._is_to_write = self._is_fixed = False

    @property
    def parts(self) -> dict[str, RowFile]:
        """The files that rows are in, by what is in each."""
        return {"rows": self}

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * self.width

    def append(self, at: int, rows: npt.NDArray[Any], *, is_kept: bool = False) -> None:
        """Write rows from number ``at`` on; they are on disk when this returns, unless they are kept elsewhere."""
        self.cover(at, rows)
        with naming(self.path):
            file = self._to_write()
            write_at(file, np.ascontiguousarray(rows, self.dtype), at * self.row_bytes)
            if not is_kept:
                sync(file)

    def cover(self, at: int, rows: npt.NDArray[Any]) -> None:
        """Add rows that are in the file from number ``at`` on to those with checksums, once they are committed."""
        if at:
            # Behind a block that was never compared, damage would stay unnoticed until all of it is read.
            self._verify(np.array([at - 1]))
        self.blocks.prepare(at * self.row_bytes, np.ascontiguousarray(rows, self.dtype))

    def at(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return some of the rows, by number; ValueError if they are not as they were written."""
        mapped = self.rows(int(rows.max(initial=-1)) + 1)
        self._verify(rows)
        return np.ascontiguousarray(mapped[rows])

    def _verify(self, rows: npt.NDArray[np.int64]) -> None:
        if self.blocks.is_verified:
            return
        first, last = rows * self.row_bytes // CHUNK, ((rows + 1) * self.row_bytes - 1) // CHUNK
        longest = int((last - first).max(initial=0))
        self.verify_blocks(np.concatenate([np.minimum(first + i, last) for i in range(longest + 1)]))

    def verify_blocks(self, numbers: Counts) -> None:
        """Compare some blocks with their checksums, each once; ValueError if one is not as it was written."""
        if not self.blocks.is_verified:
            # What came after a fixed part was mapped is as it was written.
            whole = self._map if self._is_fixed else self.rows(-(-self.blocks.length // self.row_bytes))
            self.blocks.verify(np.frombuffer(as_bytes(whole), np.uint8), numbers)

    def fixed(self, count: int) -> Self:
        """Return the first rows for another reader: whatever happens to the file, they can be read."""
        twin = copy.copy(self)
        twin._map, twin._file, twin._is_to_write, twin._is_fixed = self.rows(count), None, False, True
        return twin

    def packed(self, rows: npt.NDArray[Any]) -> bytes:
        """Return rows as they are put into the log."""
        return rows.tobytes()

    def unpacked(self, content: bytes, n: int) -> npt.NDArray[Any]:
        """Return the rows that :meth:`packed` was given."""
        return np.frombuffer(content, self.dtype).reshape(n, -1)

    def empty(self, n: int) -> npt.NDArray[Any]:
        """Return ``n`` rows of zeros."""
        return np.zeros((n, self.width), self.dtype)

    def count(self) -> int:
        """Return the number of rows that the file has room for, also those that do not count."""
        try:
            self.hold()
        except FileNotFoundError:
            return 0
        assert self._file is not None
        return os.fstat(self._file).st_size // self.row_bytes

    def hold(self) -> None:
        """Keep the file open, to read it also after its name is deleted."""
        if self._file is None:
            self._file = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))

    def sync(self) -> None:
        """Wait until all rows are on disk, also those that came before the file was opened."""
        with naming(self.path):
            sync(self._to_write())

    def _to_write(self) -> int:
        if not self._is_to_write or self._file is None:
            self.close()
            self._is_to_write = True
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            sync_folder(self.path.parent)
        return self._file

    def rows(self, count: int) -> npt.NDArray[Any]:
        """Return the first rows, mapped; they are read from disk when they are used."""
        if count > len(self._map):
            # All there are by now, so that adding a row does not mean mapping again; those beyond mean nothing yet.
            there = self.count()
            if there < count or self._file is None:
                raise ValueError(f"it must hold {count:,} rows of {self.row_bytes} bytes, and has {there:,}")
            whole = mmap.mmap(self._file, there * self.row_bytes, access=mmap.ACCESS_READ)
            self._map = np.frombuffer(whole, self.dtype).reshape(there, self.width)
        return self._map[:count]

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file, self._is_to_write, self._map = None, False, np.empty((0, self.width), self.dtype)


def stacked(pieces: list[Any]) -> Any:
    """Return the rows of several matrices, one after the other."""
    if isinstance(pieces[0], np.ndarray):
        return np.concatenate(pieces)
    return sparse_matrix(scipy.sparse.vstack(pieces, format="csr"), pieces[0].dtype)


def checksum_rows(pieces: Iterable[Any]) -> int:
    """Return a number that changes with any bit of some rows, the same in whatever pieces they come."""
    of_dense = of_columns = of_values = 0
    sizes: list[Counts] = []
    for piece in pieces:
        if scipy.sparse.issparse(piece):
            of_columns = checksum(piece.indices.astype("<i4", copy=False), of_columns)
            of_values = checksum(piece.data, of_values)
            sizes.append(np.diff(piece.indptr))
        else:
            of_dense = checksum(piece, of_dense)
    return checksum(np.concatenate([[of_columns, of_values], *sizes])) if sizes else of_dense


class SparseRowFile:
    """Sparse rows in two files, to which rows are added at the end; used as :class:`RowFile`.

    >>> import tempfile
    >>> file = SparseRowFile(Path(tempfile.mkdtemp()) / "rows.bin", np.dtype("float32"), 9)
    >>> file.append(0, sparse_matrix([[0, 0, 5, 0, 0, 0, 0, 0, 1], [0] * 9, [7] + [0] * 8], np.dtype("float32")))
    >>> file.at(np.array([2, 0])).toarray()[:, [0, 2, 8]].tolist()
    [[7.0, 0.0, 0.0], [0.0, 5.0, 1.0]]
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], width: int):
        self.path, self.dtype, self.width = path, dtype.newbyteorder("<"), width
        self._entry = np.dtype([("column", "<i4"), ("value", self.dtype)])
        self.entries = RowFile(path, np.dtype(np.uint8), self._entry.itemsize)
        self.ends = RowFile(path.with_name(path.name + ENDS), np.dtype("<i8"), 1)

    @property
    def parts(self) -> dict[str, RowFile]:
        """The files that rows are in, by what is in each."""
        return {"entries": self.entries, "ends": self.ends}

    @property
    def row_bytes(self) -> int:
        """An estimate of the bytes of a row."""
        return 64 * self.entries.row_bytes

    def append(self, at: int, rows: Any, *, is_kept: bool = False) -> None:
        """Write rows from number ``at`` on; they are on disk when this returns, unless they are kept elsewhere."""
        start, ends = self._ends_of(at, rows)
        self.entries.append(start, self._as_entries(rows), is_kept=is_kept)
        self.ends.append(at, ends, is_kept=is_kept)

    def cover(self, at: int, rows: Any) -> None:
        """Add rows that are in the files from number ``at`` on to those with checksums, once they are committed."""
        start, ends = self._ends_of(at, rows)
        self.entries.cover(start, self._as_entries(rows))
        self.ends.cover(at, ends)

    def _ends_of(self, at: int, rows: Any) -> tuple[int, npt.NDArray[np.int64]]:
        """Return the number of the first entry of rows that come at number ``at``, and where each of them ends."""
        start = int(self.ends.at(np.array([at - 1]))[0, 0]) if at else 0
        return start, start + rows.indptr[1:, None] - rows.indptr[0]

    def _as_entries(self, rows: Any) -> npt.NDArray[Any]:
        entries = np.empty(rows.nnz, self._entry)
        entries["column"], entries["value"] = rows.indices, rows.data
        return entries.view(np.uint8).reshape(rows.nnz, self._entry.itemsize)

    def at(self, rows: Counts) -> Any:
        """Return some of the rows, by number."""
        before = rows[rows > 0] - 1
        starts = np.zeros(len(rows), np.int64)
        starts[rows > 0] = self.ends.at(before)[:, 0]
        sizes = self.ends.at(rows)[:, 0] - starts
        if len(sizes) and (sizes.min() < 0 or sizes.max() > self.width or starts.min() < 0):
            raise ValueError("it does not say where rows end")
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        where = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], sizes)
        entries = self.entries.at(where).view(self._entry)[:, 0]
        columns = np.ascontiguousarray(entries["column"])
        if len(columns) and not (columns.min() >= 0 and columns.max() < self.width):
            raise ValueError("it has entries in columns that are not there")
        return csr_of(np.ascontiguousarray(entries["value"]), columns, indptr, self.width)

    def packed(self, rows: Any) -> bytes:
        """Return rows as they are put into the log."""
        sizes, columns = np.diff(rows.indptr).astype("<i8"), rows.indices.astype("<i4")
        return b"".join(part.tobytes() for part in (sizes, columns, rows.data.astype(self.dtype)))

    def unpacked(self, content: bytes, n: int) -> Any:
        """Return the rows that :meth:`packed` was given."""
        sizes = np.frombuffer(content, "<i8", n)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        n_entries = int(ends[-1])
        if (sizes < 0).any() or len(content) != 8 * n + (4 + self.dtype.itemsize) * n_entries:
            raise ValueError("rows in the log do not have as many entries as they say")
        columns = np.frombuffer(content, "<i4", n_entries, 8 * n)
        return csr_of(np.frombuffer(content, self.dtype, n_entries, 8 * n + 4 * n_entries), columns, ends, self.width)

    def empty(self, n: int) -> Any:
        """Return ``n`` rows without entries."""
        return sparse_matrix(scipy.sparse.csr_matrix((n, self.width)), self.dtype)

    def count(self) -> int:
        """Return the number of rows that the files have room for, also those that do not count."""
        return self.ends.count()

    def fixed(self, count: int) -> Self:
        """Return the first rows for another reader: whatever happens to the files, they can be read."""
        twin = copy.copy(self)
        n_entries = int(self.ends.rows(count)[count - 1, 0]) if count else 0
        twin.entries, twin.ends = self.entries.fixed(n_entries), self.ends.fixed(count)
        return twin

    def close(self) -> None:
        self.entries.close()
        self.ends.close()


AnyRowFile = RowFile | SparseRowFile


def open_rows(path: Path, dtype: Any, width: int, is_sparse: bool) -> AnyRowFile:
    """Return the file, or the files, of dense or sparse rows."""
    return (SparseRowFile if is_sparse else RowFile)(path, np.dtype(dtype), width)


def in_pieces(file: AnyRowFile, numbers: Counts) -> Iterator[Counts]:
    """Yield the numbers of rows in pieces whose rows take little memory."""
    step = max(CHUNK * 16 // file.row_bytes, 1)
    return (numbers[start : start + step] for start in range(0, len(numbers), step))


def copy_rows(source: Any, target: Any, numbers: Counts) -> int:
    """Write some rows of a file, by number, to an empty one; return their checksum."""

    def copied() -> Iterator[Any]:
        at = 0
        for piece in in_pieces(source, numbers):
            rows = source.at(piece)
            target.append(at, rows)
            at += len(piece)
            yield rows

    target.append(0, source.empty(0))
    checksum = checksum_rows(copied())
    for part in target.parts.values():
        part.blocks.commit()
    return checksum


def block_sums(file: AnyRowFile | None) -> dict[str, npt.NDArray[Any]]:
    """Return the checksums of the blocks of rows as snapshots hold them."""
    state: dict[str, npt.NDArray[Any]] = {}
    for name, part in ({} if file is None else file.parts).items():
        state |= {f"{name}.sums": part.blocks.sums, f"{name}.length": np.array([part.blocks.length])}
    return state


VECTORS_NAME = re.compile(r"vectors-[0-9a-f]+\.bin")
DTYPES = ("float32", "float64")
# Rows of up to this many bytes are put into the log, too: then one file is on disk sooner than two.
LOGGED = 2**15


def vectors_name() -> str:
    return f"vectors-{secrets.token_hex(4)}.bin"


def files_of(vectors: str) -> tuple[str, str]:
    """Return the names of the files with the rows, by the name of the first."""
    return vectors, vectors + ENDS


class StoredRows:
    """The rows of a store.

    Rows are verified when they are read: those of an operation by its checksum, others by the checksum of their block
    of the file, which snapshots hold.
    """

    def __init__(self, folder: Path, database: Database, *, is_readonly: bool):
        self.folder, self.database, self.is_readonly = folder, database, is_readonly
        self.file: AnyRowFile | None = None
        # By number, rows that a reader has from the log, and that are not in the file yet.
        self._in_log_alone: dict[int, Any] = {}

    def open(self, sums: Mapping[str, npt.NDArray[Any]] | None = None) -> None:
        """Open the file that the database names, if points are vectors and there are any.

        ``sums`` are the checksums of a snapshot; without them, those that are known stay.
        """
        known = {name: part.blocks for name, part in self._parts.items()}
        self.close()
        width = self.database.get("n_features")
        if width is None:
            return
        name, dtype = self.database.get("vectors"), self.database.get("dtype")
        if not VECTORS_NAME.fullmatch(name) or dtype not in DTYPES or not 0 < width < 2**31:
            raise damaged(self.database.path, f"it names {name!r}, {width} x {dtype}, as the vectors")
        self.file = open_rows(self.folder / name, dtype, width, bool(self.database.find("is_sparse")))
        if sums is not None:
            parts = [name for name in self._parts if f"{name}.sums" in sums]
            known = {name: BlockChecksums(sums[f"{name}.sums"], int(sums[f"{name}.length"][0])) for name in parts}
        for name, part in self._parts.items():
            part.blocks = known.get(name, part.blocks)
            part.blocks.rollback()
            if self.is_readonly:
                part.hold()  # the writer may delete it

    def close(self) -> None:
        for part in self._parts.values():
            part.close()
        self.file = None

    @property
    def is_sparse(self) -> bool:
        return isinstance(self.file, SparseRowFile)

    @property
    def path(self) -> Path:
        """The file to name where something is wrong with rows."""
        return self.database.path if self.file is None else self.file.path

    def fixed(self, count: int, database: Database) -> Self:
        """Return the first rows for another reader, by a database of its own; what the writer does is not seen."""
        twin = copy.copy(self)
        if self.file is not None:
            with reading(self.path, ValueError):
                twin.file = self.file.fixed(count)
        twin.database = database
        return twin

    # Reading ------------------------------------------------------------------------------------------------------

    def at(self, numbers: Counts) -> Any:
        """Return some of the rows, by number; of vectors, empty ones for numbers below 0."""
        with reading(self.path, ValueError):
            if self.file is None:
                return inputs.decode_records(self.database.records_at(numbers.tolist()))
            is_apart = numbers < 0
            if self._in_log_alone:
                is_apart |= np.isin(numbers, list(self._in_log_alone))
            rows = self.file.at(numbers[~is_apart])
            if not is_apart.any():
                return rows
            empty = self.file.empty(1)
            apart = [self._in_log_alone.get(number, empty) for number in numbers[is_apart].tolist()]
            # Those in the file come first, then the others: back to the order that was asked for.
            return stacked([rows, *apart])[np.argsort(np.argsort(is_apart, kind="stable"))]

    def of(self, done: Operation) -> Any:
        """Return the rows that came with an operation."""
        if self.file is None or done.rows is None:
            rows = self.at(done.numbers)
        else:
            with reading(self.path, ValueError):
                rows = self.file.unpacked(done.rows, done.n_rows)
        if self.file is not None and checksum_rows([rows]) != done.checksum:
            raise self._changed_since(done)
        return rows

    def take_up(self, later: Iterable[Operation]) -> None:
        """Continue from the operations since the snapshot, whose rows may be in the log alone.

        That is so after a crash of the machine; only a writer can put them into the file.
        """
        self._in_log_alone = {}
        for done in later:
            if self.file is None or not done.n_rows:
                continue
            if not self.is_readonly:
                with reading(self.path, ValueError):
                    if done.rows is None:
                        self.file.cover(done.first_row, self.of(done))
                    else:
                        self.file.append(done.first_row, self.of(done), is_kept=True)
                    self.commit()
            elif done.rows is not None:
                rows = self.of(done)
                if not _has(self.file, done.numbers, rows):
                    self._in_log_alone |= {number: rows[i : i + 1] for i, number in enumerate(done.numbers.tolist())}

    def check_size(self, need: int, width: int) -> None:
        """Raise unless the file has as many rows as are needed, and of this width."""
        if self.file is not None:
            there = self.file.count()
            if there < need or self.file.width != width:
                why = f"it must hold {need:,} rows of {width} numbers, and has {there:,} of {self.file.width}"
                raise damaged(self.file.path, why)

    def check(self, operations: Iterable[Operation]) -> None:
        """Verify the rows of all operations."""
        if self.file is None:
            return
        for done in operations:
            if checksum_rows(map(self.at, in_pieces(self.file, done.numbers))) != done.checksum:
                raise self._changed_since(done)

    def unverified(self) -> Iterator[Callable[[], None]]:
        """Yield what compares the blocks that were never read with their checksums, one at a time, in any thread."""
        for part in self._parts.values():
            with reading(part.path, ValueError):
                fixed = part.fixed(-(-part.blocks.length // part.row_bytes))
            for number in fixed.blocks.unverified().tolist():
                yield partial(_verify_block, fixed, number)

    # Writing ------------------------------------------------------------------------------------------------------

    def checked(
        self, X: Any, check: inputs.RowCheck, columns: list[str] | None = None, new_columns: bool = False
    ) -> Any:
        """Return X as the store keeps it; ``columns`` are its columns, of a frame its own."""
        columns, known = columns or inputs.columns_of(X), self.database.get("columns")
        shared = min(len(columns or ()), len(known or ())) if new_columns else None
        if columns is not None and known is not None and columns[:shared] != known[:shared]:
            raise ValueError(f"X must have the columns that the first points had, {known}; got {columns}")
        dtype = self.database.get("dtype")
        is_sparse = None if self.file is None else self.is_sparse
        try:
            return check(X, None if dtype is None else np.dtype(dtype), is_sparse, new_columns)
        except ValueError:
            inputs.refuse_texts(X, self.folder)
            raise

    def begin(self, rows: Any, names: Sequence[Id] | None, columns: list[str] | None) -> None:
        """Note in the database what rows are like, by the first ones."""
        self.database.set("is_named", names is not None)
        self.database.set("id_kind", inputs.kind_of(names[0]) if names else None)
        if not isinstance(rows, list):
            self.database.set("is_sparse", not isinstance(rows, np.ndarray))
            self.database.set("n_features", rows.shape[1])
            self.database.set("dtype", rows.dtype.name)
            self.database.set("columns", columns)
            self.open()

    def append(self, kind: str, version: int, first: int, rows: Any, data: bytes | None = None) -> Operation:
        """Put rows on disk from number ``first`` on; return the operation that brings them."""
        n = count_rows(rows)
        if self.file is None:
            self.database.add_records(first, inputs.encode_records(rows))
            return Operation(version, kind, first, n, data=data)
        if rows.shape[1] > self.file.width:  # sparse rows may have new columns
            self.database.set("n_features", rows.shape[1])
            self.file.width = rows.shape[1]
        n_bytes = rows.nbytes if isinstance(rows, np.ndarray) else 8 * n + 12 * rows.nnz
        log = self.file.packed(rows) if n_bytes <= LOGGED else None
        try:
            self.file.append(first, rows, is_kept=log is not None)
        except ValueError as error:
            raise damaged(self.path, str(error)) from None
        return Operation(version, kind, first, n, checksum_rows([rows]), data, log)

    def rewrite(self, kept: Counts, name: str) -> int:
        """Write some of the rows, by number, to a new file, and continue with it; return their checksum."""
        if self.file is None:
            self.database.renumber_records(kept)
            return 0
        old, new = self.file, open_rows(self.folder / name, self.file.dtype, self.file.width, self.is_sparse)
        with reading(self.path, ValueError):
            checksum = copy_rows(old, new, kept)
        self.database.set("vectors", name)
        self.close()
        self.file = new
        return checksum

    def commit(self) -> None:
        """Cover the rows that were appended by checksums: they count."""
        for part in self._parts.values():
            part.blocks.commit()

    def sync(self) -> None:
        """Wait until all rows are on disk, also those that came before the file was opened."""
        for part in self._parts.values():
            part.sync()

    # Within -------------------------------------------------------------------------------------------------------

    @property
    def _parts(self) -> dict[str, RowFile]:
        return {} if self.file is None else self.file.parts

    def _changed_since(self, done: Operation) -> Exception:
        return damaged(self.path, f"the vectors of version {done.version} are not those that were written")


def _verify_block(file: RowFile, number: int) -> None:
    with reading(file.path, ValueError):
        file.verify_blocks(np.array([number]))


def _has(file: Any, numbers: Counts, rows: Any) -> bool:
    """Return whether these rows are in a file."""
    try:
        return bool(numbers[-1] < file.count() and inputs.same_rows(file.at(numbers), rows).all())
    except (OSError, ValueError):  # rows of another length are there
        return False
