"""Threads on one estimator: writers take turns, and readers go on beside a writer with what was there before it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from grinch.estimators.shown import NOT_FITTED, Shown

# A call that takes longer than this lets readers see what was there before it; a shorter one they wait for.
LONG = 0.02
# To show that may take this share of the time of the call, if nobody waited for an earlier one.
SHARE = 0.2
# Points of a first call that is taken to be long.
MANY = 16
# How often a reader that waits looks whether there is something to see.
GLANCE = 0.002

Found = TypeVar("Found")


class Turns:
    """Who is using an estimator.

    One thread at a time is inside. A writer that takes long shows what was there before, and readers use that; to all
    others, and to short calls, readers wait, and come in before the next writer.
    """

    def __init__(self) -> None:
        self.shown: Shown | None = None
        """What readers see until the writer inside is done; None if they have to wait for it."""
        self._inside: Any = threading.RLock()
        self._door = threading.Lock()
        self._owner: int | None = None
        # Writers; readers that have just come do not pass them.
        self._waiting: set[int] = set()
        self._began, self._count = 0.0, 0
        # Seconds per point of the last call, and seconds that it took to show what was there.
        self._pace: float | None = None
        self._price = 0.0
        self._is_wanted = self._was_read = False

    def is_mine(self) -> bool:
        """Whether this thread is inside."""
        return self._owner == threading.get_ident()

    def write(self, change: Callable[[], Found]) -> Found:
        """What ``change`` returns, alone inside, after everyone who is waiting for that."""
        me = threading.get_ident()
        with self._door:
            pass
        try:
            self._waiting.add(me)
            self._inside.acquire()
            self._waiting.discard(me)
            self._owner, self._count = me, 0
            return change()
        finally:
            self._waiting.discard(me)
            if self._inside._is_owned():
                self._end()
            self._leave()

    def _end(self) -> None:
        if self._count:
            self._pace = (time.perf_counter() - self._began) / self._count
        if self.shown is not None:
            self._is_wanted = self._was_read
        self.shown, self._was_read = None, False

    def begin(self, count: int, show: Callable[[], Shown | None]) -> None:
        """The writer inside is about to change as much as ``count`` points do: from here on, there is no way back."""
        if self._count:
            return
        if self.shown is None and threading.active_count() > 1 and self._is_long(count):
            began = time.perf_counter()
            self.shown = show()
            self._price = time.perf_counter() - began
        self._began, self._count = time.perf_counter(), count

    def _is_long(self, count: int) -> bool:
        if self._pace is None:
            return count > MANY
        seconds = count * self._pace
        return seconds > LONG and (self._is_wanted or self._price < SHARE * seconds)

    def read(self, live: Callable[[], Found], shown: Callable[[Shown], Found | None]) -> Found:
        """What ``live`` finds, alone inside; or ``shown``, beside a writer, unless that is None."""
        if self.is_mine():
            return live()
        found = (None if self._waiting else self._enter(live, 0.0)) or self._look(shown)
        if found is None:
            # The next writer has to wait at the door until this has been inside.
            with self._door:
                while found is None:
                    found = self._enter(live, GLANCE) or self._look(shown)
        return found[0]

    def _enter(self, live: Callable[[], Found], timeout: float) -> tuple[Found] | None:
        """What ``live`` finds; None if somebody else stayed inside."""
        try:
            if not self._inside.acquire(timeout=timeout):
                return None
            self._owner = threading.get_ident()
            return (live(),)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Be no longer inside, wherever between coming and going an interrupt hit."""
        if self._inside._is_owned():
            self._owner = None
            while self._inside._is_owned():
                self._inside.release()

    def _look(self, shown: Callable[[Shown], Found | None]) -> tuple[Found] | None:
        """What can be seen from beside a writer."""
        seen = self.shown
        self._is_wanted = True
        if seen is None:
            return None
        self._was_read = True
        found = shown(seen)
        return None if found is None else (found,)

    def show_not_fitted(self) -> None:
        """The writer inside is the first: until it is done, there is nothing."""
        self.shown = NOT_FITTED
