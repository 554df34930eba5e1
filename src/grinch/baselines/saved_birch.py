"""scikit-learn's BIRCH as arrays: its tree of cluster features, node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn.cluster
from sklearn.cluster._birch import _CFNode, _CFSubcluster

from grinch._checks import available_memory
from grinch.errors import SavedModelError
from grinch.saving.state import USUAL_MEMORY, State, array, scalar

NONE = -1


def birch_to_state(model: sklearn.cluster.Birch) -> State:
    """Nodes level by level; of each how many subclusters it has, and of each subcluster its numbers and its child."""
    nodes: list[Any] = [model.root_]
    subclusters: list[Any] = []
    children: list[int] = []
    for node in nodes:
        for sub in node.subclusters_:
            subclusters.append(sub)
            children.append(NONE if sub.child_ is None else len(nodes))
            if sub.child_ is not None:
                nodes.append(sub.child_)
    place = {id(node): i for i, node in enumerate(nodes)}
    leaves, leaf = [], model.dummy_leaf_.next_leaf_
    while leaf is not None:
        leaves.append(place[id(leaf)])
        leaf = leaf.next_leaf_
    width = model.root_.n_features

    def matrix(values: list[Any]) -> Any:
        return np.array(values, np.float64).reshape(len(values), width)

    return {
        "threshold": float(model.threshold),
        "branching_factor": int(model.branching_factor),
        "n_features": int(width),
        "sizes": np.array([len(node.subclusters_) for node in nodes], np.int64),
        "is_leaf": np.array([node.is_leaf for node in nodes], np.uint8),
        "leaves": np.array(leaves, np.int64),
        "children": np.array(children, np.int64),
        "counts": np.array([sub.n_samples_ for sub in subclusters], np.int64),
        "sums": matrix([sub.linear_sum_ for sub in subclusters]),
        "centroids": matrix([sub.centroid_ for sub in subclusters]),
        # Of a node that was divided, its arrays may be behind what its subclusters say.
        "node_centroids": matrix([row for node in nodes for row in node.init_centroids_[: len(node.subclusters_)]]),
        "squared_sums": np.array([float(sub.squared_sum_) for sub in subclusters]),
        "squared_norms": np.array([float(sub.sq_norm_) for sub in subclusters]),
        "node_norms": np.array([x for node in nodes for x in node.init_sq_norm_[: len(node.subclusters_)]], np.float64),
        "centers": np.asarray(model.subcluster_centers_, np.float64),
    }


def birch_from_state(state: Any) -> sklearn.cluster.Birch:
    threshold, branching = scalar(state, "threshold", float), scalar(state, "branching_factor", int)
    width = scalar(state, "n_features", int)
    sizes, children = array(state, "sizes", "<i8", 1), array(state, "children", "<i8", 1)
    rows = {name: array(state, name, "<f8", 2) for name in ("sums", "centroids", "node_centroids", "centers")}
    counts, leaves = array(state, "counts", "<i8", 1), array(state, "leaves", "<i8", 1)
    is_leaf = array(state, "is_leaf", "|u1", 1)
    numbers = {name: array(state, name, "<f8", 1) for name in ("squared_sums", "squared_norms", "node_norms")}
    n = len(children)
    is_whole = all(len(each) == n for each in (counts, *numbers.values(), *list(rows.values())[:3]))
    if not is_whole or any(each.shape[1] != width for each in rows.values()) or not 2 <= branching <= 2**20:
        raise SavedModelError("the nodes of BIRCH's tree do not fit together")
    if 8 * len(sizes) * (branching + 1) * (width + 1) > (available_memory() or USUAL_MEMORY):
        raise SavedModelError(f"there is no memory for {len(sizes)} nodes of {branching} subclusters")
    _check_nodes(sizes, children, is_leaf, leaves, branching)
    nodes = [
        _CFNode(threshold=threshold, branching_factor=branching, is_leaf=bool(leaf), n_features=width, dtype=np.float64)
        for leaf in is_leaf
    ]
    at = 0
    for node, size in zip(nodes, sizes.tolist(), strict=True):
        part = slice(at, at + size)
        node.init_centroids_[:size], node.init_sq_norm_[:size] = (
            rows["node_centroids"][part],
            numbers["node_norms"][part],
        )
        node.centroids_, node.squared_norm_ = node.init_centroids_[:size], node.init_sq_norm_[:size]
        for i in range(at, at + size):
            sub = _CFSubcluster()
            sub.n_samples_, sub.linear_sum_ = int(counts[i]), rows["sums"][i].copy()
            sub.centroid_ = rows["centroids"][i].copy()
            sub.squared_sum_, sub.sq_norm_ = numbers["squared_sums"][i], numbers["squared_norms"][i]
            sub.child_ = None if children[i] == NONE else nodes[children[i]]
            node.subclusters_.append(sub)
        at += size
    model = sklearn.cluster.Birch(
        threshold=threshold, branching_factor=branching, n_clusters=None, compute_labels=False
    )
    model.root_, model.n_features_in_ = nodes[0], width
    model.dummy_leaf_ = _CFNode(
        threshold=threshold, branching_factor=branching, is_leaf=True, n_features=width, dtype=np.float64
    )
    before = model.dummy_leaf_
    for i in leaves.tolist():
        before.next_leaf_, nodes[i].prev_leaf_, before = nodes[i], before, nodes[i]
    model.subcluster_centers_ = rows["centers"]
    model._n_features_out = len(rows["centers"])
    model._subcluster_norms = np.einsum("ij,ij->i", rows["centers"], rows["centers"])
    model.subcluster_labels_ = np.arange(len(rows["centers"]))
    return model


def _check_nodes(sizes: Any, children: Any, is_leaf: Any, leaves: Any, branching: int) -> None:
    """Every node but the first is the child of one subcluster of an earlier node; leaves have no children."""
    n_nodes = len(sizes)
    if n_nodes == 0 or (sizes < 1).any() or (sizes > branching).any() or sizes.sum() != len(children):
        raise SavedModelError("the nodes of BIRCH's tree do not follow each other")
    owner = np.repeat(np.arange(n_nodes), sizes)
    inner = children != NONE
    if not np.array_equal(np.sort(children[inner]), np.arange(1, n_nodes)) or (children[inner] <= owner[inner]).any():
        raise SavedModelError("BIRCH's tree is not one")
    if (is_leaf > 1).any() or (inner == (is_leaf[owner] == 1)).any():
        raise SavedModelError("a leaf of BIRCH's tree has children, or another node has none")
    if not np.array_equal(np.sort(leaves), np.flatnonzero(is_leaf)):
        raise SavedModelError("the leaves of BIRCH's tree do not follow each other")
