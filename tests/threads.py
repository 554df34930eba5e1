"""Calls in threads of their own."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

# Nothing takes that long: where a thread waits for ever, a test ends with an error instead.
SECONDS = 30


class Call(threading.Thread):
    """A call in a thread of its own, which begins at once."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self._call, self._result, self._error = call, None, None
        self.start()

    def run(self):
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error

    def result(self):
        """Return what it returned, or raise what it raised, once it has ended."""
        self.join(SECONDS)
        assert not self.is_alive(), "it waits for ever"
        if self._error is not None:
            raise self._error
        return self._result


@contextmanager
def held(enter):
    """Another thread is in a context; the call, which returns what it was given, and that are yielded."""
    entered, leave, given = threading.Event(), threading.Event(), []

    def stay():
        with enter() as view:
            given.append(view)
            entered.set()
            assert leave.wait(SECONDS)
            return view

    call = Call(stay)
    assert entered.wait(SECONDS)
    try:
        yield call, given[0]
    finally:
        leave.set()
        call.result()


def wait_until(is_so):
    """Wait until something is so, which other threads make so."""
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end, "it waits for ever"
        time.sleep(0.001)
