"""Slow computations in a thread of their own; whoever asks too early asks again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from typing import Any

MAX_RESULTS = 4


class Computing(Exception):
    """The result is not there yet: ask again in a moment."""


class Background:
    """Results by key, each computed once by a thread of its own; the last few are kept.

    >>> background = Background()
    >>> background.get("answer", lambda: 6 * 7, wait=5.0)
    42
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[Hashable, Future[Any]] = {}

    def get(self, key: Hashable, compute: Callable[[], Any], wait: float | None = 0.5) -> Any:
        """Return the result if it is there within ``wait`` seconds, or whenever; otherwise raise :class:`Computing`."""
        with self._lock:
            result = self._results.get(key)
            if result is None:
                result = self._results[key] = Future()
                # Not of a pool, whose threads would hold up the end of the process.
                threading.Thread(target=_run, args=(result, compute), daemon=True).start()
                for old in list(self._results)[:-MAX_RESULTS]:
                    del self._results[old]
        try:
            error = result.exception(wait)
        except NotDone:
            raise Computing from None
        if error is not None:
            with self._lock:
                self._results.pop(key, None)
            raise error
        return result.result()


def _run(result: Future[Any], compute: Callable[[], Any]) -> None:
    try:
        result.set_result(compute())
    except BaseException as error:  # raised to whoever asks
        result.set_exception(error)
