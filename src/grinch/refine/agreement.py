"""A tree on which neighbours and other trees of the same points agree.

Pairs of neighbours are joined from the most similar on, as average linkage does on a graph. What a pair counts is what
its ends know in common, themselves and their neighbours, and the more the lower the ends meet in each of the trees. So
where the linkage keeps groups far apart, a few neighbours do not bring them together, and where to the linkage all
groups are about as far from each other, neighbours decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from grinch._compile import kernel
from grinch._types import Floats, Ids
from grinch.refine.neighbor_cost import ONE_SIDED, graph_of
from grinch.tree.links import NONE
from grinch.tree.rounds import rounds, tree_of_rounds
from grinch.tree.tree import Tree

# What a pair counts in which only one end names the other, for one in which both do.
ONE_SIDED_PART = 0.3
# The power of the height where two points meet, and the least height that counts, as a part of the usual one.
POWER, LEAST_HEIGHT = 2, 0.1
# Pairs that point at each other are joined for this many rounds; 10,000 points take 20 to 60. Ties take more.
MOST_ROUNDS = 100
# How a pair that connects parts of the graph compares with its weakest edge.
BRIDGE = 1e-6


def agreed_tree(near: Ids, trees: Sequence[Tree]) -> Tree:
    """Return a tree by neighbours, best first and padded with NONE, and by other trees of the same points.

    What the neighbours do not connect is joined in the order of the last tree.

    >>> from scipy.cluster.hierarchy import linkage
    >>> tree = Tree.from_scipy(linkage([[0.0], [1], [5], [7]]))
    >>> near = np.array([[1, NONE], [0, NONE], [3, 1], [2, NONE]], np.int32)
    >>> agreed_tree(near, [tree]).to_newick(lengths=False)
    '((0,1),(2,3));'
    """
    n = len(near)
    graph = graph_of(near)
    shared = np.empty(len(graph.ends))
    fill_shared(np.sort(np.column_stack([near, np.arange(n, dtype=np.int32)]), axis=1), graph.ends, shared)
    shared[graph.weights == ONE_SIDED] *= ONE_SIDED_PART
    weights = shared * closeness(graph.ends, trees)
    edges = scipy.sparse.csr_matrix((weights, (graph.ends[:, 0], graph.ends[:, 1])), (n, n))
    leaves, parts = trees[-1].leaves(), connected_components(edges, directed=False)[1]
    bridges = np.stack([leaves[:-1], leaves[1:]], axis=1)
    bridges = bridges[parts[bridges[:, 0]] != parts[bridges[:, 1]]]
    if len(bridges):
        light = closeness(bridges, trees)
        light *= BRIDGE * weights.min(initial=1.0) / light.max()
        edges = edges + scipy.sparse.csr_matrix((light, (bridges[:, 0], bridges[:, 1])), (n, n))
    return tree_of_rounds(rounds((edges + edges.T).tocsr(), (), strong=True, most_strong=MOST_ROUNDS), n)


def apartness(tree: Tree, pairs: Ids, distances: Floats) -> float:
    """Return how well a tree keeps distant points apart: the mean of distance times points under where a pair meets."""
    sizes = tree.sum_upward((np.arange(tree.n_ids) < tree.n_leaves).astype(np.float64))
    return float((distances * sizes[tree.common_ancestors(pairs[:, 0], pairs[:, 1])]).mean())


def closeness(pairs: Ids, trees: Sequence[Tree]) -> Floats:
    """Return how close pairs of leaves are in some trees: the lower they meet, the closer."""
    found = np.ones(len(pairs))
    for tree in trees if len(pairs) else ():
        heights = tree.heights()
        met = heights[tree.common_ancestors(pairs[:, 0], pairs[:, 1])]
        found *= (met / (np.median(met) or heights[tree.root] or 1.0) + LEAST_HEIGHT) ** -POWER
    return found


@kernel
def fill_shared(known: Ids, ends: Ids, shared: Floats) -> None:
    """Count what both ends of each pair know; ``known`` is sorted, by point, with NONE before all others."""
    for e in range(ends.shape[0]):
        u, v = ends[e]
        i = j = n = 0
        while i < known.shape[1] and j < known.shape[1]:
            a, b = known[u, i], known[v, j]
            n += a == b and a != NONE
            i += a <= b
            j += b <= a
        shared[e] = n
