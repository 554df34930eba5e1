"""The tree of the clusters and their most central points, against networkx and brute force."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import cdist, pdist, squareform

from grinch import Tree
from grinch.cuts import (
    central_leaves,
    central_points,
    cluster_nodes,
    cluster_sizes,
    collapse,
    cut_n_clusters,
    exemplars,
    labels_of,
)
from refusals import refused
from trees import chain, random_trees


@st.composite
def cut_trees(draw):
    """A tree, and labels of a cut of it with some points that belong nowhere."""
    tree = draw(random_trees())
    is_split = np.array(draw(st.lists(st.booleans(), min_size=tree.n_ids, max_size=tree.n_ids)))
    nowhere = draw(st.lists(st.booleans(), min_size=tree.n_leaves, max_size=tree.n_leaves))
    return tree, np.where(nowhere, -1, labels_of(tree, is_split))


def lca(tree, points):
    node = int(points[0])
    for point in points[1:]:
        node = tree.lca(node, int(point))
    return node


@given(cut_trees())
def test_nodes_are_the_meetings_of_clusters(case):
    tree, labels = case
    tops = {c: lca(tree, np.flatnonzero(labels == c)) for c in set(labels.tolist()) - {-1}}
    nodes = set(tops.values()) | {tree.lca(a, b) for a in tops.values() for b in tops.values()}
    found = collapse(tree, labels)
    assert found.clusters.tolist() == sorted(tops)
    graph = found.to_networkx()
    assert set(graph.nodes) == nodes
    for v in nodes:
        above = next((u for u in tree.ancestors(v) if u in nodes), None)
        assert list(graph.predecessors(v)) == ([] if above is None else [above])
        data = graph.nodes[v]
        assert data["size"] == (labels[tree.leaves(v)] >= 0).sum()
        assert data["share"] == data["size"] / tree.n_leaves
        assert data["height"] == tree.heights()[v]
        assert (graph.out_degree(v) == 0) == (v in tops.values())
    for c, v in tops.items():
        assert (graph.nodes[v]["cluster"], graph.nodes[v]["name"]) == (c, f"cluster {c}")
        assert cluster_nodes(tree, labels)[c] == v
    if tops:
        assert networkx.is_arborescence(graph)
        found.tree.check()
        np.testing.assert_array_equal(
            found.tree.heights()[found.n_clusters :], np.nan_to_num(found.heights)[found.n_clusters :]
        )


def test_one_cluster_all_alone_and_none_at_all():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0]]))
    one = collapse(tree, [0, 0, 0])
    assert (one.n_clusters, one.nodes[0], one.sizes[0]) == (1, tree.root, 3)
    assert collapse(tree, [0, 1, 2]).to_networkx().number_of_nodes() == 5
    none = collapse(tree, [-1, -1, -1])
    assert (none.n_clusters, none.tree.n_leaves, none.to_networkx().number_of_nodes()) == (0, 0, 0)
    assert collapse(Tree(), []).n_clusters == 0
    single = Tree()
    single.attach()
    assert collapse(single, [0]).sizes[0] == 1


def test_a_chain_as_deep_as_it_has_points():
    n = 5_000
    found = collapse(chain(n), np.arange(n))
    assert found.n_clusters == n
    assert found.tree.depths().max() == n - 1
    assert found.to_networkx().number_of_edges() == 2 * n - 2


def test_scores_names_keywords_and_sureness():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0]]))
    found = collapse(tree, [0, 0, 2, 2]).described(["a", 7], [["x"], []], [0.5, 1.0])
    graph = found.to_networkx()
    leaves = [data for _, data in graph.nodes(data=True) if "cluster" in data]
    assert [(d["cluster"], d["name"], d["keywords"], d["confidence"], d["score"]) for d in leaves] == [
        (0, "a", ["x"], 0.5, -1.0),
        (2, "7", [], 1.0, -2.0),
    ]
    refused("names must have one entry for each of the 2 clusters; got 1", found.described, names=["a"])


def test_points_elsewhere_count_to_the_size_of_their_cluster():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0], [30.0]]))
    found = collapse(tree, [0, 0, 1, 1, 0])
    assert found.sizes[:2].tolist() == [3, 2]
    assert found.sizes[found.tree.root] == 5
    assert found.nodes[:2].tolist() == [tree.parent(0), tree.parent(2)]
    assert found.nodes[found.tree.root] == tree.lca(0, 2)
    assert [points.tolist() for points in central_leaves(tree, [0, 0, 1, 1, 0], n=3)] == [[0, 1], [2, 3]]


def test_labels_of_other_points_are_refused():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0]]))
    refused("labels must have one entry for each of the 4 points of the tree; got 2", collapse, tree, [0, 1])


def test_central_leaves_are_medoids_by_cophenetic_distance(rng):
    vectors = rng.normal(size=(60, 3))
    matrix = linkage(vectors, "average")
    tree, apart = Tree.from_scipy(matrix), squareform(cophenet(matrix))
    labels = cut_n_clusters(tree, 7)
    labels[rng.random(60) < 0.2] = -1
    labels = np.where(labels == 3, -1, labels)
    for c, found in enumerate(central_leaves(tree, labels, 4)):
        members = np.flatnonzero(labels == c)
        sums = apart[np.ix_(members, members)].sum(axis=1).round(9)
        assert found.tolist() == members[np.argsort(sums, kind="stable")][:4].tolist()


def test_central_points_come_nearest_first(rng):
    vectors, labels = rng.normal(size=(80, 3)), rng.integers(-1, 5, 80)
    for c, found in enumerate(central_points(vectors, labels, 6, "sqeuclidean")):
        members = np.flatnonzero(labels == c)
        gaps = ((vectors[members] - vectors[members].mean(axis=0)) ** 2).sum(axis=1)
        assert found.tolist() == members[np.argsort(gaps)][:6].tolist()


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("metric", ["cosine", "euclidean", "sqeuclidean"])
def test_an_exemplar_is_the_medoid(rng, metric, wrap):
    vectors = rng.normal(size=(200, 4))
    labels = rng.integers(-1, 8, 200)
    labels[labels == 5] = 2
    found = exemplars(wrap(vectors), labels, metric)
    for number, exemplar in enumerate(found.tolist()):
        members = np.flatnonzero(labels == number)
        if number == 5:
            assert exemplar == -1
        else:
            sums = cdist(vectors[members], vectors[members], metric).sum(axis=1)
            assert exemplar in members[np.isclose(sums, sums.min())]
    assert cluster_sizes(labels).tolist() == [(labels == number).sum() for number in range(8)]


def test_exemplars_of_large_clusters_by_blocks_and_by_the_mean(rng, monkeypatch):
    vectors = rng.normal(size=(1500, 3))
    sums = squareform(pdist(vectors)).sum(axis=1)
    assert exemplars(vectors, np.zeros(1500, int), "euclidean").tolist() == [sums.argmin()]
    monkeypatch.setattr("grinch.cuts.medoids.ALL_PAIRS_UP_TO", 1000)
    nearest = np.linalg.norm(vectors - vectors.mean(axis=0), axis=1).argmin()
    assert exemplars(vectors, np.zeros(1500, int), "euclidean").tolist() == [nearest]


def test_exemplars_at_the_edges():
    assert exemplars(np.empty((0, 2)), []).tolist() == cluster_sizes([]).tolist() == []
    assert exemplars([[1.0], [2.0]], [-1, -1], "euclidean").tolist() == []
    assert exemplars([[1.0], [2.0]], [1, 0]).tolist() == [1, 0]
    # Of opposite vectors and a zero one, the zero vector has the smallest sum of cosine distances.
    assert exemplars([[1.0], [-1.0], [0.0]], [0, 0, 0]).tolist() == [2]
    for bad in (["a", "b"], [0.5, 1.0], [[0, 1]], [-2, 0]):
        refused("labels must be one cluster number from 0 on", exemplars, [[1.0], [2.0]], bad)
    refused(r"metric must be one of .* got 'cosin'; did you mean 'cosine'", exemplars, [[1.0]], [0], "cosin")
