"""States: all of an object is in its state or made again from it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from grinch import HAC, Birch, Grinch, MiniBatchHAC, Perch
from grinch.datasets import gaussian_mixture
from grinch.errors import SavedModelError
from grinch.estimators.saved import model_from_state
from grinch.linkage import Pairwise
from grinch.neighbors import ByKey, ByVector
from grinch.saving.state import Fields, array, flatten, item, optional_vector, scalar, unflatten

X = gaussian_mixture(60, n_features=3, n_classes=4, random_state=0)[0]


def near(a, b):
    return -abs(sum(a) / len(a) - sum(b) / len(b))


def as_rows(records):
    return np.array([[x, 1.0] for x in records])


def rounded(record):
    return round(record)


MODELS = [
    lambda: Grinch("ward").fit(X),
    lambda: Grinch("ward", search="index").fit(X),
    lambda: Grinch("ward").fit(scipy.sparse.csr_matrix(X)),
    lambda: Grinch(near, search=[ByVector(as_rows), ByKey(rounded)]).fit(X[:, 0].tolist()),
    lambda: Grinch(Pairwise("average", distance="euclidean")).fit(X),
    lambda: HAC().fit(X),
    lambda: MiniBatchHAC(buffer_size=9).fit(X),
    lambda: Perch().fit(X),
    lambda: Birch().fit(X),
]


def attributes_of(thing, path=""):
    """The names of all attributes of our objects within an object, by where they are."""
    found = set()
    for name, value in vars(thing).items():
        found.add(f"{path}.{name}")
        if type(value).__module__.startswith("grinch") and hasattr(value, "__dict__"):
            found |= attributes_of(value, f"{path}.{name}")
    return found


@pytest.mark.parametrize("made", MODELS)
def test_every_attribute_is_there_again(made):
    """A new attribute of a class has to be in its state, or made again by ``from_state``."""
    model = made()
    twin = model_from_state(unflatten(*flatten(model.to_state())))
    linkages = {"linkage", "_linkage"}
    before = {name for name in attributes_of(model.current_fit()) if not linkages & set(name.split("."))}
    after = {name for name in attributes_of(twin.current_fit()) if not linkages & set(name.split("."))}
    assert before == after


def test_states_hold_plain_values_and_arrays_of_the_model_itself():
    model = Grinch("ward").fit(X)
    header, arrays = flatten(model.to_state())
    assert header["class"] == "Grinch"
    assert arrays["fitted.builder.summaries.arrays.means"] is model.current_fit().builder.summaries.arrays.means


def test_numbers_that_json_does_not_have():
    state = {"a": [float("inf"), -float("inf"), 2**70, -(2**60), 1.5, 3, True, None], "b": {"c": {"d": "x"}}}
    assert unflatten(*flatten(state)) == state
    assert np.isnan(unflatten(*flatten({"a": float("nan")}))["a"])


STATE = {"n": 3, "flag": True, "rows": np.zeros((2, 3), np.float32), "turned": np.zeros((4, 5)).T, "none": None}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: item(STATE, "x"),
        lambda: item([], "x"),
        lambda: scalar(STATE, "n", bool),
        lambda: scalar(STATE, "flag", int),
        lambda: array(STATE, "n", "<f4", 2),
        lambda: array(STATE, "rows", "<f8", 2),
        lambda: array(STATE, "rows", "<f4", 1),
        lambda: array(STATE, "turned", "<f8", 2),
        lambda: optional_vector({"v": np.zeros(3)}, "v", 4),
        lambda: Fields(n=str).read(STATE),
        lambda: unflatten({"a": {"array": "x"}}, {}),
        lambda: unflatten([], {}),
    ],
)
def test_wrong_types_are_refused(wrong):
    with pytest.raises(SavedModelError):
        wrong()
