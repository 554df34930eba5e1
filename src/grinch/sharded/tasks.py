"""A task as its worker sees it: done once, and written down when it is finished."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from grinch._checks import limited_cores
from grinch.errors import cause_of
from grinch.io.write import digest, replacing
from grinch.sharded.files import noting_files


class Task(NamedTuple):
    """A call, and the file that says it was done."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    path: Path
    stamp: str
    n_cores: int = 1
    """How many cores it may use; a worker's core is its own, others may be other workers'."""


class Done(NamedTuple):
    """What the file of a finished task says."""

    result: Any
    seconds: float
    worker: str
    peak_memory: int
    files: dict[str, int]
    """The files that it wrote, as seen from its own, and their sizes."""


class Failed(NamedTuple):
    """Why there is no result of a task."""

    reason: str


def stamp_of(stage: str, name: str, function: Callable[..., Any], stamp: str) -> str:
    """A short name of all that a result depends on."""
    kind = function if hasattr(function, "__qualname__") else type(function)
    return digest("\n".join((stage, name, f"{kind.__module__}.{kind.__qualname__}", stamp)))


def find(task: Task) -> Done | None:
    """What is known of a task; None if it is not finished, its file is damaged or of another run, or one it wrote is
    gone or has another size.
    """
    try:
        kept = json.loads(task.path.read_text(encoding="utf-8"))
        if kept["stamp"] != task.stamp:
            return None
        files = dict(kept["files"])
        if any((task.path.parent / name).stat().st_size != size for name, size in files.items()):
            return None
        return Done(kept["result"], float(kept["seconds"]), str(kept["worker"]), int(kept["peak_memory"]), files)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def perform(task: Task) -> Done | Failed:
    """Do a task on this worker, unless it was done: a task runs again if its worker dies before that is known."""
    found = find(task)
    if found is not None:
        return found
    if not task.path.parent.is_dir():
        return Failed(f"worker {_worker_name()} does not see {str(task.path.parent)!r}; all workers must reach it")
    start = time.perf_counter()
    try:
        # What an earlier run wrote under other settings no longer counts once its files are written over.
        task.path.unlink(missing_ok=True)
        with one_thread(), limited_cores(task.n_cores), noting_files() as written:
            result = task.function(*task.args)
        files = {Path(os.path.relpath(path, task.path.parent)).as_posix(): size for path, size in written.items()}
        _write(task, Done(result, time.perf_counter() - start, _worker_name(), peak_memory(), files))
    except Exception as error:
        return Failed(cause_of(error))
    # As a later run reads it: lists for tuples, names of numbers for numbers as keys.
    return find(task) or Failed(f"{str(task.path)!r} cannot be read, right after it was written")


def _write(task: Task, done: Done) -> None:
    try:
        text = json.dumps({"stamp": task.stamp, **done._asdict()}, default=_plain)
    except (TypeError, ValueError) as error:
        raise TypeError(f"a task must return what JSON can hold, and large results in files; {error}") from None
    with replacing(task.path) as file:
        file.write(text)


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError(f"got {type(value).__name__}")


def _worker_name() -> str:
    from distributed import get_worker

    try:
        return str(get_worker().address)
    except ValueError:
        return "none"  # called directly


_limits_lock = threading.Lock()
_limits: dict[str, Any] = {"tasks": 0, "limiter": None}


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra in the thread of its task alone, so that results do not depend on the machine.

    Limits are those of the process: they are set by the first of the tasks that run at a time, and lifted by the last.
    """
    from threadpoolctl import threadpool_limits

    with _limits_lock:
        if _limits["tasks"] == 0:
            _limits["limiter"] = threadpool_limits(1)
        _limits["tasks"] += 1
    try:
        yield
    finally:
        with _limits_lock:
            _limits["tasks"] -= 1
            if _limits["tasks"] == 0:
                _limits["limiter"].restore_original_limits()


def peak_memory() -> int:
    """The most memory that this process has had at a time, in bytes; 0 where the system does not say."""
    with suppress(OSError, ValueError), open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    with suppress(ImportError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return 0
