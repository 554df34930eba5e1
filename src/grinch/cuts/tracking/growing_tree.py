"""What a cut that follows a growing tree needs to know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from grinch._types import Counts, Floats, Labels, Mask, Slots
from grinch.cuts.choice import Choice
from grinch.tree.links import LEAVES, Links, nodes_in
from grinch.tree.move_log import MoveLog, TreeFollower


class Builder(Protocol):
    """Whatever builds the tree; Grinch's engine is one."""

    @property
    def links(self) -> Links:
        """The tree under construction."""
        ...

    @property
    def moves(self) -> MoveLog:
        """The nodes that moved."""
        ...

    @property
    def ceiling(self) -> float | None:
        """The score of two identical points, if there is one; scores beyond it count as equal."""
        ...

    def sibling_scores(self, nodes: Slots) -> Floats:
        """Return the scores of the children of these nodes."""
        ...

    def follow(self, follower: TreeFollower, is_current: bool = False) -> None:
        """Write down moves for a follower; ``is_current`` if it knows the tree as it is now."""
        ...


class WholeCut(NamedTuple):
    """A cut of the whole tree handed out: by node, whether it is split; and by leaf, the cluster of the point."""

    is_split: Mask
    labels: Labels


@dataclass(frozen=True)
class GrowingTree:
    """A tree under construction and its points.

    ``positions`` are those of the points by slot: the order in which they were given. ``cut_automatically`` makes the
    automatic cut that is chosen.
    """

    builder: Builder
    positions: Counts
    cut_automatically: Callable[[Choice], WholeCut]

    @property
    def links(self) -> Links:
        return self.builder.links

    @property
    def n_leaves(self) -> int:
        return int(self.links.head[LEAVES])

    def slots(self) -> Slots:
        """Return the slots of the points, by position: leaf i of the tree handed out is in slot i of these."""
        slots = nodes_in(self.links)[0]
        positions = self.positions[slots]
        return slots if (positions[1:] > positions[:-1]).all() else slots[np.argsort(positions, kind="stable")]

    def handed_out(self, nodes: Slots) -> Slots:
        """Return the ids that nodes have in the tree handed out; 0 for those that are not in the tree."""
        ids, internal = np.zeros(len(self.links.table), np.intp), nodes_in(self.links)[1]
        ids[self.slots()] = np.arange(self.n_leaves)
        ids[internal] = self.n_leaves + 1 + np.arange(len(internal))
        return ids[nodes]
