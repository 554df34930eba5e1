"""A growing tree, arrays by node that follow it, and the part of it to visit after a change.

A :class:`Follower` carries its arrays along when nodes get other numbers. After a change it brings up to date the
number of points under each node and which of them is the oldest, and returns the :class:`Region` that changed: the
nodes at or above those that moved. The work is in proportion to that region; only where nodes were numbered again, or
more of them moved than there is room to write down, is it the whole tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from grinch._compile import kernel
from grinch._types import Counts, Floats, Ids, Labels, Mask, Slots, as_id
from grinch.cuts.choice import Choice
from grinch.tree.links import NONE, SIZE, Links, MoveLog, TreeFollower, is_leaf, left, parent, right, size


class Builder(Protocol):
    """What builds the tree, such as the engine of Grinch."""

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
        return self.links.n_leaves

    def slots(self) -> Slots:
        """Return the slots of the points, by position: leaf i of the tree handed out is in slot i of these."""
        slots = self.links.nodes()[0]
        positions = self.positions[slots]
        return slots if (positions[1:] > positions[:-1]).all() else slots[np.argsort(positions, kind="stable")]

    def handed_out(self, nodes: Slots) -> Slots:
        """Return the ids that nodes have in the tree handed out; 0 for those that are not in the tree."""
        ids, internal = np.zeros(len(self.links.table), np.intp), self.links.nodes()[1]
        ids[self.slots()] = np.arange(self.n_leaves)
        ids[internal] = self.n_leaves + 1 + np.arange(len(internal))
        return ids[nodes]


Arrays = dict[str, npt.NDArray[Any]]

# By node, leaves among them: how many points are under it, and the position of the oldest.
BY_NODE: dict[str, Any] = {"counts": np.int32, "oldest": np.int64}


class Region(NamedTuple):
    """The part of a tree that a change left to visit.

    ``nodes``: the internal nodes at or above those that moved, children first; ``scores`` and ``oldest_before``: by
    these nodes, the scores of their children, and the oldest point that each had. ``came``: leaf slots that were
    filled; ``came_from``: for each of them the number, in ``left``, of the point that it is a new version of, or -1.
    ``left``: the positions of the points that left their slots; ``left_by`` and ``freed_by``: what was noted of them
    and of internal nodes that are no longer in the tree. ``met``: by node, ``now`` if it is in the region, or a leaf
    that moved.
    """

    nodes: Slots
    scores: Floats
    oldest_before: Counts
    came: Slots
    came_from: Counts
    left: Counts
    left_by: Arrays
    freed_by: Arrays
    met: Ids
    now: int

    @property
    def n_updated(self) -> int:
        return int((self.came_from >= 0).sum())

    @property
    def n_came(self) -> int:
        return len(self.came) - self.n_updated

    @property
    def n_left(self) -> int:
        return len(self.left) - self.n_updated

    @property
    def is_empty(self) -> bool:
        return not (len(self.nodes) or len(self.came) or len(self.left))


class Follower:
    """Arrays that follow the tree of one builder.

    ``arrays`` are by node; whoever needs more adds them (:meth:`add`). Of points that leave, ``left_by`` of the region
    has what the arrays in ``noted`` had; of internal nodes, ``freed_by`` what those in ``noted_of_nodes`` had.
    """

    def __init__(self, arrays: Arrays | None = None) -> None:
        """Follow a tree from its beginning, or go on with the arrays of an earlier follower."""
        self.arrays: Arrays = (
            {name: np.zeros(0, dtype) for name, dtype in BY_NODE.items()} if arrays is None else arrays
        )
        self.capacity = len(self.arrays["counts"]) // 2
        self.noted: list[str] = []
        self.noted_of_nodes: list[str] = []
        self._met: Ids = np.zeros(2 * self.capacity, np.int32)
        self._now = 0
        # What was noted, since the last update, of points that left and of nodes that are free.
        self._left: list[Arrays] = []
        self._freed: list[Arrays] = []

    def add(self, name: str, dtype: Any) -> None:
        """Add an array by node, of zeros."""
        self.arrays[name] = np.zeros(2 * self.capacity, dtype)

    # Nodes get other numbers --------------------------------------------------------------------------------------

    def join(self, tree: GrowingTree, is_current: bool = False) -> None:
        """Follow this tree from now on; ``is_current`` if the arrays are those of the tree as it is."""
        capacity = tree.links.offset
        if self.capacity == 0:
            self.grown(capacity)
        tree.builder.follow(self, is_current)

    def grown(self, capacity: int) -> None:
        """Make room for more leaves; internal nodes move to the new offset."""
        leaves = np.arange(self.capacity)
        self._carry(leaves, self.capacity + leaves, capacity, capacity)

    def reordered(self, source: Ids) -> None:
        """Let internal row i be what row ``source[i]`` was."""
        for array in self.arrays.values():
            array[self.capacity :] = array[self.capacity + source]

    def compacted(self, leaves: Slots, internal: Slots, capacity: int) -> None:
        """Keep these nodes only, counted from 0, and from the node after the offset."""
        is_gone = self.arrays["counts"] > 0
        is_gone[leaves] = is_gone[internal] = False
        self._let_go(np.flatnonzero(is_gone))
        self._carry(leaves, internal, capacity, capacity + 1)

    def _carry(self, leaves: Slots, internal: Slots, capacity: int, first: int) -> None:
        """Move leaves to the slots from 0 on and internal nodes to those from ``first`` on."""
        for name, array in self.arrays.items():
            self.arrays[name] = new = np.zeros(2 * capacity, array.dtype)
            new[: len(leaves)], new[first : first + len(internal)] = array[leaves], array[internal]
        self._met, self._now, self.capacity = np.zeros(2 * capacity, np.int32), 0, capacity

    def _let_go(self, gone: Slots) -> None:
        """Note the arrays of nodes that are no longer in the tree."""
        leaves, internal = gone[gone < self.capacity], gone[gone >= self.capacity]
        self._left.append({name: self.arrays[name][leaves] for name in ("oldest", *self.noted)})
        self._freed.append({name: self.arrays[name][internal] for name in self.noted_of_nodes})
        self.arrays["counts"][gone] = 0

    # The tree has changed -----------------------------------------------------------------------------------------

    def is_up_to_date(self, tree: GrowingTree) -> bool:
        """Return whether nothing has moved since the last update."""
        unread = tree.builder.moves.unread(tree.links, self)
        return unread is not None and len(unread) == 0

    def update(self, tree: GrowingTree) -> Region:
        """Follow the tree to where it is. If the scores cannot be had, nothing is changed."""
        links, moves = tree.links, tree.builder.moves
        moved = moves.unread(links, self)
        self._now += 1
        if moved is None:
            self._met[:] = self._now
        nodes = all_internal(links) if moved is None else self._meet_above(links, moved)
        scores = tree.builder.sibling_scores(nodes)
        some = np.arange(len(links.table)) if moved is None else np.unique(moved).astype(np.intp)
        is_in, was_in = links.table[some, SIZE] != NONE, self.arrays["counts"][some] > 0
        self._let_go(some[was_in & ~is_in])
        came = some[is_in & ~was_in & (some < self.capacity)]
        left_by, freed_by = _joined(self._left), _joined(self._freed)
        self._left, self._freed = [], []
        counts, oldest = self.arrays["counts"], self.arrays["oldest"]
        counts[came], oldest[came] = 1, tree.positions[came]
        oldest_before = oldest[nodes]
        sum_up(links, nodes, counts, oldest)
        moves.mark_read(links, self)
        left = left_by.pop("oldest")
        came_from = _places(oldest[came], left)
        return Region(nodes, scores, oldest_before, came, came_from, left, left_by, freed_by, self._met, self._now)

    def whole(self, tree: GrowingTree) -> Region:
        """Return the whole tree as a region in which all points are new, for a cut that begins."""
        nodes, slots, nothing = all_internal(tree.links), tree.slots(), np.empty(0, np.int64)
        scores, oldest = self.arrays["scores"][nodes], self.arrays["oldest"][nodes]
        from_nowhere, met = np.full(len(slots), -1), np.ones_like(self._met)
        return Region(nodes, scores, oldest, slots, from_nowhere, nothing, {}, {}, met, 1)

    def _meet_above(self, links: Links, moved: Ids) -> Slots:
        max_nodes = max(links.n_leaves, 1)
        room = [np.empty(n, np.intp) for n in (max_nodes, len(moved) + 1, max_nodes)]
        n = gather_above(links, moved, self._met, self._now, *room)
        self._met[moved[moved < self.capacity]] = self._now
        return room[-1][:n]


def _joined(parts: list[Arrays]) -> Arrays:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[-1]}


def _places(positions: Counts, among: Counts) -> Counts:
    """Return the place of each position among others, or -1."""
    if not len(among) or not len(positions):
        return np.full(len(positions), -1)
    order = np.argsort(among)
    at = order[np.minimum(np.searchsorted(among, positions, sorter=order), len(among) - 1)]
    return np.where(among[at] == positions, at, -1)


def all_internal(links: Links) -> Slots:
    """Return all internal nodes, children first."""
    order = links.preorder()
    return order[order >= links.offset][::-1].astype(np.intp)


@kernel
def gather_above(tree: Links, moved: Ids, met: Ids, now: int, found: Slots, starts: Slots, above: Slots) -> int:
    """Fill in the internal nodes at or above the moved ones, each once, children first; return how many there are.

    A path ends where it meets an earlier one, which therefore has to come after it.
    """
    n, n_paths = 0, 0
    for i in range(moved.shape[0]):
        v = as_id(moved[i])
        if size(tree, v) == NONE:
            continue
        if is_leaf(tree, v):
            v = parent(tree, v)
        starts[n_paths] = n
        n_paths += 1
        while v != NONE and met[v] != now:
            met[v] = now
            found[n] = v
            n += 1
            v = parent(tree, v)
    starts[n_paths] = n
    at = 0
    for path in range(n_paths - 1, -1, -1):
        for i in range(starts[path], starts[path + 1]):
            above[at] = found[i]
            at += 1
    return n


@kernel
def sum_up(tree: Links, nodes: Slots, counts: Ids, oldest: Counts) -> None:
    """Bring these nodes, which come children first, up to date from their children."""
    for i in range(nodes.shape[0]):
        v = nodes[i]
        a, b = left(tree, v), right(tree, v)
        counts[v] = counts[a] + counts[b]
        oldest[v] = min(oldest[a], oldest[b])
