"""Two stages of repair: points whose nearest neighbour is in another branch go there.

In one tree a point enters beside the nearest of all points. Where shards are routed by a sample, some points are sent
past it. So every branch is asked about the points that may belong to it, and then each shard decides about its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grinch._checks import count_rows, taken
from grinch._types import Floats, Labels
from grinch.io.rows import n_bytes
from grinch.sharded.files import read_arrays, read_part, write_arrays
from grinch.sharded.job import Job
from grinch.sharded.stages import route, skeleton
from grinch.sharded.stages.route import Members, members_of, rows_at

ASKING, DECIDING = "neighbors", "moves"


class Answers(NamedTuple):
    """Answers of a shard about points of others: its own nearest, the score of the two, and who is nearest to that.

    ``guests`` are numbers of points, ``neighbors`` of the nearest in ``branches``; ``scores`` are of the two, and
    ``held`` of the neighbour and its own nearest.
    """

    guests: Labels
    branches: Labels
    scores: Floats
    neighbors: Labels
    held: Floats


class Moves(NamedTuple):
    """Points that leave a shard, by the shard they go to: where their rows are, and their new branch."""

    numbers: Labels
    pieces: Labels
    positions: Labels
    branches: Labels


# Asking -----------------------------------------------------------------------------------------------------------


def ask(job: Job, shard: int) -> dict[str, int]:
    """Find how near the points of a shard are to each other where it matters, and to guests that may belong here."""
    plan, members = skeleton.load(job), members_of(job, shard)
    rows = rows_at(job, members.pieces, members.positions)
    guests, guest_rows, guest_branches, guest_shards = guests_of_shard(job, plan, shard)
    own, nothing = np.full(len(members.numbers), np.nan), np.empty(0, np.int64)
    found = [(nothing, np.empty(0), nothing)]
    for branch in np.flatnonzero(plan.shard_of == shard).tolist():
        inside, asked = np.flatnonzero(members.branches == branch), np.flatnonzero(guest_branches == branch)
        if not len(inside):
            continue
        scores, neighbors = _ask_branch(job, rows, members, inside, taken(guest_rows, asked), own)
        found.append((asked, scores, inside[neighbors]))
    asked, scores, nearest = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.lexsort((guests[asked], guest_shards[asked]))
    asked, nearest = asked[order], nearest[order]
    write_arrays(
        job.of_shard(ASKING, shard),
        own=own,
        guests=guests[asked],
        branches=guest_branches[asked],
        scores=scores[order],
        neighbors=members.numbers[nearest],
        held=own[nearest],
        shard_starts=np.searchsorted(guest_shards[asked], np.arange(plan.n_shards + 1)),
    )
    return {"points": len(members.numbers), "guests": len(guests), "read": n_bytes(rows) + n_bytes(guest_rows)}


def _ask_branch(
    job: Job, rows: Any, members: Members, inside: Labels, guests: Any, own: Floats
) -> tuple[Floats, Labels]:
    """Return of each guest the nearest point of a branch and its score; fill ``own`` where it will be looked at."""
    engine, count = route.new_engine(job, taken(rows, inside), 1), len(inside)
    scores, neighbors = np.empty(0), np.empty(0, np.int64)
    if count_rows(guests):
        near = engine.look_up(guests, limit=count)
        scores, neighbors = near.score, np.where(near.slots[:, 0] < 0, 0, near.slots[:, 0]).astype(np.int64)
    is_looked_at = members.is_near_border[inside].copy()
    is_looked_at[neighbors] = True
    slots = np.flatnonzero(is_looked_at)
    own[inside[slots]] = engine.look_around(slots, limit=count).score if len(slots) else 0.0
    return scores, neighbors


def guests_of_shard(job: Job, plan: skeleton.Skeleton, shard: int) -> tuple[Labels, Any, Labels, Labels]:
    """Return points of other branches that may belong here: numbers, rows, the branch in question, their shards."""
    found = [route.guests_of(job, piece, shard) for piece in range(job.n_pieces)]
    positions, numbers, branches, homes = (np.concatenate(columns) for columns in zip(*found, strict=True))
    pieces = np.repeat(np.arange(job.n_pieces), [len(part.positions) for part in found])
    return numbers, rows_at(job, pieces, positions), branches, plan.shard_of[homes]


# Deciding ---------------------------------------------------------------------------------------------------------


def decide(job: Job, shard: int) -> dict[str, int]:
    """Choose the points of a shard that go to another branch: those with a nearer neighbour there."""
    plan, members = skeleton.load(job), members_of(job, shard)
    (own,) = read_arrays(job.of_shard(ASKING, shard), "own")
    answers = _answers_about(job, plan.n_shards, shard)
    at = np.searchsorted(members.numbers, answers.guests)
    is_nearer = answers.scores > own[at]
    # Two points that are each other's nearest must not both go: the one that came later does.
    is_mutual = answers.scores > answers.held
    goes = np.flatnonzero(is_nearer & (~is_mutual | (answers.guests > answers.neighbors)))
    # Of several branches the one with the nearest neighbour, the first of equals.
    goes = goes[np.lexsort((answers.branches[goes], -answers.scores[goes], answers.guests[goes]))]
    goes = goes[np.unique(answers.guests[goes], return_index=True)[1]]
    there = plan.shard_of[answers.branches[goes]]
    goes, there = goes[np.argsort(there, kind="stable")], np.sort(there, kind="stable")
    at = np.searchsorted(members.numbers, answers.guests[goes])
    write_arrays(
        job.of_shard(DECIDING, shard),
        numbers=members.numbers[at],
        pieces=members.pieces[at],
        positions=members.positions[at],
        branches=answers.branches[goes],
        shard_starts=np.searchsorted(there, np.arange(plan.n_shards + 1)),
    )
    return {"points": len(members.numbers), "moved": len(goes)}


def moves_from(job: Job, shard: int) -> Moves:
    """Return the points that leave a shard."""
    return Moves(*read_arrays(job.of_shard(DECIDING, shard), *Moves._fields))


def moves_between(job: Job, shard: int, goal: int) -> Moves:
    """Return the points that leave a shard for another."""
    return Moves(*read_part(job.of_shard(DECIDING, shard), "shard_starts", goal, *Moves._fields)[1])


def _answers_about(job: Job, n_shards: int, shard: int) -> Answers:
    """Return the answers of all shards about the points of one."""
    parts = [
        read_part(job.of_shard(ASKING, other), "shard_starts", shard, *Answers._fields)[1] for other in range(n_shards)
    ]
    return Answers(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
