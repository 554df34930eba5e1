"""Files of a run: what belongs to one shard is read without the rest."""

from __future__ import annotations

import numpy as np
import pytest

from grinch.sharded.files import read_arrays, read_part, write_arrays

STARTS = np.array([0, 3, 3, 7])


@pytest.fixture
def path(tmp_path):
    arrays = {"numbers": np.arange(10, 17), "is_near": np.arange(7) % 2 == 0, "scores": np.linspace(0, 1, 7)}
    write_arrays(tmp_path / "part.npz", starts=STARTS, **arrays)
    return tmp_path / "part.npz"


@pytest.mark.parametrize("shard", [0, 1, 2])
def test_a_part_is_a_range_of_each_array(path, shard):
    names = ("numbers", "is_near", "scores")
    first, parts = read_part(path, "starts", shard, *names)
    assert first == STARTS[shard]
    for part, whole in zip(parts, read_arrays(path, *names), strict=True):
        assert part.dtype == whole.dtype
        assert part.tolist() == whole[STARTS[shard] : STARTS[shard + 1]].tolist()


def test_an_array_that_is_not_there_is_named(path):
    with pytest.raises(KeyError, match="lengths"):
        read_part(path, "starts", 0, "lengths")
