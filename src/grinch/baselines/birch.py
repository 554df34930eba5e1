"""Builder of BIRCH: scikit-learn's tree of cluster features, saved as arrays and made binary."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import sklearn.cluster
from scipy.cluster.hierarchy import linkage
from sklearn.cluster._birch import _CFNode, _CFSubcluster
from sklearn.metrics import pairwise_distances, pairwise_distances_argmin

from grinch._checks import available_memory, count_rows
from grinch._interrupts import uninterrupted
from grinch._types import Advance, Floats
from grinch.errors import SavedModelError
from grinch.linkage.named import linkage_of
from grinch.saving.state import USUAL_MEMORY, Fields, State, array, item, optional_vector, require
from grinch.summaries.arrays import StoredPoints
from grinch.summaries.vectors import better_origin, dense_rows
from grinch.tree import Tree

NONE = -1


# Of scikit-learn's tree: by node, by leaf in their order, by subcluster, and by centre that points are assigned to.
MODEL_FIELDS = Fields(
    threshold=float,
    branching_factor=int,
    n_features=int,
    sizes=("<i8", 1),
    is_leaf=("|u1", 1),
    leaves=("<i8", 1),
    children=("<i8", 1),
    counts=("<i8", 1),
    sums=("<f8", 2),
    centroids=("<f8", 2),
    node_centroids=("<f8", 2),
    squared_sums=("<f8", 1),
    squared_norms=("<f8", 1),
    node_norms=("<f8", 1),
    centers=("<f8", 2),
)
# What scikit-learn keeps of a subcluster.
OF_SUBCLUSTERS = {
    "counts": "n_samples_",
    "sums": "linear_sum_",
    "centroids": "centroid_",
    "squared_sums": "squared_sum_",
    "squared_norms": "sq_norm_",
}


def birch_to_state(model: sklearn.cluster.Birch) -> State:
    """Return the nodes level by level: the subclusters of each, and their numbers and children."""
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
    held = SimpleNamespace(
        threshold=model.threshold,
        branching_factor=model.branching_factor,
        n_features=model.root_.n_features,
        sizes=[len(node.subclusters_) for node in nodes],
        is_leaf=[node.is_leaf for node in nodes],
        leaves=leaves,
        children=children,
        # Of a node that was divided, its arrays may be behind what its subclusters say.
        node_centroids=[row for node in nodes for row in node.init_centroids_[: len(node.subclusters_)]],
        node_norms=[x for node in nodes for x in node.init_sq_norm_[: len(node.subclusters_)]],
        centers=model.subcluster_centers_,
        **{name: [getattr(sub, attribute) for sub in subclusters] for name, attribute in OF_SUBCLUSTERS.items()},
    )
    return MODEL_FIELDS.take(held)


def birch_from_state(state: Any) -> sklearn.cluster.Birch:
    """Return the model of a state, or raise an error if its nodes do not make a tree."""
    held = SimpleNamespace(**MODEL_FIELDS.read(state))
    width, branching = held.n_features, held.branching_factor
    matrices = [held.sums, held.centroids, held.node_centroids]
    vectors = [held.counts, held.squared_sums, held.squared_norms, held.node_norms]
    is_whole = all(len(each) == len(held.children) for each in (*vectors, *matrices))
    is_wide = all(each.shape[1] == width for each in (*matrices, held.centers))
    if not is_whole or not is_wide or not 2 <= branching <= 2**20:
        raise SavedModelError("the nodes of BIRCH's tree do not fit together")
    if 8 * len(held.sizes) * (branching + 1) * (width + 1) > (available_memory() or USUAL_MEMORY):
        raise SavedModelError(f"there is no memory for {len(held.sizes)} nodes of {branching} subclusters")
    _check_nodes(held.sizes, held.children, held.is_leaf, held.leaves, branching)
    model = _new_model(held.threshold, branching)
    nodes = [_new_node(model, bool(leaf), width) for leaf in held.is_leaf]
    at = 0
    for node, size in zip(nodes, held.sizes.tolist(), strict=True):
        node.init_centroids_[:size] = held.node_centroids[at : at + size]
        node.init_sq_norm_[:size] = held.node_norms[at : at + size]
        node.centroids_, node.squared_norm_ = node.init_centroids_[:size], node.init_sq_norm_[:size]
        for i in range(at, at + size):
            sub = _CFSubcluster()
            for name, attribute in OF_SUBCLUSTERS.items():
                setattr(sub, attribute, getattr(held, name)[i].copy())
            sub.child_ = None if held.children[i] == NONE else nodes[held.children[i]]
            node.subclusters_.append(sub)
        at += size
    model.root_, model.n_features_in_ = nodes[0], width
    model.dummy_leaf_ = before = _new_node(model, True, width)
    for i in held.leaves.tolist():
        before.next_leaf_, nodes[i].prev_leaf_, before = nodes[i], before, nodes[i]
    model.subcluster_centers_ = held.centers
    model._n_features_out = len(held.centers)
    model._subcluster_norms = np.einsum("ij,ij->i", held.centers, held.centers)
    model.subcluster_labels_ = np.arange(len(held.centers))
    return model


def _new_model(radius: float, branching_factor: int) -> sklearn.cluster.Birch:
    return sklearn.cluster.Birch(
        threshold=radius, branching_factor=branching_factor, n_clusters=None, compute_labels=False
    )


def _new_node(model: sklearn.cluster.Birch, is_leaf: bool, n_features: int) -> Any:
    return _CFNode(
        threshold=model.threshold,
        branching_factor=model.branching_factor,
        is_leaf=is_leaf,
        n_features=n_features,
        dtype=np.float64,
    )


def _check_nodes(sizes: Any, children: Any, is_leaf: Any, leaves: Any, branching: int) -> None:
    """Check that every node but the first is the child of one subcluster of an earlier node, and leaves have none."""
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


# Points taken in at a time, so that the progress bar moves and Ctrl-C is heard.
PIECE = 1000
# Up to this many nodes are joined by HAC, more of them two by two in the order they came.
JOINED_BY_HAC = 1000
# Points that the radius is estimated from.
SAMPLE = 1000
FIELDS = Fields(_branching_factor=int, _unit_length=bool)


class BirchBuilder:
    """scikit-learn's tree of cluster features, and the points that went through it."""

    def __init__(self, radius: float | str, branching_factor: int, unit_length: bool):
        self._radius, self._branching_factor, self._unit_length = radius, branching_factor, unit_length
        self._model: sklearn.cluster.Birch | None = None
        self._origin: Floats | None = None
        self._pieces: list[npt.NDArray[np.float32]] = []

    def to_state(self) -> State:
        """Return what a file holds of the builder."""
        return {
            **FIELDS.take(self),
            "radius": self._radius if isinstance(self._radius, str) else float(self._radius),
            "origin": self._origin,
            "pieces": list(self._pieces),
            "model": None if self._model is None else birch_to_state(self._model),
        }

    @classmethod
    def from_state(cls, state: Any) -> Self:
        builder, radius = FIELDS.new(cls, state), item(state, "radius")
        require(radius == "auto" or type(radius) is float, f"{radius!r:.60} is no radius")
        builder._radius = radius
        builder._pieces = [array({"piece": piece}, "piece", "<f4", 2) for piece in item(state, "pieces")]
        width = builder._pieces[0].shape[1] if builder._pieces else 0
        builder._origin = optional_vector(state, "origin", width)
        builder._model = None if item(state, "model") is None else birch_from_state(state["model"])
        return builder

    def validate(self) -> None:
        """Refuse points that are not those of the model."""
        widths = {piece.shape[1] for piece in self._pieces}
        require(len(widths) <= 1 and (self._model is None) == (not self._pieces), "points are missing")
        require(all(np.isfinite(piece).all() for piece in self._pieces), "a vector is not finite")
        is_right = self._model is None or self._model.n_features_in_ in widths
        require(is_right, "vectors are not as long as they should be")

    @property
    def n_leaves(self) -> int:
        return sum(map(len, self._pieces))

    @property
    def stats(self) -> dict[str, int]:
        return {"subclusters": 0 if self._model is None else len(self._model.subcluster_centers_)}

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        for start in range(0, count_rows(rows), PIECE):
            piece = dense_rows(rows[start : start + PIECE]).astype(np.float64)
            if self._unit_length:
                lengths = np.linalg.norm(piece, axis=1, keepdims=True)
                piece = piece / np.where(lengths > 0, lengths, 1.0)
            if self._model is None:
                # scikit-learn's tree works on squared lengths, which have no digits left far from the origin.
                self._origin = None if self._unit_length else better_origin(piece, np.zeros(piece.shape[1]))
            if self._origin is not None:
                piece = piece - self._origin
            if self._model is None:
                radius = _estimated_radius(piece) if self._radius == "auto" else float(self._radius)
                self._model = _new_model(radius, self._branching_factor)
            with uninterrupted():
                self._model.partial_fit(piece)
                self._pieces.append(piece.astype(np.float32))
            if progress is not None:
                progress(len(piece))

    def tree(self) -> Tree:
        assert self._model is not None
        points = np.concatenate(self._pieces)
        return binary_tree(self._model, points)

    def kept(self) -> StoredPoints:
        """Return the points in the order they came; BIRCH compares them by their means."""
        linkage = linkage_of("average", "cosine") if self._unit_length else linkage_of("centroid")
        return StoredPoints(np.concatenate(self._pieces), linkage, self._origin)


