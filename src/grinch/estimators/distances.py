"""Distances of points to clusters: to the centre of each, as in k-means, by the metric of the linkage.

The score of a point and a cluster under the linkage itself would not do for vectors. It prefers small clusters
(``"ward"``), dense ones (``"average"``, by the spread of the points in them) or narrow ones (``"complete"``), and so it
puts fewer points into the clusters they are in than the distance to the centre does (docs/development/cuts.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse

from grinch import cuts
from grinch._checks import count_rows
from grinch._types import Floats, Labels, Vectors32
from grinch._vectors import ROUNDING, paired_products, scaled, squared_lengths, unit_scale
from grinch.baselines.agglomeration import merge_and_score
from grinch.linkage.base import Linkage
from grinch.linkage.named import COUNT, LENGTH, SPREAD, VectorLinkage
from grinch.summaries.arrays import CUSTOM, StoredPoints, new_arrays
from grinch.summaries.callbacks import FORMULA, LinkageFailed
from grinch.summaries.sparse import sparse_rows
from grinch.summaries.vectors import dense_rows
from grinch.tree import NONE, Tree

# Rows that are looked at together.
PIECE = 4096
# Distances whose centre is the mean.
EUCLIDEAN = ("euclidean", "sqeuclidean")

Measure = Callable[[Any], Floats]


def distances_to_clusters(rows: Any, kept: StoredPoints, labels: Labels, tree: Tree) -> Floats:
    """Return the distance of each row to each cluster, of shape (n_rows, n_clusters).

    ``rows`` are as the linkage takes them; ``labels`` are by node id of the tree, whose leaves are the points kept.
    """
    of_points = labels[: tree.n_leaves]
    k = int(of_points.max(initial=-1)) + 1
    found = np.zeros((count_rows(rows), k))
    if k == 0:
        return found
    measure = _measure(kept, labels, tree, k)
    for start in range(0, len(found), PIECE):
        piece = rows[start : start + PIECE]
        found[start : start + PIECE] = measure(_as_kept(piece, kept) if kept.is_vectors else piece)
    return found


def _as_kept(rows: Any, kept: StoredPoints) -> Any:
    """Return rows as they are measured: sparse where the points are, and their roots where those count."""
    wide = sparse_rows(rows).astype(np.float64) if scipy.sparse.issparse(kept.rows) else _vectors(rows)
    return np.sqrt(wide) if isinstance(kept.linkage, VectorLinkage) and kept.linkage.is_of_roots else wide


def _measure(kept: StoredPoints, labels: Labels, tree: Tree, k: int) -> Measure:
    """Return the function that measures rows."""
    linkage, of_points = kept.linkage, labels[: tree.n_leaves]
    if not isinstance(linkage, VectorLinkage):
        if not kept.is_vectors:
            return _by_linkage(linkage, _merged(linkage, kept.rows, labels, tree, k))
        distance = linkage.distance  # type: ignore[attr-defined]
        if distance not in EUCLIDEAN and distance != "cosine":
            return _to_exemplars(kept, of_points, tree, distance)
        is_euclidean = distance in EUCLIDEAN
    elif linkage.is_custom:
        return _by_compiled(kept, of_points, k)
    elif linkage.metric == "dot":
        return _by_product(kept, of_points, k)
    elif linkage.name == "tanimoto":
        return _by_tanimoto(kept, of_points, k)
    else:
        is_euclidean = linkage.is_euclidean
    return (_euclidean if is_euclidean else _by_direction)(kept, of_points, k)


# By means ---------------------------------------------------------------------------------------------------------


def _by_direction(kept: StoredPoints, labels: Labels, k: int) -> Measure:
    """Return 1 minus the cosine with the mean direction, or with the mean vector (``"cosine"``), as a measure."""
    linkage: Any = kept.linkage
    is_of_sums = isinstance(linkage, VectorLinkage) and linkage.name == "cosine"
    centres = _units(_means(kept.rows, labels, k, _unchanged if is_of_sums else _units))
    return lambda rows: 1.0 - _products(_units(rows), centres)


def _by_product(kept: StoredPoints, labels: Labels, k: int) -> Measure:
    """Return minus the mean dot product as a measure."""
    centres = _means(kept.rows, labels, k, _unchanged) / kept.scale
    return lambda rows: -_products(rows, centres)


def _by_tanimoto(kept: StoredPoints, labels: Labels, k: int) -> Measure:
    """Return 1 minus the Tanimoto coefficient with the mean, x·m / (|x|² + |m|² - x·m), as a measure."""
    centres = _means(kept.rows, labels, k, _unchanged) / kept.scale
    lengths = squared_lengths(centres)
    return lambda rows: _one_minus_tanimoto(_products(rows, centres), squared_lengths(rows)[:, None] + lengths)


def _one_minus_tanimoto(products: Floats, squares: Floats) -> Floats:
    """Return it from products and the sum of both squared lengths; 1 for two zero vectors."""
    union = squares - products
    return 1.0 - np.divide(products, union, out=np.zeros_like(products), where=union > 0)


def tanimoto_to_own(kept: StoredPoints, labels: Labels) -> Floats:
    """Return 1 minus the Tanimoto coefficient of each point with the mean of its cluster; noise is one more."""
    rows = sparse_rows(kept.rows).astype(np.float64)
    k = int(labels.max(initial=-1)) + 1
    own = np.where(labels < 0, k, labels)
    means = _means(rows, own, k + 1, _unchanged)
    products = paired_products(rows, means, np.arange(len(own)), own)
    return _one_minus_tanimoto(products, squared_lengths(rows) + squared_lengths(means)[own])


def _euclidean(kept: StoredPoints, labels: Labels, k: int) -> Measure:
    """Return the distance to the mean as a measure."""
    if scipy.sparse.issparse(kept.rows):
        return _sparse_euclidean(kept, labels, k)
    origin = 0.0 if kept.origin is None else kept.origin
    means = _means(kept.rows, labels, k, _unchanged)
    # As near to the clusters as can be, for squared lengths have no digits left far from the origin.
    middle = np.median(means, axis=0)
    centres = means - middle
    lengths = squared_lengths(centres)

    def measure(rows: Floats) -> Floats:
        rows = (rows - origin) * kept.scale - middle
        squared = squared_lengths(rows)[:, None] - 2 * (rows @ centres.T) + lengths
        return np.sqrt(np.maximum(squared, 0.0)) / kept.scale

    return measure


def _sparse_euclidean(kept: StoredPoints, labels: Labels, k: int) -> Measure:
    centres = _means(kept.rows, labels, k, _unchanged)
    lengths = squared_lengths(centres)

    def measure(rows: Any) -> Floats:
        both = squared_lengths(rows)[:, None] + lengths
        squared = both - 2 * _products(rows, centres)
        return np.sqrt(np.where(squared > ROUNDING * both, squared, 0.0))

    return measure


def _products(rows: Any, centres: Any) -> Floats:
    """Return the products of all rows with all centres, dense."""
    found = rows @ centres.T
    return np.asarray(found.toarray() if scipy.sparse.issparse(found) else found)


def _pieces(rows: Any) -> Iterator[tuple[slice, Floats]]:
    for start in range(0, rows.shape[0], PIECE):
        part = slice(start, start + PIECE)
        yield part, _vectors(rows[part])


def _means(rows: Any, labels: Labels, k: int, change: Measure) -> Any:
    """Return the mean of each cluster's rows, changed first; sparse if the rows are."""
    counts = np.maximum(np.bincount(labels[labels >= 0], minlength=k), 1)
    if scipy.sparse.issparse(rows):
        own = np.flatnonzero(labels >= 0)
        shares = scipy.sparse.csr_matrix((1 / counts[labels[own]], (labels[own], own)), shape=(k, rows.shape[0]))
        return shares @ change(rows.astype(np.float64))
    sums = np.zeros((k, rows.shape[1]))
    for part, piece in _pieces(rows):
        own = np.flatnonzero(labels[part] >= 0)
        ones = scipy.sparse.csr_array((np.ones(len(own)), (labels[part][own], own)), shape=(k, len(piece)))
        sums += ones @ change(piece)
    return sums / counts[:, None]


