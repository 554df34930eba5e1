"""A cut that finds its own number of clusters: those that last longest."""

from __future__ import annotations

import numpy as np

from grinch._checks import check_count
from grinch._compile import kernel
from grinch._types import Floats, Ids, Labels
from grinch.cuts.flat import numbered_by_arrival
from grinch.tree import NONE, Tree

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
        smallest height above it, because an infinite density would outweigh everything else.
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
    min_size = check_count("min_cluster_size", min_cluster_size, 2)
    cluster, chosen = np.arange(tree.n_ids, dtype=np.int32), np.full(tree.n_ids, NONE, dtype=np.int64)
    birth, stability, below = np.zeros((3, tree.n_ids))
    if tree.n_leaves >= min_size:
        nodes, children, sizes = tree.internal_nodes(), tree.child_pairs(), tree.sizes()
        _condense(nodes, children, sizes, _densities(tree), min_size, cluster, birth, stability)
        _choose(tree.preorder(), tree.parents(), cluster, stability, below, bool(allow_single_cluster), chosen)
    return numbered_by_arrival(chosen[: tree.n_leaves], tree.n_leaves)


def _densities(tree: Tree) -> Floats:
    heights = tree.heights()
    above = heights[heights > TINY]
    return 1 / np.maximum(heights, above.min() if len(above) else 1.0)


@kernel
def _condense(
    nodes: Ids,
    children: Ids,
    sizes: Ids,
    density: Floats,
    min_size: int,
    cluster: Ids,
    birth: Floats,
    stability: Floats,
) -> None:
    """By node, the cluster it is in or falls out of (named by its topmost node), and by cluster its stability.

    ``cluster`` starts out as each node's own id, the others as 0.
    """
    for i in range(nodes.shape[0]):
        v = nodes[i]
        c, left, right = cluster[v], children[v, 0], children[v, 1]
        splits = sizes[left] >= min_size and sizes[right] >= min_size
        for child in (left, right):
            cluster[child] = child if splits else c
            if splits:
                birth[child] = density[v]
            if splits or sizes[child] < min_size <= sizes[v]:
                stability[c] += (density[v] - birth[c]) * sizes[child]


@kernel
def _choose(
    preorder: Ids,
    parents: Ids,
    cluster: Ids,
    stability: Floats,
    below: Floats,
    allow_single: bool,
    chosen: Labels,
) -> None:
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
            below[cluster[parents[v]]] += below[v]
    for i in range(1, preorder.shape[0]):
        v = preorder[i]
        above = chosen[parents[v]]
        if above != NONE:
            chosen[v] = above
