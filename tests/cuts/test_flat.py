"""Cuts by height, by score and where heights jump, against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
from sklearn.metrics import adjusted_rand_score

from grinch import Tree
from grinch.cuts import cut_inconsistency, cut_n_clusters, cut_threshold
from refusals import refused


@pytest.mark.parametrize("method", ["average", "ward", "single"])
def test_cuts_are_those_of_scipy(rng, method):
    matrix = sch.linkage(rng.normal(size=(80, 3)), method)
    tree = Tree.from_scipy(matrix)
    for k in (1, 2, 5, 40, 80):
        labels = cut_n_clusters(tree, k)
        assert list(dict.fromkeys(labels)) == list(range(k)), "in the order of arrival"
        assert adjusted_rand_score(sch.fcluster(matrix, k, "maxclust"), labels) == 1
    for height in np.quantile(matrix[:, 2], [0.1, 0.5, 0.9]):
        assert adjusted_rand_score(sch.fcluster(matrix, height, "distance"), cut_threshold(tree, -height)) == 1


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
    refused("threshold needs a tree that knows its scores", cut_threshold, tree, 0.5)


def test_what_is_no_number_is_refused():
    for bad in (0, -1, 2.5, True, "3", None):
        refused("n_clusters must be a whole number of at least 1; got", cut_n_clusters, Tree(), bad)
    for bad in ("0.5", float("nan"), True, None):
        refused("threshold must be a number", cut_threshold, Tree(), bad)


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
    refused("depth must be a whole number of at least 1; got 0", cut_inconsistency, equal, depth=0)
    refused("factor must be a number of standard deviations; got '1'", cut_inconsistency, equal, factor="1")
