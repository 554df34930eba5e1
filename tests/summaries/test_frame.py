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
    SAMPLE,
    TINY,
    Frame,
    better_origin,
    fitting_scale,
    is_look,
    next_look,
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


# When it is looked at -----------------------------------------------------------------------------------------------


def test_looks_are_dense_at_first_and_then_four_to_a_doubling():
    looks = [n for n in range(70) if is_look(n)]
    assert looks == [*range(3, 33), 40, 48, 56, 64]
    assert [n for n in range(900, 4000) if is_look(n)] == [1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584]


@given(st.integers(0, 20_000))
def test_the_next_look_is_the_first_from_there_on(n):
    look = next_look(n)
    assert look >= n
    assert is_look(look)
    assert not any(is_look(m) for m in range(n, look))


def test_the_sample_has_all_of_the_first_rows_and_then_every_second():
    frame = Frame(1, moves=True, scales=True)
    frame._note(0, np.arange(SAMPLE, dtype=float)[:, None])
    assert frame.positions == list(range(SAMPLE))
    frame._note(SAMPLE, np.arange(SAMPLE, 5000.0)[:, None])
    assert frame.positions == list(range(0, 5000, 8))
    assert [row[0] for row in frame.rows] == frame.positions
    frame.settle(20)
    assert frame.positions == [0, 8, 16]


@given(st.lists(st.integers(1, 900), min_size=1, max_size=8))
def test_the_sample_is_the_same_whatever_the_batches(chunks):
    whole, parts, at = Frame(1, True, True), Frame(1, True, True), 0
    whole._note(0, np.arange(float(sum(chunks)))[:, None])
    for n in chunks:
        parts._note(at, np.arange(float(at), at + n)[:, None])
        at += n
    assert parts.positions == whole.positions


def test_wide_vectors_have_a_small_sample():
    frame = Frame(100_000, moves=True, scales=True)
    frame._note(0, np.zeros((100, 1)))
    assert len(frame.rows) == 25


# Where to -----------------------------------------------------------------------------------------------------------


def test_ordinary_rows_move_nothing(rng):
    for n in (3, 5, 40):
        rows = rng.normal(size=(n, 4))
        assert better_origin(rows, rows[0]) is None


def test_an_outlier_is_left_for_a_value_that_is_there(rng):
    rows = np.vstack([np.full((1, 3), 1e9), rng.integers(0, 9, (30, 3))])
    origin = better_origin(rows, rows[0])
    assert all(origin[i] in rows[:, i] for i in range(3))
    assert np.abs(origin).max() <= 9
    assert better_origin(rows, origin) is None


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


@pytest.mark.parametrize(("linkage", "metric"), EUCLIDEAN)
def test_an_outlier_in_front_costs_no_digits(linkage, metric, rng):
    X = np.vstack([np.full((1, 3), 1e9), rng.normal(size=(100, 3))])
    store = stored(X, linkage=linkage, metric=metric)
    np.testing.assert_allclose(restored(store, 101)[1:], X[1:], rtol=0, atol=1e-6)
    assert store.longest == pytest.approx(np.sqrt(3) * 1e9)


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


def test_the_sample_follows_when_slots_are_closed_up(rng):
    X = rng.normal(size=(20, 2))
    store = stored(X)
    left = np.array([1, 4, 5, 19])
    store.compact(left, np.arange(0), 10)
    assert store.frame.positions == [0, 1, 2, 3]
    np.testing.assert_array_equal(store.frame.rows, X[left])
