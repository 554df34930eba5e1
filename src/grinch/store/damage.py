"""Errors of the files of a store: which file, what is wrong, and what to do about it."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grinch.errors import NO_SENSE, LinkageError, SavedModelError

# Parts of the names of SQLite's errors where something could not be written.
NO_ROOM = ("FULL", "IOERR_WRITE", "IOERR_FSYNC", "IOERR_TRUNCATE", "IOERR_SHMSIZE", "IOERR_SHMMAP", "IOERR_SHMOPEN")
# SQLite's errors that are not of the file, but of where it is or who else uses it.
NOT_NOW = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}


class DamagedStore(ValueError):
    """A file of a store that is missing, or not as it was written."""


class LaterFormat(DamagedStore):
    """A file of a store that only a later version can read."""


class EarlierFormat(ValueError):
    """A store that an earlier version made, which ``grinch convert`` reads."""


class OtherEngine(ValueError):
    """A store whose log another engine wrote: replaying it could give another tree."""


def damaged(path: Path, why: str) -> DamagedStore:
    """Return the error for a file of a store, or its folder, with what can be done."""
    folder = path if path.is_dir() else path.parent
    return DamagedStore(
        f"{path} is damaged: {why}. Restore {folder} from a backup, or rebuild in a new folder what can be rebuilt:"
        f" grinch store recover {folder} NEW"
    )


@contextmanager
def reading(path: Path, *others: type[Exception]) -> Iterator[None]:
    """Let what goes wrong where the contents of a file make no sense, and ``others``, say which file it is."""
    try:
        yield
    except SavedModelError as error:
        if "is damaged" not in str(error):
            raise  # a linkage of the user's own has to be handed in
        raise damaged(path, str(error)) from error
    except Exception as error:
        if isinstance(error, (DamagedStore, LinkageError)) or not isinstance(error, (*NO_SENSE, *others)):
            raise
        why = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise damaged(path, why) from error


def is_full(error: BaseException) -> bool:
    """Return whether something could not be written because the disk is full, or a limit of it is reached."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def unusable(path: Path, error: sqlite3.Error) -> OSError | None:
    """Return the error for an SQLite file that cannot be used at the moment; None if the file itself is wrong."""
    name = getattr(error, "sqlite_errorname", "")
    if any(part in name for part in NO_ROOM):
        return OSError(errno.ENOSPC, f"No space left on device, or a limit of it is reached ({error})", str(path))
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_INTERRUPT:
        return InterruptedError(errno.EINTR, str(error), str(path))
    if code in NOT_NOW:
        return OSError(
            errno.EIO,
            f"cannot be read or written ({error}); is the folder writable, and does no other process hold the file?",
            str(path),
        )
    return None
