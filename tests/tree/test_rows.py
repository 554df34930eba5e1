"""Rows in another order, in place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grinch.tree.links import reorder_rows


@given(order=st.integers(0, 30).flatmap(lambda n: st.permutations(range(n))))
@pytest.mark.parametrize("shape", [(), (1,), (3,)])
@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float32, np.float64])
def test_as_by_an_index(order, shape, kind):
    rows = np.random.default_rng(0).integers(0, 255, (len(order), *shape)).astype(kind)
    wanted = rows[list(order)]
    reorder_rows(rows, np.array(order, np.int32))
    np.testing.assert_array_equal(rows, wanted)
