"""Lowest common ancestors of many pairs at once, however deep the tree."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grinch._compile import kernel
from grinch.tree import walks
from grinch.tree.links import LEFT, NONE, PARENT, RIGHT, SIZE
from grinch.tree.tree import Tree


def common_ancestors(tree: Tree, u: npt.NDArray[np.integer], v: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
    """The lowest common ancestor of each pair of nodes ``u[i]``, ``v[i]``: O(n) once, then O(log n) for a pair.

    Every node continues the path of its parent if it is the larger child, else it begins one. From any node the root
    is then at most log2(n) paths away, for a new path begins where a node has at most half the leaves of its parent.

    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> common_ancestors(tree, np.array([0, 0]), np.array([1, 2])).tolist() == [tree.lca(0, 1), tree.root]
    True
    """
    table, preorder = tree.links.table, tree.preorder()
    rank, heads, found = walks.no_nodes(len(table)), walks.no_nodes(len(table)), walks.no_nodes(len(u))
    rank[preorder] = np.arange(len(preorder))
    _fill_heads(table, preorder, tree.offset, heads)
    _meet_on_paths(table, rank, heads, u, v, found)
    return found


@kernel
def _fill_heads(table, preorder, offset, heads):
    """By node, where its path begins."""
    for i in range(preorder.shape[0]):
        v = preorder[i]
        if table[v, PARENT] == NONE:
            heads[v] = v
        if v >= offset:
            left, right = table[v, LEFT], table[v, RIGHT]
            left_is_larger = table[left, SIZE] >= table[right, SIZE]
            heads[left] = heads[v] if left_is_larger else left
            heads[right] = right if left_is_larger else heads[v]


@kernel
def _meet_on_paths(table, rank, heads, us, vs, found):
    for i in range(us.shape[0]):
        u, v = us[i], vs[i]
        # Of two paths the one that begins later in preorder cannot hold the common ancestor.
        while heads[u] != heads[v]:
            if rank[heads[u]] > rank[heads[v]]:
                u = table[heads[u], PARENT]
            else:
                v = table[heads[v], PARENT]
        found[i] = u if rank[u] < rank[v] else v
