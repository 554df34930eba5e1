"""How many cores this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_limit: int | None = None


def cores() -> int:
    """The cores of the machine, or fewer where somebody has said so."""
    return _limit or os.cpu_count() or 1


@contextmanager
def limited_cores(n: int) -> Iterator[None]:
    """Use no more cores than this in what is made from here on, in all threads of the process.

    >>> with limited_cores(1):
    ...     cores()
    1
    """
    global _limit
    before, _limit = _limit, n
    try:
        yield
    finally:
        _limit = before
