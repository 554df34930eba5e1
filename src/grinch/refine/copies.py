"""Copies of one point: which of them is whose neighbour says nothing, so the tree itself is asked."""

from __future__ import annotations

import numpy as np

from grinch._types import Counts, Ids
from grinch.tree import walks
from grinch.tree.links import LEAVES, NONE, OFFSET, ROOT, Links


def copies_in_order(near: Ids, look: Counts | None, links: Links) -> Ids:
    """The same neighbours, but of three copies or more each is the neighbour of the next one in the tree.

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
    kept = np.where(is_copy, NONE, near).astype(np.int32)
    kept = np.take_along_axis(kept, np.argsort(kept == NONE, axis=1, kind="stable"), axis=1)
    earlier, later = _next_copies(group, links)
    # The one that came later has at least as many neighbours less as it gets here.
    for owner, other in zip(later.tolist(), earlier.tolist(), strict=True):
        free = np.flatnonzero(kept[owner] == NONE)
        if len(free):
            kept[owner, free[0]] = other
    return np.ascontiguousarray(kept)


def _next_copies(group: Counts, links: Links) -> tuple[Ids, Ids]:
    """Pairs of copies that are next to each other in the tree, but for others: the first to arrive, and the second."""
    preorder = walks.no_nodes(2 * int(links.head[LEAVES]) - 1)
    walks.fill_preorder(links.table, int(links.head[ROOT]), int(links.head[OFFSET]), preorder)
    leaves = preorder[preorder < links.head[OFFSET]]
    leaves = leaves[group[leaves] != NONE]
    leaves = leaves[np.argsort(group[leaves], kind="stable")]
    one, next_one = leaves[:-1], leaves[1:]
    is_pair = group[one] == group[next_one]
    return np.minimum(one, next_one)[is_pair], np.maximum(one, next_one)[is_pair]
