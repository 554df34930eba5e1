"""The same work for every block: one after the other, in processes, or on many machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

from grinch._checks import check_count
from grinch.errors import unknown_name
from grinch.resolve.authors.runs.checkpoint import Checkpoint
from grinch.resolve.authors.runs.engines import Failure, Finished, in_processes, one_by_one

T = TypeVar("T")
R = TypeVar("R")


class Outcomes(NamedTuple, Generic[R]):
    """Results by block, the reasons by block that failed, and the blocks that Ctrl-C left undone."""

    results: dict[str, R]
    failures: dict[str, str]
    unfinished: list[str]


def run_blocks(
    function: Callable[[Sequence[T]], R],
    blocks: Mapping[str, Sequence[T]],
    *,
    jobs: int = 1,
    engine: Literal["joblib", "dask"] = "joblib",
    address: str | None = None,
    on_done: Callable[[str], object] | None = None,
    checkpoint: str | Path | None = None,
    stamp: str = "",
) -> Outcomes[R]:
    """Call ``function`` with each block, the largest first.

    A block that raises is listed in ``failures``, and the others go on. Ctrl-C ends the work; what is finished by then
    is returned.

    Parameters
    ----------
    function : callable
        Takes the records of one block. It must be picklable unless ``jobs`` is 1.
    blocks : mapping of str to sequence
        The records of each block.
    jobs : int
        How many processes on this machine; -1 for one on each core.
    engine : "joblib" or "dask"
        "dask" (``grinch[dask]``) runs on the workers of a dask cluster. Blocks of a worker that dies run elsewhere.
    address : str, optional
        The scheduler of the cluster, such as "tcp://10.0.0.1:8786"; without one, dask starts ``jobs`` workers here.
    on_done : callable, optional
        Called with the name of each block when it is finished, failed, or found in the checkpoint.
    checkpoint : path, optional
        A folder to which the result of each block is written when it is finished; results must be JSON-able.
        A block found there is not run again, as long as its records and the ``stamp`` are the same.
    stamp : str
        Identifies all that results depend on besides the records.

    Returns
    -------
    Outcomes
        ``results`` and ``failures`` by block, and the names of the blocks left ``unfinished`` by Ctrl-C.

    Examples
    --------
    >>> outcomes = run_blocks(max, {"a": [1, 2], "b": [3], "c": [None, 4, 5]})
    >>> outcomes.results
    {'a': 2, 'b': 3}
    >>> outcomes.failures["c"]  # doctest: +ELLIPSIS
    "TypeError: '>' not supported between instances of 'int' and 'NoneType'..."
    """
    if engine not in ("joblib", "dask"):
        raise unknown_name("engine", engine, ["joblib", "dask"])
    if jobs != -1:
        jobs = check_count("jobs (-1 for one on each core)", jobs, 1)
    if address is not None and engine != "dask":
        raise ValueError(f"address is that of a dask scheduler and needs engine='dask'; got engine={engine!r}")
    store = None if checkpoint is None else Checkpoint(checkpoint, stamp)
    largest_first = dict(sorted(blocks.items(), key=lambda item: -len(item[1])))
    done: dict[str, R | Failure] = {}
    try:
        earlier: dict[str, R] = {} if store is None else _finished_earlier(store, largest_first)
        left = {name: block for name, block in largest_first.items() if name not in earlier}
        for name in earlier:
            done[name] = earlier[name]
            if on_done is not None:
                on_done(name)
        with closing(_start(function, left, jobs, engine, address)) as finished:
            for name, outcome in finished:
                if store is not None and not isinstance(outcome, Failure):
                    store.save(name, left[name], outcome)
                done[name] = outcome
                if on_done is not None:
                    on_done(name)
    except KeyboardInterrupt:
        pass
    return Outcomes(
        {name: outcome for name in blocks if name in done and not isinstance(outcome := done[name], Failure)},
        {name: outcome.reason for name in blocks if name in done and isinstance(outcome := done[name], Failure)},
        [name for name in blocks if name not in done],
    )


def _finished_earlier(store: Checkpoint, blocks: Mapping[str, Sequence[T]]) -> dict[str, R]:
    found = {name: store.load(name, block) for name, block in blocks.items()}
    return {name: result for name, result in found.items() if result is not None}


def _start(
    function: Callable[[Sequence[T]], R], blocks: dict[str, Sequence[T]], jobs: int, engine: str, address: str | None
) -> Finished[R]:
    if engine == "dask" and blocks:
        from grinch.resolve.authors.runs.dask_engine import on_dask

        return on_dask(function, blocks, jobs, address)
    if jobs == 1 or len(blocks) < 2:
        return one_by_one(function, blocks)
    return in_processes(function, blocks, jobs)
