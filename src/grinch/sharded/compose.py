"""One tree of many: branches in their places under an upper tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._types import Floats, Labels
from grinch.tree import Tree

Numbers = npt.NDArray[np.int64]


class MergeList(NamedTuple):
    """A tree as its merges: ``pairs[k]`` become node n + k, at ``scores[k]``; nodes 0 to n - 1 are the leaves."""

    pairs: Labels
    scores: Floats

    @property
    def n_leaves(self) -> int:
        return len(self.pairs) + 1

    def tree(self, ceiling: float | None = None) -> Tree:
        return Tree.from_merges(self.pairs, self.scores, ceiling)


def merges_of(tree: Tree) -> MergeList:
    """Return the merges of a tree, children before parents.

    >>> merges_of(Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])).pairs.tolist()
    [[0, 1], [2, 3]]
    """
    nodes = tree.internal_nodes()[::-1]
    number = np.arange(tree.n_ids)
    number[nodes] = tree.n_leaves + np.arange(len(nodes))
    return MergeList(number[tree.child_pairs()[nodes]].reshape(-1, 2).astype(np.int64), tree.scores[nodes])


def compose_merges(top: MergeList, parts: Sequence[MergeList], rows: Sequence[Numbers]) -> MergeList:
    """Return the tree in which each leaf i of ``top`` is ``parts[i]``, whose leaf j is called ``rows[i][j]``.

    >>> pair, top = MergeList(np.array([[0, 1]]), np.array([0.9])), MergeList(np.array([[0, 1]]), np.array([0.1]))
    >>> compose_merges(top, [pair, pair], [np.array([0, 3]), np.array([1, 2])]).tree().to_newick(lengths=False)
    '((0,3),(1,2));'
    """
    n = sum(len(numbers) for numbers in rows)
    pairs, roots, done = [], np.empty(len(parts), np.int64), 0
    for i, (part, numbers) in enumerate(zip(parts, rows, strict=True)):
        # By number in the part, that in the whole.
        number = np.concatenate([numbers, n + done + np.arange(len(part.pairs))])
        pairs.append(number[part.pairs])
        roots[i] = number[-1]
        done += len(part.pairs)
    number = np.concatenate([roots, n + done + np.arange(len(top.pairs))])
    return MergeList(
        np.concatenate([*pairs, number[top.pairs]]).reshape(-1, 2).astype(np.int64),
        np.concatenate([*(part.scores for part in parts), top.scores]),
    )


def without(top: MergeList, is_empty: npt.NDArray[np.bool_]) -> MergeList:
    """Return the merges of the leaves that are not empty, counted from 0 in their order.

    >>> top = MergeList(np.array([[0, 1], [2, 3]]), np.array([0.9, 0.1]))
    >>> without(top, np.array([False, True, False])).pairs.tolist()
    [[1, 0]]
    """
    n, kept = top.n_leaves, np.flatnonzero(~is_empty)
    place = np.full(n + len(top.pairs), -1, np.int64)
    place[kept] = np.arange(len(kept))
    pairs: list[list[int]] = []
    scores: list[float] = []
    for k, (left, right) in enumerate(top.pairs.tolist()):
        sides = [int(place[left]), int(place[right])]
        if min(sides) < 0:
            # What has nothing on one side is what it has on the other.
            place[n + k] = max(sides)
        else:
            place[n + k] = len(kept) + len(pairs)
            pairs.append(sides)
            scores.append(float(top.scores[k]))
    return MergeList(np.array(pairs, np.int64).reshape(-1, 2), np.array(scores, np.float64))


def subtree(tree: Tree, node: int) -> tuple[MergeList, Numbers]:
    """Return the tree under a node, and the leaves of the whole that its leaves are, in their order."""
    stack, internal = [int(node)], []
    children, offset = tree.child_pairs(), tree.offset
    while stack:
        v = stack.pop()
        if v >= offset:
            internal.append(v)
            stack += children[v].tolist()
    leaves = tree.leaves(node).astype(np.int64)
    number = np.empty(tree.n_ids, np.int64)
    number[leaves] = np.arange(len(leaves))
    nodes = np.array(internal[::-1], np.int64)
    number[nodes] = len(leaves) + np.arange(len(nodes))
    return MergeList(number[children[nodes]].reshape(-1, 2), tree.scores[nodes]), leaves
