"""Points that belong nowhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch._types import Floats, Labels, Mask
from grinch.cuts.cluster_tree import cluster_nodes
from grinch.cuts.flat import numbered_by_arrival
from grinch.cuts.graph import NeighborGraph, distances_of
from grinch.cuts.isolation import isolation
from grinch.cuts.joining import typical_size
from grinch.cuts.persistence import edges_under
from grinch.tree import NONE, Tree

# A point with a smaller share than this of its neighbours in its own cluster belongs nowhere.
LEAST_SHARE = 0.25
# So does a point that is farther from its neighbours than is usual in its cluster, by as many deviations.
DEVIATIONS = 3.0
# What is usual in a cluster is known if it has at least these shares of the size and isolation of a typical one.
KNOWN_SIZE, KNOWN_ISOLATION = 0.5, 0.7
# A deviation below the median: half of what lies between the quantiles of a standard deviation.
LOWER = 0.16


def without_noise(
    tree: Tree, labels: Labels, graph: NeighborGraph | None, rows: Any = None, min_size: int = 2
) -> Labels:
    """Cluster numbers by node id, as from :func:`grinch.cuts.node_labels`, with -1 for points that belong nowhere.

    Those are the points that are alone in their cluster; those with less than a quarter of their neighbours (by the
    weights of ``graph``) in their own cluster, or of as many neighbours as it can hold; and, where ``rows`` are known
    (as from :func:`grinch.cuts.graph.comparable`), those that are much farther from their neighbours than is usual in
    their cluster. In a cluster that is small or hardly stands apart, what is usual in the others counts. A cluster that
    is left with fewer than ``min_size`` points belongs nowhere as a whole.

    >>> from grinch.cuts import node_labels
    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> without_noise(tree, node_labels(tree, np.arange(tree.n_ids) == tree.root), None)[:3].tolist()
    [0, 0, -1]
    """
    n = tree.n_leaves
    own = labels[:n]
    is_noise: Mask = own < 0
    if not is_noise.all():
        sizes = np.bincount(own[own >= 0])
        is_noise = is_noise | (sizes[own] < 2)
        if graph is not None:
            room = np.minimum((sizes[own] - 1) / max(graph.near.shape[1], 1), 1.0)
            is_noise |= share_inside(graph, own) < LEAST_SHARE * room
            if rows is not None and graph.near.shape[1]:
                is_noise |= _is_sparse(tree, own, graph, rows)
        is_noise |= np.bincount(own[~is_noise], minlength=len(sizes))[own] < min_size
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


def _is_sparse(tree: Tree, own: Labels, graph: NeighborGraph, rows: Any) -> Mask:
    """By point, whether it is much farther from its neighbours than is usual."""
    clustered = np.flatnonzero(own >= 0)
    labels, sizes = own[clustered], np.bincount(own[clustered])
    far = _reach(graph, rows)[clustered]
    middle = _quantile(far, labels, sizes, 0.5)
    apart = isolation(tree, graph, edges_under(tree, graph))[cluster_nodes(tree, own)]
    order = np.argsort(apart)
    typical = apart[order][np.searchsorted(np.cumsum(sizes[order]), sizes.sum() / 2)]
    is_known = (sizes >= KNOWN_SIZE * typical_size(sizes)) & (apart >= KNOWN_ISOLATION * typical)
    if not is_known.any():
        is_known = sizes == sizes.max()
    usual = is_known[labels]
    # Of few points the deviation is hardly known: never less than that of all.
    common = -float(np.quantile((far - middle[labels])[usual], LOWER))
    deviation = np.maximum(middle - _quantile(far, labels, sizes, LOWER), common)
    everywhere = float(np.median(far[usual])) + DEVIATIONS * common
    limits = np.where(is_known, middle + DEVIATIONS * deviation, everywhere)
    found = np.zeros(len(own), np.bool_)
    found[clustered] = far > limits[labels]
    return found


def _reach(graph: NeighborGraph, rows: Any) -> Floats:
    """By point, the logarithm of the distance of the neighbour in the middle of its list."""
    known = np.maximum((graph.near != NONE).sum(axis=1), 1)
    squared = distances_of(graph.near, rows)[np.arange(len(known)), (known - 1) // 2].astype(np.float64)
    least = squared[squared > 0].min(initial=1.0)
    return np.log(np.maximum(squared, least)) / 2


def _quantile(values: Floats, labels: Labels, sizes: Labels, q: float) -> Floats:
    """By label, a quantile of the values that have it."""
    order = np.lexsort((values, labels))
    starts = np.cumsum(sizes) - sizes
    return values[order][starts + np.floor(q * (sizes - 1)).astype(np.int64)]
