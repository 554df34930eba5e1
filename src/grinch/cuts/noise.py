"""Points that belong nowhere."""

from __future__ import annotations

import numpy as np

from grinch._types import Floats, Labels, Mask
from grinch.cuts.flat import numbered_by_arrival
from grinch.cuts.graph import NeighborGraph
from grinch.tree import NONE, Tree

# A point with a smaller share than this of its neighbours in its own cluster belongs nowhere.
LEAST_SHARE = 0.25


def without_noise(tree: Tree, labels: Labels, graph: NeighborGraph | None) -> Labels:
    """Cluster numbers by node id, as from :func:`grinch.cuts.node_labels`, with -1 for points that belong nowhere.

    Those are the points that are alone in their cluster, and those with less than a quarter of their neighbours (by the
    weights of ``graph``) in their own cluster, or of as many neighbours as it can hold.

    >>> from grinch.cuts import node_labels
    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> without_noise(tree, node_labels(tree, np.arange(tree.n_ids) == tree.root), None)[:3].tolist()
    [0, 0, -1]
    """
    n = tree.n_leaves
    own = labels[:n]
    sizes = np.bincount(own)[own] if n else own
    is_noise: Mask = sizes < 2
    if graph is not None:
        room = np.minimum((sizes - 1) / max(graph.near.shape[1], 1), 1.0)
        is_noise = is_noise | (share_inside(graph, own) < LEAST_SHARE * room)
    kept = labels.copy()
    kept[:n][is_noise] = NONE
    left = np.zeros(int(own.max(initial=-1)) + 2, np.bool_)  # one more, where -1 points
    left[own[~is_noise]] = True
    return numbered_by_arrival(np.where(left[kept], kept, NONE), n)


def share_inside(graph: NeighborGraph, labels: Labels) -> Floats:
    """By point, which share of its edges, by weight, stays in its own cluster; 1 without any."""
    points, places = np.nonzero(graph.near != NONE)
    others, weights = graph.near[points, places], graph.weights[points, places]
    inside = weights * (labels[points] == labels[others])
    n = len(labels)
    total = np.bincount(points, weights, n) + np.bincount(others, weights, n)
    stays = np.bincount(points, inside, n) + np.bincount(others, inside, n)
    return np.divide(stays, total, out=np.ones(n), where=total > 0)
