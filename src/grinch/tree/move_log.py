"""The nodes of a growing tree that moved, for any number of followers, each of which reads at its own pace.

The functions that change a tree write down each node that moves (:func:`grinch.tree.links.write_down`). A follower
reads on from where it stopped; one that missed something has to look at the whole tree.
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np

from grinch._types import Ids, Slots
from grinch.tree.links import MOVED, Links

# How many moved nodes are written down; an insert moves about 13. With more, the whole tree is looked at. At 100,000
# points, to follow 5,000 that came took a third of the time of looking at everything.
MAX_MOVED = 2**18


class TreeFollower(Protocol):
    """Has arrays by node, which have to be carried along when nodes get other numbers."""

    def grown(self, capacity: int) -> None:
        """Make room for more leaves; internal nodes move to the new offset."""
        ...

    def reordered(self, source: Ids) -> None:
        """Let internal row i be what row ``source[i]`` was."""
        ...

    def compacted(self, leaves: Slots, internal: Slots, capacity: int) -> None:
        """Keep these nodes only, counted from 0, and from the node after the offset."""
        ...


class MoveLog:
    """The moves of one tree, and how far each follower has read; unreferenced ones are forgotten."""

    def __init__(self) -> None:
        self._nodes: Ids = np.zeros(0, np.int32)
        # None for one that missed something.
        self._read: WeakKeyDictionary[TreeFollower, int | None] = WeakKeyDictionary()

    def __contains__(self, follower: TreeFollower) -> bool:
        return follower in self._read

    def followers(self) -> list[TreeFollower]:
        return list(self._read)

    def add(self, links: Links, follower: TreeFollower, is_current: bool) -> Links:
        """Return the same tree with room for its moves; ``is_current`` if the follower knows it as it is now."""
        if not len(self._nodes):
            self._nodes = np.zeros(MAX_MOVED, np.int32)
            links.head[MOVED] = 0
        self._read[follower] = int(links.head[MOVED]) if is_current else None
        return links._replace(moved=self._nodes)

    def unread(self, links: Links, follower: TreeFollower) -> Ids | None:
        """Return the nodes that moved since the follower last read; None if they are not known."""
        start, stop = self._read[follower], int(links.head[MOVED])
        return None if start is None or stop > len(self._nodes) else self._nodes[start:stop]

    def mark_read(self, links: Links, follower: TreeFollower) -> None:
        """Note that a follower has seen everything; what all of them have seen is dropped."""
        n = int(links.head[MOVED])
        self._read[follower] = n
        behind = [other for other, read in self._read.items() if read is not None and read < n]
        if n > len(self._nodes):
            self._read.update((other, None) for other in behind)
        elif behind:
            return
        links.head[MOVED] = 0
        self._read.update((other, 0) for other, read in list(self._read.items()) if read == n)

    def lose(self, links: Links) -> Links:
        """Return a tree that has other arrays, or other scores, so that its followers look at all of it."""
        self._read.update(dict.fromkeys(self._read))
        links.head[MOVED] = 0
        return links._replace(moved=self._nodes)
