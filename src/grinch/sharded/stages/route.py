"""The third stage: every point to the branch of the sampled point it is nearest to.

By the nearest of the sampled points and not by the means of branches: a branch is no ball around its mean.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from grinch._types import Labels, Mask
from grinch.core.engine import Engine
from grinch.neighbors.sources import ByKey, _as_keys
from grinch.sharded.files import n_bytes, read_part, taken, write_arrays, write_rows
from grinch.sharded.job import Job, piece_name
from grinch.sharded.stages import skeleton
from grinch.tree import NONE

STAGE = "route"
# A point is near a border if one of so many nearest sampled points is in another branch.
LOOKED_AT = 5
# Of the other branches that these are in, the nearest so many are asked whether the point belongs there.
MOST_ALTERNATIVES = 2


class Routed(NamedTuple):
    """Points of a piece that go to a shard, by number: positions, branches, and whether they are near a border."""

    positions: Labels
    numbers: Labels
    branches: Labels
    is_near_border: Mask


class Guests(NamedTuple):
    """Points of a piece that may belong to branches of a shard: positions, numbers, that branch, and their own."""

    positions: Labels
    numbers: Labels
    branches: Labels
    homes: Labels


def run(job: Job, piece: int) -> dict[str, int]:
    """Route the points of a piece, and write them down by shard."""
    rows, plan = job.rows.read(piece), skeleton.load(job.folder, job.stamp)
    near = _branches_near(job, plan, rows)
    home = near[:, 0]
    shards = plan.shard_of[home]
    order = np.argsort(shards, kind="stable")
    starts = np.searchsorted(shards[order], np.arange(plan.n_shards + 1))
    numbers = job.rows.pieces[piece][0] + order
    has_guests = job.repair and plan.n_branches > 1
    at, to = _alternatives(plan, near[order]) if has_guests else (order[:0], order[:0])
    is_near_border = np.zeros(len(home), np.bool_)
    is_near_border[at] = True
    written = write_rows(rows_path(job, piece), taken(rows, order))
    written += write_arrays(
        _path(job, piece),
        numbers=numbers,
        branches=home[order],
        is_near_border=is_near_border,
        shard_starts=starts,
        guest_positions=at,
        guest_numbers=numbers[at],
        guest_branches=to,
        guest_homes=home[order][at],
        guest_starts=np.searchsorted(plan.shard_of[to], np.arange(plan.n_shards + 1)),
    )
    return {"points": len(home), "guests": len(at), "read": n_bytes(rows), "written": written}


def routed(job: Job, piece: int, shard: int) -> Routed:
    """The points of a piece that go to a shard."""
    start, parts = read_part(_path(job, piece), "shard_starts", shard, *Routed._fields[1:])
    return Routed(np.arange(start, start + len(parts[0])), *parts)


def guests_of(job: Job, piece: int, shard: int) -> Guests:
    """The points of a piece that a shard is asked about."""
    names = (f"guest_{name}" for name in Guests._fields)
    return Guests(*read_part(_path(job, piece), "guest_starts", shard, *names)[1])


def rows_path(job: Job, piece: int) -> Path:
    return job.path(STAGE, f"{piece_name(piece)}.rows")


def _path(job: Job, piece: int) -> Path:
    return job.path(STAGE, f"{piece_name(piece)}.npz")


def new_engine(job: Job, rows: Any, n_neighbors: int | None = None) -> Engine:
    """An engine that knows these points and has no tree of them."""
    model = clone(job.model).set_params(n_neighbors=n_neighbors or job.model.n_neighbors)
    prepared = model._validate(rows, reset=True)
    engine: Engine = prepared.new_builder()
    engine.adopt(prepared.rows)
    return engine


# One at a time, by folder and stamp: every task of a process asks the same sample.
_routers: dict[tuple[Path, str], Engine] = {}


def _router(job: Job) -> Engine:
    key = (job.folder, job.stamp)
    if key not in _routers:
        _routers.clear()
        _routers[key] = new_engine(job, skeleton.sample_of(job))
    return _routers[key]


def _branches_near(job: Job, plan: skeleton.Skeleton, rows: Any) -> Labels:
    """The branches of the nearest sampled points, nearest first."""
    points = clone(job.model)._validate(rows, reset=True).rows
    found = _router(job).look_up(points, limit=len(plan.branch_of)).slots[:, :LOOKED_AT]
    near = np.where(found == NONE, -1, plan.branch_of[found])
    lost = np.flatnonzero(near[:, 0] < 0)
    if len(lost):
        near[lost, 0] = [_branch_by_key(job, rows[i], plan.n_branches) for i in lost.tolist()]
    return np.where(near < 0, near[:, :1], near)


def _branch_by_key(job: Job, record: Any, n_branches: int) -> int:
    """The branch of a record that no sampled one is near: the same for all that share their first key."""
    search = job.model.search
    sources = search if isinstance(search, (list, tuple)) else [search]
    keys = [key for source in sources if isinstance(source, ByKey) for key in _as_keys(source.keys(record))]
    return zlib.crc32(repr(keys[0]).encode()) % n_branches if keys else 0


def _alternatives(plan: skeleton.Skeleton, near: Labels) -> tuple[Labels, Labels]:
    """The nearest other branches of each point, by their shards: positions of points, and branches."""
    positions, branches = [], []
    seen = near[:, :1]
    for column in range(1, near.shape[1]):
        branch = near[:, column]
        is_new = ~(seen == branch[:, None]).any(axis=1)
        is_new &= (np.diff(np.sort(seen, axis=1), axis=1) != 0).sum(axis=1) < MOST_ALTERNATIVES
        positions.append(np.flatnonzero(is_new))
        branches.append(branch[is_new])
        seen = np.concatenate([seen, branch[:, None]], axis=1)
    at = np.concatenate([np.empty(0, np.int64), *positions]).astype(np.int64)
    to = np.concatenate([np.empty(0, np.int64), *branches]).astype(np.int64)
    order = np.lexsort((to, at, plan.shard_of[to]))
    return at[order], to[order]
