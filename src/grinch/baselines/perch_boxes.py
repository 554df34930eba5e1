"""What PERCH keeps for each node: a bounding box, a witness, and whether it was collapsed.

All distances are squared. Plain Python over arrays, compiled when it is called from compiled code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._compile import jitable, kernel
from grinch._types import Floats, Ids, Vectors32
from grinch.tree.links import LEFT, OFFSET, RIGHT, Links

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
    """No two points of the boxes are nearer than this."""
    total = 0.0
    for i in range(low_a.shape[0]):
        step = max(np.float64(low_a[i]) - np.float64(high_b[i]), np.float64(low_b[i]) - np.float64(high_a[i]), 0.0)
        total += step * step
    return total


@kernel
def box_reach(low_a: Vectors32, high_a: Vectors32, low_b: Vectors32, high_b: Vectors32) -> float:
    """No two points of the boxes are farther apart than this."""
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
    """No two leaves of u and v are nearer than this."""
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
    """No two leaves of u and v are farther apart than this."""
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
    """Whether v counts as a leaf: it is one, or was collapsed into one."""
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
    """A leaf under v, or v itself if it is an end."""
    return v if is_end(tree, boxes, v) else boxes.witness[v - tree.head[OFFSET]]
