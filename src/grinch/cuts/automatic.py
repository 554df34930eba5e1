"""A cut that nobody has to ask for: clusters that last, are whole and stand apart."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from grinch._types import Counts, Floats, Labels, Mask
from grinch.cuts.graph import METRICS, N_NEIGHBORS, NeighborGraph, check_graph, comparable, neighbor_graph
from grinch.cuts.labels import joined, labels_of
from grinch.cuts.persistence import (
    Edges,
    Family,
    by_height,
    by_resolution,
    clearness,
    edges_under,
    isolation,
    mean_gaps,
)
from grinch.errors import unknown_name
from grinch.tree import NONE, Tree

# Of the cuts with about as many clusters, within this factor, only the best is looked at.
ABOUT = 1.1
# A layer has at least this many times as many clusters as the next.
APART = 1.5
MOST_LAYERS = 8
# A cut whose quality is a smaller share than this of that of the best is no layer.
LEAST_SHARE = 1 / 4
# Of the three measures of a cut. Heights say least: a choice that depends less on them depends less on chance.
WEIGHTS = (1.0, 0.75, 0.5)
# How much it counts which share of the points is in a cluster at all: a point that is alone is no mistake by itself,
# and two that are put together only because they are left over are one.
CLUSTERED = 0.4
# Heights beyond cannot be compared.
HIGHEST = 1e150


@dataclass(frozen=True)
class Layer:
    """A cut: by node id, whether it goes through it; and its quality as a share of that of the best one.

    ``becomes``: which of the subtrees that it leaves whole are one cluster (:mod:`grinch.cuts.labels`); ``as_found``:
    where it went through the tree before small groups joined.
    """

    is_split: Mask
    persistence: float
    becomes: Labels | None = None
    as_found: Mask | None = None


@dataclass(frozen=True)
class AutomaticCut:
    """The best cut and the other good ones, each within the next.

    ``layers`` are finest first, and ``chosen`` is the number of the one that ``is_split`` is. ``sure`` is by node id,
    from 0 to 1: the mean of the share of the heights below its parent at which it is whole, and of the share of its
    edges that stay inside; 0 for single points.
    """

    tree: Tree
    layers: list[Layer]
    chosen: int
    sure: Floats
    graph: NeighborGraph | None = field(default=None, repr=False)

    @property
    def is_split(self) -> Mask:
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
            found = _coarsened(becomes, np.bincount(own), above)
            if 1 < len(np.unique(found)) < len(np.unique(becomes)):
                becomes = found
                layers.append(replace(coarser, is_split=best.is_split, becomes=becomes, as_found=coarser.is_split))
        for finer in self.layers[: self.chosen][::-1]:
            within = labels_of(self.tree, layers[0].is_split, layers[0].becomes)
            is_split, becomes = join(finer.is_split, within=within)
            if len(np.unique(becomes)) > int(within.max()) + 1:
                layers.insert(0, replace(finer, is_split=is_split, becomes=becomes, as_found=finer.is_split))
        return layers


class Candidate(NamedTuple):
    """A cut that may be chosen, its quality, and how many clusters it has."""

    quality: float
    n_clusters: int
    is_split: Mask


class Good(NamedTuple):
    """How good nodes of a tree are as clusters, by node id: the three measures of a cut; without a graph only lives."""

    tree: Tree
    life: Floats
    apart: Floats | None
    whole: Floats

    def measures(self, is_counted: Mask) -> list[Floats]:
        """Return each measure times the points of a node; those that are not counted, and all else, have 0."""
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
    """Cut where clusters last, are whole and stand apart: nothing to choose.

    A cluster *lasts* over a range of resolutions of the modularity of the graph of neighbours. It is *whole* as far as
    its own height is below that of its parent. It *stands apart* as far as fewer edges leave it than leave a group of
    its size by chance, and more than two parts of it stand apart from each other. Of all cuts that are best at some
    resolution and all cuts at some height, the one taken has the largest product of the three, each a mean over points.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    vectors : array-like or sparse matrix of shape (n_leaves, n_features), optional
        The points, in the order they arrived. Without them, the tree's own scores say how far apart two sides are.
    metric : {"cosine", "euclidean", "sqeuclidean"}
        The distance of vectors.
    graph : NeighborGraph, optional
        The graph of neighbours, where it is known (:func:`grinch.cuts.neighbor_graph`); else it is found from the
        vectors, by comparing all with all. Without both, only heights count.
    n_neighbors : int
        Neighbours of each point, if they have to be found.

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
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
    if graph is not None:
        graph = check_graph(graph, tree.n_leaves)
    elif vectors is not None and tree.n_leaves > 1:
        graph = neighbor_graph(vectors, metric, n_neighbors)
    heights = tree.heights() if vectors is None else mean_gaps(tree, vectors, metric)
    found = automatic_cut(tree, graph, heights)
    best = found.best_joined(None if vectors is None else comparable(vectors, metric))
    return labels_of(tree, best.is_split, best.becomes)


