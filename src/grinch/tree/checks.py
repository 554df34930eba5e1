"""Trees in files, and checks of their arrays: compiled code would not come to the end of a broken tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch._types import Ids
from grinch.errors import SavedModelError
from grinch.saving.state import State, array
from grinch.tree import links as topology
from grinch.tree.links import NONE, Links


def links_to_state(links: Links) -> State:
    return {"table": links.table, "head": links.head}


def links_from_state(state: Any, undoable: bool = False) -> Links:
    """Return a tree without followers, in which no change is under way."""
    table, head = array(state, "table", "<i4", 2), array(state, "head", "<i8", 1)
    if table.shape[1:] != (4,) or len(head) != topology.MOVED + 1 or not 0 <= head[topology.OFFSET] <= len(table):
        raise SavedModelError(f"the tree is of shape {table.shape}, with {len(head)} numbers about it")
    head = head if head.flags.writeable else head.copy()
    head[topology.NOTED] = head[topology.MOVED] = 0
    log = np.zeros((len(table) if undoable else 0, topology.CHANGED_IN + 1), np.int32)
    return Links(table, head, np.zeros(int(head[topology.OFFSET]), np.uint8), log, np.zeros(0, np.int32))


def check_structure(table: Ids, root: int, offset: int, used: int, n_leaves: int) -> Ids:
    """Return the nodes of a table, parents before children, if they are one binary tree of ``n_leaves``; sizes aside.

    Every node but the root must be the child of exactly one, and point back at it: then what is reached from the root
    has no circles, and a walk from there ends.
    """

    def must(is_so: Any, problem: str) -> None:
        if not bool(is_so):
            raise SavedModelError(f"the tree is damaged: {problem}")

    must(0 <= used <= offset and len(table) >= offset + used, "there is no room for its nodes")
    is_in = table[:, topology.SIZE] != NONE
    leaves, internal = np.flatnonzero(is_in[:used]), offset + np.flatnonzero(is_in[offset : offset + used])
    must(len(leaves) == n_leaves == int(is_in[:offset].sum()), f"{n_leaves} leaves are not where they should be")
    must(len(internal) == int(is_in[offset:].sum()) == max(n_leaves - 1, 0), "it has too many or too few nodes")
    if n_leaves == 0:
        must(root == NONE, "it is empty and has a root")
        return np.empty(0, np.int32)
    must(0 <= root < len(table) and is_in[root], "its root is none of its nodes")
    must((table[leaves][:, [topology.LEFT, topology.RIGHT]] == NONE).all(), "a leaf has children")
    children = table[internal][:, [topology.LEFT, topology.RIGHT]]
    must(((children >= 0) & (children < len(table))).all(), "a child is none of its nodes")
    must(is_in[children].all(), "a child is none of its nodes")
    must((table[children, topology.PARENT] == internal[:, None]).all(), "a child does not point back at its parent")
    counts = np.bincount(children.ravel(), minlength=len(table))
    must(counts[root] == 0 and table[root, topology.PARENT] == NONE, "its root has a parent")
    must((counts[is_in] <= 1).all() and int(counts.sum()) == 2 * n_leaves - 2, "a node has two parents")
    preorder = topology.no_nodes(2 * n_leaves - 1)
    preorder[:] = NONE
    topology.fill_preorder(table, root, offset, preorder)
    reached = np.zeros(len(table), np.bool_)
    reached[preorder[preorder >= 0]] = True
    must(np.array_equal(reached, is_in), "not all nodes are reached from the root")
    return preorder


def validate_links(links: Links) -> None:
    """Refuse a tree that compiled code would not come to the end of, or whose sizes are wrong."""
    table, head = links.table, links.head
    offset, limit, n_leaves = int(head[topology.OFFSET]), int(head[topology.LIMIT]), int(head[topology.LEAVES])
    if len(table) != 2 * offset or len(links.marks) != offset or not 0 <= limit < 2**31 - 1:
        raise SavedModelError(f"the tree is damaged: it has {len(table)} rows for {offset} leaves")
    preorder = check_structure(table, int(head[topology.ROOT]), offset, int(head[topology.USED]), n_leaves)
    sizes = np.zeros(len(table), np.int64)
    if n_leaves:
        topology.fill_sizes(table, preorder, offset, sizes)
    if (np.minimum(sizes[preorder], limit + 1) != table[preorder, topology.SIZE]).any():
        raise SavedModelError("the tree is damaged: a size is not the number of leaves")


def check_links(links: Links) -> None:
    """Raise AssertionError for the first invariant of a tree that does not hold."""
    assert not links.marks.any(), "scratch marks must be zero between calls"
    try:
        validate_links(links)
    except SavedModelError as error:
        raise AssertionError(str(error)) from None
