"""The automatic cut, against brute force over all cuts of small trees, networkx and scipy."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import NearestNeighbors

from grinch import Tree
from grinch.cuts import automatic_cut, cut_auto, cut_threshold, labels_of, neighbor_graph, node_labels
from grinch.cuts.graph import NeighborGraph, weighted
from grinch.cuts.labels import share_inside
from grinch.cuts.persistence import RESOLUTIONS, by_height, by_resolution, edges_under, mean_gaps
from trees import chain, labels_from, partitions, random_tree, random_trees


def random_graph(rng, n, k=3):
    near = np.array([rng.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)], np.int32).reshape(n, -1)
    return NeighborGraph(near, rng.uniform(0.1, 1, near.shape).astype(np.float32))


def as_networkx(graph):
    found = nx.MultiGraph()
    found.add_nodes_from(range(len(graph.near)))
    for i, (others, weights) in enumerate(zip(graph.near, graph.weights, strict=True)):
        found.add_weighted_edges_from([(i, j, float(w)) for j, w in zip(others, weights, strict=True) if j >= 0])
    return found


def is_finer(fine, coarse):
    """Whether each cluster of one is within a cluster of the other."""
    return len(np.unique(np.stack([fine, coarse]), axis=1).T) == fine.max() + 1


# The graph ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "sqeuclidean"])
def test_the_graph_is_that_of_the_nearest(rng, metric):
    vectors = rng.normal(size=(700, 5)) + 3
    graph = neighbor_graph(vectors, metric, n_neighbors=7)
    expected = NearestNeighbors(n_neighbors=7, metric=metric, algorithm="brute").fit(vectors).kneighbors()[1]
    assert (np.sort(graph.near) == np.sort(expected)).mean() > 0.999


def test_weights_by_their_definition(rng):
    vectors = rng.normal(size=(40, 3))
    near, weights = neighbor_graph(vectors, "euclidean", n_neighbors=5)
    squared = cdist(vectors, vectors, "sqeuclidean")
    typical = squared.mean()
    middle = np.array([np.sort(squared[i, near[i]])[2] for i in range(40)])
    for i in range(40):
        for j, weight in zip(near[i], weights[i], strict=True):
            named = 0.5 if i in near[j] else 0.1
            close = max(1 - squared[i, j] / typical, 1e-3) ** 2
            local = min((np.sqrt(middle[i] * middle[j]) / squared[i, j]) ** 0.75, 10)
            assert weight == pytest.approx(named * close * local, rel=1e-4)


def test_graphs_of_few_equal_or_zero_points():
    assert neighbor_graph([[1.0]]).near.shape == (1, 0)
    assert neighbor_graph([[1.0], [2.0]]).near.tolist() == [[1], [0]]
    for vectors in (np.zeros((5, 2)), np.ones((5, 2))):
        graph = neighbor_graph(vectors)
        assert graph.near.shape == (5, 4)
        assert (graph.weights > 0).all()
    graph = weighted(np.array([[1, -1], [0, -1], [-1, -1]], np.int32))
    assert graph.weights.tolist() == [[0.5, 0], [0.5, 0], [0, 0]]


def test_the_graph_names_what_it_cannot_take(rng):
    with pytest.raises(ValueError, match="metric must be one of 'cosine', 'euclidean', 'sqeuclidean'; got 'manhattan'"):
        neighbor_graph(rng.normal(size=(5, 2)), "manhattan")
    with pytest.raises(ValueError, match="n_neighbors must be a whole number of at least 1; got 0"):
        neighbor_graph(rng.normal(size=(5, 2)), n_neighbors=0)


# Resolutions and heights ----------------------------------------------------------------------------------------------


@given(random_trees(max_leaves=8), st.integers(0, 100), st.integers(0, len(RESOLUTIONS) - 1))
def test_no_cut_has_a_higher_modularity(tree, seed, step):
    """Against all cuts of the tree, and networkx's modularity."""
    if tree.n_leaves < 3:
        return
    graph = random_graph(np.random.default_rng(seed), tree.n_leaves, 2)
    edges = as_networkx(graph)

    def modularity(labels):
        communities = [set(np.flatnonzero(labels == c).tolist()) for c in range(labels.max() + 1)]
        return nx.community.modularity(edges, communities, resolution=RESOLUTIONS[step])

    found = labels_of(tree, by_resolution(tree, edges_under(tree, graph), np.ones(tree.n_ids)).is_split(step))
    best = max(modularity(labels_from(tree, nodes)) for nodes in partitions(tree))
    assert modularity(found) == pytest.approx(best, abs=1e-6)


