"""The automatic cut: clusters that persist, are whole and stand apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from grinch._types import Floats, Labels, Mask
from grinch.cuts.graph import N_NEIGHBORS, NeighborGraph, check_graph, check_metric, comparable, neighbor_graph
from grinch.cuts.labels import joined, labels_of
from grinch.cuts.persistence import Family, by_height, by_resolution, clearness, edges_under, isolation, mean_gaps
from grinch.tree import NONE, Tree

# Cuts whose numbers of clusters differ by less than this factor compete, and the best of them is a candidate.
SIMILAR = 1.1
# A layer has at least this many times as many clusters as the next.
MIN_RATIO = 1.5
MAX_LAYERS = 8
# A cut whose quality is a smaller share than this of that of the best is no layer.
MIN_QUALITY = 1 / 4
# Of the three measures of a cut. Heights say least: a choice that depends less on them depends less on chance.
WEIGHTS = (1.0, 0.75, 0.5)
# The exponent of the share of the points that are in a cluster of several: a point that is alone is no mistake by
# itself, and two that are put together only because they are left over are one.
CLUSTERED = 0.4
# Heights beyond cannot be compared.
MAX_HEIGHT = 1e150


@dataclass(frozen=True)
class Layer:
    """A cut: by node id, whether it splits it; and its quality as a share of that of the best one.

    ``becomes``: by group, the group whose cluster it is in (:mod:`grinch.cuts.labels`); ``as_found``: the splits before
    small groups joined.
    """

    is_split: Mask
    persistence: float
    becomes: Labels | None = None
    as_found: Mask | None = None


@dataclass(frozen=True)
class AutomaticCut:
    """The best cut and the other good ones, each within the next.

    ``layers`` are finest first, and ``chosen`` is the number of the best. ``confidence`` is that in each node as a
    cluster, by node id, from 0 to 1: the mean of the share of the heights below its parent at which it is whole, and of
    the share of its edges that stay inside; 0 for single points.
    """

    tree: Tree
    layers: list[Layer]
    chosen: int
    confidence: Floats
    graph: NeighborGraph | None = field(default=None, repr=False)

    @property
    def is_split(self) -> Mask:
        """By node id, whether the best cut splits it."""
        return self.layers[self.chosen].is_split

    def best_joined(self, rows: Any, min_size: int = 1) -> Layer:
        """Return the best layer with small groups joined to clusters (:func:`grinch.cuts.labels.joined`)."""
        best = self.layers[self.chosen]
        is_split, becomes = joined(self.tree, best.is_split, rows, self.graph, min_size)
        return replace(best, is_split=is_split, becomes=becomes, as_found=best.is_split)

    def joined(self, rows: Any, min_size: int = 1) -> list[Layer]:
        """Return the layers with small groups joined to clusters, each still within the next."""
        join = partial(joined, self.tree, rows=rows, graph=self.graph, min_size=min_size)
        best = self.best_joined(rows, min_size)
        own = self.tree.number_subtrees(best.is_split)[: self.tree.n_leaves]
        layers, becomes = [best], best.becomes
        assert becomes is not None
        # Once small groups have joined, two layers may be the same, or one cluster be left.
        for coarser in self.layers[self.chosen + 1 :]:
            above = labels_of(self.tree, *join(coarser.is_split))[np.unique(own, return_index=True)[1]]
            merged = _coarsened(becomes, np.bincount(own), above)
            if 1 < len(np.unique(merged)) < len(np.unique(becomes)):
                becomes = merged
                layers.append(replace(coarser, is_split=best.is_split, becomes=becomes, as_found=coarser.is_split))
        for finer in self.layers[: self.chosen][::-1]:
            within = labels_of(self.tree, layers[0].is_split, layers[0].becomes)
            is_split, becomes = join(finer.is_split, within=within)
            if len(np.unique(becomes)) > int(within.max()) + 1:
                layers.insert(0, replace(finer, is_split=is_split, becomes=becomes, as_found=finer.is_split))
        return layers


class Candidate(NamedTuple):
    """A cut that may be chosen: its quality, its number of clusters, and its splits."""

    quality: float
    n_clusters: int
    is_split: Mask


class Measures(NamedTuple):
    """The three measures of nodes as clusters, by node id; without a graph only their lives."""

    tree: Tree
    life: Floats
    apart: Floats | None
    whole: Floats

    def weighted(self, is_counted: Mask) -> list[Floats]:
        """Return each measure times the points of a node; 0 for nodes that are not counted."""
        found = [self.life]
        if self.apart is not None:
            found += [clearness(self.tree, self.apart, is_counted), self.whole]
        return [np.maximum(self.tree.sizes(), 0) * is_counted * measure for measure in found]


def cut_auto(
    tree: Tree,
    vectors: Any = None,
    *,
    metric: str = "cosine",
    graph: NeighborGraph | None = None,
    n_neighbors: int = N_NEIGHBORS,
) -> Labels:
    """Cut where clusters persist, are whole and are isolated, with no parameter to choose.

    A cluster *persists* over a range of resolutions of the modularity of the graph of neighbours. It is *whole* over
    the heights between its own and that of its parent. It is *isolated* if fewer edges leave it than leave a group of
    its size by chance, and fewer than run between two parts of it. Of all cuts that are best at some resolution and all
    cuts at some height, the result has the largest weighted geometric mean of the three, each a mean over points, of
    which those that are alone in their cluster count less.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    vectors : array-like or sparse matrix of shape (n_leaves, n_features), optional
        The points, in the order of arrival. Without them, the scores of the tree are used.
    metric : {"cosine", "euclidean", "sqeuclidean"}
        The distance of vectors.
    graph : NeighborGraph, optional
        The graph of neighbours, if known (:func:`grinch.cuts.neighbor_graph`); by default it is computed from the
        vectors, by comparing all pairs. Without both, only heights count.
    n_neighbors : int
        Neighbours of each point, if they are searched.

    Returns
    -------
    array of shape (n_leaves,)
        Cluster numbers by point.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch import Tree
    >>> vectors = [[0.0], [1.0], [1.1], [20.0], [21.0], [20.3], [50.0], [51.0]]
    >>> cut_auto(Tree.from_scipy(linkage(vectors)), vectors, metric="euclidean", n_neighbors=2).tolist()
    [0, 0, 0, 1, 1, 1, 2, 2]
    """
    if not isinstance(tree, Tree):
        raise TypeError(
            f"tree must be a grinch.Tree; got {type(tree).__name__}: Tree.from_scipy makes one of scipy's matrix"
        )
    check_metric(metric)
    if graph is not None:
        graph = check_graph(graph, tree.n_leaves)
    elif vectors is not None and tree.n_leaves > 1:
        graph = neighbor_graph(vectors, metric, n_neighbors)
    heights = tree.heights() if vectors is None else mean_gaps(tree, vectors, metric)
    best = automatic_cut(tree, graph, heights).best_joined(None if vectors is None else comparable(vectors, metric))
    return labels_of(tree, best.is_split, best.becomes)


def automatic_cut(tree: Tree, graph: NeighborGraph | None, heights: Floats) -> AutomaticCut:
    """Return the best cut and the layers beside it.

    ``heights`` are by node id, none below 0, and must not fall towards the root; without a graph, only they count.
    """
    heights = np.minimum(heights, MAX_HEIGHT)
    graph = None if graph is None or tree.n_leaves < 3 or not graph.near.shape[1] else _informative(graph)
    edges = None if graph is None else edges_under(tree, graph)
    whole = _whole(tree, heights)
    confidence = whole
    if edges is not None:
        confidence = np.where(np.arange(tree.n_ids) < tree.offset, 0.0, (whole + edges.shares()) / 2)
    found: list[Candidate] = []
    if tree.n_leaves > 2 and heights[tree.root] > 0:
        families = [by_height(tree, heights), *([] if edges is None else [by_resolution(tree, edges, heights)])]
        apart = None if graph is None or edges is None else isolation(tree, graph, edges)
        measures = Measures(tree, families[-1].life, apart, whole)
        found = _peaks(families, measures, np.ones(tree.n_ids, np.bool_))
    if not found and graph is not None:
        # The graph says nothing of any cluster.
        return replace(automatic_cut(tree, None, heights), graph=graph)
    if not found:
        # Of points that are apart or copies of each other, and nothing in between, copies are the clusters there are.
        is_apart = np.isin(np.arange(tree.n_ids), tree.internal_nodes()) & (heights > 0)
        is_split = is_apart if 0 < is_apart.sum() < tree.n_leaves - 1 else np.zeros(tree.n_ids, np.bool_)
        return AutomaticCut(tree, [Layer(is_split, 1.0)], 0, confidence, graph)
    best = max(found, key=lambda candidate: candidate.quality)
    layers, chosen = _nested(tree, best, _others(families, measures, best))
    return AutomaticCut(tree, layers, chosen, confidence, graph)


def _informative(graph: NeighborGraph) -> NeighborGraph:
    """Return a graph with at most a quarter of the points as neighbours of each: where all are neighbours, none are."""
    k = max(len(graph.near) // 4, 2)
    return NeighborGraph(graph.near[:, :k], graph.weights[:, :k])


def _whole(tree: Tree, heights: Floats) -> Floats:
    """Return by node id the share of the heights below its parent at which it is one cluster; 0 for single points."""
    nodes, whole = tree.internal_nodes(), np.zeros(tree.n_ids)
    above = np.where(tree.parents()[nodes] == NONE, np.inf, heights[tree.parents()[nodes]])
    whole[nodes] = 1 - np.divide(heights[nodes], above, out=np.ones(len(nodes)), where=above > 0)
    return whole


def _quality(totals: list[Floats], clustered: Floats, n: int) -> Floats:
    """Return the weighted geometric mean of several measures, from their totals over ``n`` points.

    ``clustered`` is the number of points in clusters of more than one.
    """
    weights, share = WEIGHTS[: len(totals)], np.maximum(clustered, 1.0) / n
    powers = [np.maximum(total / n, 0.0) ** weight for total, weight in zip(totals, weights, strict=True)]
    return np.asarray(np.prod(powers, axis=0) ** (1 / sum(weights)) * share ** (CLUSTERED - 1))


def _peaks(families: list[Family], measures: Measures, is_counted: Mask) -> list[Candidate]:
    """Return the cuts of families that are better than those a little coarser and a little finer."""
    tree, weighted, found = measures.tree, measures.weighted(is_counted), []
    is_node, in_groups = np.zeros(tree.n_ids), np.zeros(tree.n_ids)
    is_node[tree.preorder()] = 1
    in_groups[tree.internal_nodes()] = tree.sizes()[tree.internal_nodes()]
    for family in families:
        totals, clustered = [family.totals(measure) for measure in weighted], family.totals(in_groups)
        qualities = _quality(totals, clustered, tree.n_leaves)
        counts = np.rint(family.totals(is_node)).astype(np.int64)
        # The best step, the first of equals, of each number of clusters, or about that many.
        bins = np.floor(np.log(np.maximum(counts, 1)) / np.log(SIMILAR)).astype(np.int64)
        order = np.lexsort((np.arange(len(bins)), -qualities, bins))
        steps = order[np.unique(bins[order], return_index=True)[1]]
        around = np.concatenate([[0.0], qualities[steps], [0.0]])
        for step in steps[(around[1:-1] > around[:-2]) & (around[1:-1] >= around[2:])].tolist():
            found.append(Candidate(float(qualities[step]), int(counts[step]), family.is_split(step)))
    return found


def _others(families: list[Family], measures: Measures, best: Candidate) -> list[Candidate]:
    """Return coarser and finer cuts than the best that are good by clusters that the best does not have.

    A little coarser than the best, a cut is good because it has most of the same clusters. So of coarser ones, only
    clusters above those of the best count, and of finer ones those below.
    """
    is_above = best.is_split
    is_below = ~np.append(is_above, True)[measures.tree.parents()] & ~is_above
    coarser = [peak for peak in _peaks(families, measures, is_above) if peak.n_clusters < best.n_clusters]
    return coarser + [peak for peak in _peaks(families, measures, is_below) if peak.n_clusters > best.n_clusters]


def _nested(tree: Tree, best: Candidate, others: list[Candidate]) -> tuple[list[Layer], int]:
    """Return the best cut and the other good ones as nested layers, finest first, and the number of the best."""
    kept = [best]
    for other in sorted(others, key=lambda candidate: -candidate.quality):
        counts = [sorted((one.n_clusters, other.n_clusters)) for one in kept]
        are_apart = all(more >= MIN_RATIO * fewer for fewer, more in counts)
        if other.quality >= MIN_QUALITY * best.quality and len(kept) < MAX_LAYERS and are_apart:
            kept.append(other)

    def nested(some: Iterable[Candidate], combine: Callable[[Mask, Mask], Mask]) -> list[Candidate]:
        chain = [best]
        for one in some:
            is_split = combine(chain[-1].is_split, one.is_split)
            # With a node, its ancestors are split.
            chain.append(Candidate(one.quality, int(is_split[tree.internal_nodes()].sum()) + 1, is_split))
        return chain

    by_count = sorted(kept, key=lambda candidate: candidate.n_clusters)
    finer = nested((one for one in by_count if one.n_clusters > best.n_clusters), np.logical_or)
    coarser = nested((one for one in by_count[::-1] if one.n_clusters < best.n_clusters), np.logical_and)
    # Making them nest may have made two the same, or left one cluster of all points.
    finer = [one for one, before in zip(finer[1:], finer, strict=False) if one.n_clusters > before.n_clusters]
    coarser = [one for one, before in zip(coarser[1:], coarser, strict=False) if 1 < one.n_clusters < before.n_clusters]
    layers = [Layer(one.is_split, min(one.quality / best.quality, 1.0)) for one in (*finer[::-1], best, *coarser)]
    return layers, len(finer)


def _coarsened(becomes: Labels, sizes: Labels, above: Labels) -> Labels:
    """Return which groups are one cluster where ``above`` has, by group, the cluster of a coarser cut.

    What is one cluster already stays so, and goes where its leading group goes.
    """
    leading = np.unique(becomes)
    leading = leading[np.argsort(sizes[leading], kind="stable")]
    # The largest is written last, and stays.
    leaders = np.zeros(int(above.max()) + 1, np.int64)
    leaders[above[leading]] = leading
    return leaders[above[becomes]]
