"""What takes a while is made aside, and asked for again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

MOST_KEPT = 4


class Computing(Exception):
    """Not there yet: ask again in a moment."""


class Later:
    """Results by key, each made once by a thread of its own; the last few are kept.

    >>> later = Later()
    >>> later.get("answer", lambda: 6 * 7, wait=5.0)
    42
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Hashable, _Made] = {}

    def get(self, key: Hashable, make: Callable[[], Any], wait: float = 0.5) -> Any:
        """The result, if it is there within ``wait`` seconds; otherwise raises :class:`Computing`."""
        with self._lock:
            made = self._known.get(key)
            if made is None:
                made = self._known[key] = _Made(make)
                for old in list(self._known)[:-MOST_KEPT]:
                    del self._known[old]
        if not made.is_done.wait(wait):
            raise Computing
        if made.error is not None:
            with self._lock:
                self._known.pop(key, None)
            raise made.error
        return made.result


class _Made:
    def __init__(self, make: Callable[[], Any]):
        self.is_done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        threading.Thread(target=self._run, args=(make,), daemon=True).start()

    def _run(self, make: Callable[[], Any]) -> None:
        try:
            self.result = make()
        except BaseException as error:  # raised where it is asked for
            self.error = error
        finally:
            self.is_done.set()
