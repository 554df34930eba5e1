"""Tasks in this process, in processes of this machine or on a Dask cluster, with a checkpoint for each that is done."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing import spawn
from pathlib import Path
from typing import Any, NamedTuple, Self

import grinch
from grinch._checks import check_count, limited_cores
from grinch.errors import ShardError, cause_of, missing_extra
from grinch.io.write import digest, recording_writes, replacing
from grinch.progress import progress_bar

log = logging.getLogger("grinch.sharded")
WHAT = "grinch.sharded"
# Seconds until a cluster without workers is given up, and between two checks for workers while no task finishes.
SECONDS_FOR_A_WORKER, SECONDS_BETWEEN_CHECKS = 60, 5
NO_WORKER = f"no worker of the cluster was left, and none came for {SECONDS_FOR_A_WORKER} seconds; start some again"
# Seconds: it takes some hundredths until a thread that is free has its next task.
SHORT = 0.5
# A task that is alone in its stage may use the cores that other workers of its machine leave idle, up to this many.
CORES_OF_ONE = 4
# Tasks keep nothing in a worker, so there is nothing to write to disk when memory is short; and a worker that pauses
# until memory is free waits for itself. One that takes more than its limit is stopped, and its task runs elsewhere.
MEMORY_RULES = {f"distributed.worker.memory.{rule}": False for rule in ("target", "spill", "pause")}
# By default a local cluster checks 15 seconds after a worker was lost whether it is back. If not, for instance because
# it has just died once more or the machine is busy, its place stays empty: two such, and a run is without workers.
EVERY_WORKER_COMES_BACK = {"distributed.deploy.lost-worker-timeout": "520 weeks"}


# Checkpoints ----------------------------------------------------------------------------------------------------------


class Done(NamedTuple):
    """The result of a finished task, and what it took."""

    result: Any
    seconds: float = 0.0
    worker: str = ""
    peak_memory: int = 0
    files: dict[str, int] = {}  # noqa: RUF012 (nobody writes to it)
    """The files that the task wrote, relative to its checkpoint, and their sizes."""


class Failed(NamedTuple):
    """The reason why a task has no result."""

    reason: str


Outcomes = Generator[tuple[str, Done | Failed], None, None]


def read_checkpoint(path: Path, stamp: str) -> Done | None:
    """Return the outcome of a task; None if its file is not there, damaged or has another stamp, or one of the files
    that the task wrote is gone or has another size.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        done = Done(**{name: content[name] for name in Done._fields if name in content})
        sizes = {name: (path.parent / name).stat().st_size for name in done.files}
        return done if content["stamp"] == stamp and sizes == done.files else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def write_checkpoint(path: Path, **content: Any) -> None:
    """Write the stamp and the outcome of a task; the file is complete or not there at all."""
    try:
        text = json.dumps(content, default=_as_python)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the result of a task must be JSON-able, with large arrays in files; {error}") from None
    with replacing(path) as file:
        file.write(text)


def _as_python(value: Any) -> Any:
    """Return a number of numpy as one of Python."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError(f"got {type(value).__name__}")


# Tasks ----------------------------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """A call, and its checkpoint."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    path: Path
    stamp: str
    n_cores: int = 1
    """Cores that it may use; a worker's core is its own, others may be other workers'."""


def stamp_of(stage: str, name: str, function: Callable[..., Any], stamp: str) -> str:
    """Return a short name of everything that a result depends on."""
    kind = function if hasattr(function, "__qualname__") else type(function)
    return digest("\n".join((stage, name, f"{kind.__module__}.{kind.__qualname__}", stamp)))


def attempt(function: Callable[..., Any], *args: Any) -> Done | Failed:
    """Call a function; an exception becomes a failure, with the line that raised it.

    >>> attempt(sum, [1, 2]).result, attempt(max, [])
    (3, Failed(reason='ValueError: max() arg is an empty sequence'))
    """
    start = time.perf_counter()
    try:
        return Done(function(*args), time.perf_counter() - start)
    except Exception as error:
        return Failed(cause_of(error))


