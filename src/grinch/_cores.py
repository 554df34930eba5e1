"""How many cores this process may use."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_limits: list[int] = []


def cores() -> int:
    """The cores of the machine, or fewer where somebody has said so."""
    with _lock:
        return min([os.cpu_count() or 1, *_limits])


@contextmanager
def limited_cores(n: int) -> Iterator[None]:
    """Use no more cores than this in what is made from here on, in all threads of the process.

    Several at a time may end in any order: the smallest that is left counts.

    >>> with limited_cores(1):
    ...     cores()
    1
    """
    with _lock:
        _limits.append(n)
    try:
        yield
    finally:
        with _lock:
            _limits.remove(n)
