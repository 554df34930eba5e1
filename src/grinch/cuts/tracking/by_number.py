"""Cuts of a tree into a number of clusters, made again after a change of some of its nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._compile import kernel
from grinch._types import Floats, Ids, Slots
from grinch.cuts.n_cluster_cut import Ends, Splits, find_ends, find_sizeable_ends, new_ends, raise_splits
from grinch.cuts.tracking.follower import Arrays, Region, all_internal
from grinch.tree.links import LEAVES, Links, left, right


class CutNodes(NamedTuple):
    """The nodes that a cut leaves whole, the number of the cluster of each, and how many clusters there are."""

    ends: Slots
    clusters: Slots
    n_clusters: int


def cut_into(links: Links, region: Region, counts: Ids, keys: Floats, ceiling: float | None, n_clusters: int) -> Slots:
    """Return the nodes that the cut by height leaves whole; ``keys`` are by node."""
    _raise_keys(links, region.scores, np.inf if ceiling is None else float(ceiling), region.nodes, keys)
    ends = new_ends(int(links.head[LEAVES]), len(links.table))
    return ends.nodes[: _find_ends(links, keys, counts, n_clusters, ends) if len(ends.nodes) else 0].astype(np.intp)


def cut_sizeable(
    links: Links, region: Region, arrays: Arrays, splits: Splits, ceiling: float | None, n_clusters: int, min_size: int
) -> CutNodes:
    """Return the nodes that the cut by sizeable splits leaves whole.

    Without a ceiling, heights count from the best score in the tree: one change changes all keys, and the scores of all
    nodes are needed.
    """
    highest = np.inf if ceiling is None else float(ceiling)
    nodes, scores, base = region.nodes, region.scores, -highest
    if ceiling is None:
        nodes = all_internal(links)
        scores = arrays["scores"][nodes]
        raise_splits(links, scores, highest, 0.0, min_size, nodes, splits)
        base = float(np.min(splits.lows[nodes], initial=np.inf, where=np.isfinite(splits.lows[nodes])))
        base = base if np.isfinite(base) else 0.0
    raise_splits(links, scores, highest, base, min_size, nodes, splits)
    ends = new_ends(int(links.head[LEAVES]), len(links.table))
    n, n_ends = find_sizeable_ends(links, splits, n_clusters, ends) if len(ends.nodes) else (0, 0)
    return CutNodes(ends.nodes[:n_ends].astype(np.intp), ends.clusters[:n_ends].astype(np.intp), n)


@kernel
def _raise_keys(tree: Links, scores: Floats, ceiling: float, nodes: Slots, keys: Floats) -> None:
    """Fill in the keys of these nodes, which come children first and have these scores."""
    for i in range(nodes.shape[0]):
        v = nodes[i]
        below = max(keys[left(tree, v)], keys[right(tree, v)])
        keys[v] = max(-min(scores[i], ceiling), below)


@kernel
def _find_ends(tree: Links, keys: Floats, counts: Ids, n_clusters: int, ends: Ends) -> int:
    return find_ends(tree, keys, keys, counts, -np.inf, n_clusters, ends)[1]
