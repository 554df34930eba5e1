"""Where a tree is cut into a number of clusters: split the node of the greatest key, again and again, from the root on.

Keys never fall towards the root, and of equal ones the leftmost is split first; so this is the order of
:func:`grinch.cuts.flat.split_order`, without a look at the rest of the tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._by_reference import by_reference
from grinch._compile import jitable
from grinch._types import Counts, Floats, Ids, as_id
from grinch.tree.links import NONE, ROOT, Links, is_leaf, left, right

# Ranks are from 0 up to this.
LAST_RANK = 2**62


@by_reference
class Ends(NamedTuple):
    """The nodes that a cut leaves whole, in any order, and what is needed to find them.

    By end: ``nodes``; ``ranks``, which rise from left to right, and ``after``, the next end to the right; ``heap`` has
    those that can still be split, the next one to be split on top.
    """

    nodes: Ids
    ranks: Counts
    after: Ids
    heap: Ids


def new_ends(most: int) -> Ends:
    """Room for this many ends."""
    return Ends(np.empty(most, np.int32), np.empty(most, np.int64), np.empty(most, np.int32), np.empty(most, np.int32))


@jitable
def find_ends(tree: Links, keys: Floats, ends: Ends) -> int:
    """Fill ``ends``, or all leaves if there are fewer; returns how many there are."""
    ends.nodes[0], ends.ranks[0], ends.after[0] = tree.head[ROOT], 0, NONE
    n, waiting = 1, _push(tree, keys, ends, 0, 0)
    while waiting > 0 and n < ends.nodes.shape[0]:
        i = as_id(ends.heap[0])
        waiting = _pop(keys, ends, waiting)
        if _room_after(ends, i) < 2:
            _spread(ends, n)
        v = as_id(ends.nodes[i])
        ends.nodes[i], ends.nodes[n] = left(tree, v), right(tree, v)
        ends.ranks[n] = ends.ranks[i] + _room_after(ends, i) // 2
        ends.after[n], ends.after[i] = ends.after[i], n
        waiting = _push(tree, keys, ends, waiting, i)
        waiting = _push(tree, keys, ends, waiting, n)
        n += 1
    return n


@jitable
def _room_after(ends: Ends, i: int) -> int:
    stop = LAST_RANK if ends.after[i] == NONE else ends.ranks[ends.after[i]]
    return stop - ends.ranks[i]


@jitable
def _spread(ends: Ends, n: int) -> None:
    """Give n ends ranks at equal distances; the first is always the leftmost."""
    i, step = 0, LAST_RANK // n
    for place in range(n):
        ends.ranks[i] = place * step
        i = as_id(ends.after[i])


@jitable
def _is_before(keys: Floats, ends: Ends, i: int, j: int) -> bool:
    a, b = keys[ends.nodes[i]], keys[ends.nodes[j]]
    return a > b or (a == b and ends.ranks[i] < ends.ranks[j])


@jitable
def _push(tree: Links, keys: Floats, ends: Ends, n: int, i: int) -> int:
    """Let end i wait to be split, unless it is a leaf; returns how many are waiting."""
    if is_leaf(tree, as_id(ends.nodes[i])):
        return n
    at = n
    while at > 0 and _is_before(keys, ends, i, as_id(ends.heap[(at - 1) // 2])):
        ends.heap[at] = ends.heap[(at - 1) // 2]
        at = (at - 1) // 2
    ends.heap[at] = i
    return n + 1


@jitable
def _pop(keys: Floats, ends: Ends, n: int) -> int:
    """Take the next end off the heap of n; returns how many are left."""
    n -= 1
    last, at = as_id(ends.heap[n]), 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and _is_before(keys, ends, as_id(ends.heap[child + 1]), as_id(ends.heap[child])):
            child += 1
        if _is_before(keys, ends, last, as_id(ends.heap[child])):
            break
        ends.heap[at] = ends.heap[child]
        at = child
    ends.heap[at] = last
    return n
