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
from grinch.tree.ends import Ends, find_ends, new_ends
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
    left,
    next_leaf,
    parent,
    right,
    size,
)

# How many moved nodes, and nodes above them, are followed one by one; with more, everything is done again.
MOST_MOVED, MOST_ABOVE = 4096, 2**14

Ask = Callable[[Slots], Floats]


@by_reference
class Marked(NamedTuple):
    """What is known by node, or by leaf slot.

    ``keys``: minus the lowest score at or below the node; ``labels``: by slot, the node of the cut above it;
    ``ends_at``: the update in which a node was last one of the cut's; ``firsts``: for a node of the cut, the slot of
    its first point; ``numbers``: its number as a cluster. ``met`` and ``moved_at`` are marks of the update under way.
    """

    keys: Floats
    labels: Ids
    ends_at: Ids
    firsts: Ids
    numbers: Labels
    met: Ids
    moved_at: Ids


class LiveCut:
    """A cut into clusters of a tree under construction.

    Parameters
    ----------
    capacity : int
        Leaf slots of the tree.
    ceiling : float, optional
        The score of two identical points: scores beyond it count as equal.
    """

    def __init__(self, capacity: int, ceiling: float | None = None):
        self.ceiling = np.inf if ceiling is None else float(ceiling)
        self.moved: Ids = np.zeros(MOST_MOVED, np.int32)
        """Where the tree is to write down which nodes moved."""
        self.n_clusters = 0
        """How many clusters there are; fewer than were asked for where there are fewer points."""
        self._marked = Marked(
            keys=np.full(2 * capacity, -np.inf),
            labels=np.full(capacity, NONE, np.int32),
            ends_at=np.zeros(2 * capacity, np.int32),
            firsts=np.zeros(2 * capacity, np.int32),
            numbers=np.full(2 * capacity, NONE, np.int64),
            met=np.zeros(2 * capacity, np.int32),
            moved_at=np.zeros(2 * capacity, np.int32),
        )
        # For paths upward, where each begins, and the same nodes in another order.
        self._room = [np.empty(most, np.intp) for most in (MOST_ABOVE, MOST_MOVED + 1, MOST_ABOVE)]
        self._ends, self._update, self._asked_for = new_ends(0), 0, 0
        self._links: Links | None = None

    def follows(self, links: Links) -> bool:
        """Whether this is the tree whose moves are written down here."""
        return links.moved is self.moved

    def update(self, links: Links, n_clusters: int, ask: Ask) -> None:
        """Follow the tree to where it is; ``ask(nodes)`` returns the scores of the children of these nodes."""
        n_moved, known = int(links.head[MOVED]), self._links is not None and n_clusters == self._asked_for
        if known and n_moved == 0:
            self._links = links
            return
        above = self._above(links, n_moved)
        # Whatever is raised from here on, all of it is done again the next time.
        is_all, self._links = above is None, None
        above = all_internal(links) if above is None else above
        raise_keys(links, ask(above), self.ceiling, above, self._marked.keys)
        # A step more, so that no node is known as one of the cut's before.
        self._update += 2 if is_all else 1
        self._ends = new_ends(min(n_clusters, int(links.head[LEAVES])))
        moved = self.moved[: 0 if is_all else n_moved]
        self.n_clusters = int(move_cut(links, self._marked, self._ends, moved, self._update))
        self._number()
        links.head[MOVED] = 0
        self._links, self._asked_for = links, n_clusters

    def _above(self, links: Links, n_moved: int) -> Slots | None:
        """The moved nodes and all above them, children first; None if everything has to be looked at."""
        if self._links is None or n_moved > len(self.moved):
            return None
        # The update to come, under which nothing is marked yet.
        count = gather_above(links, self.moved[:n_moved], self._marked.met, self._update + 1, *self._room)
        return None if count == NONE else self._room[-1][:count]

    def _number(self) -> None:
        """Number the clusters by the slots of their first points."""
        nodes = self._ends.nodes[: self.n_clusters]
        self._marked.numbers[nodes[np.argsort(self._marked.firsts[nodes])]] = np.arange(self.n_clusters)

    # What was found, after an update ------------------------------------------------------------------------------

    def number_along(self, order: Slots) -> None:
        """Number the clusters by their first points in this order of slots, instead of the order of the slots."""
        self._marked.numbers[self._ends.nodes[: self.n_clusters]] = NONE
        number_along(order, self._marked, self.n_clusters)

    def labels(self) -> Labels:
        """The number of the cluster by leaf slot; those of empty slots mean nothing."""
        assert self._links is not None
        found = np.empty(self._links.head[USED], np.int64)
        fill_labels(self._marked, found)
        return found

    def labels_of(self, nodes: Ids) -> Labels:
        """The number of the cluster that each node is in; -1 above the cut, and for NONE."""
        assert self._links is not None
        found = np.empty(len(nodes), np.int64)
        fill_numbers(self._links, self._marked, self._update, nodes, found)
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
def raise_keys(tree: Links, scores: Floats, ceiling: float, nodes: Slots, keys: Floats) -> None:
    """The keys of these nodes, which come children first and have these scores."""
    for i in range(nodes.shape[0]):
        v = nodes[i]
        below = max(keys[left(tree, v)], keys[right(tree, v)])
        keys[v] = max(-min(scores[i], ceiling), below)


@kernel
def move_cut(tree: Links, marked: Marked, ends: Ends, moved: Ids, now: int) -> int:
    """Find the nodes of the cut, and label what came under another one of them; returns how many there are."""
    if tree.head[LEAVES] == 0:
        return 0
    n = find_ends(tree, marked.keys, ends)
    for i in range(moved.shape[0]):
        marked.moved_at[moved[i]] = now
    for i in range(n):
        v = as_id(ends.nodes[i])
        is_new = marked.ends_at[v] != now - 1
        marked.ends_at[v] = now
        # What came under one that was in the cut before came by nodes that moved themselves.
        marked.moved_at[v] = now if is_new else 0
        if is_new:
            marked.firsts[v] = tree.head[OFFSET]
            label_under(tree, marked, v, v)
    for i in range(moved.shape[0]):
        v = as_id(moved[i])
        if marked.ends_at[v] != now and marked.met[v] != -now and size(tree, v) != NONE:
            marked.met[v] = -now
            end = end_to_label(tree, marked, v, now)
            if end != NONE:
                label_under(tree, marked, v, end)
    for i in range(n):
        v = as_id(ends.nodes[i])
        slot = as_id(marked.firsts[v])
        while marked.labels[slot] != v or size(tree, slot) == NONE:
            slot += 1
        marked.firsts[v] = slot
    return n


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
        marked.firsts[end] = min(as_id(marked.firsts[end]), leaf)
        leaf = next_leaf(tree, leaf, v)


@kernel
def number_along(order: Slots, marked: Marked, n_clusters: int) -> None:
    n = 0
    for i in range(order.shape[0]):
        end = marked.labels[order[i]]
        if marked.numbers[end] == NONE:
            marked.numbers[end] = n
            n += 1
            if n == n_clusters:
                break


@kernel
def fill_labels(marked: Marked, labels: Labels) -> None:
    for slot in range(labels.shape[0]):
        end = marked.labels[slot]
        labels[slot] = NONE if end == NONE else marked.numbers[end]


@kernel
def fill_numbers(tree: Links, marked: Marked, now: int, nodes: Ids, numbers: Labels) -> None:
    for i in range(nodes.shape[0]):
        v = as_id(nodes[i])
        while v != NONE and marked.ends_at[v] != now:
            v = parent(tree, v)
        numbers[i] = NONE if v == NONE else marked.numbers[v]
