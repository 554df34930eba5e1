"""The third stage: every point to the branch that most of the nearest sampled points are in.

By the nearest of the sampled points and not by the means of branches: a branch is no ball around its mean.
"""

from __future__ import annotations

import math
import threading
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from grinch._checks import count_rows, taken
from grinch._types import Labels, Mask
from grinch.core.engine import Engine
from grinch.io.rows import joined, n_bytes
from grinch.neighbors import AutoSearch
from grinch.neighbors.cells import CellSearch
from grinch.neighbors.scan import ByKey
from grinch.sharded.files import read_part, read_rows, write_arrays, write_rows
from grinch.sharded.job import Job
from grinch.sharded.stages import skeleton
from grinch.tree import NONE

STAGE = "route"
# The number of nearest sampled points that have a vote on where a point goes.
VOTES = 5
# A point is near a border if one of this many nearest sampled points is in another branch than it goes to: that one is
# asked whether the point belongs there. With all five, four in ten more are asked, for one move in fourteen more.
LOOKED_AT = 3
# Exact search, which goes through all points, is faster below this many.
SEARCHED_WHOLE_UP_TO = 4_096
# To find few neighbours, more and smaller cells than a tree's search has are faster: docs/development/sharded.md.
LEAST_ROOM, PROBES, EXTRA = 96, 8, 4


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
    rows, plan = job.rows.read(piece), skeleton.load(job)
    near = _branches_near(job, plan, rows)
    home = _most_voted(near)
    shards = plan.shard_of[home]
    order = np.argsort(shards, kind="stable")
    starts = np.searchsorted(shards[order], np.arange(plan.n_shards + 1))
    numbers = job.rows.pieces[piece][0] + order
    has_guests = job.moves_points(plan.n_branches)
    at, to = _alternatives(plan, home[order], near[order, :LOOKED_AT]) if has_guests else (order[:0], order[:0])
    is_near_border = np.zeros(len(home), np.bool_)
    is_near_border[at] = True
    written = write_rows(job.of_piece(STAGE, piece, ".rows"), taken(rows, order))
    written += write_arrays(
        job.of_piece(STAGE, piece),
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
    """Return the points of a piece that go to a shard."""
    start, parts = read_part(job.of_piece(STAGE, piece), "shard_starts", shard, *Routed._fields[1:])
    return Routed(np.arange(start, start + len(parts[0])), *parts)


def guests_of(job: Job, piece: int, shard: int) -> Guests:
    """Return the points of a piece that a shard is asked about."""
    names = (f"guest_{name}" for name in Guests._fields)
    return Guests(*read_part(job.of_piece(STAGE, piece), "guest_starts", shard, *names)[1])


def new_engine(job: Job, rows: Any, n_neighbors: int) -> Engine:
    """Return an engine that knows these points and has no tree of them, to find neighbours."""
    prepared = clone(job.model).set_params(n_neighbors=n_neighbors).prepare(rows, reset=True)
    engine: Engine = prepared.new_builder()
    if n_neighbors <= VOTES and isinstance(engine.search, AutoSearch) and count_rows(rows) > SEARCHED_WHOLE_UP_TO:
        # A few are found in smaller cells. As many cells as members are looked at, about.
        room = max(LEAST_ROOM, math.isqrt(count_rows(rows)) // 2)
        engine.search = CellSearch(engine.search.summaries, engine.search.k, room, PROBES, EXTRA)
    engine.adopt(prepared.rows)
    return engine


class _Routers(threading.local):
    """The engine of one run at a time, for all tasks of a thread: an engine that looks up is no other thread's."""

    run: tuple[Path, str] | None = None
    engine: Engine


_routers = _Routers()


def _router(job: Job) -> Engine:
    if _routers.run != (job.folder, job.stamp):
        _routers.engine = new_engine(job, skeleton.sample_of(job), VOTES)
        _routers.run = (job.folder, job.stamp)
    return _routers.engine


def _branches_near(job: Job, plan: skeleton.Skeleton, rows: Any) -> Labels:
    """Return the branches of the nearest sampled points, nearest first."""
    points = clone(job.model).prepare(rows, reset=True).rows
    found = _router(job).look_up(points, limit=len(plan.branch_of)).slots
    near = np.where(found == NONE, -1, plan.branch_of[found])
    lost = np.flatnonzero(near[:, 0] < 0)
    if len(lost):
        near[lost, 0] = [_branch_by_key(job, rows[i], plan.n_branches) for i in lost.tolist()]
    return np.where(near < 0, near[:, :1], near)


def _branch_by_key(job: Job, record: Any, n_branches: int) -> int:
    """Return the branch of a record that no sampled one is near: the same for all that share their first key."""
    search = job.model.search
    sources = search if isinstance(search, (list, tuple)) else [search]
    keys = [key for source in sources if isinstance(source, ByKey) for key in source.keys_of(record)]
    return zlib.crc32(repr(keys[0]).encode()) % n_branches if keys else 0


def _most_voted(near: Labels) -> Labels:
    """Return by point the branch that comes up most often; of equals, the nearest.

    >>> _most_voted(np.array([[0, 1, 1], [0, 1, 2]])).tolist()
    [1, 0]
    """
    votes = (near[:, :, None] == near[:, None, :]).sum(axis=2)
    found: Labels = near[np.arange(len(near)), votes.argmax(axis=1)]
    return found


def _alternatives(plan: skeleton.Skeleton, home: Labels, near: Labels) -> tuple[Labels, Labels]:
    """Return the other branches near each point, by their shards: positions of points, and branches."""
    positions, branches = [], []
    seen = home[:, None]
    for column in range(near.shape[1]):
        branch = near[:, column]
        is_new = ~(seen == branch[:, None]).any(axis=1)
        positions.append(np.flatnonzero(is_new))
        branches.append(branch[is_new])
        seen = np.concatenate([seen, branch[:, None]], axis=1)
    at = np.concatenate(positions).astype(np.int64)
    to = np.concatenate(branches).astype(np.int64)
    order = np.lexsort((to, at, plan.shard_of[to]))
    return at[order], to[order]


class Members(NamedTuple):
    """The points that were routed to a shard, in ascending order of their numbers, and where their rows are."""

    numbers: Labels
    branches: Labels
    is_near_border: Mask
    pieces: Labels
    positions: Labels


def members_of(job: Job, shard: int) -> Members:
    """Return the points that were routed to a shard."""
    found = [routed(job, piece, shard) for piece in range(job.n_pieces)]
    positions, numbers, branches, is_near_border = (np.concatenate(columns) for columns in zip(*found, strict=True))
    pieces = np.repeat(np.arange(job.n_pieces), [len(part.positions) for part in found])
    return Members(numbers, branches, is_near_border, pieces, positions)


def rows_at(job: Job, pieces: Labels, positions: Labels) -> Any:
    """Return the rows at these positions of the pieces; pieces in ascending order, positions in each as well."""
    bounds = np.searchsorted(pieces, np.arange(job.n_pieces + 1))
    parts = [
        read_rows(
            job.of_piece(STAGE, piece, ".rows"), _range_or_positions(positions[bounds[piece] : bounds[piece + 1]])
        )
        for piece in range(job.n_pieces)
        if bounds[piece] < bounds[piece + 1]
    ]
    return joined(parts)


def _range_or_positions(positions: Labels) -> slice | Labels:
    first, last = int(positions[0]), int(positions[-1])
    return slice(first, last + 1) if last - first + 1 == len(positions) else positions
