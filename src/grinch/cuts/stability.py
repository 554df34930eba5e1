"""A cut that finds its own number of clusters: those that last longest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grinch._compile import kernel
from grinch.cuts.flat import Labels, numbered_by_arrival
from grinch.tree import Tree, walks
from grinch.tree.links import LEFT, NONE, PARENT, RIGHT, SIZE

FloatArray = npt.NDArray[np.float64]
# Heights up to this are 0: one over them, summed over points, must stay finite.
TINY = 1e-200


def cut_stability(tree: Tree, min_cluster_size: int = 5, allow_single_cluster: bool = False) -> Labels:
    """The clusters that last longest, as HDBSCAN chooses them (excess of mass; Campello et al., 2013).

    Going down the tree, a side with fewer than ``min_cluster_size`` points falls out of its cluster, and a node with
    two sides of that size ends its cluster and begins two. A point stays in a cluster from the density 1 / height
    where that begins to the one where the point falls out or the cluster ends; the sum over its points is the
    cluster's stability. Of all choices of disjoint clusters this takes the one with the greatest sum. On HDBSCAN's own
    tree (single linkage of mutual reachability distances) these are its clusters. O(n).

    Parameters
    ----------
    tree : Tree
        The cluster tree; see :meth:`grinch.Tree.heights` for its heights. Height 0 (equal points) counts as the
        smallest height above it, for an infinite density would outweigh everything else.
    min_cluster_size : int
        Of at least 2.
    allow_single_cluster : bool
        Whether all points may be one cluster. Unlike in HDBSCAN they are then all in it: none is noise.

    Returns
    -------
    array of shape (n_leaves,)
        Cluster numbers by point, -1 for noise.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch import Tree
    >>> points = [[0.0], [0.1], [0.3], [5.0], [5.2], [5.3], [15.0]]
    >>> cut_stability(Tree.from_scipy(linkage(points)), min_cluster_size=3).tolist()
    [0, 0, 0, 1, 1, 1, -1]
    """
    whole = isinstance(min_cluster_size, (int, np.integer)) and not isinstance(min_cluster_size, bool)
    if not whole or min_cluster_size < 2:
        raise ValueError(f"min_cluster_size must be a whole number of at least 2; got {min_cluster_size!r}")
    n_nodes = len(tree.links.table)
    cluster, chosen = walks.no_nodes(n_nodes), np.full(n_nodes, NONE, dtype=np.int64)
    birth, stability, below = np.zeros((3, n_nodes))
    if tree.n_leaves >= min_cluster_size:
        table, preorder = tree.links.table, tree.preorder()
        _condense(table, preorder, tree.offset, _densities(tree), min_cluster_size, cluster, birth, stability)
        _choose(table, preorder, cluster, stability, below, bool(allow_single_cluster), chosen)
    return numbered_by_arrival(chosen[: tree.n_leaves], tree.n_leaves)


def _densities(tree: Tree) -> FloatArray:
    heights = tree.heights()
    above = heights[heights > TINY]
    return 1 / np.maximum(heights, above.min() if len(above) else 1.0)


@kernel
def _condense(table, preorder, offset, density, min_size, cluster, birth, stability):
    """By node, the cluster it is in or falls out of (named by its topmost node), and by cluster its stability."""
    cluster[preorder[0]] = preorder[0]
    for i in range(preorder.shape[0]):
        v = preorder[i]
        if v < offset:
            continue
        c, left, right = cluster[v], table[v, LEFT], table[v, RIGHT]
        splits = table[left, SIZE] >= min_size and table[right, SIZE] >= min_size
        for child in (left, right):
            cluster[child] = child if splits else c
            if splits:
                birth[child] = density[v]
            if splits or table[child, SIZE] < min_size <= table[v, SIZE]:
                stability[c] += (density[v] - birth[c]) * table[child, SIZE]


@kernel
def _choose(table, preorder, cluster, stability, below, allow_single, chosen):
    """By node, the chosen cluster it is in; ``chosen`` starts out as NONE, ``below`` as 0."""
    root = preorder[0]
    for i in range(preorder.shape[0] - 1, -1, -1):
        v = preorder[i]
        if cluster[v] != v:
            continue
        # A cluster is as good as the best choice among those below it, and wins where it is not worse.
        if below[v] <= stability[v] and (v != root or allow_single):
            chosen[v] = v
            below[v] = stability[v]
        if v != root:
            below[cluster[table[v, PARENT]]] += below[v]
    for i in range(1, preorder.shape[0]):
        v = preorder[i]
        above = chosen[table[v, PARENT]]
        if above != NONE:
            chosen[v] = above
