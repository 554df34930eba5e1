"""Rows of numbers in files, and copies of files."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.saving.disk import (
    CHUNK,
    as_bytes,
    checksum,
    is_in_memory,
    mapped,
    naming,
    sync,
    sync_folder,
    write_at,
)

__all__ = [
    "CHUNK",
    "RowFile",
    "as_bytes",
    "checksum",
    "copy_file",
    "is_in_memory",
    "mapped",
    "naming",
    "sizes_in",
    "sync",
    "sync_folder",
    "write_at",
]


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
