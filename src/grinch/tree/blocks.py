"""The visible part of a tree at a zoom level: its leaves from left to right, and the blocks of an icicle.

The larger child is on the left, so the points under a node are a range of places, and the heavy path down from a node
ends at the first of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._compile import kernel
from grinch._types import Floats, Ids, Labels, Mask
from grinch.tree.tree import Tree

# A split whose smaller side has less than this share of its points is no row of its own: the smaller side is drawn
# beside what the larger one is split into. A tree that loses a few points at a time would have too many rows.
SHARE = 1 / 8
MAX_BLOCKS = 20_000


class Display(NamedTuple):
    """The layout of a tree from left to right: by node id, its first place; by place, the leaf."""

    starts: Ids
    order: Ids


class Blocks(NamedTuple):
    """Blocks of an icicle, parents before children.

    ``nodes``: the node of each block; ``parents``: which of the blocks it is under, -1 for the first; ``rows``;
    ``ends``: the lowest node that has the same points, but for those that left, or -1 where nothing inside is seen.
    """

    nodes: Ids
    parents: Ids
    rows: Ids
    ends: Ids


def display(tree: Tree) -> Display:
    """Put the leaves of a tree in order, larger children first.

    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> display(tree).order.tolist()
    [0, 1, 2]
    """
    starts, order = np.zeros(tree.n_ids, np.int32), np.empty(tree.n_leaves, np.int32)
    _fill_display(tree.preorder(), tree.child_pairs(), tree.sizes(), tree.offset, starts, order)
    return Display(starts, order)


@kernel
def _fill_display(preorder: Ids, children: Ids, sizes: Ids, offset: int, starts: Ids, order: Ids) -> None:
    for i in range(preorder.shape[0]):
        v = preorder[i]
        if v < offset:
            order[starts[v]] = v
            continue
        big, small = children[v, 0], children[v, 1]
        if sizes[big] < sizes[small]:
            big, small = small, big
        starts[big] = starts[v]
        starts[small] = starts[v] + sizes[big]


def hues(tree: Tree, starts: Ids) -> Floats:
    """Return by node a number from 0 to 1 for its hue: the middle of its part of its parent's range.

    A child's part grows with its size to the power of 3/4, so that small groups are seen beside large ones.

    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> hues(tree, display(tree).starts).round(2).tolist()
    [0.16, 0.47, 0.81, 0.0, 0.31, 0.5]
    """
    ranges = np.zeros((tree.n_ids, 2))
    ranges[tree.root if tree.n_leaves else slice(0), 1] = 1.0
    _fill_ranges(tree.preorder(), tree.child_pairs(), tree.sizes(), starts, tree.offset, ranges)
    middles: Floats = ranges.mean(axis=1)
    return middles


@kernel
def _fill_ranges(preorder: Ids, children: Ids, sizes: Ids, starts: Ids, offset: int, ranges: Floats) -> None:
    for i in range(preorder.shape[0]):
        v = preorder[i]
        if v >= offset:
            left, right = children[v, 0], children[v, 1]
            if starts[left] > starts[right]:
                left, right = right, left
            low, high = ranges[v, 0], ranges[v, 1]
            a, b = sizes[left] ** 0.75, sizes[right] ** 0.75
            between = low + (high - low) * a / (a + b)
            ranges[left, 0], ranges[left, 1] = low, between
            ranges[right, 0], ranges[right, 1] = between, high


def blocks(
    tree: Tree, starts: Ids, x0: int, x1: int, least: int, is_kept: Mask | None = None, max_rows: int = 64
) -> Blocks:
    """Return the blocks of an icicle of the places from ``x0`` to ``x1``.

    The first block is that of the lowest node over all of them. A split counts if its smaller side has at least
    ``least`` points; what leaves a node a few points at a time is a gap. Nodes in ``is_kept``, such as the clusters of
    a cut, begin a block of their own if they have that many, under a parent of at least twice as many. There are at
    most ``max_rows`` rows, and ``MAX_BLOCKS`` blocks.

    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> found = blocks(tree, display(tree).starts, 0, 3, least=1)
    >>> found.nodes.tolist() == [tree.root, tree.lca(0, 1), 0, 1, 2], found.rows.tolist()
    (True, [0, 1, 2, 2, 1])
    """
    if is_kept is None:
        is_kept = np.zeros(tree.n_ids, np.bool_)
    room = np.empty((MAX_BLOCKS, 4), np.int32)
    waiting = np.empty((MAX_BLOCKS, 3), np.int32)
    first = covering(tree, starts, x0, x1)
    children, sizes = tree.child_pairs(), tree.sizes()
    count = _fill_blocks(
        children, sizes, starts, tree.offset, is_kept, first, x0, x1, max(least, 1), SHARE, max_rows, waiting, room
    )
    return Blocks(*room[:count].T.copy())


def covering(tree: Tree, starts: Ids, x0: int, x1: int) -> int:
    """Return the lowest node over the places from ``x0`` to ``x1``."""
    return int(_covering(tree.child_pairs(), tree.sizes(), starts, tree.offset, tree.root, x0, max(x1, x0 + 1)))


@kernel
def _covering(children: Ids, sizes: Ids, starts: Ids, offset: int, root: int, x0: int, x1: int) -> int:
    v = root
    while v >= offset:
        left, right = children[v, 0], children[v, 1]
        if starts[left] <= x0 and x1 <= starts[left] + sizes[left]:
            v = left
        elif starts[right] <= x0 and x1 <= starts[right] + sizes[right]:
            v = right
        else:
            break
    return v


@kernel
def _fill_blocks(
    children: Ids,
    sizes: Ids,
    starts: Ids,
    offset: int,
    is_kept: Mask,
    first: int,
    x0: int,
    x1: int,
    least: int,
    share: float,
    max_rows: int,
    waiting: Ids,
    found: Ids,
) -> int:
    count, top, most = 0, 1, waiting.shape[0]
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = first, 0, -1
    while top > 0 and count < found.shape[0]:
        top -= 1
        node, row, parent = waiting[top, 0], waiting[top, 1], waiting[top, 2]
        found[count, 0], found[count, 1], found[count, 2], found[count, 3] = node, parent, row, -1
        v, begin, left_over = node, top, -1
        # Down the larger side, to the split that makes the next row; below twice the least size there is none.
        while v >= offset and sizes[v] >= 2 * least:
            big, small = children[v, 0], children[v, 1]
            if sizes[big] < sizes[small]:
                big, small = small, big
            if sizes[small] >= least:
                if top < most and starts[small] < x1 and starts[small] + sizes[small] > x0:
                    waiting[top, 0], waiting[top, 1], waiting[top, 2] = small, row + 1, count
                    top += 1
                left_over, found[count, 3] = big, v
                if sizes[small] >= share * sizes[v]:
                    break
            if is_kept[big]:
                left_over, found[count, 3] = big, v
                break
            v = big
        if left_over >= 0 and top < most and starts[left_over] < x1 and starts[left_over] + sizes[left_over] > x0:
            waiting[top, 0], waiting[top, 1], waiting[top, 2] = left_over, row + 1, count
            top += 1
        if row + 1 >= max_rows:
            top, found[count, 3] = begin, -1
        count += 1
    return count


def commonest(tree: Tree, shown: Display, codes: Labels, n_codes: int) -> tuple[Ids, Ids]:
    """Return, by node id, the commonest code of its leaves and how many have it; -1 and 0 where no leaf has one.

    ``codes`` are by leaf, -1 for none. Every heavy path is counted once, from its leaf upwards: O(n log n).

    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> codes, counts = commonest(tree, display(tree), np.array([4, 4, 2]), 5)
    >>> int(codes[tree.root]), int(counts[tree.root])
    (4, 2)
    """
    best, counts = np.full(tree.n_ids, -1, np.int32), np.zeros(tree.n_ids, np.int32)
    at_place = np.ascontiguousarray(codes[shown.order]).astype(np.int64)
    tally = np.zeros(max(n_codes, 1), np.int64)
    _fill_commonest(tree.parents(), tree.sizes(), shown.starts, shown.order, at_place, tally, best, counts)
    return best, counts


@kernel
def _fill_commonest(
    parents: Ids, sizes: Ids, starts: Ids, order: Ids, codes: Labels, tally: Labels, best: Ids, counts: Ids
) -> None:
    for place in range(order.shape[0]):
        v, winner, most, end = order[place], -1, 0, place
        while True:
            for i in range(end, place + sizes[v]):
                code = codes[i]
                if code >= 0:
                    tally[code] += 1
                    if tally[code] > most:
                        winner, most = code, tally[code]
            end = place + sizes[v]
            best[v], counts[v] = winner, most
            above = parents[v]
            if above < 0 or starts[above] != place:
                break
            v = above
        for i in range(place, end):
            if codes[i] >= 0:
                tally[codes[i]] = 0


def nodes_above(tree: Tree, leaves: Ids) -> tuple[Ids, Ids]:
    """Return the nodes at and above some leaves, and how many of the leaves are under each.

    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> nodes, counts = nodes_above(tree, np.array([1, 2], np.int32))
    >>> dict(zip(nodes.tolist(), counts.tolist())) == {1: 1, tree.lca(0, 1): 1, tree.root: 2, 2: 1}
    True
    """
    tally, found = np.zeros(tree.n_ids, np.int32), np.empty(tree.n_ids, np.int32)
    nodes = found[: _fill_above(tree.parents(), leaves, tally, found)]
    return nodes, tally[nodes]


@kernel
def _fill_above(parents: Ids, leaves: Ids, tally: Ids, found: Ids) -> int:
    count = 0
    for i in range(leaves.shape[0]):
        v = leaves[i]
        while v >= 0:
            if tally[v] == 0:
                found[count] = v
                count += 1
            tally[v] += 1
            v = parents[v]
    return count
