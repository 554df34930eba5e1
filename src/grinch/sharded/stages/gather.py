"""The points of a shard, from where routing wrote them down."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grinch._types import Labels, Mask
from grinch.sharded.files import joined, read_rows
from grinch.sharded.job import Job
from grinch.sharded.stages import route


class Members(NamedTuple):
    """The points that were routed to a shard, in ascending order of their numbers, and where their rows are."""

    numbers: Labels
    branches: Labels
    is_near_border: Mask
    pieces: Labels
    positions: Labels


def members_of(job: Job, shard: int) -> Members:
    """Who was routed to a shard."""
    parts = []
    for piece in range(job.n_pieces):
        found = route.routed(job, piece, shard)
        pieces = np.full(len(found.positions), piece)
        parts.append((found.numbers, found.branches, found.is_near_border, pieces, found.positions))
    return Members(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def rows_at(job: Job, pieces: Labels, positions: Labels) -> Any:
    """The rows at these positions of the pieces; pieces in ascending order, positions in each as well."""
    bounds = np.searchsorted(pieces, np.arange(job.n_pieces + 1))
    parts = [
        read_rows(route.rows_path(job, piece), _range_or_positions(positions[bounds[piece] : bounds[piece + 1]]))
        for piece in range(job.n_pieces)
        if bounds[piece] < bounds[piece + 1]
    ]
    return joined(parts)


def _range_or_positions(positions: Labels) -> slice | Labels:
    first, last = int(positions[0]), int(positions[-1])
    return slice(first, last + 1) if last - first + 1 == len(positions) else positions