def perform(task: Task) -> Done | Failed:
    """Run a task on this worker and write its checkpoint, unless there is one.

    A task runs again if its worker dies before the answer has arrived.
    """
    found = read_checkpoint(task.path, task.stamp)
    if found is not None:
        return found
    if not task.path.parent.is_dir():
        return Failed(f"worker {_worker_name()} does not see {str(task.path.parent)!r}; all workers must reach it")
    try:
        # What an earlier run wrote under other settings no longer counts once its files are written over.
        task.path.unlink(missing_ok=True)
        start = time.perf_counter()
        with one_thread(), limited_cores(task.n_cores), recording_writes() as written:
            result = task.function(*task.args)
        files = {Path(os.path.relpath(path, task.path.parent)).as_posix(): size for path, size in written.items()}
        done = Done(result, time.perf_counter() - start, _worker_name(), peak_memory(), files)
        write_checkpoint(task.path, stamp=task.stamp, **done._asdict())
    except Exception as error:
        return Failed(cause_of(error))
    # As a later run reads it: lists for tuples, names of numbers for numbers as keys.
    again = read_checkpoint(task.path, task.stamp)
    return again or Failed(f"{str(task.path)!r} cannot be read, right after it was written")


def _worker_name() -> str:
    with suppress(ImportError, ValueError):  # no worker, when it is called directly
        from distributed import get_worker

        return str(get_worker().address)
    return "none"


_limits_lock = threading.Lock()
_limits: dict[str, Any] = {"tasks": 0, "limiter": None}


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit linear algebra to the thread of its task, so that results do not depend on the machine.

    Limits are those of the process: the first of the tasks that run at a time sets them, and the last lifts them.
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
    """Return the most memory that this process has had at a time, in bytes; 0 where the system does not say."""
    with suppress(OSError, ValueError), open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    with suppress(ImportError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return 0


# Where tasks run ------------------------------------------------------------------------------------------------------


def _never() -> bool:
    return False


def run_here(
    call: Callable[..., Done | Failed], tasks: Mapping[str, tuple[Any, ...]], is_stopped: Callable[[], bool] = _never
) -> Outcomes:
    """Yield the outcome of each task, run in this process; none is started when ``is_stopped``."""
    for name, args in tasks.items():
        if is_stopped():
            return
        yield name, call(*args)


def run_in_processes(call: Callable[..., Done | Failed], tasks: Mapping[str, tuple[Any, ...]], n_jobs: int) -> Outcomes:
    """Yield outcomes as they finish, of tasks in processes of this machine. If one dies, only its task fails."""
    left = dict(tasks)
    while left:
        started: list[str] = []
        try:
            with closing(_pool(call, left.copy(), n_jobs, started)) as finished:
                for name, outcome in finished:
                    del left[name]
                    yield name, outcome
        except BrokenProcessPool:
            # Any of those under way may have been the cause: each of them runs again, in a process of its own.
            for name in started:
                if name in left:
                    yield name, _run_alone(call, left.pop(name))


def _run_alone(call: Callable[..., Done | Failed], args: tuple[Any, ...]) -> Done | Failed:
    try:
        with closing(_pool(call, {"": args}, 2, [])) as finished:
            return next(finished)[1]
    except BrokenProcessPool:
        return Failed("the process that worked on it died (killed, or out of memory?)")


def _pool(
    call: Callable[..., Done | Failed], tasks: Mapping[str, tuple[Any, ...]], n_jobs: int, started: list[str]
) -> Outcomes:
    from joblib import Parallel, delayed

    def calls() -> Iterator[Any]:
        for name, args in tasks.items():
            started.append(name)
            yield delayed(_named)(name, call, args)

    yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)(calls())


def _named(name: str, call: Callable[..., Done | Failed], args: tuple[Any, ...]) -> tuple[str, Done | Failed]:
    return name, call(*args)


