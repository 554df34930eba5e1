"""Two stages for the automatic cut, the neighbour graph of all points across shards, and that cut.

Every branch is searched for the neighbours of its own points, and of those that were near its border when they were
routed. Then the lists of a point from all branches become one. The cut takes integers and distances, and no vectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.base import clone

from grinch._checks import count_rows, taken
from grinch._types import Floats, Ids, Labels
from grinch.core.engine import Engine
from grinch.cuts import AutomaticCut, automatic_cut
from grinch.cuts.graph import N_NEIGHBORS, NeighborGraph, Weights, comparable, distances_of, weighted_by
from grinch.cuts.persistence import mean_gaps
from grinch.estimators.fit import LEAST_NEIGHBORS, is_cut_by_heights, known_heights
from grinch.io.rows import joined, n_bytes
from grinch.linkage.named import VectorLinkage
from grinch.sharded.compose import MergeList
from grinch.sharded.files import read_arrays, read_part, write_arrays
from grinch.sharded.job import Job
from grinch.sharded.stages import route, skeleton, top, trees
from grinch.sharded.stages.exchange import guests_of_shard, moves_between
from grinch.sharded.stages.route import Members, members_of, rows_at
from grinch.tree import NONE, Tree

ASKING, JOINING = "near", "graph"


def asking_tasks(job: Job, sizes: list[int]) -> dict[str, tuple[Any, ...]]:
    """Return a task for each shard; ``sizes`` are the numbers of points of the branches."""
    shard_of = skeleton.load(job).shard_of
    there = [branch for branch, size in enumerate(sizes) if size]
    return {
        name: (*args, [branch for branch in there if shard_of[branch] == args[1]])
        for name, args in skeleton.shard_tasks(job).items()
    }


def joining_tasks(job: Job, k: int) -> dict[str, tuple[Any, ...]]:
    """Return a task for each shard, for lists of k neighbours."""
    return {name: (*args, k) for name, args in skeleton.shard_tasks(job).items()}


class Asking(NamedTuple):
    """Points that a branch is searched for the neighbours of, though they are not in it; ``homes`` are shards."""

    numbers: Labels
    homes: Labels
    rows: Any


class Lists(NamedTuple):
    """By point, its neighbours in one branch, nearest first, and how far each is."""

    numbers: Labels
    homes: Labels
    near: Ids
    apart: Weights


class Spread(NamedTuple):
    """Mean of a branch and mean squared distance from it, for the cut of the whole.

    ``gaps``: by merge, the mean squared distance of its sides, where the scores of the tree do not say it.
    """

    mean: Floats
    spread: float
    gaps: Floats


# Asking -----------------------------------------------------------------------------------------------------------


def ask(job: Job, shard: int, branches: list[int]) -> dict[str, Any]:
    """Find the neighbours in each of these branches, of the shard's points and of those that may belong there."""
    plan, members = skeleton.load(job), members_of(job, shard)
    guests, came_from = _guests(job, plan, shard), _came_from(job, plan, shard)
    found, read = [], 0
    for branch in branches:
        numbers, rows = trees.load(job, branch).numbers, trees.rows_of(job, branch)
        homes = np.array([came_from.get(number, shard) for number in numbers.tolist()], np.int64)
        asking = _from_elsewhere(job, guests, members, branch, shard, numbers)
        found.append(_search(job, branch, Asking(numbers, homes, rows), asking))
        read += n_bytes(rows) + n_bytes(asking.rows)
    written, k = _write_lists(job, shard, plan.n_shards, found), max((part.near.shape[1] for part in found), default=0)
    return {"lists": sum(len(part.numbers) for part in found), "k": k, "read": read, "written": written}


def load_spread(job: Job, branch: int) -> Spread:
    """Return the spread of a branch of vectors that has points."""
    mean, spread, gaps = read_arrays(job.of_branch(ASKING, branch), "mean", "spread", "gaps")
    return Spread(mean, float(spread), gaps)


