"""Descriptions of the clusters of a fit (sizes, exemplars, keywords), and how points belong to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from grinch import cuts
from grinch._labels import label_codes
from grinch._types import Floats, Labels
from grinch.cuts.medoids import nearest_first
from grinch.estimators.distances import tanimoto_to_own
from grinch.estimators.fit import Fit
from grinch.linkage.named import VectorLinkage
from grinch.summaries.arrays import StoredPoints
from grinch.tree import NONE, Tree

# Distances for which the sums to all others of a cluster need no pairs; the first are those of directions.
DIRECTIONS, DIFFERENCES = ("cosine", "dot"), ("sqeuclidean", "euclidean")

# Distances beyond this count as equal.
FAR = 1e300


class ClusterReport:
    """The clusters of a tree at one moment; ``confidence`` is by cluster, from 0 to 1, how long it lasts.

    ``node_labels`` are the clusters by node id. ``exemplars`` and ``words``, by cluster, are set by :meth:`describe`.
    """

    def __init__(self, fitted: Fit, node_labels: Labels):
        self.tree, self.ids = fitted.tree(), fitted.point_ids()
        self.labels = node_labels[: fitted.n_leaves].copy()
        self.confidence: Floats = fitted.automatic().confidence[_cut_nodes(self.tree, node_labels)]
        self.exemplars: list[Labels] = []
        self.words: list[list[str]] | None = None

    def describe(self, kept: StoredPoints, n_exemplars: int, terms: Any, n_keywords: int) -> None:
        """Find the exemplars of each cluster, and the columns that stand out in it if ``terms`` are their names."""
        self.exemplars = self._central(kept, n_exemplars)
        if terms is not None:
            if not kept.is_vectors:
                raise ValueError(
                    "terms are names of columns, and the points of this model are records, which have none"
                )
            found = cuts.cluster_terms(kept.as_given(), self.labels, terms, n_keywords)
            self.words = [found[cluster] for cluster in range(len(found))]

    def _central(self, kept: StoredPoints, n: int) -> list[Labels]:
        """Return the most central points of each cluster: by vectors where the linkage allows it, or by the tree."""
        linkage: Any = kept.linkage
        metric = linkage.leaf_metric if isinstance(linkage, VectorLinkage) else getattr(linkage, "distance", None)
        if metric == "tanimoto" and isinstance(linkage, VectorLinkage):
            return nearest_first(tanimoto_to_own(kept, self.labels), self.labels, n)
        if kept.is_vectors and metric in (*DIRECTIONS, *DIFFERENCES):
            return cuts.central_points(kept.rows, self.labels, n, "cosine" if metric in DIRECTIONS else "sqeuclidean")
        return cuts.central_leaves(self.tree, self.labels, n)

    def keywords(self, texts: Any, n: int) -> list[list[str]]:
        """Return the keywords of each cluster; ``texts`` are by point, or by id."""
        given = [texts.get(name) for name in self.ids] if isinstance(texts, Mapping) else texts
        return cuts.keywords(given, self.labels, n)

    def columns(self) -> dict[str, Any]:
        """Return the table of the clusters by columns."""
        nodes, sizes = cuts.cluster_nodes(self.tree, self.labels), cuts.cluster_sizes(self.labels)
        clusters = np.flatnonzero(nodes >= 0)
        nodes, scores = nodes[clusters], self.tree.scores
        parents = self.tree.parents()[nodes]
        columns: dict[str, Any] = {
            "cluster": clusters,
            "size": sizes[clusters],
            "share": sizes[clusters] / max(self.tree.n_leaves, 1),
            "confidence": self.confidence[clusters],
            "exemplars": [[self.ids[point] for point in self.exemplars[c].tolist()] for c in clusters.tolist()],
        }
        if self.words is not None:
            columns["keywords"] = [self.words[c] for c in clusters.tolist()]
        above = np.where(parents == NONE, np.nan, scores[parents])
        return {**columns, "node": nodes, "score": scores[nodes], "parent_score": above}

    def tree_above(self, keywords: list[list[str]] | None, labels: Any = None) -> cuts.ClusterTree:
        """Return the tree whose leaves are the clusters, named by their keywords, and by their labels."""
        clusters = cuts.collapse(self.tree, self.labels)
        clusters = clusters.described(confidence=self.confidence[clusters.clusters])
        if keywords is not None:
            words = [keywords[number] for number in clusters.clusters.tolist()]
            names = [", ".join(own) or name for own, name in zip(words, clusters.names, strict=True)]
            clusters = clusters.described(names, words)
        return clusters if labels is None else clusters.labelled(self.labels, labels)


def _cut_nodes(tree: Tree, labels: Labels) -> Labels:
    """Return, by cluster number, the node that the cut made it of, with points that were made noise since."""
    # The largest node of each cluster is the last in this order, and stays.
    nodes = tree.preorder()
    nodes = nodes[labels[nodes] >= 0]
    nodes = nodes[np.argsort(tree.sizes()[nodes], kind="stable")]
    found = np.zeros(int(labels.max(initial=-1)) + 1, np.int64)
    found[labels[nodes]] = nodes
    return found


def memberships(labels: Labels, distances: Floats) -> Floats:
    """Return the degree to which points belong to clusters, by their distances and the clusters they join."""
    if distances.shape[1] == 0:
        return distances
    distances = np.clip(distances, -FAR, FAR)
    if distances.min(initial=0.0) < 0:
        distances -= distances.min(axis=1, keepdims=True)
        scale = np.abs(distances - distances.mean(axis=1, keepdims=True)).mean(axis=1, keepdims=True)
        weights = np.exp(-distances / np.where(scale > 0, scale, 1.0))
    else:
        # As shares of the smallest, so that nothing overflows; what is at a centre belongs to it alone.
        nearest = distances.min(axis=1, keepdims=True)
        ratios = np.divide(nearest, distances, out=np.zeros_like(distances), where=distances > 0)
        weights = np.where(nearest > 0, ratios**4, distances == 0)
    named = np.flatnonzero(labels >= 0)
    weights[named, labels[named]] = weights[named].max(axis=1) * (1 + 1e-9)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def simplified_silhouette(distances: Floats) -> float:
    """Return the mean of (b - a) / max(|a|, |b|) of the distances to the nearest and the second nearest cluster."""
    if distances.shape[1] < 2:
        return 0.0
    # A linkage may forbid a merge, or demand it, by an infinite score.
    a, b = np.partition(np.clip(distances, -FAR, FAR), 1, axis=1)[:, :2].T
    scale = np.maximum(np.abs(a), np.abs(b))
    return float(np.mean(np.divide(b - a, scale, out=np.zeros_like(a), where=scale > 0)))


def agreement(labels: Labels, y: Any) -> float:
    """Return the adjusted Rand index with true classes; noise counts as clusters of single points."""
    from sklearn.metrics import adjusted_rand_score
    from sklearn.utils import check_consistent_length

    check_consistent_length(labels, y)
    codes = label_codes(y)
    alone = labels < 0
    labels = np.where(alone, labels.max(initial=-1) + np.cumsum(alone), labels)
    return float(adjusted_rand_score(codes[codes >= 0], labels[codes >= 0]))
