"""Purity, F1 and cuts against brute force and scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import pair_confusion_matrix

from grinch import Tree
from grinch.cuts import cut_n_clusters, cut_threshold
from grinch.metrics import dendrogram_purity, pairwise_f1


@st.composite
def labelled_trees(draw):
    tree = Tree(1)
    tree.attach()
    for _ in range(draw(st.integers(0, 18))):
        tree.attach(beside=draw(st.sampled_from(list(tree.nodes()))))
    labels = draw(st.lists(st.sampled_from("abcd"), min_size=tree.n_leaves, max_size=tree.n_leaves))
    return tree, labels


@given(labelled_trees())
def test_dendrogram_purity_is_its_definition(case):
    tree, labels = case
    purities = [
        np.mean([labels[k] == labels[i] for k in tree.leaves(tree.lca(i, j))])
        for i, j in itertools.combinations(range(tree.n_leaves), 2)
        if labels[i] == labels[j]
    ]
    found = dendrogram_purity(tree, labels)
    if purities:
        assert found == pytest.approx(np.mean(purities))
    else:
        assert np.isnan(found)


def test_points_without_a_label_make_no_pairs_but_count_in_nodes():
    tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    assert dendrogram_purity(tree, ["a", None, "a"]) == pytest.approx(2 / 3)
    assert dendrogram_purity(tree, [1.0, 1.0, float("nan")]) == 1.0
    assert np.isnan(dendrogram_purity(tree, [None, None, "a"]))


def test_purity_of_a_perfect_and_of_a_deep_tree():
    matrix = sch.linkage(np.repeat([[0.0], [10.0], [20.0]], 5, axis=0) + np.linspace(0, 1, 15)[:, None])
    assert dendrogram_purity(Tree.from_scipy(matrix), np.repeat([0, 1, 2], 5)) == 1.0
    tree = Tree(50_000)
    tree.attach()
    for _ in range(49_999):
        tree.attach(beside=tree.root)
    labels = np.arange(50_000) % 2
    assert 0.5 < dendrogram_purity(tree, labels) < 0.51


def test_labels_of_the_wrong_length():
    with pytest.raises(ValueError, match="each of the 2 leaves; got shape"):
        dendrogram_purity(Tree.from_scipy([[0, 1, 1.0, 2]]), [1, 2, 3])
    with pytest.raises(ValueError, match="of one length; got shapes"):
        pairwise_f1([1, 2], [1, 2, 3])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_pairwise_f1_is_that_of_the_pair_confusion_matrix(pairs):
    true, found = zip(*pairs, strict=True)
    (_, false_positive), (false_negative, true_positive) = pair_confusion_matrix(true, found)
    total = 2 * true_positive + false_positive + false_negative
    assert pairwise_f1(true, found) == pytest.approx(2 * true_positive / total if total else 1.0)


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
