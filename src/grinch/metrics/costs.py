"""Costs of a tree that need no labels: every pair of points should part as low, or as high, as it is similar.

The similarity of a pair that parts at a node is a dot product, so the sum over all such pairs is the dot product of
the summed vectors of its two children, and a sum over columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from grinch._checks import check_name
from grinch._compile import kernel
from grinch._types import Floats, Ids
from grinch._vectors import check_vectors, columns, scaled, unit_scale
from grinch.tree import Tree
from grinch.tree.lca import products_across

SIMILARITIES = ("dot", "cosine")


def dasgupta_cost(tree: Tree, vectors: Any, similarity: str = "dot") -> float:
    """Return Dasgupta's cost (STOC 2016): the sum over pairs of similarity times points under their common ancestor.

    Lower is better. For similarities of at least 0. O(n d) time, O(n) memory; of sparse vectors with z entries,
    O(z log n) and O(z).

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    vectors : array-like or sparse matrix of shape (n_leaves, n_features)
        The points, in the order they arrived.
    similarity : {"dot", "cosine"}
        Of a pair of points. The cosine with a zero vector is 0.

    Examples
    --------
    >>> from grinch import Tree
    >>> from grinch.metrics import dasgupta_cost
    >>> vectors = [[1, 0], [1, 0], [1, 1]]
    >>> tree = Tree.from_scipy([[0, 1, 0.0, 2], [2, 3, 1.0, 3]])
    >>> dasgupta_cost(tree, vectors)
    8.0
    """
    nodes, across = _similarity_across(tree, vectors, similarity)
    return float(tree.sizes()[nodes] @ across)


def moseley_wang_revenue(tree: Tree, vectors: Any, similarity: str = "dot", *, normalized: bool = False) -> float:
    """Return Moseley and Wang's revenue (NeurIPS 2017): the sum over pairs of similarity times points outside theirs.

    The dual of :func:`dasgupta_cost`: the two add up to n times the sum of all similarities. Higher is better.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    vectors : array-like or sparse matrix of shape (n_leaves, n_features)
        The points, in the order they arrived.
    similarity : {"dot", "cosine"}
        Of a pair of points. The cosine with a zero vector is 0.
    normalized : bool
        Divide by the bound that no tree exceeds, n - 2 times the sum of all similarities (if none is below 0). A random
        tree is expected to have a third. ``nan`` where that is 0.

    Examples
    --------
    >>> from grinch import Tree
    >>> from grinch.metrics import moseley_wang_revenue
    >>> vectors = [[1, 0], [1, 0], [0, 1]]
    >>> tree = Tree.from_scipy([[0, 1, 0.0, 2], [2, 3, 1.0, 3]])
    >>> moseley_wang_revenue(tree, vectors), moseley_wang_revenue(tree, vectors, normalized=True)
    (1.0, 1.0)
    """
    nodes, across = _similarity_across(tree, vectors, similarity)
    revenue = float((tree.n_leaves - tree.sizes()[nodes]) @ across)
    if not normalized:
        return revenue
    bound = (tree.n_leaves - 2) * float(across.sum())
    return revenue / bound if bound else float("nan")


def _similarity_across(tree: Tree, vectors: Any, similarity: str) -> tuple[Ids, Floats]:
    """Return internal nodes, and for each the summed similarity of all pairs that part there."""
    check_name("similarity", similarity, SIMILARITIES)
    matrix = check_vectors(vectors, tree.n_leaves)
    scale = unit_scale(matrix) if similarity == "cosine" else np.ones(tree.n_leaves)
    nodes, children = tree.internal_nodes(), tree.child_pairs()
    if scipy.sparse.issparse(matrix):
        return nodes, products_across(tree, scaled(matrix, scale))[nodes]
    sums, across = np.empty(tree.n_ids), np.zeros(tree.n_ids)
    for column in columns(matrix):
        sums[: len(column)] = column * scale
        _add_across(nodes, children, sums, across)
    return nodes, across[nodes]


@kernel
def _add_across(nodes: Ids, children: Ids, sums: Floats, across: Floats) -> None:
    """Sum one column upward, and add to each node the product of its children's sums."""
    for i in range(nodes.shape[0] - 1, -1, -1):
        v = nodes[i]
        left, right = sums[children[v, 0]], sums[children[v, 1]]
        sums[v] = left + right
        across[v] += left * right
