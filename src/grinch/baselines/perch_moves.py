"""PERCH (Kobren, Monath et al., KDD 2017): insert beside the nearest neighbour, then rotate where a node is masked.

A node is *masked* if one of its leaves is nearer to a leaf of its aunt than to some leaf of its sibling; rotating it
makes it and its aunt siblings. As the authors' programs do, PERCH rotates only where all of the node's leaves
are: where its largest distance to the aunt is below its smallest distance to the sibling. Rotating wherever a single
leaf is masked, as the definition reads, makes forty times as many rotations, and trees below those without any.

The distances of two nodes are measured from the two corners of one node's box, the lowest and the highest, to the other
node: to its points, if it has few, else to its box; then the other way round, and the tighter of both counts. Between
two leaves that is their distance. Between larger nodes it is the authors' estimate, not a bound: other corners may be
farther. True bounds leave more nodes masked, and purity is lower (by .02 to .04 on a mixture of Gaussians).

All distances are squared. Plain Python over arrays, compiled when it is called from compiled code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._compile import jitable, kernel
from grinch._types import Floats, Ids, Vectors32
from grinch.tree.links import (
    LEAVES,
    LEFT,
    NONE,
    OFFSET,
    PARENT,
    RIGHT,
    ROOT,
    SIZE,
    Links,
    attach,
    attach_first,
    sibling,
    swap,
)

# Entries of Boxes.counts.
N_ENDS, ROTATIONS, BALANCE_ROTATIONS, COLLAPSES = range(4)


class Boxes(NamedTuple):
    """What PERCH knows of each node.

    ``points`` has the vector of each leaf, and of each collapsed node its mean. By internal node, counted from 0:
    ``low`` and ``high``, the corners of its box; ``collapsed``; ``pair_place``, where it is in ``pairs``. ``ends`` are
    the nodes that count as leaves, ``place`` where each of them stands there. ``pairs`` is a heap, from entry 1 on, of
    the internal nodes whose children are two ends, the closest two on top; entry 0 is their number. ``sample``
    is scratch space for the parts of a node, ``beam`` and ``gaps`` for the search.
    """

    points: Vectors32
    low: Vectors32
    high: Vectors32
    collapsed: npt.NDArray[np.uint8]
    ends: Ids
    place: Ids
    pairs: Ids
    pair_place: Ids
    sample: Ids
    beam: Ids
    gaps: Floats
    counts: npt.NDArray[np.int64]


# Distances and boxes ------------------------------------------------------------------------------------------------


@kernel
def distance(a: Vectors32, b: Vectors32) -> float:
    total = 0.0
    for i in range(a.shape[0]):
        step = np.float64(a[i]) - np.float64(b[i])
        total += step * step
    return total


@kernel
def box_gap(low_a: Vectors32, high_a: Vectors32, low_b: Vectors32, high_b: Vectors32) -> float:
    """Return a lower bound of the distance of points of two boxes."""
    total = 0.0
    for i in range(low_a.shape[0]):
        step = max(np.float64(low_a[i]) - np.float64(high_b[i]), np.float64(low_b[i]) - np.float64(high_a[i]), 0.0)
        total += step * step
    return total


@kernel
def box_reach(low_a: Vectors32, high_a: Vectors32, low_b: Vectors32, high_b: Vectors32) -> float:
    """Return an upper bound of the distance of points of two boxes."""
    total = 0.0
    for i in range(low_a.shape[0]):
        step = max(np.float64(high_a[i]) - np.float64(low_b[i]), np.float64(high_b[i]) - np.float64(low_a[i]))
        total += step * step
    return total


@kernel
def _copy_box(low: Vectors32, high: Vectors32, other_low: Vectors32, other_high: Vectors32) -> None:
    for i in range(low.shape[0]):
        low[i], high[i] = other_low[i], other_high[i]


@kernel
def stretch(low: Vectors32, high: Vectors32, other_low: Vectors32, other_high: Vectors32) -> bool:
    """Make a box hold another; whether it did not before."""
    changed = False
    for i in range(low.shape[0]):
        if other_low[i] < low[i]:
            low[i] = other_low[i]
            changed = True
        if other_high[i] > high[i]:
            high[i] = other_high[i]
            changed = True
    return changed


# Compiled code without reference counts cannot hand arrays around, hence a branch for leaves, which have no box.


@jitable
def gap(tree: Links, boxes: Boxes, u: int, v: int) -> float:
    """Return a lower bound of the distance of leaves of u and v."""
    return bound(tree, boxes, u, v, False)


@jitable
def reach(tree: Links, boxes: Boxes, u: int, v: int) -> float:
    """Return an upper bound of the distance of leaves of u and v."""
    return bound(tree, boxes, u, v, True)


@jitable
def bound(tree: Links, boxes: Boxes, u: int, v: int, is_upper: bool) -> float:
    offset = tree.head[OFFSET]
    if u >= offset and v >= offset:
        i, j = u - offset, v - offset
        return _box_bound(boxes.low[i], boxes.high[i], boxes.low[j], boxes.high[j], is_upper)
    if u >= offset:
        u, v = v, u
    return point_bound(tree, boxes, boxes.points[u], v, is_upper)


@jitable
def point_bound(tree: Links, boxes: Boxes, x: Vectors32, v: int, is_upper: bool) -> float:
    """Return a bound of the distance of a point and leaves of v."""
    i = v - tree.head[OFFSET]
    if i < 0:
        return distance(x, boxes.points[v])
    return _box_bound(x, x, boxes.low[i], boxes.high[i], is_upper)


@jitable
def _box_bound(low_a: Vectors32, high_a: Vectors32, low_b: Vectors32, high_b: Vectors32, is_upper: bool) -> float:
    return box_reach(low_a, high_a, low_b, high_b) if is_upper else box_gap(low_a, high_a, low_b, high_b)


@jitable
def is_end(tree: Links, boxes: Boxes, v: int) -> bool:
    """Return whether v counts as a leaf: it is one, or was collapsed into one."""
    return v < tree.head[OFFSET] or boxes.collapsed[v - tree.head[OFFSET]] == 1


@jitable
def fit_box(tree: Links, boxes: Boxes, p: int) -> None:
    """Make p's box from its children."""
    offset = tree.head[OFFSET]
    left, right, i = tree.table[p, LEFT], tree.table[p, RIGHT], p - offset
    if left < offset:
        _copy_box(boxes.low[i], boxes.high[i], boxes.points[left], boxes.points[left])
    else:
        _copy_box(boxes.low[i], boxes.high[i], boxes.low[left - offset], boxes.high[left - offset])
    if right < offset:
        stretch(boxes.low[i], boxes.high[i], boxes.points[right], boxes.points[right])
    else:
        stretch(boxes.low[i], boxes.high[i], boxes.low[right - offset], boxes.high[right - offset])


