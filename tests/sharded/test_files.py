"""Files of a run: what belongs to one shard is read without the rest."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from grinch.io.points import FileError
from grinch.running import Here
from grinch.sharded.files import read_arrays, read_part, read_rows, write_arrays, write_rows
from refusals import refused

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
    refused("lengths", read_part, path, "starts", 0, "lengths", error=FileError)


def reads(path):
    """Everything that reads files of these names."""
    return {
        "part.npz": [
            lambda: read_arrays(path / "part.npz", "n"),
            lambda: read_part(path / "part.npz", "s", 0, "n"),
        ],
        "dense.npy": [lambda: read_rows(path / "dense"), lambda: read_rows(path / "dense", is_mapped=True)],
        "sparse.csr.npz": [lambda: read_rows(path / "sparse"), lambda: read_rows(path / "sparse", is_mapped=True)],
        "records.pickle": [lambda: read_rows(path / "records")],
    }


@pytest.mark.parametrize("name", ["part.npz", "dense.npy", "sparse.csr.npz", "records.pickle"])
def test_a_damaged_file_is_named(tmp_path, name):
    write_arrays(tmp_path / "part.npz", s=STARTS, n=np.arange(7))
    for rows, kind in ((np.eye(3), "dense"), (scipy.sparse.eye_array(3, format="csr"), "sparse"), (["a"], "records")):
        write_rows(tmp_path / kind, rows)
    whole = (tmp_path / name).read_bytes()
    for damaged in (bytes(len(whole)), whole[: len(whole) // 2], b""):
        (tmp_path / name).write_bytes(damaged)
        for read in reads(tmp_path)[name]:
            refused(f"{name}', a file of the run, is damaged .*Remove it and fit again", read, error=FileError)


def test_a_part_that_is_nowhere_is_refused(tmp_path):
    write_arrays(tmp_path / "part.npz", starts=np.array([0, -5, 90]), numbers=np.arange(7))
    for i in (0, 1):
        refused("numbers has no values from", read_part, tmp_path / "part.npz", "starts", i, "numbers", error=FileError)


def test_a_task_is_done_again_if_a_file_of_it_is_gone_or_has_another_size(tmp_path):
    def work():
        write_rows(tmp_path / "stage" / "a.rows", np.eye(3))
        return write_arrays(tmp_path / "stage" / "a.npz", numbers=np.arange(3))

    (tmp_path / "stage").mkdir()
    workers = Here()

    def is_found():
        workers.run("stage", work, {"a": ()}, tmp_path)
        return workers.stages["stage"].found == 1

    assert not is_found()
    assert is_found()
    for name in ("a.rows.npy", "a.npz"):
        file = tmp_path / "stage" / name
        whole = file.read_bytes()
        file.unlink()
        assert not is_found()
        assert file.read_bytes() == whole
        file.write_bytes(whole[:-1])
        assert not is_found()
        assert file.read_bytes() == whole
        assert is_found()
