"""Blocks on the workers of a dask cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from grinch._dask import local_client, remote_client
from grinch.resolve.authors.runs.engines import Failure, Finished, Work, attempt

T = TypeVar("T")
R = TypeVar("R")


def on_dask(work: Work[T, R], blocks: Mapping[str, Sequence[T]], jobs: int, address: str | None) -> Finished[R]:
    """Blocks as they finish. Results are fetched at once, so that they are safe when a worker dies."""
    what = "engine='dask'"
    n_workers = None if jobs == -1 else jobs
    with local_client(what, n_workers) if address is None else remote_client(what, address, "address") as client:
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
