"""Locks: one process writes to a store, and one of its threads, while the others read."""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

ATTEMPTS = 4
# What a file system answers that has no locks.
NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK}


class StoreLocked(RuntimeError):
    """Another process is writing to the store."""


class WriterLock:
    """The right to write to a folder, until it is released or this process ends.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> first = WriterLock(folder)
    >>> try:
    ...     WriterLock(folder)
    ... except StoreLocked as error:
    ...     print(f"process {os.getpid()} " in str(error))
    True
    >>> first.release()
    >>> WriterLock(folder).release()
    """

    def __init__(self, folder: Path):
        self.path = folder / "writer.lock"
        self._file: int | None = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _take_soon(self._file)
        except OSError as error:
            os.close(self._file)
            self._file = None
            if error.errno in NO_LOCKS:
                raise OSError(error.errno, "files on this file system cannot be locked", str(self.path)) from None
            raise StoreLocked(
                f"{folder} is being written to by {describe(holder(folder))}. Open it with readonly=True to read beside"
                " it, or wait until it is closed"
            ) from None
        about = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.time()}
        # Who holds it is only said to others; where the disk is full, it is held all the same.
        with suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps(about).encode(), 0)

    def forget(self) -> None:
        """Close the file in a forked process: the lock is the parent's."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def is_ours(self) -> bool:
        """Return whether the lock is still that of the folder: its file may have been deleted."""
        try:
            return self._file is not None and os.path.samestat(os.fstat(self._file), os.stat(self.path))
        except OSError:
            return False

    def release(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.ftruncate(self._file, 0)
                # Not only closed: a process that was forked meanwhile has it open, too.
                _give_back(self._file)
            os.close(self._file)
            self._file = None


def holder(folder: Path) -> dict[str, Any] | None:
    """Return the host, the pid and the start of the process that holds, or last held, the lock of a folder."""
    try:
        about = json.loads((folder / "writer.lock").read_text() or "null")
        return about if isinstance(about, dict) else None
    except (OSError, ValueError):
        return None


def is_held(folder: Path) -> bool:
    """Return whether a process is writing to a folder now."""
    try:
        file = os.open(folder / "writer.lock", os.O_RDWR)
    except OSError:
        return False
    try:
        _take(file)
        return False
    except OSError:
        return True
    finally:
        os.close(file)


def describe(about: dict[str, Any] | None) -> str:
    if about is None:
        return "another process"
    try:
        since = datetime.fromtimestamp(float(about["since"])).isoformat(" ", "seconds")
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        since = "a time that is not known"
    return f"process {about.get('pid')} on {about.get('host')} since {since}"


def _take_soon(file: int) -> None:
    """Take the lock; try again, for :func:`is_held` holds it for an instant."""
    for _ in range(ATTEMPTS - 1):
        with suppress(OSError):
            return _take(file)
        time.sleep(0.01)
    _take(file)


def _take(file: int) -> None:
    """Take the lock of an open file, or raise OSError at once."""
    if os.name == "nt":
        import msvcrt

        # Far behind what is written in the file, which others read.
        os.lseek(file, 2**30, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _give_back(file: int) -> None:
    if os.name != "nt":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)


View = TypeVar("View")


class Gate(Generic[View]):
    """A lock that admits one thread at a time, in the order in which they come.

    The thread inside can publish a view. Until it leaves, readers are given that view and do not wait.

    >>> gate = Gate[str]()
    >>> def read() -> None:
    ...     with gate.reading() as view:
    ...         print(view)
    >>> with gate.inside():
    ...     gate.publish("what was there before")
    ...     reader = threading.Thread(target=read)
    ...     reader.start()
    ...     reader.join()
    what was there before
    >>> read()
    None
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()
        self._owner: int | None = None
        self._writer: int | None = None
        self._view: View | None = None
        self._is_asked = False

    @property
    def is_ours(self) -> bool:
        """Whether this thread is inside."""
        return self._owner == threading.get_ident()

    @property
    def is_free(self) -> bool:
        """Whether this thread could go inside at once."""
        return self._owner in (None, threading.get_ident())

    @property
    def n_waiting(self) -> int:
        """The number of threads that wait to be let in."""
        return len(self._queue)

    @property
    def is_asked(self) -> bool:
        """Whether another thread than the last writer has read since a view was published."""
        return self._is_asked

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Be the only thread inside, as a writer; a thread that is inside already stays there."""
        if self.is_ours:
            yield
            return
        self._enter(None)
        try:
            self._writer = self._owner
            yield
        finally:
            self._leave()

    def publish(self, view: View) -> None:
        """Let readers use this view until the thread inside leaves."""
        with self._changed:
            self._view, self._is_asked = view, False
            self._changed.notify_all()

    @contextmanager
    def reading(self, accepts: Callable[[View], bool] = lambda view: True) -> Iterator[View | None]:
        """Yield the published view, if the reader accepts it; otherwise None, as the only thread inside."""
        if self.is_ours:
            yield None
            return
        view = self._enter(accepts)
        if view is not None:
            yield view
            return
        try:
            yield None
        finally:
            self._leave()

    def withdraw(self) -> None:
        """Publish nothing any more; readers that have the view keep it."""
        self._view = None

    def _enter(self, accepts: Callable[[View], bool] | None) -> View | None:
        """Wait to be the only thread inside; return a published view instead if there is one that ``accepts`` takes."""
        me, ticket = threading.get_ident(), object()

        def offered() -> View | None:
            view = self._view
            return view if accepts is not None and view is not None and accepts(view) else None

        with self._changed:
            if accepts is not None and me != self._writer:
                self._is_asked = True
            self._queue.append(ticket)
            try:
                self._changed.wait_for(
                    lambda: offered() is not None or (self._owner is None and self._queue[0] is ticket)
                )
                view = offered()
                if view is None:
                    self._owner = me
                return view
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()

    def _leave(self) -> None:
        with self._changed:
            self._owner = self._view = None
            self._changed.notify_all()
