"""Several threads on one estimator, or a linkage inside it: one call at a time, and nobody sees half of a change."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.base import clone

from grinch import Birch, Grinch, MiniBatchHAC, Perch, cuts
from sparse_data import sparse_groups


def near(a, b):
    return -abs(np.mean(a) - np.mean(b))


@pytest.mark.parametrize(
    ("linkage", "X", "step"),
    [
        ("average", np.random.default_rng(0).normal(size=(900, 4)).astype(np.float32), 1),
        (near, np.random.default_rng(0).normal(size=(40, 4)), 3),
        ("average", sparse_groups(300), 6),
    ],
    ids=["vectors", "function", "sparse"],
)
def test_reading_beside_inserting_changes_nothing(linkage, X, step):
    n, stop, failures, n_reads = X.shape[0], threading.Event(), [], [0, 0]
    model = Grinch(linkage, n_clusters=3).fit(X[:10])

    def read(which):
        """Read until told to stop; what was read must fit together."""
        try:
            while not stop.is_set():
                tree, labels = model.tree_, model.labels_
                assert tree.n_leaves <= len(labels) <= model.n_leaves_
                assert set(labels.tolist()) == {0, 1, 2}
                assert set(model.predict(X[:3]).tolist()) <= {0, 1, 2}
                if tree.n_leaves == len(labels):
                    np.testing.assert_array_equal(labels, cuts.cut_sizeable(tree, 3))
                tree.check()
                n_reads[which] += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for i in range(10, n, step):
        model.partial_fit(X[i : i + step])
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert min(n_reads) > 0
    alone = Grinch(linkage, n_clusters=3).fit(X)
    assert model.tree_.to_newick() == alone.tree_.to_newick()
    np.testing.assert_array_equal(model.labels_, alone.labels_)


@pytest.mark.parametrize("estimator", [Grinch, MiniBatchHAC])
def test_two_writers_take_turns(rng, estimator):
    X = rng.normal(size=(400, 4))
    model = estimator().fit(X[:2], ids=[0, 1])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: model.partial_fit(X[i : i + 1], ids=[i]), range(2, 400)))
    assert sorted(model.ids_) == list(range(400))
    model.tree_.check()


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
    with pytest.raises(ValueError, match="a linkage must not use the model that calls it"):
        model.fit([float(i) for i in range(30)])
    model.tree_.check()
    assert 0 < model.n_leaves_ < 30
    model.partial_fit([float(i) for i in range(model.n_leaves_, 30)])
    assert model.n_leaves_ == 30


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


# While a call is in progress ------------------------------------------------------------------------------------------


@contextmanager
def in_the_middle_of_an_insert(model, X):
    """While another thread inserts, and stays in the middle of that."""
    is_inside, opened = threading.Event(), threading.Event()
    insert = model._insert

    def stopping(rows):
        is_inside.set()
        assert opened.wait(60)
        insert(rows)

    model._insert = stopping
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(model.partial_fit, X)
        try:
            assert is_inside.wait(60)
            yield
        finally:
            opened.set()
        done.result()


READS = [
    lambda model: len(model.labels_),
    lambda model: model.tree_.n_leaves,
    lambda model: len(model.ids_),
    lambda model: sum(map(len, model.clusters_)),
    lambda model: model.n_leaves_,
    lambda model: len(model.predict(np.zeros((300, 4)))),
    lambda model: len(model.transform(np.zeros((300, 4)))),
    lambda model: int(model.summary()["size"].sum()),
]


@pytest.mark.parametrize("estimator", [Grinch, Perch, MiniBatchHAC, Birch])
def test_reads_wait_for_the_call_in_progress(rng, estimator):
    X = rng.normal(size=(300, 4))
    model = estimator(n_clusters=4).fit(X[:100])
    with ThreadPoolExecutor(len(READS)) as pool:
        with in_the_middle_of_an_insert(model, X[100:]):
            found = [pool.submit(read, model) for read in READS]
            with pytest.raises(TimeoutError):
                found[0].result(0.05)
        assert [each.result(60) for each in found] == [300] * len(READS)


def test_what_needs_no_fit_does_not_wait(rng):
    X = rng.normal(size=(300, 4))
    model = Grinch(n_clusters=4).fit(X[:100])
    with in_the_middle_of_an_insert(model, X[100:]):
        assert model.get_params()["n_clusters"] == 4
        assert repr(model) == "Grinch(n_clusters=4)"
        assert model.__sklearn_is_fitted__()
        assert not hasattr(clone(model), "tree_")


def test_an_interrupt_leaves_nobody_waiting(rng):
    X = rng.normal(size=(60, 4))
    model = Grinch().fit(X[:50])

    def interrupted(rows):
        raise KeyboardInterrupt

    model._insert = interrupted
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[50:])
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: model.n_leaves_).result(60) == 50
