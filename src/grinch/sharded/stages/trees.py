"""The stage that takes longest: the tree of each branch, shard by shard."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.preprocessing import normalize

from grinch._checks import count_rows, taken
from grinch._types import Floats, Labels
from grinch.estimators.checks import no_advice
from grinch.estimators.grinch import Grinch
from grinch.io.rows import joined, n_bytes
from grinch.linkage.named import VectorLinkage
from grinch.refine.neighbor_cost import POLISHED_UP_TO
from grinch.sharded.compose import MergeList, merges_of
from grinch.sharded.files import read_arrays, read_rows, write_arrays, write_rows
from grinch.sharded.job import Job, RunFolder
from grinch.sharded.stages import skeleton
from grinch.sharded.stages.exchange import moves_between, moves_from
from grinch.sharded.stages.route import members_of, rows_at

STAGE = "trees"


class BranchTree(NamedTuple):
    """The tree of a branch: the numbers of its points, by leaf, its merges, and the summary of all of them."""

    numbers: Labels
    merges: MergeList
    mean: Floats
    moments: Floats


def run(job: Job, shard: int) -> dict[str, Any]:
    """Build the tree of each branch of a shard, of its points in the order of their numbers."""
    plan = skeleton.load(job)
    numbers, branches, rows = _settled(job, plan, shard)
    model, sizes, written = _model(job, plan), {}, 0
    for branch in np.flatnonzero(plan.shard_of == shard).tolist():
        inside = np.flatnonzero(branches == branch)
        sizes[branch] = len(inside)
        if len(inside):
            written += _build(job, model, branch, numbers[inside], taken(rows, inside))
    return {"sizes": sizes, "read": n_bytes(rows), "written": written}


def load(run: RunFolder, branch: int) -> BranchTree:
    """Return the tree of a branch that has points."""
    numbers, pairs, scores, mean, moments = read_arrays(
        run.of_branch(STAGE, branch), "numbers", "pairs", "scores", "mean", "moments"
    )
    return BranchTree(numbers, MergeList(pairs.astype(np.int64), scores), mean, moments)


def load_summary(job: Job, branch: int) -> tuple[Floats, Floats]:
    """Return mean and moments of a branch that has points."""
    mean, moments = read_arrays(job.of_branch(STAGE, branch), "mean", "moments")
    return mean, moments


def rows_of(run: RunFolder, branch: int, is_mapped: bool = False) -> Any:
    """Return the points of a branch, by leaf; with ``is_mapped``, vectors are read from disk on access."""
    return read_rows(run.of_branch(STAGE, branch, ".rows"), is_mapped=is_mapped)


def _settled(job: Job, plan: skeleton.Skeleton, shard: int) -> tuple[Labels, Labels, Any]:
    """Return the points of a shard after all moves: numbers in ascending order, branches, rows."""
    members = members_of(job, shard)
    if not job.moves_points(plan.n_branches):
        return members.numbers, members.branches, rows_at(job, members.pieces, members.positions)
    stays = ~np.isin(members.numbers, moves_from(job, shard).numbers)
    numbers, branches = [members.numbers[stays]], [members.branches[stays]]
    rows = [rows_at(job, members.pieces[stays], members.positions[stays])]
    for other in range(plan.n_shards):
        moves = moves_between(job, other, shard)
        if len(moves.numbers):
            numbers.append(moves.numbers)
            branches.append(moves.branches)
            rows.append(rows_at(job, moves.pieces, moves.positions))
    order = np.argsort(np.concatenate(numbers), kind="stable")
    rows = [part for part in rows if count_rows(part)]
    return np.concatenate(numbers)[order], np.concatenate(branches)[order], taken(joined(rows), order)


def _model(job: Job, plan: skeleton.Skeleton) -> Grinch:
    """Return the model of branches. One tree is polished as long as it is small: here the sample's tree was."""
    is_one_of_many = plan.n_branches > 1 and job.rows.n_rows > POLISHED_UP_TO
    mode = job.rules._replace(polish=False) if is_one_of_many else job.model.mode
    found: Grinch = clone(job.model).set_params(mode=mode, n_clusters=None, threshold=None, layer="auto", noise=False)
    return found


def _build(job: Job, model: Grinch, branch: int, numbers: Labels, rows: Any) -> int:
    with no_advice():
        merges = merges_of(clone(model).fit(rows).tree_)
    mean, moments = _summary(job, rows)
    written = write_rows(job.of_branch(STAGE, branch, ".rows"), rows)
    return written + write_arrays(
        job.of_branch(STAGE, branch),
        numbers=numbers,
        pairs=merges.pairs.astype(np.int32),
        scores=merges.scores,
        mean=mean,
        moments=moments,
    )


def _summary(job: Job, rows: Any) -> tuple[Floats, Floats]:
    """Return mean, and count, spread and length, of vectors as the linkage sees them; nothing of records."""
    linkage = job.linkage
    if not isinstance(linkage, VectorLinkage):
        return np.empty(0), np.empty(0)
    total, squares, n = np.zeros(rows.shape[1]), 0.0, rows.shape[0]
    for start in range(0, n, 4096):
        wide = rows[start : start + 4096].astype(np.float64)
        wide = np.sqrt(wide) if linkage.is_of_roots else wide
        if linkage.is_spherical:
            wide = normalize(wide)
        total += np.asarray(wide.sum(axis=0)).ravel()
        values = wide.data if scipy.sparse.issparse(wide) else wide.ravel()
        squares += float(values @ values)
    mean = total / n
    length = float(np.sqrt(mean @ mean))
    return mean, np.array([n, max(squares / n - length**2, 0.0), length])