def run_on_client(
    client: Any,
    call: Callable[..., Done | Failed],
    tasks: Mapping[str, tuple[Any, ...]],
    stage: str,
    is_stopped: Callable[[], bool] = _never,
    are_alike: bool = False,
) -> Outcomes:
    """Yield outcomes as they finish, of tasks on the workers of a Dask cluster.

    The tasks of a worker that dies run elsewhere. When ``is_stopped``, those under way are waited for, and no other is
    started. Answers are fetched at once, so that they are safe when a worker dies. ``are_alike`` if all tasks take
    about as long.
    """
    waiting, run = iter(tasks.items()), secrets.token_hex(4)
    names: dict[Any, str] = {}
    seconds: list[float] = []

    def submit_more() -> None:
        if is_stopped():
            return
        # One for each thread: more would wait behind a long task while other threads are free. Where all are short,
        # twice as many, since a thread would wait for as long as it works.
        n_threads = max(1, sum(client.nthreads().values()))
        limit = n_threads * (2 if are_alike and seconds and sum(seconds) / len(seconds) < SHORT else 1)
        for name, args in islice(waiting, max(0, limit - len(names))):
            names[client.submit(call, *args, key=f"{stage}-{name}-{run}", pure=False)] = name

    try:
        submit_more()
        while names:
            finished = _wait_for_some(client, names)
            if not finished:
                yield from ((name, Failed(NO_WORKER)) for name in names.values())
                return
            outcomes = {future: _outcome(future) for future in finished}
            # No answer: its worker is gone, and another does the task again.
            found = {names.pop(future): outcome for future, outcome in outcomes.items() if outcome is not None}
            seconds += [outcome.seconds for outcome in found.values() if isinstance(outcome, Done)]
            for name, outcome in found.items():
                if isinstance(outcome, Failed):
                    yield name, outcome
            submit_more()
            for name, outcome in found.items():
                if isinstance(outcome, Done):
                    yield name, outcome
    finally:
        if names:
            with suppress(Exception):  # the scheduler may be what is gone
                client.cancel(list(names), force=True)


def _wait_for_some(client: Any, futures: Iterable[Any]) -> set[Any]:
    """Return those that are finished, at least one; none if all workers are gone and no other comes."""
    from distributed import wait

    known, alone_since = list(futures), time.monotonic()
    while True:
        with suppress(TimeoutError, CancelledError, asyncio.CancelledError):
            wait(known, timeout=SECONDS_BETWEEN_CHECKS, return_when="FIRST_COMPLETED")
        finished = {future for future in known if future.done()}
        if client.status != "running" or client.nthreads():
            alone_since = time.monotonic()
        if finished or time.monotonic() - alone_since > SECONDS_FOR_A_WORKER:
            return finished


def _outcome(future: Any) -> Done | Failed | None:
    """Return the outcome of a task; None if the worker that has the answer is gone."""
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        outcome: Done | Failed = future.result(SECONDS_BETWEEN_CHECKS)
        return outcome
    except (TimeoutError, CommClosedError):
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


# Clients of a cluster -------------------------------------------------------------------------------------------------


def import_distributed(what: str) -> Any:
    """Return the package ``distributed``, or raise an error that names what needs it and how to install it."""
    try:
        import distributed
    except ImportError:
        raise missing_extra(what, "dask with distributed", "dask") from None
    return distributed


@contextmanager
def connected(
    what: str, client: Any, parameter: str = "client", n_workers: int | None = None, memory_limit: Any = None
) -> Iterator[Any]:
    """Yield a Dask client: the given one, that of a scheduler at an address, or that of processes started here.

    ``what`` and ``parameter`` are the names of the caller and of ``client`` in errors.
    """
    distributed = import_distributed(what)
    with ExitStack() as stack:
        if client is None:
            yield stack.enter_context(_local_client(distributed, what, n_workers, memory_limit))
            return
        address = client if isinstance(client, str) else None
        if address is not None:
            try:
                client = stack.enter_context(distributed.Client(address, timeout=SECONDS_FOR_A_WORKER))
            except (OSError, ValueError) as error:
                raise ValueError(
                    f"{parameter} must be that of a running dask scheduler; got {address!r}: {error}"
                ) from None
        elif not isinstance(client, distributed.Client) or client.asynchronous:
            raise ValueError(
                f"{parameter} must be None, the address of a dask scheduler such as 'tcp://10.0.0.1:8786', or a"
                f" distributed.Client that is not asynchronous; got {client!r:.80}"
            )
        address = address or client.scheduler.address
        try:
            client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
        except TimeoutError:
            raise ValueError(
                f"{parameter} {address!r} is that of a scheduler without workers; start one with: dask worker {address}"
            ) from None
        yield client


