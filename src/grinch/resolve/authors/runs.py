"""From blocks of records to author ids: block by block, in processes or on a Dask cluster, with checkpoints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from grinch import running
from grinch._checks import check_count, check_name
from grinch.io.write import digest
from grinch.resolve.authors.block_clustering import stable_ids
from grinch.resolve.authors.record import Record
from grinch.running import Done, Failed, attempt

if TYPE_CHECKING:
    from grinch.resolve.authors.model import Model


T = TypeVar("T")
R = TypeVar("R")
SIDES = ("author a", "author b")


# Blocks ---------------------------------------------------------------------------------------------------------------


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
        Processes on this machine; -1 for one on each core.
    engine : "joblib" or "dask"
        "dask" (``grinch[dask]``) runs on the workers of a dask cluster. Blocks of a worker that dies run elsewhere.
    address : str, optional
        The scheduler of the cluster, such as "tcp://10.0.0.1:8786"; without one, dask starts ``jobs`` workers here.
    on_done : callable, optional
        Called with the name of each block when it is finished, has failed, or is in the checkpoint.
    checkpoint : path, optional
        A folder to which the result of each block is written when it is finished; results must be JSON-able.
        A block that is there is not run again, as long as its records and the ``stamp`` are the same.
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
    check_name("engine", engine, ("joblib", "dask"))
    if jobs != -1:
        jobs = check_count("jobs (-1 for one on each core)", jobs, 1)
    if address is not None and engine != "dask":
        raise ValueError(f"address is that of a dask scheduler and needs engine='dask'; got engine={engine!r}")
    kept = {} if checkpoint is None else _checkpoints(Path(checkpoint), blocks, stamp)
    done: dict[str, Done | Failed] = {}
    try:
        with closing(_outcomes(function, blocks, kept, jobs, engine, address)) as outcomes:
            for name, outcome in outcomes:
                done[name] = outcome
                if on_done is not None:
                    on_done(name)
    except KeyboardInterrupt:
        pass
    return Outcomes(
        {name: one.result for name in blocks if isinstance(one := done.get(name), Done)},
        {name: one.reason for name in blocks if isinstance(one := done.get(name), Failed)},
        [name for name in blocks if name not in done],
    )


def _checkpoints(folder: Path, blocks: Mapping[str, Sequence[T]], stamp: str) -> dict[str, tuple[Path, str]]:
    """Return the file of each block, and the stamp of its records and of all else that its result depends on."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"checkpoint must be a folder that can be made; got {str(folder)!r}: {error}") from None
    readable = {name: re.sub(r"[^\w-]+", "-", name)[:40] for name in blocks}
    return {
        name: (folder / f"{readable[name]}-{digest(name)[:8]}.json", digest(f"{stamp}\n{list(block)!r}"))
        for name, block in blocks.items()
    }


def _outcomes(
    function: Callable[[Sequence[T]], R],
    blocks: Mapping[str, Sequence[T]],
    kept: Mapping[str, tuple[Path, str]],
    jobs: int,
    engine: str,
    address: str | None,
) -> running.Outcomes:
    """Yield the outcomes of the checkpoint, then the others, the largest first, each when its checkpoint is written."""
    found = {name: done for name, place in kept.items() if (done := running.read_checkpoint(*place)) is not None}
    yield from found.items()
    left = {name: (function, block) for name, block in blocks.items() if name not in found}
    largest_first = dict(sorted(left.items(), key=lambda item: -len(item[1][1])))
    if engine == "dask" and left:
        outcomes = _on_dask(function, largest_first, None if jobs == -1 else jobs, address)
    elif jobs == 1 or len(left) < 2:
        outcomes = running.run_here(attempt, largest_first)
    else:
        outcomes = running.run_in_processes(attempt, largest_first, jobs)
    with closing(outcomes):
        for name, outcome in outcomes:
            if name in kept and isinstance(outcome, Done):
                path, stamp = kept[name]
                running.write_checkpoint(path, block=name, stamp=stamp, result=outcome.result)
            yield name, outcome


def _on_dask(
    function: Callable[[Sequence[T]], R],
    tasks: Mapping[str, tuple[Any, ...]],
    n_workers: int | None,
    address: str | None,
) -> running.Outcomes:
    with running.connected("engine='dask'", address, "address", n_workers) as client:
        # As a task, not scattered: scattered data is lost with its worker, and a task runs again elsewhere.
        shared = client.submit(lambda it: it, function, pure=False)
        tasks = {name: (shared, block) for name, (_, block) in tasks.items()}
        yield from running.run_on_client(client, attempt, tasks, "block")


