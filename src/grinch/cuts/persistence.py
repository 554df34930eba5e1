"""Measures of nodes as clusters: their persistence over resolutions and heights, and their isolation in a graph.

At a resolution g, the best cut is the one with the largest modularity, Σ over clusters of (share of the edges inside) -
g · (share of the edge ends)². It is a sum over clusters, so one pass from the leaves up finds the best of all cuts of a
tree. As g grows clusters only ever divide: what gains by being split at one resolution gains more at the next. So each
node is a cluster from one resolution on, when the last of its ancestors is split, until it is split itself.

By height it is the same: a node is a cluster from the height of its parent down to its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._compile import kernel
from grinch._types import Floats, Ids, Mask
from grinch._vectors import ROUNDING, check_vectors, columns, scaled, squared_lengths, unit_scale
from grinch.cuts.graph import NeighborGraph
from grinch.tree import NONE, Tree
from grinch.tree.lca import products_across

# From where only what has hardly an edge in common is split, to where few nodes are left whole.
RESOLUTIONS = np.logspace(-3, 4, 169)
# Lives by height are measured between distances (which see what is close) and their squares (which see what is apart).
HEIGHT_POWER = 0.75
# Points whose edges are looked at together: an edge takes some 60 bytes meanwhile.
TOGETHER = 1 << 18


class Family(NamedTuple):
    """Nested cuts of a tree, coarse to fine, in steps: nodes are clusters from ``born`` until before ``split``.

    By node id; ``life`` is how long that is (0 for points, copies of one and the root, which say nothing). A node whose
    parent is split later than itself is never a cluster: ``born`` is then not before ``split``.
    """

    born: Ids
    split: Ids
    life: Floats
    n_steps: int

    def is_split(self, step: int) -> Mask:
        """Return, by node id, whether the cut of this step goes through it."""
        return np.asarray((self.born <= step) & (self.split <= step))

    def totals(self, values: Floats) -> Floats:
        """Return, by step, the sum of these values of nodes over the clusters of its cut."""
        return totals_by_step(self.born, self.split, values, self.n_steps)[: self.n_steps]


def totals_by_step(begin: npt.NDArray[Any], end: npt.NDArray[Any], values: Floats, n_steps: int) -> Floats:
    """Return, by step, the sum of the values of nodes that are clusters from step ``begin`` until before ``end``."""
    is_ever = begin < end
    begins = np.bincount(begin[is_ever], values[is_ever], n_steps + 1)
    ends = np.bincount(end[is_ever], values[is_ever], n_steps + 1)
    return np.asarray(np.cumsum(begins - ends), np.float64)


class Edges(NamedTuple):
    """By node id, the weight of the edges with both ends under a node, and of all edge ends under it."""

    inside: Floats
    ends: Floats

    def shares(self) -> Floats:
        """Return, by node id, which share of the edges of its points stays inside; 0 without any."""
        return np.divide(2 * self.inside, self.ends, out=np.zeros(len(self.ends)), where=self.ends > 0)


def edges_under(tree: Tree, graph: NeighborGraph) -> Edges:
    """Return the edges of a graph of the points, by node of the tree."""
    inside, ends = np.zeros(tree.n_ids), np.zeros(tree.n_ids)
    for first in range(0, len(graph.near), TOGETHER):
        near, weighed = graph.near[first : first + TOGETHER], graph.weights[first : first + TOGETHER]
        points, places = np.nonzero(near != NONE)
        others, weights = near[points, places], weighed[points, places].astype(np.float64)
        points += first
        inside += np.bincount(tree.common_ancestors(points, others), weights, tree.n_ids)
        ends += np.bincount(points, weights, tree.n_ids) + np.bincount(others, weights, tree.n_ids)
    return Edges(tree.sum_upward(inside), tree.sum_upward(ends))


def by_resolution(tree: Tree, edges: Edges, heights: Floats) -> Family:
    """Return the best cuts by modularity at each of ``RESOLUTIONS``; lives are in decades. Copies stay together."""
    total = edges.inside[tree.root] or 1.0
    split = np.full(tree.n_ids, len(RESOLUTIONS), np.int32)
    nodes, children = tree.internal_nodes(), tree.child_pairs()
    inside, shares = edges.inside / total, (edges.ends / (2 * total)) ** 2
    _fill_splits(nodes, children, tree.offset, inside, shares, heights, split, np.zeros(tree.n_ids))
    return _family(tree, split, heights, np.log10(np.append(RESOLUTIONS, RESOLUTIONS[-1])))


def by_height(tree: Tree, heights: Floats) -> Family:
    """Return the cuts at all heights, a step for each height of a node above 0: copies stay together.

    ``heights`` are squared distances or the like, none below 0, and must not fall towards the root.
    """
    apart = tree.internal_nodes()
    apart = apart[heights[apart] > 0]
    levels, place = np.unique(-heights[apart], return_inverse=True)
    split = np.full(tree.n_ids, len(levels), np.int32)
    split[apart] = place
    return _family(tree, split, heights, np.append(-((-levels) ** HEIGHT_POWER), 0.0))


def mean_gaps(tree: Tree, vectors: Any, metric: str = "cosine") -> Floats:
    """Return, by node id, the mean squared distance of points under its two children, or a greater one from below.

    By cosine, of the directions; O(n d) time, and O(n) memory beside the vectors; of sparse vectors with z entries,
    O(z log n) and O(z).

    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> mean_gaps(tree, [[0.0], [1.0], [5.0]], "euclidean")[tree.root].tolist()
    20.5
    """
    matrix = check_vectors(vectors, tree.n_leaves)
    scale = unit_scale(matrix) if metric == "cosine" else np.ones(tree.n_leaves)
    if scipy.sparse.issparse(matrix):
        return tree.max_upward(_sparse_gaps(tree, scaled(matrix, scale)))
    sizes, mean, spread = tree.sizes().astype(np.float64), np.empty(tree.n_ids), np.zeros(tree.n_ids)
    nodes, children = tree.internal_nodes(), tree.child_pairs()
    for column in columns(matrix):
        mean[: len(column)] = column * scale
        add_spread_between(nodes, children, sizes, mean, spread)
    left, right = children[nodes].T
    within = tree.sum_upward(spread) / np.maximum(sizes, 1)
    gaps = np.zeros(tree.n_ids)
    gaps[nodes] = spread[nodes] * sizes[nodes] / (sizes[left] * sizes[right]) + within[left] + within[right]
    return tree.max_upward(gaps)


def _sparse_gaps(tree: Tree, matrix: Any) -> Floats:
    """Return Q_A / n_A + Q_B / n_B - 2 S_A·S_B / (n_A n_B) by node id; Q: squared lengths, S: sum of a side."""
    nodes, sizes = tree.internal_nodes(), tree.sizes().astype(np.float64)
    left, right = tree.child_pairs()[nodes].T
    squares = np.zeros(tree.n_ids)
    squares[: tree.n_leaves] = squared_lengths(matrix)
    mean_squares = tree.sum_upward(squares) / np.maximum(sizes, 1)
    both = mean_squares[left] + mean_squares[right]
    apart = both - 2 * products_across(tree, matrix)[nodes] / (sizes[left] * sizes[right])
    gaps = np.zeros(tree.n_ids)
    # Copies are no distance apart, whatever is left of the difference.
    gaps[nodes] = np.where(apart > ROUNDING * both, apart, 0.0)
    return gaps


def _family(tree: Tree, split: Ids, heights: Floats, places: Floats) -> Family:
    born = np.zeros(tree.n_ids, np.int32)
    nodes = tree.internal_nodes()
    _fill_births(nodes, tree.child_pairs(), split, born)
    # Copies say no more than a single point.
    life, below = np.zeros(tree.n_ids), nodes[1:][heights[nodes[1:]] > 0]
    life[below] = np.maximum(places[split[below]] - places[born[below]], 0.0)
    return Family(born, split, life, len(places) - 1)


@kernel
def _fill_splits(
    nodes: Ids, children: Ids, offset: int, inside: Floats, shares: Floats, heights: Floats, split: Ids, best: Floats
) -> None:
    """Fill in the first resolution at which each node is better split; ``best`` is scratch space by node."""
    for step in range(RESOLUTIONS.shape[0]):
        g = RESOLUTIONS[step]
        for leaf in range(offset):
            best[leaf] = -g * shares[leaf]
        for i in range(nodes.shape[0] - 1, -1, -1):
            v = nodes[i]
            whole, parts = inside[v] - g * shares[v], best[children[v, 0]] + best[children[v, 1]]
            # Equal but for rounding is not better.
            if heights[v] > 0 and (split[v] < step or parts > whole + 1e-12 * abs(whole)):
                split[v] = min(split[v], step)
                best[v] = parts
            else:
                best[v] = whole


@kernel
def _fill_births(nodes: Ids, children: Ids, split: Ids, born: Ids) -> None:
    """Fill in when each node becomes a cluster: when it and its ancestors but itself are split."""
    born[nodes[0]] = 0
    for i in range(nodes.shape[0]):
        v = nodes[i]
        for c in range(2):
            born[children[v, c]] = max(born[v], split[v])


@kernel
def add_spread_between(nodes: Ids, children: Ids, sizes: Floats, mean: Floats, spread: Floats) -> None:
    """Add to each node what the distance of its children's means adds: |m_l - m_r|² n_l n_r / (n_l + n_r)."""
    for i in range(nodes.shape[0] - 1, -1, -1):
        v, left, right = nodes[i], children[nodes[i], 0], children[nodes[i], 1]
        apart, share = mean[right] - mean[left], sizes[right] / sizes[v]
        mean[v] = mean[left] + share * apart
        spread[v] += apart * apart * share * sizes[left]


