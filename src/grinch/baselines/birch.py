"""BIRCH by scikit-learn: what makes a binary tree of its tree of cluster features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import sklearn.cluster
from scipy.cluster.hierarchy import linkage
from sklearn.metrics import pairwise_distances, pairwise_distances_argmin

from grinch._interrupts import uninterrupted
from grinch._types import Advance, Floats, count_rows
from grinch.baselines.saved_birch import birch_from_state, birch_to_state
from grinch.linkage.named import linkage_of
from grinch.saving.state import Fields, State, array, item, optional_vector, require
from grinch.summaries.arrays import StoredPoints
from grinch.summaries.vectors import better_origin, dense_rows
from grinch.tree import Tree

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
                self._model = sklearn.cluster.Birch(
                    threshold=radius, branching_factor=self._branching_factor, n_clusters=None, compute_labels=False
                )
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
        """The points in the order they came; BIRCH compares them by their means."""
        linkage = linkage_of("average", "cosine") if self._unit_length else linkage_of("centroid")
        return StoredPoints(np.concatenate(self._pieces), linkage, self._origin)


def _estimated_radius(points: Floats) -> float:
    """Half the median distance to the nearest neighbour elsewhere, so that only what is very near is put together."""
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
    """The binary tree of a fitted BIRCH: points go down to the nearest mean, and what is in one node is joined."""
    nodes, members, parts = [model.root_], [np.arange(len(points))], []
    for node, inside in _growing(nodes, members):
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
    merges = Merges(len(points))
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


def _growing(nodes: list[Any], members: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Pairs from two lists that grow during the iteration."""
    i = 0
    while i < len(nodes):
        yield nodes[i], members[i]
        i += 1


class Merges:
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
