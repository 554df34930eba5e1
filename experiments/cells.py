"""Cells of tables: each is written to a file as soon as it is measured, and stopped if it takes too long."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from fnmatch import fnmatchcase
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from experiments.keys import key_of

FILE = "cells.jsonl"
OUT_OF_MEMORY = "out of memory"
NOT_RUN = "not run"
# Beside each other; each has a core and BLAS thread of its own, so that processor time is what one core takes.
WORKERS = min(2, os.cpu_count() or 1)
# A cell that does not notice that its time is up is ended after as many seconds more.
GRACE = 60.0


class Cell(NamedTuple):
    """A measurement: numbers by name, the processor time of all of it, or why there are none."""

    found: dict[str, Any]
    cpu_seconds: float = 0.0
    failure: str = ""


class TimeUp(Exception):
    """The processor time of a cell is used up; how far it came is the argument, as figures by name."""


class Task(NamedTuple):
    """A cell to measure: its name and key, and the call."""

    name: str
    key: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Cells:
    """Cells that are measured, or taken from an earlier run if nothing that they depend on has changed since.

    Parameters
    ----------
    path : path, optional
        File for finished cells, one line each. Without it they are only in memory.
    limit : float, optional
        The seconds of processor time that a cell may take. With it, a cell that is not there yet is only noted down in
        ``missing``, for :meth:`measure_missing`; without it, it is measured at once, in this process.
    again, skip : sequence of str
        Patterns, as of file names: cells to measure though they are there, and cells not to measure.

    Examples
    --------
    >>> cells = Cells()
    >>> cells.measure("the answer", dict, {"answer": 42})
    Cell(found={'answer': 42}, cpu_seconds=0.0, failure='')
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        limit: float | None = None,
        again: Sequence[str] = (),
        skip: Sequence[str] = (),
    ):
        self.path, self.limit, self.again, self.skip = path, limit, again, skip
        self.kept = {} if path is None else _read(path, limit)
        self.measured: set[tuple[str, str]] = set()
        self.used: dict[tuple[str, str], Cell] = {}
        self.missing: list[Task] = []

    def measure(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        data: str = "",
        rooms: Iterable[str] = (),
    ) -> Cell:
        """Return the cell of ``function(*arguments)``, a function of a module, or note down that it is missing.

        ``data`` is a digest of what it is measured on, ``rooms`` are the parts of the package that compute it.
        """
        key = name, key_of(function, arguments, data, rooms)
        if key in self.kept and (key in self.measured or not _matches(name, self.again)):
            self.used[key] = self.kept[key]
            return self.kept[key]
        if _matches(name, self.skip):
            return Cell({}, failure=NOT_RUN)
        task = Task(*key, function, arguments)
        if self.limit is not None:
            self.missing.append(task)
            return Cell({}, failure=NOT_RUN)
        self._keep(task, _call(function, arguments))
        return self.used.setdefault(key, self.kept[key])

    def measure_missing(self, say: Callable[[str], None] = lambda text: None) -> None:
        """Measure what is missing, by processes beside each other."""
        assert self.limit is not None
        queue = _Queue(self.missing)
        self.missing = []
        workers = [_Worker(queue, core, self.limit) for core in range(WORKERS)]
        with ThreadPoolExecutor(len(workers)) as pool:
            try:
                for done in as_completed([pool.submit(worker.run_all, self._keep, say) for worker in workers]):
                    done.result()
            finally:
                queue.tasks.clear()
                for worker in workers:
                    worker.stop()

    def _keep(self, task: Task, cell: Cell) -> None:
        key = task.name, task.key
        self.kept[key] = cell
        self.measured.add(key)
        # What failed for another reason than its size is tried again the next time.
        if self.path is not None and cell.failure in ("", over(self.limit), OUT_OF_MEMORY):
            row = {"cell": task.name, "key": task.key, "limit": self.limit}
            _append(self.path, {**row, **cell._asdict()})

    def tidy(self) -> None:
        """Write the file with only the cells that were used since it was read, in the order of their names."""
        assert self.path is not None
        rows = [
            {"cell": name, "key": key, "limit": self.limit, **cell._asdict()}
            for (name, key), cell in sorted(self.used.items())
            if cell.failure in ("", over(self.limit), OUT_OF_MEMORY)
        ]
        new = self.path.with_suffix(".new")
        new.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        new.replace(self.path)


def over(limit: float | None) -> str:
    """Return the failure of a cell that was stopped.

    >>> over(600), over(30)
    ('more than 10 min', 'more than 30 s')
    """
    if limit is None:
        return ""
    return f"more than {limit / 60:g} min" if limit >= 60 else f"more than {limit:g} s"


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _read(path: Path, limit: float | None) -> dict[tuple[str, str], Cell]:
    kept: dict[tuple[str, str], Cell] = {}
    if not path.exists():
        return kept
    for line in path.read_text(encoding="utf-8").splitlines():
        # The last line is not whole if the machine went down in the middle of it.
        with suppress(json.JSONDecodeError, KeyError, TypeError):
            row = json.loads(line)
            cell = Cell(*(row[field] for field in Cell._fields))
            if cell.failure in ("", OUT_OF_MEMORY, over(limit)):
                kept[row["cell"], row["key"]] = cell
    return kept


