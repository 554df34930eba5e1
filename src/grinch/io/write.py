"""Writing files so that what was there before survives a full disk or a crash."""

from __future__ import annotations

import csv
import errno
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, Literal, overload

# What spreadsheets take for the beginning of a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
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
        _sync_folder(target.parent)
        if (recorded := _recorded.get()) is not None:
            recorded[Path(path)] = target.stat().st_size
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        # numpy says how many bytes it has written, and not why no more.
        if isinstance(error, OSError) and not error.errno and "requested and" in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        if isinstance(error, OSError) and error.errno and not error.filename:
            error.filename = str(path)  # a full disk does not say which file it was
        raise


def _sync_folder(folder: Path) -> None:
    """Sync a folder, where that is possible, so that the new name of a file survives a crash."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open(path: Path, mode: str) -> IO[Any]:
    return open(path, mode) if "b" in mode else open(path, mode, encoding="utf-8", newline="")


def harmless(cells: Iterable[object]) -> list[object]:
    """Return the cells of a row for a spreadsheet: text that it would run as a formula gets a single quote in front.

    >>> harmless(["=1+1", "-1", -1, "@SUM(A1)", "plain"])
    ["'=1+1", '-1', -1, "'@SUM(A1)", 'plain']
    """
    return [f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell for cell in cells]


def write_table(out: IO[str], header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write CSV for people: text that a spreadsheet would run as a formula gets a single quote in front."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(map(harmless, rows))


def _is_formula(text: str) -> bool:
    if not text.startswith(FORMULA_STARTS):
        return False
    try:
        float(text)
    except ValueError:
        return True
    # A number with a tab or a line end in front is not written as one.
    return text[0] in "\t\r"


def digest(content: str | bytes) -> str:
    """Return a short name of a content: the same for the same content, and different for any other.

    >>> digest("a") == digest(b"a"), digest("a") == digest("b"), len(digest("a"))
    (True, False, 32)
    """
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.blake2b(data, digest_size=16).hexdigest()