class PerchRules(NamedTuple):
    """Whether to rotate for balance, the most leaves before some are collapsed (0: no limit), and how to search."""

    balance: bool
    max_leaves: int
    beam_width: int


# Rotations ----------------------------------------------------------------------------------------------------------


@jitable
def parts_of(tree: Links, boxes: Boxes, v: int, out: Ids) -> int:
    """Write the ends under v to ``out`` if it has room for all of them, else v itself; return how many were written."""
    out[0], n, i = v, 1, 0
    while i < n:
        node = out[i]
        if is_end(tree, boxes, node):
            i += 1
        elif n < out.shape[0]:
            out[i], out[n] = tree.table[node, LEFT], tree.table[node, RIGHT]
            n += 1
        else:
            out[0] = v
            return 1
    return n


@jitable
def corner_bound(tree: Links, boxes: Boxes, u: int, v: int, is_upper: bool) -> float:
    """Return the largest (or smallest) distance of the lowest and the highest corner of u's box and the parts of v."""
    i, found = u - tree.head[OFFSET], 0.0 if is_upper else np.inf
    for k in range(parts_of(tree, boxes, v, boxes.sample[0])):
        part = boxes.sample[0, k]
        if i < 0:
            a = b = point_bound(tree, boxes, boxes.points[u], part, is_upper)
        else:
            a = point_bound(tree, boxes, boxes.low[i], part, is_upper)
            b = point_bound(tree, boxes, boxes.high[i], part, is_upper)
        found = max(found, a, b) if is_upper else min(found, a, b)
    return found


@jitable
def largest_distance(tree: Links, boxes: Boxes, u: int, v: int) -> float:
    return min(corner_bound(tree, boxes, u, v, True), corner_bound(tree, boxes, v, u, True))


@jitable
def smallest_distance(tree: Links, boxes: Boxes, u: int, v: int) -> float:
    return max(corner_bound(tree, boxes, u, v, False), corner_bound(tree, boxes, v, u, False))


@jitable
def is_masked(tree: Links, boxes: Boxes, v: int, sib: int, aunt: int) -> bool:
    """Return whether all of v is nearer to all of ``aunt`` than to any of ``sib``."""
    return largest_distance(tree, boxes, v, aunt) < smallest_distance(tree, boxes, v, sib)


