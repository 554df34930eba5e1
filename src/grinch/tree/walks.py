"""Passes over a whole tree, compiled and without recursion: a tree may be as deep as it has points.

``table`` is that of :class:`~grinch.tree.links.Links`; ``preorder`` has parents before children.
"""

from __future__ import annotations

import numpy as np

from grinch._compile import kernel
from grinch._types import Floats, Ids, Labels, Mask, Numbers
from grinch.tree.links import LEFT, PARENT, RIGHT


@kernel
def fill_preorder(table: Ids, root: int, offset: int, order: Ids) -> None:
    """Node ids, parents before children, left before right. Reversed, it is children before parents."""
    order[0] = root
    # The unread tail of `order` doubles as the stack: what waits there is written to its front later.
    top: int = order.shape[0]
    node, filled = root, 1
    while True:
        if node >= offset:
            top -= 1
            order[top] = table[node, RIGHT]
            node = table[node, LEFT]
        elif top < order.shape[0]:
            node = order[top]
            top += 1
        else:
            break
        order[filled] = node
        filled += 1


@kernel
def fill_sizes(table: Ids, preorder: Ids, offset: int, sizes: Numbers) -> None:
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        sizes[v] = 1 if v < offset else sizes[table[v, LEFT]] + sizes[table[v, RIGHT]]


@kernel
def sum_upward(table: Ids, preorder: Ids, offset: int, values: Numbers) -> None:
    """Add to each node what its children have, children before parents."""
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        if v >= offset:
            values[v] += values[table[v, LEFT]] + values[table[v, RIGHT]]


@kernel
def fill_depths(table: Ids, preorder: Ids, offset: int, depths: Ids) -> None:
    depths[preorder[0]] = 0
    for i in range(preorder.shape[0]):
        v = preorder[i]
        if v >= offset:
            depths[table[v, LEFT]] = depths[v] + 1
            depths[table[v, RIGHT]] = depths[v] + 1


@kernel
def max_upward(table: Ids, preorder: Ids, offset: int, values: Floats) -> None:
    """Raise each node to the greater of its children, children before parents."""
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        if v >= offset:
            values[v] = max(values[v], values[table[v, LEFT]], values[table[v, RIGHT]])


@kernel
def fill_levels(table: Ids, preorder: Ids, offset: int, heights: Floats) -> None:
    """Height in edges, for a tree without scores."""
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        heights[v] = 0.0 if v < offset else 1.0 + max(heights[table[v, LEFT]], heights[table[v, RIGHT]])


@kernel
def fill_labels(table: Ids, preorder: Ids, is_split: Mask, labels: Labels) -> int:
    """Number the subtrees left when, from the top, nodes in ``is_split`` are split; ``labels`` starts out as -1."""
    n_labels = 0
    for i in range(preorder.shape[0]):
        v = preorder[i]
        p = table[v, PARENT]
        if i > 0 and labels[p] >= 0:
            labels[v] = labels[p]
        elif not is_split[v]:
            labels[v] = n_labels
            n_labels += 1
    return n_labels


@kernel
def fill_gaps(table: Ids, preorder: Ids, offset: int, leaves: Ids, gaps: Ids) -> None:
    """Leaves from left to right, and between each two neighbours their lowest common ancestor."""
    n = 0
    for i in range(preorder.shape[0]):
        v = preorder[i]
        if v < offset:
            leaves[n] = v
            n += 1
    for i in range(n - 1):
        v = leaves[i]
        while table[table[v, PARENT], LEFT] != v:
            v = table[v, PARENT]
        gaps[i] = table[v, PARENT]


def no_nodes(n: int) -> Ids:
    """Room for ``n`` node ids."""
    return np.empty(n, dtype=np.int32)
