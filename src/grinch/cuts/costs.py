"""Cuts by a cost of nodes: split what costs most, as PERCH (Kobren et al., KDD 2017) does."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._checks import check_name
from grinch._compile import kernel
from grinch._types import Counts, Floats, Ids, Labels, Mask
from grinch._vectors import ROUNDING, check_vectors, columns, squared_lengths
from grinch.cuts.flat import check_n_clusters
from grinch.cuts.labels import labels_of
from grinch.cuts.persistence import add_spread_between
from grinch.tree import Tree
from grinch.tree.lca import ColumnLCA, column_lca, products_across


def cut_by_cost(tree: Tree, vectors: Any, n_clusters: int, cost: str = "half_diameter_times_n") -> Labels:
    """Cut into ``n_clusters``: from the top, split the cluster of greatest cost, until there are enough.

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
    """Return the cost of each node, by node id; leaves cost 0.

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
    Vectors are read a column at a time: O(n d) time, and O(n) memory beside them; of sparse vectors with z entries,
    O(z log n) time and O(z) memory.

    >>> tree = Tree.from_scipy([[0, 1, 5.0, 2], [2, 3, 9.0, 3]])
    >>> vectors = [[0, 0], [3, 4], [9, 12]]
    >>> [node_costs(tree, vectors, cost)[tree.root].tolist() for cost in COSTS]
    [22.5, 15.0, 3.0, 116.66666666666666]
    """
    check_name("cost", cost, COSTS)
    nodes, costs = tree.internal_nodes(), np.zeros(tree.n_ids)
    costs[nodes] = COSTS[cost](tree, vectors)[nodes]
    return costs


def splits_by_cost(tree: Tree, costs: npt.ArrayLike, n_clusters: int) -> Mask:
    """Return, by node id, whether the cut into ``n_clusters`` that splits the costliest cluster each time splits it.

    ``costs`` is by node id, as from :func:`node_costs`, or a cost of your own. Leaves are never split.
    """
    check_n_clusters(n_clusters)
    values = np.asarray(costs, dtype=np.float64)
    if values.shape != (tree.n_ids,):
        raise ValueError(f"costs must have one entry for each of the {tree.n_ids} node ids; got shape {values.shape}")
    is_split = np.zeros(len(values), dtype=np.bool_)
    frontier = [(-values[tree.root], tree.root)] if tree.n_leaves > 1 else []
    for _ in range(min(n_clusters, tree.n_leaves) - 1):
        _, v = heapq.heappop(frontier)
        is_split[v] = True
        for child in tree.children(v):
            if not tree.is_leaf(child):
                heapq.heappush(frontier, (-values[child], child))
    return is_split


def _points(tree: Tree, vectors: Any) -> Floats:
    return tree.sizes().astype(np.float64)


def _diameter(tree: Tree, vectors: Any) -> Floats:
    matrix = check_vectors(vectors, tree.n_leaves)
    if scipy.sparse.issparse(matrix):
        return np.sqrt(_squared_diagonals(tree, matrix))
    squared, low, high = np.zeros(tree.n_ids), np.empty(tree.n_ids), np.empty(tree.n_ids)
    nodes, children = tree.internal_nodes(), tree.child_pairs()
    for column in columns(matrix):
        low[: len(column)] = high[: len(column)] = column
        _add_box_side(nodes, children, low, high, squared)
    return np.sqrt(squared)


def _half_diameter_times_n(tree: Tree, vectors: Any) -> Floats:
    return _diameter(tree, vectors) * _points(tree, vectors) / 2


def _kmeans(tree: Tree, vectors: Any) -> Floats:
    matrix, sizes = check_vectors(vectors, tree.n_leaves), _points(tree, vectors)
    if scipy.sparse.issparse(matrix):
        return _sparse_spread(tree, matrix, sizes)
    spread, mean = np.zeros(tree.n_ids), np.empty(tree.n_ids)
    nodes, children = tree.internal_nodes(), tree.child_pairs()
    for column in columns(matrix):
        mean[: len(column)] = column
        add_spread_between(nodes, children, sizes, mean, spread)
    return tree.sum_upward(spread)


def _sparse_spread(tree: Tree, matrix: Any, sizes: Floats) -> Floats:
    """Return, by node id, the squared distances of its points to their mean: Q - |S|² / n."""
    squares = np.zeros(tree.n_ids)
    squares[: tree.n_leaves] = squared_lengths(matrix)
    squares = tree.sum_upward(squares)
    # |S|² is the products of all pairs, each point with itself among them.
    of_sums = squares + 2 * tree.sum_upward(products_across(tree, matrix))
    spread = squares - of_sums / np.maximum(sizes, 1)
    return np.where(spread > ROUNDING * squares, spread, 0.0)


def _squared_diagonals(tree: Tree, matrix: Any) -> Floats:
    """Return, by node id, the squared diagonal of the box around its points.

    Between two nodes at which entries of a column meet, the side of the box is the same: it reaches to 0, for some
    points there have no entry. So what a column adds is put down where it changes, and summed upward.
    """
    found, parents, sizes = column_lca(tree, matrix), tree.parents(), tree.sizes()
    steps, n = np.zeros(tree.n_ids), len(found.values)
    # Under a leaf there is no side; above it the box reaches from the entry to 0.
    above = parents[found.leaves]
    is_below = above >= 0
    np.add.at(steps, above[is_below], found.values[is_below] ** 2)
    counts, sides = np.ones(n, np.int64), found.values**2
    low, high = found.values.copy(), found.values.copy()
    _add_box_steps(found, parents, sizes, counts, sides, low, high, steps)
    squares = np.zeros(tree.n_ids)
    squares[: tree.n_leaves] = squared_lengths(matrix)
    squared = tree.sum_upward(steps)
    return np.where(squared > ROUNDING * tree.sum_upward(squares), squared, 0.0)


@kernel
def _add_box_side(nodes: Ids, children: Ids, low: Floats, high: Floats, squared: Floats) -> None:
    """Add to each node the squared side of its box in one column."""
    for i in range(nodes.shape[0] - 1, -1, -1):
        v, left, right = nodes[i], children[nodes[i], 0], children[nodes[i], 1]
        low[v], high[v] = min(low[left], low[right]), max(high[left], high[right])
        squared[v] += (high[v] - low[v]) ** 2


@kernel
def _add_box_steps(
    found: ColumnLCA, parents: Ids, sizes: Ids, counts: Counts, sides: Floats, low: Floats, high: Floats, steps: Floats
) -> None:
    """Add where squared sides change; ``counts``, ``low``, ``high`` and the side above (``sides``) are by group."""
    for i in range(found.nodes.shape[0]):
        v, a, b = found.nodes[i], found.left[i], found.right[i]
        counts[a] += counts[b]
        low[a], high[a] = min(low[a], low[b]), max(high[a], high[b])
        with_zero = (max(high[a], 0.0) - min(low[a], 0.0)) ** 2
        own = (high[a] - low[a]) ** 2 if counts[a] == sizes[v] else with_zero
        steps[v] += own - sides[a] - sides[b]
        if parents[v] >= 0:
            steps[parents[v]] += with_zero - own
        sides[a] = with_zero


COSTS: dict[str, Callable[[Tree, Any], Floats]] = {
    "half_diameter_times_n": _half_diameter_times_n,
    "diameter": _diameter,
    "n": _points,
    "kmeans": _kmeans,
}
