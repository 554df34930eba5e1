"""A cut into a number of clusters that follows its tree as it changes.

What a change costs is in proportion to what changed, and not to the tree: scores are looked at on the way from the
nodes that moved up to the root, the nodes of the cut are found from the root down, and points get another label where
they came under another node of the cut. A point whose label is out of date is either under a node of the cut that was
none before, or under a node that moved and lies below the cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from grinch._by_reference import by_reference
from grinch._compile import jitable, kernel
from grinch._types import Floats, Ids, Labels, Slots, as_id
from grinch.tree import walks
from grinch.tree.ends import Ends, Splits, find_ends, new_ends, new_splits, raise_splits
from grinch.tree.links import (
    LEAVES,
    MOVED,
    NONE,
    OFFSET,
    ROOT,
    USED,
    Links,
    first_leaf,
    is_leaf,
    next_leaf,
    parent,
    size,
)

# How many moved nodes, and nodes above them, are followed one by one; with more, everything is done again.
MOST_MOVED, MOST_ABOVE = 4096, 2**14

Ask = Callable[[Slots], Floats]


class Asked(NamedTuple):
    """A cut into clusters: by height, or by the most sizeable splits that have some points on both sides."""

    n_clusters: int
    is_by_height: bool = False
    min_size: int = 1


@by_reference
class Marked(NamedTuple):
    """Where a cut goes, by node or by leaf slot.

    ``labels``: by slot, the node of the cut above it; ``ends_at``: the update in which a node was last one of the
    cut's; ``clusters``: for a node of the cut, its cluster. ``met`` and ``moved_at`` are marks of the update under way.
    """

    labels: Ids
    ends_at: Ids
    clusters: Ids
    met: Ids
    moved_at: Ids


class LiveCut:
    """A cut into clusters of a tree under construction.

    Parameters
    ----------
    capacity : int
        Leaf slots of the tree.
    ceiling : float, optional
        The score of two identical points: scores beyond it count as equal. Without one, only heights can be cut by.
    """

    def __init__(self, capacity: int, ceiling: float | None = None):
        self.ceiling = ceiling
        self.moved: Ids = np.zeros(MOST_MOVED, np.int32)
        """Where the tree is to write down which nodes moved."""
        self.n_clusters = 0
        """How many clusters there are; fewer than were asked for where there are fewer points."""
        self._splits = new_splits(2 * capacity)
        self._marked = Marked(
            labels=np.full(capacity, NONE, np.int32),
            ends_at=np.zeros(2 * capacity, np.int32),
            clusters=np.zeros(2 * capacity, np.int32),
            met=np.zeros(2 * capacity, np.int32),
            moved_at=np.zeros(2 * capacity, np.int32),
        )
        # For paths upward, where each begins, and the same nodes in another order.
        self._room = [np.empty(most, np.intp) for most in (MOST_ABOVE, MOST_MOVED + 1, MOST_ABOVE)]
        self._numbers: Labels = np.empty(0, np.int64)
        self._update, self._asked_for = 0, Asked(0)
        self._links: Links | None = None

    def follows(self, links: Links) -> bool:
        """Whether this is the tree whose moves are written down here."""
        return links.moved is self.moved

    def update(self, links: Links, asked: Asked, ask: Ask) -> None:
        """Follow the tree to where it is; ``ask(nodes)`` returns the scores of the children of these nodes."""
        n_moved = int(links.head[MOVED])
        if self._links is not None and asked == self._asked_for and n_moved == 0:
            self._links = links
            return
        above = self._above(links, n_moved) if asked.min_size == self._asked_for.min_size else None
        # Whatever is raised from here on, all of it is done again the next time.
        is_all, self._links = above is None, None
        above = all_internal(links) if above is None else above
        ceiling = np.inf if self.ceiling is None else float(self.ceiling)
        raise_splits(links, ask(above), ceiling, -ceiling, asked.min_size, above, self._splits)
        # A step more, so that no node is known as one of the cut's before.
        self._update += 2 if is_all else 1
        ends, moved = new_ends(int(links.head[LEAVES]), len(links.table)), self.moved[: 0 if is_all else n_moved]
        self.n_clusters = int(move_cut(links, self._marked, self._splits, asked, ends, moved, self._update))
        links.head[MOVED] = 0
        self._links, self._asked_for = links, asked
        self._number(np.arange(links.head[USED]))

    def _above(self, links: Links, n_moved: int) -> Slots | None:
        """The moved nodes and all above them, children first; None if everything has to be looked at."""
        if self._links is None or n_moved > len(self.moved):
            return None
        # The update to come, under which nothing is marked yet.
        count = gather_above(links, self.moved[:n_moved], self._marked.met, self._update + 1, *self._room)
        return None if count == NONE else self._room[-1][:count]

    def _number(self, order: Slots) -> None:
        self._numbers = np.full(self.n_clusters, NONE, np.int64)
        assert self._links is not None
        number_along(self._links, order, self._marked, self._numbers)

    # What was found, after an update ------------------------------------------------------------------------------

    def number_along(self, order: Slots) -> None:
        """Number the clusters by their first points in this order of slots, instead of the order of the slots."""
        self._number(order)

    def labels(self) -> Labels:
        """The number of the cluster by leaf slot; those of empty slots mean nothing."""
        assert self._links is not None
        found = np.empty(self._links.head[USED], np.int64)
        fill_labels(self._marked, self._numbers, found)
        return found

    def labels_of(self, nodes: Ids) -> Labels:
        """The number of the cluster that each node is in; -1 above the cut, and for NONE."""
        assert self._links is not None
        found = np.empty(len(nodes), np.int64)
        fill_numbers(self._links, self._marked, self._numbers, self._update, nodes, found)
        return found


def all_internal(links: Links) -> Slots:
    """All internal nodes, children first."""
    order = walks.no_nodes(max(2 * int(links.head[LEAVES]) - 1, 0))
    if len(order):
        walks.fill_preorder(links.table, int(links.head[ROOT]), int(links.head[OFFSET]), order)
    return order[order >= links.head[OFFSET]][::-1].astype(np.intp)


@kernel
def gather_above(tree: Links, moved: Ids, met: Ids, now: int, found: Slots, starts: Slots, above: Slots) -> int:
    """Internal nodes at or above the moved ones, each once, children first; NONE if there is no room for them.

    A path ends where it meets one found before it, which therefore has to come after it.
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
            if n == found.shape[0]:
                return NONE
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
def move_cut(tree: Links, marked: Marked, splits: Splits, asked: Asked, ends: Ends, moved: Ids, now: int) -> int:
    """Find the nodes of the cut, and label what came under another one of them; returns how many clusters there are."""
    if tree.head[LEAVES] == 0:
        return 0
    if asked.is_by_height:
        n, n_ends = find_ends(tree, splits.lows, splits.lows, splits.counts, -np.inf, asked.n_clusters, ends)
    else:
        n, n_ends = find_ends(tree, splits.keys, splits.best, splits.counts, 0.0, asked.n_clusters, ends)
    for i in range(moved.shape[0]):
        marked.moved_at[moved[i]] = now
    for i in range(n_ends):
        mark_end(tree, marked, as_id(ends.nodes[i]), as_id(ends.clusters[i]), now)
    for i in range(moved.shape[0]):
        v = as_id(moved[i])
        if marked.ends_at[v] != now and marked.met[v] != -now and size(tree, v) != NONE:
            marked.met[v] = -now
            end = end_to_label(tree, marked, v, now)
            if end != NONE:
                label_under(tree, marked, v, end)
    return n


