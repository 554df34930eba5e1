"""Purity and scores of clusterings against brute force, scipy and scikit-learn."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.cluster.hierarchy as sch
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import pair_confusion_matrix

from grinch import Tree
from grinch.cuts import cut_n_clusters
from grinch.metrics import (
    RunningPurity,
    adjusted_rand,
    bcubed,
    dasgupta_cost,
    dendrogram_purity,
    expected_purity,
    moseley_wang_revenue,
    normalized_mutual_information,
    pairwise_f1,
    pairwise_scores,
    sampled_purity,
    tree_profile,
)
from grinch.tree.paths import common_ancestors
from trees import labelled_trees, random_trees


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


@pytest.mark.parametrize(
    "labels",
    [
        ["x", "y", "x", float("nan")],
        [1, 2, 1.0, None],
        pd.Series(["x", "y", "x", None]),
        pd.Series(["x", "y", "x", None], dtype="string"),
        pd.Series([1, 2, 1, None], dtype="Int64"),
        np.array(["2020-01-01", "2020-01-02", "2020-01-01", "NaT"], dtype="datetime64[D]"),
    ],
)
def test_missing_labels_in_many_guises(labels):
    tree = Tree.from_scipy([[0, 2, 1.0, 2], [3, 4, 2.0, 3], [1, 5, 3.0, 4]])
    assert dendrogram_purity(tree, labels) == 1.0
    assert pairwise_scores(labels, [0, 1, 0, 0]) == (pytest.approx(1 / 3), 1.0, 0.5)
    assert bcubed(labels, [0, 1, 0, 0]) == (1.0, 1.0, 1.0)
    assert adjusted_rand(labels, [0, 1, 0, 0]) == normalized_mutual_information(labels, [0, 1, 0, 0]) == 1.0


@given(random_trees(), st.data())
def test_common_ancestors_of_any_two_nodes(tree, data):
    nodes = st.sampled_from(list(tree.nodes()))
    pairs = np.array(data.draw(st.lists(st.tuples(nodes, nodes), min_size=1)))
    assert common_ancestors(tree, *pairs.T).tolist() == [tree.lca(u, v) for u, v in pairs.tolist()]


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
    with pytest.raises(ValueError, match="n_pairs must be a whole number of at least 1; got 0"):
        sampled_purity(tree, [0, 0], 0)
    with pytest.raises(ValueError, match=r"confidence must be between 0 and 1, such as 0\.95; got 95"):
        sampled_purity(tree, [0, 0], confidence=95)


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
    with pytest.raises(ValueError, match="at most the 40 points there are labels for; got 41 leaves"):
        some.update(tree)
    with pytest.raises(ValueError, match="every must be a whole number of at least 1; got 0"):
        RunningPurity(labels, every=0)


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


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_scores_of_flat_clusterings(pairs):
    true, found = map(np.array, zip(*pairs, strict=True))
    (_, false_positive), (false_negative, true_positive) = pair_confusion_matrix(true, found)
    scores = pairwise_scores(true, found)
    in_found, in_true = true_positive + false_positive, true_positive + false_negative
    assert scores.precision == pytest.approx(true_positive / in_found if in_found else 1)
    assert scores.recall == pytest.approx(true_positive / in_true if in_true else 1)
    same_class, same_cluster = true[:, None] == true, found[:, None] == found
    precision = ((same_class & same_cluster).sum(axis=1) / same_cluster.sum(axis=1)).mean()
    recall = ((same_class & same_cluster).sum(axis=1) / same_class.sum(axis=1)).mean()
    assert bcubed(true, found) == pytest.approx((precision, recall, 2 * precision * recall / (precision + recall)))
    # A point without a class is left out.
    more_true, more_found = [None, *true.tolist(), None], [2, *found.tolist(), 9]
    assert bcubed(more_true, more_found) == pytest.approx(bcubed(true, found))
    assert adjusted_rand(more_true, more_found) == pytest.approx(adjusted_rand_score(true, found))
    information = normalized_mutual_info_score(true, found)
    assert normalized_mutual_information(more_true, more_found) == pytest.approx(information)


@pytest.mark.parametrize("score", [pairwise_scores, pairwise_f1, bcubed, adjusted_rand, normalized_mutual_information])
def test_flat_scores_check_lengths_alike(score):
    with pytest.raises(ValueError, match=r"of one length; got shapes \(2,\) and \(3,\)"):
        score([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match=r"one-dimensional and of one length; got shapes \(1, 2\) and \(1, 2\)"):
        score([[1, 2]], [[1, 2]])


def test_flat_scores_of_nothing():
    assert pairwise_scores([], []) == (1.0, 1.0, 1.0)
    assert all(np.isnan(bcubed([None], [1])))


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_costs_of_trees_by_all_pairs(rng, similarity, wrap):
    vectors = rng.random((25, 4)) * (rng.random((25, 4)) < 0.6)
    vectors[3] = 0
    tree = Tree.from_scipy(sch.linkage(vectors, "average"))
    lengths = np.linalg.norm(vectors, axis=1)
    unit = vectors / np.where(lengths, lengths, 1)[:, None] if similarity == "cosine" else vectors
    cost = revenue = total = 0.0
    for i, j in itertools.combinations(range(25), 2):
        size, similar = tree.size(tree.lca(i, j)), unit[i] @ unit[j]
        cost, revenue, total = cost + similar * size, revenue + similar * (25 - size), total + similar
    assert dasgupta_cost(tree, wrap(vectors), similarity) == pytest.approx(cost)
    assert moseley_wang_revenue(tree, wrap(vectors), similarity) == pytest.approx(revenue)
    part = moseley_wang_revenue(tree, wrap(vectors), similarity, normalized=True)
    assert part == pytest.approx(revenue / (23 * total))
    assert 1 / 3 < part < 1


def test_costs_of_tiny_trees_and_unknown_similarities():
    for tree in (Tree(), Tree.from_scipy(np.empty((0, 4)))):
        assert dasgupta_cost(tree, np.ones((tree.n_leaves, 2))) == 0.0
        assert np.isnan(moseley_wang_revenue(tree, np.ones((tree.n_leaves, 2)), normalized=True))
    with pytest.raises(ValueError, match="similarity must be one of 'dot', 'cosine'; got 'cosin'; did you mean"):
        dasgupta_cost(Tree(), np.ones((0, 2)), "cosin")


@given(random_trees())
def test_the_profile_of_a_tree_by_hand(tree):
    profile = tree_profile(tree)
    depths = [len(list(tree.ancestors(leaf))) for leaf in range(tree.n_leaves)]
    nodes = [v for v in tree.nodes() if not tree.is_leaf(v)]
    sizes = [tree.size(v) for v in nodes]
    children = [sorted(map(tree.size, tree.children(v))) for v in nodes]
    assert profile.n_leaves == tree.n_leaves
    assert profile[1:4] == (pytest.approx(np.mean(depths)), np.median(depths), max(depths))
    assert (profile.sackin, profile.colless) == (sum(depths), sum(b - a for a, b in children))
    assert sum(profile.size_counts) == len(nodes)
    for i, count in enumerate(profile.size_counts):
        assert count == sum(2**i < size <= 2 ** (i + 1) for size in sizes)
    if nodes:
        ratios = [a / b for a, b in children]
        assert profile.balance == pytest.approx(np.mean(ratios))
        assert profile.weighted_balance == pytest.approx(np.average(ratios, weights=sizes))


def test_the_profile_of_an_empty_tree():
    profile = tree_profile(Tree())
    assert (profile.n_leaves, profile.max_depth, profile.size_counts) == (0, 0, ())
    assert np.isnan(profile.mean_depth)
    assert np.isnan(profile.balance)