def _estimated_radius(points: Floats) -> float:
    """Return half the median distance to the nearest neighbour, so that only near duplicates share a subcluster."""
    apart = pairwise_distances(points[:SAMPLE])
    apart[apart == 0] = np.inf
    nearest = apart.min(axis=1, initial=np.inf)
    nearest = nearest[np.isfinite(nearest)]
    return float(np.median(nearest)) / 2 if len(nearest) else 0.5


class Top(NamedTuple):
    """The top node of points already joined: its number, their mean, and how many they are."""

    node: int
    mean: Floats
    size: int


def binary_tree(model: sklearn.cluster.Birch, points: npt.NDArray[np.float32]) -> Tree:
    """Return a fitted BIRCH as a binary tree: points descend to the nearest mean, and those of a node are joined."""
    nodes, members, parts = [model.root_], [np.arange(len(points))], []
    # Both lists grow on the way.
    for node, inside in zip(nodes, members, strict=True):
        closest = pairwise_distances_argmin(points[inside], node.centroids_)
        here: list[npt.NDArray[np.int64] | int] = []
        for i, sub in enumerate(node.subclusters_):
            own = inside[closest == i]
            if sub.child_ is None:
                here.append(own)
            elif len(own):
                here.append(len(nodes))
                nodes.append(sub.child_)
                members.append(own)
        parts.append(here)
    merges = MergeList(len(points))
    tops: dict[int, Top] = {}
    for i in range(len(nodes) - 1, -1, -1):
        found = [
            tops[part]
            if isinstance(part, int)
            else merges.join([Top(int(x), points[x].astype(float), 1) for x in part])
            for part in parts[i]
            if isinstance(part, int) or len(part)
        ]
        tops[i] = merges.join(found)
    return Tree.from_merges(np.array(merges.pairs, np.int64).reshape(-1, 2), -np.array(merges.heights), 0.0)


class MergeList:
    """Merges into a binary tree: pairs of nodes and their heights, leaves numbered first."""

    def __init__(self, n_leaves: int):
        self.n_leaves = n_leaves
        self.pairs: list[tuple[int, int]] = []
        self.heights: list[float] = []

    def join(self, tops: list[Top]) -> Top:
        """Join nodes into one, by Ward's linkage of their means."""
        while len(tops) > JOINED_BY_HAC:
            tops = [self._pair(*tops[i : i + 2]) for i in range(0, len(tops), 2)]
        if len(tops) == 1:
            return tops[0]
        known = list(tops)
        for left, right, height, _ in linkage(np.array([top.mean for top in tops]), "ward"):
            known.append(self._merge(known[int(left)], known[int(right)], float(height)))
        return known[-1]

    def _pair(self, a: Top, b: Top | None = None) -> Top:
        return a if b is None else self._merge(a, b, float(np.linalg.norm(a.mean - b.mean)))

    def _merge(self, a: Top, b: Top, height: float) -> Top:
        self.pairs.append((a.node, b.node))
        self.heights.append(height)
        mean = (a.mean * a.size + b.mean * b.size) / (a.size + b.size)
        return Top(self.n_leaves + len(self.pairs) - 1, mean, a.size + b.size)