@contextmanager
def _local_client(distributed: Any, what: str, n_workers: int | None, memory_limit: Any) -> Iterator[Any]:
    """Start a cluster of processes on this machine with a thread each; by default a process for every core."""
    import dask

    class LeaveInterruptsToTheCaller(distributed.WorkerPlugin):  # type: ignore[misc]
        """Ctrl-C reaches all processes of a terminal; workers that die of it would only print tracebacks."""

        name = "grinch-interrupts"

        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    with _workers_without_the_script(), dask.config.set(MEMORY_RULES | EVERY_WORKER_COMES_BACK):
        try:
            cluster = distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                memory_limit="auto" if memory_limit is None else memory_limit,
                dashboard_address="127.0.0.1:0",  # any port that is free, for this machine alone
                silence_logs=logging.CRITICAL,
            )
        except RuntimeError as error:
            raise RuntimeError(
                f"{what} could not start its workers on this machine ({error}). Is memory short? Call it again, or with"
                " fewer workers"
            ) from error
        with cluster, distributed.Client(cluster) as client:
            # Also for workers that are started later, in place of one that died.
            client.register_plugin(LeaveInterruptsToTheCaller())
            yield client


@contextmanager
def _workers_without_the_script() -> Iterator[None]:
    """Start workers without running the caller's script in them again, as new processes do otherwise.

    So scripts need no ``if __name__ == "__main__"``. What the script defines goes to workers with the tasks.
    """
    prepare = spawn.get_preparation_data

    def without_main(name: str) -> dict[str, Any]:
        data = prepare(name)
        return {key: data[key] for key in data if not key.startswith("init_main")} if "Dask" in name else data

    spawn.get_preparation_data = without_main
    try:
        yield
    finally:
        spawn.get_preparation_data = prepare


# Stages ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """Time, memory and bytes of a stage. Those of tasks include what an earlier run has finished."""

    seconds: float
    """By the clock, in this run."""
    task_seconds: float
    """Of all tasks together."""
    tasks: int
    found: int
    """Tasks that an earlier run had finished."""
    peak_memory: int
    """The most bytes that the process of a task had by its end."""
    read: int = 0
    """Bytes of rows that tasks read, as far as they report them."""
    written: int = 0
    """Bytes of files that tasks wrote."""


class Here:
    """Stages whose tasks run one after the other in this process."""

    verbose = False

    def __init__(self) -> None:
        self.stages: dict[str, Stage] = {}

    def run(
        self,
        stage: str,
        function: Callable[..., Any],
        tasks: Mapping[str, tuple[Any, ...]],
        folder: Path,
        *,
        stamp: str = "",
    ) -> dict[str, Any]:
        """Call a function for each task, by name, with its arguments; return results in the order of the tasks.

        What the function returns must be small and fit into JSON. When a task is finished, its result is written to
        ``folder/stage/name.json``, and a task that has such a file with the same ``stamp`` is not run again.
        """
        start, place = time.perf_counter(), Path(folder).absolute() / _file_name(stage)
        self._prepare(place)
        n_cores = 1 if len(tasks) > 1 else CORES_OF_ONE
        done: dict[str, Done] = {}
        failed: dict[str, Failed] = {}
        left: dict[str, tuple[Task]] = {}
        for name, args in tasks.items():
            path, mark = place / f"{_file_name(name)}.json", stamp_of(stage, name, function, stamp)
            found = read_checkpoint(path, mark)
            if found is None:
                left[name] = (Task(function, args, path, mark, n_cores),)
            else:
                done[name] = found
        n_found = len(done)
        bar = progress_bar(stage, len(tasks), "tasks") if self.verbose else nullcontext(lambda steps: None)
        with bar as advance, closing(self._outcomes(stage, left, lambda: bool(failed))) as outcomes:
            advance(n_found)
            for name, outcome in outcomes:
                if isinstance(outcome, Failed):
                    failed[name] = outcome
                else:
                    done[name] = outcome
                    advance(1)
        spent, peak = sum(task.seconds for task in done.values()), [task.peak_memory for task in done.values()]
        self.stages[stage] = Stage(time.perf_counter() - start, spent, len(done), n_found, max(peak, default=0))
        if failed:
            first, *others = failed
            raise ShardError(stage, first, failed[first].reason, str(folder), len(others))
        return {name: done[name].result for name in tasks}

    def _prepare(self, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)

    def _outcomes(self, stage: str, tasks: Mapping[str, tuple[Task]], is_stopped: Callable[[], bool]) -> Outcomes:
        return run_here(perform, tasks, is_stopped)


