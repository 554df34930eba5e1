"""Tasks on workers, so that what is finished is never done twice."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import grinch
from grinch._checks import check_count
from grinch._dask import SECONDS_FOR_A_WORKER, import_distributed, local_client, remote_client, wait_for_a_worker
from grinch.errors import ShardError
from grinch.io.write import replacing
from grinch.progress import progress_bar
from grinch.sharded.tasks import Done, Failed, Task, find, perform, stamp_of

log = logging.getLogger("grinch.sharded")
WHAT = "grinch.sharded"
# Seconds: it takes some hundredths until a thread that is free has its next task.
SHORT = 0.5
# How often it is asked whether there are workers at all, while no task finishes.
SECONDS_BETWEEN_LOOKS = 5
NO_WORKER = f"no worker of the cluster was left, and none came for {SECONDS_FOR_A_WORKER} seconds; start some again"
# A task that is alone in its stage may use the cores that other workers of its machine leave idle, up to this many.
CORES_OF_ONE = 4


@dataclass(frozen=True)
class StageReport:
    """What a stage took. Seconds and memory of tasks include those that an earlier run has finished."""

    seconds: float
    """By the clock, in this run."""
    task_seconds: float
    """Of all tasks together."""
    n_tasks: int
    n_found: int
    """How many of them were finished before."""
    peak_memory: int
    """The most bytes that the process of a task had."""


class Workers:
    """The workers of a dask cluster, and what they have done.

    Parameters
    ----------
    client : Client or str, optional
        A dask client, which is left open, or the address of a scheduler. Without one, a cluster of processes is started
        on this machine, and stopped at the end.
    n_workers : int, optional
        The number of those processes; by default, one for every core.
    memory_limit : int or str, optional
        Bytes that each of them may take, such as ``"6GB"``; by default, its share of the machine's memory.
    verbose : bool
        Show the progress of each stage.

    Examples
    --------
    >>> import tempfile
    >>> from grinch.sharded.running import Workers
    >>> with Workers(n_workers=1) as workers:  # doctest: +SKIP
    ...     workers.run("powers", pow, {"a": (2, 3), "b": (3, 2)}, Path(tempfile.mkdtemp()))
    {'a': 8, 'b': 9}
    """

    def __init__(
        self, client: Any = None, n_workers: int | None = None, memory_limit: Any = None, verbose: bool = False
    ):
        if client is not None and (n_workers is not None or memory_limit is not None):
            raise ValueError(
                "n_workers and memory_limit are for workers that are started here; with a client, leave them out"
            )
        self.given, self.memory_limit, self.verbose = client, memory_limit, verbose
        self.n_workers = None if n_workers is None else check_count("n_workers", n_workers, 1, " or None")
        self.client: Any = None
        self.stages: dict[str, StageReport] = {}
        self._seen_by_all: set[Path] = set()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self.client = self._open.enter_context(self._connected())
        if self.dashboard_link:
            log.info("dashboard: %s", self.dashboard_link)
        return self

    def __exit__(self, *error: object) -> None:
        self.client = None
        self._open.close()

    @property
    def dashboard_link(self) -> str | None:
        """Where to watch the workers in a browser, if there is such a place."""
        if self.client is None or (self.given is None and importlib.util.find_spec("bokeh") is None):
            return None
        return self.client.dashboard_link or None

    def run(
        self,
        stage: str,
        function: Callable[..., Any],
        tasks: Mapping[str, tuple[Any, ...]],
        folder: Path,
        *,
        stamp: str = "",
        weights: Mapping[str, float] | None = None,
        unit: str = "points",
        advance: Callable[[float], object] | None = None,
    ) -> dict[str, Any]:
        """Call a function on the workers for each task, by name, with its arguments; results in the order of the tasks.

        What the function returns must be small and fit into JSON. A worker that has finished a task writes this to
        ``folder/stage/name.json``, and a task that has such a file with the same ``stamp`` is not done again. The
        heaviest go first; ``advance`` is called with the weight of each that is finished.
        """
        start, kept = time.perf_counter(), self._prepare(stage, folder)
        n_cores = 1 if len(tasks) > 1 else CORES_OF_ONE
        waiting = {
            name: Task(
                function, args, kept / f"{_file_name(name)}.json", stamp_of(stage, name, function, stamp), n_cores
            )
            for name, args in tasks.items()
        }
        weight = {name: 1.0 if weights is None else float(weights[name]) for name in tasks}
        done = {name: found for name, task in waiting.items() if (found := find(task)) is not None}
        n_found = len(done)
        left = sorted((name for name in waiting if name not in done), key=lambda name: -weight[name])
        with self._bar(stage, sum(weight.values()), "tasks" if weights is None else unit) as step:
            for name in done:
                _tell(weight[name], step, advance)
            failed: dict[str, Failed] = {}
            with closing(self._outcomes(stage, {name: waiting[name] for name in left}, failed)) as outcomes:
                for name, outcome in outcomes:
                    done[name] = outcome
                    _tell(weight[name], step, advance)
        self.stages[stage] = _report(done.values(), time.perf_counter() - start, n_found)
        if failed:
            first, *others = failed
            raise ShardError(stage, first, failed[first].reason, str(folder), len(others))
        return {name: done[name].result for name in tasks}

    def _outcomes(
        self, stage: str, tasks: Mapping[str, Task], failed: dict[str, Failed]
    ) -> Generator[tuple[str, Done], None, None]:
        """Tasks as they finish. After one has failed, those under way are waited for, and no other is started."""
        waiting, run = iter(tasks.items()), secrets.token_hex(4)
        names: dict[Any, str] = {}
        seconds: list[float] = []

        def submit_more() -> None:
            if failed:
                return
            # One for each thread: more would wait behind a long task while other threads are free. Of short tasks twice
            # as many, since a thread would wait for as long as it works.
            n_threads = max(1, sum(self.client.nthreads().values()))
            most = n_threads * (2 if seconds and sum(seconds) / len(seconds) < SHORT else 1)
            for name, task in islice(waiting, max(0, most - len(names))):
                future = self.client.submit(perform, task, key=f"{stage}-{name}-{run}", pure=False)
                names[future] = name

        try:
            submit_more()
            while names:
                finished = self._some_finished(names)
                if not finished:
                    failed |= dict.fromkeys(names.values(), Failed(NO_WORKER))
                    return
                outcomes = {future: _outcome(future) for future in finished}
                found = {names.pop(future): outcome for future, outcome in outcomes.items() if outcome is not None}
                failed |= {name: outcome for name, outcome in found.items() if isinstance(outcome, Failed)}
                done = {name: outcome for name, outcome in found.items() if isinstance(outcome, Done)}
                seconds += [outcome.seconds for outcome in done.values()]
                submit_more()
                yield from done.items()
        finally:
            if names:
                with suppress(Exception):  # the scheduler may be what is gone
                    self.client.cancel(list(names), force=True)

    def _some_finished(self, futures: Iterable[Any]) -> set[Any]:
        """Those that are finished, at least one; none if all workers are gone and no other comes."""
        from distributed import wait

        known, alone_since = list(futures), time.monotonic()
        while True:
            with suppress(TimeoutError, CancelledError, asyncio.CancelledError):
                wait(known, timeout=SECONDS_BETWEEN_LOOKS, return_when="FIRST_COMPLETED")
            finished = {future for future in known if future.done()}
            if self.client.status != "running" or self.client.nthreads():
                alone_since = time.monotonic()
            if finished or time.monotonic() - alone_since > SECONDS_FOR_A_WORKER:
                return finished

    def _prepare(self, stage: str, folder: Path) -> Path:
        """The folder of a stage, which every worker must see."""
        if self.client is None:
            raise RuntimeError("Workers are there inside a with statement: with Workers(...) as workers: ...")
        kept = Path(folder).absolute() / _file_name(stage)
        kept.mkdir(parents=True, exist_ok=True)
        if kept.parent not in self._seen_by_all:
            self._check_workers(kept.parent)
            self._seen_by_all.add(kept.parent)
        return kept

    def _check_workers(self, folder: Path) -> None:
        """All workers have this version and reach the folder: better known now than in the middle of a run."""
        token, path = secrets.token_hex(16), folder / f".seen-{secrets.token_hex(8)}"
        try:
            with replacing(path) as file:
                file.write(token)
            seen = self.client.run(_look, str(path), on_error="return")
        finally:
            path.unlink(missing_ok=True)
        for worker, answer in seen.items():
            if not isinstance(answer, OSError):  # gone since it was asked
                _check_answer(worker, answer, token, folder)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        if self.given is None:
            with local_client(WHAT, self.n_workers, self.memory_limit) as client:
                yield client
        elif isinstance(self.given, str):
            with remote_client(WHAT, self.given, "client") as client:
                yield client
        else:
            yield _checked(self.given)

    @contextmanager
    def _bar(self, stage: str, total: float, unit: str) -> Iterator[Callable[[float], None] | None]:
        if not self.verbose:
            yield None
            return
        with progress_bar(stage, int(total), unit) as step:
            yield step


class Here:
    """The same without workers: task by task, in this process. For runs that are over before workers have started."""

    def __init__(self) -> None:
        self.stages: dict[str, StageReport] = {}

    def run(
        self,
        stage: str,
        function: Callable[..., Any],
        tasks: Mapping[str, tuple[Any, ...]],
        folder: Path,
        *,
        stamp: str = "",
    ) -> dict[str, Any]:
        """As :meth:`Workers.run`."""
        start, kept, done = time.perf_counter(), Path(folder).absolute() / _file_name(stage), dict[str, Done]()
        kept.mkdir(parents=True, exist_ok=True)
        n_found = 0
        for name, args in tasks.items():
            task = Task(function, args, kept / f"{_file_name(name)}.json", stamp_of(stage, name, function, stamp))
            n_found += find(task) is not None
            outcome = perform(task)
            if isinstance(outcome, Failed):
                raise ShardError(stage, name, outcome.reason, str(folder), 0)
            done[name] = outcome
        self.stages[stage] = _report(done.values(), time.perf_counter() - start, n_found)
        return {name: done[name].result for name in tasks}


def _checked(client: Any) -> Any:
    distributed = import_distributed(WHAT)
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise ValueError(
            "client must be None, the address of a dask scheduler such as 'tcp://10.0.0.1:8786', or a"
            f" distributed.Client that is not asynchronous; got {client!r:.80}"
        )
    wait_for_a_worker(client, "client", client.scheduler.address)
    return client


def _outcome(future: Any) -> Done | Failed | None:
    """What became of a task; None if the worker that has the answer is gone, and another does the task again."""
    from distributed.scheduler import KilledWorker

    try:
        outcome: Done | Failed = future.result(SECONDS_BETWEEN_LOOKS)
        return outcome
    except TimeoutError:
        return None
    except KilledWorker as error:
        return Failed(
            f"{error.allowed_failures + 1} workers died while they ran it, the last at {error.last_worker.address}"
            " (out of memory? give workers more of it, or make shards smaller)"
        )
    except (CancelledError, asyncio.CancelledError):
        return Failed("the connection to the scheduler of the cluster was lost, or someone else cancelled it")
    # Those of the function itself are caught where it runs: this one is from dask.
    except Exception as error:
        return Failed(f"dask gave up: {type(error).__name__}: {error}")


def _look(path: str) -> tuple[str, str | None]:
    """The version of grinch on this worker, and what it reads in a file."""
    with suppress(OSError):
        return grinch.__version__, Path(path).read_text(encoding="utf-8")
    return grinch.__version__, None


def _check_answer(worker: str, answer: Any, token: str, folder: Path) -> None:
    if isinstance(answer, BaseException):
        raise ValueError(
            f"client must have workers with grinch {grinch.__version__}, the version that runs here; the one at"
            f" {worker} answered {type(answer).__name__}: {answer}"
        )
    version, found = answer
    if version != grinch.__version__:
        raise ValueError(
            f"client must have workers with grinch {grinch.__version__}, the version that runs here; the one at"
            f" {worker} has {version}. Install the same version there"
        )
    if found != token:
        raise ValueError(
            f"folder must be on a file system that all workers reach under the same path; the worker at {worker}"
            f" does not see {str(folder)!r}. Choose a folder of a shared file system"
        )


def _file_name(name: str) -> str:
    """A name that is a name of a file as it is."""
    if not name or name[0] == "." or not all(letter.isalnum() or letter in "-_. " for letter in name):
        raise ValueError(f"names of stages and tasks must be letters, digits, '-', '_' and '.'; got {name!r}")
    return name


def _tell(weight: float, *listeners: Callable[[float], object] | None) -> None:
    for listener in listeners:
        if listener is not None:
            listener(weight)


def _report(done: Iterable[Done], seconds: float, n_found: int) -> StageReport:
    known = list(done)
    total = sum(task.seconds for task in known)
    return StageReport(seconds, total, len(known), n_found, max((task.peak_memory for task in known), default=0))