# Measured on trees of normally distributed points, in 5 to 40 dimensions: of the edges of a branch of n points, some
# 0.9 / n ** 0.15 leave it. In fewer dimensions fewer do, which changed no choice (docs/development/cuts.md).
BY_CHANCE, SMALLEST = 0.15, 1.5
# Small branches vary, and those that a tree has made are the best of many.
VARIATION = 0.3


def clearness(tree: Tree, apart: Floats, is_counted: Mask) -> Floats:
    """Return by node id how much farther it stands apart than two parts of it from each other; 0 if no farther.

    ``apart`` is the isolation of nodes, by which two parts stand apart as far as the one that does less; only parts
    count that are counted.
    """
    nodes, between = tree.internal_nodes(), np.zeros(tree.n_ids)
    left, right = tree.child_pairs()[nodes].T
    between[nodes] = np.where(is_counted[left] & is_counted[right], np.minimum(apart[left], apart[right]), 0.0)
    return np.maximum(apart - np.maximum(tree.max_upward(between), 0.0), 0.0)


def isolation(tree: Tree, graph: NeighborGraph, edges: Edges) -> Floats:
    """Return by node id how many times fewer of its edges leave it than by chance, as a logarithm; 0 for single points.

    One more edge leaves it than is known: of a thousand edges, none tells more than of ten.
    """
    n, sizes = tree.n_leaves, np.maximum(tree.sizes().astype(np.float64), 1.0)
    one_edge = edges.ends[tree.root] / max(2 * graph.near.size, 1)
    leaving = (edges.ends - 2 * edges.inside + one_edge) / np.maximum(edges.ends + one_edge, 1e-300)
    apart = -np.log(np.clip(leaving, 1e-12, 1.0)) - BY_CHANCE * np.log(sizes / SMALLEST) - VARIATION / np.sqrt(sizes)
    # As many points at random have as many neighbours elsewhere as there are others.
    apart += np.log(np.clip(1 - sizes / n, 1e-9, 1.0))
    is_group = (np.arange(tree.n_ids) >= tree.offset) & (sizes < n)
    return np.where(is_group, apart, 0.0)
