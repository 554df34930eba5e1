"""The topology of a cluster tree as arrays, and the few operations that change it.

Every function here is plain Python over a :class:`Links`; numba compiles the same source when it is called from
compiled code. Nothing in this module knows what a node *means*: scores and summaries live elsewhere.

Node ids: leaf ``i`` is the ``i``-th point to arrive. Internal nodes are numbered from ``offset`` (the number of
leaf slots) upwards; the internal node that arrives with leaf ``i`` is ``offset + i``. A leaf that is taken out leaves
its slot and an internal node free: their size is NONE. :meth:`Links.compacted` closes such gaps.

Passes over a whole tree are compiled and without recursion, for a tree may be as deep as it has points. ``table`` is
that of :class:`Links`; ``preorder`` has parents before children.

In a layout of heavy paths every node continues the path of its parent if it is the larger child, else it begins one. So
the root is at most log2(n) paths away from any node, because a path begins where a node has at most half the leaves of
its parent.

The functions that change a tree write down each node that moves (:func:`write_down`), for any number of followers. A
follower reads on from where it stopped; one that missed something has to look at the whole tree.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from grinch._by_reference import by_reference
from grinch._compile import jitable, kernel
from grinch._types import Counts, Flags, Floats, Ids, Labels, Mask, Numbers, Slots, as_id

NONE = -1
# A cap or limit on sizes that no tree reaches.
NO_LIMIT = 2**31 - 2

# Columns of Links.table.
PARENT, LEFT, RIGHT, SIZE = 0, 1, 2, 3
# Entries of Links.head: what is known of the tree as a whole, and for the log the change under way, how many rows were
# noted in it, and the first three as they were before it; last, how many nodes were written down as moved.
ROOT, LEAVES, USED, OFFSET, LIMIT, CHANGE, NOTED, OLD_ROOT, OLD_LEAVES, OLD_USED, MOVED = range(11)
# Columns of Links.log: a node and its old row; and by node, the change in which it was noted last.
NODE, ROW, CHANGED_IN = 0, slice(1, 5), 5


@by_reference
class Links(NamedTuple):
    """One int32 row per node (parent, left, right, size), and what is known of the tree as a whole.

    ``head`` holds the root, the number of leaves, how many leaf slots were ever used, the id of internal node 0, and
    the size limit: a node with more than ``limit`` leaves is recorded with ``limit + 1``, so that an insert need not
    walk to the root to count. ``marks`` is scratch space, all zero between calls.
    ``log`` has a row per node where changes can be undone, and none where they cannot (:func:`note`).
    ``moved`` has the nodes whose parent changed, and those that left (:func:`write_down`); it belongs to the tree's
    :class:`MoveLog`, and has no room where the tree has no follower. A tree that was copied,
    resized or compacted is a new one without followers.
    """

    table: Ids
    head: Counts
    marks: Flags
    log: Ids
    moved: Ids

    @property
    def root(self) -> int:
        return int(self.head[ROOT])

    @property
    def n_leaves(self) -> int:
        return int(self.head[LEAVES])

    @property
    def n_slots(self) -> int:
        """The number of leaf slots that were ever used: of leaves in the tree, and of those taken out."""
        return int(self.head[USED])

    @property
    def offset(self) -> int:
        return int(self.head[OFFSET])

    @property
    def limit(self) -> int:
        return int(self.head[LIMIT])

    def nodes(self) -> tuple[Slots, Slots]:
        """Return the leaves and the internal nodes that are in the tree, each in ascending order."""
        is_in = self.table[:, SIZE] != NONE
        internal = np.flatnonzero(is_in[self.offset : self.offset + self.n_slots])
        return np.flatnonzero(is_in[: self.n_slots]), self.offset + internal

    def preorder(self) -> Ids:
        """Return the nodes, parents before children; reversed, children before parents."""
        preorder = no_nodes(max(2 * self.n_leaves - 1, 0))
        if self.n_leaves:
            fill_preorder(self.table, self.root, self.offset, preorder)
        return preorder

    def leaves_under(self, v: int) -> list[int]:
        """Return the leaves under v, from left to right."""
        found, leaf = [], int(first_leaf(self, v))
        while leaf != NONE:
            found.append(leaf)
            leaf = int(next_leaf(self, leaf, v))
        return found

    def copied(self) -> Links:
        return Links(self.table.copy(), self.head.copy(), self.marks.copy(), self.log.copy(), _no_moves())

    def unfollowed(self) -> Links:
        """Return the same tree without followers."""
        return self._replace(moved=_no_moves())

    def resized(self, capacity: int, undoable: bool = False) -> Links:
        """Return a copy with room for ``capacity`` leaves; internal nodes move to the new offset, leaves stay.

        No leaf slot from ``capacity`` on was ever used.
        """
        old, new = self.offset, new_links(capacity, self.limit, undoable)
        kept = min(old, capacity)
        new.table[:kept], new.table[capacity : capacity + kept] = self.table[:kept], self.table[old : old + kept]
        pointers = new.table[:, :SIZE]
        pointers[pointers >= old] += capacity - old
        new.head[[ROOT, LEAVES, USED]] = self.head[[ROOT, LEAVES, USED]]
        if self.root >= old:
            new.head[ROOT] += capacity - old
        return new

    def compacted(self, capacity: int, undoable: bool = False) -> tuple[Links, Slots, Slots]:
        """Return a copy without gaps; and, by new number, the old ids of leaves and of internal nodes.

        Leaves keep their order. Internal node 0 stays free, as it does where nothing was ever taken out.
        """
        leaves, internal = self.nodes()
        new, n = new_links(capacity, self.limit, undoable), len(leaves)
        new_id = np.full(len(self.table) + 1, NONE, dtype=np.int32)  # one more, where NONE points
        new_id[leaves] = np.arange(n)
        new_id[internal] = capacity + 1 + np.arange(len(internal))
        for old in (leaves, internal):
            new.table[new_id[old], :SIZE] = new_id[self.table[old, :SIZE]]
            new.table[new_id[old], SIZE] = self.table[old, SIZE]
        new.head[[ROOT, LEAVES, USED]] = [new_id[self.root], n, n]
        return new, leaves, internal

    def arranged_as(self, compact: Links) -> Links:
        """Return a copy with the same leaves and ids, arranged as in a tree of as many leaves that has no gaps."""
        leaves, internal = self.nodes()
        new, n = self.copied(), len(leaves)
        new_id = np.full(2 * n + 1, NONE, dtype=np.int32)  # one more, where NONE points
        new_id[:n], new_id[n + 1 : 2 * n] = leaves, internal
        for old in (np.arange(n), np.arange(n + 1, 2 * n)):
            new.table[new_id[old], :SIZE] = new_id[compact.table[old, :SIZE]]
            new.table[new_id[old], SIZE] = np.minimum(compact.table[old, SIZE], self.limit + 1)
        new.head[ROOT] = new_id[compact.root]
        return new

    def put_in_preorder(self) -> Ids:
        """Number the internal nodes by preorder: what is near in the tree is near in memory.

        Returns which row each of the internal rows was, from 0 on.
        """
        offset, table, preorder = self.offset, self.table, self.preorder()
        source = np.arange(len(table) - offset, dtype=np.int32)
        source[table[offset:, SIZE] != NONE] = preorder[preorder >= offset] - offset
        new_row = np.empty_like(source)
        new_row[source] = np.arange(len(source), dtype=np.int32)
        reorder_rows(table[offset:], source)
        for column in (PARENT, LEFT, RIGHT):
            nodes = table[:, column]
            is_internal = nodes >= offset
            nodes[is_internal] = offset + new_row[nodes[is_internal] - offset]
        if self.root >= offset:
            self.head[ROOT] = offset + new_row[self.root - offset]
        return source

    def undo_change(self) -> None:
        """Restore the tree as it was when the change under way began."""
        noted = self.log[: self.head[NOTED]]
        self.table[noted[:, NODE]] = noted[:, ROW]
        self.head[[ROOT, LEAVES, USED]] = self.head[[OLD_ROOT, OLD_LEAVES, OLD_USED]]
        self.head[NOTED] = 0
        if len(self.moved):
            # Which nodes moved back is not known.
            self.head[MOVED] = len(self.moved) + 1


class TreeArrays(Protocol):
    """Anything with the arrays of a tree: :class:`Links`, or a tuple that holds more besides."""

    @property
    def table(self) -> Ids: ...
    @property
    def head(self) -> Counts: ...
    @property
    def marks(self) -> Flags: ...
    @property
    def log(self) -> Ids: ...
    @property
    def moved(self) -> Ids: ...


def new_links(capacity: int, limit: int = NO_LIMIT, undoable: bool = False) -> Links:
    """Return an empty tree with room for ``capacity`` leaves."""
    table = np.full((2 * capacity, 4), NONE, dtype=np.int32)
    head = np.zeros(MOVED + 1, dtype=np.int64)
    head[[ROOT, OFFSET, LIMIT]] = [NONE, capacity, limit]
    log = np.zeros((2 * capacity if undoable else 0, CHANGED_IN + 1), dtype=np.int32)
    return Links(table, head, np.zeros(capacity, dtype=np.uint8), log, _no_moves())


def _no_moves() -> Ids:
    return np.zeros(0, dtype=np.int32)


# Undo ---------------------------------------------------------------------------------------------------------------


@jitable
def begin_change(tree: TreeArrays) -> None:
    """Begin a change that :meth:`Links.undo_change` can undo, if the tree keeps a log."""
    if tree.log.shape[0] > 0:
        tree.head[CHANGE] += 1
        tree.head[NOTED] = 0
        tree.head[OLD_ROOT] = tree.head[ROOT]
        tree.head[OLD_LEAVES] = tree.head[LEAVES]
        tree.head[OLD_USED] = tree.head[USED]


@jitable
def note(tree: TreeArrays, v: int) -> None:
    """Remember row v as it was before the change under way; every function that writes to a row calls this first."""
    if tree.log.shape[0] > 0 and tree.log[v, CHANGED_IN] != tree.head[CHANGE]:
        tree.log[v, CHANGED_IN] = tree.head[CHANGE]
        at = tree.head[NOTED]
        tree.log[at, NODE] = v
        for column in range(4):
            tree.log[at, 1 + column] = tree.table[v, column]
        tree.head[NOTED] += 1


@jitable
def end_change(tree: TreeArrays) -> None:
    """End the change under way, so that it stays."""
    tree.head[NOTED] = 0


# Following ----------------------------------------------------------------------------------------------------------


@jitable
def write_down(tree: TreeArrays, v: int) -> None:
    """Note that v has another parent or left; called wherever a parent is written. Without room, v is only counted."""
    if tree.moved.shape[0] > 0:
        at = tree.head[MOVED]
        if at < tree.moved.shape[0]:
            tree.moved[at] = v
        tree.head[MOVED] = at + 1


# How many moved nodes are written down; an insert moves about 13. With more, the whole tree is looked at. At 100,000
# points, to follow 5,000 that came took a third of the time of looking at everything.
MAX_MOVED = 2**18


class TreeFollower(Protocol):
    """Has arrays by node, which have to be carried along when nodes get other numbers."""

    def grown(self, capacity: int) -> None:
        """Make room for more leaves; internal nodes move to the new offset."""

    def reordered(self, source: Ids) -> None:
        """Let internal row i be what row ``source[i]`` was."""

    def compacted(self, leaves: Slots, internal: Slots, capacity: int) -> None:
        """Keep these nodes only, counted from 0, and from the node after the offset."""


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


# Reading ------------------------------------------------------------------------------------------------------------
# Ids are handed out as int64, whatever they are stored as, so that nothing is compiled twice.


@jitable
def parent(tree: TreeArrays, v: int) -> int:
    return as_id(tree.table[v, PARENT])


@jitable
def left(tree: TreeArrays, v: int) -> int:
    return as_id(tree.table[v, LEFT])


@jitable
def right(tree: TreeArrays, v: int) -> int:
    return as_id(tree.table[v, RIGHT])


@jitable
def size(tree: TreeArrays, v: int) -> int:
    """Number of leaves under v, recorded exactly up to the limit of the tree."""
    return as_id(tree.table[v, SIZE])


@jitable
def is_leaf(tree: TreeArrays, v: int) -> bool:
    return v < tree.head[OFFSET]


@jitable
def sibling(tree: TreeArrays, v: int) -> int:
    p = parent(tree, v)
    return left(tree, p) + right(tree, p) - v


@jitable
def lca_within(tree: TreeArrays, u: int, v: int, cap: int) -> int:
    """Return lowest common ancestor of u and v, or NONE where it has more than ``cap`` leaves.

    Of two different nodes the one with fewer leaves cannot be an ancestor of the other, so it may climb. Sizes are
    exact up to the tree's limit, which is never below a cap.
    """
    size_u, size_v = size(tree, u), size(tree, v)
    while u != v:
        if size_u <= size_v:
            u = parent(tree, u)
            if u == NONE:
                return NONE
            size_u = size(tree, u)
        else:
            v = parent(tree, v)
            if v == NONE:
                return NONE
            size_v = size(tree, v)
        if size_u > cap or size_v > cap:
            return NONE
    return u


@jitable
def is_under(tree: TreeArrays, u: int, v: int) -> bool:
    """Return whether u is v or a descendant of v (v within the tree's limit)."""
    size_v = size(tree, v)
    while u != v and u != NONE and size(tree, u) < size_v:
        u = parent(tree, u)
    return u == v


@jitable
def first_leaf(tree: TreeArrays, v: int) -> int:
    while v >= tree.head[OFFSET]:
        v = left(tree, v)
    return v


@jitable
def next_leaf(tree: TreeArrays, v: int, top: int) -> int:
    """Return the leaf after leaf ``v`` in left-to-right order under ``top``, or NONE; no stack, no recursion."""
    while v != top:
        p = parent(tree, v)
        if left(tree, p) == v:
            return first_leaf(tree, right(tree, p))
        v = p
    return NONE


# Changing -----------------------------------------------------------------------------------------------------------


@jitable
def hang_under(tree: TreeArrays, v: int, p: int) -> None:
    """Make p the parent of v; v is no child of it yet."""
    note(tree, v)
    write_down(tree, v)
    tree.table[v, PARENT] = p


@jitable
def put_in_place_of(tree: TreeArrays, new: int, old: int) -> None:
    """Hang ``new`` where ``old`` hangs; ``old`` keeps pointing at its parent."""
    p = parent(tree, old)
    hang_under(tree, new, p)
    if p == NONE:
        tree.head[ROOT] = new
        return
    note(tree, p)
    if left(tree, p) == old:
        tree.table[p, LEFT] = new
    else:
        tree.table[p, RIGHT] = new


@jitable
def resize_upward(tree: TreeArrays, v: int) -> None:
    """Recount v and its ancestors from their children; stop at the first whose recorded size is already right."""
    ceiling = tree.head[LIMIT] + 1
    while v != NONE:
        total = min(size(tree, left(tree, v)) + size(tree, right(tree, v)), ceiling)
        if size(tree, v) == total:
            break
        note(tree, v)
        tree.table[v, SIZE] = total
        v = parent(tree, v)


@jitable
def make_sibling(tree: TreeArrays, v: int, target: int, p: int) -> None:
    """Join ``v`` to ``target`` under the free internal node ``p``, in target's place."""
    put_in_place_of(tree, p, target)
    hang_under(tree, target, p)
    hang_under(tree, v, p)
    tree.table[p, LEFT], tree.table[p, RIGHT], tree.table[p, SIZE] = target, v, NONE
    resize_upward(tree, p)


@jitable
def detach(tree: TreeArrays, v: int) -> int:
    """Take the subtree v out; its parent is contracted (its sibling takes that place) and returned, free to reuse."""
    p, z = parent(tree, v), sibling(tree, v)
    put_in_place_of(tree, z, p)
    note(tree, v)
    tree.table[v, PARENT] = NONE
    resize_upward(tree, parent(tree, z))
    return p


@jitable
def attach_first(tree: TreeArrays, x: int) -> None:
    """Make leaf x the whole tree."""
    note(tree, x)
    write_down(tree, x)
    tree.table[x, SIZE] = 1
    tree.head[ROOT] = x
    tree.head[LEAVES] = 1
    tree.head[USED] = max(tree.head[USED], x + 1)


@jitable
def attach(tree: TreeArrays, x: int, target: int, p: int) -> None:
    """Insert leaf x as the sibling of ``target``, under the free internal node ``p``."""
    note(tree, x)
    tree.table[x, SIZE] = 1
    make_sibling(tree, x, target, p)
    tree.head[LEAVES] += 1
    tree.head[USED] = max(tree.head[USED], x + 1)


@jitable
def take_out(tree: TreeArrays, x: int) -> int:
    """Return leaf x leaves; returns the internal node that is free now, or NONE if x was the whole tree."""
    note(tree, x)
    write_down(tree, x)
    tree.table[x, SIZE] = NONE
    tree.head[LEAVES] -= 1
    if parent(tree, x) == NONE:
        tree.head[ROOT] = NONE
        return NONE
    p = detach(tree, x)
    note(tree, p)
    write_down(tree, p)
    tree.table[p, SIZE] = NONE
    return p


@jitable
def swap(tree: TreeArrays, u: int, v: int) -> None:
    """Exchange the places of two disjoint subtrees."""
    p, q = parent(tree, u), parent(tree, v)
    if p == q:
        return
    side_u = LEFT if left(tree, p) == u else RIGHT
    side_v = LEFT if left(tree, q) == v else RIGHT
    hang_under(tree, u, q)
    hang_under(tree, v, p)
    note(tree, p)
    note(tree, q)
    tree.table[p, side_u] = v
    tree.table[q, side_v] = u
    resize_upward(tree, p)
    resize_upward(tree, q)


@jitable
def join(tree: TreeArrays, p: int, a: int, b: int) -> None:
    """Make p the parent of two nodes that have none."""
    note(tree, p)
    hang_under(tree, a, p)
    hang_under(tree, b, p)
    tree.table[p, PARENT] = NONE
    tree.table[p, LEFT], tree.table[p, RIGHT] = a, b
    tree.table[p, SIZE] = min(size(tree, a) + size(tree, b), tree.head[LIMIT] + 1)


# Passes over a whole tree ---------------------------------------------------------------------------------------------


@kernel
def fill_preorder(table: Ids, root: int, offset: int, order: Ids) -> None:
    """Fill in node ids, parents before children, left before right. Reversed, it is children before parents."""
    order[0] = root
    # The unread tail of `order` doubles as the stack: what waits there is written to its front later.
    top: int = order.shape[0]
    node, filled = root, 1
    while True:
        if node >= offset:
            top -= 1
            order[top] = table[node, RIGHT]
            node = table[node, LEFT]
        elif top < order.shape[0]:
            node = order[top]
            top += 1
        else:
            break
        order[filled] = node
        filled += 1


@kernel
def fill_sizes(table: Ids, preorder: Ids, offset: int, sizes: Numbers) -> None:
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        sizes[v] = 1 if v < offset else sizes[table[v, LEFT]] + sizes[table[v, RIGHT]]


@kernel
def sum_upward(table: Ids, preorder: Ids, offset: int, values: Numbers) -> None:
    """Add to each node what its children have, children before parents."""
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        if v >= offset:
            values[v] += values[table[v, LEFT]] + values[table[v, RIGHT]]


@kernel
def fill_depths(table: Ids, preorder: Ids, offset: int, depths: Ids) -> None:
    depths[preorder[0]] = 0
    for i in range(preorder.shape[0]):
        v = preorder[i]
        if v >= offset:
            depths[table[v, LEFT]] = depths[v] + 1
            depths[table[v, RIGHT]] = depths[v] + 1


@kernel
def max_upward(table: Ids, preorder: Ids, offset: int, values: Floats) -> None:
    """Raise each node to the greater of its children, children before parents."""
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        if v >= offset:
            values[v] = max(values[v], values[table[v, LEFT]], values[table[v, RIGHT]])


@kernel
def fill_labels(table: Ids, preorder: Ids, is_split: Mask, labels: Labels) -> int:
    """Number the subtrees left when, from the top, nodes in ``is_split`` are split; ``labels`` starts out as -1."""
    n_labels = 0
    for i in range(preorder.shape[0]):
        v = preorder[i]
        p = table[v, PARENT]
        if i > 0 and labels[p] >= 0:
            labels[v] = labels[p]
        elif not is_split[v]:
            labels[v] = n_labels
            n_labels += 1
    return n_labels


def no_nodes(n: int) -> Ids:
    """Return room for ``n`` node ids."""
    return np.empty(n, dtype=np.int32)


# Heavy paths ----------------------------------------------------------------------------------------------------------


@by_reference
class Paths(NamedTuple):
    """Places of nodes: parents before children, the larger child next to its parent.

    ``places`` is by node; by place are ``nodes``, the node there; ``heads``, the place where its path begins; and
    ``above``, where a path begins, the place of the parent.
    """

    places: Ids
    nodes: Ids
    heads: Ids
    above: Ids


def new_paths(n_ids: int) -> Paths:
    """Return room for the paths of a tree with this many node ids; :func:`fill_paths` fills it."""
    return Paths(*(no_nodes(n_ids) for _ in Paths._fields))


@kernel
def fill_paths(table: Ids, preorder: Ids, offset: int, sizes: npt.NDArray[np.integer], paths: Paths) -> None:
    """Lay out a tree with at least one leaf; ``sizes`` must be exact."""
    paths.places[preorder[0]], paths.heads[0], paths.above[0] = 0, 0, NONE
    for i in range(preorder.shape[0]):
        v = preorder[i]
        place = paths.places[v]
        paths.nodes[place] = v
        if v < offset:
            continue
        heavy, light = table[v, LEFT], table[v, RIGHT]
        if sizes[light] > sizes[heavy]:
            heavy, light = light, heavy
        paths.places[heavy] = place + 1
        paths.heads[place + 1] = paths.heads[place]
        # Under the heavy child are 2 · size - 1 nodes, itself among them.
        at = place + 2 * sizes[heavy]
        paths.places[light] = at
        paths.heads[at], paths.above[at] = at, place


@kernel
def fill_common_ancestors(paths: Paths, us: npt.NDArray[np.integer], vs: npt.NDArray[np.integer], found: Ids) -> None:
    for i in range(us.shape[0]):
        found[i] = paths.nodes[place_of_common_ancestor(paths, paths.places[us[i]], paths.places[vs[i]])]


@jitable
def place_of_common_ancestor(paths: Paths, u: int, v: int) -> int:
    """Return where the lowest common ancestor of the nodes at two places is."""
    # Of two paths the one that begins later cannot hold the common ancestor.
    while paths.heads[u] != paths.heads[v]:
        if paths.heads[u] > paths.heads[v]:
            u = paths.above[paths.heads[u]]
        else:
            v = paths.above[paths.heads[v]]
    return min(u, v)


# Rows in another order ------------------------------------------------------------------------------------------------


Bytes = npt.NDArray[np.uint8]


def reorder_rows(rows: npt.NDArray[Any], source: Ids) -> None:
    """Let row i be what row ``source[i]`` was; ``source`` has every row once, and ``rows`` are in one piece.

    >>> table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> reorder_rows(table, np.array([2, 0, 1], np.int32))
    >>> table.tolist()
    [[5.0, 6.0], [1.0, 2.0], [3.0, 4.0]]
    """
    if len(rows):
        # As bytes, so that one compiled function serves all types.
        raw = rows.reshape(len(rows), -1).view(np.uint8)
        _reorder(raw, source, np.zeros(len(rows), np.uint8), np.empty(raw.shape[1], np.uint8))


@jitable
def _copy(row: Bytes, target: Bytes) -> None:
    for i in range(len(row)):
        target[i] = row[i]


@kernel
def _reorder(rows: Bytes, source: Ids, is_done: Flags, spare: Bytes) -> None:
    """Round by round: each row takes the next one's place, the last that of the first, which waits in ``spare``."""
    for start in range(rows.shape[0]):
        if is_done[start] or source[start] == start:
            continue
        _copy(rows[start], spare)
        i = start
        while True:
            is_done[i] = 1
            j = source[i]
            if j == start:
                _copy(spare, rows[i])
                break
            _copy(rows[j], rows[i])
            i = j
