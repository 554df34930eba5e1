"""One tree of a tree over branches and the trees of the branches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grinch._types import Counts
from grinch.tree import Tree


def compose(top: Tree, parts: Sequence[Tree], rows: Sequence[Counts]) -> Tree:
    """The tree in which leaf i of ``top`` is ``parts[i]``, whose leaf j is leaf ``rows[i][j]`` of the whole.

    No part is empty.

    >>> pair = Tree.from_merges(np.array([[0, 1]]), np.array([0.9]), ceiling=1.0)
    >>> top = Tree.from_merges(np.array([[0, 1]]), np.array([0.1]), ceiling=1.0)
    >>> compose(top, [pair, pair], [np.array([0, 2]), np.array([1, 3])]).to_newick(lengths=False)
    '((0,2),(1,3));'
    """
    n, merges, scores = sum(part.n_leaves for part in parts), list[Counts](), list[np.ndarray]()
    n_done, roots = n, np.empty(len(parts), np.int64)
    for i, (tree, leaves) in enumerate([*zip(parts, rows, strict=True), (top, roots)]):
        internal = tree.internal_nodes()[::-1]
        new = np.full(tree.n_ids, -1, np.int64)
        new[: tree.n_leaves] = leaves
        new[internal] = n_done + np.arange(len(internal))
        n_done += len(internal)
        merges.append(new[tree.child_pairs()[internal]])
        scores.append(tree.scores[internal])
        if i < len(parts):
            roots[i] = new[tree.root]
    return Tree.from_merges(np.concatenate(merges), np.concatenate(scores), ceiling=top._ceiling)
