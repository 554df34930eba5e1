"""The topology of a cluster tree as arrays, and the few operations that change it.

Every function here is plain Python over a :class:`Links`; numba compiles the same source when it is called from
compiled code. Nothing in this module knows what a node *means*: scores and summaries live elsewhere.

Node ids: leaf ``i`` is the ``i``-th point to arrive. Internal nodes are numbered from ``offset`` (the number of
leaf slots) upwards; the internal node that arrives with leaf ``i`` is ``offset + i``. A leaf that is taken out leaves
its slot and an internal node free: their size is NONE. :func:`compacted` closes such gaps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._compile import jitable

NONE = -1
NO_LIMIT = 2**31 - 2

# Columns of Links.table.
PARENT, LEFT, RIGHT, SIZE = 0, 1, 2, 3
# Entries of Links.head.
ROOT, LEAVES, OFFSET, LIMIT, USED = 0, 1, 2, 3, 4


class Links(NamedTuple):
    """One int32 row per node (parent, left, right, size), and what is known of the tree as a whole.

    ``head`` holds the root, the number of leaves, the id of internal node 0, the size limit, and how many leaf slots
    were ever used. A node with more than ``limit`` leaves is recorded with ``limit + 1``, so that an insert need not
    walk to the root to count.
    ``marks`` is scratch space, all zero between calls.
    """

    table: npt.NDArray[np.int32]
    head: npt.NDArray[np.int64]
    marks: npt.NDArray[np.uint8]


def new_links(capacity: int, limit: int = NO_LIMIT) -> Links:
    """An empty tree with room for ``capacity`` leaves."""
    table = np.full((2 * capacity, 4), NONE, dtype=np.int32)
    head = np.array([NONE, 0, capacity, limit, 0], dtype=np.int64)
    return Links(table, head, np.zeros(capacity, dtype=np.uint8))


class ListTable:
    """A table as a flat list: what the interpreter reads several times faster than an array, one entry at a time."""

    __slots__ = ("flat",)

    def __init__(self, table: npt.NDArray[np.int32]):
        self.flat: list[int] = table.ravel().tolist()

    def __getitem__(self, key: tuple[int, int]) -> int:
        v, column = key
        return self.flat[4 * v + column]

    def __setitem__(self, key: tuple[int, int], value: int) -> None:
        v, column = key
        self.flat[4 * v + column] = value


def as_lists(links: Links) -> Links:
    """The same tree in Python's own containers, for the interpreted engine."""
    return Links(ListTable(links.table), links.head.tolist(), links.marks.tolist())  # type: ignore[arg-type]


def as_arrays(links: Links) -> Links:
    """The same tree in arrays; no copy if it is in arrays already."""
    table: Any = links.table
    if not isinstance(table, ListTable):
        return links
    table = np.array(table.flat, dtype=np.int32).reshape(-1, 4)
    return Links(table, np.array(links.head, dtype=np.int64), np.array(links.marks, dtype=np.uint8))


def grown(links: Links, capacity: int) -> Links:
    """A copy with room for ``capacity`` leaves; internal nodes move to the new offset, leaves keep their ids."""
    old, new = int(links.head[OFFSET]), new_links(capacity, int(links.head[LIMIT]))
    table = links.table.copy()
    pointers = table[:, :SIZE]
    pointers[pointers >= old] += capacity - old
    new.table[:old] = table[:old]
    new.table[capacity : capacity + old] = table[old:]
    new.head[:] = links.head
    new.head[OFFSET] = capacity
    if new.head[ROOT] >= old:
        new.head[ROOT] += capacity - old
    return new


def shrunk(links: Links, capacity: int) -> Links:
    """A copy with less room, the way back from :func:`grown`; no leaf slot from ``capacity`` on was ever used."""
    old = int(links.head[OFFSET])
    table = np.concatenate([links.table[:capacity], links.table[old : old + capacity]])
    pointers, head = table[:, :SIZE], links.head.copy()
    pointers[pointers >= old] -= old - capacity
    head[OFFSET] = capacity
    if head[ROOT] >= old:
        head[ROOT] -= old - capacity
    return Links(table, head, links.marks[:capacity].copy())


def copied(links: Links) -> Links:
    return Links(links.table.copy(), links.head.copy(), links.marks.copy())


