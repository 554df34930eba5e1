"""A tree is polished as it grows, up to a size: swaps that bring neighbours together, at certain numbers of points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from grinch._types import Ids, Slots
from grinch.core.engine import Engine
from grinch.refine.copies import copies_in_order, is_full_of_copies
from grinch.refine.known_neighbors import KnownNeighbors
from grinch.refine.neighbor_cost import NeighborCost
from grinch.refine.neighbor_graph import graph_of, without_far
from grinch.saving.state import State, item, require
from grinch.tree import walks
from grinch.tree.links import LEAVES, OFFSET, ROOT, Links, grown, shrunk

# Where the exact search ends; a larger tree would stand still for a quarter of a second.
POLISHED_UP_TO = 16_384
POLISHING_SWEEPS = 50
# A polished tree may be this deep, if it was not deeper before.
DEEP = 128
# How many of the neighbours that a point knows of count.
COUNTED = 25
# A pair of neighbours of which only one knows the other counts as a tenth of a pair that know each other: a small group
# has neighbours beyond its own members, and those have nearer ones.
MUTUAL = 10


def _polished_at() -> Iterator[int]:
    """A twentieth apart, a tenth beyond 1,000 and a quarter beyond 2,048."""
    n = 40
    while n <= POLISHED_UP_TO:
        yield n
        n += n // (20 if n < 1000 else 10 if n < 2048 else 4)


POLISHED_AT = tuple(_polished_at())


class Polisher:
    """A gardener (:class:`~grinch.core.engine.Gardener`) that polishes a tree of up to 16,384 points as it grows."""

    def __init__(self) -> None:
        self.neighbors = KnownNeighbors(POLISHED_UP_TO, COUNTED)

    def to_state(self) -> State:
        return {"neighbors": self.neighbors.to_state()}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        polisher = cls()
        polisher.neighbors = KnownNeighbors.from_state(item(state, "neighbors"))
        return polisher

    def validate(self, n: int, is_due: bool) -> None:
        is_usual = self.neighbors.most_points == POLISHED_UP_TO and self.neighbors.width == COUNTED
        require(is_usual, "other neighbours are known than should be")
        self.neighbors.validate(n, is_due)

    def stops(self, first: int, stop: int) -> list[int]:
        return [] if first >= POLISHED_UP_TO else [n for n in POLISHED_AT if first < n <= stop]

    def found(self, engine: Engine, first: int, candidates: Ids) -> None:
        self.neighbors.note(engine, first, candidates)

    def adopted(self, engine: Engine, count: int) -> None:
        if count >= POLISHED_UP_TO:
            self.neighbors.give_up()
            return
        for first, candidates in engine.search.stream(0, count):
            self.found(engine, first, candidates)

    def tend(self, engine: Engine) -> None:
        if self.neighbors.is_complete:
            polish(engine, self.neighbors)

    def compacted(self, slots: Slots) -> None:
        self.neighbors.compacted(slots)


def depth(links: Links) -> int:
    """How many steps it is from the root to the farthest leaf."""
    preorder, depths = walks.no_nodes(2 * int(links.head[LEAVES]) - 1), np.zeros(len(links.table), np.int32)
    walks.fill_preorder(links.table, int(links.head[ROOT]), int(links.head[OFFSET]), preorder)
    walks.fill_depths(links.table, preorder, int(links.head[OFFSET]), depths)
    return int(depths.max())


def polish(engine: Engine, neighbors: KnownNeighbors) -> None:
    """Bring neighbours together, as far as they are known: swaps until few are left."""
    neighbors.meet(engine)
    look = engine.summaries.look(engine.n_slots)
    if is_full_of_copies(look):
        return
    # In as little room as the tree needs, for it may be the beginning of a large one.
    links = shrunk(engine.links, engine.n_slots)
    near = neighbors.among(engine.slots())
    near = without_far(near, engine.summaries.leaf_rows(len(near)))
    near = copies_in_order(near, look, links)
    before = depth(links)
    graph = graph_of(near, mutual=MUTUAL, one_sided=1, least_part=0.0)
    NeighborCost(graph, engine.n_slots).sweep(links, most=POLISHING_SWEEPS)
    # Points that come along a line are neighbours in a row, and the best tree of a part of the row may be a chain.
    if depth(links) > max(before, DEEP):
        return
    engine.restore(grown(links, engine.summaries.capacity, engine.summaries.is_undoable))
