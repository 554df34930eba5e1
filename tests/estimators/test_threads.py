"""Several threads on one estimator, or a linkage inside it: one call at a time, and nobody sees half of a change."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numba
import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from effort import at_night
from grinch import Birch, Grinch, MiniBatchHAC, Online, Perch, Rotate, cuts
from grinch.core.rules import MODES
from grinch.estimators.base import turns_of
from grinch.neighbors import topk
from grinch.neighbors.auto import AutoSearch
from grinch.tree import NONE
from sparse_data import sparse_groups


@numba.njit
def furthest_mean(a, b):
    """A compiled linkage of one's own."""
    total = 0.0
    for i in range(a.mean.shape[0]):
        total = max(total, abs(a.mean[i] - b.mean[i]))
    return -total


def readers(model, stop, failures):
    """Read until told to stop; what was read must fit together."""

    def read():
        rng = np.random.default_rng()
        try:
            while not stop.is_set():
                tree = model.tree_
                assert len(model.predict(rng.normal(size=(3, 4)))) == 3
                tree.check()
                assert model.n_leaves_ >= tree.n_leaves
                assert len(model.labels_) >= tree.n_leaves
        except BaseException as error:
            failures.append(error)

    return [threading.Thread(target=read) for _ in range(2)]


@pytest.mark.parametrize(
    "linkage", ["average", lambda a, b: -abs(np.mean(a) - np.mean(b))], ids=["vectors", "function"]
)
def test_reading_beside_inserting_changes_nothing(rng, linkage):
    n = 600 if isinstance(linkage, str) else 40
    X = rng.normal(size=(n, 4)).astype(np.float32)
    model, stop, failures = Grinch(linkage, n_clusters=3).fit(X[:10]), threading.Event(), []
    threads = readers(model, stop, failures)
    for thread in threads:
        thread.start()
    for i in range(10, n, 3):
        model.partial_fit(X[i : i + 3])
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    alone = Grinch(linkage, n_clusters=3).fit(X)
    assert model.tree_.to_newick() == alone.tree_.to_newick()
    if isinstance(linkage, str):
        stored = model._fitted.builder.summaries.arrays.means[:n]
        np.testing.assert_array_equal(stored, alone._fitted.builder.summaries.arrays.means[:n])


@pytest.mark.parametrize("estimator", [Grinch, MiniBatchHAC])
def test_two_writers_take_turns(rng, estimator):
    X = rng.normal(size=(400, 4))
    model = estimator().fit(X[:2], ids=[0, 1])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: model.partial_fit(X[i : i + 1], ids=[i]), range(2, 400)))
    assert sorted(model.ids_) == list(range(400))
    model.tree_.check()


def test_a_copy_has_a_lock_of_its_own(rng):
    model = Grinch().fit(rng.normal(size=(20, 3)))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        twin.partial_fit(rng.normal(size=(5, 3)))
        assert twin.n_leaves_ == 25
    assert model.n_leaves_ == 20


@pytest.mark.parametrize(
    "use",
    [
        lambda model: model.predict([99.0]),
        lambda model: model.fit([1.0]),
        lambda model: model.partial_fit([1.0]),
        lambda model: model.remove([0]),
        lambda model: model.tree_,
    ],
)
def test_a_linkage_that_uses_its_own_model_is_refused(use):
    calls = []

    def linkage(a, b):
        calls.append(1)
        if len(calls) == 40:
            use(model)
        return -abs(np.mean(a) - np.mean(b))

    model = Grinch(linkage, n_clusters=2)
    with pytest.raises(ValueError, match="a linkage must not use the model that is asking it"):
        model.fit([float(i) for i in range(30)])
    model.tree_.check()
    assert 0 < model.n_leaves_ < 30
    model.partial_fit([float(i) for i in range(model.n_leaves_, 30)])
    assert model.n_leaves_ == 30


# Beside a writer ------------------------------------------------------------------------------------------------------


