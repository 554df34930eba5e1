"""Plain values and arrays as bytes, and back."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from grinch.errors import NotSavable, SavedModelError
from grinch.saving.json_values import Decoder, Encoder, decode, encode

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
    with pytest.raises(SavedModelError, match="a column of a sparse matrix is outside it"):
        decode(data)


def test_what_is_not_plain():
    class Names(list):
        pass

    for value in (object(), Names(), np.array([object()]), len, {1: {2: lambda: 0}}):
        with pytest.raises(NotSavable, match="a file holds plain values only"):
            encode(value)


@pytest.mark.parametrize(
    "data",
    [
        {"pickle": "x"},
        {"tuple": 3},
        {"a": 1, "b": 2},
        {"same": 0},
        {"ndarray": ["|O", [1], ""]},
        {"ndarray": ["<f8", [10**12], ""]},
        {"scalar": ["<f8", ""]},
        [[[]]] and json.loads("[" * 150 + "]" * 150),
    ],
    ids=lambda data: repr(data)[:30],
)
def test_what_is_no_value(data):
    with pytest.raises(SavedModelError):
        decode(data)


KINDS = st.sampled_from(["<f8", "<f4", "<i8", "<i4", "|u1", "|i1", "|b1", "<U3"])
