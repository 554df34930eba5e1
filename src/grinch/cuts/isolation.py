"""How far clusters stand apart in a graph of neighbours: fewer edges leave them than leave a group by chance."""

from __future__ import annotations

import numpy as np

from grinch._types import Floats, Mask
from grinch.cuts.graph import NeighborGraph
from grinch.cuts.persistence import Edges
from grinch.tree import Tree

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
