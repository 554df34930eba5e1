"""Tasks for workers, in a module that their processes can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import threadpoolctl


def square(folder, number):
    """Leave a file for each time that it is called."""
    (Path(folder) / f"{number}-{time.time_ns()}").touch()
    return {"square": number * number}


def called(folder):
    """How often ``square`` was called, by number."""
    numbers = [int(path.name.split("-")[0]) for path in Path(folder).iterdir()]
    return {number: numbers.count(number) for number in sorted(set(numbers))}


def square_unless(folder, number, refuse):
    if (Path(folder).parent / refuse).exists() and number == 3:
        raise ZeroDivisionError("three of them")
    return square(folder, number)


def square_or_die_once(folder, number):
    """Kill the worker in the middle of 3, the first time."""
    mark = Path(folder).parent / "died"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(folder, number)


def die(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def slow_square(folder, number):
    time.sleep(0.05)
    return square(folder, number)


def square_when_told(folder, number):
    """All but the first four wait until somebody says so."""
    while number > 3 and not (Path(folder).parent / "go").exists():
        time.sleep(0.01)
    return square(folder, number)


def kinds_of_result():
    import numpy as np

    return {"pair": (1, np.int64(2)), 3: np.float32(0.5)}


def take_memory(n_bytes):
    taken = b"x" * n_bytes
    time.sleep(5)
    return len(taken)


def an_object():
    return object()


def blas_threads():
    import numpy as np

    np.ones((2, 2)) @ np.ones((2, 2))
    return sorted({pool["num_threads"] for pool in threadpoolctl.threadpool_info()})


def noted(block, folder):
    """A block of dask as it is, and a file that says so; not for the empty ones by which dask learns the type."""
    if len(block) > 1:
        (Path(folder) / str(time.time_ns())).touch()
    return block
