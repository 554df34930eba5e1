"""How far points are from clusters, under the linkage that made these.

A group that is summarised by its mean has a closed form; see :mod:`grinch.linkage.vector`. Ward's cost of a merge and
the squared distance of centroids both become the distance to the mean, as k-means has it: Ward's would prefer small
clusters, and squares have no units that anyone thinks in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse

from grinch._types import Floats, Labels, Vectors32, count_rows
from grinch.baselines.agglomeration import merge_and_score
from grinch.linkage.base import Linkage, VectorLinkage
from grinch.linkage.pairwise import Pairwise
from grinch.linkage.vector import COUNT, LENGTH, SPREAD
from grinch.summaries.arrays import CUSTOM, new_arrays
from grinch.summaries.callbacks import FORMULA, LinkageFailed
from grinch.summaries.kept import Kept
from grinch.summaries.vectors import dense_rows
from grinch.tree import NONE, Tree

# Rows that are looked at together, and numbers in a table of distances of pairs.
PIECE, PAIRS = 4096, 2**22

Measure = Callable[[Floats], Floats]


def distances_to_clusters(rows: Any, kept: Kept, labels: Labels, tree: Tree) -> Floats:
    """The distance of each row to each cluster, of shape (n_rows, n_clusters).

    ``rows`` are as the linkage takes them; ``labels`` are by node id of the tree, whose leaves are the points kept.
    """
    of_points = labels[: tree.n_leaves]
    k = int(of_points.max(initial=-1)) + 1
    found = np.zeros((count_rows(rows), k))
    if k == 0:
        return found
    measure, size = _measure(kept, labels, tree, k)
    for start in range(0, len(found), size):
        piece = rows[start : start + size]
        found[start : start + size] = measure(dense_rows(piece).astype(np.float64) if kept.is_vectors else piece)
    return found


def _measure(kept: Kept, labels: Labels, tree: Tree, k: int) -> tuple[Measure, int]:
    """What measures some rows, and how many it can take at a time."""
    linkage, of_points = kept.linkage, labels[: tree.n_leaves]
    if not isinstance(linkage, VectorLinkage):
        if kept.is_vectors:
            return _over_pairs(kept, of_points, k), max(1, PAIRS // tree.n_leaves)
        return _by_linkage(linkage, _merged(linkage, kept.rows, labels, tree, k)), PIECE
    if linkage.is_custom:
        return _by_compiled(kept, of_points, k), PIECE
    return (_euclidean if linkage.is_euclidean else _by_direction)(kept, of_points, k), PIECE


# By means ---------------------------------------------------------------------------------------------------------


def _by_direction(kept: Kept, labels: Labels, k: int) -> Measure:
    """1 minus the mean cosine, or minus the mean dot product; 1 minus the cosine of the sum for ``"cosine"``."""
    linkage: Any = kept.linkage
    is_unit = linkage.is_spherical
    centres = _means(kept.rows, labels, k, _units if is_unit else _unchanged)
    if linkage.name == "cosine":
        centres = _units(centres)
    scale = 1.0 if linkage.ceiling is not None else kept.scale

    def measure(rows: Floats) -> Floats:
        rows = rows if linkage.ceiling is None else _units(rows)
        return (linkage.ceiling or 0.0) - rows @ centres.T / scale

    return measure


def _euclidean(kept: Kept, labels: Labels, k: int) -> Measure:
    """The distance to the mean; for average linkage, the root of the mean squared distance to the points."""
    linkage: Any = kept.linkage
    origin = 0.0 if kept.origin is None else kept.origin
    # As near to the clusters as can be, for squared lengths have no digits left far from the origin.
    means = _means(kept.rows, labels, k, _unchanged)
    middle = np.median(means, axis=0)
    centres = means - middle
    added = np.einsum("ij,ij->i", centres, centres)
    if linkage.name == "average":
        added = added + _spreads(kept.rows, labels, means)

    def measure(rows: Floats) -> Floats:
        rows = (rows - origin) * kept.scale - middle
        squared = np.einsum("ij,ij->i", rows, rows)[:, None] - 2 * (rows @ centres.T) + added
        return np.sqrt(np.maximum(squared, 0.0)) / kept.scale

    return measure


def _pieces(rows: Any) -> Iterator[tuple[slice, Floats]]:
    for start in range(0, rows.shape[0], PIECE):
        part = slice(start, start + PIECE)
        yield part, dense_rows(rows[part]).astype(np.float64)


def _means(rows: Any, labels: Labels, k: int, change: Measure) -> Floats:
    """The mean of each cluster's rows, changed first."""
    sums = np.zeros((k, rows.shape[1]))
    for part, piece in _pieces(rows):
        own = np.flatnonzero(labels[part] >= 0)
        ones = scipy.sparse.csr_array((np.ones(len(own)), (labels[part][own], own)), shape=(k, len(piece)))
        sums += ones @ change(piece)
    return sums / np.maximum(np.bincount(labels[labels >= 0], minlength=k), 1)[:, None]


