"""PERCH (Kobren, Monath et al., KDD 2017): insert beside the nearest neighbour, then rotate where a node is masked.

A node v is *masked* if one of its leaves has a leaf of its aunt nearer than some leaf of its sibling; a rotation then
makes v and its aunt siblings. Bounding boxes decide most cases: they give true bounds of the distances between two
nodes. What they leave open is looked at leaf by leaf, for up to as many leaves of each node as the sample holds: all of
them in small nodes, so the answer is exact there; of large ones a spread of them, and then a node counts as masked only
if a leaf proves it. On data where every point is closer to its own cluster than to any other, any leaf is a proof, so
no size of node costs purity.

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
    ``low`` and ``high``, the corners of its box; ``witness``, one of its leaves; ``collapsed``. ``ends`` are the nodes
    that count as leaves, ``place`` where each of them stands there. ``sample`` is scratch space for leaves of three
    nodes, ``beam`` and ``gaps`` for the search.
    """

    points: Vectors32
    low: Vectors32
    high: Vectors32
    witness: Ids
    collapsed: npt.NDArray[np.uint8]
    ends: Ids
    place: Ids
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
    offset = tree.head[OFFSET]
    if u >= offset and v >= offset:
        i, j = u - offset, v - offset
        return box_gap(boxes.low[i], boxes.high[i], boxes.low[j], boxes.high[j])
    if u >= offset:
        u, v = v, u
    if v < offset:
        return distance(boxes.points[u], boxes.points[v])
    return box_gap(boxes.points[u], boxes.points[u], boxes.low[v - offset], boxes.high[v - offset])


@jitable
def reach(tree: Links, boxes: Boxes, u: int, v: int) -> float:
    """Return an upper bound of the distance of leaves of u and v."""
    offset = tree.head[OFFSET]
    if u >= offset and v >= offset:
        i, j = u - offset, v - offset
        return box_reach(boxes.low[i], boxes.high[i], boxes.low[j], boxes.high[j])
    if u >= offset:
        u, v = v, u
    if v < offset:
        return distance(boxes.points[u], boxes.points[v])
    return box_reach(boxes.points[u], boxes.points[u], boxes.low[v - offset], boxes.high[v - offset])


@jitable
def is_end(tree: Links, boxes: Boxes, v: int) -> bool:
    """Return whether v counts as a leaf: it is one, or was collapsed into one."""
    return v < tree.head[OFFSET] or boxes.collapsed[v - tree.head[OFFSET]] == 1


@jitable
def fit_box(tree: Links, boxes: Boxes, p: int) -> None:
    """Make p's box, and its witness, from its children."""
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
    boxes.witness[i] = witness_of(tree, boxes, left)


@jitable
def witness_of(tree: Links, boxes: Boxes, v: int) -> int:
    """Return a leaf under v, or v itself if it is an end."""
    return v if is_end(tree, boxes, v) else boxes.witness[v - tree.head[OFFSET]]


NOT_MASKED, MASKED, UNPROVEN = 0, 1, 2


class PerchRules(NamedTuple):
    """Whether to rotate for balance, the most leaves before some are collapsed (0: no limit), and how to search."""

    balance: bool
    max_leaves: int
    beam_width: int


# Masking ------------------------------------------------------------------------------------------------------------


@jitable
def spread_of_ends(tree: Links, boxes: Boxes, v: int, out: Ids) -> int:
    """Ends under v, as many as ``out`` has room for, from all over the subtree: how many, negative if not all."""
    out[0], n, grew = v, 1, True
    while grew and n < out.shape[0]:
        grew = False
        for i in range(n):
            if n < out.shape[0] and not is_end(tree, boxes, out[i]):
                node = out[i]
                out[i], out[n] = tree.table[node, LEFT], tree.table[node, RIGHT]
                n += 1
                grew = True
    whole = True
    for i in range(n):
        if not is_end(tree, boxes, out[i]):
            whole = False
            out[i] = witness_of(tree, boxes, out[i])
    return n if whole else -n


