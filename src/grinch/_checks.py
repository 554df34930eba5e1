"""Checks of parameters that every room needs, and the cores and memory of the machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.errors import unknown_name

_lock = threading.Lock()
_limits: list[int] = []


def check_count(name: str, value: Any, least: int, otherwise: str = "") -> int:
    """Return a whole number of at least ``least``; ``otherwise`` names what else is accepted."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}{otherwise}; got {value!r}")
    return int(value)


def check_name(parameter: str, received: object, accepted: Collection[str], more: str = "") -> None:
    """Refuse a name that is not one of those accepted; ``more`` says what else is."""
    if received not in accepted:
        raise unknown_name(parameter, received, accepted, more)


def check_positive(name: str, value: Any) -> float:
    """Return a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
        raise ValueError(f"{name} must be a positive number; got {value!r}")
    return float(value)


def check_flag(name: str, value: Any) -> bool:
    """Return a flag, which must be True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False; got {value!r}")
    return bool(value)


def check_number(name: str, value: Any, accepted: str) -> float:
    """Return a number that is not nan; ``accepted`` describes it."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or np.isnan(value):
        raise ValueError(f"{name} must be {accepted}; got {value!r}")
    return float(value)


def check_room_for_pairs(n: int, bytes_per_pair: float, who: str, instead: str) -> None:
    """Refuse, before it starts, work whose table of all pairs would not fit into memory."""
    needed, room = int(bytes_per_pair * n * n), available_memory()
    if room is not None and needed > room:
        raise MemoryError(
            f"{who} of {n:,} points needs {needed:,} bytes for all pairs of them, and {room:,} are free. Use {instead}"
        )


def available_memory() -> int | None:
    """Return the bytes that can be allocated without swapping; None where the system does not say."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return None


def count_rows(rows: Any) -> int:
    """Return the number of rows of an array, a sparse matrix or a list of records."""
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)


def taken(rows: Any, positions: npt.NDArray[np.integer]) -> Any:
    """Return the rows of an array, a sparse matrix or a list of records at these positions."""
    return rows[positions] if hasattr(rows, "shape") else [rows[i] for i in positions.tolist()]


def cores() -> int:
    """Return the number of cores to use: those of the machine, or fewer within :func:`limited_cores`."""
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
