"""A branch that grew too large is split where its tree is."""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch._types import Counts, Labels, Slots
from grinch.sharded.store.routing import Router, drawn
from grinch.tree import Tree

# The smaller side has at least this share of the points.
LEAST_SHARE = 1 / 8


def two_sides(tree: Tree) -> Labels:
    """By leaf, the side (0 or 1) it is on, or the number (2, 3 …) of the group with which it leaves before the split.

    The split is the highest whose smaller side has at least an eighth of the points. Groups that leave on the way down
    to it are smaller than that, but there may be many. Where there is no such split, the points are halved as they are
    from left to right.

    >>> two_sides(Tree.from_newick("((((0,1),(2,3)),((4,5),(6,7))),8);")).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1, 2]
    """
    n, sizes, children = tree.n_leaves, tree.sizes(), tree.child_pairs()
    v, sides, n_groups = tree.root, np.zeros(n, np.int64), 2
    while sizes[v] >= 2 * LEAST_SHARE * n and v >= tree.offset:
        small, large = sorted((int(child) for child in children[v]), key=lambda child: sizes[child])
        if sizes[small] >= LEAST_SHARE * n:
            left, right = (int(child) for child in children[v])
            sides[tree.leaves(left)], sides[tree.leaves(right)] = 0, 1
            return sides
        sides[tree.leaves(small)] = n_groups
        v, n_groups = large, n_groups + 1
    nodes = tree.preorder()
    sides[nodes[nodes < tree.offset]] = np.arange(n) >= n // 2
    return sides


def with_groups(sides: Labels, rows: Any, numbers: Counts, router: Router) -> Labels:
    """Each of the groups goes as a whole to the side that has the nearest routing points of most of its points."""
    away = np.flatnonzero(sides > 1)
    if not len(away):
        return sides
    samples = []
    for side in (0, 1):
        at: Slots = np.flatnonzero(sides == side)
        chosen = at[drawn(numbers[at])]
        samples.append(router.sample(numbers[chosen], rows[chosen]))
    votes = np.bincount(sides[away], router.owners(rows[away], samples) - 0.5)
    new_side = np.concatenate([[0, 1], votes[2:] > 0]).astype(np.int64)
    return new_side[sides]
