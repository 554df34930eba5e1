"""Searches against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dense_linkages import DENSE, OF_EACH_METRIC, summaries_of
from grinch.linkage.base import FunctionLinkage
from grinch.linkage.named import linkage_of
from grinch.neighbors import make_search
from grinch.neighbors.exact import ExactSearch, batches
from grinch.neighbors.scan import ScanSearch
from grinch.summaries import RecordSummaries
from grinch.summaries.arrays import SCORES, vector_score


def brute_force(store, n, k, limit=None):
    found = np.full((n, k), -1)
    for i in range(n):
        earlier = range(i if limit is None else limit)
        best = sorted(earlier, key=lambda j: (-vector_score(store.arrays, i, j), j))[:k]
        found[i, : len(best)] = best
    return found


def stream(search, start, stop, limit=None):
    return np.vstack([part.candidates for part in search.stream(start, stop, limit)])


@given(
    X=hnp.arrays(
        np.float32, st.tuples(st.integers(1, 60), st.integers(1, 5)), elements=st.sampled_from([-1, 0, 0.3, 2])
    ),
    k=st.integers(1, 70),
    linkage=st.sampled_from(DENSE),
)
def test_exact_search_with_ties_is_brute_force(X, k, linkage):
    store = summaries_of(X, linkage)
    np.testing.assert_array_equal(stream(ExactSearch(store, k), 0, len(X)), brute_force(store, len(X), k))


@pytest.mark.parametrize("linkage", OF_EACH_METRIC, ids=lambda linkage: f"{linkage.name}-{linkage.metric}")
def test_exact_search_in_blocks_is_brute_force(rng, monkeypatch, linkage):
    monkeypatch.setattr("grinch.neighbors.exact.BLOCK", 100)
    X = rng.normal(size=(400, 9))
    store = summaries_of(X, linkage)
    search = ExactSearch(store, 12)
    expected = brute_force(store, 400, 12)
    np.testing.assert_array_equal(stream(search, 0, 400), expected)
    assert search.full_scans == 0
    np.testing.assert_array_equal(stream(ExactSearch(store, 12), 150, 400), expected[150:])
    before_350 = brute_force(store, 400, 12, 350)[350:]
    np.testing.assert_array_equal(stream(search, 350, 400, limit=350), before_350)
    np.testing.assert_array_equal(search.find(store.arrays, np.arange(350, 400), 350), before_350)
    np.testing.assert_array_equal(ExactSearch(store, 12).find(store.arrays, np.arange(350, 400), 350), before_350)


def test_near_ties_that_a_product_cannot_tell_apart(rng):
    """Far from the origin the product loses the differences; every point is scored, and the answer is right."""
    X = 1e4 + rng.normal(size=(300, 4)) * 1e-2
    X[0] = 0
    store = summaries_of(X, linkage_of("average", "sqeuclidean"))
    search = ExactSearch(store, 5)
    np.testing.assert_array_equal(stream(search, 0, 300), brute_force(store, 300, 5))
    assert search.full_scans > 0


def test_many_copies_of_one_point_come_in_the_order_of_arrival(rng):
    X = np.tile(rng.normal(size=(1, 33)), (500, 1))
    store = summaries_of(X, linkage_of("average"))
    found = stream(ExactSearch(store, 10), 0, 500)
    np.testing.assert_array_equal(found[20:], np.tile(np.arange(10), (480, 1)))


def test_scan_asks_the_linkage_about_every_earlier_record():
    store = RecordSummaries(FunctionLinkage(lambda a, b: -abs(a[0] - b[0])))
    store.grow(6)
    store.write(0, [0, 10, 1, 11, 2, 0])
    search = ScanSearch(store, 2)
    assert stream(search, 0, 6).tolist() == [[-1, -1], [0, -1], [0, 1], [1, 2], [2, 0], [0, 2]]
    assert store.arrays.counts[SCORES] == 15
    assert stream(search, 5, 6, limit=3).tolist() == [[0, 2]]


@given(start=st.integers(0, 1000), length=st.integers(0, 1000), size=st.integers(1, 300))
def test_batches_cut_at_multiples(start, length, size):
    ranges = list(batches(start, start + length, size))
    assert [i for lo, hi in ranges for i in range(lo, hi)] == list(range(start, start + length))
    assert all(hi % size == 0 for _, hi in ranges[:-1])
    assert all(lo < hi <= lo + size for lo, hi in ranges)


def test_unknown_searches(rng):
    store = summaries_of(rng.normal(size=(3, 2)), linkage_of("average"))
    with pytest.raises(
        ValueError, match=r"search must be one of 'auto', 'exact', 'index', 'nsw' .*; got 'exakt'; did you mean 'exact'"
    ):
        make_search("exakt", store, 5)
    with pytest.raises(
        ValueError, match="search='index' needs a linkage on vectors; for yours, use search='nsw' or ByVector"
    ):
        make_search("index", RecordSummaries(FunctionLinkage(max)), 5)


def test_whole_numbers_with_many_ties_need_no_full_scan(rng):
    X = rng.integers(0, 3, size=(600, 4)).astype(float)
    for linkage in (linkage_of("average", "sqeuclidean"), linkage_of("average", "dot")):
        store = summaries_of(X, linkage)
        search = ExactSearch(store, 7)
        np.testing.assert_array_equal(stream(search, 0, 600), brute_force(store, 600, 7))
        assert search.full_scans == 0


def test_an_outlier_does_not_make_every_query_a_full_scan(rng):
    X = rng.normal(size=(600, 4)) * 10
    X[300] = 1e5
    store = summaries_of(X, linkage_of("ward"))
    search = ExactSearch(store, 7)
    np.testing.assert_array_equal(stream(search, 0, 600), brute_force(store, 600, 7))
    assert search.full_scans < 10
