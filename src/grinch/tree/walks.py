"""Passes over a whole tree, compiled and without recursion: a tree may be as deep as it has points."""

from __future__ import annotations

import numpy as np

from grinch._compile import kernel
from grinch.tree.links import LEFT, PARENT, RIGHT


@kernel
def fill_preorder(table, root, offset, order):
    """Node ids, parents before children, left before right. Reversed, it is children before parents."""
    order[0] = root
    # The unread tail of `order` doubles as the stack: what waits there is written to its front later.
    top = order.shape[0]
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
def fill_sizes(table, preorder, offset, sizes):
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        sizes[v] = 1 if v < offset else sizes[table[v, LEFT]] + sizes[table[v, RIGHT]]


@kernel
def sum_upward(table, preorder, offset, values):
    """Add to each node what its children have, children before parents."""
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        if v >= offset:
            values[v] += values[table[v, LEFT]] + values[table[v, RIGHT]]


@kernel
def fill_depths(table, preorder, offset, depths):
    depths[preorder[0]] = 0
    for i in range(preorder.shape[0]):
        v = preorder[i]
        if v >= offset:
            depths[table[v, LEFT]] = depths[v] + 1
            depths[table[v, RIGHT]] = depths[v] + 1


@kernel
def raise_to_children(table, preorder, offset, heights):
    """Make heights monotone: no node lower than its children."""
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        if v >= offset:
            heights[v] = max(heights[v], heights[table[v, LEFT]], heights[table[v, RIGHT]])


@kernel
def fill_levels(table, preorder, offset, heights):
    """Height in edges, for a tree whose scores nobody knows."""
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        heights[v] = 0.0 if v < offset else 1.0 + max(heights[table[v, LEFT]], heights[table[v, RIGHT]])


@kernel
def fill_labels(table, preorder, is_split, labels):
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
def fill_gaps(table, preorder, offset, leaves, gaps):
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


def no_nodes(n: int) -> np.ndarray:
    return np.empty(n, dtype=np.int32)
