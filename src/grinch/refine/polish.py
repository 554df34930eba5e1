"""Polishing of a tree as it grows, up to a size: swaps that bring neighbours together, at certain numbers of points.

Among copies of one point, which of them is whose neighbour says nothing, so the tree itself is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from grinch._types import Counts, Ids
from grinch.core.arrival_neighbors import KnownNeighbors
from grinch.core.engine import Engine
from grinch.refine.neighbor_cost import NeighborCost, graph_of, without_far
from grinch.saving.state import item, require
from grinch.tree.links import NONE, OFFSET, Links, fill_depths

# Where more than one in this many points has two duplicates or more, neighbours do not say what belongs together.
DUPLICATES_ONE_IN = 8


def is_full_of_duplicates(look: Counts | None) -> bool:
    """Return whether too many points are duplicates for a tree to be polished; ``look`` as below."""
    if look is None or len(look) == 0:
        return False
    counts = np.unique(look, return_counts=True)[1]
    return bool(counts[counts > 2].sum() * DUPLICATES_ONE_IN > len(look))


def duplicates_in_order(near: Ids, look: Counts | None, links: Links) -> Ids:
    """Return the same neighbours, but of three copies or more those beside each other in the tree are neighbours.

    Ties go to the first to arrive, so all copies would have the same few neighbours, and a tree that brings neighbours
    together would be a chain. ``look`` has a number for each point, the same for copies; None if that is not known.
    """
    if look is None:
        return near
    _, group, counts = np.unique(look, return_inverse=True, return_counts=True)
    if counts.max(initial=0) < 3:
        return near
    group = np.where(counts[group] > 2, group, NONE)
    is_copy = (near != NONE) & (group[near] == group[: len(near), None]) & (group[: len(near), None] != NONE)
    before, after = _duplicates_beside(group, links)
    # As often as before, for what counts is how many neighbours are copies and how many are not.
    copies = np.where(np.arange(near.shape[1]) % 2 == 0, after[: len(near), None], before[: len(near), None])
    other = np.where(np.arange(near.shape[1]) % 2 == 1, after[: len(near), None], before[: len(near), None])
    found = np.where(is_copy, np.where(copies == NONE, other, copies), near).astype(np.int32)
    # Of the copies of another point one is as good as all.
    groups = np.where((near == NONE) | is_copy, NONE, group[near])
    again = np.zeros(near.shape, np.bool_)
    for j in range(1, near.shape[1]):
        again[:, j] = (groups[:, j] != NONE) & (groups[:, :j] == groups[:, j, None]).any(axis=1)
    found[again] = NONE
    return np.ascontiguousarray(np.take_along_axis(found, np.argsort(found == NONE, axis=1, kind="stable"), axis=1))


def _duplicates_beside(group: Counts, links: Links) -> tuple[Ids, Ids]:
    """Return the copies before and after each point in the tree, without all others; NONE where there is none."""
    preorder = links.preorder()
    leaves = preorder[preorder < links.head[OFFSET]]
    leaves = leaves[group[leaves] != NONE]
    leaves = leaves[np.argsort(group[leaves], kind="stable")]
    one, next_one = leaves[:-1], leaves[1:]
    is_pair = group[one] == group[next_one]
    before, after = np.full(len(group), NONE, np.int32), np.full(len(group), NONE, np.int32)
    after[one[is_pair]], before[next_one[is_pair]] = next_one[is_pair], one[is_pair]
    return before, after


# Where the exact search ends; a larger tree would stand still for a quarter of a second.
POLISHED_UP_TO = 16_384
POLISHING_SWEEPS = 50
# A polished tree may be this deep, if it was not deeper before.
DEEP = 128
# How many of the neighbours that a point knows of count.
COUNTED = 25


def _polished_at() -> Iterator[int]:
    """Yield a twentieth apart, a tenth beyond 1,000 and a quarter beyond 2,048."""
    n = 40
    while n <= POLISHED_UP_TO:
        yield n
        n += n // (20 if n < 1000 else 10 if n < 2048 else 4)


POLISHED_AT = tuple(_polished_at())


class Polisher:
    """A :class:`~grinch.core.engine.TreeHook` that polishes a tree of up to 16,384 points as it grows."""

    def __init__(self) -> None:
        self.neighbors = KnownNeighbors(POLISHED_UP_TO, COUNTED)

    @classmethod
    def from_state(cls, state: Any) -> Self:
        polisher = cls()
        polisher.neighbors = KnownNeighbors.from_state(item(state, "neighbors"))
        is_usual = polisher.neighbors.max_points == POLISHED_UP_TO and polisher.neighbors.width == COUNTED
        require(is_usual, "other neighbours are known than should be")
        return polisher

    def stops(self, first: int, stop: int) -> list[int]:
        return [] if first >= POLISHED_UP_TO else [n for n in POLISHED_AT if first < n <= stop]

    def run(self, engine: Engine) -> None:
        if self.neighbors.is_complete:
            polish(engine, self.neighbors)


def depth(links: Links) -> int:
    """Return the number of edges from the root to the farthest leaf."""
    depths = np.zeros(len(links.table), np.int32)
    fill_depths(links.table, links.preorder(), links.offset, depths)
    return int(depths.max())


def polish(engine: Engine, neighbors: KnownNeighbors) -> None:
    """Bring neighbours together, as far as they are known: swaps until few are left."""
    neighbors.meet(engine)
    look = engine.summaries.look(engine.n_slots)
    if is_full_of_duplicates(look):
        return
    # In as little room as the tree needs, for it may be the beginning of a large one.
    links = engine.links.resized(engine.n_slots)
    slots = engine.slots()
    near = neighbors.among(slots, int(slots[-1]) + 1)
    near = without_far(near, engine.summaries.leaf_rows(len(near)))
    near = duplicates_in_order(near, look, links)
    before = depth(links)
    graph = graph_of(near, least_part=0.0)
    NeighborCost(graph, engine.n_slots).sweep(links, most=POLISHING_SWEEPS)
    # Points that come along a line are neighbours in a row, and the best tree of a part of the row may be a chain.
    if depth(links) > max(before, DEEP):
        return
    engine.restore(links.resized(engine.summaries.capacity, engine.summaries.is_undoable))
