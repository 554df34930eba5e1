"""Several threads on one estimator, or a linkage inside it: one call at a time, and nobody sees half of a change."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from grinch import Grinch, MiniBatchHAC


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
    n = 1200 if isinstance(linkage, str) else 60
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
