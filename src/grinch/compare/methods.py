"""Comparison of systems on the same data, each in a process of its own: cost and quality of their trees."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._checks import check_name
from grinch._labels import label_codes
from grinch.compare.worker import FORKS
from grinch.estimators.checks import check_values, placing
from grinch.estimators.registry import SYSTEMS, make_system
from grinch.io.write import replacing, write_table


class Outcome(NamedTuple):
    """Figures by measure, one for each order, and what went wrong, if something did."""

    figures: dict[str, list[float]]
    failure: str = ""
    why: str = ""


class Worker:
    """Runs jobs in :mod:`grinch.compare.worker`.

    Starting it takes seconds, most of them for importing, so it is started once and forks for each job; where it cannot
    fork, each job gets a worker of its own. ``folder`` is for what it says on the error stream.
    """

    def __init__(self, folder: Path):
        self.errors = folder / "errors.txt"
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def run(self, job: dict[str, Any], limit: float | None, progress: Callable[[int], None]) -> Outcome:
        """Run one job, for at most ``limit`` seconds an order."""
        self._send(job)
        try:
            outcome = self._listen(limit, progress)
        except BaseException:
            self.stop()
            raise
        if not FORKS:
            self.stop()
        return outcome

    def _send(self, job: dict[str, Any]) -> None:
        if self.process is None:
            self._start()
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()

    def _start(self) -> None:
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "grinch.compare.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=FORKS,  # so that it and its copies can be stopped together
            )

    def _listen(self, limit: float | None, progress: Callable[[int], None]) -> Outcome:
        assert self.process is not None
        assert self.process.stdout is not None
        outcome, done, is_over = Outcome({}), 0, threading.Event()
        timer = threading.Timer(limit or 0, self._kill, [is_over])
        try:
            for line in self.process.stdout:
                timer.cancel()
                message: dict[str, Any] = json.loads(line) if line.endswith("\n") else {}
                if "begun" in message and limit is not None:
                    timer = threading.Timer(limit, self._kill, [is_over])
                    timer.start()
                elif "failed" in message:
                    outcome = outcome._replace(failure=message["failed"], why=message["why"])
                elif "found" in message:
                    for measure, value in message["found"].items():
                        outcome.figures.setdefault(measure, []).append(value)
                    done += 1
                    progress(done)
                elif "ended" in message:
                    return outcome if message["ended"] == 0 else self._died(outcome.figures, message["ended"])
        finally:
            timer.cancel()
        code = self._exit_code()
        if is_over.is_set():
            return outcome._replace(failure=f"over {limit:,.0f} s", why="stopped by the time limit")
        return self._died(outcome.figures, code)

    def _exit_code(self) -> int:
        """Return the exit code of a worker that is gone; not 0, as it did not say that the job is done."""
        assert self.process is not None
        code = self.process.wait()
        self.stop()
        return code or 1

    def _died(self, figures: dict[str, list[float]], code: int) -> Outcome:
        if code == -9:
            return Outcome(figures, "out of memory", "killed by the system")
        if code < 0:
            return Outcome(figures, "failed", f"ended by signal {-code}")
        said = self.errors.read_text(errors="replace").strip().splitlines()
        return Outcome(figures, "failed", said[-1] if said else f"ended with code {code}")

    def _kill(self, is_over: threading.Event | None = None) -> None:
        """Kill the worker and its fork, after which there is nothing more to read."""
        if is_over is not None:
            is_over.set()
        assert self.process is not None
        with suppress(ProcessLookupError):  # it may be gone already, and its copy too
            if FORKS:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()

    def stop(self) -> None:
        """End the worker and its fork; the next job starts another."""
        if self.process is None:
            return
        self._kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process = None


# What is measured, and how a table calls it.
MEASURES = {"purity": "purity", "f1": "best F1", "seconds": "seconds", "memory": "MB", "depth": "depth"}


class Row(NamedTuple):
    """What one method did: a list of figures for each measure, and what went wrong, if something did."""

    method: str
    figures: dict[str, list[float]]
    failure: str = ""
    why: str = ""

    def mean(self, measure: str) -> float | None:
        values = self.figures.get(measure)
        return float(np.mean(values)) if values else None

    def deviation(self, measure: str) -> float | None:
        values = self.figures.get(measure)
        return float(np.std(values)) if values else None


class Method(NamedTuple):
    """A system and settings of one's own, such as ``mb-hac:buffer_size=500``."""

    title: str
    name: str
    settings: dict[str, Any]


