"""Where stored vectors are measured from, and in what unit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grinch.linkage.named import linkage_of
from grinch.summaries import VectorSummaries
from grinch.summaries.vectors import (
    BOUND,
    ROOM,
    TINY,
    Frame,
    better_origin,
    fitting_scale,
    row_lengths,
)

EUCLIDEAN = [("average", "sqeuclidean"), ("centroid", None), ("ward", None)]


def stored(X, chunks=(10**9,), linkage="ward", metric=None):
    """Summaries of all rows, taken in chunks of these sizes (the last one again and again)."""
    store, at, sizes = VectorSummaries(linkage_of(linkage, metric), X.shape[1]), 0, list(chunks)
    store.grow(len(X) + 1)
    while at < len(X):
        chunk = X[at : at + (sizes.pop(0) if len(sizes) > 1 else sizes[0])]
        while len(chunk):
            taken = store.take(at, chunk)
            if not taken:
                store.move(at)
            at, chunk = at + taken, chunk[taken:]
    return store


def restored(store, n):
    """The rows as they can be told from what is stored."""
    rows = store.arrays.means[:n].astype(np.float64) / store.frame.scale
    return rows if store.origin is None else rows + store.origin


def test_wide_vectors_have_a_small_sample():
    frame = Frame(100_000, moves=True, scales=True)
    frame._note(0, np.zeros((100, 1)))
    assert len(frame.rows) == 25


# Where to -----------------------------------------------------------------------------------------------------------


def test_an_outlier_is_left_for_a_value_that_is_there(rng):
    rows = np.vstack([np.full((1, 3), 1e9), rng.integers(0, 9, (30, 3))])
    origin = better_origin(rows, rows[0])
    assert all(origin[i] in rows[:, i] for i in range(3))
    assert np.abs(origin).max() <= 9
    assert better_origin(rows, origin) is None
    for n in (3, 5, 30):
        assert better_origin(rows[1 : n + 1], rows[1]) is None, "ordinary rows move nothing"


def test_of_two_far_groups_the_first_stays_until_the_other_is_twice_as_large(rng):
    first, second = rng.normal(size=(20, 2)), 1e9 + rng.normal(size=(60, 2))
    assert better_origin(np.vstack([first, second[:20]]), first[0]) is None
    assert better_origin(np.vstack([first, second[:39]]), first[0]) is None
    assert (better_origin(np.vstack([first, second[:40]]), first[0]) > 9e8).all()


def test_many_equal_rows_do_not_count_as_near(rng):
    rows = np.vstack([rng.normal(size=(10, 2)), np.ones((30, 2))])
    assert better_origin(rows, rows[0]) is None
    assert better_origin(np.ones((9, 2)), np.zeros(2)) is None


# Scale --------------------------------------------------------------------------------------------------------------


@given(st.floats(1e-150, 1e17), st.floats(1e-150, 1e17))
def test_a_scale_that_fits_is_a_power_of_two_and_stays(length, longest):
    longest = max(length, longest)
    (scale,) = fitting_scale(1.0, np.array([length]), np.array([longest]))
    assert np.frexp(scale)[0] == 0.5
    assert longest * scale <= BOUND
    assert length * scale >= TINY or longest * scale > ROOM / 2
    assert fitting_scale(scale, np.array([length]), np.array([longest])) == scale


def test_lengths_do_not_vanish():
    rows = np.array([[3e-200, 4e-200], [3.0, 4.0], [0.0, 0.0], [3e-320, 0.0]])
    np.testing.assert_allclose(row_lengths(rows), [5e-200, 5.0, 0.0, 3e-320], rtol=1e-3)


# What is stored -----------------------------------------------------------------------------------------------------


def test_whole_numbers_stay_whole(rng):
    X = np.vstack([np.full((1, 3), 10**9), 2**40 + rng.integers(0, 9, (50, 3))])
    store = stored(X)
    assert store.is_whole
    np.testing.assert_array_equal(restored(store, 51)[1:], X[1:])


def test_a_stream_that_moves_away_is_followed(rng):
    """Beyond the sample nothing is kept as it came; what comes later has its digits all the same."""
    X = np.vstack([rng.normal(size=(1000, 2)), 1e9 + rng.normal(size=(9000, 2))])
    with pytest.warns(UserWarning, match="count as equal"):
        store = stored(X)
    assert np.abs(store.origin - 1e9).max() < 10
    np.testing.assert_allclose(restored(store, 10_000)[3071:], X[3071:], rtol=0, atol=1e-5)


rows_of_all_sizes = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 1e9, -1e9, 2.0**40]), st.sampled_from([1.0, 1e-3, 1e-20]), st.integers(-9, 9)),
    min_size=1,
    max_size=60,
)


@pytest.mark.filterwarnings("ignore:.*count as")
@given(rows_of_all_sizes, st.lists(st.integers(1, 20), min_size=1, max_size=6), st.sampled_from(["ward", "cosine"]))
def test_the_same_is_stored_whatever_the_batches(rows, chunks, linkage):
    X = np.array([[far + near * i, near * i - far] for far, near, i in rows])
    whole, parts = stored(X, linkage=linkage), stored(X, chunks, linkage)
    assert whole.frame.scale == parts.frame.scale
    assert whole.longest == parts.longest
    np.testing.assert_array_equal(whole.arrays.means, parts.arrays.means)
    if linkage == "ward":
        np.testing.assert_array_equal(whole.origin, parts.origin)


@pytest.mark.parametrize("exponent", [-600, -300, -70, 0, 30])
def test_a_power_of_two_changes_no_digit(exponent, rng):
    X = rng.normal(size=(40, 3))
    for linkage, metric in (*EUCLIDEAN, ("average", "dot"), ("cosine", None)):
        if exponent < -400:
            # Too short even for squares in float64.
            with pytest.warns(UserWarning, match="count as (zero|equal)"):
                stored(np.ldexp(X, exponent), linkage=linkage, metric=metric)
            continue
        plain, scaled = (stored(np.ldexp(X, e), linkage=linkage, metric=metric) for e in (0, exponent))
        by = plain.frame.scale / scaled.frame.scale
        np.testing.assert_array_equal(restored(scaled, 40), np.ldexp(restored(plain, 40), exponent))
        assert np.frexp(by)[0] == 0.5


def test_short_rows_beside_long_ones_keep_their_direction():
    """Under the cosine of summed vectors a row of 1e-20 is a direction like any other."""
    X = np.array([[1.0, 0.0], [0.0, 1e-20], [1e-20, 0.0], [0.0, 1.0], [1e13, 0.0]])
    store = stored(X, linkage="cosine")
    assert (store.arrays.means[:5].any(axis=1)).all()
    np.testing.assert_array_equal(store.arrays.means[:5] > 0, X > 0)


def test_what_is_too_short_beside_the_longest_is_named():
    with pytest.warns(UserWarning, match=r"1 points count as zero vectors.*point 1 .*1e-40 long"):
        stored(np.array([[1e17, 0.0], [0.0, 1e-40], [1.0, 0.0]]), linkage="cosine")


def test_what_a_long_row_makes_too_short_is_named():
    with pytest.warns(UserWarning, match=r"2 points count as zero vectors.*: point 1 .*1e-20 long"):
        stored(np.array([[1.0, 0.0], [0.0, 1e-20], [1e-20, 0.0], [1e17, 0.0]]), linkage="cosine")


def test_groups_too_far_apart_are_named(rng):
    X = np.vstack([rng.normal(size=(10, 2)), 1e9 + rng.normal(size=(10, 2))])[rng.permutation(20)]
    with pytest.warns(UserWarning, match=r"\d of 16 points looked at .* points \d+, .*one by one"):
        stored(X)


def test_the_origin_of_an_empty_tree_is_free(rng):
    X = rng.normal(size=(5, 2))
    store = stored(X + 1e9)
    store.compact(np.arange(0), np.arange(0), 6)
    store.take(0, X)
    np.testing.assert_array_equal(store.origin, X[0])
