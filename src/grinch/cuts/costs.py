"""Cuts by a cost of nodes: split what costs most, as PERCH (Kobren et al., KDD 2017) does."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._by_column import check_vectors, columns
from grinch._compile import kernel
from grinch._types import Floats, Ids, Labels, Mask
from grinch.cuts.flat import check_n_clusters, labels_of
from grinch.errors import unknown_name
from grinch.tree import Tree


def cut_by_cost(tree: Tree, vectors: Any, n_clusters: int, cost: str = "half_diameter_times_n") -> Labels:
    """Cut into ``n_clusters``: from the top, split the cluster that costs most, until there are enough.

    Unlike a cut by height it needs no scores, and a cost that counts points does not spend its splits on outliers.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    vectors : array-like or sparse matrix of shape (n_leaves, n_features)
        The points, in the order they arrived.
    n_clusters : int
        With fewer points than that, every point is a cluster of its own.
    cost : str
        See :func:`node_costs`.

    Returns
    -------
    array of shape (n_leaves,)
        Cluster numbers by point.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch import Tree
    >>> vectors = [[0.0], [1.0], [1.1], [4.0], [5.0], [5.2], [15.0]]
    >>> tree = Tree.from_scipy(linkage(vectors))
    >>> cut_by_cost(tree, vectors, 3).tolist()
    [0, 0, 0, 1, 1, 1, 2]
    """
    return labels_of(tree, splits_by_cost(tree, node_costs(tree, vectors, cost), n_clusters))


def node_costs(tree: Tree, vectors: Any, cost: str = "half_diameter_times_n") -> Floats:
    """What each node costs, by node id; leaves cost 0.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    vectors : array-like or sparse matrix of shape (n_leaves, n_features)
        The points, in the order they arrived; not looked at for ``"n"``.
    cost : {"half_diameter_times_n", "diameter", "n", "kmeans"}
        ``"n"`` is the number of points; ``"diameter"`` the diagonal of the box around them, which no distance between
        two of them exceeds; ``"half_diameter_times_n"`` half their product, PERCH's choice; ``"kmeans"`` the sum of
        squared distances to their mean.

    Notes
    -----
    Vectors are read a column at a time: O(n d) time, and O(n) memory beside them.

    >>> tree = Tree.from_scipy([[0, 1, 5.0, 2], [2, 3, 9.0, 3]])
    >>> vectors = [[0, 0], [3, 4], [9, 12]]
    >>> [node_costs(tree, vectors, cost)[tree.root].tolist() for cost in COSTS]
    [22.5, 15.0, 3.0, 116.66666666666666]
    """
    if cost not in COSTS:
        raise unknown_name("cost", cost, COSTS)
    nodes, costs = tree.internal_nodes(), np.zeros(tree.n_ids)
    costs[nodes] = COSTS[cost](tree, vectors)[nodes]
    return costs


def splits_by_cost(tree: Tree, costs: npt.ArrayLike, n_clusters: int) -> Mask:
    """By node id, whether it is split in the cut into ``n_clusters`` that splits the costliest cluster each time.

    ``costs`` is by node id, as from :func:`node_costs`, or a cost of your own. Leaves are never split.
    """
    check_n_clusters(n_clusters)
    values = np.asarray(costs, dtype=np.float64)
    if values.shape != (tree.n_ids,):
        raise ValueError(f"costs must have one entry for each of the {tree.n_ids} node ids; got shape {values.shape}")
    is_split = np.zeros(len(values), dtype=np.bool_)
    frontier = [(-values[tree.root], tree.root)] if tree.n_leaves > 1 else []
    for _ in range(n_clusters - 1):
        if not frontier:
            break
        _, v = heapq.heappop(frontier)
        is_split[v] = True
        for child in tree.children(v):
            if not tree.is_leaf(child):
                heapq.heappush(frontier, (-values[child], child))
    return is_split


def _points(tree: Tree, vectors: Any) -> Floats:
    return tree.sizes().astype(np.float64)


def _diameter(tree: Tree, vectors: Any) -> Floats:
    squared, low, high = np.zeros(tree.n_ids), np.empty(tree.n_ids), np.empty(tree.n_ids)
    nodes, children = tree.internal_nodes(), tree.child_pairs()
    for column in columns(check_vectors(vectors, tree.n_leaves)):
        low[: len(column)] = high[: len(column)] = column
        _add_box_side(nodes, children, low, high, squared)
    return np.sqrt(squared)


def _half_diameter_times_n(tree: Tree, vectors: Any) -> Floats:
    return _diameter(tree, vectors) * _points(tree, vectors) / 2


def _kmeans(tree: Tree, vectors: Any) -> Floats:
    spread, mean, sizes = np.zeros(tree.n_ids), np.empty(tree.n_ids), _points(tree, vectors)
    nodes, children = tree.internal_nodes(), tree.child_pairs()
    for column in columns(check_vectors(vectors, tree.n_leaves)):
        mean[: len(column)] = column
        add_spread_between(nodes, children, sizes, mean, spread)
    return tree.sum_upward(spread)


@kernel
def _add_box_side(nodes: Ids, children: Ids, low: Floats, high: Floats, squared: Floats) -> None:
    """Add to each node the squared side of its box in one column."""
    for i in range(nodes.shape[0] - 1, -1, -1):
        v, left, right = nodes[i], children[nodes[i], 0], children[nodes[i], 1]
        low[v], high[v] = min(low[left], low[right]), max(high[left], high[right])
        squared[v] += (high[v] - low[v]) ** 2


@kernel
def add_spread_between(nodes: Ids, children: Ids, sizes: Floats, mean: Floats, spread: Floats) -> None:
    """Add to each node what the distance of its children's means adds: |m_l - m_r|² n_l n_r / (n_l + n_r)."""
    for i in range(nodes.shape[0] - 1, -1, -1):
        v, left, right = nodes[i], children[nodes[i], 0], children[nodes[i], 1]
        apart, share = mean[right] - mean[left], sizes[right] / sizes[v]
        mean[v] = mean[left] + share * apart
        spread[v] += apart * apart * share * sizes[left]


COSTS: dict[str, Callable[[Tree, Any], Floats]] = {
    "half_diameter_times_n": _half_diameter_times_n,
    "diameter": _diameter,
    "n": _points,
    "kmeans": _kmeans,
}
