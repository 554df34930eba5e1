"""Search on sparse vectors, against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import trials
from engines import engine_in
from grinch import Grinch
from grinch.linkage.named import VECTOR_LINKAGES
from grinch.neighbors.sparse import AT_ONCE, Postings, SparseSearch
from grinch.summaries import SparseSummaries
from grinch.summaries.arrays import vector_score
from grinch.tree.links import NONE
from sparse_data import sparse_groups
from twins import assert_same, reopened

MEAN_COSINE = VECTOR_LINKAGES["average"]["cosine"]
LINKAGES = [linkage for metrics in VECTOR_LINKAGES.values() for linkage in metrics.values()]


def summaries_of(linkage, X, capacity=None):
    summaries = SparseSummaries(linkage, X.shape[1])
    summaries.grow(capacity or X.shape[0] + 16)
    summaries.take(0, X)
    return summaries


def brute_force(summaries, x, limit, k):
    """By the linkage's own scores; ties go to the point that arrived first."""
    others = [i for i in range(limit) if i != x and not summaries.arrays.gone[i]]
    scores = np.array([vector_score(summaries.arrays, x, i) for i in others])
    order = np.argsort(-scores, kind="stable")[:k]
    return [others[i] for i in order]


def kept(row):
    return row[row != NONE].tolist()


def rows(n, d, density, seed, whole=False):
    X = scipy.sparse.random(n, d, density, format="csr", random_state=seed)
    X.data = np.ones_like(X.data) if whole else X.data + 0.1
    return X


@pytest.mark.parametrize("linkage", LINKAGES, ids=lambda linkage: f"{linkage.name}-{linkage.metric}")
@pytest.mark.parametrize("whole", [False, True], ids=["real", "binary"])
def test_exact_search_is_brute_force(linkage, whole):
    X = rows(AT_ONCE + 150, 60, 0.06, 0, whole)
    summaries = summaries_of(linkage, X)
    search = SparseSearch(summaries, 7)
    found = np.concatenate([part.candidates for part in search.stream(0, X.shape[0])])
    for x in (0, 1, 5, 40, AT_ONCE - 1, AT_ONCE, AT_ONCE + 149):
        assert kept(found[x]) == brute_force(summaries, x, x, 7)


def test_points_that_are_gone_are_not_found_and_may_come_back():
    X = rows(700, 40, 0.1, 1)
    summaries = summaries_of(LINKAGES[0], X)
    search = SparseSearch(summaries, 5)
    list(search.stream(0, 700))
    gone = np.arange(100, 400)
    summaries.set_gone(gone, True)
    search.changed(gone)
    found = np.concatenate([part.candidates for part in search.nearest(np.arange(0, 700, 50), 700)])
    for row, x in zip(found, range(0, 700, 50), strict=True):
        assert kept(row) == brute_force(summaries, x, 700, 5)
    summaries.set_gone(gone, False)
    search.changed(gone)
    found = np.concatenate([part.candidates for part in search.nearest(np.array([3]), 700)])
    assert kept(found[0]) == brute_force(summaries, 3, 700, 5)


@given(st.lists(st.integers(1, 900), max_size=5), st.sampled_from([50, 400, 5000]))
@settings(max_examples=trials(10, 100), deadline=None)
def test_chunks_do_not_matter_with_few_columns_either(cuts, most_points):
    X = rows(1500, 50, 0.06, 2)
    answers = []
    for ends in ([1500], sorted({*cuts, 1500})):
        search, start, found = SparseSearch(summaries_of(MEAN_COSINE, X), 6, most_points=most_points), 0, []
        for end in ends:
            found += [part.candidates for part in search.stream(start, end)]
            start = end
        answers.append(np.concatenate(found))
    assert (answers[0] == answers[1]).all()


def test_few_columns_find_most_of_the_nearest():
    rng = np.random.default_rng(0)
    topic = np.repeat(np.arange(40), 50)
    common = rng.integers(0, 20, (2000, 8))
    rare = 20 + 30 * topic[:, None] + rng.integers(0, 30, (2000, 8))
    columns = np.concatenate([common, rare], axis=1)
    X = scipy.sparse.csr_matrix((np.ones(columns.size), (np.repeat(np.arange(2000), 16), columns.ravel())))
    X.data = np.minimum(X.data, 1.0)
    summaries = summaries_of(MEAN_COSINE, X)
    exact, brief = SparseSearch(summaries, 10), SparseSearch(summaries, 10, most_points=300)
    slots = np.arange(0, 2000, 10)
    near, found = (
        np.concatenate([part.candidates for part in search.nearest(slots, 2000)]) for search in (exact, brief)
    )
    assert np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(near, found, strict=True)]) > 0.6
    assert (topic[found] == topic[slots, None]).mean() > 0.99


def test_among_many_points_only_those_with_a_column_in_common_are_found():
    # Rows of two columns of their own group of ten, and three rows that share none.
    groups = np.arange(9000) // 10
    pairs = np.stack([2 * groups, 2 * groups + 1], axis=1).ravel()
    X = scipy.sparse.csr_matrix((np.ones(18_000), pairs, np.arange(0, 18_001, 2)), shape=(9000, 1900))
    X = scipy.sparse.vstack([X, scipy.sparse.csr_matrix(([1.0, 1.0], ([0, 1], [1850, 1860])), shape=(3, 1900))]).tocsr()
    for linkage in LINKAGES:
        summaries = summaries_of(linkage, X)
        search = SparseSearch(summaries, 12, most_points=500)
        slots = np.array([7, 8995, 9000, 9001, 9002])
        gone = np.arange(5)
        summaries.set_gone(gone, True)
        list(search.stream(0, 9003))
        found = [kept(row) for part in search.nearest(slots, 9003) for row in part.candidates]
        expected = [sorted(set(range(x // 10 * 10, x // 10 * 10 + 10)) - {x, *gone.tolist()}) for x in (7, 8995)]
        if linkage.is_euclidean:
            assert [sorted(near[: len(own)]) for near, own in zip(found[:2], expected, strict=True)] == expected
            continue
        assert [sorted(near) for near in found[:2]] == expected
        # Where nothing has, there are some all the same, and none that is gone.
        assert all(near and min(near) >= 5 for near in found[2:])


def test_segments_become_fewer_and_hold_every_point_once():
    X, index, end = rows(5000, 30, 0.1, 3).astype(np.float32), Postings(), 0
    for size in [512, 512, 100, 1, 700, 512, 2663]:
        index.append(X[end : end + size])
        end += size
        assert index.end == end
        sizes = [segment.end - segment.first for segment in index.segments]
        assert all(older > 2 * newer for older, newer in itertools.pairwise(sizes))
    for column in range(30):
        parts = [segment.slots[slice(*segment.starts[column : column + 2])] for segment in index.segments]
        assert np.concatenate(parts).tolist() == X[:, [column]].nonzero()[0].tolist()


@pytest.mark.parametrize("most_points", [1, 200])
def test_a_search_by_few_columns_in_any_batches(most_points, tmp_path, monkeypatch):
    monkeypatch.setattr("grinch.neighbors.choice.MAX_POINTS", most_points)
    X = sparse_groups(850)
    whole, parts = Grinch().fit(X), Grinch()
    assert engine_in(whole).search.most_points == most_points
    for start, stop in ((0, 300), (300, 301), (301, 550), (550, 700), (700, 850)):
        parts = reopened(parts.partial_fit(X[start:stop]), tmp_path)
    assert parts.tree_.to_newick() == whole.tree_.to_newick()
    assert (parts.predict(X[:50]) == whole.predict(X[:50])).all()
    assert_same(whole, reopened(whole, tmp_path))