class Gate:
    """Stops the searches of a model at a point of their own, so that a writer stays inside as long as a test likes."""

    def __init__(self, model, after=0):
        self.is_inside, self.opened = threading.Event(), threading.Event()
        search = model._fitted.builder.search
        stream = search.stream

        def stopping(start, stop, limit=None):
            for i, found in enumerate(stream(start, stop, limit)):
                if limit is None and i >= after:
                    self.is_inside.set()
                    assert self.opened.wait(60)
                yield found

        search.stream = stopping


@contextmanager
def inside(write, gate):
    """While a writer is in the middle of a change."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(write)
        try:
            assert gate.is_inside.wait(60)
            yield
            assert not done.done()
        finally:
            gate.opened.set()
        done.result()


def find(self, arrays, slots, limit):
    """The nearest points by asking about all of them: what every search can do beside a writer."""
    found = np.full((len(slots), self.k), NONE, np.int32)
    points = np.flatnonzero(arrays.gone[:limit] == 0).astype(np.int32)
    topk.rank(arrays, slots, np.tile(points, (len(slots), 1)), found, np.empty(found.shape))
    return found


def seen(model, queries):
    labels = model.labels_.tolist()
    return [
        model.tree_.to_newick(),
        labels,
        model.ids_,
        model.clusters_,
        model.n_leaves_,
        model.predict(queries).tolist(),
        model.transform(queries).round(9).tolist(),
        model.summary().to_csv(),
        repr(model.cluster_tree()),
    ]


@pytest.fixture
def can_find(monkeypatch):
    if not hasattr(AutoSearch, "find"):
        monkeypatch.setattr(AutoSearch, "find", find, raising=False)


WAYS_IN = ["plain", "shuffled", "named", "with gaps"]


@pytest.mark.parametrize(
    ("cut", "way"),
    [
        *(({"n_clusters": 5}, way) for way in WAYS_IN),
        ({"threshold": -0.4}, "with gaps"),
        *(at_night({"threshold": -0.4}, way) for way in WAYS_IN[:3]),
    ],
)
@pytest.mark.usefixtures("can_find")
def test_readers_see_what_was_there_before_the_writer(rng, cut, way):
    X, queries = rng.normal(size=(1500, 4)), rng.normal(size=(20, 4))
    model = Grinch(**cut, shuffle=way == "shuffled", random_state=0)
    model.fit(X[:700], ids=[f"p{i}" for i in range(700)] if way == "named" else None)
    if way == "with gaps":
        model.remove(list(range(0, 300, 3))).update([1, 700 - 1], X[700:702])
    before, old_tree = seen(model, queries), model.tree_
    gate = Gate(model, after=1)
    ids = [f"q{i}" for i in range(800)] if way == "named" else None
    with inside(lambda: model.partial_fit(X[700:], ids=ids), gate):
        assert model._fitted.builder.n_leaves > old_tree.n_leaves
        assert seen(model, queries) == before
        model.tree_.check()
        if "n_clusters" in cut:
            model.n_clusters = 9
            np.testing.assert_array_equal(model.labels_, cuts.cut_sizeable(old_tree, 9))
            model.n_clusters = 5
    assert model.n_leaves_ == old_tree.n_leaves + 800
    assert seen(model, queries) != before
    alone = copy.deepcopy(model)
    assert seen(alone, queries) == seen(model, queries)


WAYS = [*((Grinch, {"mode": mode}) for mode in MODES), (Rotate, {}), (Online, {})]
NAMED = [("average", "cosine"), ("average", "sqeuclidean"), ("ward", None), ("cosine", None), (furthest_mean, None)]
# Every day each of the ways with one linkage, and each of the linkages in one way.
GRID = [
    (*way, *named) if i == 0 or j == 0 else at_night(*way, *named)
    for i, way in enumerate(WAYS)
    for j, named in enumerate(NAMED)
]


@pytest.mark.parametrize("linkage", ["average", *map(at_night, ["ward", "cosine", "tanimoto"])])
def test_places_of_sparse_rows_beside_a_writer_are_those_before_it(linkage):
    X = sparse_groups(1100)
    metric = "cosine" if linkage == "average" else None  # short rows are near to all others under distances
    model = Grinch(linkage, metric=metric).fit(X[:500]).remove([3, 77])
    engine, queries = model._fitted.builder, X[600:640]
    places, standing = engine.place(queries), engine.standing(engine.tree())
    nearest, sibling = engine.numbered(places.nearest), engine.numbered(places.sibling)
    for start in (700, 900):
        found = standing.place(queries)
        np.testing.assert_array_equal(found.nearest, nearest)
        np.testing.assert_array_equal(found.sibling, sibling)
        np.testing.assert_array_equal(found.score, places.score)
        model.partial_fit(X[start : start + 200])
        engine.tree()


def test_reading_sparse_rows_beside_inserting_changes_nothing():
    X = sparse_groups(300)
    model, stop, failures = Grinch(n_clusters=3).fit(X[:10]), threading.Event(), []

    def read():
        try:
            while not stop.is_set():
                assert len(model.predict(X[:3])) == 3
                model.tree_.check()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    for i in range(10, 300, 6):
        model.partial_fit(X[i : i + 6])
    stop.set()
    thread.join()
    assert failures == []
    alone = Grinch(n_clusters=3).fit(X)
    assert model.tree_.to_newick() == alone.tree_.to_newick()


@pytest.mark.filterwarnings("ignore::grinch.errors.SettingsWarning")
@pytest.mark.parametrize(("estimator", "rules", "linkage", "metric"), GRID)
def test_places_beside_a_writer_are_those_before_it(rng, estimator, rules, linkage, metric):
    X = np.concatenate([rng.normal(size=(300, 3)), np.repeat(rng.normal(size=(5, 3)), 8, axis=0)])
    model = estimator(linkage, metric=metric, **rules).fit(rng.permutation(X)).remove([3, 77])
    engine, queries = model._fitted.builder, np.concatenate([rng.normal(size=(30, 3)), X[::9]]).astype(np.float32)
    places = engine.place(queries)
    engine.search.find = lambda arrays, slots, limit: places.nearest[:, None]
    standing = engine.standing(engine.tree())
    nearest, sibling = engine.numbered(places.nearest), engine.numbered(places.sibling)
    for _ in range(2):
        found = standing.place(queries)
        np.testing.assert_array_equal(found.nearest, nearest)
        np.testing.assert_array_equal(found.sibling, sibling)
        np.testing.assert_array_equal(found.score, places.score)
        model.partial_fit(rng.normal(size=(200, 3)))
        engine.tree()


@pytest.mark.parametrize("is_sparse", [False, True])
def test_what_cannot_be_placed_beside_a_writer_waits_for_it(rng, is_sparse):
    """A point that has nothing in common with any other climbs beyond the caps, where only the tree itself knows."""
    X, nothing = np.abs(rng.normal(size=(1500, 8))), np.zeros((2, 8))
    others = np.abs(X[:50] + 0.1 * rng.normal(size=(50, 8)))
    model = Grinch("cosine")
    if is_sparse:
        # Under squared distances too: all have a column that is in no other row, and is large.
        model, nothing = Grinch(), np.array([[9.0, *[0] * 8], [8.0, *[0] * 8]])
        X, others = (np.hstack([np.zeros((len(rows), 1)), rows]) for rows in (X, others))
        X, others, nothing = (scipy.sparse.csr_matrix(rows) for rows in (X, others, nothing))
    engine = model.fit(X)._fitted.builder
    standing = engine.standing(engine.tree())
    assert (engine.numbered(engine.place(nothing).sibling) == engine.tree().root).all()
    assert standing.place(nothing) is None
    np.testing.assert_array_equal(standing.place(others).sibling, engine.numbered(engine.place(others).sibling))


def test_a_linkage_in_python_holds_up_nobody_who_reads(rng):
    is_closed, is_inside, opened = threading.Event(), threading.Event(), threading.Event()

    def linkage(a, b):
        if is_closed.is_set():
            is_inside.set()
            assert opened.wait(60)
        return -abs(np.mean(a) - np.mean(b))

    points = rng.normal(size=60).tolist()
    model = Grinch(linkage, n_clusters=3).fit(points[:40])
    before = [model.labels_.tolist(), model.tree_.to_newick(), model.ids_, model.stats_]
    turns_of(model)._pace = 1.0
    with ThreadPoolExecutor(1) as pool:
        # The first question is asked while the tree is shown.
        done = pool.submit(lambda: [is_closed.set(), model.partial_fit(points[40:])])
        assert is_inside.wait(60)
        after = [model.labels_.tolist(), model.tree_.to_newick(), model.ids_]
        opened.set()
        done.result()
    assert after == before[:3]
    assert model.n_leaves_ == 60


def test_readers_are_not_held_up_by_a_long_insert(rng):
    """Beside 4,000 points in one call, readers go on reading what was there before, and it always fits together."""
    X = rng.normal(size=(5000, 8)).astype(np.float32)
    model, failures, counts = Grinch(n_clusters=4).fit(X[:1000]), [], [0, 0]
    turns_of(model)._pace = 1.0
    labels, tree, is_done = model.labels_, model.tree_, threading.Event()

    def read(which):
        try:
            while not is_done.is_set():
                n, labels_now, tree_now = model.n_leaves_, model.labels_, model.tree_
                if n == len(labels_now) == tree_now.n_leaves == 1000:
                    np.testing.assert_array_equal(labels_now, labels)
                    assert tree_now.to_newick() == tree.to_newick()
                    counts[which] += 1
                else:
                    assert {n, len(labels_now), tree_now.n_leaves} <= {1000, 5000}
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    with inside(lambda: model.partial_fit(X[1000:]), Gate(model, after=1)):
        while min(counts) < 10 and not failures:
            time.sleep(0.001)
    is_done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    np.testing.assert_array_equal(model.labels_, cuts.cut_sizeable(model.tree_, 4))
    assert model.tree_.to_newick() == Grinch().fit(X).tree_.to_newick()


@pytest.mark.slow
def test_thousands_of_single_points_beside_readers(rng):
    n = 4000
    X = rng.normal(size=(n, 6)).astype(np.float32)
    model, failures, read, stop = Grinch(n_clusters=6).fit(X[:100]), [], [0, 0], threading.Event()

    def reader(which):
        random, last = np.random.default_rng(which), 0
        try:
            while not stop.is_set():
                tree, labels = model.tree_, model.labels_
                assert last <= tree.n_leaves <= len(labels)
                last = len(labels)
                assert set(labels.tolist()) == set(range(6))
                assert set(model.predict(random.normal(size=(2, 6))).tolist()) <= set(range(6))
                if tree.n_leaves == len(labels):
                    np.testing.assert_array_equal(labels, cuts.cut_n_clusters(tree, 6))
                read[which] += 1
                tree.check()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=reader, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for i in range(100, n):
        model.partial_fit(X[i : i + 1])
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert min(read) > 20
    alone = Grinch(n_clusters=6).fit(X)
    assert model.tree_.to_newick() == alone.tree_.to_newick()
    np.testing.assert_array_equal(model.labels_, alone.labels_)
    for ours, theirs in zip(*(each._fitted.builder.summaries.arrays[:2] for each in (model, alone)), strict=True):
        np.testing.assert_array_equal(ours[:n], theirs[:n])


@pytest.mark.usefixtures("can_find")
def test_a_new_fit_is_seen_when_it_is_done(rng):
    X = rng.normal(size=(400, 4))
    model = Grinch(n_clusters=3).fit(X)
    before, queries = seen(model, X[:5]), X[:5]
    is_inside, opened = threading.Event(), threading.Event()

    turns_of(model)._pace = 1.0
    insert = model._insert

    def stopping(rows):
        is_inside.set()
        assert opened.wait(60)
        insert(rows)

    model._insert = stopping
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(model.fit, rng.normal(size=(900, 7)))
        assert is_inside.wait(60)
        assert seen(model, queries) == before
        with pytest.raises(ValueError, match="4 features"):
            model.predict(X[:, :3])
        opened.set()
        done.result()
    assert model.n_leaves_ == 900
    assert model.predict(rng.normal(size=(3, 7))).shape == (3,)


def test_before_the_first_fit_is_done_there_is_nothing(rng):
    model, is_inside, opened = Grinch(), threading.Event(), threading.Event()
    insert = model._insert

    def stopping(rows):
        is_inside.set()
        assert opened.wait(60)
        insert(rows)

    model._insert = stopping
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(model.partial_fit, rng.normal(size=(50, 7)))
        assert is_inside.wait(60)
        for name in ("tree_", "labels_", "n_leaves_"):
            with pytest.raises(NotFittedError):
                getattr(model, name)
        opened.set()
        done.result()
    assert model.n_leaves_ == 50


@pytest.mark.parametrize("way", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_waits_for_the_writer_and_is_no_mixture(rng, way):
    X = rng.normal(size=(1500, 4))
    model = Grinch().fit(X[:200])
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(lambda: [model.partial_fit(X[i : i + 100]) for i in range(200, 1500, 100)])
        while not done.done():
            twin = way(model)
            twin.tree_.check()
            n = twin.n_leaves_
            assert n % 100 == 0
            assert twin.tree_.to_newick() == Grinch().fit(X[:n]).tree_.to_newick()
        done.result()


@pytest.mark.parametrize("estimator", [Perch, MiniBatchHAC, Birch])
def test_other_systems_are_read_beside_a_writer_too(rng, estimator):
    X = rng.normal(size=(300, 4))
    model = estimator(n_clusters=4).fit(X[:100])
    before = [model.labels_.tolist(), model.tree_.to_newick(), model.ids_]
    turns_of(model)._pace = 1.0
    is_inside, opened, insert = threading.Event(), threading.Event(), model._insert

    def stopping(rows):
        insert(rows)
        is_inside.set()
        assert opened.wait(60)

    model._insert = stopping
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(model.partial_fit, X[100:])
        assert is_inside.wait(60)
        assert [model.labels_.tolist(), model.tree_.to_newick(), model.ids_] == before
        opened.set()
        done.result()
    assert len(model.labels_) == 300


def test_beside_a_removal_labels_are_shown_and_predict_waits(rng):
    X = rng.normal(size=(600, 4))
    model = Grinch(n_clusters=4).fit(X)
    before = model.labels_
    turns_of(model)._pace = 1.0
    is_inside, opened, remove = threading.Event(), threading.Event(), model._fitted.builder.remove

    def stopping(slots, repair=True):
        remove(slots, repair)
        is_inside.set()
        assert opened.wait(60)

    model._fitted.builder.remove = stopping
    with ThreadPoolExecutor(2) as pool:
        done = pool.submit(model.remove, list(range(400)))
        assert is_inside.wait(60)
        np.testing.assert_array_equal(model.labels_, before)
        predicted = pool.submit(model.predict, X[:3])
        with pytest.raises(TimeoutError):
            predicted.result(0.05)
        opened.set()
        done.result()
    assert len(predicted.result()) == 3
    assert model.n_leaves_ == len(model.labels_) == 200


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.usefixtures("can_find")
def test_few_points_beside_a_writer(n):
    X = np.eye(4)[:n]
    model = Grinch(n_clusters=2).fit(X)
    engine = model._fitted.builder
    places, found = engine.place(X), engine.standing(engine.tree()).place(X)
    assert engine.numbered(places.sibling).tolist() == found.sibling.tolist()
    assert engine.numbered(places.nearest).tolist() == found.nearest.tolist()
    assert places.score.tolist() == found.score.tolist()


@pytest.mark.usefixtures("can_find")
def test_places_are_not_told_once_slots_mean_other_points(rng):
    model = Grinch().fit(rng.normal(size=(300, 4)))
    engine = model._fitted.builder
    standing = engine.standing(engine.tree())
    assert standing.place(rng.normal(size=(2, 4))) is not None
    model.remove(list(range(200)))
    assert standing.place(rng.normal(size=(2, 4))) is None
