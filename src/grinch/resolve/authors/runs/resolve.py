"""From blocks of records to author ids, block by block and in parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from grinch._checks import check_count
from grinch.resolve.authors.block_clustering import stable_ids
from grinch.resolve.authors.record import Record
from grinch.resolve.authors.runs.parallel import run_blocks

if TYPE_CHECKING:
    from grinch.resolve.authors.model import Model


SIDES = ("author a", "author b")


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
    """An author id for each record: the name of its block and a number.

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
        See :func:`~grinch.resolve.authors.runs.parallel.run_blocks`.
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
        doubts += [{"block": name, **_with_authors(doubt, name)} for doubt in result["doubts"]]
    if previous:
        stable = stable_ids(authors, previous)
        authors = {record: stable[author] for record, author in authors.items()}
        doubts = [{**doubt, **{side: stable[doubt[side]] for side in SIDES}} for doubt in doubts]
    doubts.sort(key=lambda doubt: doubt["margin"])
    return Resolution(authors, doubts[:review], outcomes.failures, outcomes.unfinished)


def _author(block: str, cluster: int) -> str:
    return f"{block}-{cluster + 1}"


def _with_authors(doubt: dict[str, Any], block: str) -> dict[str, Any]:
    return {**doubt, **{side: _author(block, doubt[side]) for side in SIDES}}


def _resolve_block(records: Sequence[Record], model: Model, method: str, review: int) -> dict[str, Any]:
    """The cluster of each record and the doubts, as plain data that a checkpoint can hold."""
    from grinch.resolve.authors.block_clustering import cluster_block
    from grinch.resolve.authors.evaluation import doubts
    from grinch.resolve.authors.model import CorefLinkage

    result = cluster_block(records, model, method)
    clusters = [result.authors[record.id] for record in records]
    if review == 0:
        return {"clusters": clusters, "doubts": []}
    found = doubts(records, np.array(clusters), result.tree, CorefLinkage(model), result.threshold, review)
    return {"clusters": clusters, "doubts": found}