def test_clusters_only_divide_as_the_resolution_grows(rng):
    tree = random_tree(rng, 60)
    family = by_resolution(tree, edges_under(tree, random_graph(rng, 60)), np.ones(tree.n_ids))
    cuts = [labels_of(tree, family.is_split(step)) for step in range(family.n_steps)]
    assert all(is_finer(fine, coarse) for coarse, fine in pairwise(cuts))
    assert cuts[0].max() < cuts[-1].max() == 59


def test_cuts_by_height_are_those_by_threshold(rng):
    tree = Tree.from_scipy(sch.linkage(rng.normal(size=(50, 2)), "average"))
    family = by_height(tree, tree.heights())
    levels = np.unique(tree.heights()[tree.internal_nodes()])[::-1]
    for step, level in enumerate(levels):
        labels = labels_of(tree, family.is_split(step))
        assert adjusted_rand_score(labels, cut_threshold(tree, -level + 1e-9)) == 1


def test_lives_and_totals_by_their_definition(rng):
    tree = random_tree(rng, 40)
    values = np.where(np.isin(np.arange(tree.n_ids), tree.preorder()), rng.uniform(size=tree.n_ids), 0)
    for family in (
        by_resolution(tree, edges_under(tree, random_graph(rng, 40)), np.ones(tree.n_ids)),
        by_height(tree, tree.heights()),
    ):
        alive = np.zeros(tree.n_ids)
        for step, total in enumerate(family.totals(values)):
            labels = node_labels(tree, family.is_split(step))
            parents = tree.parents()
            clusters = [v for v in tree.nodes() if labels[v] >= 0 and (parents[v] < 0 or labels[parents[v]] < 0)]
            assert total == pytest.approx(values[clusters].sum())
            alive[clusters] += 1
        inner = [v for v in tree.internal_nodes().tolist() if v != tree.root]
        assert ((family.life[inner] > 0) == (alive[inner] > 0)).all()


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_gaps_are_those_of_average_linkage(rng, metric):
    vectors = rng.normal(size=(60, 4)) + 1
    rows = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if metric == "cosine" else vectors
    matrix = sch.linkage(rows, "average", metric="sqeuclidean")
    tree = Tree.from_scipy(matrix)
    np.testing.assert_allclose(mean_gaps(tree, vectors, metric), tree.heights(), atol=1e-9)


# The cut --------------------------------------------------------------------------------------------------------------


def blobs(rng, sizes, n_features=8, apart=12.0):
    y = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=(len(sizes), n_features))[y] * apart + rng.normal(size=(len(y), n_features)), y


@pytest.mark.parametrize("sizes", [[30, 60], [20] * 5, [10] * 40, [150, 80, 40, 20, 10, 5], [3] * 60])
@pytest.mark.parametrize("method", ["average", "ward", "single"])
def test_clusters_that_are_apart_are_found(rng, sizes, method):
    vectors, y = blobs(rng, sizes, n_features=30)
    labels = cut_auto(Tree.from_scipy(sch.linkage(vectors, method)), vectors, metric="euclidean")
    assert adjusted_rand_score(y, labels) > 0.95


def test_clusters_of_clusters_are_layers(rng):
    centres = (rng.normal(size=(6, 8)) * 60)[:, None] + rng.normal(size=(6, 5, 8)) * 10
    coarse = np.repeat(np.arange(6), 5 * 20)
    fine = np.repeat(np.arange(30), 20)
    vectors = centres.reshape(30, 8)[fine] + rng.normal(size=(600, 8))
    tree = Tree.from_scipy(sch.linkage(vectors, "average"))
    cut = automatic_cut(tree, neighbor_graph(vectors, "euclidean"), mean_gaps(tree, vectors, "euclidean"))
    layers = [labels_of(tree, layer.is_split) for layer in cut.layers]
    assert max(adjusted_rand_score(fine, labels) for labels in layers) == 1
    assert max(adjusted_rand_score(coarse, labels) for labels in layers) > 0.85


