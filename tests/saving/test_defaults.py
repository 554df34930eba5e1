"""What was saved before a default changed goes on as it was made.

The files in ``data`` were written when average linkage compared directions by default (in HAC, Euclidean distances).
"""

from __future__ import annotations

import json
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import grinch
from grinch import HAC, Grinch, MiniBatchHAC
from grinch.errors import SavedModelError
from grinch.saving import put_together, take_apart
from twins import assert_same, go_on, reopened

DATA = Path(__file__).parent / "data"


def rows():
    """Three directions, at lengths from 1 to 1,000: what is near by direction is far by distance."""
    rng = np.random.default_rng(0)
    directions = np.eye(4)[rng.integers(0, 3, 40)] + 0.05 * rng.random((40, 4))
    return (directions * 10 ** rng.uniform(0, 3, (40, 1))).astype(np.float32)


X = rows()
S = scipy.sparse.csr_matrix(np.where(X > 0.05 * X.max(axis=1, keepdims=True), X, 0))
MADE = {
    "dense": (Grinch(metric="cosine"), X),
    "sparse": (Grinch(metric="cosine"), S),
    "minibatch": (MiniBatchHAC(metric="cosine", buffer_size=8), X),
    "hac": (HAC(metric="euclidean"), X),
}


@pytest.mark.parametrize("name", MADE)
def test_a_model_keeps_the_metric_it_was_made_with(name, tmp_path):
    expected, points = MADE[name]
    expected, model = clone(expected).fit(points[:30]), grinch.load(DATA / f"default_{name}.grinch")
    assert model.get_params() == clone(model).get_params() == expected.get_params()
    assert_same(model, expected)
    again = reopened(model, tmp_path)
    assert again.metric == expected.metric
    if name != "hac":
        go_on((again, expected), [(points[30:],)])
        assert again.labels_.tolist() != clone(expected).set_params(metric=None).fit(points).labels_.tolist()


@pytest.mark.parametrize("name", ["dense", "sparse", "sharded"])
def test_a_store_keeps_the_metric_it_was_made_with(name, tmp_path):
    with tarfile.open(Path(__file__).parents[1] / "store" / "data" / "default_stores.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    points = S if name == "sparse" else X
    with grinch.open(tmp_path / name, metric=None if name == "sharded" else "cosine") as store:
        assert store.info()["metric"] == "cosine"
        store.insert(points[30:])
    with grinch.open(tmp_path / name) as store:
        assert store.info()["metric"] == "cosine"
        if name != "sharded":
            expected = Grinch(metric="cosine").partial_fit(points[:20]).partial_fit(points[20:30])
            expected.partial_fit(points[30:])
            np.testing.assert_array_equal(store.tree.child_pairs(), expected.tree_.child_pairs())
            np.testing.assert_array_equal(store.tree.scores, expected.tree_.scores)


def test_a_pickle_keeps_the_metric_it_was_made_with():
    model = Grinch(metric="cosine").fit(X[:30])
    expected = pickle.loads(pickle.dumps(model))
    model.metric = model._fitted.parameters["metric"] = None  # as it was when that meant cosine
    model = pickle.loads(pickle.dumps(model))
    assert model.metric == "cosine"
    go_on((model, expected), [(X[30:],)])


def test_a_default_stays_one(tmp_path):
    model = Grinch().fit(X)
    assert reopened(model, tmp_path).get_params() == model.get_params()
    assert reopened(Grinch(), tmp_path).metric is None
    # Both as they are now, and as the tree was begun.
    model.set_params(linkage="ward")
    twin = reopened(model, tmp_path).set_params(linkage="average")
    go_on((model.set_params(linkage="average"), twin), [(X[:5],)])


def test_another_default_is_written_out(tmp_path):
    """By a version in which no metric means something else, a file is read as what it meant when it was written."""
    parts = take_apart(Grinch().fit(X))
    manifest = json.loads(json.dumps(parts.manifest).replace('{"default": "sqeuclidean"}', '{"default": "dot"}'))
    assert put_together(parts._replace(manifest={**manifest, "fitted": None})).metric == "dot"
    manifest["parameters"]["metric"] = {"other": "dot"}
    with pytest.raises(SavedModelError, match="'other' is no kind of parameter"):
        put_together(parts._replace(manifest=manifest))