class Workers(Here):
    """Stages whose tasks run on the workers of a Dask cluster.

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
    >>> with Workers(n_workers=1) as workers:  # doctest: +SKIP
    ...     workers.run("powers", pow, {"a": (2, 3), "b": (3, 2)}, Path(tempfile.mkdtemp()))
    {'a': 8, 'b': 9}
    """

    def __init__(
        self, client: Any = None, n_workers: int | None = None, memory_limit: Any = None, verbose: bool = False
    ):
        super().__init__()
        if client is not None and (n_workers is not None or memory_limit is not None):
            raise ValueError(
                "n_workers and memory_limit are for workers that are started here; with a client, leave them out"
            )
        self.given, self.memory_limit, self.verbose = client, memory_limit, verbose
        self.n_workers = None if n_workers is None else check_count("n_workers", n_workers, 1, " or None")
        self.client: Any = None
        self._checked_folders: set[Path] = set()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        client = connected(WHAT, self.given, n_workers=self.n_workers, memory_limit=self.memory_limit)
        self.client = self._open.enter_context(client)
        if self.dashboard_link:
            log.info("dashboard: %s", self.dashboard_link)
        return self

    def __exit__(self, *error: object) -> None:
        self.client = None
        self._open.close()

    @property
    def dashboard_link(self) -> str | None:
        """The address at which to watch the workers in a browser, if there is one."""
        if self.client is None or (self.given is None and importlib.util.find_spec("bokeh") is None):
            return None
        return self.client.dashboard_link or None

    def _outcomes(self, stage: str, tasks: Mapping[str, tuple[Task]], is_stopped: Callable[[], bool]) -> Outcomes:
        return run_on_client(self.client, perform, tasks, stage, is_stopped, are_alike=True)

    def _prepare(self, place: Path) -> None:
        """Make the folder of a stage. All workers must see it and have this version: better known now than later."""
        if self.client is None:
            raise RuntimeError("Workers are there inside a with statement: with Workers(...) as workers: ...")
        super()._prepare(place)
        folder = place.parent
        if folder in self._checked_folders:
            return
        token, path = secrets.token_hex(16), folder / f".seen-{secrets.token_hex(8)}"
        try:
            with replacing(path) as file:
                file.write(token)
            answers = self.client.run(version_and_text, str(path), on_error="return")
        finally:
            path.unlink(missing_ok=True)
        for worker, answer in answers.items():
            if not isinstance(answer, OSError):  # gone since it was asked
                check_answer(worker, answer, token, folder)
        self._checked_folders.add(folder)


def version_and_text(path: str) -> tuple[str, str | None]:
    """Return the version of grinch on this worker, and the text of a file as it sees it."""
    with suppress(OSError):
        return grinch.__version__, Path(path).read_text(encoding="utf-8")
    return grinch.__version__, None


def check_answer(worker: str, answer: Any, token: str, folder: Path) -> None:
    """Refuse a worker of another version, or one that does not see the folder."""
    version, text = answer if not isinstance(answer, BaseException) else (None, None)
    if version != grinch.__version__:
        has = f"has {version}. Install the same version there" if version else ""
        raise ValueError(
            f"client must have workers with grinch {grinch.__version__}, the version that runs here; the one at"
            f" {worker} {has or f'answered {type(answer).__name__}: {answer}'}"
        )
    if text != token:
        raise ValueError(
            f"folder must be on a file system that all workers reach under the same path; the worker at {worker}"
            f" does not see {str(folder)!r}. Choose a folder of a shared file system"
        )


def _file_name(name: str) -> str:
    """Return a name that can be the name of a file, or refuse it."""
    if not name or name[0] == "." or not all(letter.isalnum() or letter in "-_. " for letter in name):
        raise ValueError(f"names of stages and tasks must be letters, digits, '-', '_' and '.'; got {name!r}")
    return name
