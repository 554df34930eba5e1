"""Bytes that are on disk when a function returns: the few calls on which durability rests."""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# Bytes that are looked at, written and summed up at a time.
CHUNK = 2**20
# File systems whose files are in memory.
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")


def write_at(file: int, data: npt.NDArray[Any] | bytes, offset: int) -> None:
    """Write all of it, however little the system takes at a time."""
    left = as_bytes(data)
    while left:
        written = os.pwrite(file, left, offset)
        left, offset = left[written:], offset + written


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of the system say which file it is about: one of an open file does not."""
    try:
        yield
    except OSError as error:
        if error.errno and not error.filename:
            error.filename = str(path)
        raise


def sync(file: int) -> None:
    """All that was written to the file is on disk, and the file's length."""
    getattr(os, "fdatasync", os.fsync)(file)


def sync_folder(folder: Path) -> None:
    """The names in a folder are on disk; Windows has no such call."""
    if os.name == "nt":
        return
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file with its holes; the copy is on disk when this returns."""
    with open(source, "rb") as old, open(target, "xb") as new:
        at = 0
        while piece := old.read(CHUNK):
            if any(piece):
                write_at(new.fileno(), piece, at)
            at += len(piece)
        os.ftruncate(new.fileno(), at)
        sync(new.fileno())


def sizes_in(folder: Path) -> dict[str, int]:
    """Bytes that each file of a folder takes on disk, without the holes in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            status = path.stat()
            found[str(path.relative_to(folder))] = getattr(status, "st_blocks", -(-status.st_size // 512)) * 512
    return found


def is_in_memory(path: Path) -> bool:
    """Whether a file or folder is on a file system in memory, as far as the system says.

    There, holes of a mapped file take room when they are looked at; where there is none, the process is ended.
    """
    with suppress(OSError, ValueError, IndexError):
        device = os.stat(path).st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            mount, _, system = line.partition(" - ")
            if mount.split()[2] == number:
                return system.split()[0] in IN_MEMORY
    return False


def mapped(path: Path, length: int | None = None, *, private: bool) -> mmap.mmap | bytes | bytearray:
    """The bytes of a file in memory, read when they are looked at.

    ``private``: they can be written to, and what is written is nobody else's and never in the file.
    """
    with open(path, "rb") as file:
        length = os.fstat(file.fileno()).st_size if length is None else length
        if not length:
            return b""
        if private and is_in_memory(path):
            return bytearray(file.read(length))
        return mmap.mmap(file.fileno(), length, access=mmap.ACCESS_COPY if private else mmap.ACCESS_READ)


class RowFile:
    """Rows of numbers in a file, one after the other, to which rows are added at the end.

    Whoever adds rows says where the end is: what is written beyond, and never counted, is written over.

    >>> import tempfile
    >>> file = RowFile(Path(tempfile.mkdtemp()) / "rows.f32", np.dtype("float32"), 2)
    >>> file.append(0, np.array([[1, 2], [3, 4]], np.float32))
    >>> file.rows(2)[[1]].tolist()
    [[3.0, 4.0]]
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], width: int):
        self.path, self.dtype, self.width = path, dtype.newbyteorder("<"), width
        self._map: npt.NDArray[Any] = np.empty((0, width), self.dtype)
        self._file: int | None = None
        self._is_to_write = False

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * self.width

    def append(self, at: int, rows: npt.NDArray[Any], *, is_kept: bool = False) -> None:
        """Let these be the rows from number ``at`` on; on disk when this returns, unless they are kept elsewhere."""
        with naming(self.path):
            file = self._to_write()
            write_at(file, np.ascontiguousarray(rows, self.dtype), at * self.row_bytes)
            if not is_kept:
                sync(file)

    def at(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Some of the rows, by number."""
        return np.ascontiguousarray(self.rows(int(rows.max(initial=-1)) + 1)[rows])

    def packed(self, rows: npt.NDArray[Any]) -> bytes:
        """Rows as they are put into the log."""
        return rows.tobytes()

    def unpacked(self, content: bytes, n: int) -> npt.NDArray[Any]:
        """The rows that :meth:`packed` was given."""
        return np.frombuffer(content, self.dtype).reshape(n, -1)

    def stacked(self, pieces: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Rows of several matrices, one after the other."""
        return np.concatenate([self.empty(0), *pieces])

    def empty(self, n: int) -> npt.NDArray[Any]:
        """So many rows of zeros."""
        return np.zeros((n, self.width), self.dtype)

    def count(self) -> int:
        """How many rows the file has room for, those that mean nothing among them."""
        try:
            self.hold()
        except FileNotFoundError:
            return 0
        assert self._file is not None
        return os.fstat(self._file).st_size // self.row_bytes

    def hold(self) -> None:
        """Keep the file at hand, to read it also when it has lost its name."""
        if self._file is None:
            self._file = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))

    def sync(self) -> None:
        """All rows are on disk, also those that came before the file was opened."""
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
        """The first rows, mapped; they are read from disk when they are looked at."""
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


def checksum(data: npt.NDArray[Any] | bytes, before: int = 0) -> int:
    """A number that changes with any bit of the data; ``before`` is that of the data before it."""
    return zlib.crc32(as_bytes(data), before)


def as_bytes(data: npt.NDArray[Any] | bytes) -> memoryview:
    """The bytes of an array in one piece, not copied."""
    if isinstance(data, bytes):
        return memoryview(data)
    return data.data.cast("B") if data.size else memoryview(b"")
