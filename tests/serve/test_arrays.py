"""Messages of a header and arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stnp

from grinch.serve.views.icicle import DTYPES, pack_arrays, unpack_arrays

some_arrays = st.dictionaries(
    st.text(max_size=8),
    st.sampled_from(sorted(DTYPES)).flatmap(lambda kind: stnp.arrays(kind, st.integers(0, 20))),
    max_size=5,
)


@given(
    st.dictionaries(st.text(max_size=5).filter(lambda name: name != "arrays"), st.integers() | st.text()), some_arrays
)
def test_what_was_packed_comes_out(header, arrays):
    message = pack_arrays(header, arrays)
    assert len(message) % 8 == 0
    found, unpacked = unpack_arrays(message)
    found.pop("arrays")
    assert found == header
    assert list(unpacked) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(unpacked[name], array)
        assert unpacked[name].dtype == array.dtype


def test_every_array_begins_where_the_page_can_map_it():
    message = pack_arrays({"text": "ü" * 5}, {"a": np.arange(3, dtype=np.uint8), "b": np.arange(2.0)})
    length = int.from_bytes(message[:4], "little")
    assert (4 + length) % 8 == 0
    assert message[4 + length : 4 + length + 8] == bytes([0, 1, 2, 0, 0, 0, 0, 0])
    assert np.frombuffer(message, "<f8", 2, 4 + length + 8).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises((TypeError, ValueError), match="JSON"):
        pack_arrays({"x": value}, {})
