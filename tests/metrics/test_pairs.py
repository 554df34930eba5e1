"""Scores of flat clusterings, against scikit-learn, also where labels are missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import pair_confusion_matrix

from grinch import Tree
from grinch.metrics import (
    adjusted_rand,
    bcubed,
    dendrogram_purity,
    normalized_mutual_information,
    pairwise_f1,
    pairwise_scores,
)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_scores_of_flat_clusterings(pairs):
    true, found = map(np.array, zip(*pairs, strict=True))
    (_, false_positive), (false_negative, true_positive) = pair_confusion_matrix(true, found)
    scores = pairwise_scores(true, found)
    in_found, in_true = true_positive + false_positive, true_positive + false_negative
    assert scores.precision == pytest.approx(true_positive / in_found if in_found else 1)
    assert scores.recall == pytest.approx(true_positive / in_true if in_true else 1)
    total = in_found + in_true
    assert pairwise_f1(true, found) == scores.f1 == pytest.approx(2 * true_positive / total if total else 1)
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