# Authors --------------------------------------------------------------------------------------------------------------


class Resolution(NamedTuple):
    """Authors by record id, doubtful decisions with their evidence, and the blocks without a result.

    ``failures`` has the reason by block; ``unfinished`` are the blocks that Ctrl-C left undone.
    """

    authors: dict[str, str]
    doubts: list[dict[str, Any]]
    failures: dict[str, str]
    unfinished: list[str]


def resolve(
    blocks: Mapping[str, Sequence[Record]],
    model: Model,
    *,
    method: str = "grinch",
    review: int = 100,
    previous: Mapping[str, str | None] | None = None,
    jobs: int = 1,
    engine: Literal["joblib", "dask"] = "joblib",
    address: str | None = None,
    on_done: Callable[[str], object] | None = None,
    checkpoint: str | Path | None = None,
    stamp: str = "",
) -> Resolution:
    """Return an author id for each record: the name of its block and a number.

    Parameters
    ----------
    blocks : mapping of str to sequence of Record
        See :func:`~grinch.resolve.authors.blocks`.
    model : Model
        See :func:`~grinch.resolve.authors.train`.
    method : str
        How a block is clustered: see :func:`~grinch.resolve.authors.block_clustering.cluster_block`.
    review : int
        How many doubtful decisions are returned; 0 saves the time to look for them.
    previous : mapping of str to str, optional
        Authors by record id, of an earlier run: see :func:`~grinch.resolve.authors.block_clustering.stable_ids`.
    jobs, engine, address, on_done, checkpoint
        See :func:`~grinch.resolve.authors.runs.run_blocks`.
    stamp : str
        Identifies the model, so that a checkpoint of another model is not used.

    Examples
    --------
    >>> from grinch.resolve.authors import blocks, make_records, resolve, train
    >>> model = train(blocks(make_records(12, 3)), kind="logistic", rounds=1)
    >>> records = make_records(4, 1, random_state=1)
    >>> found = resolve(blocks(records), model, review=2)
    >>> len(found.authors) == len(records), len(found.doubts), found.failures
    (True, 2, {})
    """
    review = check_count("review", review, 0)
    outcomes = run_blocks(
        partial(_resolve_block, model=model, method=method, review=review),
        blocks,
        jobs=jobs,
        engine=engine,
        address=address,
        on_done=on_done,
        checkpoint=checkpoint,
        stamp=f"{stamp} {model.threshold} {method} {review}",
    )
    authors: dict[str, str] = {}
    doubts: list[dict[str, Any]] = []
    for name, result in outcomes.results.items():
        ids = [_author(name, cluster) for cluster in result["clusters"]]
        authors |= {record.id: author for record, author in zip(blocks[name], ids, strict=True)}
        for doubt in result["doubts"]:
            doubts.append({"block": name, **doubt, **{side: _author(name, doubt[side]) for side in SIDES}})
    if previous:
        stable = stable_ids(authors, previous)
        authors = {record: stable[author] for record, author in authors.items()}
        doubts = [{**doubt, **{side: stable[doubt[side]] for side in SIDES}} for doubt in doubts]
    doubts.sort(key=lambda doubt: doubt["margin"])
    return Resolution(authors, doubts[:review], outcomes.failures, outcomes.unfinished)


def _author(block: str, cluster: int) -> str:
    return f"{block}-{cluster + 1}"


def _resolve_block(records: Sequence[Record], model: Model, method: str, review: int) -> dict[str, Any]:
    """Return the cluster of each record and the doubts, as plain data that a checkpoint can hold."""
    from grinch.resolve.authors.block_clustering import cluster_block
    from grinch.resolve.authors.evaluation import doubts
    from grinch.resolve.authors.model import CorefLinkage

    result = cluster_block(records, model, method)
    clusters = [result.authors[record.id] for record in records]
    if review == 0:
        return {"clusters": clusters, "doubts": []}
    found = doubts(records, np.array(clusters), result.tree, CorefLinkage(model), result.threshold, review)
    return {"clusters": clusters, "doubts": found}