@jitable
def may_rotate_for_balance(tree: Links, boxes: Boxes, v: int, sib: int, aunt: int) -> bool:
    """Return whether rotating v makes the children of its grandparent more equal in size, and does not mask v:
    not all of v is nearer to all of ``sib`` than to any of ``aunt``.
    """
    own, its, hers = tree.table[v, SIZE], tree.table[sib, SIZE], tree.table[aunt, SIZE]
    if abs(its - own - hers) >= abs(its + own - hers):
        return False
    return largest_distance(tree, boxes, v, sib) > smallest_distance(tree, boxes, v, aunt)


@jitable
def rotate(tree: Links, boxes: Boxes, v: int) -> None:
    """Swap v's sibling and its aunt; only v's parent holds other leaves than before."""
    p = tree.table[v, PARENT]
    swap(tree, sibling(tree, v), sibling(tree, p))
    fit_box(tree, boxes, p)
    note_pair(tree, boxes, p)


@jitable
def rotate_masked(tree: Links, boxes: Boxes, v: int) -> None:
    """Rotate from an end v upward, until an internal node is not masked."""
    p = tree.table[v, PARENT]
    while tree.table[p, PARENT] != NONE:
        if is_masked(tree, boxes, v, sibling(tree, v), sibling(tree, p)):
            rotate(tree, boxes, v)
            boxes.counts[ROTATIONS] += 1
        elif not is_end(tree, boxes, v):
            break
        v = p
        p = tree.table[v, PARENT]


@jitable
def rotate_for_balance(tree: Links, boxes: Boxes, v: int) -> None:
    """Rotate, from v to the root, a node or else its sibling, the smaller first, where that balances the tree."""
    p = tree.table[v, PARENT]
    while tree.table[p, PARENT] != NONE:
        first, second, aunt = v, sibling(tree, v), sibling(tree, p)
        if tree.table[second, SIZE] < tree.table[first, SIZE]:
            first, second = second, first
        for _ in range(2):
            if may_rotate_for_balance(tree, boxes, first, second, aunt):
                rotate(tree, boxes, first)
                boxes.counts[BALANCE_ROTATIONS] += 1
                break
            first, second = second, first
        v = p
        p = tree.table[v, PARENT]


# Searching ----------------------------------------------------------------------------------------------------------


@jitable
def nearest_end(boxes: Boxes, x: int) -> int:
    """Return the end nearest to point x, by looking at all of them."""
    best, least = NONE, np.inf
    for i in range(boxes.counts[N_ENDS]):
        d = distance(boxes.points[x], boxes.points[boxes.ends[i]])
        if d < least:
            best, least = boxes.ends[i], d
    return best


@jitable
def beam_search(tree: Links, boxes: Boxes, x: int, width: int) -> int:
    """Return an end near point x: from the root down, go on with the ``width`` nodes whose boxes are nearest."""
    beam, gaps = boxes.beam, boxes.gaps
    beam[0], n, open_nodes = tree.head[ROOT], 1, True
    gaps[0] = 0.0
    while open_nodes:
        open_nodes = False
        for i in range(n):
            node = beam[i]
            if not is_end(tree, boxes, node):
                for side in (LEFT, RIGHT):
                    child = tree.table[node, side]
                    at = i if side == LEFT else n
                    if side == RIGHT:
                        n += 1
                    beam[at] = child
                    if is_end(tree, boxes, child):
                        gaps[at] = distance(boxes.points[x], boxes.points[child])
                    else:
                        gaps[at] = gap(tree, boxes, x, child)
                        open_nodes = True
        for i in range(1, n):
            node, d, j = beam[i], gaps[i], i
            while j > 0 and gaps[j - 1] > d:
                beam[j], gaps[j] = beam[j - 1], gaps[j - 1]
                j -= 1
            beam[j], gaps[j] = node, d
        n = min(n, width)
    for i in range(n):
        if is_end(tree, boxes, beam[i]):
            return beam[i]
    return NONE


# Collapsing ---------------------------------------------------------------------------------------------------------


@jitable
def add_end(boxes: Boxes, v: int) -> None:
    boxes.ends[boxes.counts[N_ENDS]] = v
    boxes.place[v] = boxes.counts[N_ENDS]
    boxes.counts[N_ENDS] += 1


@jitable
def drop_end(boxes: Boxes, v: int) -> None:
    """Remove an end from the list; the last one takes its place."""
    boxes.counts[N_ENDS] -= 1
    last = boxes.ends[boxes.counts[N_ENDS]]
    boxes.ends[boxes.place[v]] = last
    boxes.place[last] = boxes.place[v]


