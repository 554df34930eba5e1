"""SCC (Monath et al., KDD 2021), Affinity clustering and reciprocal nearest neighbours: rounds on a neighbour graph.

The points and their nearest neighbours are a graph, an edge of it the similarity of two points. In each round every
cluster points at the one most similar to it, by average linkage: the sum of the edges between the two over the number
of their pairs, so that a pair without an edge counts 0. The components of these arrows become the clusters of the next
round. SCC leaves out arrows below a threshold that falls from round to round; Affinity clustering (Bateni et al.,
NeurIPS 2017) has no threshold; reciprocal nearest neighbours joins strong components alone, the pairs that point at
each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from grinch._checks import count_rows
from grinch._types import Advance, Floats
from grinch._vectors import nearest_rows, squared_lengths
from grinch.baselines.hac import HACBuilder
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.summaries.vectors import dense_rows
from grinch.tree import Tree

RULES = ("scc", "affinity", "rnn")
THRESHOLDS = np.geomspace(1.0, 1e-6, 200)

Numbers64 = npt.NDArray[np.int64]


class Round(NamedTuple):
    """The next cluster of each cluster, and the score of the nodes that the round makes, below that of earlier ones."""

    next_cluster: Numbers64
    score: float


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


def rounds(graph: Any, thresholds: Any, strong: bool) -> Iterator[Round]:
    """Yield a round for each threshold under which something joins, then without threshold until no edge is left.

    What the graph does not connect is joined in a last round, at score 0.
    """
    sizes, score, waiting = np.ones(graph.shape[0]), np.inf, list(thresholds)
    while graph.nnz:
        threshold = waiting.pop(0) if waiting else -np.inf
        sources, targets, similarities = best_arrows(graph, sizes)
        kept = similarities >= threshold
        arrows = scipy.sparse.csr_matrix((kept[kept], (sources[kept], targets[kept])), graph.shape)
        n, labels = connected_components(arrows, connection="strong" if strong else "weak")
        if n < len(sizes):
            # Numbered by their first clusters: so do ties go to what came first.
            labels = np.argsort(np.argsort(np.unique(labels, return_index=True)[1]))[labels]
            score = float(min(similarities[kept].min(), np.nextafter(score, -np.inf)))
            yield Round(labels, score)
            sizes, edges = np.bincount(labels, sizes), graph.tocoo()
            ends = labels[edges.row], labels[edges.col]
            between = ends[0] != ends[1]
            graph = scipy.sparse.csr_matrix((edges.data[between], (ends[0][between], ends[1][between])), (n, n))
    if len(sizes) > 1:
        yield Round(np.zeros(len(sizes), np.int64), min(0.0, float(np.nextafter(score, -np.inf))))


def best_arrows(graph: Any, sizes: Floats) -> tuple[Numbers64, Numbers64, Floats]:
    """Return the clusters with an edge, the most similar other of each (the first of equals), and the similarity."""
    graph.sort_indices()
    sources, starts = np.flatnonzero(np.diff(graph.indptr)), graph.indptr[:-1][np.diff(graph.indptr) > 0]
    row = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    similarities = graph.data / (sizes[row] * sizes[graph.indices])
    best = np.maximum.reduceat(similarities, starts)
    at_best = np.flatnonzero(similarities == np.repeat(best, np.diff(graph.indptr)[sources]))
    first = at_best[np.searchsorted(at_best, starts)]
    return sources, graph.indices[first].astype(np.int64), best


def tree_of_rounds(all_rounds: Iterator[Round], n: int) -> Tree:
    """Return the binary tree of rounds: children that join are paired, in order, again and again, at one score."""
    nodes, pairs, scores = np.arange(n), [np.empty((0, 2), np.int64)], [np.empty(0)]
    made = n
    for labels, score in all_rounds:
        order = np.argsort(labels, kind="stable")
        nodes, groups = nodes[order], labels[order]
        while len(nodes) > groups[-1] + 1:
            place = np.arange(len(nodes)) - np.searchsorted(groups, groups)
            second = np.flatnonzero(place % 2)
            pairs.append(np.stack([nodes[second - 1], nodes[second]], axis=1))
            scores.append(np.full(len(second), score))
            nodes[second - 1] = made + np.arange(len(second))
            made += len(second)
            nodes, groups = np.delete(nodes, second), np.delete(groups, second)
    return Tree.from_merges(np.concatenate(pairs), np.concatenate(scores), 1.0)