def nodes_in(links: Links) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The leaves and the internal nodes that are in the tree, each in ascending order."""
    offset, used = int(links.head[OFFSET]), int(links.head[USED])
    is_in = links.table[:, SIZE] != NONE
    return np.flatnonzero(is_in[:used]), offset + np.flatnonzero(is_in[offset : offset + used])


def compacted(links: Links, capacity: int) -> tuple[Links, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """A copy without gaps, with room for ``capacity`` leaves; and, by new number, the old ids of leaves and the others.

    Leaves keep their order. Internal node 0 stays free, as it does where nothing was ever taken out.
    """
    leaves, internal = nodes_in(links)
    new, n = new_links(capacity, int(links.head[LIMIT])), len(leaves)
    new_id = np.full(len(links.table) + 1, NONE, dtype=np.int32)  # one more, where NONE points
    new_id[leaves] = np.arange(n)
    new_id[internal] = capacity + 1 + np.arange(len(internal))
    for old in (leaves, internal):
        new.table[new_id[old], :SIZE] = new_id[links.table[old, :SIZE]]
        new.table[new_id[old], SIZE] = links.table[old, SIZE]
    new.head[[ROOT, LEAVES, USED]] = [new_id[links.head[ROOT]], n, n]
    return new, leaves, internal


@jitable
def parent(tree, v):
    return tree.table[v, PARENT]


@jitable
def size(tree, v):
    """Number of leaves under v, recorded exactly up to the limit of the tree."""
    return tree.table[v, SIZE]


@jitable
def is_leaf(tree, v):
    return v < tree.head[OFFSET]


@jitable
def sibling(tree, v):
    p = tree.table[v, PARENT]
    return tree.table[p, LEFT] + tree.table[p, RIGHT] - v


@jitable
def put_in_place_of(tree, new, old):
    """Hang ``new`` where ``old`` hangs; ``old`` keeps pointing at its parent."""
    p = tree.table[old, PARENT]
    tree.table[new, PARENT] = p
    if p == NONE:
        tree.head[ROOT] = new
    elif tree.table[p, LEFT] == old:
        tree.table[p, LEFT] = new
    else:
        tree.table[p, RIGHT] = new


@jitable
def resize_upward(tree, v):
    """Recount v and its ancestors from their children; stop at the first whose recorded size is already right."""
    ceiling = tree.head[LIMIT] + 1
    while v != NONE:
        total = min(tree.table[tree.table[v, LEFT], SIZE] + tree.table[tree.table[v, RIGHT], SIZE], ceiling)
        if tree.table[v, SIZE] == total:
            break
        tree.table[v, SIZE] = total
        v = tree.table[v, PARENT]


@jitable
def make_sibling(tree, v, target, p):
    """Join ``v`` to ``target`` under the free internal node ``p``, in target's place."""
    put_in_place_of(tree, p, target)
    tree.table[p, LEFT] = target
    tree.table[p, RIGHT] = v
    tree.table[p, SIZE] = NONE
    tree.table[target, PARENT] = p
    tree.table[v, PARENT] = p
    resize_upward(tree, p)


@jitable
def detach(tree, v):
    """Take the subtree v out; its parent is contracted (its sibling takes that place) and returned, free to reuse."""
    p = tree.table[v, PARENT]
    z = sibling(tree, v)
    put_in_place_of(tree, z, p)
    tree.table[v, PARENT] = NONE
    resize_upward(tree, tree.table[z, PARENT])
    return p


@jitable
def attach_first(tree, x):
    """Leaf x is the whole tree."""
    tree.table[x, SIZE] = 1
    tree.head[ROOT] = x
    tree.head[LEAVES] = 1
    tree.head[USED] = max(tree.head[USED], x + 1)


@jitable
def attach(tree, x, target, p):
    """Leaf x enters as the sibling of ``target``, under the free internal node ``p``."""
    tree.table[x, SIZE] = 1
    make_sibling(tree, x, target, p)
    tree.head[LEAVES] += 1
    tree.head[USED] = max(tree.head[USED], x + 1)


@jitable
def take_out(tree, x):
    """Leaf x leaves; returns the internal node that is free now, or NONE if x was the whole tree."""
    tree.table[x, SIZE] = NONE
    tree.head[LEAVES] -= 1
    if tree.table[x, PARENT] == NONE:
        tree.head[ROOT] = NONE
        return NONE
    p = detach(tree, x)
    tree.table[p, SIZE] = NONE
    return p


@jitable
def swap(tree, u, v):
    """Exchange the places of two disjoint subtrees."""
    pu, pv = tree.table[u, PARENT], tree.table[v, PARENT]
    if pu == pv:
        return
    side_u = LEFT if tree.table[pu, LEFT] == u else RIGHT
    side_v = LEFT if tree.table[pv, LEFT] == v else RIGHT
    tree.table[pu, side_u] = v
    tree.table[pv, side_v] = u
    tree.table[u, PARENT] = pv
    tree.table[v, PARENT] = pu
    resize_upward(tree, pu)
    resize_upward(tree, pv)


@jitable
def lca_within(tree, u, v, cap):
    """Lowest common ancestor of u and v, or NONE where it has more than ``cap`` leaves.

    Of two different nodes the one with fewer leaves cannot be an ancestor of the other, so it may climb. Sizes are
    exact up to the tree's limit, which is never below a cap.
    """
    size_u, size_v = tree.table[u, SIZE], tree.table[v, SIZE]
    while u != v:
        if size_u <= size_v:
            u = tree.table[u, PARENT]
            if u == NONE:
                return NONE
            size_u = tree.table[u, SIZE]
        else:
            v = tree.table[v, PARENT]
            if v == NONE:
                return NONE
            size_v = tree.table[v, SIZE]
        if size_u > cap or size_v > cap:
            return NONE
    return u


@jitable
def is_under(tree, u, v):
    """Whether u is v or a descendant of v (v within the tree's limit)."""
    size_v = tree.table[v, SIZE]
    while u != v and u != NONE and tree.table[u, SIZE] < size_v:
        u = tree.table[u, PARENT]
    return u == v


@jitable
def next_leaf(tree, v, top):
    """The leaf after leaf ``v`` in left-to-right order under ``top``, or NONE; no stack, no recursion."""
    while v != top:
        p = tree.table[v, PARENT]
        if tree.table[p, LEFT] == v:
            return first_leaf(tree, tree.table[p, RIGHT])
        v = p
    return NONE


@jitable
def first_leaf(tree, v):
    while v >= tree.head[OFFSET]:
        v = tree.table[v, LEFT]
    return v
