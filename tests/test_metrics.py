"""Purity and scores of clusterings against brute force, scipy and scikit-learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.cluster import pair_confusion_matrix

from grinch import Tree
from grinch.metrics import dendrogram_purity, pairwise_f1
from trees import labelled_trees


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


def test_points_without_a_label_can_be_left_out():
    tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    assert dendrogram_purity(tree, ["a", None, "a"], unlabelled="ignore") == 1.0
    with pytest.raises(ValueError, match="unlabelled must be one of 'count', 'ignore'; got 'ignored'; did you mean"):
        dendrogram_purity(tree, ["a", None, "a"], unlabelled="ignored")


@given(labelled_trees(classes=["a", "b", None, float("nan")]))
def test_ignoring_points_is_taking_them_out_of_the_nodes(case):
    tree, labels = case
    known = {i for i, label in enumerate(labels) if label in ("a", "b")}
    purities = [
        np.mean([labels[k] == labels[i] for k in tree.leaves(tree.lca(i, j)) if k in known])
        for i, j in itertools.combinations(sorted(known), 2)
        if labels[i] == labels[j]
    ]
    found = dendrogram_purity(tree, labels, unlabelled="ignore")
    assert found == pytest.approx(np.mean(purities)) if purities else np.isnan(found)