def _spreads(rows: Any, labels: Labels, means: Floats) -> Floats:
    """The mean squared distance of each cluster's rows to their mean."""
    sums = np.zeros(len(means))
    for part, piece in _pieces(rows):
        own = labels[part] >= 0
        gaps = piece[own] - means[labels[part][own]]
        sums += np.bincount(labels[part][own], np.einsum("ij,ij->i", gaps, gaps), len(means))
    return sums / np.maximum(np.bincount(labels[labels >= 0], minlength=len(means)), 1)


def _unchanged(rows: Floats) -> Floats:
    return rows


def _units(rows: Floats) -> Floats:
    """Rows of length 1; a zero vector stays, and is similar to nothing."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return rows / np.where(lengths > 0, lengths, 1.0)[:, None]


# By the linkage itself --------------------------------------------------------------------------------------------


def _over_pairs(kept: Kept, labels: Labels, k: int) -> Measure:
    """The smallest, greatest or mean distance to the points of the cluster, for single, complete and average."""
    from scipy.spatial.distance import cdist

    linkage: Any = kept.linkage
    assert isinstance(linkage, Pairwise)
    order = np.argsort(labels, kind="stable")[(labels < 0).sum() :]
    points, sizes = dense_rows(kept.rows[order]).astype(np.float64), np.bincount(labels[order], minlength=k)
    starts = np.cumsum(sizes) - sizes
    joined = {"single": np.minimum, "complete": np.maximum, "average": np.add}[linkage.kind]

    def measure(rows: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = cdist(rows, points, linkage.distance)
        if linkage.distance == "cosine":
            apart = np.nan_to_num(apart, nan=1.0)  # a zero vector has no direction
        found: Floats = joined.reduceat(apart, starts, axis=1)
        return found / sizes if linkage.kind == "average" else found

    return measure


def _by_compiled(kept: Kept, labels: Labels, k: int) -> Measure:
    """Minus the score under a compiled function of the user's own."""
    linkage: Any = kept.linkage
    means = _means(kept.rows, labels, k, _unchanged)
    arrays = new_arrays(means.shape[1], CUSTOM)
    calls = arrays.calls.copy()
    calls[FORMULA] = linkage.formula.address
    # One row more, for the point that is measured.
    table, moments = np.zeros((k + 1, means.shape[1]), np.float32), np.zeros((k + 1, 3))
    table[:k] = means
    moments[:k, COUNT], moments[:k, SPREAD] = np.bincount(labels[labels >= 0]), _spreads(kept.rows, labels, means)
    moments[:k, LENGTH] = np.sqrt(np.einsum("ij,ij->i", means, means))
    arrays = arrays._replace(means=table, moments=moments, calls=calls, answers=np.zeros(k))

    def measure(rows: Floats) -> Floats:
        found = np.empty((len(rows), k))
        for i, row in enumerate(rows.astype(np.float32)):
            found[i] = -_scores(row)
        return found

    def _scores(row: Vectors32) -> Floats:
        table[k], moments[k] = row, (1.0, 0.0, np.sqrt(np.dot(row, row)))
        try:
            merge_and_score(arrays, k, NONE, NONE, np.arange(k, dtype=np.int32), k)
        except LinkageFailed:
            raise ValueError(f"linkage returned nan, which is no score, for the row {row!r:.60}") from None
        return arrays.answers

    return measure


def _by_linkage(linkage: Linkage, groups: list[Any]) -> Measure:
    """Minus the score under a linkage written in Python, counted from the score of two identical records."""
    batched, ceiling = getattr(linkage, "scores", None), getattr(linkage, "ceiling", None)

    def scores(record: Any) -> Any:
        alone = linkage.leaf(record)
        return [linkage.score(alone, group) for group in groups] if batched is None else batched(alone, groups)

    def measure(records: Any) -> Floats:
        found = np.empty((len(records), len(groups)))
        for i, record in enumerate(records):
            found[i] = scores(record)
        return (ceiling or 0.0) - found

    return measure


def _merged(linkage: Linkage, leaves: list[Any], labels: Labels, tree: Tree, k: int) -> list[Any]:
    """The summary of each cluster, merged as the tree is."""
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
