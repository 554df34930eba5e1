"""The sizes of clusters, and their most central points."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.spatial.distance import cdist

from grinch import _vectors
from grinch._checks import check_count
from grinch._labels import check_labels
from grinch._types import Floats, Labels
from grinch.cuts.graph import check_metric

# Above this many points, the medoid by plain Euclidean distance is taken to be that by the squared one.
ALL_PAIRS_UP_TO = 4096
ROWS_AT_ONCE = 512


def cluster_sizes(labels: npt.ArrayLike) -> Labels:
    """Return the number of points of each cluster, by its number; -1 (noise) is left out.

    >>> cluster_sizes([0, 2, 0, -1, 2, 2]).tolist()
    [2, 0, 3]
    """
    numbers = check_labels(labels)
    return np.bincount(numbers[numbers >= 0])


def exemplars(vectors: Any, labels: npt.ArrayLike, metric: str = "cosine") -> Labels:
    """Return the medoid of each cluster: the point whose distances to all others of it have the smallest sum.

    By cosine and by squared Euclidean distance it is exact in O(n d): Σ (1 - u_i·u_j) over j is smallest where u_i is
    nearest to the summed unit vectors, and Σ |x_i - x_j|² = m |x_i - mean|² + what is the same for all i. By Euclidean
    distance it is found from all pairs in clusters of up to 4,096 points, and by the squared distance in larger ones.

    Parameters
    ----------
    vectors : array-like or sparse matrix of shape (n_points, n_features)
        The points.
    labels : array-like of int of shape (n_points,)
        The cluster of each point; -1 (noise) is left out.
    metric : {"cosine", "euclidean", "sqeuclidean"}
        The distance. A zero vector has a cosine distance of 1 to all.

    Returns
    -------
    array of shape (largest label + 1,)
        Positions of points by cluster number, -1 for a number without points.

    Examples
    --------
    >>> exemplars([[0.0], [1.0], [5.0], [8.0], [7.0]], [0, 0, 0, 1, -1], metric="euclidean").tolist()
    [1, 3]
    """
    return np.array([own[0] if len(own) else -1 for own in central_points(vectors, labels, 1, metric)], dtype=np.int64)


def central_points(vectors: Any, labels: npt.ArrayLike, n: int = 3, metric: str = "cosine") -> list[Labels]:
    """Return the most central points of each cluster: those whose distances to all others of it have the smallest sums.

    Parameters are those of :func:`exemplars`; ``n`` is the number of points of each cluster.

    Returns
    -------
    list of arrays
        By cluster number, the positions of up to ``n`` points, the most central first; of equals, the first to arrive.

    Examples
    --------
    >>> vectors = [[0.0], [1.0], [5.0], [8.0], [7.0]]
    >>> [points.tolist() for points in central_points(vectors, [0, 0, 0, 1, -1], n=2, metric="euclidean")]
    [[1, 0], [3]]
    """
    check_metric(metric)
    numbers = check_labels(labels)
    matrix = _vectors.check_vectors(vectors, len(numbers))
    # Noise is one more cluster, whose points are dropped at the end.
    own = np.where(numbers < 0, numbers.max(initial=-1) + 1, numbers)
    remoteness = _from_sums(matrix, own) if metric == "cosine" else _from_means(matrix, own)
    if metric == "euclidean":
        points = np.argsort(numbers, kind="stable")[(numbers < 0).sum() :]
        for members in np.split(points, np.cumsum(cluster_sizes(numbers))[:-1]):
            if 2 < len(members) <= ALL_PAIRS_UP_TO:
                remoteness[members] = _summed_distances(matrix[members].astype(np.float64))
    return nearest_first(remoteness, numbers, check_count("n", n, 1))


def nearest_first(remoteness: Floats, numbers: Labels, n: int) -> list[Labels]:
    """Return, by cluster, up to ``n`` points of the smallest remoteness, the smallest first."""
    order = np.lexsort((remoteness, numbers))
    sizes = cluster_sizes(numbers)
    starts = int((numbers < 0).sum()) + np.cumsum(sizes) - sizes
    most = np.minimum(sizes, n)
    return [order[start : start + count] for start, count in zip(starts.tolist(), most.tolist(), strict=True)]


def _from_sums(matrix: Any, own: Labels) -> Floats:
    """Return minus the dot product of each unit vector with the sum of the others of its cluster."""
    scale, remoteness = _vectors.unit_scale(matrix), np.zeros(len(own))
    if scipy.sparse.issparse(matrix):
        units = _vectors.scaled(matrix, scale)
        products = _vectors.paired_products(units, _sums(units, own), np.arange(len(own)), own)
        return _vectors.squared_lengths(units) - products
    for column in _vectors.columns(matrix):
        unit = column * scale
        remoteness -= unit * (np.bincount(own, unit)[own] - unit)
    return remoteness


def _from_means(matrix: Any, own: Labels) -> Floats:
    """Return the squared distance of each vector to the mean of its cluster."""
    remoteness, counts = np.zeros(len(own)), np.maximum(np.bincount(own), 1)
    if scipy.sparse.issparse(matrix):
        means = _vectors.scaled(_sums(matrix, own), 1 / counts)
        return _vectors.squared_distances(matrix, means, np.arange(len(own)), own)
    for column in _vectors.columns(matrix):
        remoteness += (column - (np.bincount(own, column) / counts)[own]) ** 2
    return remoteness


def _sums(matrix: Any, own: Labels) -> Any:
    """Return the sum of each cluster's rows, as a CSR matrix."""
    ones = scipy.sparse.csr_array((np.ones(len(own)), (own, np.arange(len(own)))))
    return scipy.sparse.csr_array(ones @ matrix)


def _summed_distances(matrix: Any) -> Floats:
    """Return the sum of the distances of each vector to all others, a few rows at a time."""
    is_sparse = scipy.sparse.issparse(matrix)
    squares, sums = _vectors.squared_lengths(matrix) if is_sparse else np.empty(0), np.empty(matrix.shape[0])
    for start in range(0, len(sums), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        if is_sparse:
            both = squares[part, None] + squares
            squared = both - 2 * (matrix[part] @ matrix.T).toarray()
            sums[part] = np.sqrt(np.where(squared > _vectors.ROUNDING * both, squared, 0.0)).sum(axis=1)
        else:
            sums[part] = cdist(matrix[part], matrix).sum(axis=1)
    return sums
