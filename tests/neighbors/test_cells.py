"""Cells that divide as they fill, against the exact search."""

from __future__ import annotations

import copy
import itertools
import pickle
import threading
import time

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dense_linkages import DENSE, OF_EACH_METRIC, summaries_of
from grinch.linkage.named import linkage_of
from grinch.neighbors import AutoSearch, cells
from grinch.neighbors.cells import CellSearch
from grinch.neighbors.exact import BATCH, ExactSearch
from grinch.summaries import VectorSummaries

NAMES = [f"{linkage.name}-{linkage.metric}" for linkage in DENSE]


def stream(search, start, stop):
    return np.vstack([part.candidates for part in search.stream(start, stop)])


def recall(exact, found):
    return np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)])


def blobs(rng, n, n_features=16, n_blobs=50):
    centres = rng.normal(size=(n_blobs, n_features))
    return centres[rng.integers(0, n_blobs, n)] + 0.3 * rng.normal(size=(n, n_features))


def state(search):
    """All that later answers depend on."""
    n, cells = search.n_cells, search._cells
    members = [
        [part[c, : cells.sizes[c]].tolist() for c in range(n)] for part in (cells.ids, cells.codes, cells.scales)
    ]
    return cells.head.tolist(), cells.centres[:n].tolist(), members


def members(search):
    return sorted(x for c in range(search.n_cells) for x in search._cells.ids[c, : search._cells.sizes[c]].tolist())


@pytest.mark.parametrize("linkage", OF_EACH_METRIC, ids=lambda linkage: linkage.metric)
def test_many_points_that_enter_at_once_go_to_the_same_cells(linkage, monkeypatch):
    X = blobs(np.random.default_rng(7), 3000).astype(np.float32)
    searches = [CellSearch(summaries_of(X, linkage), 3, room=32) for _ in range(3)]
    one_by_one, alone, by_threads = searches
    stream(one_by_one, 0, len(X))
    alone.enter_up_to(len(X))
    monkeypatch.setattr(cells, "MANY_AT_ONCE", 1000)
    by_threads.jobs = 3
    by_threads.enter_up_to(len(X))
    assert by_threads.n_cells > 90
    assert state(by_threads) == state(alone) == state(one_by_one)


# What is found --------------------------------------------------------------------------------------------------------


