"""A branch that grew too large is split where its tree is."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._types import Counts, Labels, Slots
from grinch.sharded.store.routing import Router, drawn
from grinch.tree import Tree

# The smaller side has at least this share of the points.
LEAST_SHARE = 1 / 8
FEW = -1


def two_sides(tree: Tree) -> Labels:
    """By leaf, the side (0 or 1) it is on; -1 for the few that leave the points before they are split.

    The split is the highest whose smaller side has at least an eighth of the points. Where there is none, for all leave
    in small groups, the points are halved as they are from left to right.

    >>> two_sides(Tree.from_newick("((((0,1),(2,3)),((4,5),(6,7))),8);")).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1, -1]
    """
    n, sizes, children = tree.n_leaves, tree.sizes(), tree.child_pairs()
    v, sides = tree.root, np.full(n, FEW, np.int64)
    while sizes[v] >= 2 * LEAST_SHARE * n and v >= tree.offset:
        left, right = (int(child) for child in children[v])
        if min(sizes[left], sizes[right]) >= LEAST_SHARE * n:
            sides[tree.leaves(left)], sides[tree.leaves(right)] = 0, 1
            return sides
        v = left if sizes[left] > sizes[right] else right
    nodes = tree.preorder()
    leaves = nodes[nodes < tree.offset]
    sides[leaves] = np.arange(n) >= n // 2
    return sides


def with_nearest(sides: Labels, rows: npt.NDArray[Any], numbers: Counts, router: Router) -> Labels:
    """The few go to the side that has the routing point nearest to them."""
    few = np.flatnonzero(sides == FEW)
    if not len(few):
        return sides
    samples = []
    for side in (0, 1):
        at: Slots = np.flatnonzero(sides == side)
        chosen = at[drawn(numbers[at])]
        samples.append(router.sample(numbers[chosen], rows[chosen]))
    sides = sides.copy()
    sides[few] = router.nearest(rows[few], samples)
    return sides
