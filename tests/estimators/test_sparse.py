"""Grinch on sparse matrices, as users have them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import grinch
from effort import at_night
from grinch import Grinch, Online, Rotate, Rules
from grinch.datasets import paper_synthetic
from grinch.metrics import dendrogram_purity
from grinch.summaries import SparseSummaries, VectorSummaries
from refusals import refused
from trees import groups


def rows(n=200, d=80, seed=0):
    return scipy.sparse.random(n, d, 0.08, format="csr", random_state=seed)


def summaries_of(model):
    return model.engine().summaries


@pytest.mark.parametrize("seed", [0, at_night(1), at_night(2), at_night(3), at_night(4)])
@pytest.mark.parametrize("linkage", ["cosine", "average", "tanimoto"])
def test_the_papers_synthetic_data_are_recovered(seed, linkage):
    X, y = paper_synthetic(n_classes=25, random_state=seed, sparse=True)
    metric = "cosine" if linkage == "average" else None
    model = Grinch(linkage=linkage, metric=metric, mode="exact").fit(X)
    assert isinstance(summaries_of(model), SparseSummaries)
    assert dendrogram_purity(model.tree_, y) == 1.0


def test_any_kind_of_sparse_matrix_is_the_same():
    X = rows()
    expected = Grinch().fit(X).tree_.keys().tolist()
    wide = X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for given in (X.tocsc(), X.tocoo(), X.tolil(), scipy.sparse.csr_array(X), wide):
        model = Grinch().fit(given)
        assert model.tree_.keys().tolist() == expected
        assert isinstance(summaries_of(model), SparseSummaries)


def test_unsorted_and_duplicate_columns_are_put_in_order_and_the_input_stays_as_it_is():
    X = rows()
    order = np.concatenate([np.arange(start, stop)[::-1] for start, stop in zip(X.indptr, X.indptr[1:], strict=False)])
    mixed = scipy.sparse.csr_matrix((X.data[order], X.indices[order], X.indptr), shape=X.shape)
    mixed.has_sorted_indices = True  # a lie
    twice = scipy.sparse.csr_matrix((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)
    before = mixed.indices.copy()
    expected = Grinch().fit(X).tree_.keys().tolist()
    assert Grinch().fit(mixed).tree_.keys().tolist() == expected
    assert Grinch().fit(twice).tree_.keys().tolist() == expected
    assert mixed.indices.tolist() == before.tolist()
    assert twice.nnz == 2 * X.nnz


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_bad_value_is_refused_with_its_row_and_changes_nothing(value):
    X = rows()
    model = Grinch(n_clusters=3).fit(X)
    before = model.tree_.keys().tolist()
    bad = X[:30].tolil()
    bad[17, 5] = value
    refused("row 17", model.partial_fit, bad.tocsr())
    assert model.tree_.keys().tolist() == before


def test_negative_counts_are_refused_by_hellinger_and_taken_by_others():
    X = rows(60)
    X.data[10] *= -1
    row = int(np.searchsorted(X.indptr, 10, side="right")) - 1
    refused(f"must not be negative for metric='hellinger'.* in row {row}, column", Grinch(metric="hellinger").fit, X)
    Grinch().fit(X).tree_.check()


def test_too_many_columns_are_refused():
    X = scipy.sparse.csr_matrix(([1.0, 1.0], ([0, 1], [0, 5])), shape=(2, 2**31))
    refused("at most 2,147,483,647 columns", Grinch().fit, X)


def test_many_columns_need_no_memory():
    X = scipy.sparse.csr_matrix(
        (np.ones(90), (np.repeat(np.arange(30), 3), np.arange(90) % 7 * 10**8)), shape=(30, 10**9)
    )
    model = Grinch(n_clusters=3).fit(X)
    model.tree_.check()
    assert len(model.predict(X[:4])) == 4


def test_empty_rows_are_similar_to_nothing_and_stay():
    X = rows().tolil()
    X[[0, 50, 199]] = 0
    for options in ({}, {"linkage": "ward"}, {"linkage": "cosine"}, {"linkage": "tanimoto"}, {"metric": "hellinger"}):
        model = Grinch(**options).fit(X.tocsr())
        model.tree_.check()
        assert model.n_leaves_ == 200
    nothing = scipy.sparse.csr_matrix((5, 10))
    assert Grinch(n_clusters=2).fit(nothing).n_leaves_ == 5


def test_dense_rows_may_come_to_a_sparse_model_and_the_other_way_round():
    X = rows()
    sparse = Grinch(n_clusters=4).fit(X[:150]).partial_fit(X[150:].toarray())
    assert isinstance(summaries_of(sparse), SparseSummaries)
    assert sparse.tree_.keys().tolist() == Grinch(n_clusters=4).fit(X).tree_.keys().tolist()
    dense = Grinch(n_clusters=4).fit(X[:150].toarray()).partial_fit(X[150:])
    assert isinstance(summaries_of(dense), VectorSummaries)
    assert dense.tree_.keys().tolist() == Grinch(n_clusters=4).fit(X.toarray()).tree_.keys().tolist()


@pytest.mark.parametrize("kind", [Grinch, Rotate, Online])
def test_a_life_with_sparse_rows_is_that_with_dense_ones(kind):
    X = rows(300, 60)
    options = {"mode": Rules.fast(most_entries=float("inf"))} if kind is Grinch else {}
    sparse, dense = (kind(n_clusters=6, **options) for _ in range(2))
    for model, given in ((sparse, X), (dense, X.toarray())):
        model.fit(given[:200])
        model.remove(list(range(20, 60)))
        model.update([5, 7], given[250:252])
        model.partial_fit(given[200:])
        assert model.ids_ == [*range(20), *range(60, 300)]
        model.refine()
        model.tree_.check()
    assert sorted(sparse.tree_.keys().tolist()) == sorted(dense.tree_.keys().tolist())
    assert sparse.predict(X[:40]).tolist() == dense.predict(X[:40].toarray()).tolist()
    assert sparse.labels_.tolist() == dense.labels_.tolist()


def test_new_columns_come_where_they_are_expected():
    X = rows(200, 120)
    before = scipy.sparse.csr_matrix(X[:120, :90])
    model = Grinch(n_clusters=4).fit(before)
    keys = model.tree_.keys().tolist()
    for method in (model.partial_fit, model.predict):
        refused(r"120 features.*new_columns=True.*new columns; X\[:, :90\] leaves them out", method, X[120:])
    assert (model.tree_.keys().tolist(), model.n_features_in_) == (keys, 90)
    bad = X[120:].copy()
    bad.data[3] = np.nan
    refused("NaN", model.partial_fit, bad, new_columns=True)
    assert (model.tree_.keys().tolist(), model.n_features_in_) == (keys, 90)
    model.partial_fit(X[120:], new_columns=True)
    assert model.n_features_in_ == 120
    padded = scipy.sparse.csr_matrix((before.data, before.indices, before.indptr), shape=(120, 120))
    whole = Grinch(n_clusters=4).fit(scipy.sparse.vstack([padded, X[120:]], format="csr"))
    assert model.tree_.keys().tolist() == whole.tree_.keys().tolist()
    assert model.predict(X[150:160]).tolist() == whole.predict(X[150:160]).tolist()


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dense"])
def test_rows_with_fewer_columns_have_nothing_in_the_others(kind):
    X = rows(120, 60)
    narrow = X[80:, :40].toarray() if kind == "dense" else X[80:, :40].asformat(kind)
    model = Grinch().fit(X[:80])
    refused(r"40 features.*new_columns=True.*take rows with fewer columns", model.partial_fit, narrow)
    model.partial_fit(narrow, new_columns=True)
    padded = X[80:].copy()
    padded.data[padded.indices >= 40] = 0
    assert model.n_features_in_ == 60
    assert model.tree_.keys().tolist() == Grinch().fit(X[:80]).partial_fit(padded).tree_.keys().tolist()


def test_an_index_out_of_range_is_no_index_of_a_further_column():
    X = rows(20, 60)
    narrow = X[:4, :40].copy()
    narrow.indices[0] = 50
    refused("from 0 to 50", Grinch().fit(X).partial_fit, narrow, new_columns=True)


def test_new_columns_need_sparse_rows():
    model = Grinch(n_clusters=2).fit(np.eye(4))
    with pytest.raises(ValueError, match="new_columns needs a model that was begun with sparse rows"):
        model.partial_fit(np.ones((2, 6)), new_columns=True)
    assert model.n_features_in_ == 4
    refused("new_columns must be True or False", model.partial_fit, np.eye(4), new_columns="yes")


def test_tanimoto_is_jaccard_for_single_sets():
    X = scipy.sparse.csr_matrix(np.array([[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 1, 1]]))
    tree = Grinch(linkage="tanimoto", n_clusters=2).fit(X).tree_
    assert tree.scores[tree.lca(0, 1)] == pytest.approx(2 / 3)
    assert tree.leaves(tree.lca(0, 1)).tolist() == [0, 1]


def test_hellinger_compares_shares_by_their_roots():
    counts = np.array([[9.0, 0, 16], [90, 0, 160], [1, 3, 0]])
    for X in (counts, scipy.sparse.csr_matrix(counts)):
        tree = Grinch(metric="hellinger", n_clusters=2).fit(X).tree_
        assert tree.scores[tree.lca(0, 1)] == pytest.approx(1.0)
        expected = np.sqrt(counts[0] / counts[0].sum()) @ np.sqrt(counts[2] / counts[2].sum())
        assert tree.scores[tree.root] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("form", [scipy.sparse.csr_matrix, np.asarray])
def test_rows_that_have_nothing_in_common_with_any_other_stay_out_of_large_groups(form):
    """Two groups beyond the cap, and then rows that share no column with either; under cosines also one of zeros."""
    rows = np.repeat(np.eye(3) * 0.7, [1200, 1200, 3], axis=0)
    tree = Grinch().fit(form(rows)).tree_
    assert {frozenset(range(1200)), frozenset(range(1200, 2400)), frozenset(range(2400, 2403))} < groups(tree)
    labels = Grinch(metric="cosine").fit(form(np.vstack([rows[:-1], np.zeros(3)]))).labels_[:-1]
    assert labels.tolist() == np.repeat(labels[[0, 1200, 2400]], [1200, 1200, 2]).tolist()
    assert len(set(labels)) == 3
    # A rule of ours: the paper's cap holds for every point.
    for model in (Grinch(mode=Rules.fast(uncap_unrelated=False)), Grinch(mode="paper"), Rotate()):
        assert frozenset(range(1200)) not in groups(model.fit(form(rows[[*range(1200), 2400]])).tree_)


@pytest.mark.parametrize("form", [scipy.sparse.csr_matrix, np.asarray])
@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_rows_of_length_1_have_the_same_tree_under_distances_and_cosines(rng, form, mode):
    """Positive numbers in some columns, and in the first one always: no two pairs of rows are equally close."""
    rows = rng.random((400, 30)) * (rng.random((400, 30)) < 0.3)
    rows[:, 0] += 0.1
    X = form(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    trees = [Grinch(metric=metric, mode=mode).fit(X).tree_ for metric in (None, "cosine")]
    assert groups(trees[0]) == groups(trees[1])


def test_rows_of_tiny_numbers_have_directions(tmp_path):
    rows = np.random.default_rng(0).integers(1, 9, size=(40, 6)) * (np.random.default_rng(1).random((40, 6)) < 0.5)
    scaled = rows.astype(np.float64)
    scaled[::4] *= 1e-200
    model = Grinch(metric="cosine").fit(scipy.sparse.csr_matrix(scaled))
    expected = Grinch(metric="cosine").fit(scipy.sparse.csr_matrix(rows.astype(np.float64)))
    np.testing.assert_allclose(model.tree_.scores, expected.tree_.scores, rtol=1e-5)
    model.save(tmp_path / "model.grinch")
    assert grinch.load(tmp_path / "model.grinch").n_leaves_ == 40
