"""A client of a dask cluster: of one that runs already, or of one that is started on this machine."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import spawn
from typing import Any

from grinch.errors import missing_extra

SECONDS_FOR_A_WORKER = 60
# Tasks keep nothing in a worker, so there is nothing to write to disk when memory is short; and a worker that pauses
# until memory is free waits for itself. One that takes more than its limit is stopped, and its task runs elsewhere.
MEMORY_RULES = {f"distributed.worker.memory.{rule}": False for rule in ("target", "spill", "pause")}
# By default a local cluster looks 15 seconds after a worker was lost whether it is back. If not, for instance because
# it has just died once more or the machine is busy, its place stays empty: two such, and a run is without workers.
EVERY_WORKER_COMES_BACK = {"distributed.deploy.lost-worker-timeout": "520 weeks"}


def import_distributed(what: str) -> Any:
    """The package, or an error that says what needs it and how to install it."""
    try:
        import distributed
    except ImportError:
        raise missing_extra(what, "dask with distributed", "dask") from None
    return distributed


@contextmanager
def local_client(what: str, n_workers: int | None = None, memory_limit: Any = None) -> Iterator[Any]:
    """A client of a cluster of processes on this machine with a thread each; by default a process for every core."""
    distributed = import_distributed(what)
    import dask

    with (
        _workers_without_the_script(),
        dask.config.set(MEMORY_RULES | EVERY_WORKER_COMES_BACK),
        _local_cluster(distributed, what, n_workers, memory_limit) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.register_plugin(_interrupts_plugin(distributed))
        yield client


def _local_cluster(distributed: Any, what: str, n_workers: int | None, memory_limit: Any) -> Any:
    try:
        return distributed.LocalCluster(
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


@contextmanager
def remote_client(what: str, address: str, parameter: str) -> Iterator[Any]:
    """A client of the scheduler at an address; ``parameter`` is what an error calls it."""
    distributed = import_distributed(what)
    try:
        client = distributed.Client(address, timeout=SECONDS_FOR_A_WORKER)
    except (OSError, ValueError) as error:
        raise ValueError(f"{parameter} must be that of a running dask scheduler; got {address!r}: {error}") from None
    with client:
        wait_for_a_worker(client, parameter, address)
        yield client


def wait_for_a_worker(client: Any, parameter: str, address: str) -> None:
    """Refuse a cluster where no worker comes up."""
    try:
        client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
    except TimeoutError:
        raise ValueError(
            f"{parameter} {address!r} is that of a scheduler without workers; start one with: dask worker {address}"
        ) from None


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


def _interrupts_plugin(distributed: Any) -> Any:
    """Also for workers that are started later, in place of one that died."""

    class LeaveInterruptsToTheCaller(distributed.WorkerPlugin):  # type: ignore[misc]
        """Ctrl-C reaches all processes of a terminal; workers that die of it would only print tracebacks."""

        name = "grinch-interrupts"

        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return LeaveInterruptsToTheCaller()
