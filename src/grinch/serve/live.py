"""A store that is read by many threads while one of them writes: long changes are not waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from grinch.serve.sources import StoreSource
from grinch.store import Store
from grinch.store.beside import Beside, NotShown

# A change that takes longer than this, in seconds, is not waited for.
LONG = 0.05
# To show what was there before may take this share of the time of a change, if nobody had to wait for an earlier one.
SHARE = 0.2
# Seconds per point, until it is known.
PACE = 2e-4
# How soon a reader that waits looks whether there is something to see; then less and less often, up to GLANCES.
GLANCE, GLANCES = 0.005, 0.2
# A store that another process writes is looked at again after this many seconds.
FRESH = 1.0

Found = TypeVar("Found")


class Busy(Exception):
    """As many readers wait for the end of a change as may; try again in a moment."""


class Live:
    """A store for many threads.

    Readers ask by :meth:`read`; changes are made by one thread, within :meth:`changing`. Readers wait for a short
    change, and come in before the next; of a long one they see what was there before it.

    >>> import grinch, tempfile
    >>> live = Live(grinch.open(tempfile.mkdtemp()))
    >>> with live.changing(3):
    ...     live.store.insert([[1, 0], [0, 9], [2, 0.1]])
    1
    >>> live.read(len)
    3
    >>> live.store.close()
    """

    def __init__(self, store: Store):
        self.store = store
        self._door = threading.Lock()
        self._beside: Beside | None = None
        self._pace, self._price = PACE, 0.0
        self._is_wanted = False
        self._ended, self._waiting = threading.Condition(), 0
        self._looked_at = time.monotonic()

    def read(self, ask: Callable[[Any], Found], most: int | None = None) -> Found:
        """What ``ask`` finds in the store, or in what it was before a change that is being made.

        Where that cannot be said before the change is made, and ``most`` readers wait for it already: :class:`Busy`.
        """
        while True:
            beside = self._beside
            if beside is not None:
                try:
                    return ask(beside)
                except NotShown:
                    return self._read_later(beside, ask, most)
            if self._enter():
                return self._read_now(ask)

    def _read_now(self, ask: Callable[[Any], Found]) -> Found:
        """What is found in the store, which is ours."""
        try:
            self._refresh()
            return ask(self.store)
        finally:
            self.store._turn.release()

    def _read_later(self, beside: Beside, ask: Callable[[Any], Found], most: int | None) -> Found:
        """What is found after the change, or within it as soon as that can be said."""
        self._is_wanted = True
        with self._waits(most):
            wait = GLANCE
            while not self._has_ended(beside, wait):
                with suppress(NotShown):
                    return ask(beside)
                wait = min(2 * wait, GLANCES)
            # Before the next change, however soon that is.
            with self._door:
                self.store._turn.acquire()
            return self._read_now(ask)

    @contextmanager
    def _waits(self, most: int | None) -> Iterator[None]:
        with self._ended:
            if most is not None and self._waiting >= most:
                raise Busy("many wait for a change that is being made; try again in a moment")
            self._waiting += 1
        try:
            yield
        finally:
            with self._ended:
                self._waiting -= 1

    def _has_ended(self, beside: Beside, seconds: float) -> bool:
        with self._ended:
            return self._ended.wait_for(lambda: self._beside is not beside, seconds)

    def _enter(self) -> bool:
        """Whether the store is ours to ask."""
        if not self._door.acquire(timeout=LONG):
            return False
        # Who is at the door is next: the writer has to pass it, too.
        try:
            began = time.monotonic()
            while not self.store._turn.acquire(timeout=GLANCE):
                if self._beside is not None:
                    return False
                self._is_wanted |= time.monotonic() - began > LONG
            return True
        finally:
            self._door.release()

    def _refresh(self) -> None:
        if self.store.is_readonly and time.monotonic() - self._looked_at > FRESH:
            self.store.refresh()
            self._looked_at = time.monotonic()

    @contextmanager
    def changing(self, points: int) -> Iterator[None]:
        """A change that is as much work as to insert this many points."""
        with self._door:
            pass
        if self._is_long(points):
            began = time.perf_counter()
            self._beside = Beside(self.store)
            self._price = time.perf_counter() - began
        self._is_wanted = False
        began = time.perf_counter()
        try:
            yield
        finally:
            self._pace = 0.5 * self._pace + 0.5 * (time.perf_counter() - began) / max(points, 1)
            with self._ended:
                beside, self._beside = self._beside, None
                self._ended.notify_all()
            if beside is not None:
                beside.close()

    def _is_long(self, points: int) -> bool:
        seconds = points * self._pace
        return seconds > LONG and (self._is_wanted or self._price < SHARE * seconds)


class LiveSource(StoreSource):
    """A store that is looked at while it is written: a page waits for no long change, where it can be helped."""

    def __init__(self, live: Live, title: str | None = None):
        super().__init__(live.store, title)
        self._live = live

    def _ask(self, ask: Callable[[Any], Found]) -> Found:
        return self._live.read(ask)

    def latest(self) -> int:
        return self._live.read(lambda store: int(store.version))
