"""Plain values and arrays as bytes, and back."""

import json
import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from grinch import Grinch
from grinch.errors import NotSavable, SavedModelError
from grinch.saving.json_values import Decoder, Encoder, decode, encode
from grinch.saving.state import Fields, array, flatten, item, optional_vector, scalar, unflatten
from refusals import refused

HASHABLE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()) | st.binary(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
VALUES = st.recursive(
    HASHABLE | st.complex_numbers(allow_nan=False) | st.decimals(allow_nan=False) | st.fractions() | st.dates(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HASHABLE, inner, max_size=4) | st.sets(HASHABLE),
    max_leaves=12,
)


def shape_of(value):
    """A value with its types, so that 1 is not True."""
    if isinstance(value, dict):
        return [dict, [(shape_of(key), shape_of(each)) for key, each in value.items()]]
    if isinstance(value, (list, tuple)):
        return [type(value), [shape_of(each) for each in value]]
    return [type(value), value]


@given(VALUES)
def test_values_come_back(value):
    found = decode(json.loads(json.dumps(encode(value), allow_nan=False)))
    assert shape_of(found) == shape_of(value)


def test_numbers_that_json_does_not_have():
    assert math.isnan(decode(encode(float("nan"))))
    assert decode(encode([float("-inf"), -0.0, 10**400])) == [float("-inf"), -0.0, 10**400]
    assert math.copysign(1, decode(encode(-0.0))) == -1


def test_states_hold_plain_values_and_arrays_of_the_model_itself():
    model = Grinch("ward").fit(np.random.default_rng(0).normal(size=(60, 3)))
    header, arrays = flatten(model.to_state())
    assert header["class"] == "Grinch"
    assert arrays["fitted.builder.summaries.arrays.means"] is model.current_fit().builder.summaries.arrays.means
    state = {"a": [float("inf"), -float("inf"), 2**70, -(2**60), 1.5, 3, True, None], "b": {"c": {"d": "x"}}}
    assert unflatten(*flatten(state)) == state
    assert np.isnan(unflatten(*flatten({"a": float("nan")}))["a"])


STATE = {"n": 3, "flag": True, "rows": np.zeros((2, 3), np.float32), "turned": np.zeros((4, 5)).T, "v": np.zeros(3)}


def test_parts_of_wrong_types_are_refused():
    for message, read in {
        "'x' is missing": lambda: item(STATE, "x"),
        "'y' is missing": lambda: item([], "y"),
        "'n' must be of type bool": lambda: scalar(STATE, "n", bool),
        "'flag' must be of type int": lambda: scalar(STATE, "flag", int),
        "'n' must be of type str": lambda: Fields(n=str).read(STATE),
        "'n' must be an array": lambda: array(STATE, "n", "<f4", 2),
        "must have 2 dimensions of <f8": lambda: array(STATE, "rows", "<f8", 2),
        "must have 1 dimensions": lambda: array(STATE, "rows", "<f4", 1),
        "must be in one piece": lambda: array(STATE, "turned", "<f8", 2),
        "'v' must have 4 numbers; it has 3": lambda: optional_vector(STATE, "v", 4),
        "array 'x' is not there": lambda: unflatten({"a": {"array": "x"}}, {}),
        "is no state": lambda: unflatten([], {}),
    }.items():
        refused(message, read, error=SavedModelError)


def test_what_is_shared_is_written_once_and_shared_again():
    record = {"text": "x" * 1000}
    encoder, decoder = Encoder(), Decoder()
    written = [encoder.encode([record] * i) for i in range(5)]
    assert len(json.dumps(written)) < 2000
    read = [decoder.decode(each) for each in written]
    assert read[4][0] is read[1][0]
    assert read[4] == [record] * 4


def test_sparse_rows():
    row = scipy.sparse.csr_matrix([[0.0, 2.0, 0.0, 1.0]])
    assert (decode(encode(row)) != row).nnz == 0
    data = encode(row)
    data["csr"][1] = [1, 2]
    refused("a column of a sparse matrix is outside it", decode, data, error=SavedModelError)


def test_what_is_not_plain_and_what_is_no_value():
    class Names(list):
        pass

    for value in (object(), Names(), np.array([object()]), len, {1: {2: lambda: 0}}):
        refused("a file holds plain values only", encode, value, error=NotSavable)
    arrays = ({"ndarray": ["|O", [1], ""]}, {"ndarray": ["<f8", [10**12], ""]}, {"scalar": ["<f8", ""]})
    nested = json.loads("[" * 150 + "]" * 150)
    for data in ({"pickle": "x"}, {"tuple": 3}, {"a": 1, "b": 2}, {"same": 0}, *arrays, nested):
        with pytest.raises(SavedModelError):
            decode(data)
