"""The clusters that last longest, against HDBSCAN."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
from scipy.spatial.distance import pdist, squareform
from sklearn.cluster import HDBSCAN
from sklearn.metrics import adjusted_rand_score

from grinch import Tree
from grinch.cuts import (
    cut_stability,
)


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