def parse_method(text: str) -> Method:
    """Parse the name of a method and the settings after its colons.

    >>> parse_method("grinch:cap=100:graft=false").settings
    {'cap': 100, 'graft': False}
    """
    name, *settings = text.strip().split(":")
    check_name("method", name, SYSTEMS)
    found = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"a setting of a method is written name=value, as in grinch:cap=100; got {setting!r}")
        if key in ("linkage", "metric"):
            raise ValueError(f"{key} is the same for all methods that are compared: --{key} {value}")
        try:
            # Python's True, False and None are meant as well as JSON's.
            found[key] = json.loads(value.lower() if value in ("True", "False") else value.replace("None", "null"))
        except (json.JSONDecodeError, RecursionError):
            found[key] = value
    make_system(name, **found)
    return Method(text.strip(), name, found)


def compare(
    vectors: npt.NDArray[Any],
    labels: npt.NDArray[Any] | None,
    methods: Sequence[str],
    *,
    linkage: str = "average",
    metric: str | None = None,
    orders: int = 3,
    seed: int = 0,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> Iterator[Row]:
    """Run each method on several shuffled orders of the same points, and yield a row for each.

    A method that fails, does not fit in memory or takes too long is reported as such, and the others go on.

    Parameters
    ----------
    vectors, labels
        The points, and their classes (None or nan for those without one), or None.
    methods : sequence of str
        Names of systems, with settings after colons if wanted: ``"grinch"``, ``"mb-hac:buffer_size=500"``.
    linkage, metric
        For all of them; see :func:`~grinch.estimators.registry.make_system`.
    orders, seed
        How many shuffled orders, and the seed of the first.
    time_limit : float, optional
        Seconds for one fit with the measuring of its tree.
    memory_limit : int, optional
        Bytes for a method's process.
    progress : callable, optional
        Called with the method and the number of orders done.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> for row in compare(X, y, ["online", "hac"], orders=2):
    ...     print(row.method, len(row.figures["purity"]), row.failure or "done")
    online 2 done
    hac 2 done
    """
    chosen = [parse_method(text) for text in methods]
    if not chosen:
        raise ValueError(f"methods must name at least one of {', '.join(SYSTEMS)}; got none")
    if scipy.sparse.issparse(vectors):
        raise ValueError(
            "vectors must be a dense array to compare methods, most of which make rows dense; got a sparse matrix. Use"
            " vectors.toarray() if it fits in memory, or reduce the columns (sklearn.decomposition.TruncatedSVD)"
        )
    # Once, instead of in every method.
    with placing():
        check_values(vectors)
    for method in chosen:
        make_system(method.name, linkage=linkage, metric=metric, **method.settings)
    with tempfile.TemporaryDirectory(prefix="grinch-compare-") as folder:
        job = {
            "vectors": str(Path(folder) / "vectors.npy"),
            "labels": None if labels is None else str(Path(folder) / "labels.npy"),
            "linkage": linkage,
            "metric": metric,
            "seeds": list(range(seed, seed + orders)),
            "memory_limit": memory_limit,
        }
        np.save(str(job["vectors"]), np.asarray(vectors))
        if labels is not None:
            # As numbers, nan for points without one: what is saved executes no code on load.
            codes = label_codes(labels)
            np.save(str(job["labels"]), np.where(codes < 0, np.nan, codes))
        with Worker(Path(folder)) as worker:
            for method in chosen:
                trial = {**job, "method": method.name, "settings": method.settings}
                found = worker.run(trial, time_limit, partial(progress or (lambda title, done: None), method.title))
                yield Row(method.title, *found)


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write a line for each method: mean and deviation of each measure, and what went wrong."""
    measures = [f"{measure}_{kind}" for measure in MEASURES for kind in ("mean", "deviation")]
    with replacing(path) as file:
        write_table(file, ["method", "orders", *measures, "failure"], map(_cells, rows))


def _cells(row: Row) -> list[object]:
    cells: list[object] = [row.method, len(row.figures.get("seconds", []))]
    for measure in MEASURES:
        scale = 1e-6 if measure == "memory" else 1.0
        for value in (row.mean(measure), row.deviation(measure)):
            cells.append("" if value is None else f"{value * scale:.6g}")
    return [*cells, row.failure]