@given(
    X=hnp.arrays(
        np.float32, st.tuples(st.integers(1, 700), st.integers(1, 3)), elements=st.sampled_from([-1, 0, 0.3, 2])
    ),
    k=st.integers(1, 20),
    linkage=st.sampled_from(DENSE),
)
def test_all_cells_and_all_candidates_are_the_exact_search(X, k, linkage):
    store = summaries_of(X, linkage)
    search = CellSearch(store, k, room=16, probes=1000, extra=len(X))
    np.testing.assert_array_equal(stream(search, 0, len(X)), stream(ExactSearch(store, k), 0, len(X)))
    assert members(search) == list(range(len(X) // BATCH * BATCH))


@pytest.mark.parametrize("linkage", OF_EACH_METRIC, ids=NAMES)
def test_recall(rng, linkage):
    store = summaries_of(blobs(rng, 6000) * rng.uniform(0.5, 2.0, (6000, 1)), linkage)
    exact, found = (stream(s, 0, 6000) for s in (ExactSearch(store, 10), CellSearch(store, 10)))
    # The largest inner products are those of long vectors, which are in no one place.
    assert recall(exact[500:], found[500:]) > (0.8 if linkage.metric == "dot" else 0.95)


def test_bytes_are_enough_far_from_the_origin(rng):
    X = 1e4 + rng.normal(size=(2000, 8))
    X[0] = 0
    store = VectorSummaries(linkage_of("ward"), 8)
    store.grow(2000)
    store.write(0, X)  # as it is: points that are inserted would be measured from their middle
    search = CellSearch(store, 10, probes=100)
    assert recall(stream(ExactSearch(store, 10), 500, 2000), stream(search, 0, 2000)[500:]) > 0.9


def test_no_scan_grows_with_the_number_of_duplicates(rng):
    X = np.tile(rng.normal(size=(1, 8)), (5000, 1))
    search = CellSearch(summaries_of(X), 10)
    found = stream(search, 0, 5000)
    np.testing.assert_array_equal(found[10:], np.tile(np.arange(10), (4990, 1)))
    assert search._cells.sizes[: search.n_cells].max() <= search.room
    assert search.n_cells <= 2 * 5000 / search.room + 1


def test_many_duplicates_do_not_hide_the_others(rng):
    X = rng.normal(size=(3000, 8)).astype(np.float32)
    X[rng.permutation(3000)[:1500]] = X[0]
    store = summaries_of(X)
    exact, found = (stream(s, 0, 3000) for s in (ExactSearch(store, 10), CellSearch(store, 10)))
    is_copy = (X[0] == X).all(axis=1)
    is_copy[:1000] = False
    np.testing.assert_array_equal(exact[is_copy], found[is_copy])
    others = ~is_copy
    others[:1000] = False
    assert recall(exact[others], found[others]) > 0.9


@pytest.mark.parametrize("n", [1, 2])
def test_one_and_two_points(rng, n):
    search = CellSearch(summaries_of(rng.normal(size=(n, 3))), 4)
    assert stream(search, 0, n).tolist() == [[-1] * 4, [0, -1, -1, -1]][:n]


def test_points_that_are_gone_are_not_found(rng):
    store = summaries_of(blobs(rng, 2000))
    search = CellSearch(store, 10)
    stream(search, 0, 1500)
    gone = rng.permutation(1500)[:700]
    store.set_gone(gone, True)
    search.changed(gone)
    assert not np.isin(stream(search, 1500, 2000), gone).any()
    store.set_gone(gone, False)
    whole = CellSearch(store, 10)
    stream(whole, 0, 2000)
    assert state(search) == state(whole)


# The same, whatever happens -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 256, 300])
def test_the_same_for_any_chunking(rng, chunk):
    store = summaries_of(blobs(rng, 1500, 9), linkage_of("average", "sqeuclidean"))
    whole, search = CellSearch(store, 10, room=32, probes=3), CellSearch(store, 10, room=32, probes=3)
    expected = stream(whole, 0, 1500)
    cuts = [*range(0, 1500, chunk), 1500]
    np.testing.assert_array_equal(np.vstack([stream(search, a, b) for a, b in itertools.pairwise(cuts)]), expected)
    assert state(search) == state(whole)


def test_the_same_with_any_number_of_threads(rng):
    store = summaries_of(blobs(rng, 1500))
    alone, many = CellSearch(store, 10, room=32), CellSearch(store, 10, room=32)
    alone.jobs, many.jobs = 1, 5
    # The last batch has fewer points than there are threads.
    np.testing.assert_array_equal(stream(alone, 0, 1282), stream(many, 0, 1282))


def by_memory_map(search, folder):
    joblib.dump(search, folder / "search")
    again = joblib.load(folder / "search", mmap_mode="r")
    assert not again.summaries.arrays.means.flags.writeable
    again.summaries.own_arrays()
    return again


WAYS = [lambda search, _: pickle.loads(pickle.dumps(search)), lambda search, _: copy.deepcopy(search), by_memory_map]


@pytest.mark.parametrize("duplicate", WAYS)
def test_the_same_after_a_round_trip(rng, duplicate, tmp_path):
    store = summaries_of(blobs(rng, 1900))
    search = CellSearch(store, 5, room=32)
    stream(search, 0, 1100)
    store.set_gone(np.arange(0, 900, 3), True)
    again = duplicate(search, tmp_path)
    assert state(again) == state(search)
    np.testing.assert_array_equal(stream(again, 1100, 1900), stream(search, 1100, 1900))
    assert state(again) == state(search)


def test_points_that_never_came_are_forgotten(rng):
    """A stream is left halfway, and other points come instead of those that were looked up ahead."""
    X = blobs(rng, 3000)
    store = summaries_of(X)
    search = CellSearch(store, 5, room=32)
    parts = search.stream(0, 3000)
    seen = [next(parts) for _ in range(3)]
    stop = seen[-1].start + len(seen[-1].candidates)
    for _ in range(2000):  # another thread is ahead, sooner or later
        if search.entered > stop:
            break
        time.sleep(0.01)
    parts.close()
    assert search.entered > stop
    store.write(stop, blobs(rng, 3000 - stop))
    straight = CellSearch(store, 5, room=32)
    np.testing.assert_array_equal(stream(search, stop, 3000), stream(straight, 0, 3000)[stop:])
    assert state(search) == state(straight)


def test_compacting(rng):
    X = blobs(rng, 3000)
    store = summaries_of(X)
    search = CellSearch(store, 10, room=64)
    stream(search, 0, 2900)
    kept = np.flatnonzero(rng.random(2900) < 0.4)
    store.compact(kept, kept[:0], 3000)
    search.compacted(kept)
    n_entered = int((kept < 2900 // BATCH * BATCH).sum())
    assert search.entered == n_entered
    assert members(search) == list(range(n_entered))
    store.write(len(kept), X[2900:])
    stop = len(kept) + 100
    assert recall(stream(ExactSearch(store, 10), len(kept), stop), stream(search, len(kept), stop)) > 0.95


def test_compacting_leaves_no_empty_cells_behind(rng):
    """A window slides along a line: cells of points that left must not stay."""
    X = np.column_stack([np.arange(6000.0), rng.normal(size=6000)])
    store = summaries_of(X, linkage_of("ward"))
    search = CellSearch(store, 5, room=32)
    stream(search, 0, 6000)
    kept = np.arange(5000, 6000)
    store.compact(kept, kept[:0], 1000)
    search.compacted(kept)
    assert search.n_cells <= 1000 / (32 / 8)
    kept = kept[:0]
    store.compact(kept, kept, 1000)
    search.compacted(kept)
    assert (search.n_cells, search.entered) == (0, 0)


# Readers --------------------------------------------------------------------------------------------------------------


def test_find_looks_no_further_than_the_limit(rng):
    store = summaries_of(blobs(rng, 2000))
    search, exact = CellSearch(store, 5), ExactSearch(store, 5)
    stream(search, 0, 1900)
    slots = np.arange(1900, 2000)
    for limit in (0, 1, 100, 1700, 1900):
        found = search.find(store.arrays, slots, limit)
        assert found.max(initial=-1) < limit
        assert recall(exact.find(store.arrays, slots, limit), found) > 0.95


@pytest.mark.parametrize("kind", [CellSearch, ExactSearch])
def test_find_beside_a_stream(rng, kind):
    """While points are streamed, a reader finds each of the points before its limit, in a slot behind all others."""
    X = blobs(rng, 6_000)
    store = summaries_of(np.vstack([X, X[:200]]))
    search = kind(store, 5)
    settled, wrong = [0], []

    def read():
        while settled[0] < 6_000:
            limit = settled[0]
            if limit > 200:
                found = search.find(store.arrays, np.arange(6_000, 6_200), limit)
                wrong.extend(i for i in range(200) if found[i, 0] != i or found[i].max() >= limit)

    reader = threading.Thread(target=read)
    reader.start()
    for part in search.stream(0, 6_000):
        settled[0] = part.start + len(part.candidates)
    reader.join()
    assert wrong == []


# The switch -----------------------------------------------------------------------------------------------------------


def test_auto_turns_to_cells_where_positions_say(rng, monkeypatch):
    monkeypatch.setattr("grinch.neighbors.choice.EXACT_UP_TO", 1024)
    store = summaries_of(blobs(rng, 3000))
    exact, cells = ExactSearch(store, 5), CellSearch(store, 5)
    expected = np.vstack([stream(exact, 0, 1024), stream(cells, 0, 3000)[1024:]])
    for cuts in ([0, 3000], [0, 500, 1000, 1024, 1500, 3000], [0, 511, 513, 1023, 1025, 3000]):
        search = AutoSearch(store, 5)
        np.testing.assert_array_equal(np.vstack([stream(search, a, b) for a, b in itertools.pairwise(cuts)]), expected)
    assert state(search._cells) == state(cells)
    few = np.arange(10)
    np.testing.assert_array_equal(search.find(store.arrays, few, 1024), exact.find(store.arrays, few, 1024))
    np.testing.assert_array_equal(search.find(store.arrays, few, 3000), cells.find(store.arrays, few, 3000))
    (near,) = search.nearest(few, 3000)
    np.testing.assert_array_equal(near.candidates, cells.find(store.arrays, few, 3000))


def test_auto_enters_points_before_the_turn_a_few_at_a_time(rng, monkeypatch):
    monkeypatch.setattr("grinch.neighbors.choice.EXACT_UP_TO", 2048)
    search = AutoSearch(summaries_of(blobs(rng, 2500)), 5)
    entered = [search._cells.entered for i in range(2500) for _ in search.stream(i, i + 1)]
    assert entered[1024] == 0
    assert max(np.diff(entered)) == BATCH