@jitable
def mark_end(tree: Links, marked: Marked, v: int, cluster: int, now: int) -> None:
    is_new = marked.ends_at[v] != now - 1
    marked.ends_at[v], marked.clusters[v] = now, cluster
    # What came under one that was in the cut before came by nodes that moved themselves.
    marked.moved_at[v] = now if is_new else 0
    if is_new:
        label_under(tree, marked, v, v)


@jitable
def end_to_label(tree: Links, marked: Marked, v: int, now: int) -> int:
    """The node of the cut above v; NONE if v is above the cut, or its leaves are labelled from a node above it."""
    while marked.ends_at[v] != now:
        v = parent(tree, v)
        if v == NONE or marked.moved_at[v] == now:
            return NONE
    return v


@jitable
def label_under(tree: Links, marked: Marked, v: int, end: int) -> None:
    leaf = first_leaf(tree, v)
    while leaf != NONE:
        marked.labels[leaf] = end
        leaf = next_leaf(tree, leaf, v)


@kernel
def number_along(tree: Links, order: Slots, marked: Marked, numbers: Labels) -> None:
    """Number the clusters by their first points in this order of slots."""
    n = 0
    for i in range(order.shape[0]):
        if n == numbers.shape[0]:
            break
        if size(tree, order[i]) != NONE:
            cluster = marked.clusters[marked.labels[order[i]]]
            if numbers[cluster] == NONE:
                numbers[cluster] = n
                n += 1


@kernel
def fill_labels(marked: Marked, numbers: Labels, labels: Labels) -> None:
    for slot in range(labels.shape[0]):
        end = marked.labels[slot]
        cluster = NONE if end == NONE else as_id(marked.clusters[end])
        # An empty slot may have an end of long ago, of a cluster that there is no more.
        labels[slot] = numbers[cluster] if 0 <= cluster < numbers.shape[0] else NONE


@kernel
def fill_numbers(tree: Links, marked: Marked, numbers: Labels, now: int, nodes: Ids, found: Labels) -> None:
    for i in range(nodes.shape[0]):
        v = as_id(nodes[i])
        while v != NONE and marked.ends_at[v] != now:
            v = parent(tree, v)
        found[i] = NONE if v == NONE else numbers[marked.clusters[v]]
