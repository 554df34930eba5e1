"""Following a tree as it changes: what is known by node, and the part of the tree to look at after a change.

A :class:`Follower` has arrays by node that it carries along when nodes get other numbers. After a change it brings up
to date what it keeps for every node (how many points, which of them is the oldest, a key that says which points they
are, the score of the two sides) and returns the :class:`Region` that changed: the nodes at or above those that moved.
The work is in proportion to that region; only where nodes were numbered again, or more of them moved than there is
room to write down, is it the whole tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._compile import kernel
from grinch._types import Counts, Flags, Floats, Ids, Slots
from grinch.tree.links import LEAVES, MOVED, NONE, SIZE, Links, left, right
from grinch.tree.live_cut import all_internal, gather_above

# How many moved nodes are written down; an insert moves about 13. With more, the whole tree is looked at. At 100,000
# points, to follow 5,000 that came took a third of the time of looking at everything.
MOST_MOVED = 2**18

Keys = npt.NDArray[np.uint64]
Ask = Callable[[Slots], Floats]

# What is kept for every node, leaves among them.
SHARED: dict[str, Any] = {
    "keys": np.uint64,
    "changed_at": np.int64,
    "counts": np.int32,
    "oldest": np.int64,
    "scores": np.float64,
}


class Region(NamedTuple):
    """What a change left to look at.

    ``nodes``: the internal nodes at or above those that moved, children first. ``oldest_before``: by these nodes, the
    oldest point that each had. ``came``: leaf slots that were filled; ``came_from``: for each of them the number, in
    ``left``, of the point that it is a new version of, or -1. ``left``: the positions of the points that left their
    slots; ``left_by``: what was noted of them.
    """

    nodes: Slots
    oldest_before: Counts
    came: Slots
    came_from: Counts
    left: Counts
    left_by: dict[str, npt.NDArray[Any]]

    @property
    def is_empty(self) -> bool:
        return not (len(self.nodes) or len(self.came) or len(self.left))


class Follower:
    """Follows the tree of one engine.

    ``arrays`` are by node; others may add theirs (:meth:`add`), which are then carried along when nodes are numbered
    again. Of points that leave, ``left_by`` of the region has what the arrays in ``noted`` said of them.
    """

    def __init__(self, capacity: int = 0):
        self.capacity = capacity
        self.arrays: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(2 * capacity, dtype) for name, dtype in SHARED.items()
        }
        self.noted: list[str] = []
        self.moved: Ids = np.zeros(MOST_MOVED, np.int32)
        """Where the tree is to write down which nodes moved."""
        self._begin()

    def _begin(self) -> None:
        self._met = np.zeros(2 * self.capacity, np.int32)
        self._update = 0
        # Points that left before their slots were numbered again: positions, and what was noted of them.
        self._departed: list[tuple[Counts, dict[str, npt.NDArray[Any]]]] = []
        # Of nodes that are free since the last update, the keys, and when they had changed.
        self._earlier: list[tuple[Keys, Counts]] = []

    @classmethod
    def of(cls, arrays: dict[str, npt.NDArray[Any]]) -> Follower:
        """One that goes on with these arrays, as they were when the tree was last looked at."""
        follower = cls()
        follower.arrays, follower.capacity = arrays, len(arrays["keys"]) // 2
        follower._begin()
        return follower

    def add(self, name: str, dtype: Any) -> None:
        """Keep an array by node, of zeros, under this name."""
        self.arrays[name] = np.zeros(2 * self.capacity, dtype)

    def drop(self, name: str) -> None:
        del self.arrays[name]

    @property
    def met(self) -> Ids:
        """By node, ``now`` if it is in the region of the last update, or a leaf that moved."""
        return self._met

    @property
    def now(self) -> int:
        return self._update

    # The tree gets other arrays -----------------------------------------------------------------------------------

    def follow(self, links: Links) -> Links:
        """The same tree, which writes down its moves here from now on; what moved before is not known."""
        links.head[MOVED] = len(self.moved) + 1
        return links._replace(moved=self.moved)

    def go_on(self, links: Links) -> Links:
        """The same tree as when it was last looked at, which writes down its moves here from now on."""
        links.head[MOVED] = 0
        return links._replace(moved=self.moved)

    def grown(self, capacity: int) -> None:
        """There is room for more leaves, and internal nodes have moved to a new offset."""
        old = self.capacity

        def moved(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            new = np.zeros(2 * capacity, array.dtype)
            new[:old], new[capacity : capacity + old] = array[:old], array[old:]
            return new

        self._carry(moved, capacity)

    def reordered(self, source: Ids) -> None:
        """Internal row i is what row ``source[i]`` was."""
        for array in self.arrays.values():
            array[self.capacity :] = array[self.capacity + source]

    def compacted(self, leaves: Slots, internal: Slots, capacity: int) -> None:
        """Only these nodes are left, counted from 0, and from the node after the offset."""
        gone = self.arrays["counts"][: self.capacity] > 0
        gone[leaves] = False
        self._note_departed(np.flatnonzero(gone))
        is_free = self.arrays["keys"][self.capacity :] != 0
        is_free[internal - self.capacity] = False
        self._note_free(self.capacity + np.flatnonzero(is_free))

        def kept(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            new = np.zeros(2 * capacity, array.dtype)
            new[: len(leaves)], new[capacity + 1 : capacity + 1 + len(internal)] = array[leaves], array[internal]
            return new

        self._carry(kept, capacity)

    def _carry(self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], capacity: int) -> None:
        for name, array in self.arrays.items():
            self.arrays[name] = change(array)
        self._met, self._update = np.zeros(2 * capacity, np.int32), 0
        self.capacity = capacity

    def _note_departed(self, slots: Slots) -> None:
        self._departed.append((self.arrays["oldest"][slots], {name: self.arrays[name][slots] for name in self.noted}))
        self.arrays["counts"][slots] = 0

    # The tree has changed -----------------------------------------------------------------------------------------

    def update(self, links: Links, positions: Counts, ask: Ask, version: int) -> Region:
        """Follow the tree to where it is.

        ``positions`` are those of the points by slot; ``ask(nodes)`` returns the scores of the children of these nodes.
        """
        n_moved = int(links.head[MOVED])
        is_all = links.moved is not self.moved or n_moved > len(self.moved)
        came, gone = self._leaves_of_all(links) if is_all else self._leaves_among(links, self.moved[:n_moved])
        self._note_departed(gone)
        left = np.concatenate([positions for positions, _ in self._departed])
        left_by = {name: np.concatenate([by[name] for _, by in self._departed]) for name in self.noted}
        self._departed = []
        self._fill_leaves(came, positions, version)
        nodes = self.all_nodes(links) if is_all else self._above(links, self.moved[:n_moved])
        free = self._free_of_all(links) if is_all else self._free_among(links, self.moved[:n_moved])
        self._note_free(free)
        before = self._raise(links, nodes, came, ask, version)
        links.head[MOVED] = 0
        return Region(nodes, before, came, _same(positions[came], left), left, left_by)

    def _leaves_of_all(self, links: Links) -> tuple[Slots, Slots]:
        """The slots that were filled, and those that were emptied, of all."""
        is_in, was_in = links.table[: self.capacity, SIZE] != NONE, self.arrays["counts"][: self.capacity] > 0
        return np.flatnonzero(is_in & ~was_in), np.flatnonzero(was_in & ~is_in)

    def _leaves_among(self, links: Links, moved: Ids) -> tuple[Slots, Slots]:
        """The same, of those that moved."""
        slots = np.unique(moved[moved < self.capacity]).astype(np.intp)
        is_in, was_in = links.table[slots, SIZE] != NONE, self.arrays["counts"][slots] > 0
        return slots[is_in & ~was_in], slots[was_in & ~is_in]

    def _free_of_all(self, links: Links) -> Slots:
        """The internal nodes that are no longer in the tree."""
        is_free = (links.table[self.capacity :, SIZE] == NONE) & (self.arrays["keys"][self.capacity :] != 0)
        return self.capacity + np.flatnonzero(is_free)

    def _free_among(self, links: Links, moved: Ids) -> Slots:
        """The same, of those that moved."""
        nodes = moved[moved >= self.capacity]
        return np.unique(nodes[links.table[nodes, SIZE] == NONE]).astype(np.intp)

    def _note_free(self, nodes: Slots) -> None:
        """The points of these nodes may all be under another one now."""
        self._earlier.append((self.arrays["keys"][nodes], self.arrays["changed_at"][nodes]))
        self.arrays["keys"][nodes] = 0

    def _fill_leaves(self, slots: Slots, positions: Counts, version: int) -> None:
        arrays = self.arrays
        arrays["oldest"][slots] = positions[slots]
        arrays["keys"][slots] = keys_of(positions[slots])
        arrays["counts"][slots], arrays["changed_at"][slots] = 1, version

    def _above(self, links: Links, moved: Ids) -> Slots:
        self._update += 1
        most = max(int(links.head[LEAVES]), 1)
        room = [np.empty(size, np.intp) for size in (most, len(moved) + 1, most)]
        n = gather_above(links, moved, self._met, self._update, *room)
        self._met[moved[moved < self.capacity]] = self._update
        return room[-1][:n]

    def all_nodes(self, links: Links) -> Slots:
        """All internal nodes, children first: the region of whoever looks at the whole tree."""
        self._update += 1
        self._met[:] = self._update
        return all_internal(links)

    def _raise(self, links: Links, nodes: Slots, came: Slots, ask: Ask, version: int) -> Counts:
        """Bring the nodes of a region up to date; returns the oldest point that each had."""
        arrays = self.arrays
        keys, oldest = arrays["keys"][nodes], arrays["oldest"][nodes]
        arrays["scores"][nodes] = ask(nodes)
        has_new = np.zeros(2 * self.capacity, np.uint8)
        has_new[came] = 1
        sum_up(links, nodes, arrays["keys"], arrays["counts"], arrays["oldest"], has_new)
        is_new = has_new[nodes] == 1
        others = np.flatnonzero(~is_new & (arrays["keys"][nodes] != keys))
        self._earlier.append((keys, arrays["changed_at"][nodes]))
        if len(others):
            arrays["changed_at"][nodes[others]] = self._changed_before(nodes[others], version)
        arrays["changed_at"][nodes[is_new]] = version
        self._earlier = []
        return oldest

    def _changed_before(self, nodes: Slots, version: int) -> Counts:
        """When the points under these last changed: now, unless they were all under another node before."""
        keys, changed_at = (np.concatenate(some) for some in zip(*self._earlier, strict=True))
        found, when = self.arrays["keys"][nodes], np.full(len(nodes), version)
        # Few of many: it is the few that are sorted.
        order = np.argsort(found)
        match = order[np.minimum(np.searchsorted(found, keys, sorter=order), len(found) - 1)]
        is_match = found[match] == keys
        when[match[is_match]] = changed_at[is_match]
        return when

    def is_up_to_date(self, links: Links) -> bool:
        """Whether the tree is as it was when it was last looked at, as far as that is known here."""
        return links.moved is not self.moved or int(links.head[MOVED]) == 0

    def touched(self, links: Links, since: int) -> Slots:
        """The nodes of the tree whose points changed after a version: leaves that came, and internal nodes."""
        is_in = (self.arrays["changed_at"] > since) & (links.table[:, SIZE] != NONE)
        return np.flatnonzero(is_in)


def _same(positions: Counts, among: Counts) -> Counts:
    """For each position its place among others, or -1."""
    if not len(among) or not len(positions):
        return np.full(len(positions), -1)
    order = np.argsort(among)
    at = order[np.minimum(np.searchsorted(among, positions, sorter=order), len(among) - 1)]
    return np.where(among[at] == positions, at, -1)


def keys_of(positions: Counts) -> Keys:
    """A number for every position, which looks random: splitmix64.

    The key of a group is the sum of those of its points, so the order in which they are added does not matter.

    >>> keys_of(np.array([0, 1])).tolist()
    [16294208416658607535, 7960286522194355700]
    """
    z = positions.astype(np.uint64) + np.uint64(1)
    z *= np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def sum_up(tree: Links, nodes: Slots, keys: Keys, counts: Ids, oldest: Counts, has_new: Flags) -> None:
    """What is known of these nodes, which come children first, from their children."""
    for i in range(nodes.shape[0]):
        v = nodes[i]
        a, b = left(tree, v), right(tree, v)
        keys[v] = keys[a] + keys[b]
        counts[v] = counts[a] + counts[b]
        oldest[v] = min(oldest[a], oldest[b])
        has_new[v] = has_new[a] | has_new[b]
