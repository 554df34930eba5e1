"""The folder of a run: made if need be, and used by one fit at a time."""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grinch.store.lock import NO_LOCKS, StoreLocked, WriterLock, describe, holder

log = logging.getLogger("grinch.sharded")
STAGES, REMOVED = "stages-", ".removed-"
# How these names go on: a folder of the user's own may begin like one of them.
STAMP = "[0-9a-f]" * 16
# By folder that this process works in, the thread that does.
_held: dict[Path, int] = {}


def check_folder(folder: Path) -> Path:
    """A folder to work in; made if there is none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"folder must be one that can be made and written to; got {str(folder)!r}: {error}") from None
    return folder.absolute()


def stages_folder(home: Path, stamp: str) -> Path:
    """Where the stages of a run are, by all that it depends on: files of two runs never get mixed."""
    return home / f"{STAGES}{stamp[:16]}"


def clear_others(home: Path, stamp: str) -> None:
    """Remove the stages of other runs, and what is left of earlier removals."""
    for path in home.glob(f"{STAGES}{STAMP}"):
        if path.is_dir() and path != stages_folder(home, stamp):
            # Whole or not at all: half of the files of a stage would be taken for all.
            path.rename(home / f"{REMOVED}{secrets.token_hex(8)}")
    for path in home.glob(f"{REMOVED}{STAMP}"):
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep others out of the folder of a run: two fits that write over each other's files would mix their results.

    Who is in it already goes on. Where files cannot be locked, nobody is kept out.
    """
    folder, thread = folder.absolute(), threading.get_ident()
    if _held.get(folder) == thread:
        yield
        return
    try:
        lock = WriterLock(folder)
    except StoreLocked:
        raise ValueError(
            f"folder {str(folder)!r} is in use by {describe(holder(folder))}, which may be the same run; wait for it,"
            " or give another folder"
        ) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise ValueError(f"folder must be one that can be written to; got {str(folder)!r}: {error}") from None
        log.warning("%s is on a file system without locks: see to it that one fit at a time uses it", folder)
        yield
        return
    _held[folder] = thread
    try:
        yield
    finally:
        del _held[folder]
        lock.release()
