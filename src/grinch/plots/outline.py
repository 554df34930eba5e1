"""The branches of a tree that a picture shows: splits into two groups of some size, and what they lead to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._checks import check_count
from grinch._types import Floats, Ids
from grinch.cuts.sizeable import sizeable_splits
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


def outline(tree: Tree, n_branches: int, min_size: int | None = None) -> list[Branch]:
    """The branches after at most ``n_branches - 1`` splits, parents before children, larger sides first.

    Splits whose smaller side is largest are drawn, unless it has fewer than ``min_size`` points. Where two splits meet,
    both sides are larger still: so nothing is missing between what is drawn.

    >>> from scipy.cluster.hierarchy import linkage
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [7.5], [99.0]]))
    >>> [tree.size(branch.node) for branch in outline(tree, 2)], outline(tree, 2)[0].folded
    ([5, 2, 2], 1)
    """
    least = default_size(tree.n_leaves) if min_size is None else check_count("min_size", min_size, 1)
    splits = sizeable_splits(tree, _least(tree, n_branches, least))
    split_at = dict(zip(splits.tops[: n_branches - 1].tolist(), splits.nodes[: n_branches - 1].tolist(), strict=True))
    children, sizes = tree.child_pairs(), tree.sizes()
    found: list[Branch] = []
    above: list[int] = []
    waiting = [(tree.root, -1)]
    while waiting:
        node, parent = waiting.pop()
        split = split_at.get(node, -1)
        found.append(Branch(node, split, (), int(sizes[node] - sizes[split]) if split >= 0 else 0))
        above.append(parent)
        if split >= 0:
            small, large = sorted(children[split].tolist(), key=lambda v: int(sizes[v]))
            waiting += [(small, len(found) - 1), (large, len(found) - 1)]
    parts: list[list[int]] = [[] for _ in found]
    for i, parent in enumerate(above[1:], 1):
        parts[parent].append(i)
    return [branch._replace(parts=tuple(own)) for branch, own in zip(found, parts, strict=True)]


def default_size(n: int) -> int:
    """The fewest points of a group worth a name: 5, or a twentieth of few points, or a five-hundredth of many."""
    return max(min(5, n // 20), -(-n // 500), 1)


def _least(tree: Tree, n_branches: int, least: int) -> int:
    """The size from which there are about as many splits as are wanted."""
    internal = tree.internal_nodes()
    smaller = tree.sizes()[tree.child_pairs()[internal]].min(axis=1, initial=tree.n_leaves)
    if n_branches == 1:
        return tree.n_leaves + 1
    if n_branches > len(smaller):
        return least
    return max(least, int(np.partition(smaller, -(n_branches - 1))[-(n_branches - 1)]))


def in_order(branches: list[Branch], sizes: Ids, distances: Floats | None = None) -> list[int]:
    """The last branches from top to bottom: the larger side of each split first, or what is alike side by side.

    ``sizes`` are by node; ``distances`` are those of any two last branches, by their places in the list. Every split,
    the lowest first, turns its sides so that their nearest ends face each other (Gruvaeus and Wainer, 1972).
    """
    orders: list[list[int]] = [[] for _ in branches]
    for i in range(len(branches) - 1, -1, -1):
        parts = [orders[part] for part in branches[i].parts]
        if not parts:
            orders[i] = [i]
        elif distances is None:
            orders[i] = parts[0] + parts[1]
        else:
            orders[i] = _facing(*parts, distances)
    return orders[0] if distances is None else _heavy_end_first(orders[0], branches, sizes)


def _facing(first: list[int], second: list[int], distances: Floats) -> list[int]:
    """Both lists as one, each turned over or not, with the least distance where they meet."""
    turned = [(a, b) for a in (first, first[::-1]) for b in (second, second[::-1])]
    a, b = min(turned, key=lambda pair: float(distances[pair[0][-1], pair[1][0]]))
    return a + b


def _heavy_end_first(order: list[int], branches: list[Branch], sizes: Ids) -> list[int]:
    weights = sizes[[branches[i].node for i in order]] * (np.arange(len(order)) - (len(order) - 1) / 2)
    return order if weights.sum() <= 0 else order[::-1]