def _append(path: Path, row: dict[str, Any]) -> None:
    text = json.dumps(row) + "\n"
    with open(path, "a+b") as file:
        # After a line that was cut off, on a line of its own.
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            text = text if file.read(1) == b"\n" else "\n" + text
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], limit: float | None = None) -> Cell:
    began = time.process_time()
    try:
        found, failure = function(*arguments), ""
    except MemoryError:
        found, failure = {}, OUT_OF_MEMORY
    except TimeUp as raised:
        found, failure = raised.args[0], over(limit)
    except KeyboardInterrupt:
        if limit is None:
            raise
        found, failure = {}, over(limit)
    return Cell(found, round(time.process_time() - began, 2), failure)


def _row(task: Task) -> str:
    return task.name.rpartition(", ")[0]


class _Queue:
    """Tasks for several workers, each of which goes on with the data that it has in memory."""

    def __init__(self, tasks: list[Task]):
        self.tasks, self.total = list(tasks), len(tasks)
        self.under_way: dict[int, str] = {}
        self.lock = threading.Lock()

    def next(self, worker: int) -> Task | None:
        with self.lock:
            if not self.tasks:
                return None
            own, others = self.under_way.get(worker), {data for at, data in self.under_way.items() if at != worker}
            first = [str(task.arguments[:1]) for task in self.tasks]
            at = next((i for i, data in enumerate(first) if data == own), None)
            if at is None:
                at = next((i for i, data in enumerate(first) if data not in others), 0)
            self.under_way[worker] = first[at]
            return self.tasks.pop(at)


class _Worker:
    """A process that measures one cell after the other, so that what they share is loaded and compiled once."""

    def __init__(self, queue: _Queue, core: int, limit: float):
        self.queue, self.core, self.limit = queue, core, limit
        self.process: BaseProcess | None = None
        self.connection: Connection | None = None

    def run_all(self, keep: Callable[[Task, Cell], None], say: Callable[[str], None]) -> None:
        while (task := self.queue.next(self.core)) is not None:
            say(f"{task.name} ({self.queue.total - len(self.queue.tasks)} of {self.queue.total})")
            cell = self._measure(task)
            with self.queue.lock:
                keep(task, cell)
                if cell.failure:
                    # Others of its row would take as long; what is missing then is noted down again.
                    row = _row(task)
                    self.queue.tasks = [other for other in self.queue.tasks if _row(other) != row]

    def _measure(self, task: Task) -> Cell:
        if self.connection is None:
            # A copy of a process with threads, such as that of a progress bar, may hang.
            context = get_context("spawn")
            self.connection, theirs = context.Pipe()
            self.process = context.Process(target=_work, args=(theirs, self.core), daemon=True)
            self.process.start()
            theirs.close()
        try:
            self.connection.send((task.function, task.arguments, self.limit))
            # The system stops it at the limit of processor time; where it cannot, it gets as long by the clock.
            if not hasattr(signal, "setitimer") and not self.connection.poll(self.limit):
                self.stop()
                return Cell({}, self.limit, over(self.limit))
            answer: Cell = self.connection.recv()
        except (EOFError, OSError):
            assert self.process is not None
            self.process.join()
            code = self.process.exitcode
            self.stop()
            if hasattr(signal, "SIGPROF") and code == -signal.SIGPROF:
                return Cell({}, self.limit, over(self.limit))
            return Cell({}, failure=OUT_OF_MEMORY if code == -9 else f"ended with code {code}")
        return answer

    def stop(self) -> None:
        """End the process; the next cell starts another."""
        if self.process is not None and self.connection is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
        self.process = self.connection = None


def _work(connection: Connection, core: int) -> None:
    # Ctrl-C goes to a whole group; the process that was asked decides what it means, and ends this one.
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    _take_core(core)
    with suppress(EOFError, BrokenPipeError):
        while True:
            function, arguments, limit = connection.recv()
            try:
                _allow(limit)
                cell = _call(function, arguments, limit)
            except Exception as error:
                cell = Cell({}, failure=f"{type(error).__name__}: {error}")
            finally:
                _allow(0)
            connection.send(cell)


def _take_core(core: int) -> None:
    """Use one core and one thread of BLAS."""
    from threadpoolctl import threadpool_limits

    if hasattr(os, "sched_setaffinity"):
        there = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {there[core % len(there)]})
    threadpool_limits(1)


def _allow(seconds: float) -> None:
    """Let this process have this much processor time from now on; 0: as much as it wants."""
    if hasattr(signal, "setitimer"):
        # As Ctrl-C, which leaves what it interrupts in order.
        signal.signal(signal.SIGVTALRM, lambda *_: signal.raise_signal(signal.SIGINT))
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        # It ends the process, wherever it is.
        signal.setitimer(signal.ITIMER_PROF, seconds and seconds + GRACE)