def _spreads(rows: Any, labels: Labels, means: Floats) -> Floats:
    """Return the mean squared distance of each cluster's rows to their mean."""
    sums = np.zeros(len(means))
    for part, piece in _pieces(rows):
        own = labels[part] >= 0
        gaps = piece[own] - means[labels[part][own]]
        sums += np.bincount(labels[part][own], squared_lengths(gaps), len(means))
    return sums / np.maximum(np.bincount(labels[labels >= 0], minlength=len(means)), 1)


def _vectors(rows: Any) -> Floats:
    return np.array(dense_rows(rows), np.float64)


def _unchanged(rows: Any) -> Any:
    return rows


def _units(rows: Any) -> Any:
    """Return rows of length 1; a zero vector stays, and is similar to nothing."""
    if scipy.sparse.issparse(rows):
        return scaled(rows, unit_scale(rows))
    lengths = np.sqrt(squared_lengths(rows))
    return rows / np.where(lengths > 0, lengths, 1.0)[:, None]


# By the linkage itself --------------------------------------------------------------------------------------------


def _to_exemplars(kept: StoredPoints, labels: Labels, tree: Tree, distance: str) -> Measure:
    """Return the distance to the most central point of each cluster as a measure, where means mean nothing."""
    from scipy.spatial.distance import cdist

    points = np.concatenate(cuts.central_leaves(tree, labels, 1))
    exemplars = dense_rows(kept.rows[points]).astype(np.float64)
    return lambda rows: cdist(_vectors(rows), exemplars, distance)


