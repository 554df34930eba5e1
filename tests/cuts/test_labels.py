"""Small groups that join clusters, against a look at all groups one by one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score

from grinch import Tree
from grinch.cuts import cut_auto, labels_of, neighbor_graph, splits_n_clusters
from grinch.cuts.graph import comparable
from grinch.cuts.labels import REACH, SMALL, join_near, merge_small
from trees import random_trees


def members(labels, number):
    return np.flatnonzero(labels == number)


def blob_tree(rng, n=240, k=40):
    """Clusters in many dimensions, and a cut that leaves many of their points alone."""
    X = np.concatenate([rng.normal(size=(n // 3, 12)) + 3 * i for i in range(3)]).astype(np.float32)
    tree = Tree.from_scipy(sch.linkage(X, "average"))
    return X, tree, splits_n_clusters(tree, k)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_small_group_joins_the_nearest_cluster_in_reach(seed, is_sparse):
    X, tree, is_split = blob_tree(np.random.default_rng(seed))
    rows, graph = comparable(X, "euclidean"), neighbor_graph(X, "euclidean")
    before = tree.number_subtrees(is_split)[: tree.n_leaves]
    becomes = join_near(tree, is_split, scipy.sparse.csr_matrix(rows) if is_sparse else rows, graph)
    counts = np.bincount(before)
    falling = np.sort(counts)[::-1]
    typical = next(size for i, size in enumerate(falling) if falling[: i + 1].sum() >= len(X) / 2)
    squared = cdist(rows.astype(float), rows.astype(float), "sqeuclidean")
    for g in range(len(counts)):
        mine = members(before, g)
        expected, gap = g, np.inf
        for c in np.unique(before[graph.near[mine]]).tolist():
            theirs = members(before, c)
            apart = squared[np.ix_(mine, theirs)].mean()
            inside = squared[np.ix_(theirs, theirs)].sum() / max(len(theirs) * (len(theirs) - 1), 1)
            between = ((rows[mine].mean(axis=0) - rows[theirs].mean(axis=0)) ** 2).sum()
            if counts[c] >= SMALL * typical > counts[g] and apart <= REACH * inside and between < gap:
                expected, gap = c, between
        assert becomes[g] == expected
    assert (becomes != np.arange(len(counts))).any()


def test_a_far_pair_stays():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(300, 4)), rng.normal(size=(2, 4)) * 0.01 + 60])
    labels = cut_auto(Tree.from_scipy(sch.linkage(X, "average")), X, metric="euclidean")
    assert (labels == labels[-1]).sum() == 2


@pytest.mark.parametrize("seed", range(3))
def test_records_of_few_copies_are_found(seed):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(120), rng.integers(1, 4, 120))
    X = rng.normal(size=(120, 20))[y] * 10 + rng.normal(size=(len(y), 20)) * 0.1
    labels = cut_auto(Tree.from_scipy(sch.linkage(X, "average")), X, metric="euclidean")
    assert adjusted_rand_score(y, labels) > 0.85


@given(random_trees(max_leaves=40), st.integers(0, 1000), st.integers(2, 9), st.booleans())
def test_every_cluster_is_large_enough(tree, seed, min_size, has_rows):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 4, size=(tree.n_leaves, 2)).astype(np.float32) if has_rows else None
    is_split = rng.random(tree.n_ids) < 0.7
    is_split = is_split & np.array([v in set(tree.internal_nodes().tolist()) for v in range(tree.n_ids)])
    before = labels_of(tree, is_split)
    whole, becomes = merge_small(tree, is_split, min_size, rows)
    labels = labels_of(tree, whole, becomes)
    assert np.bincount(labels).min() >= min(min_size, tree.n_leaves)
    # What was large enough stays together, and nobody is taken out of it.
    for number in np.flatnonzero(np.bincount(before) >= min_size):
        assert len(np.unique(labels[before == number])) == 1


def test_the_nearest_cluster_of_the_branch_is_joined():
    X = np.array([[0.0], [1], [2], [10], [11], [12], [8.5], [90], [91], [92]])
    tree = Tree.from_scipy(sch.linkage(X, "single"))
    is_split = splits_n_clusters(tree, 4)
    assert labels_of(tree, is_split).tolist() == [0, 0, 0, 1, 1, 1, 2, 3, 3, 3]
    assert labels_of(tree, *merge_small(tree, is_split, 2, X)).tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2]


def test_groups_without_a_large_one_become_one():
    X = np.array([[0.0], [1], [5], [6], [90], [91], [95], [96]])
    tree = Tree.from_scipy(sch.linkage(X, "average"))
    assert labels_of(tree, *merge_small(tree, splits_n_clusters(tree, 4), 3, X)).tolist() == [0] * 4 + [1] * 4
    assert labels_of(tree, *merge_small(tree, splits_n_clusters(tree, 4), 9, X)).tolist() == [0] * 8