def _guests(job: Job, plan: skeleton.Skeleton, shard: int) -> tuple[Labels, Any, Labels, Labels]:
    if job.moves_points(plan.n_branches):
        return guests_of_shard(job, plan, shard)
    nothing = np.empty(0, np.int64)
    return nothing, [], nothing, nothing


def _came_from(job: Job, plan: skeleton.Skeleton, shard: int) -> dict[int, int]:
    """Return by number the shard that a point was routed to, of those that were routed to another one than this."""
    if not job.moves_points(plan.n_branches):
        return {}
    others = (other for other in range(plan.n_shards) if other != shard)
    return {number: other for other in others for number in moves_between(job, other, shard).numbers.tolist()}


def _from_elsewhere(
    job: Job, guests: tuple[Labels, Any, Labels, Labels], members: Members, branch: int, shard: int, inside: Labels
) -> Asking:
    """Return the points that a branch is searched for though they are not in it: guests and leavers."""
    numbers, rows, branches, shards = guests
    came = np.flatnonzero((branches == branch) & ~np.isin(numbers, inside))
    left = np.flatnonzero((members.branches == branch) & ~np.isin(members.numbers, inside))
    parts = [taken(rows, came)] if len(came) else []
    parts += [rows_at(job, members.pieces[left], members.positions[left])] if len(left) else []
    return Asking(
        np.concatenate([numbers[came], members.numbers[left]]),
        np.concatenate([shards[came], np.full(len(left), shard)]),
        joined(parts),
    )


def _search(job: Job, branch: int, own: Asking, asking: Asking) -> Lists:
    """Return the nearest points of a branch, for each of its own and for those from elsewhere."""
    engine, count = _engine(job, own.rows), len(own.numbers)
    slots = np.full((count + len(asking.numbers), engine.search.k), NONE, np.int32)
    if count > 1:
        slots[:count] = engine.look_around(np.arange(count), limit=count).slots
    if len(asking.numbers):
        slots[count:] = engine.look_up(clone(job.model).prepare(asking.rows, reset=True).rows, limit=count).slots
    numbers, homes = np.concatenate([own.numbers, asking.numbers]), np.concatenate([own.homes, asking.homes])
    apart = _apart(job, branch, slots, own.rows, asking.rows)
    near = np.where(slots == NONE, NONE, own.numbers[slots]).astype(np.int32)
    # A point that is near one from elsewhere has it as a neighbour, too.
    back = _turned(slots[count:], asking.numbers, apart[count:], count)
    near[:count], apart[:count] = _nearest(near[:count], apart[:count], *back)
    return Lists(numbers, homes, near, apart)


def _turned(slots: Ids, numbers: Labels, apart: Weights, count: int) -> tuple[Ids, Weights]:
    """Return lists the other way round: by slot, the nearest of those that name it, and their distances.

    >>> named = _turned(np.array([[1, 0], [1, -1]], np.int32), np.array([7, 8]), np.array([[1, 2], [0.5, np.inf]]), 2)
    >>> named[0].tolist()
    [[7, -1], [8, 7]]
    """
    near, found = np.full((count, slots.shape[1]), NONE, np.int32), np.full((count, slots.shape[1]), np.inf, np.float32)
    points, places = np.nonzero(slots != NONE)
    named, distances = slots[points, places], apart[points, places]
    order = np.lexsort((numbers[points], distances, named))
    points, named, distances = points[order], named[order], distances[order]
    rank = np.arange(len(named)) - np.searchsorted(named, named)
    kept = np.flatnonzero(rank < slots.shape[1])
    near[named[kept], rank[kept]] = numbers[points[kept]]
    found[named[kept], rank[kept]] = distances[kept]
    return near, found


