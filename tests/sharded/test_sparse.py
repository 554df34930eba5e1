"""Sparse rows on shards: never dense, and nearly as pure as one tree."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from grinch import Grinch
from grinch.datasets import paper_synthetic
from grinch.io.inputs import open_rows
from grinch.io.rows import joined, n_bytes, taken
from grinch.metrics import dendrogram_purity
from grinch.sharded import ShardedGrinch
from grinch.sharded.files import read_rows, write_rows
from grinch.summaries import SparseSummaries


def texts(n=1200, n_topics=20, n_columns=50_000):
    """Words of a topic and common ones; far too many columns for dense rows."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_topics, n)
    own, common = 50 + 40 * y[:, None] + rng.integers(0, 40, (n, 12)), rng.integers(0, 50, (n, 12))
    words = np.where(rng.random((n, 12)) < 0.6, own, common)
    X = scipy.sparse.csr_matrix(
        (np.ones(words.size, np.float32), (np.repeat(np.arange(n), 12), words.ravel())), shape=(n, n_columns)
    )
    X.sum_duplicates()
    return X, y


def test_rows_are_read_as_they_were_written(tmp_path):
    X, _ = texts(300)
    rows = open_rows(X, tmp_path)
    assert (rows.n_rows, rows.n_features) == X.shape
    assert (rows.read(0) != X[slice(*rows.pieces[0])]).nnz == 0
    some = np.array([3, 4, 250])
    assert (rows.take(some) != X[some]).nnz == 0
    assert open_rows(X.copy(), tmp_path).stamp == rows.stamp
    assert open_rows(X[::-1], tmp_path).stamp != rows.stamp
    write_rows(tmp_path / "part", X)
    assert (read_rows(tmp_path / "part", some) != X[some]).nnz == 0
    assert (taken(joined([X[:100], X[100:]]), some) != X[some]).nnz == 0
    assert n_bytes(X) == 8 * X.nnz + 4 * 301


def test_shards_are_nearly_as_pure_as_one_tree_and_small(cluster, tmp_path):
    X, y = texts(600)
    model = ShardedGrinch(3, cluster.client, folder=tmp_path, n_clusters=20).fit(X)
    whole = dendrogram_purity(Grinch().fit(X).tree_, y)
    assert dendrogram_purity(model.tree_, y) >= whole - 0.03
    on_disk = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert on_disk < 10e6  # dense rows would take 120 MB
    assert len(model.set_params(n_clusters=None).labels_) == 600
    with model.to_store(tmp_path / "store") as store:
        np.testing.assert_array_equal(store.tree.child_pairs(), model.tree_.child_pairs())
        assert (store.vectors(range(600)) != X).nnz == 0
    one = model.to_grinch()
    assert isinstance(one.engine().summaries, SparseSummaries)
    assert (one.tree_.keys() == model.tree_.keys()).all()


@pytest.mark.slow
def test_the_papers_synthetic_data_in_exact_mode():
    X, y = paper_synthetic(n_classes=20, per_class=10, bits=30, share=0.3, sparse=True)
    model = ShardedGrinch(n_shards=3, n_workers=1, mode="exact", linkage="cosine").fit(X)
    assert dendrogram_purity(model.tree_, y) == 1.0
