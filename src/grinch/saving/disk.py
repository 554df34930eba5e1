"""Durable writes: the few calls after which bytes are on disk."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy.typing as npt

# Bytes that are read, written and summed up at a time.
CHUNK = 2**20
# File systems whose files are in memory.
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")


def write_at(file: int, data: npt.NDArray[Any] | bytes, offset: int) -> None:
    """Write all bytes at an offset; the system may take fewer at a time."""
    left = as_bytes(data)
    while left:
        if hasattr(os, "pwrite"):
            written = os.pwrite(file, left, offset)
        else:
            os.lseek(file, offset, os.SEEK_SET)
            written = os.write(file, left)
        left, offset = left[written:], offset + written


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file's name to an error of the system: one of an open file has none."""
    try:
        yield
    except OSError as error:
        if error.errno and not error.filename:
            error.filename = str(path)
        raise


def sync(file: int) -> None:
    """Wait until all that was written to the file, and the file's length, is on disk."""
    getattr(os, "fdatasync", os.fsync)(file)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk; Windows has no such call."""
    if os.name == "nt":
        return
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def is_in_memory(path: Path) -> bool:
    """Return whether a file or folder is on a file system in memory, as far as the system says.

    There, holes of a mapped file take room when they are read; where there is none, the process is ended.
    """
    with suppress(OSError, ValueError, IndexError):
        device = os.stat(path).st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            mount, _, system = line.partition(" - ")
            if mount.split()[2] == number:
                return system.split()[0] in IN_MEMORY
    return False


def checksum(data: npt.NDArray[Any] | bytes, before: int = 0) -> int:
    """Return a number that changes with any bit of the data; ``before`` is that of the data before it."""
    return zlib.crc32(as_bytes(data), before)


def as_bytes(data: npt.NDArray[Any] | bytes) -> memoryview:
    """Return the bytes of a contiguous array without a copy."""
    if isinstance(data, bytes):
        return memoryview(data)
    return data.data.cast("B") if data.size else memoryview(b"")


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
    """Return the bytes that each file of a folder takes on disk, without the holes in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            status = path.stat()
            found[str(path.relative_to(folder))] = getattr(status, "st_blocks", -(-status.st_size // 512)) * 512
    return found
