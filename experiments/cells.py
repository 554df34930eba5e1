"""Cells of tables: each is written to a file as soon as it is measured, and stopped if it takes too long."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

resource: Any
try:
    import resource
except ImportError:  # Windows
    resource = None

FILE = "cells.jsonl"
OUT_OF_MEMORY = "out of memory"
NOT_RUN = "not run"
# The signal that ends a process over its limit of processor time.
SIGXCPU: int = getattr(signal, "SIGXCPU", 24)


class Cell(NamedTuple):
    """A measurement: numbers by name, the processor time of all of it, or why there are none."""

    found: dict[str, Any]
    cpu_seconds: float = 0.0
    failure: str = ""


class Cells:
    """A table of cells that are measured, or taken from an earlier run.

    Parameters
    ----------
    folder : path, optional
        Folder for finished cells, one line each, in cells.jsonl. Without it they are only in memory.
    prefix : str
        Prefix of the name of every cell, such as that of the table.
    limit : float, optional
        The seconds of processor time that a cell may take. With it, cells run in a process of their own, which is
        stopped when they are over it; without it, in this one.
    about : dict
        The conditions besides the name and data of a cell: version, scale, seed. Cells of other conditions are
        measured again.
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
        folder: Path | None = None,
        *,
        prefix: str = "",
        limit: float | None = None,
        about: dict[str, Any] | None = None,
        again: Sequence[str] = (),
        skip: Sequence[str] = (),
    ):
        self.path = None if folder is None else folder / FILE
        self.prefix, self.limit, self.about, self.again, self.skip = prefix, limit, about or {}, again, skip
        self.kept = {} if self.path is None else _read(self.path, self.about)
        self.n_measured = self.n_taken_over = 0
        self.worker: _Worker | None = None

    def __enter__(self) -> Cells:
        return self

    def __exit__(self, *error: object) -> None:
        if self.worker is not None:
            self.worker.stop()
            self.worker = None

    def measure(self, name: str, function: Callable[..., Any], *arguments: Any, data: str = "") -> Cell:
        """Measure ``function(*arguments)``, a function of a module; ``data`` is a digest of what it is measured on."""
        name = self.prefix + name
        key = (name, data)
        if key in self.kept and not _matches(name, self.again):
            self.n_taken_over += 1
            return self.kept[key]
        if _matches(name, self.skip):
            return Cell({}, failure=NOT_RUN)
        if self.limit is None:
            cell = _call(function, arguments)
        else:
            if self.worker is None or self.worker.is_over:
                self.worker = _Worker()
            cell = self.worker.run(function, arguments, self.limit)
        self.n_measured += 1
        self.kept[key] = cell
        # What failed for another reason than its size is tried again the next time.
        if self.path is not None and cell.failure in ("", over(self.limit), OUT_OF_MEMORY):
            _append(self.path, {"cell": name, "data": data, **self.about, **cell._asdict()})
        return cell


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


def _read(path: Path, about: dict[str, Any]) -> dict[tuple[str, str], Cell]:
    kept: dict[tuple[str, str], Cell] = {}
    if not path.exists():
        return kept
    for line in path.read_text(encoding="utf-8").splitlines():
        # The last line is not whole if the machine went down in the middle of it.
        with suppress(json.JSONDecodeError, KeyError, TypeError):
            row = json.loads(line)
            if all(row[name] == value for name, value in about.items()):
                kept[row["cell"], row["data"]] = Cell(*(row[field] for field in Cell._fields))
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


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Cell:
    began = time.process_time()
    try:
        found = function(*arguments)
    except MemoryError:
        return Cell({}, time.process_time() - began, OUT_OF_MEMORY)
    return Cell(found, round(time.process_time() - began, 2))


class _Worker:
    """A process that measures one cell after the other, so that what they share is loaded and compiled once."""

    def __init__(self) -> None:
        # A copy of a process with threads, such as that of a progress bar, may hang.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        self.is_over = False
        theirs.close()

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...], limit: float) -> Cell:
        self.connection.send((function, arguments, limit))
        # The system stops it at the limit of processor time; where it cannot, it gets as long by the clock.
        if resource is None and not self.connection.poll(limit):
            self.stop()
            return Cell({}, limit, over(limit))
        try:
            answer: Cell = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode
            self.stop()
            if code == -SIGXCPU:
                return Cell({}, limit, over(limit))
            return Cell({}, failure=OUT_OF_MEMORY if code == -9 else f"ended with code {code}")
        return answer

    def stop(self) -> None:
        """End the process; the next cell needs another worker."""
        self.is_over = True
        self.process.kill()
        self.process.join()
        self.connection.close()


def _work(connection: Connection) -> None:
    # Ctrl-C goes to the whole group; the process that was asked decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, BrokenPipeError):
        while True:
            function, arguments, limit = connection.recv()
            _allow(limit)
            try:
                cell = _call(function, arguments)
            except Exception as error:
                cell = Cell({}, failure=f"{type(error).__name__}: {error}")
            connection.send(cell)


def _allow(seconds: float) -> None:
    """Let this process have this much more processor time."""
    if resource is not None:
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        limit = math.ceil(time.process_time() + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))
