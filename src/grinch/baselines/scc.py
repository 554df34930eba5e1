"""SCC (Monath et al., KDD 2021), Affinity clustering and reciprocal nearest neighbours: rounds on a neighbour graph.

The points and their nearest neighbours are a graph, an edge of it the similarity of two points. In each round every
cluster points at the one most similar to it, by average linkage: the sum of the edges between the two over the number
of their pairs, so that a pair without an edge counts 0. The components of these arrows become the clusters of the next
round. SCC leaves out arrows below a threshold that falls from round to round; Affinity clustering (Bateni et al.,
NeurIPS 2017) has no threshold; reciprocal nearest neighbours joins strong components alone, the pairs that point at
each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._checks import count_rows
from grinch._types import Advance, Floats
from grinch._vectors import nearest_rows, squared_lengths
from grinch.baselines.hac import HACBuilder
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.summaries.vectors import dense_rows
from grinch.tree.rounds import rounds, tree_of_rounds

RULES = ("scc", "affinity", "rnn")
THRESHOLDS = np.geomspace(1.0, 1e-6, 200)


class SCCBuilder(HACBuilder):
    """A tree of all points at once, made in rounds."""

    WAYS = RULES

    def __init__(
        self,
        way: str,
        linkage: str | VectorLinkage | Linkage,
        metric: str = "",
        n_neighbors: int = 25,
        thresholds: Floats = THRESHOLDS,
    ):
        super().__init__(way, linkage, metric)
        self._n_neighbors, self._thresholds = n_neighbors, thresholds

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        # A copy: what the user does with the rows later changes nothing here.
        self._rows = [rows.copy()]
        assert isinstance(self._linkage, VectorLinkage)
        graph = neighbor_similarities(dense_rows(rows), self._linkage.is_euclidean, self._n_neighbors)
        thresholds = self._thresholds if self._way == "scc" else ()
        self._keep(tree_of_rounds(rounds(graph, thresholds, self._way == "rnn"), count_rows(rows)), graph.nnz // 2)
        if progress is not None:
            progress(count_rows(rows))


def neighbor_similarities(points: npt.NDArray[Any], is_euclidean: bool, k: int) -> Any:
    """Return the symmetric CSR matrix of the similarities of points that are among each other's k nearest, if positive.

    A similarity is the cosine, or exp(-d² / m) with m the geometric mean of these neighbours' squared distances d².
    """
    n, k = len(points), min(k, len(points) - 1)
    rows = points.astype(np.float64)
    if is_euclidean:
        rows -= np.median(rows, axis=0)
    rows /= np.abs(rows).max(initial=0.0) or 1.0
    if not is_euclidean:
        lengths = np.sqrt(squared_lengths(rows))
        rows /= np.where(lengths > 0, lengths, 1.0)[:, None]
    rows = rows.astype(np.float32)
    squares = squared_lengths(rows).astype(np.float32)
    near = nearest_rows(rows, -0.5 * squares, k)
    values = np.empty(near.shape)
    for j in range(k):
        others = rows[near[:, j]]
        values[:, j] = (
            squared_lengths(rows - others) if is_euclidean else np.einsum("ij,ij->i", rows, others, dtype=np.float64)
        )
    if is_euclidean:
        values = np.exp(-values / (np.exp(np.log(values[values > 0]).mean()) if values.any() else 1.0))
    is_edge = values > 0
    graph = scipy.sparse.csr_matrix((values[is_edge], (np.nonzero(is_edge)[0], near[is_edge])), (n, n))
    return graph.maximum(graph.T)