def _engine(job: Job, rows: Any) -> Engine:
    """Return an engine that looks for as many neighbours as :mod:`grinch.estimators.fit` needs."""
    n_neighbors = job.model.checked_parameters().n_neighbors
    is_few = isinstance(job.linkage, VectorLinkage) and n_neighbors < LEAST_NEIGHBORS
    return route.new_engine(job, rows, N_NEIGHBORS if is_few else n_neighbors)


def _apart(job: Job, branch: int, slots: Ids, own: Any, asking: Any) -> Weights:
    """Return squared distances, as cuts compare vectors; of records, ranks by nearness."""
    metric, count = job.metric, count_rows(own)
    apart: Weights = np.empty(slots.shape, np.float32)
    if metric is not None:
        rows = comparable(joined([own, asking]) if count_rows(asking) else own, metric)
        apart = distances_of(slots, rows)
        _write_spread(job, branch, own, rows[:count], metric)
    else:
        apart[:] = np.arange(slots.shape[1])
    apart[slots == NONE] = np.inf
    return apart


def _write_spread(job: Job, branch: int, own: Any, rows: Any, metric: str) -> None:
    wide = (comparable(own, metric) if metric == "cosine" else own).astype(np.float64)
    mean, gaps = np.asarray(wide.mean(axis=0)).ravel(), np.empty(0)
    if not is_cut_by_heights(job.linkage):
        tree = trees.load(job, branch).merges.tree()
        gaps = mean_gaps(tree, rows, "euclidean")[tree.n_leaves + 1 :]
    if scipy.sparse.issparse(wide):
        spread = np.array(max(float(wide.data @ wide.data) / wide.shape[0] - float(mean @ mean), 0.0))
    else:
        spread = np.array(((wide - mean) ** 2).sum() / len(wide))
    write_arrays(job.of_branch(ASKING, branch), mean=mean, spread=spread, gaps=gaps)


def _write_lists(job: Job, shard: int, n_shards: int, found: list[Lists]) -> int:
    """Write lists by the shard that points were routed to, where they are joined."""
    if not found:
        found = [
            Lists(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 0), np.int32), np.empty((0, 0), "f4"))
        ]
    numbers, homes, near, apart = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.lexsort((numbers, homes))
    starts = np.searchsorted(homes[order], np.arange(n_shards + 1))
    return write_arrays(
        job.of_shard(ASKING, shard),
        numbers=numbers[order],
        near=near[order].ravel(),
        apart=apart[order].ravel(),
        starts=starts,
        wide_starts=starts * near.shape[1],
    )


# Joining ----------------------------------------------------------------------------------------------------------


def join(job: Job, shard: int, k: int) -> dict[str, int]:
    """Keep the k nearest of all lists of each point that was routed to a shard."""
    n_shards, numbers = skeleton.load(job).n_shards, members_of(job, shard).numbers
    near, apart = np.full((len(numbers), k), NONE, np.int32), np.full((len(numbers), k), np.inf, np.float32)
    for other in range(n_shards):
        _, (said_of,) = read_part(job.of_shard(ASKING, other), "starts", shard, "numbers")
        _, flat = read_part(job.of_shard(ASKING, other), "wide_starts", shard, "near", "apart")
        # A shard has several branches, each with a list of a point at most: in order, one list of each point at a time.
        place = np.arange(len(said_of)) - np.searchsorted(said_of, said_of)
        for nth in range(int(place.max(initial=-1)) + 1):
            some = np.flatnonzero(place == nth)
            at = np.searchsorted(numbers, said_of[some])
            near[at], apart[at] = _nearest(near[at], apart[at], *(part.reshape(-1, k)[some] for part in flat))
    written = write_arrays(job.of_shard(JOINING, shard), numbers=numbers, near=near, apart=apart)
    return {"points": len(numbers), "written": written}


