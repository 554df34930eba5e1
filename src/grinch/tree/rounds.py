"""Rounds of joining on a graph: every cluster points at the one most similar to it, and components become clusters.

The similarity of two clusters is the sum of the edges between them over the number of pairs of their points, so that a
pair without an edge counts 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from grinch._types import Counts, Floats
from grinch.tree.tree import Tree


class Round(NamedTuple):
    """The next cluster of each cluster, and the score of the nodes that the round makes, below that of earlier ones."""

    next_cluster: Counts
    score: float


def rounds(graph: Any, thresholds: Any, strong: bool, most_strong: float = np.inf) -> Iterator[Round]:
    """Yield a round for each threshold under which something joins, then without threshold until no edge is left.

    With ``strong``, clusters are joined that point at each other, for up to ``most_strong`` rounds. What the graph does
    not connect is joined in a last round, at score 0.
    """
    sizes, score, waiting = np.ones(graph.shape[0]), np.inf, list(thresholds)
    made = 0
    while graph.nnz:
        strong, made = strong and made < most_strong, made + 1
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


def best_arrows(graph: Any, sizes: Floats) -> tuple[Counts, Counts, Floats]:
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
