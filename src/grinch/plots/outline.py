"""The branches of a tree that a picture shows: splits into two groups of some size, and what they lead to."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from grinch._checks import check_count
from grinch._types import Floats, Ids
from grinch.tree import Tree


class Branch(NamedTuple):
    """A line of the picture: from its node down to where it is split, or to its end.

    ``node``: all its points are under this one. ``split``: where it is split into ``parts`` (places in the list of
    branches), or -1 for a last one. ``folded``: how many points leave on the way down, too few at a time to be drawn.
    """

    node: int
    split: int
    parts: tuple[int, ...]
    folded: int


def outline(tree: Tree, starts: Ids, heights: Floats, n_branches: int, min_size: int | None = None) -> list[Branch]:
    """The branches after at most ``n_branches - 1`` splits, parents before children, larger sides first.

    Splits whose smaller side is largest are drawn, the highest among equals, unless it has fewer than ``min_size``
    points. Where two of them meet, both sides are larger still, so that split is drawn, too. ``starts`` are those of
    :func:`~grinch.tree.blocks.display`, ``heights`` those of the tree.

    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch.tree.blocks import display
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [7.5], [99.0]]))
    >>> branches = outline(tree, display(tree).starts, tree.heights(), 2)
    >>> [tree.size(branch.node) for branch in branches], branches[0].folded
    ([5, 2, 2], 1)
    """
    least = default_size(tree.n_leaves) if min_size is None else check_count("min_size", min_size, 1)
    sizes, children = tree.sizes(), tree.child_pairs()
    # What is under a node are those that start in its range, the larger first: the first of them is the highest.
    splits = sorted(
        (int(starts[v]), -int(sizes[v]), v) for v in _largest_splits(tree, heights, n_branches - 1, least).tolist()
    )
    found, above, waiting = list[Branch](), list[int](), [(tree.root, -1)]
    while waiting:
        node, parent = waiting.pop()
        i = bisect_left(splits, (int(starts[node]), -int(sizes[node]), -1))
        is_split = i < len(splits) and splits[i][0] < starts[node] + sizes[node]
        split = splits[i][2] if is_split else -1
        found.append(Branch(node, split, (), int(sizes[node] - sizes[split]) if is_split else 0))
        above.append(parent)
        if is_split:
            small, large = sorted(children[split].tolist(), key=lambda v: int(sizes[v]))
            waiting += [(small, len(found) - 1), (large, len(found) - 1)]
    parts: list[list[int]] = [[] for _ in found]
    for i, parent in enumerate(above[1:], 1):
        parts[parent].append(i)
    return [branch._replace(parts=tuple(own)) for branch, own in zip(found, parts, strict=True)]


def default_size(n: int) -> int:
    """The fewest points of a group worth a name: 5, or a twentieth of few points, or a five-hundredth of many."""
    return max(min(5, n // 20), -(-n // 500), 1)


def _largest_splits(tree: Tree, heights: Floats, count: int, least: int) -> Ids:
    """The internal nodes whose smaller sides are largest, the highest among equals."""
    internal = np.arange(tree.offset + 1, tree.offset + tree.n_leaves, dtype=np.int32)
    sides = tree.sizes()[tree.child_pairs()[internal]]
    smaller = np.minimum(sides[:, 0], sides[:, 1])
    if 0 < count < len(smaller):
        least = max(least, int(np.partition(smaller, -count)[-count]))
    larger, equal = internal[smaller > least][:count], internal[smaller == least]
    highest = equal[np.argsort(-heights[equal], kind="stable")]
    return np.concatenate([larger, highest[: count - len(larger)]])


def in_order(branches: list[Branch], sizes: Ids, distances: Floats | None = None) -> list[int]:
    """The last branches from top to bottom: the larger side of each split first, or what is alike side by side.

    ``sizes`` are by node; ``distances`` are those of any two last branches, by their places in the list. Every split,
    the lowest first, turns its sides so that their nearest ends face each other (Gruvaeus and Wainer, 1972).
    """
    orders: list[list[int]] = [[] for _ in branches]
    for i in range(len(branches) - 1, -1, -1):
        if not branches[i].parts:
            orders[i] = [i]
            continue
        first, second = (orders[part] for part in branches[i].parts)
        orders[i] = first + second if distances is None else _facing(first, second, distances)
    return orders[0] if distances is None else _heavy_end_first(orders[0], branches, sizes)


def _facing(first: list[int], second: list[int], distances: Floats) -> list[int]:
    """Both lists as one, each turned over or not, with the least distance where they meet."""
    turned = [(a, b) for a in (first, first[::-1]) for b in (second, second[::-1])]
    a, b = min(turned, key=lambda pair: float(distances[pair[0][-1], pair[1][0]]))
    return a + b


def _heavy_end_first(order: list[int], branches: list[Branch], sizes: Ids) -> list[int]:
    weights = sizes[[branches[i].node for i in order]] * (np.arange(len(order)) - (len(order) - 1) / 2)
    return order if weights.sum() <= 0 else order[::-1]
