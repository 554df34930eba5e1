"""A tree laid out in heavy paths: from any node only a few of them lead to the root, however deep the tree.

Every node continues the path of its parent if it is the larger child, else it begins one. So the root is at most
log2(n) paths away from any node, because a path begins where a node has at most half the leaves of its parent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._by_reference import by_reference
from grinch._compile import jitable, kernel
from grinch._types import Ids
from grinch.tree import walks
from grinch.tree.links import LEFT, NONE, RIGHT
from grinch.tree.tree import Tree


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
    """Room for the paths of a tree with this many node ids; :func:`fill_paths` fills it."""
    return Paths(*(walks.no_nodes(n_ids) for _ in Paths._fields))


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


def common_ancestors(tree: Tree, u: npt.NDArray[np.integer], v: npt.NDArray[np.integer]) -> Ids:
    """The lowest common ancestor of each pair of nodes ``u[i]``, ``v[i]``: O(n) once, then O(log n) for a pair.

    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> common_ancestors(tree, np.array([0, 0]), np.array([1, 2])).tolist() == [tree.lca(0, 1), tree.root]
    True
    """
    found = walks.no_nodes(len(u))
    if len(found):
        paths = new_paths(tree.n_ids)
        fill_paths(tree.links.table, tree.preorder(), tree.offset, tree.sizes(), paths)
        _fill_common_ancestors(paths, u, v, found)
    return found


@kernel
def _fill_common_ancestors(paths: Paths, us: npt.NDArray[np.integer], vs: npt.NDArray[np.integer], found: Ids) -> None:
    for i in range(us.shape[0]):
        found[i] = paths.nodes[place_of_common_ancestor(paths, paths.places[us[i]], paths.places[vs[i]])]


@jitable
def place_of_common_ancestor(paths: Paths, u: int, v: int) -> int:
    """Where the lowest common ancestor of the nodes at two places is."""
    # Of two paths the one that begins later cannot hold the common ancestor.
    while paths.heads[u] != paths.heads[v]:
        if paths.heads[u] > paths.heads[v]:
            u = paths.above[paths.heads[u]]
        else:
            v = paths.above[paths.heads[v]]
    return min(u, v)