@jitable
def is_masked(tree: Links, boxes: Boxes, v: int, sib: int, aunt: int) -> int:
    """Return whether some leaf of v is farther from a leaf of ``sib`` than from one of ``aunt``."""
    if reach(tree, boxes, v, sib) <= gap(tree, boxes, v, aunt):
        return NOT_MASKED
    if gap(tree, boxes, v, sib) > reach(tree, boxes, v, aunt):
        return MASKED
    own, near, far = boxes.sample[0], boxes.sample[1], boxes.sample[2]
    n_own, n_far = spread_of_ends(tree, boxes, v, own), spread_of_ends(tree, boxes, sib, far)
    n_near = spread_of_ends(tree, boxes, aunt, near)
    for i in range(abs(n_own)):
        x = boxes.points[own[i]]
        nearest = np.inf
        for j in range(abs(n_near)):
            nearest = min(nearest, distance(x, boxes.points[near[j]]))
        for j in range(abs(n_far)):
            if distance(x, boxes.points[far[j]]) > nearest:
                return MASKED
    return NOT_MASKED if min(n_own, n_near, n_far) > 0 else UNPROVEN


@jitable
def rotate(tree: Links, boxes: Boxes, v: int) -> None:
    """Swap v's sibling and its aunt; only v's parent holds other leaves than before."""
    p = tree.table[v, PARENT]
    swap(tree, sibling(tree, v), sibling(tree, p))
    fit_box(tree, boxes, p)


@jitable
def rotate_masked(tree: Links, boxes: Boxes, v: int) -> None:
    """Rotate from v upward as long as the node is masked."""
    p = tree.table[v, PARENT]
    while p != NONE and tree.table[p, PARENT] != NONE:
        if is_masked(tree, boxes, v, sibling(tree, v), sibling(tree, p)) != MASKED:
            break
        rotate(tree, boxes, v)
        boxes.counts[ROTATIONS] += 1
        v = p
        p = tree.table[v, PARENT]


@jitable
def rotate_for_balance(tree: Links, boxes: Boxes, v: int) -> None:
    """Rotate, from v to the root, where that lifts more leaves than it lowers and masks nothing.

    Of a node and its sibling, the larger one may change places with the aunt.
    """
    p = tree.table[v, PARENT]
    while p != NONE and tree.table[p, PARENT] != NONE:
        heavy, aunt = sibling(tree, v), sibling(tree, p)
        light = v
        if tree.table[light, SIZE] > tree.table[heavy, SIZE]:
            light, heavy = heavy, light
        if (
            tree.table[heavy, SIZE] > tree.table[aunt, SIZE]
            and is_masked(tree, boxes, light, aunt, heavy) != MASKED
            and is_masked(tree, boxes, aunt, light, heavy) != MASKED
        ):
            rotate(tree, boxes, light)
            boxes.counts[BALANCE_ROTATIONS] += 1
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
def collapse_closest(tree: Links, boxes: Boxes) -> None:
    """Make one end of the two sibling ends whose common box is smallest."""
    offset, best, least = tree.head[OFFSET], NONE, np.inf
    for i in range(boxes.counts[N_ENDS]):
        v = boxes.ends[i]
        p = tree.table[v, PARENT]
        if tree.table[p, LEFT] == v and is_end(tree, boxes, tree.table[p, RIGHT]):
            size = distance(boxes.low[p - offset], boxes.high[p - offset])
            if size < least:
                best, least = p, size
    left, right = tree.table[best, LEFT], tree.table[best, RIGHT]
    share = np.float32(tree.table[right, SIZE] / tree.table[best, SIZE])
    for i in range(boxes.points.shape[1]):
        boxes.points[best, i] = boxes.points[left, i] + share * (boxes.points[right, i] - boxes.points[left, i])
    drop_end(boxes, left)
    drop_end(boxes, right)
    boxes.collapsed[best - offset] = 1
    add_end(boxes, best)
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
            rotate_for_balance(tree, boxes, x)
        if 0 < rules.max_leaves < boxes.counts[N_ENDS]:
            collapse_closest(tree, boxes)
