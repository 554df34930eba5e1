"""Durable writes: the few calls after which bytes are on disk, and files that survive a full disk or a crash."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, Literal, overload

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
    """Wait until the names in a folder are on disk, where the system has a call for that."""
    if os.name == "nt":
        return
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(file)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a folder that is called ``target`` when it is complete; after an error nothing of it is left."""
    target.parent.mkdir(parents=True, exist_ok=True)
    work = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    work.mkdir()
    try:
        yield work
        if target.exists():  # an empty one
            target.rmdir()
        os.replace(work, target)
        sync_folder(target.parent)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


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


# Files that are replaced whole --------------------------------------------------------------------------------------

# Tasks run side by side in threads, each of which has a value of its own.
_recorded: ContextVar[dict[Path, int] | None] = ContextVar("recorded", default=None)


@contextmanager
def recording_writes() -> Iterator[dict[Path, int]]:
    """Yield a dict that is filled with the files that :func:`replacing` writes inside, and their sizes in bytes."""
    written: dict[Path, int] = {}
    token = _recorded.set(written)
    try:
        yield written
    finally:
        _recorded.reset(token)


@overload
def replacing(path: str | Path, mode: Literal["w"] = ...) -> AbstractContextManager[IO[str]]: ...
@overload
def replacing(path: str | Path, mode: Literal["wb"]) -> AbstractContextManager[IO[bytes]]: ...
@contextmanager
def replacing(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file that takes the place of ``path`` when all of it is on disk, and not before.

    It is written under another name in the same folder. If anything fails, ``path`` is as it was and the other file is
    gone. Text is UTF-8, and line ends are written as they are.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with replacing(path) as out:
    ...     _ = out.write("1 2 3")
    >>> path.read_text()
    '1 2 3'
    >>> with replacing(path) as out:
    ...     _ = out.write("4 5 6") / 0
    Traceback (most recent call last):
    ZeroDivisionError: division by zero
    >>> path.read_text(), len(list(path.parent.iterdir()))
    ('1 2 3', 1)
    """
    # A link goes on pointing where it points.
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        # A terminal, a pipe or /dev/null cannot be replaced.
        with _open(target, mode) as out:
            yield out
        return
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with _open(temporary, mode.replace("w", "x")) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode)
        os.replace(temporary, target)
        sync_folder(target.parent)
        if (recorded := _recorded.get()) is not None:
            recorded[Path(path)] = target.stat().st_size
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        # numpy says how many bytes it has written, and not why no more.
        if isinstance(error, OSError) and not error.errno and "requested and" in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(temporary)):
            error.filename = str(path)  # a full disk does not say which file it was
        raise


def _open(path: Path, mode: str) -> IO[Any]:
    return open(path, mode) if "b" in mode else open(path, mode, encoding="utf-8", newline="")
