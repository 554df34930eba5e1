"""Copies of one point: which of them is whose neighbour says nothing, so the tree itself is asked."""

from __future__ import annotations

import numpy as np

from grinch._types import Counts, Ids
from grinch.tree import walks
from grinch.tree.links import LEAVES, NONE, OFFSET, ROOT, Links

# Where more than one in so many points has two copies or more, neighbours do not tell who belongs together.
FEW = 8


def is_full_of_copies(look: Counts | None) -> bool:
    """Whether so many points are copies that a tree is better left as it is; ``look`` as below."""
    if look is None or len(look) == 0:
        return False
    counts = np.unique(look, return_counts=True)[1]
    return bool(counts[counts > 2].sum() * FEW > len(look))


def copies_in_order(near: Ids, look: Counts | None, links: Links) -> Ids:
    """The same neighbours, but of three copies or more those beside each other in the tree are neighbours.

    Ties go to the first to arrive, so all copies would have the same few neighbours, and a tree that brings neighbours
    together would be a chain. ``look`` has a number for each point, the same for copies; None if that is not known.
    """
    if look is None:
        return near
    _, group, counts = np.unique(look, return_inverse=True, return_counts=True)
    if counts.max(initial=0) < 3:
        return near
    group = np.where(counts[group] > 2, group, NONE)
    is_copy = (near != NONE) & (group[near] == group[: len(near), None]) & (group[: len(near), None] != NONE)
    before, after = _copies_beside(group, links)
    # As often as before, for what counts is how many neighbours are copies and how many are not.
    copies = np.where(np.arange(near.shape[1]) % 2 == 0, after[: len(near), None], before[: len(near), None])
    other = np.where(np.arange(near.shape[1]) % 2 == 1, after[: len(near), None], before[: len(near), None])
    found = np.where(is_copy, np.where(copies == NONE, other, copies), near).astype(np.int32)
    # Of the copies of another point one is as good as all.
    groups = np.where((near == NONE) | is_copy, NONE, group[near])
    again = np.zeros(near.shape, np.bool_)
    for j in range(1, near.shape[1]):
        again[:, j] = (groups[:, j] != NONE) & (groups[:, :j] == groups[:, j, None]).any(axis=1)
    found[again] = NONE
    return np.ascontiguousarray(np.take_along_axis(found, np.argsort(found == NONE, axis=1, kind="stable"), axis=1))


def _copies_beside(group: Counts, links: Links) -> tuple[Ids, Ids]:
    """For each point, the copies before and after it in the tree, without all others; NONE where there is none."""
    preorder = walks.no_nodes(2 * int(links.head[LEAVES]) - 1)
    walks.fill_preorder(links.table, int(links.head[ROOT]), int(links.head[OFFSET]), preorder)
    leaves = preorder[preorder < links.head[OFFSET]]
    leaves = leaves[group[leaves] != NONE]
    leaves = leaves[np.argsort(group[leaves], kind="stable")]
    one, next_one = leaves[:-1], leaves[1:]
    is_pair = group[one] == group[next_one]
    before, after = np.full(len(group), NONE, np.int32), np.full(len(group), NONE, np.int32)
    after[one[is_pair]], before[next_one[is_pair]] = next_one[is_pair], one[is_pair]
    return before, after