@jitable
def is_closer(tree: Links, boxes: Boxes, p: int, q: int) -> bool:
    """Return whether the two ends under p are closer than those under q, of equals the older."""
    of_p = reach(tree, boxes, tree.table[p, LEFT], tree.table[p, RIGHT])
    of_q = reach(tree, boxes, tree.table[q, LEFT], tree.table[q, RIGHT])
    return of_p < of_q or (of_p == of_q and p < q)


@jitable
def put_pair(boxes: Boxes, i: int, pair: int) -> None:
    boxes.pairs[i], boxes.pair_place[pair] = pair, i


@jitable
def note_pair(tree: Links, boxes: Boxes, p: int) -> None:
    """Take p out of the heap of pairs, and put it in if its children are two ends."""
    if p == NONE or boxes.pairs.shape[0] == 0:
        return
    pairs, offset = boxes.pairs, tree.head[OFFSET]
    n, i = pairs[0], boxes.pair_place[p - offset]
    if i > 0:
        # The last pair moves into the gap.
        last = pairs[n]
        boxes.pair_place[p - offset] = 0
        n -= 1
        if i <= n:
            sift_pair(tree, boxes, n, i, last)
    if not is_end(tree, boxes, p) and (
        is_end(tree, boxes, tree.table[p, LEFT]) and is_end(tree, boxes, tree.table[p, RIGHT])
    ):
        n += 1
        sift_pair(tree, boxes, n, n, p - offset)
    pairs[0] = n


@jitable
def sift_pair(tree: Links, boxes: Boxes, n: int, i: int, pair: int) -> None:
    """Put a pair where it belongs, up or down from entry i of a heap of n."""
    pairs, offset = boxes.pairs, tree.head[OFFSET]
    while i > 1 and is_closer(tree, boxes, offset + pair, offset + pairs[i // 2]):
        put_pair(boxes, i, pairs[i // 2])
        i //= 2
    while 2 * i <= n:
        child = 2 * i
        if child < n and is_closer(tree, boxes, offset + pairs[child + 1], offset + pairs[child]):
            child += 1
        if is_closer(tree, boxes, offset + pair, offset + pairs[child]):
            break
        put_pair(boxes, i, pairs[child])
        i = child
    put_pair(boxes, i, pair)


@jitable
def collapse_closest(tree: Links, boxes: Boxes) -> None:
    """Make one end of the two sibling ends that are closest, by the bound of the distances between them."""
    offset = tree.head[OFFSET]
    best = offset + boxes.pairs[1]
    left, right = tree.table[best, LEFT], tree.table[best, RIGHT]
    share = np.float32(tree.table[right, SIZE] / tree.table[best, SIZE])
    for i in range(boxes.points.shape[1]):
        boxes.points[best, i] = boxes.points[left, i] + share * (boxes.points[right, i] - boxes.points[left, i])
    drop_end(boxes, left)
    drop_end(boxes, right)
    boxes.collapsed[best - offset] = 1
    add_end(boxes, best)
    note_pair(tree, boxes, best)
    note_pair(tree, boxes, tree.table[best, PARENT])
    boxes.counts[COLLAPSES] += 1


# Insert -------------------------------------------------------------------------------------------------------------


@jitable
def insert(tree: Links, boxes: Boxes, rules: PerchRules, x: int, nearest: int) -> None:
    """Put point x beside its nearest neighbour (found here if the rules require it), rotate, and perhaps collapse."""
    if tree.head[LEAVES] == 0:
        attach_first(tree, x)
    else:
        if rules.beam_width > 0:
            nearest = beam_search(tree, boxes, x, rules.beam_width)
        elif rules.max_leaves > 0:
            nearest = nearest_end(boxes, x)
        p = tree.head[OFFSET] + x
        attach(tree, x, nearest, p)
        fit_box(tree, boxes, p)
        v = tree.table[p, PARENT]
        note_pair(tree, boxes, v)
        note_pair(tree, boxes, p)
        # A box that already holds the point is in boxes that do.
        while v != NONE:
            i = v - tree.head[OFFSET]
            if not stretch(boxes.low[i], boxes.high[i], boxes.points[x], boxes.points[x]):
                break
            v = tree.table[v, PARENT]
    if rules.max_leaves > 0:
        add_end(boxes, x)
    if tree.head[LEAVES] > 1:
        rotate_masked(tree, boxes, sibling(tree, x))
        if rules.balance:
            rotate_for_balance(tree, boxes, sibling(tree, x))
        if 0 < rules.max_leaves < boxes.counts[N_ENDS]:
            collapse_closest(tree, boxes)
