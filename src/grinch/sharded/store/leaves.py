"""The points of all branches in the order in which they came: the leaves of the whole tree, and where each is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from grinch._types import Counts, Ids, Slots
from grinch.sharded.store.branch import Branch


class Leaves(NamedTuple):
    """By leaf, its arrival number, ascending, and its place among the points branch by branch; 16 bytes a point.

    By place, ``positions`` are those in the stores of the branches; branch i has the places from ``starts[i]`` on.
    """

    numbers: Counts
    places: Ids
    positions: Ids
    starts: Counts

    @classmethod
    def of(cls, branches: Sequence[Branch]) -> Leaves:
        positions = [branch.positions() for branch in branches]
        numbers = np.concatenate([branch.order[at] for branch, at in zip(branches, positions, strict=True)])
        places = np.argsort(numbers, kind="stable")
        starts = np.cumsum([0, *(len(at) for at in positions)])
        found = np.concatenate(positions).astype(np.int32)
        return cls(numbers[places], places.astype(np.int32), found, starts.astype(np.int64))

    def ranks(self) -> list[Slots]:
        """By branch, the leaves that its points are, in the order of the branch's own leaves."""
        ranks = np.empty(len(self.places), np.int64)
        ranks[self.places] = np.arange(len(self.places))
        return np.split(ranks, self.starts[1:-1])

    def at(self, numbers: Counts) -> Counts:
        """The leaf of each arrival number; -1 for points that are not there.

        >>> leaves = Leaves(np.array([3, 7]), np.array([1, 0]), np.array([0, 0]), np.array([0, 1, 2]))
        >>> leaves.at(np.array([7, 5])).tolist()
        [1, -1]
        """
        found = np.searchsorted(self.numbers, numbers)
        is_there = found < len(self.numbers)
        is_there[is_there] = self.numbers[found[is_there]] == numbers[is_there]
        return np.where(is_there, found, -1)

    def parts(self, numbers: Counts) -> Iterator[tuple[int, Slots, Counts]]:
        """Of points that are asked for: branch by branch, which of them it has, and their positions there."""
        leaves = self.at(numbers)
        asked = np.flatnonzero(leaves >= 0)
        places = self.places[leaves[asked]]
        owners = np.searchsorted(self.starts, places, side="right") - 1
        for owner in np.unique(owners).tolist():
            of = np.flatnonzero(owners == owner)
            yield owner, asked[of], self.positions[places[of]].astype(np.int64)