def automatic_cut(tree: Tree, graph: NeighborGraph | None, heights: Floats) -> AutomaticCut:
    """Return the best cut and the layers beside it.

    ``heights`` are by node id, none below 0, and must not fall towards the root; without a graph, only they count.
    """
    heights = np.minimum(heights, HIGHEST)
    graph = None if graph is None or tree.n_leaves < 3 or not graph.near.shape[1] else _telling(graph)
    edges = None if graph is None else edges_under(tree, graph)
    sure = _sure(tree, edges, heights)
    found: list[Candidate] = []
    if tree.n_leaves > 2 and heights[tree.root] > 0:
        families = [by_height(tree, heights), *([] if edges is None else [by_resolution(tree, edges, heights)])]
        apart = None if graph is None or edges is None else isolation(tree, graph, edges)
        good = Good(tree, families[-1].life, apart, _whole(tree, heights))
        found = _peaks(families, good, np.ones(tree.n_ids, np.bool_))
    if not found and graph is not None:
        # The graph says nothing of any cluster.
        return replace(automatic_cut(tree, None, heights), graph=graph)
    if not found:
        # Of points that are apart or copies of each other, and nothing in between, copies are the clusters there are.
        is_apart = np.isin(np.arange(tree.n_ids), tree.internal_nodes()) & (heights > 0)
        is_split = is_apart if 0 < is_apart.sum() < tree.n_leaves - 1 else np.zeros(tree.n_ids, np.bool_)
        return AutomaticCut(tree, [Layer(is_split, 1.0)], 0, sure, graph)
    best = max(found, key=lambda candidate: candidate.quality)
    layers, chosen = _nested(tree, best, _besides(families, good, best))
    return AutomaticCut(tree, layers, chosen, sure, graph)


