"""A view of an engine places points as the engine did when the view was made, whatever happens to the engine since."""

from __future__ import annotations

import threading

import numba
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import at_night, trials
from engines import PlacesNow, engine_in
from grinch import Grinch, Online, Rotate, Rules
from grinch.core.rules import MODES
from sparse_data import sparse_groups


@numba.njit
def furthest_mean(a, b):
    """A compiled linkage of one's own."""
    total = 0.0
    for i in range(a.mean.shape[0]):
        total = max(total, abs(a.mean[i] - b.mean[i]))
    return -total


def queries_for(X, rng):
    """Points of the tree, points beside them, far ones and zero vectors."""
    if scipy.sparse.issparse(X):
        shape = (3, X.shape[1])
        return scipy.sparse.vstack([X[:12], X[20:30] * 3.0, scipy.sparse.csr_matrix(shape)], format="csr")
    near, other, far = (X[:20] + 0.1 * X[20:40]), rng.normal(size=(10, X.shape[1])), 1e4 * X[40:45][::-1]
    found = np.concatenate([X[:10], near, other, far, np.zeros((2, X.shape[1]))])
    return found if (X < 0).any() else np.abs(found)


def lives(model, X, rng):
    """Everything that changes an engine, one after the other."""
    half = X.shape[0] // 2
    yield model.partial_fit(X[:40])
    yield model.remove(model.ids_[:30])
    yield model.update(model.ids_[:5], X[40:45])
    yield model.refine()
    yield model.partial_fit(X[45:half])
    yield model.remove(rng.permutation(model.ids_)[: int(0.7 * model.n_leaves_)])
    assert engine_in(model).n_slots == model.n_leaves_, "it was compacted"
    yield model.partial_fit(X[half:])


def check_through_a_life(model, X, rng):
    n = X.shape[0] // 2
    model.fit(X[:n]).remove([3, 77])
    made = [PlacesNow(engine_in(model), queries_for(X, rng))]
    for i, _ in enumerate(lives(model, X[n:], rng)):
        for expected in made:
            expected.check()
        if i % 3 == 0:
            made.append(PlacesNow(engine_in(model), queries_for(X, rng)))
    for expected in made:
        expected.check()


WAYS = [*((Grinch, {"mode": mode}) for mode in MODES), (Rotate, {}), (Online, {})]
NAMED = [
    ("average", "sqeuclidean"),
    ("average", "cosine"),
    ("average", "hellinger"),
    ("average", "dot"),
    ("ward", None),
    ("centroid", None),
    ("cosine", None),
    ("tanimoto", None),
    (furthest_mean, None),
]
GRID = [
    (*way, *named) if i == 0 or j == 0 else at_night(*way, *named)
    for i, way in enumerate(WAYS)
    for j, named in enumerate(NAMED)
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("estimator", "rules", "linkage", "metric"), GRID)
def test_a_view_stays_right_whatever_the_engine_does(rng, estimator, rules, linkage, metric):
    n = 900 if rules.get("mode") != "exact" else 300
    X = np.concatenate([rng.normal(size=(n, 3)), np.repeat(rng.normal(size=(n // 24, 3)), 8, axis=0)])
    X = np.abs(X) if metric == "hellinger" or linkage == "tanimoto" else X
    check_through_a_life(estimator(linkage, metric=metric, **rules), rng.permutation(X), rng)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("linkage", "metric", "search"),
    [
        ("average", "cosine", "auto"),
        ("average", "sqeuclidean", "exact"),
        ("tanimoto", None, "auto"),
        *(at_night(*way, "auto") for way in [("ward", None), ("cosine", None), ("centroid", None)]),
    ],
)
def test_a_view_of_sparse_rows_stays_right(rng, linkage, metric, search):
    check_through_a_life(Grinch(linkage, metric=metric, search=search), sparse_groups(1600), rng)


@pytest.mark.parametrize("search", ["index", "auto"])
@pytest.mark.parametrize("linkage", ["average", *map(at_night, ["cosine", "ward"])])
def test_a_view_searches_the_cells_of_its_time(rng, monkeypatch, linkage, search):
    monkeypatch.setattr("grinch.neighbors.choice.EXACT_UP_TO", 512)
    X = rng.normal(size=(6000, 6))
    model = Grinch(linkage, search=search).fit(X[:3000])
    made = [PlacesNow(engine_in(model), queries_for(X, rng))]
    for start in range(3000, 6000, 1000):
        model.partial_fit(X[start : start + 1000])
        for expected in made:
            expected.check()
        made.append(PlacesNow(engine_in(model), queries_for(X, rng)))
    model.remove(list(range(4000)))
    assert engine_in(model).n_slots == model.n_leaves_ == 2000
    for expected in made:
        expected.check()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("unit", "middle", "later"), [(1.0, 1e7, 1.0), (1.0, 0.0, 1e-18), (1e-18, 0.0, 1.0)], ids=["far", "tiny", "large"]
)
def test_a_view_keeps_its_frame(rng, unit, middle, later):
    """Where points are measured from, and in what unit, changes with points that are far away or have other lengths."""
    X = unit * rng.normal(size=(400, 4))
    model = Grinch().fit(X)
    expected, frame = PlacesNow(engine_in(model), queries_for(X, rng)), engine_in(model).summaries.frame
    before = frame.origin.copy(), frame.scale
    model.partial_fit(middle + later * rng.normal(size=(3000, 4)))
    assert frame.scale != before[1] or (frame.origin != before[0]).any()
    expected.check()


def test_there_is_no_view_of_a_linkage_on_records():
    assert engine_in(Grinch(lambda a, b: -abs(np.mean(a) - np.mean(b))).fit([1.0, 2.0, 5.0])).view() is None


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 4, 30]), st.sampled_from(["fast", "paper", "exact"]))
@settings(max_examples=trials(20, 500))
def test_views_with_caps_of_any_size(seed, cap, mode):
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(120, 2)).astype(float)
    rules = MODES[mode].changed(cap=cap)
    assert isinstance(rules, Rules)
    model = Grinch("cosine", mode=rules).fit(X[:80])
    expected = PlacesNow(engine_in(model), X[60:])
    model.partial_fit(X[80:])
    expected.check()


@pytest.mark.parametrize("is_sparse", [False, True])
def test_many_threads_place_beside_a_writer(rng, monkeypatch, is_sparse):
    monkeypatch.setattr("grinch.neighbors.choice.EXACT_UP_TO", 1024)
    X = sparse_groups(2500) if is_sparse else rng.normal(size=(6000, 5))
    model = Grinch().fit(X[:1500])
    made, failures, stop = [PlacesNow(engine_in(model), queries_for(X, rng))], [], threading.Event()

    def read():
        try:
            while not stop.is_set():
                for expected in list(made):
                    expected.check()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for start in range(1500, X.shape[0], 500):
        model.partial_fit(X[start : start + 500]).remove(model.ids_[:250])
        made[:] = [*made[-1:], PlacesNow(engine_in(model), queries_for(X, rng))]
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    alone = Grinch().fit(X[:1500])
    for start in range(1500, X.shape[0], 500):
        alone.partial_fit(X[start : start + 500]).remove(alone.ids_[:250])
    assert model.tree_.to_newick() == alone.tree_.to_newick()
