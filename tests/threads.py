"""Calls in threads of their own."""

from __future__ import annotations

import threading
import time

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


def wait_until(is_so):
    """Wait until something is so, which other threads make so."""
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end, "it waits for ever"
        time.sleep(0.001)