@given(random_trees(max_leaves=40), st.integers(0, 1000))
def test_layers_nest(tree, seed):
    rng = np.random.default_rng(seed)
    n = tree.n_leaves
    graph = random_graph(rng, n) if n > 4 else None
    cut = automatic_cut(tree, graph, tree.max_upward(rng.uniform(size=tree.n_ids)))
    layers = [labels_of(tree, layer.is_split) for layer in cut.layers]
    assert all(is_finer(fine, coarse) for fine, coarse in pairwise(layers))
    assert len({labels.max(initial=-1) for labels in layers}) == len(layers)
    assert all(0 <= layer.persistence <= 1 + 1e-9 for layer in cut.layers)
    assert cut.layers[cut.chosen].persistence == max(layer.persistence for layer in cut.layers)
    assert ((cut.confidence >= 0) & (cut.confidence <= 1 + 1e-9)).all()


def test_cuts_of_few_or_equal_points():
    assert cut_auto(Tree()).tolist() == []
    one = Tree()
    one.attach()
    assert cut_auto(one, [[1.0]]).tolist() == [0]
    assert cut_auto(Tree.from_scipy([[0, 1, 1.0, 2]]), [[1.0], [2.0]]).tolist() == [0, 0]
    same = Tree.from_scipy(sch.linkage(np.ones((6, 2))))
    assert cut_auto(same, np.ones((6, 2)), metric="euclidean").tolist() == [0] * 6
    twice = np.repeat([[0.0], [1.0], [7.0], [9.0]], 5, axis=0)
    labels = cut_auto(Tree.from_scipy(sch.linkage(twice)), twice, metric="euclidean")
    assert all(len(set(labels[i : i + 5])) == 1 for i in range(0, 20, 5))
    assert cut_auto(same).tolist() == [0] * 6


def test_a_chain_of_many_points_is_cut_without_recursion():
    assert len(cut_auto(chain(20_000))) == 20_000


def test_without_vectors_heights_and_a_graph_count(rng):
    vectors, y = blobs(rng, [20] * 8)
    tree = Tree.from_scipy(sch.linkage(vectors, "average"))
    assert adjusted_rand_score(y, cut_auto(tree)) == 1
    assert adjusted_rand_score(y, cut_auto(tree, graph=neighbor_graph(vectors, "euclidean"))) == 1


def test_a_graph_of_all_pairs_says_nothing():
    vectors = np.array([[0.0], [1.0], [1.5], [20.0], [21.0], [20.3]])
    tree = Tree.from_scipy(sch.linkage(vectors))
    graph = neighbor_graph(vectors, "euclidean", n_neighbors=25)
    assert graph.near.shape == (6, 5)
    assert cut_auto(tree, graph=graph).tolist() == [0, 0, 0, 1, 1, 1]


def test_what_cut_auto_cannot_take(rng):
    vectors = rng.normal(size=(20, 3))
    matrix = sch.linkage(vectors)
    tree, graph = Tree.from_scipy(matrix), neighbor_graph(np.vstack([vectors] * 2), n_neighbors=5)
    with pytest.raises(TypeError, match=r"tree must be a grinch.Tree; got ndarray: Tree.from_scipy makes one"):
        cut_auto(matrix)
    with pytest.raises(ValueError, match="metric must be one of 'cosine', 'euclidean', 'sqeuclidean'; got 'foo'"):
        cut_auto(tree, vectors, graph=neighbor_graph(vectors), metric="foo")
    with pytest.raises(ValueError, match="graph must have neighbours and weights in a row for each of the 20 points"):
        cut_auto(tree, graph=graph)
    with pytest.raises(ValueError, match="graph must name points from 0 to 19, or -1 for none; got numbers from"):
        cut_auto(tree, graph=NeighborGraph(graph.near[20:], graph.weights[20:]))
    with pytest.raises(ValueError, match="graph must have finite weights of at least 0"):
        cut_auto(tree, graph=NeighborGraph(graph.near[:20] % 20, -graph.weights[:20]))


def test_heights_that_overflow_are_compared_all_the_same(rng):
    tree = Tree.from_scipy(sch.linkage(rng.normal(size=(30, 2))))
    assert np.isfinite(automatic_cut(tree, None, tree.heights() * 1e308).confidence).all()


# Noise ----------------------------------------------------------------------------------------------------------------


def test_shares_inside_by_their_definition(rng):
    graph, labels = random_graph(rng, 30), rng.integers(0, 3, 30)
    edges = as_networkx(graph)
    expected = [
        sum(w for _, j, w in edges.edges(i, data="weight") if labels[i] == labels[j]) / edges.degree(i, weight="weight")
        for i in range(30)
    ]
    np.testing.assert_allclose(share_inside(graph, labels), expected, rtol=1e-5)