def _nearest(near: Ids, apart: Weights, more: Ids, further: Weights) -> tuple[Ids, Weights]:
    """Return the nearest of two lists, each point once.

    >>> near, apart = _nearest(np.array([[4, 2]]), np.array([[1.0, 3.0]]), np.array([[4, 7]]), np.array([[1.0, 2.0]]))
    >>> near.tolist(), apart.tolist()
    ([[4, 7]], [[1.0, 2.0]])
    """
    both, distances = np.concatenate([near, more], axis=1), np.concatenate([apart, further], axis=1)
    by_number = np.lexsort((distances, both), axis=1)
    is_same = np.diff(np.take_along_axis(both, by_number, axis=1), axis=1) == 0
    again = np.where(np.pad(is_same, ((0, 0), (1, 0))), np.inf, np.take_along_axis(distances, by_number, axis=1))
    order = np.argsort(again, axis=1, kind="stable")[:, : near.shape[1]]
    apart = np.take_along_axis(again, order, axis=1).astype(np.float32)
    near = np.take_along_axis(both, np.take_along_axis(by_number, order, axis=1), axis=1)
    return np.where(apart == np.inf, NONE, near).astype(np.int32), apart


def load(job: Job, shard: int) -> tuple[Labels, Ids, Weights]:
    """Return the numbers of the points that were routed to a shard, their neighbours, and how far these are."""
    numbers, near, apart = read_arrays(job.of_shard(JOINING, shard), "numbers", "near", "apart")
    return numbers, near, apart


def cut_whole(job: Job, tree: Tree, sizes: list[int]) -> AutomaticCut:
    """Return the cut of the whole tree whose clusters persist longest; ``sizes`` are those of the branches."""
    if tree.n_leaves < 3:
        return automatic_cut(tree, None, tree.heights())
    if not isinstance(job.linkage, VectorLinkage):
        return automatic_cut(tree, _graph(job, tree.n_leaves, None), tree.heights())
    merges, branches, _ = top.load(job)
    spreads = [load_spread(job, branch) for branch in branches.tolist()]
    counts = np.array([sizes[branch] for branch in branches.tolist()], np.float64)
    gaps, spread = _joined(merges, spreads, counts)
    heights = known_heights(tree, job.linkage)
    if not is_cut_by_heights(job.linkage):
        heights = np.zeros(tree.n_ids)
        heights[tree.n_leaves + 1 :] = np.concatenate([*(one.gaps for one in spreads), gaps])
        heights = tree.max_upward(heights)
    # The mean squared distance of all pairs is twice the variance.
    return automatic_cut(tree, _graph(job, tree.n_leaves, 2 * spread), heights)


def _graph(job: Job, n: int, typical: float | None) -> NeighborGraph:
    """Return the neighbour graph; ``typical`` is the mean squared distance of two points, of vectors."""
    found, apart = None, None
    for shard in range(skeleton.load(job).n_shards):
        numbers, some, distances = load(job, shard)
        if found is None or apart is None:
            found = np.full((n, some.shape[1]), NONE, np.int32)
            apart = np.full(found.shape if typical is not None else (0, 0), np.inf, np.float32)
        found[numbers] = some
        if typical is not None:
            apart[numbers] = distances
    assert found is not None
    return weighted_by(found, None if typical is None else apart, typical or 0.0)


def _joined(top: MergeList, spreads: list[Spread], counts: Floats) -> tuple[Floats, float]:
    """Return by merge of the upper tree the mean squared distance of its sides, and the variance of all points."""
    n = len(spreads)
    means, within = [one.mean for one in spreads], [one.spread for one in spreads]
    sizes, gaps = counts.tolist(), np.empty(len(top.pairs))
    for k, (left, right) in enumerate(top.pairs.tolist()):
        step = means[right] - means[left]
        between, size = float(step @ step), sizes[left] + sizes[right]
        gaps[k] = between + within[left] + within[right]
        share = sizes[right] / size
        means.append(means[left] + share * step)
        within.append((1 - share) * within[left] + share * within[right] + share * (1 - share) * between)
        sizes.append(size)
    assert len(means) == 2 * n - 1
    return gaps, within[-1]
