"""Dendrogram purity, exact, running and sampled, against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
from hypothesis import given

from grinch import Tree
from grinch.cuts import cut_n_clusters
from grinch.metrics import RunningPurity, dendrogram_purity, expected_purity, pairwise_f1, sampled_purity
from refusals import refused
from trees import chain, labelled_trees


@pytest.mark.parametrize("unlabelled", ["count", "ignore"])
@given(labelled_trees(classes=["a", "b", "c", None, float("nan")]))
def test_dendrogram_purity_is_its_definition(unlabelled, case):
    """Points without a label make no pairs, and count in the nodes or not."""
    tree, labels = case
    known = {i for i, label in enumerate(labels) if label in ("a", "b", "c")}
    counted = known if unlabelled == "ignore" else set(range(tree.n_leaves))
    purities = [
        np.mean([labels[k] == labels[i] for k in tree.leaves(tree.lca(i, j)) if k in counted])
        for i, j in itertools.combinations(sorted(known), 2)
        if labels[i] == labels[j]
    ]
    found = dendrogram_purity(tree, labels, unlabelled=unlabelled)
    assert found == pytest.approx(np.mean(purities)) if purities else np.isnan(found)


def test_purity_of_a_perfect_and_of_a_deep_tree():
    matrix = sch.linkage(np.repeat([[0.0], [10.0], [20.0]], 5, axis=0) + np.linspace(0, 1, 15)[:, None])
    assert dendrogram_purity(Tree.from_scipy(matrix), np.repeat([0, 1, 2], 5)) == 1.0
    assert 0.5 < dendrogram_purity(chain(20_000), np.arange(20_000) % 2) < 0.51


def test_labels_of_the_wrong_length():
    tree = Tree.from_scipy([[0, 1, 1.0, 2]])
    message = "unlabelled must be one of 'count', 'ignore'; got 'ignored'; did you mean"
    refused(message, dendrogram_purity, tree, ["a", None], unlabelled="ignored")
    refused("each of the 2 leaves; got shape", dendrogram_purity, Tree.from_scipy([[0, 1, 1.0, 2]]), [1, 2, 3])
    refused("of one length; got shapes", pairwise_f1, [1, 2], [1, 2, 3])


def test_running_purity_is_that_of_each_tree(rng):
    labels = rng.integers(0, 3, 40).tolist()
    tree, all_of_them, some = Tree(1), RunningPurity(labels), RunningPurity(labels, every=10)
    assert all_of_them.update(tree) is None
    for i in range(40):
        tree.attach(None if i == 0 else int(rng.choice(tree.preorder())))
        if i > 20:
            tree.swap(0, 1)
        exact = dendrogram_purity(tree, labels[: i + 1])
        assert all_of_them.update(tree) == pytest.approx(exact, nan_ok=True)
        assert some.update(tree) == (pytest.approx(exact) if i % 10 == 9 else None)
    assert [n for n, _ in all_of_them.history] == list(range(1, 41))
    assert [n for n, _ in some.history] == [10, 20, 30, 40]
    tree.attach(0)
    refused("at most the 40 points there are labels for; got 41 leaves", some.update, tree)
    refused("every must be a whole number of at least 1; got 0", RunningPurity, labels, every=0)


@given(labelled_trees(classes=["a", "b", "c", None]))
def test_expected_purity_is_that_of_each_cut(case):
    tree, labels = case
    known = sum(label is not None for label in labels)
    expected = []
    for k in range(1, tree.n_leaves + 3):
        cut = cut_n_clusters(tree, k)
        clusters = [[labels[i] for i in np.flatnonzero(cut == number)] for number in range(max(cut) + 1)]
        expected.append(sum(max(members.count(c) for c in "abc") for members in clusters))
    ks = list(range(1, tree.n_leaves + 3))
    assert expected_purity(tree, labels, ks) == pytest.approx(np.array(expected) / tree.n_leaves)
    assert expected_purity(tree, labels, 2) == pytest.approx(expected[1] / tree.n_leaves)
    if known:
        assert expected_purity(tree, labels, ks, unlabelled="ignore") == pytest.approx(np.array(expected) / known)
    else:
        assert np.isnan(expected_purity(tree, labels, ks, unlabelled="ignore")).all()


def test_expected_purity_wants_counts():
    with pytest.raises(ValueError, match="n_clusters must be a whole number of at least 1; got 0"):
        expected_purity(Tree.from_scipy([[0, 1, 1.0, 2]]), [0, 1], [1, 0])
    assert np.isnan(expected_purity(Tree(), [], 2))


def test_sampled_purity_holds_the_exact_one(blobs):
    vectors, classes = blobs
    labels = [None if i % 7 == 0 else int(c) for i, c in enumerate(classes)]
    tree = Tree.from_scipy(sch.linkage(vectors, "average"))
    exact = dendrogram_purity(tree, labels)
    assert 0.2 < exact < 0.95
    for seed in range(10):
        sampled = sampled_purity(tree, labels, 5_000, 0.999, random_state=seed)
        assert sampled.low < exact < sampled.high
    assert sampled_purity(tree, labels, 400_000, random_state=1).purity == pytest.approx(exact, abs=0.003)
    assert sampled_purity(tree, labels, 50, random_state=3) == sampled_purity(tree, labels, 50, random_state=3)


def test_sampled_purity_at_the_edges():
    tree = Tree.from_scipy([[0, 1, 1.0, 2]])
    assert sampled_purity(tree, [0, 0]).high == 1.0
    assert all(np.isnan(sampled_purity(tree, [0, 1])))
    assert all(np.isnan(sampled_purity(Tree(), [])))
    refused("n_pairs must be a whole number of at least 1; got 0", sampled_purity, tree, [0, 0], 0)
    refused(r"confidence must be between 0 and 1, such as 0\.95; got 95", sampled_purity, tree, [0, 0], confidence=95)
