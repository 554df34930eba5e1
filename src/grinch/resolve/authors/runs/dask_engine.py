"""Blocks on the workers of a dask cluster."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from grinch.errors import missing_extra
from grinch.resolve.authors.runs.engines import Failure, Finished, Work, attempt

T = TypeVar("T")
R = TypeVar("R")

SECONDS_FOR_A_WORKER = 60


def on_dask(work: Work[T, R], blocks: Mapping[str, Sequence[T]], jobs: int, address: str | None) -> Finished[R]:
    """Blocks as they finish. Results are fetched at once, so that they are safe when a worker dies."""
    with _client(jobs, address) as client:
        from distributed import as_completed

        # As a task, not scattered: scattered data is lost with its worker, and a task runs again elsewhere.
        shared = client.submit(_itself, work, pure=False)
        waiting = iter(blocks.items())
        names: dict[Any, str] = {}
        finished = as_completed()

        def submit_more() -> None:
            # One block per thread: more would queue behind a long block while other threads are free.
            n_threads = max(1, sum(client.nthreads().values()))
            for name, block in islice(waiting, max(0, n_threads - len(names))):
                future = client.submit(attempt, shared, block, pure=False)
                names[future] = name
                finished.add(future)

        submit_more()
        for future in finished:
            name, outcome = names.pop(future), _outcome(future)
            submit_more()
            yield name, outcome


def _outcome(future: Any) -> Any:
    try:
        return future.result()
    except Exception as error:  # those of the function itself are caught where it runs: this one is from dask
        return Failure(f"dask gave up: {type(error).__name__}: {error}")


def _itself(work: T) -> T:
    return work


@contextmanager
def _client(jobs: int, address: str | None) -> Iterator[Any]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise missing_extra("engine='dask'", "dask with distributed", "dask") from None
    if address is None:
        workers = None if jobs == -1 else jobs
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
            ) as cluster,
            Client(cluster) as client,
        ):
            client.run(_leave_interrupts_to_the_caller)
            yield client
        return
    try:
        client = Client(address, timeout=SECONDS_FOR_A_WORKER)
    except (OSError, ValueError) as error:
        raise ValueError(f"address must be that of a running dask scheduler; got {address!r}: {error}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
        except TimeoutError:
            raise ValueError(
                f"address {address!r} is that of a scheduler without workers; start one with: dask worker {address}"
            ) from None
        yield client


def _leave_interrupts_to_the_caller() -> None:
    """Ctrl-C reaches all processes of a terminal; workers that die of it would only print tracebacks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
