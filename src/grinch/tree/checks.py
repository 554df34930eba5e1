"""Whether the arrays of a tree are sound."""

from __future__ import annotations

import numpy as np

from grinch.tree import walks
from grinch.tree.links import LEAVES, LEFT, LIMIT, NONE, OFFSET, PARENT, RIGHT, ROOT, SIZE, Links, nodes_in


def check_links(links: Links, exact_sizes: bool = False) -> None:
    """Verify every invariant of ``links``; sizes may saturate at the limit unless ``exact_sizes``."""
    table, n, offset, root = links.table, int(links.head[LEAVES]), int(links.head[OFFSET]), int(links.head[ROOT])
    assert not links.marks.any(), "scratch marks must be zero between calls"
    if n == 0:
        assert root == NONE, f"an empty tree has no root, but root is {root}"
        assert not any(map(len, nodes_in(links))), "an empty tree has no nodes"
        return
    leaves, internal = nodes_in(links)
    assert len(leaves) == n, f"{len(leaves)} slots hold leaves, but there are {n} leaves"
    assert len(internal) == n - 1, f"{n} leaves need {n - 1} internal nodes, but there are {len(internal)}"
    alive = np.concatenate([leaves, internal])
    assert root in alive, f"root {root} must be a node of the tree"
    assert table[root, PARENT] == NONE, f"root {root} must have no parent"
    assert (table[leaves][:, [LEFT, RIGHT]] == NONE).all(), "leaves have no children"
    for side in (LEFT, RIGHT):
        assert (table[table[internal, side], PARENT] == internal).all(), "a child must point back at its parent"
    children = np.concatenate([table[internal, LEFT], table[internal, RIGHT]])
    expected = np.sort(alive[alive != root])
    assert np.array_equal(np.sort(children), expected), "every node but the root is the child of exactly one node"
    preorder = walks.no_nodes(2 * n - 1)
    walks.fill_preorder(table, root, offset, preorder)
    assert np.array_equal(np.sort(preorder), np.sort(alive)), "every node is reached from the root exactly once"
    sizes = np.zeros(len(table), dtype=np.int64)
    walks.fill_sizes(table, preorder, offset, sizes)
    ceiling = n if exact_sizes else int(links.head[LIMIT]) + 1
    recorded = np.minimum(sizes[alive], ceiling)
    assert np.array_equal(table[alive, SIZE], recorded), "a size must be the number of leaves, up to the limit"
