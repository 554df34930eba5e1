"""A cut that nobody has to ask for: the clusters that last longest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from grinch._types import Counts, Floats, Labels, Mask
from grinch.cuts.flat import labels_of
from grinch.cuts.graph import METRICS, N_NEIGHBORS, NeighborGraph, check_graph, neighbor_graph
from grinch.cuts.persistence import Edges, Family, by_height, by_resolution, edges_under, mean_gaps
from grinch.errors import unknown_name
from grinch.tree import NONE, Tree

# Of the cuts with about as many clusters, within this factor, only the best is looked at.
ABOUT = 1.1
# A layer has at least this many times as many clusters as the next.
APART = 1.5
# Of each family, the best cuts that are tried together with those of the other.
COMBINED = 3
MOST_LAYERS = 8
# A cut that lasts a smaller share than this of what the best does is no layer.
LEAST_SHARE = 1 / 3
# Heights beyond cannot be compared.
HIGHEST = 1e150


@dataclass(frozen=True)
class Layer:
    """One cut: by node id, whether it goes through it; and how long its clusters last, from 0 to 1."""

    is_split: Mask
    persistence: float


@dataclass(frozen=True)
class AutomaticCut:
    """The cut whose clusters last longest, and the others that last, each within the next.

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


class Candidate(NamedTuple):
    """A cut that may be chosen: how long its clusters last, and how many there are."""

    persistence: float
    n_clusters: int
    is_split: Mask


