"""The sizeable splits of a whole tree, and the nodes that a cut by them leaves whole."""

from __future__ import annotations

import numpy as np

from grinch._compile import kernel
from grinch._types import Floats, Labels, Mask, Slots
from grinch.tree.ends import TAKEN, Ends, Splits, find_ends, new_ends, new_splits, raise_splits
from grinch.tree.links import NONE, Links
from grinch.tree.tree import Tree


def sizeable(tree: Tree, min_size: int = 1) -> Splits:
    """Return how sizeable the splits of a tree are."""
    internal, splits, lows = tree.internal_nodes()[::-1], new_splits(tree.n_ids), tree.split_keys()
    raise_splits(
        tree.links, -lows[internal], np.inf, _base(tree, lows[internal]), min_size, internal.astype(np.intp), splits
    )
    return splits


def _base(tree: Tree, lows: Floats) -> float:
    """Return what heights count from: the score of two identical points, or the best there is."""
    if len(lows) and np.isnan(tree.scores[tree.root]):
        return 0.0
    finite = lows[np.isfinite(lows)]
    return float(finite.min() if len(finite) else 0.0) if tree.ceiling is None else -tree.ceiling


def sizeable_ends(tree: Tree, splits: Splits, n_clusters: int) -> tuple[Slots, Labels, Mask]:
    """Return the nodes that the cut into ``n_clusters`` leaves whole, the cluster of each, and which are hung up."""
    ends = new_ends(tree.n_leaves, tree.n_ids)
    _, n_ends = _find_ends(tree.links, splits, n_clusters, ends)
    nodes = ends.nodes[:n_ends].astype(np.intp)
    above = tree.parents()[nodes]
    is_hung = (above != NONE) & (ends.is_above[above] != TAKEN)
    return nodes, ends.clusters[:n_ends].astype(np.int64), is_hung


@kernel
def _find_ends(tree: Links, splits: Splits, n_clusters: int, ends: Ends) -> tuple[int, int]:
    return find_ends(tree, splits.keys, splits.best, splits.counts, 0.0, n_clusters, ends)