def _telling(graph: NeighborGraph) -> NeighborGraph:
    """The same graph, but with no more neighbours than a quarter of the points: where all are neighbours, none are."""
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

    ``clustered`` is how many of the points are in clusters of more than one.
    """
    weights, share = WEIGHTS[: len(totals)], np.maximum(clustered, 1.0) / n
    powers = [np.maximum(total / n, 0.0) ** weight for total, weight in zip(totals, weights, strict=True)]
    return np.asarray(np.prod(powers, axis=0) ** (1 / sum(weights)) * share ** (CLUSTERED - 1))


def _sure(tree: Tree, edges: Edges | None, heights: Floats) -> Floats:
    """Return by node id how sure it is as a cluster."""
    whole = _whole(tree, heights)
    return whole if edges is None else np.where(np.arange(tree.n_ids) < tree.offset, 0.0, (whole + edges.shares()) / 2)


def _peaks(families: list[Family], good: Good, is_counted: Mask) -> list[Candidate]:
    """Return the cuts of families that are better than those a little coarser and a little finer."""
    tree, measures, found = good.tree, good.measures(is_counted), []
    is_node, in_groups = np.zeros(tree.n_ids), np.zeros(tree.n_ids)
    is_node[tree.preorder()] = 1
    in_groups[tree.internal_nodes()] = tree.sizes()[tree.internal_nodes()]
    for family in families:
        totals, clustered = [family.totals(measure) for measure in measures], family.totals(in_groups)
        qualities = _quality(totals, clustered, tree.n_leaves)
        counts = np.rint(family.totals(is_node)).astype(np.int64)
        # The best step of each number of clusters, or about that many.
        about = np.floor(np.log(np.maximum(counts, 1)) / np.log(ABOUT)).astype(np.int64)
        steps = _best_of_each(about, qualities)
        around = np.concatenate([[0.0], qualities[steps], [0.0]])
        for step in steps[(around[1:-1] > around[:-2]) & (around[1:-1] >= around[2:])].tolist():
            found.append(Candidate(float(qualities[step]), int(counts[step]), family.is_split(step)))
    return found


def _best_of_each(groups: Counts, values: Floats) -> Counts:
    """The position of the largest value in each group, the first of equals, in the order of the groups."""
    order = np.lexsort((np.arange(len(values)), -values, groups))
    return order[np.unique(groups[order], return_index=True)[1]]


def _besides(families: list[Family], good: Good, best: Candidate) -> list[Candidate]:
    """Return coarser and finer cuts than the best that are good by what the best does not have already.

    A little coarser than the best, a cut is good because it has most of the same clusters. So of coarser ones, only
    clusters above those of the best count, and of finer ones those below.
    """
    is_above = best.is_split
    is_below = ~np.append(is_above, True)[good.tree.parents()] & ~is_above
    coarser = [peak for peak in _peaks(families, good, is_above) if peak.n_clusters < best.n_clusters]
    return coarser + [peak for peak in _peaks(families, good, is_below) if peak.n_clusters > best.n_clusters]


def _nested(tree: Tree, best: Candidate, found: list[Candidate]) -> tuple[list[Layer], int]:
    """Return the best cut and the other good ones, finest first, each made to hold the clusters of the finer ones.

    Returns the layers, and the number of the best.
    """
    kept = [best]
    for other in sorted(found, key=lambda candidate: -candidate.quality):
        is_good = other.quality >= LEAST_SHARE * best.quality
        if is_good and len(kept) < MOST_LAYERS and all(_are_apart(other, one) for one in kept):
            kept.append(other)
    finer, coarser = [best], [best]
    for other in sorted(kept, key=lambda candidate: candidate.n_clusters):
        if other.n_clusters > best.n_clusters:
            is_split = finer[-1].is_split | other.is_split
            finer.append(Candidate(other.quality, _count(tree, is_split), is_split))
    for other in sorted(kept, key=lambda candidate: -candidate.n_clusters):
        if other.n_clusters < best.n_clusters:
            is_split = coarser[-1].is_split & other.is_split
            coarser.append(Candidate(other.quality, _count(tree, is_split), is_split))
    # Making them nest may have made two the same, or left one cluster of all points.
    finer = [one for one, before in zip(finer[1:], finer, strict=False) if one.n_clusters > before.n_clusters]
    coarser = [one for one, before in zip(coarser[1:], coarser, strict=False) if 1 < one.n_clusters < before.n_clusters]
    layers = [Layer(one.is_split, min(one.quality / best.quality, 1.0)) for one in (*finer[::-1], best, *coarser)]
    return layers, len(finer)


def _count(tree: Tree, is_split: Mask) -> int:
    """Return how many clusters the cut through these nodes has; with a node, its ancestors are split."""
    return int(is_split[tree.internal_nodes()].sum()) + 1


def _coarsened(becomes: Labels, sizes: Counts, above: Labels) -> Labels:
    """Return which groups are one cluster where ``above`` has, by group, the cluster of a coarser cut.

    What is one cluster already stays so, and goes where the group goes by which it is called.
    """
    called = np.unique(becomes)
    called = called[np.argsort(sizes[called], kind="stable")]
    # The largest is written last, and stays.
    leaders = np.zeros(int(above.max()) + 1, np.int64)
    leaders[above[called]] = called
    return leaders[above[becomes]]


def _are_apart(one: Candidate, other: Candidate) -> bool:
    counts = one.n_clusters, other.n_clusters
    return max(counts) >= APART * min(counts)
