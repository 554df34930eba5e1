"""The graph of nearest neighbours by which a tree is cut, with a weight for each edge."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._checks import check_count, check_name
from grinch._compile import jitable, kernel
from grinch._types import Ids, Vectors32
from grinch._vectors import (
    ROUNDING,
    check_vectors,
    nearest_rows,
    scaled,
    squared_distances,
    squared_lengths,
    unit_scale,
)
from grinch.tree import NONE

METRICS = ("cosine", "euclidean", "sqeuclidean")
N_NEIGHBORS = 25
# The weight of an edge that only one end names, against 1 for an edge that both name.
ONE_SIDED = 0.1
# An edge that is half as long as the edges beside it weighs 2 ** 1.5 times as much; at most ten times.
LOCAL = 1.5
MAX_LOCAL = 10.0

Weights = npt.NDArray[np.float32]


class NeighborGraph(NamedTuple):
    """By point, its neighbours (``near``, padded with -1) and the weight of each edge (0 where there is none)."""

    near: Ids
    weights: Weights


def neighbor_graph(vectors: Any, metric: str = "cosine", n_neighbors: int = N_NEIGHBORS) -> NeighborGraph:
    """Return the graph of the nearest neighbours of each point, found exactly by comparing all with all.

    An edge that both ends name weighs ten times as much as one that only one end names; an edge weighs more the closer
    its ends are, compared with two random points of the set, and with their other neighbours.

    Parameters
    ----------
    vectors : array-like or sparse matrix of shape (n_points, n_features)
        The points.
    metric : {"cosine", "euclidean", "sqeuclidean"}
        The distance; both Euclidean ones give the same graph.
    n_neighbors : int
        Neighbours of each point.

    Examples
    --------
    >>> graph = neighbor_graph([[0.0], [1.0], [7.0], [9.0]], metric="euclidean", n_neighbors=1)
    >>> graph.near.ravel().tolist()
    [1, 0, 3, 2]
    """
    check_count("n_neighbors", n_neighbors, 1)
    rows = comparable(vectors, metric)
    squares = squared_lengths(rows) if scipy.sparse.issparse(rows) else np.einsum("ij,ij->i", rows, rows)
    return weighted(nearest_rows(rows, -0.5 * squares, min(n_neighbors, rows.shape[0] - 1)), rows)


def check_metric(metric: str) -> None:
    """Refuse a metric that there is not."""
    check_name("metric", metric, METRICS)


def check_graph(graph: Any, n: int) -> NeighborGraph:
    """Return a graph of ``n`` points, checked."""
    near, weights = np.asarray(graph[0]), np.asarray(graph[1])
    if near.ndim != 2 or len(near) != n or weights.shape != near.shape or near.dtype.kind not in "iu":
        raise ValueError(
            f"graph must have neighbours and weights in a row for each of the {n} points; got shapes {near.shape} and"
            f" {weights.shape}: neighbor_graph(vectors) makes one"
        )
    if near.size and not (near.min() >= NONE and near.max() < n):
        raise ValueError(
            f"graph must name points from 0 to {n - 1}, or -1 for none; got numbers from {near.min()} to {near.max()}"
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError("graph must have finite weights of at least 0; got others")
    return NeighborGraph(near.astype(np.int32), weights.astype(np.float32))


def comparable(vectors: Any, metric: str) -> Any:
    """Return rows whose Euclidean distances are those of the metric: unit vectors by cosine, else centred points.

    Sparse rows stay sparse (CSR), and are not centred: that changes no distance.
    """
    check_metric(metric)
    matrix = check_vectors(vectors, vectors.shape[0] if hasattr(vectors, "shape") else len(vectors))
    if scipy.sparse.issparse(matrix):
        return (scaled(matrix, unit_scale(matrix)) if metric == "cosine" else matrix).astype(np.float32)
    if metric != "cosine":
        return np.asarray(matrix - matrix.mean(axis=0, dtype=np.float64), np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    return np.asarray(matrix / np.where(lengths > 0, lengths, 1.0)[:, None], np.float32)


def weighted(near: Ids, rows: Any = None) -> NeighborGraph:
    """Return the graph of these neighbours, nearest first; ``rows`` are as from :func:`comparable`, if known."""
    near = np.ascontiguousarray(near, np.int32)
    if rows is None:
        return weighted_by(near, None, 0.0)
    # The mean squared distance of all pairs is twice the variance.
    return weighted_by(near, distances_of(near, rows), 2 * _variance(rows))


def weighted_by(near: Ids, squared: Weights | None, typical: float) -> NeighborGraph:
    """Return the graph of these neighbours, by the squared distance of each and the mean one of all pairs."""
    weights = np.empty(near.shape, np.float32)
    _weigh_by_naming(near, weights)
    if squared is not None and near.shape[1] and typical > 0:
        _weigh_by_distance(near, squared, typical, weights)
    return NeighborGraph(near, weights)


def distances_of(near: Ids, rows: Any) -> Weights:
    """Return, by point, the squared distance of each neighbour; 0 where there is none.

    >>> distances_of(np.array([[1], [0], [-1]], np.int32), np.array([[0], [2], [9]], np.float32)).tolist()
    [[4.0], [4.0], [0.0]]
    """
    squared = np.zeros(near.shape, np.float32)
    if scipy.sparse.issparse(rows):
        points, places = np.nonzero(near != NONE)
        squared[points, places] = squared_distances(rows, rows, points, near[points, places])
    else:
        _fill_squared_distances(near, rows, squared)
    return squared


def _variance(rows: Any) -> float:
    """Return the mean squared distance of rows to their mean."""
    if not scipy.sparse.issparse(rows):
        return float(np.var(rows, axis=0, dtype=np.float64).sum())
    mean = np.bincount(rows.indices, rows.data, rows.shape[1]) / max(rows.shape[0], 1)
    square = float(squared_lengths(rows).mean())
    variance = square - float(mean @ mean)
    return variance if variance > ROUNDING * square else 0.0


@kernel
def _weigh_by_naming(near: Ids, weights: Weights) -> None:
    """Return weigh edges by whether both ends name each other: such an edge is there twice, and each counts half."""
    for i in range(near.shape[0]):
        for j in range(near.shape[1]):
            weights[i, j] = 0.0 if near[i, j] == NONE else ONE_SIDED
            if near[i, j] != NONE:
                for back in range(near.shape[1]):
                    if near[near[i, j], back] == i:
                        weights[i, j] = 0.5


@kernel
def _fill_squared_distances(near: Ids, rows: Vectors32, squared: Weights) -> None:
    for i in range(near.shape[0]):
        for j in range(near.shape[1]):
            total = np.float32(0)
            if near[i, j] != NONE:
                for c in range(rows.shape[1]):
                    step = rows[i, c] - rows[near[i, j], c]
                    total += step * step
            squared[i, j] = total


@kernel
def _weigh_by_distance(near: Ids, squared: Weights, typical: float, weights: Weights) -> None:
    """Let edges weigh more that are short, compared with two random points and with the edges beside them."""
    least = 1e-9 * typical
    for i in range(near.shape[0]):
        for j in range(near.shape[1]):
            if near[i, j] == NONE:
                continue
            apart = max(squared[i, j], least)
            close = max(1 - apart / typical, 1e-3)
            around = max(_middle(near, squared, i), least) * max(_middle(near, squared, near[i, j]), least)
            weights[i, j] *= close * close * min((around / (apart * apart)) ** (LOCAL / 4), MAX_LOCAL)


@jitable
def _middle(near: Ids, squared: Weights, i: int) -> float:
    """Return the squared distance of a point from the neighbour in the middle of its list."""
    known = near.shape[1]
    while known > 1 and near[i, known - 1] == NONE:
        known -= 1
    return squared[i, (known - 1) // 2]
