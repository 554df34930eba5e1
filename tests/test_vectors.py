"""Sparse vectors give what the same vectors give dense."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from grinch import Tree
from grinch._vectors import paired_products, squared_distances
from grinch.cuts import central_points, neighbor_graph, node_costs
from grinch.cuts.graph import comparable, weighted
from grinch.cuts.persistence import mean_gaps
from grinch.metrics import dasgupta_cost
from grinch.neighbors import nearest_among
from grinch.tree.lca import products_across
from trees import random_trees

METRICS = ("cosine", "euclidean", "sqeuclidean")


def sparse_vectors(n, seed, width=12, share=0.3):
    """Whole numbers, zero vectors and copies among them."""
    rng = np.random.default_rng(seed)
    found = rng.integers(-3, 4, (n, width)) * (rng.random((n, width)) < share)
    return found[rng.integers(0, n, n)].astype(np.float64)


def messy(vectors):
    """The same matrix with duplicate entries out of order, and zeros written down."""
    row, column = np.nonzero(np.ones_like(vectors))
    order = np.random.default_rng(0).permutation(len(row))
    values = vectors[row, column]
    parts = np.concatenate([order, order])
    found = scipy.sparse.csr_matrix(vectors.shape)
    counts = np.bincount(row, minlength=len(vectors)) * 2
    parts = parts[np.argsort(row[parts], kind="stable")]
    found.indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    found.indices, found.data = column[parts].astype(np.int32), values[parts] / 2
    return found


seeds = st.integers(0, 2**32 - 1)


@given(st.integers(1, 30), seeds)
def test_products_and_distances_of_pairs(n, seed):
    vectors, rng = sparse_vectors(n, seed, width=40), np.random.default_rng(seed)
    matrix, (i, j) = scipy.sparse.csr_array(vectors), rng.integers(0, n, (2, 50))
    # One row is much longer than the others: its columns are searched for.
    long = scipy.sparse.csr_array(rng.normal(size=(1, 40)))
    np.testing.assert_allclose(paired_products(matrix, matrix, i, j), (vectors[i] * vectors[j]).sum(axis=1))
    np.testing.assert_allclose(paired_products(matrix, long, i, 0 * i), vectors[i] @ long.toarray()[0], atol=1e-12)
    np.testing.assert_allclose(squared_distances(matrix, matrix, i, j), ((vectors[i] - vectors[j]) ** 2).sum(axis=1))


@given(random_trees(), seeds)
def test_sums_over_a_tree(tree, seed):
    vectors = sparse_vectors(tree.n_leaves, seed) if tree.n_leaves else np.zeros((0, 12))
    for matrix in (scipy.sparse.csr_array(vectors), messy(vectors)):
        for v in tree.internal_nodes().tolist() if matrix.has_canonical_format else ():
            left, right = (vectors[tree.leaves(child)].sum(axis=0) for child in tree.children(v))
            assert products_across(tree, matrix)[v] == pytest.approx(left @ right)
        for metric in METRICS:
            np.testing.assert_allclose(mean_gaps(tree, matrix, metric), mean_gaps(tree, vectors, metric), atol=1e-12)
        for cost in ("diameter", "kmeans", "half_diameter_times_n"):
            np.testing.assert_allclose(node_costs(tree, matrix, cost), node_costs(tree, vectors, cost), atol=1e-6)
        for similarity in ("dot", "cosine"):
            assert dasgupta_cost(tree, matrix, similarity) == pytest.approx(dasgupta_cost(tree, vectors, similarity))


def test_copies_are_no_distance_apart():
    vectors = scipy.sparse.csr_array(np.tile(np.random.default_rng(0).random(7) + 1e3, (50, 1)))
    tree = Tree.from_merges(np.array([[i, i + 48 if i > 1 else 0] for i in range(1, 50)]), np.zeros(49))
    assert not mean_gaps(tree, vectors, "euclidean").any()
    assert not node_costs(tree, vectors, "diameter").any()
    assert not node_costs(tree, vectors, "kmeans").any()


@pytest.mark.parametrize("metric", METRICS)
@given(st.integers(1, 40), seeds)
def test_central_points(metric, n, seed):
    vectors, labels = sparse_vectors(n, seed), np.random.default_rng(seed).integers(-1, 4, n)
    dense, sparse = (central_points(X, labels, n, metric) for X in (vectors, scipy.sparse.csr_array(vectors)))
    for own, others in zip(dense, sparse, strict=True):
        assert sorted(own) == sorted(others)
        # Equals may come in another order, by rounding.
        np.testing.assert_allclose(*(remoteness(vectors, points, metric) for points in (own, others)), atol=1e-7)


def remoteness(vectors, points, metric):
    own = vectors[points]
    if metric == "cosine":
        lengths = np.linalg.norm(own, axis=1, keepdims=True)
        own = np.divide(own, lengths, out=np.zeros_like(own), where=lengths > 0)
        return np.square(own).sum(axis=1) - own @ own.sum(axis=0)
    squared = ((own[:, None] - own) ** 2).sum(axis=2)
    return (np.sqrt(squared) if metric == "euclidean" else squared).sum(axis=1)


@pytest.mark.parametrize("metric", METRICS)
def test_the_graph_of_neighbours(rng, metric):
    vectors = rng.random((80, 30)) * (rng.random((80, 30)) < 0.3)
    dense, sparse = (neighbor_graph(X, metric, 7) for X in (vectors, scipy.sparse.csr_array(vectors)))
    assert (dense.near == sparse.near).all()
    np.testing.assert_allclose(dense.weights, sparse.weights, rtol=1e-4)


def test_neighbours_among_sparse_rows(rng):
    vectors = (rng.random((600, 50)) * (rng.random((600, 50)) < 0.2)).astype(np.float32)
    rows = comparable(scipy.sparse.csr_matrix(vectors), "euclidean")
    near = nearest_among(rows, 5)
    assert (near == nearest_among(vectors, 5)).mean() > 0.999
    np.testing.assert_allclose(weighted(near, rows).weights, weighted(near, vectors).weights, rtol=1e-4)
    assert weighted(near, scipy.sparse.csr_matrix(vectors * 0)).weights.max() == 0.5
