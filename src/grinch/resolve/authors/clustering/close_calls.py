"""The merges of a tree that nearly went the other way."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from grinch.tree import Tree


class CloseCall(NamedTuple):
    """Two groups of records by position, their score, and the distance of the score from the threshold."""

    margin: float
    score: float
    left: list[int]
    right: list[int]


def close_calls(tree: Tree, threshold: float, n: int, nodes: Iterable[int] | None = None) -> list[CloseCall]:
    """The n merges whose scores are nearest to the threshold, nearest first; of all nodes of a tree, or of some.

    >>> tree = Tree.from_merges(np.array([[0, 1], [2, 3], [4, 5]]), np.array([0.25, 0.9, 0.8]))
    >>> close_calls(tree, 0.5, 1)
    [CloseCall(margin=0.25, score=0.25, left=[0], right=[1])]
    """
    merges = []
    for v in tree.preorder().tolist() if nodes is None else nodes:
        if not tree.is_leaf(v) and np.isfinite(tree.scores[v]):
            merges.append((abs(float(tree.scores[v]) - threshold), v))
    found = []
    for margin, v in heapq.nsmallest(n, merges):
        left, right = (tree.leaves(child).tolist() for child in tree.children(v))
        found.append(CloseCall(margin, float(tree.scores[v]), left, right))
    return found
