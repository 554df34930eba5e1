"""From blocks of records to author ids, block by block and in parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from grinch.resolve.authors.clustering.identity import lasting_ids
from grinch.resolve.authors.records.record import Record
from grinch.resolve.authors.runs.parallel import run_blocks

if TYPE_CHECKING:
    from grinch.resolve.authors.learned.model import Model


SIDES = ("author a", "author b")


class Resolution(NamedTuple):
    """Authors by record id, doubtful decisions with the evidence, and the blocks without a result.

    ``failures`` tells the reason by block; ``unfinished`` are the blocks that Ctrl-C left undone.
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
        How a block is clustered: see :func:`~grinch.resolve.authors.clustering.block.cluster_block`.
    review : int
        How many doubtful decisions to tell.
    previous : mapping of str to str, optional
        Authors by record id, of an earlier run: see :func:`~grinch.resolve.authors.clustering.identity.lasting_ids`.
    jobs, engine, address, on_done, checkpoint
        See :func:`~grinch.resolve.authors.runs.parallel.run_blocks`.
    stamp : str
        Tells the model, so that a checkpoint of another one is not taken for this one's.
    """
    if review < 0:
        raise ValueError(f"review must be a number of decisions, at least 0; got {review!r}")
    outcomes = run_blocks(
        partial(_solve, model=model, method=method, review=review),
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
        lasting = lasting_ids(authors, previous)
        authors = {record: lasting[author] for record, author in authors.items()}
        doubts = [{**doubt, **{side: lasting[doubt[side]] for side in SIDES}} for doubt in doubts]
    doubts.sort(key=lambda doubt: doubt["margin"])
    return Resolution(authors, doubts[:review], outcomes.failures, outcomes.unfinished)


def _author(block: str, cluster: int) -> str:
    return f"{block}-{cluster + 1}"


def _with_authors(doubt: dict[str, Any], block: str) -> dict[str, Any]:
    return {**doubt, **{side: _author(block, doubt[side]) for side in SIDES}}


def _solve(records: Sequence[Record], model: Model, method: str, review: int) -> dict[str, Any]:
    """The cluster of each record and the doubts, as plain data that a checkpoint can hold."""
    from grinch.resolve.authors.clustering.block import cluster_block
    from grinch.resolve.authors.learned.linkage import CorefLinkage
    from grinch.resolve.authors.results.review import doubts

    result = cluster_block(records, model, method)
    clusters = [result.authors[record.id] for record in records]
    found = doubts(records, np.array(clusters), result.tree, CorefLinkage(model), model.threshold, review)
    return {"clusters": clusters, "doubts": found}
