"""What was saved before a default changed goes on as it was made.

The files in ``data`` were written when average linkage compared directions by default (in HAC, Euclidean distances):
every model of ``MADE`` with ``metric=None`` and the first 30 points.
"""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import grinch
from grinch import HAC, Grinch, MiniBatchHAC
from grinch.errors import SavedModelError
from grinch.estimators.saved import model_from_state
from grinch.legacy import convert_file
from twins import assert_same, go_on, reopened

DATA = Path(__file__).parent / "data"


def rows():
    """Three directions, at lengths from 1 to 1,000: what is near by direction is far by distance."""
    rng = np.random.default_rng(0)
    directions = np.eye(4)[rng.integers(0, 3, 40)] + 0.05 * rng.random((40, 4))
    return (directions * 10 ** rng.uniform(0, 3, (40, 1))).astype(np.float32)


X = rows()
S = scipy.sparse.csr_matrix(np.where(X / X.max(axis=1, keepdims=True) > 0.05, X, 0))
MADE = {
    "dense": (Grinch(metric="cosine", cut="height"), X),
    "sparse": (Grinch(metric="cosine", cut="height"), S),
    "minibatch": (MiniBatchHAC(metric="cosine", buffer_size=8, cut="height"), X),
    "hac": (HAC(metric="euclidean", cut="height"), X),
}


@pytest.mark.parametrize("name", MADE)
def test_a_model_keeps_the_metric_it_was_made_with(name, tmp_path):
    expected, points = MADE[name]
    convert_file(DATA / f"default_{name}.grinch", tmp_path / "new")
    expected, model = clone(expected).fit(points[:30]), grinch.load(tmp_path / "new")
    assert model.get_params() == clone(model).get_params() == expected.get_params()
    assert_same(model, expected)
    again = reopened(model, tmp_path)
    assert again.metric == expected.metric
    if name != "hac":
        go_on((again, expected), [(points[30:],)], queries=points)
        assert again.labels_.tolist() != clone(expected).set_params(metric=None).fit(points).labels_.tolist()


def test_a_default_stays_one(tmp_path):
    model = Grinch().fit(X)
    assert reopened(model, tmp_path).get_params() == model.get_params()
    assert pickle.loads(pickle.dumps(model)).get_params() == copy.deepcopy(model).get_params() == model.get_params()
    assert reopened(Grinch(), tmp_path).metric is None
    # Both as they are now, and as the tree was begun.
    model.set_params(linkage="ward")
    twin = reopened(model, tmp_path).set_params(linkage="average")
    go_on((model.set_params(linkage="average"), twin), [(X[:5],)])


def test_another_default_is_written_out(tmp_path):
    """By a version in which no metric means something else, a file is read as what it meant when it was written."""
    state = Grinch().to_state()
    state["parameters"]["metric"] = {"default": "dot"}
    assert model_from_state(state).metric == "dot"
    state["parameters"]["metric"] = {"other": "dot"}
    with pytest.raises(SavedModelError, match="'other' is no kind of parameter"):
        model_from_state(state)


def test_a_store_made_by_default_knows_its_metric_by_name(tmp_path):
    with grinch.open(tmp_path) as store:
        store.insert(X)
    with grinch.open(tmp_path, metric="sqeuclidean") as store:
        assert store.info()["metric"] == "sqeuclidean"
    with pytest.raises(ValueError, match="was made with metric='sqeuclidean', got 'cosine'"):
        grinch.open(tmp_path, metric="cosine")
