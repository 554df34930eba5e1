"""Cuts against brute force and scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.cluster import HDBSCAN
from sklearn.metrics import adjusted_rand_score

from grinch import Tree
from grinch.cuts import (
    best_threshold,
    cluster_sizes,
    cut_best_f1,
    cut_by_cost,
    cut_inconsistency,
    cut_n_clusters,
    cut_stability,
    cut_threshold,
    exemplars,
    node_costs,
    splits_by_cost,
)
from grinch.metrics import pairwise_f1
from trees import labelled_trees, labels_from, partitions, random_trees


@pytest.mark.parametrize("method", ["average", "ward", "single"])
def test_cuts_are_those_of_scipy(rng, method):
    matrix = sch.linkage(rng.normal(size=(80, 3)), method)
    tree = Tree.from_scipy(matrix)
    for k in (1, 2, 5, 40, 80):
        labels = cut_n_clusters(tree, k)
        assert adjusted_rand_score(sch.fcluster(matrix, k, "maxclust"), labels) == 1
        assert labels.max() == k - 1
    for height in np.quantile(matrix[:, 2], [0.1, 0.5, 0.9]):
        assert adjusted_rand_score(sch.fcluster(matrix, height, "distance"), cut_threshold(tree, -height)) == 1


def test_labels_count_up_in_the_order_of_arrival(rng):
    labels = cut_n_clusters(Tree.from_scipy(sch.linkage(rng.normal(size=(50, 2)))), 7)
    _, first = np.unique(labels, return_index=True)
    assert (np.diff(first) > 0).all()


def test_a_threshold_cut_goes_from_the_top():
    """The root scores well, so it is kept although a node below it does not."""
    tree = Tree.from_scipy([[0, 1, 4.0, 2], [2, 3, 1.0, 3]])
    assert cut_threshold(tree, -2.0).tolist() == [0, 0, 0]
    assert cut_threshold(tree, -0.5).tolist() == [0, 1, 2]
    assert cut_threshold(tree, -5).tolist() == [0, 0, 0]


def test_cuts_of_tiny_trees():
    tree = Tree()
    assert cut_n_clusters(tree, 3).tolist() == []
    tree.attach()
    assert cut_n_clusters(tree, 3).tolist() == [0]
    assert cut_threshold(tree, 0.5).tolist() == [0]
    tree.attach(beside=0)
    assert cut_n_clusters(tree, 3).tolist() == [0, 1]
    with pytest.raises(ValueError, match="threshold needs a tree that knows its scores"):
        cut_threshold(tree, 0.5)


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "3", None])
def test_n_clusters_must_be_a_count(bad):
    with pytest.raises(ValueError, match="n_clusters must be a whole number of at least 1; got"):
        cut_n_clusters(Tree(), bad)


@pytest.mark.parametrize("bad", ["0.5", float("nan"), True, None])
def test_threshold_must_be_a_number(bad):
    with pytest.raises(ValueError, match="threshold must be a number"):
        cut_threshold(Tree(), bad)


@given(labelled_trees(max_leaves=9, classes=["a", "b", "c", None]))
def test_the_best_cut_is_the_best_of_all_cuts(case):
    tree, labels = case
    best = max(pairwise_f1(labels, labels_from(tree, nodes)) for nodes in partitions(tree))
    cut = cut_best_f1(tree, labels)
    assert pairwise_f1(labels, cut) == pytest.approx(best, abs=1e-12)
    clusters = {frozenset(np.flatnonzero(cut == k).tolist()) for k in cut}
    assert clusters <= {frozenset(tree.leaves(v).tolist()) for v in tree.nodes()}


def test_the_best_cut_of_tiny_and_classless_trees():
    tree = Tree()
    assert cut_best_f1(tree, []).tolist() == []
    tree.attach()
    assert cut_best_f1(tree, ["a"]).tolist() == [0]
    tree.attach(beside=0)
    assert cut_best_f1(tree, ["a", "b"]).tolist() == [0, 1]
    assert cut_best_f1(tree, ["a", "a"]).tolist() == [0, 0]


def brute_cost(points, cost):
    diameter = float(np.linalg.norm(np.ptp(points, axis=0)))
    return {
        "n": len(points),
        "diameter": diameter,
        "half_diameter_times_n": diameter * len(points) / 2,
        "kmeans": ((points - points.mean(axis=0)) ** 2).sum(),
    }[cost]


@pytest.mark.parametrize("cost", ["n", "diameter", "half_diameter_times_n", "kmeans"])
@pytest.mark.parametrize("wrap", [np.asarray, np.float32, scipy.sparse.csr_array])
def test_costs_of_nodes(rng, cost, wrap):
    vectors = (rng.normal(size=(40, 5)) * (rng.random((40, 5)) < 0.6)).astype(np.float32).astype(np.float64)
    tree = Tree.from_scipy(sch.linkage(vectors, "average"))
    costs = node_costs(tree, wrap(vectors), cost)
    for v in tree.nodes():
        members = vectors[tree.leaves(v)]
        assert costs[v] == pytest.approx(0.0 if tree.is_leaf(v) else brute_cost(members, cost))
        if cost == "diameter" and len(members) > 1:
            assert costs[v] >= pdist(members).max() - 1e-9


@given(random_trees(), st.integers(1, 20), st.data())
def test_each_split_is_of_the_costliest_cluster(tree, k, data):
    n_nodes = len(tree.links.table)
    costs = np.array(data.draw(st.lists(st.floats(0, 9), min_size=n_nodes, max_size=n_nodes, unique=True)))
    frontier = [tree.root]
    while len(frontier) < k and not all(map(tree.is_leaf, frontier)):
        worst = max((v for v in frontier if not tree.is_leaf(v)), key=lambda v: costs[v])
        frontier.remove(worst)
        frontier += tree.children(worst)
    is_split = splits_by_cost(tree, costs, k)
    assert set(np.flatnonzero(is_split)) == set(tree.nodes()) - {u for v in frontier for u in under(tree, v)}


def under(tree, v):
    return [v, *itertools.chain.from_iterable(under(tree, child) for child in tree.children(v))]


def test_a_cut_by_cost(rng):
    vectors = rng.normal(size=(60, 2))
    tree = Tree.from_scipy(sch.linkage(vectors, "ward"))
    for k in (1, 2, 9, 60, 70):
        assert len(np.unique(cut_by_cost(tree, vectors, k))) == min(k, 60)
    assert cut_by_cost(Tree(), np.empty((0, 2)), 3).tolist() == []


def test_what_a_cut_by_cost_refuses():
    tree = Tree.from_scipy([[0, 1, 1.0, 2]])
    with pytest.raises(ValueError, match=r"cost must be one of .*; got 'kmean'; did you mean 'kmeans'"):
        cut_by_cost(tree, [[0.0], [1.0]], 2, cost="kmean")
    with pytest.raises(ValueError, match="vectors must have one row for each of the 2 points"):
        cut_by_cost(tree, [[0.0]], 2)
    with pytest.raises(ValueError, match="vectors must be finite"):
        cut_by_cost(tree, [[0.0], [float("nan")]], 2)
    with pytest.raises(ValueError, match="vectors must be numbers"):
        cut_by_cost(tree, [["a"], ["b"]], 2)
    with pytest.raises(ValueError, match="costs must have one entry for each of the 4 node ids"):
        splits_by_cost(tree, [1.0], 2)
    with pytest.raises(ValueError, match="n_clusters must be a whole number"):
        cut_by_cost(tree, [[0.0], [1.0]], 0)


@given(labelled_trees(max_leaves=12, classes=["a", "b", None]), st.data())
def test_the_best_threshold_is_the_best_of_all(case, data):
    tree, labels = case
    score = st.sampled_from([-np.inf, -2.0, -1.5, 0.25, 0.5, np.nextafter(0.5, 1), 3.0, np.inf])
    n_nodes = len(tree.links.table)
    tree._scores = np.array(data.draw(st.lists(score, min_size=n_nodes, max_size=n_nodes)))
    tree._scores[: tree.offset] = np.nan
    known = [i for i, label in enumerate(labels) if label is not None]
    true = [labels[i] for i in known]
    if len(set(true)) == len(true):
        with pytest.raises(ValueError, match="labels must have two points of one class"):
            best_threshold(tree, labels)
        return
    nodes = [v for v in tree.nodes() if not tree.is_leaf(v)]
    f1 = {t: pairwise_f1(true, cut_threshold(tree, t)[known]) for t in {*tree.scores[nodes].tolist(), np.inf}}
    threshold, reached = best_threshold(tree, labels)
    assert reached == pytest.approx(max(f1.values()))
    assert pairwise_f1(true, cut_threshold(tree, threshold)[known]) == pytest.approx(reached)


def test_the_best_threshold_lies_in_the_middle():
    tree = Tree.from_scipy(sch.linkage([[0.0], [1.0], [7.0], [9.0], [30.0]]))
    assert best_threshold(tree, [0, 0, 1, 1, None]) == (-4.0, 1.0)
    assert best_threshold(tree, [0, 0, 0, 0, None]) == (-6.0, 1.0)  # any threshold up to the one that splits
    assert best_threshold(tree, [0, 0, 0, 0, 1]) == (-13.5, 1.0)
    unscored = Tree()
    unscored.attach()
    unscored.attach(beside=0)
    with pytest.raises(ValueError, match="threshold needs a tree that knows its scores"):
        best_threshold(unscored, [0, 0])


def uneven_blobs(seed):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(6, 2)) * 6
    blobs = [centre + rng.normal(size=(40, 2)) * rng.uniform(0.3, 1.5) for centre in centres]
    return np.vstack([*blobs, rng.normal(size=(30, 2)) * 9])


def reachability_tree(vectors, min_samples):
    """The single-linkage tree of mutual reachability distances."""
    distances = squareform(pdist(vectors))
    core = np.sort(distances, axis=1)[:, min_samples - 1]
    reach = np.maximum(distances, np.maximum(core[:, None], core))
    np.fill_diagonal(reach, 0)
    return Tree.from_scipy(sch.linkage(squareform(reach, checks=False), "single"))


def assert_same_clusters_and_noise(labels, expected):
    assert np.array_equal(labels < 0, expected < 0)
    assert adjusted_rand_score(expected, labels) == 1
    assert sorted(set(labels.tolist()) - {-1}) == list(range(expected.max() + 1))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("min_cluster_size", [2, 5, 10, 25])
def test_stable_clusters_are_those_of_hdbscan(seed, min_cluster_size):
    """With min_samples=1 no two distances are equal, and there is but one single-linkage tree."""
    vectors = uneven_blobs(seed)
    expected = HDBSCAN(min_cluster_size, min_samples=1, copy=True).fit_predict(vectors)
    assert_same_clusters_and_noise(cut_stability(reachability_tree(vectors, 1), min_cluster_size), expected)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("min_cluster_size", "min_samples"), [(5, 3), (10, 5), (25, 4)])
def test_stable_clusters_of_the_tree_of_hdbscan(seed, min_cluster_size, min_samples):
    """Mutual reachability makes many distances equal, so this takes the very tree that scikit-learn found."""
    model = HDBSCAN(min_cluster_size, min_samples=min_samples, copy=True).fit(uneven_blobs(seed))
    merges = model._single_linkage_tree_
    names = ("left_node", "right_node", "value", "cluster_size")
    tree = Tree.from_scipy(np.column_stack([merges[name].astype(float) for name in names]))
    assert_same_clusters_and_noise(cut_stability(tree, min_cluster_size), model.labels_)


def test_stable_clusters_of_equal_points_and_few():
    points = np.repeat([[0.0], [1.0], [5.0]], [6, 6, 1], axis=0)
    assert cut_stability(Tree.from_scipy(sch.linkage(points)), 5).tolist() == [0] * 6 + [1] * 6 + [-1]
    points[:6] += np.arange(6)[:, None] * 1e-310  # distances that have no reciprocal
    assert cut_stability(Tree.from_scipy(sch.linkage(points)), 5).tolist() == [0] * 6 + [1] * 6 + [-1]
    same = Tree.from_scipy(sch.linkage(np.zeros((12, 1))))
    assert cut_stability(same, 12).tolist() == [-1] * 12
    assert cut_stability(same, 12, allow_single_cluster=True).tolist() == [0] * 12
    assert cut_stability(same, 13, allow_single_cluster=True).tolist() == [-1] * 12
    assert cut_stability(Tree(), 5).tolist() == []
    with pytest.raises(ValueError, match="min_cluster_size must be a whole number of at least 2; got 1"):
        cut_stability(same, 1)


def test_stable_clusters_of_a_deep_tree():
    n = 20_000
    merges = np.column_stack([np.r_[0, n + np.arange(n - 2)], np.arange(1, n), np.arange(1, n), np.arange(2, n + 1)])
    assert (cut_stability(Tree.from_scipy(merges), 5) == -1).all()
    assert (cut_stability(Tree.from_scipy(merges), 5, allow_single_cluster=True) == 0).all()


@pytest.mark.parametrize("method", ["average", "complete", "single", "ward"])
@pytest.mark.parametrize("depth", [1, 2, 3, 6])
def test_inconsistency_cuts_are_those_of_scipy(rng, method, depth):
    matrix = sch.linkage(rng.normal(size=(150, 3)), method)
    for factor in (0.0, 0.71, 0.9, 1.0, 1.15, 1.6):
        expected = sch.fcluster(matrix, factor, "inconsistent", depth)
        assert adjusted_rand_score(expected, cut_inconsistency(Tree.from_scipy(matrix), depth, factor)) == 1


def test_inconsistency_of_equal_heights_and_tiny_trees():
    equal = Tree.from_scipy([[0, 1, 0.1, 2], [2, 3, 0.1, 2], [4, 5, 0.1, 4]])
    assert cut_inconsistency(equal, factor=0.0).tolist() == [0, 0, 0, 0]
    assert cut_inconsistency(equal, factor=-0.5).tolist() == [0, 1, 2, 3]
    assert cut_inconsistency(Tree()).tolist() == []
    with pytest.raises(ValueError, match="depth must be a whole number of at least 1; got 0"):
        cut_inconsistency(equal, depth=0)
    with pytest.raises(ValueError, match="factor must be a number of standard deviations; got '1'"):
        cut_inconsistency(equal, factor="1")


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
        with pytest.raises(ValueError, match="labels must be one cluster number from 0 on"):
            exemplars([[1.0], [2.0]], bad)
    with pytest.raises(ValueError, match=r"metric must be one of .* got 'cosin'; did you mean 'cosine'"):
        exemplars([[1.0]], [0], "cosin")
