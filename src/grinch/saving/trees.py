"""Trees in files: whether they are trees, before any compiled code walks through them."""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch._types import Ids
from grinch.errors import SavedModelError
from grinch.tree import walks
from grinch.tree.links import LEAVES, LEFT, LIMIT, NONE, OFFSET, PARENT, RIGHT, ROOT, SIZE, USED, Links


def children_of(table: Ids, offset: int) -> Ids:
    """The children of each internal node, by what they are: 2i is leaf i, an odd number is how far an internal node is.

    Near nodes have near numbers, so that is small. A node that is not in the tree has -1.
    """
    sides = table[offset:, [LEFT, RIGHT]].astype(np.int64)
    steps = sides - offset - np.arange(len(sides))[:, None]
    codes = np.where(sides < offset, 2 * sides, 2 * np.where(steps < 0, -2 * steps - 1, 2 * steps) + 1)
    codes[table[offset:, SIZE] == NONE] = -1
    if len(codes) and codes.max() >= 2**31:
        raise SavedModelError("the tree has more nodes than a file can hold")
    return np.ascontiguousarray(codes.T.astype(np.int32))


def table_of(children: Any, is_in: Any, head: Any) -> Ids:
    """The table of a tree from the children of its nodes: parents and sizes follow from them. Internal ids start at n.

    ``is_in`` says which leaf slots are filled.
    """
    n, root, limit = len(is_in), int(head[ROOT]), int(head[LIMIT])
    if children.shape != (2, n) or children.dtype != np.int32 or is_in.dtype != np.uint8 or (is_in > 1).any():
        raise SavedModelError("the tree does not have two children for every node")
    codes = children.T.astype(np.int64)
    table = np.full((2 * n, 4), NONE, np.int32)
    internal = np.flatnonzero((codes >= 0).all(axis=1))
    if (codes[codes[:, 0] < 0] != -1).any() or (codes[codes[:, 1] < 0] != -1).any():
        raise SavedModelError("a node of the tree has one child")
    codes = codes[internal]
    far, is_leaf = codes // 2, codes % 2 == 0
    steps = np.where(far % 2 == 1, -(far + 1) // 2, far // 2)
    sides = np.where(is_leaf, codes // 2, n + internal[:, None] + steps)
    if ((sides < 0) | (sides >= 2 * n) | ((sides >= n) == is_leaf)).any():
        raise SavedModelError("a child in the tree is none of its nodes")
    table[:n, SIZE] = np.where(is_in == 1, 1, NONE)
    table[n + internal, LEFT], table[n + internal, RIGHT], table[n + internal, SIZE] = sides[:, 0], sides[:, 1], 0
    table[sides[:, 0], PARENT] = table[sides[:, 1], PARENT] = n + internal
    preorder = check_structure(table, root, n, int(head[USED]), int(head[LEAVES]))
    sizes = np.zeros(2 * n, np.int64)
    walks.fill_sizes(table, preorder, n, sizes)
    table[preorder, SIZE] = np.minimum(sizes[preorder], limit + 1)
    return table


def check_structure(table: Ids, root: int, offset: int, used: int, n_leaves: int) -> Ids:
    """The nodes of a table, parents before children, if they are one binary tree of so many leaves; sizes aside.

    Every node but the root must be the child of exactly one, and point back at it: then what is reached from the root
    has no circles, and a walk from there ends.
    """

    def must(is_so: Any, problem: str) -> None:
        if not bool(is_so):
            raise SavedModelError(f"the tree is damaged: {problem}")

    must(0 <= used <= offset and len(table) >= offset + used, "there is no room for its nodes")
    is_in = table[:, SIZE] != NONE
    leaves, internal = np.flatnonzero(is_in[:used]), offset + np.flatnonzero(is_in[offset : offset + used])
    must(len(leaves) == n_leaves == int(is_in[:offset].sum()), f"{n_leaves} leaves are not where they should be")
    must(len(internal) == int(is_in[offset:].sum()) == max(n_leaves - 1, 0), "it has too many or too few nodes")
    if n_leaves == 0:
        must(root == NONE, "it is empty and has a root")
        return np.empty(0, np.int32)
    must(0 <= root < len(table) and is_in[root], "its root is none of its nodes")
    must((table[leaves][:, [LEFT, RIGHT]] == NONE).all(), "a leaf has children")
    children = table[internal][:, [LEFT, RIGHT]]
    must(((children >= 0) & (children < len(table))).all(), "a child is none of its nodes")
    must(is_in[children].all(), "a child is none of its nodes")
    must((table[children, PARENT] == internal[:, None]).all(), "a child does not point back at its parent")
    counts = np.bincount(children.ravel(), minlength=len(table))
    must(counts[root] == 0 and table[root, PARENT] == NONE, "its root has a parent")
    must((counts[is_in] <= 1).all() and int(counts.sum()) == 2 * n_leaves - 2, "a node has two parents")
    preorder = walks.no_nodes(2 * n_leaves - 1)
    preorder[:] = NONE
    walks.fill_preorder(table, root, offset, preorder)
    reached = np.zeros(len(table), np.bool_)
    reached[preorder[preorder >= 0]] = True
    must(np.array_equal(reached, is_in), "not all nodes are reached from the root")
    return preorder


def check_tree(links: Links) -> None:
    """A tree as compiled code takes it, with the sizes of its nodes."""
    table, head = links.table, links.head
    offset, limit, n_leaves = int(head[OFFSET]), int(head[LIMIT]), int(head[LEAVES])
    if len(table) != 2 * offset or len(links.marks) != offset or not 0 <= limit < 2**31 - 1:
        raise SavedModelError(f"the tree is damaged: it has {len(table)} rows for {offset} leaves")
    preorder = check_structure(table, int(head[ROOT]), offset, int(head[USED]), n_leaves)
    sizes = np.zeros(len(table), np.int64)
    if n_leaves:
        walks.fill_sizes(table, preorder, offset, sizes)
    if (np.minimum(sizes[preorder], limit + 1) != table[preorder, SIZE]).any():
        raise SavedModelError("the tree is damaged: a size is not the number of leaves")


def preorder_of(table: Ids, head: Any) -> Ids:
    """All nodes, parents before children, of a tree that is one."""
    n_leaves = int(head[LEAVES])
    preorder = walks.no_nodes(max(2 * n_leaves - 1, 0))
    if n_leaves:
        walks.fill_preorder(table, int(head[ROOT]), int(head[OFFSET]), preorder)
    return preorder