def cut_auto(
    tree: Tree,
    vectors: Any = None,
    *,
    metric: str = "cosine",
    graph: NeighborGraph | None = None,
    n_neighbors: int = N_NEIGHBORS,
) -> Labels:
    """Cut where clusters last longest: nothing to choose.

    A cluster lasts over a range of resolutions (of the modularity of the graph of neighbours) and over a range of
    heights. The cut taken is the one whose points are in the clusters that last longest by both, of all cuts that are
    best at some resolution, all cuts at some height, and the best of these taken together.

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
    return labels_of(tree, automatic_cut(tree, graph, heights).is_split)


def automatic_cut(tree: Tree, graph: NeighborGraph | None, heights: Floats) -> AutomaticCut:
    """The cut whose clusters last longest.

    ``heights`` are by node id, none below 0, and must not fall towards the root; without a graph, only they count.
    """
    heights = np.minimum(heights, HIGHEST)
    graph = None if graph is None or tree.n_leaves < 3 or not graph.near.shape[1] else _telling(graph)
    edges = None if graph is None else edges_under(tree, graph)
    sure = _sure(tree, edges, heights)
    found: list[Candidate] = []
    if tree.n_leaves > 2 and heights[tree.root] > 0:
        families = [by_height(tree, heights), *([] if edges is None else [by_resolution(tree, edges, heights)])]
        # How long the points of a cut are in their clusters, as a share of the longest of any cut.
        weights, values = _held(tree, graph, edges), np.zeros(tree.n_ids)
        for measure in families:
            most = max(float(family.totals(weights * measure.life).max()) for family in families)
            values += weights * measure.life / (most or 1.0) / len(families)
        peaks = [_peaks(tree, family, values) for family in families]
        found = [peak for some in peaks for peak in some] + _combined(tree, peaks, values)
    if not found and graph is not None:
        # The graph says nothing of any cluster.
        return replace(automatic_cut(tree, None, heights), graph=graph)
    if not found:
        # Of points that are apart or copies of each other, and nothing in between, copies are the clusters there are.
        is_apart = np.isin(np.arange(tree.n_ids), tree.internal_nodes()) & (heights > 0)
        is_split = is_apart if 0 < is_apart.sum() < tree.n_leaves - 1 else np.zeros(tree.n_ids, np.bool_)
        return AutomaticCut(tree, [Layer(is_split, 1.0)], 0, sure, graph)
    layers, chosen = _nested(tree, found, max(found, key=lambda candidate: candidate.persistence), values)
    return AutomaticCut(tree, layers, chosen, sure, graph)


def _telling(graph: NeighborGraph) -> NeighborGraph:
    """The same graph, but with no more neighbours than a quarter of the points: where all are neighbours, none are."""
    k = max(len(graph.near) // 4, 2)
    return NeighborGraph(graph.near[:, :k], graph.weights[:, :k])


def _held(tree: Tree, graph: NeighborGraph | None, edges: Edges | None) -> Floats:
    """By node id, its points, as far as their edges hold them together.

    In data of many dimensions small pieces of a class last long too, but most of their edges leave them; and a cluster
    of nearly all points keeps its edges by chance. One with fewer points than a point has neighbours cannot hold all
    edges, and need not.
    """
    sizes = np.maximum(tree.sizes().astype(np.float64), 0.0)
    if graph is None or edges is None:
        return sizes
    by_chance = np.minimum(sizes / tree.n_leaves, 1 - 1e-9)
    beyond = np.maximum(edges.shares() - by_chance, 0.0) / (1 - by_chance)
    room = np.clip((sizes - 1) / graph.near.shape[1], 1e-9, 1.0)
    return np.asarray(sizes * np.minimum(beyond**2 / room, 1.0))


def _sure(tree: Tree, edges: Edges | None, heights: Floats) -> Floats:
    """By node id, how sure it is as a cluster."""
    nodes, sure = tree.internal_nodes(), np.zeros(tree.n_ids)
    above = np.where(tree.parents()[nodes] == NONE, np.inf, heights[tree.parents()[nodes]])
    whole = 1 - np.divide(heights[nodes], above, out=np.ones(len(nodes)), where=above > 0)
    sure[nodes] = whole if edges is None else (whole + edges.shares()[nodes]) / 2
    return sure


def _peaks(tree: Tree, family: Family, values: Floats) -> list[Candidate]:
    """The cuts of a family that last longer than those a little coarser and a little finer, best first."""
    is_node = np.zeros(tree.n_ids)
    is_node[tree.preorder()] = 1
    totals, counts = family.totals(values), np.rint(family.totals(is_node)).astype(np.int64)
    # The best step of each number of clusters, or about that many.
    about = np.floor(np.log(np.maximum(counts, 1)) / np.log(ABOUT)).astype(np.int64)
    steps = _best_of_each(about, totals)
    heights = np.concatenate([[0.0], totals[steps], [0.0]])
    is_peak = (heights[1:-1] > heights[:-2]) & (heights[1:-1] >= heights[2:])
    chosen = steps[is_peak]
    chosen = chosen[np.argsort(-totals[chosen], kind="stable")]
    return [Candidate(float(totals[step]), int(counts[step]), family.is_split(int(step))) for step in chosen]


def _best_of_each(groups: Counts, values: Floats) -> Counts:
    """The position of the largest value in each group, the first of equals, in the order of the groups."""
    order = np.lexsort((np.arange(len(values)), -values, groups))
    return order[np.unique(groups[order], return_index=True)[1]]


def _combined(tree: Tree, peaks: list[list[Candidate]], values: Floats) -> list[Candidate]:
    """Cuts that split whatever one of the best of each family splits: branches may need different resolutions."""
    if len(peaks) < 2:
        return []
    return [
        _candidate(tree, one.is_split | other.is_split, values)
        for one in peaks[0][:COMBINED]
        for other in peaks[1][:COMBINED]
    ]


def _candidate(tree: Tree, is_split: Mask, values: Floats) -> Candidate:
    """The cut through these nodes; with a node, its ancestors are split."""
    nodes = tree.preorder()
    clusters = nodes[~is_split[nodes] & np.append(is_split, True)[tree.parents()[nodes]]]
    return Candidate(float(values[clusters].sum()), len(clusters), is_split)


def _nested(tree: Tree, found: list[Candidate], best: Candidate, values: Floats) -> tuple[list[Layer], int]:
    """The best cut and those that last besides, finest first, each made to hold the clusters of the finer ones whole.

    Returns the layers, and the number of the best (which by being made to nest may have become another).
    """
    kept = [best]
    for other in sorted(found, key=lambda candidate: -candidate.persistence):
        lasts = other.persistence >= LEAST_SHARE * best.persistence
        if lasts and len(kept) < MOST_LAYERS and all(_are_apart(other, one) for one in kept):
            kept.append(other)
    finer, coarser = [best], [best]
    for other in sorted(kept, key=lambda candidate: candidate.n_clusters):
        if other.n_clusters > best.n_clusters:
            finer.append(_candidate(tree, finer[-1].is_split | other.is_split, values))
    for other in sorted(kept, key=lambda candidate: -candidate.n_clusters):
        if other.n_clusters < best.n_clusters:
            coarser.append(_candidate(tree, coarser[-1].is_split & other.is_split, values))
    # Making them nest may have made two the same, or left one cluster of all points.
    finer = [one for one, before in zip(finer[1:], finer, strict=False) if one.n_clusters > before.n_clusters]
    coarser = [one for one, before in zip(coarser[1:], coarser, strict=False) if 1 < one.n_clusters < before.n_clusters]
    # Together, two cuts may last longer than any of one family.
    layers = [Layer(one.is_split, min(one.persistence, 1.0)) for one in (*finer[::-1], best, *coarser)]
    return layers, int(np.argmax([layer.persistence for layer in layers]))


def _are_apart(one: Candidate, other: Candidate) -> bool:
    counts = one.n_clusters, other.n_clusters
    return max(counts) >= APART * min(counts)
