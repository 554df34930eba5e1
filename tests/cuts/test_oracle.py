"""The best cuts, against all cuts there are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
from hypothesis import given
from hypothesis import strategies as st

from grinch import Tree
from grinch.cuts import best_threshold, cut_best_f1, cut_threshold
from grinch.metrics import pairwise_f1
from trees import labelled_trees, labels_from, partitions


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


@given(labelled_trees(max_leaves=12, classes=["a", "b", None]), st.data())
def test_the_best_threshold_is_the_best_of_all(case, data):
    tree, labels = case
    score = st.sampled_from([-np.inf, -2.0, -1.5, 0.25, 0.5, np.nextafter(0.5, 1), 3.0, np.inf])
    n_nodes = tree.n_ids
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
