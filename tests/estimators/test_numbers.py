"""Outliers, data far from the origin, and very short vectors: the same clusters as without them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from effort import at_night, trials
from grinch import HAC, SCC, Birch, Grinch, MiniBatchHAC, Perch, Rotate
from grinch.neighbors import ByVector

EUCLIDEAN = {
    "average": ("average", "sqeuclidean"),
    "centroid": ("centroid", None),
    "ward": ("ward", None),
    "single": ("single", None),
    "complete": ("complete", None),
}
SCALED = {**EUCLIDEAN, "dot": ("average", "dot"), "cosine": ("cosine", None), "mean cosine": ("average", "cosine")}
K = 5

every_euclidean = pytest.mark.parametrize("name", EUCLIDEAN)
every_mode = pytest.mark.parametrize("mode", ["fast", at_night("paper"), "exact"])


def groups(n=50, d=3, seed=0):
    """Whole thousandths, so that shifts by 2^40 are exact; K groups far enough apart."""
    rng = np.random.default_rng(seed)
    centres = rng.permutation(np.arange(K) * 64.0)[:, None] * rng.choice([-1.0, 1.0], (K, d))
    y = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    return np.round((centres[y] + rng.normal(size=(n, d))) * 1024) / 1024, y


def model(name, mode="fast", n_clusters=K, **settings):
    linkage, metric = SCALED[name]
    return Grinch(linkage, metric=metric, mode=mode, n_clusters=n_clusters, **settings)


def agree(a, b):
    return adjusted_rand_score(a, b) == 1.0


def newick(fitted):
    return fitted.tree_.to_newick(lengths=False)


# The same clusters --------------------------------------------------------------------------------------------------


@every_euclidean
@every_mode
@pytest.mark.parametrize("d", [at_night(1), 2, at_night(8)])
@pytest.mark.parametrize("at", [0, at_night(1), at_night(30), 50])
def test_an_outlier_is_alone_wherever_it_comes(name, mode, d, at):
    X, y = groups(d=d)
    found = model(name, mode, K + 1).fit_predict(np.insert(X, at, 1e9, axis=0))
    assert agree(np.delete(found, at), y)
    assert (found == found[at]).sum() == 1


@every_euclidean
@pytest.mark.parametrize("kind", [np.int64, np.float32, scipy.sparse.csr_matrix])
def test_an_outlier_in_front_in_any_form(name, kind):
    X, y = groups()
    rows = kind(np.vstack([np.full((1, 3), 1e9), np.rint(X)]))
    assert agree(model(name, n_clusters=K + 1).fit_predict(rows)[1:], y)


@every_euclidean
@every_mode
@pytest.mark.parametrize("shift", [at_night(1e9), 2.0**40])
def test_far_from_zero_there_are_the_same_trees(name, mode, shift):
    X, y = groups()
    X = np.round(X * 64) / 64  # exact at 2^40
    near, far = (model(name, mode).fit(rows) for rows in (X, X + shift))
    assert agree(near.labels_, y)
    assert newick(near) == newick(far)


@pytest.mark.parametrize(
    "make",
    [
        lambda k: Rotate("ward", n_clusters=k),
        lambda k: HAC("ward", n_clusters=k),
        lambda k: HAC("ward", lean=True, n_clusters=k),
        lambda k: HAC("average", metric="sqeuclidean", lean=True, n_clusters=k),
        lambda k: HAC("single", n_clusters=k),
        lambda k: MiniBatchHAC("ward", n_clusters=k),
        lambda k: MiniBatchHAC("average", metric="sqeuclidean", buffer_size=60, n_clusters=k),
        lambda k: Perch(n_clusters=k, cost="diameter"),
        lambda k: Perch(search="beam", n_clusters=k, cost="diameter"),
        lambda k: Perch(max_leaves=40, n_clusters=k, cost="diameter"),
        lambda k: Birch(n_clusters=k),
        lambda k: SCC(n_clusters=k),
    ],
)
def test_other_systems_keep_their_digits_too(make):
    X, y = groups()
    X = np.round(X * 64) / 64
    assert agree(make(K).fit_predict(X), y)
    assert agree(make(K).fit_predict(X + 2.0**40), y)
    assert agree(make(K + 1).fit_predict(np.vstack([np.full((1, 3), 1e9), X]))[1:], y)


# Whatever the batches -----------------------------------------------------------------------------------------------


def in_pieces(make, X, sizes):
    fitted, at = make(), 0
    for size in sizes:
        if at < len(X):
            fitted.partial_fit(X[at : at + size])
            at += size
    return fitted if at >= len(X) else fitted.partial_fit(X[at:])


@pytest.mark.filterwarnings("ignore:.*count as", "ignore::grinch.errors.SettingsWarning")
@settings(max_examples=trials(60, 600))
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 0, 0, 1e9, -1e9]), st.integers(-99, 99), st.sampled_from([1, 1, 1e-20])),
        min_size=2,
        max_size=50,
    ),
    st.lists(st.integers(1, 15), max_size=6) | st.just([1] * 50),
    st.sampled_from(sorted(SCALED)),
    st.sampled_from(["fast", "paper", "exact"]),
)
def test_pieces_of_any_size_make_the_same_tree(rows, sizes, name, mode):
    """Very short rows come last: under products, those that come before long ones may be taken in another unit."""
    rows.sort(key=lambda row: row[2], reverse=True)
    X = np.array([[(far + near / 8) * unit, near * near * unit] for far, near, unit in rows])
    assert newick(model(name, mode).fit(X)) == newick(in_pieces(lambda: model(name, mode), X, sizes))


@every_euclidean
@pytest.mark.parametrize("stop", [1, at_night(2), at_night(3), 20, at_night(37)])
def test_an_interruption_and_what_is_left_make_the_same_tree(name, stop, monkeypatch):
    X = np.vstack([np.full((2, 3), [[1e9], [-2e9]]), groups(45)[0]])
    whole, cut = model(name).fit(X), model(name).partial_fit(X[:1])
    engine, calls = cut.current_fit().builder, 0
    change = engine.change

    def interrupted(*arguments, **settings):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return change(*arguments, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "change", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cut.partial_fit(X[1 : stop + 1]).partial_fit(X[stop + 1 :])
    cut.partial_fit(X[cut.n_leaves_ :])
    assert newick(cut) == newick(whole)


@pytest.mark.parametrize("name", ["ward", at_night("single")])
def test_an_index_is_built_again_when_the_origin_moves(name):
    X, y = groups(400)
    rows = np.vstack([np.full((1, 3), 1e9), X])
    whole = model(name, n_clusters=K + 1, search="index").fit(rows)
    assert agree(whole.labels_[1:], y)
    assert newick(whole) == newick(in_pieces(lambda: model(name, search="index"), rows, [1, 1, 1, 300]))


# Points go ----------------------------------------------------------------------------------------------------------


@every_euclidean
def test_life_goes_on_without_the_outlier(name):
    X, y = groups(120)
    fitted = model(name).fit(np.vstack([np.full((1, 3), 1e9), X[:60]])).remove([0])
    fitted.partial_fit(X[60:])
    assert agree(fitted.labels_, y)
    fitted.update([5, 6], X[4:6])
    assert agree(fitted.labels_, np.concatenate([y[:4], y[4:6], y[6:]]))
    fitted.refine()
    assert agree(fitted.labels_, y)


def test_all_go_and_others_come_far_away():
    X, y = groups()
    fitted = model("ward").fit(X)
    fitted.remove(list(range(len(X)))).partial_fit(X + 2.0**40)
    assert agree(fitted.labels_, y)


def test_an_outlier_that_joins_late_loses_nothing():
    """A point looked up or inserted far away does not move what is there."""
    X, y = groups()
    fitted = model("ward").fit(X)
    before = newick(fitted)
    fitted.predict(np.full((5, 3), 1e17))
    assert newick(fitted) == before
    fitted.partial_fit(np.full((1, 3), 1e17)).n_clusters = K + 1
    assert agree(fitted.labels_[:-1], y)


# Short vectors ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::grinch.errors.SettingsWarning")
@pytest.mark.parametrize("name", SCALED)
@every_mode
def test_scaled_by_a_power_of_two_the_tree_is_the_same(name, mode):
    X, _ = groups()
    plain, small = model(name, mode).fit(X), model(name, mode).fit(np.ldexp(X, -80))
    assert newick(plain) == newick(small)
    power = {"single": 1, "complete": 1, "cosine": 0, "mean cosine": 0}.get(name, 2)
    np.testing.assert_allclose(np.ldexp(plain.tree_.scores, -80 * power), small.tree_.scores, rtol=1e-12)


@every_euclidean
def test_thresholds_are_in_the_units_of_the_data(name):
    X, y = groups()
    cut = {"average": -2000.0, "centroid": -1000.0, "ward": -3000.0, "single": -20.0, "complete": -30.0}[name]
    power = 1 if name in ("single", "complete") else 2
    plain = model(name, n_clusters=None, threshold=cut).fit(X)
    tiny = model(name, n_clusters=None, threshold=float(np.ldexp(cut, -70 * power))).fit(np.ldexp(X, -70))
    assert agree(plain.labels_, y)
    np.testing.assert_array_equal(plain.labels_, tiny.labels_)
    queries = np.vstack([X[:20] + 0.5, np.full((1, 3), 5000.0)])
    np.testing.assert_array_equal(plain.predict(queries), tiny.predict(np.ldexp(queries, -70)))
    assert plain.predict(queries)[-1] == -1


@pytest.mark.parametrize("make", [MiniBatchHAC, Perch, HAC], ids=lambda make: make.__name__)
def test_other_systems_scale_short_vectors(make):
    X, y = groups()
    settings = {"n_clusters": K, **({"cost": "diameter"} if make is Perch else {"linkage": "ward"})}
    if make is HAC:
        settings["lean"] = True
    plain, tiny = make(**settings).fit(X), make(**settings).fit(np.ldexp(X, -70))
    assert agree(plain.labels_, y)
    assert newick(plain) == newick(tiny)
    factor = 2.0 if make is MiniBatchHAC else 1.0
    np.testing.assert_allclose(tiny.tree_.scores, np.ldexp(plain.tree_.scores, int(-70 * factor)), rtol=1e-6)


@pytest.mark.parametrize("name", ["ward", "dot", "cosine"])
def test_long_rows_and_queries_after_short_ones(name):
    X, y = groups()
    fitted = model(name, n_clusters=K + 1).fit(X * 1e-20)
    assert (fitted.predict([[1e17, 0.0, 0.0], [-1e17, 1e17, 0.0]]) >= 0).all()
    fitted.partial_fit([[1.0, 2.0, 3.0]])
    assert np.isfinite(fitted.tree_.scores[fitted.tree_.n_leaves + 1 :]).all()
    if name == "ward":
        whole = model(name, n_clusters=K + 1).fit(np.vstack([X * 1e-20, [[1.0, 2.0, 3.0]]]))
        assert newick(whole) == newick(fitted)
        assert agree(whole.labels_[:-1], y)


# What cannot be -----------------------------------------------------------------------------------------------------


def test_a_vector_of_a_record_that_is_too_long_is_refused():
    def gap(a, b):
        return -abs(min(a) - min(b))

    fitted = Grinch(gap, search=ByVector(lambda records: np.array([[x] for x in records]), metric="sqeuclidean"))
    fitted.fit([1.0, 2.0, 5.0])
    with pytest.raises(ValueError, match=r"embed must return vectors .*record 1 is longer"):
        fitted.partial_fit([3.0, 1e30])
    assert fitted.n_leaves_ == 3


def test_the_longest_vectors_there_may_be():
    X, y = groups()
    ends = np.array([[5e17, 0, 0], [-5e17, 0, 0], [0, 5e17, 0]])
    for name in EUCLIDEAN:
        fitted = model(name, n_clusters=K + 3).fit(np.vstack([ends, X]))
        assert agree(fitted.labels_[3:], y)
        assert np.isfinite(fitted.tree_.scores[fitted.tree_.n_leaves + 1 :]).all()


def test_a_stream_that_moves_away_is_followed(rng):
    """Those that came while the origin was elsewhere lost their digits; those after them have theirs."""
    X, y = groups(4000)
    rows = np.vstack([rng.normal(size=(500, 3)), X + 1e9])
    with pytest.warns(UserWarning, match="count as equal"):
        fitted = model("ward", n_clusters=K + 1).fit(rows)
    found = fitted.predict(X[-500:] + 1e9)
    assert agree(found, y[-500:])


def test_a_linkage_of_ones_own_is_told_of_short_vectors():
    from numba import njit

    @njit
    def dot(a, b):
        return np.dot(a.mean, b.mean)

    with pytest.warns(UserWarning, match=r"2 points count as zero vectors.*point 1 .*1e-20 long"):
        Grinch(dot, metric="dot").fit([[1.0, 0.0], [1e-20, 0.0], [0.0, 1e-20]])
