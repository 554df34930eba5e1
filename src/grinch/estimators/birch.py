"""BIRCH by scikit-learn, as a binary tree of all points."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sklearn.cluster
from scipy.cluster.hierarchy import linkage
from sklearn.metrics import pairwise_distances, pairwise_distances_argmin

from grinch import cuts
from grinch._checks import check_count
from grinch._interrupts import uninterrupted
from grinch._types import Advance, count_rows
from grinch.errors import unknown_name
from grinch.estimators.base import IncrementalClusterer
from grinch.estimators.checks import check_vectors
from grinch.summaries.vectors import dense_rows
from grinch.tree import Tree

METRICS = ("euclidean", "cosine")
# Points taken in at a time, so that the progress bar moves and Ctrl-C is heard.
PIECE = 1000
# Up to this many nodes are joined by HAC, more of them two by two in the order they came.
JOINED_BY_HAC = 1000
# Points that the radius is estimated from.
SAMPLE = 1000

FloatArray = npt.NDArray[np.float64]


class Birch(IncrementalClusterer):
    """scikit-learn's BIRCH, with the tree behind it: a tree of cluster features that every point descends.

    The nodes of that tree have up to ``branching_factor`` children; they are joined into a binary tree by Ward's
    linkage of their means, and so are the points of each of the finest clusters.

    Parameters
    ----------
    metric : {"euclidean", "cosine"}, default="euclidean"
        Euclidean distance of the points, or of their directions.
    radius : float or "auto", default="auto"
        The largest radius of the finest clusters (scikit-learn calls it ``threshold``); ``"auto"`` is half the median
        distance to the nearest neighbour among the first points.
    branching_factor : int, default=50
        The most children of a node.
    n_clusters, threshold, shuffle, random_state, verbose
        As in :class:`~grinch.Grinch`; so are ``tree_``, ``labels_``, ``ids_``, ``clusters_`` and ``stats_``. A score is
        minus the height at which Ward's linkage joins two nodes.

    Examples
    --------
    >>> from grinch import Birch
    >>> Birch(n_clusters=2).fit_predict([[0.0, 0], [9, 9], [0, 1], [9, 8], [1, 1]]).tolist()
    [0, 1, 0, 1, 0]
    """

    def __init__(
        self,
        *,
        metric: str = "euclidean",
        radius: float | str = "auto",
        branching_factor: int = 50,
        n_clusters: int | None = None,
        threshold: float | None = None,
        shuffle: bool = False,
        random_state: Any = None,
        verbose: bool | int = False,
    ):
        self.metric = metric
        self.radius = radius
        self.branching_factor = branching_factor
        self.n_clusters = n_clusters
        self.threshold = threshold
        self.shuffle = shuffle
        self.random_state = random_state
        self.verbose = verbose

    def _checked(self, X: Any, reset: bool) -> Any:
        if self.metric not in METRICS:
            raise unknown_name("metric", self.metric, METRICS)
        radius: Any = self.radius
        is_number = isinstance(radius, Real) and not isinstance(radius, bool)
        if radius != "auto" and not (is_number and 0 < float(radius) < np.inf):
            raise ValueError(f"radius must be a positive number, or 'auto'; got {self.radius!r}")
        check_count("branching_factor", self.branching_factor, 2)
        cuts.check_cut(self.n_clusters, self.threshold)
        return check_vectors(self, X, reset)

    def _new_builder(self, rows: Any) -> BirchBuilder:
        return BirchBuilder(self.radius, self.branching_factor, self.metric == "cosine")


class BirchBuilder:
    """scikit-learn's tree of cluster features, and the points that went through it."""

    def __init__(self, radius: float | str, branching_factor: int, unit_length: bool):
        self._radius, self._branching_factor, self._unit_length = radius, branching_factor, unit_length
        self._model: sklearn.cluster.Birch | None = None
        self._pieces: list[npt.NDArray[np.float32]] = []

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


def _estimated_radius(points: FloatArray) -> float:
    """Half the median distance to the nearest neighbour elsewhere, so that only what is very near is put together."""
    apart = pairwise_distances(points[:SAMPLE])
    apart[apart == 0] = np.inf
    nearest = apart.min(axis=1, initial=np.inf)
    nearest = nearest[np.isfinite(nearest)]
    return float(np.median(nearest)) / 2 if len(nearest) else 0.5


class Top(NamedTuple):
    """The top node of points already joined: its number, their mean, and how many they are."""

    node: int
    mean: FloatArray
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
    """Pairs of two lists that get longer while they are gone through."""
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