def _by_compiled(kept: StoredPoints, labels: Labels, k: int) -> Measure:
    """Return minus the score under a compiled function of the user's own as a measure."""
    linkage: Any = kept.linkage
    means = _vectors(_means(kept.rows, labels, k, _unchanged))
    arrays = new_arrays(means.shape[1], CUSTOM)
    calls = arrays.calls.copy()
    calls[FORMULA] = linkage.formula.address
    # One row more, for the point that is measured.
    table, moments = np.zeros((k + 1, means.shape[1]), np.float32), np.zeros((k + 1, 3))
    table[:k] = means
    moments[:k, COUNT], moments[:k, SPREAD] = np.bincount(labels[labels >= 0]), _spreads(kept.rows, labels, means)
    moments[:k, LENGTH] = np.sqrt(np.einsum("ij,ij->i", means, means))
    arrays = arrays._replace(means=table, moments=moments, calls=calls, answers=np.zeros(k))

    def measure(rows: Any) -> Floats:
        found = np.empty((rows.shape[0], k))
        for i, row in enumerate(_vectors(rows).astype(np.float32)):
            found[i] = -_scores(row)
        return found

    def _scores(row: Vectors32) -> Floats:
        table[k], moments[k] = row, (1.0, 0.0, np.sqrt(np.dot(row, row)))
        try:
            merge_and_score(arrays, k, NONE, NONE, np.arange(k, dtype=np.int32), k)
        except LinkageFailed:
            raise ValueError(f"linkage returned nan, which is no score (for the row {row!r:.60})") from None
        return arrays.answers

    return measure


def _by_linkage(linkage: Linkage, groups: list[Any]) -> Measure:
    """Return minus the score under a linkage written in Python, from its ceiling on, as a measure."""
    batched, ceiling = getattr(linkage, "scores", None), getattr(linkage, "ceiling", None)

    def scores(record: Any) -> Any:
        alone = linkage.leaf(record)
        return [linkage.score(alone, group) for group in groups] if batched is None else batched(alone, groups)

    def measure(records: Any) -> Floats:
        found = np.empty((len(records), len(groups)))
        for i, record in enumerate(records):
            try:
                found[i] = scores(record)
            except Exception as error:
                raise ValueError(
                    f"linkage raised {type(error).__name__}: {error} (for the record {record!r:.60})"
                ) from error
            if np.isnan(found[i]).any():
                raise ValueError(f"linkage returned nan, which is no score (for the record {record!r:.60})")
        return (ceiling or 0.0) - found

    return measure


def _merged(linkage: Linkage, leaves: list[Any], labels: Labels, tree: Tree, k: int) -> list[Any]:
    """Return the summary of each cluster, merged as the tree is."""
    summaries: dict[int, Any] = dict(enumerate(leaves))
    children = tree.child_pairs()
    for v in tree.internal_nodes()[::-1].tolist():
        left, right = children[v].tolist()
        if labels[v] >= 0 and labels[left] == labels[right] == labels[v]:
            summaries[v] = linkage.merge(summaries.pop(left), summaries.pop(right))
    groups: list[Any] = [None] * k
    for v, summary in summaries.items():
        c = int(labels[v])
        if c >= 0:
            groups[c] = summary if groups[c] is None else linkage.merge(groups[c], summary)
    return groups
