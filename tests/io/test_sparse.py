"""Sparse matrices in files, as scipy writes them and as nobody should."""

import numpy as np
import pytest
import scipy.sparse

import grinch
from commands import run_command
from grinch.estimators.sparse_checks import check_indices
from grinch.io import points as sizes
from grinch.io.read import FileError, read_points

MATRIX = scipy.sparse.random(12, 40, density=0.2, format="csr", random_state=0, dtype=np.float32)
GOOD = {"format": b"csr", "shape": [2, 3], "data": np.ones(2), "indices": [0, 2], "indptr": np.array([0, 1, 2])}
COO = {"format": b"coo", "row": np.array([0, 2]), "col": np.array([0, 1])}
BROKEN = {
    "index out of range": ({"indices": np.array([0, 7])}, "cannot be read as .npz"),
    "index below 0": ({"indices": np.array([0, -1])}, "cannot be read as .npz"),
    "column out of range": ({"format": b"csc", "indices": np.array([0, 2]), "shape": [2, 2]}, "cannot be read as"),
    "block out of range": ({"format": b"bsr", "data": np.ones((2, 1, 1)), "indices": [0, 3]}, "cannot be read as"),
    "row out of range": (COO, "cannot be read as"),
    "ends that fall": ({"indptr": np.array([0, 2, 1])}, "cannot be read as .npz"),
    "another format": ({"format": b"lil"}, "cannot be read as .npz .*: .*format lil"),
    "an array is missing": ({"format": b"coo"}, "cannot be read as .npz"),
    "no rows": ({"shape": np.array([0, 3])}, "cannot be read as .npz"),
    "one number": ({"shape": np.array([6])}, "cannot be read as .npz|must hold a matrix"),
    "complex": ({"data": np.ones(2) * 1j}, "must hold real numbers; got complex128"),
    "labels": ({"y": np.arange(3)}, "array 'y' must have one entry for each of the 2 points"),
    "more rows than memory": (COO | {"shape": np.array([10**12, 3])}, "and 1,000,000 are free"),
}


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_a_sparse_matrix_is_read_sparse(tmp_path, kind, make):
    scipy.sparse.save_npz(tmp_path / "x.npz", make(MATRIX).asformat(kind))
    found = read_points(tmp_path / "x.npz").vectors
    assert (found.format, found.dtype) == ("csr", np.float32)
    np.testing.assert_array_equal(found.toarray(), MATRIX.toarray())


def test_lists_may_stand_beside_it(tmp_path):
    np.savez(tmp_path / "x.npz", **GOOD, y=np.array(["a", "b"]), doc=np.array([5, 6]))
    points = read_points(tmp_path / "x.npz", id="doc")
    assert points.vectors.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]
    assert (points.ids.tolist(), points.labels.tolist()) == ([5, 6], ["a", "b"])


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_it_is_said(tmp_path, name, monkeypatch):
    monkeypatch.setattr(sizes, "available_memory", lambda: 1_000_000)
    changed, message = BROKEN[name]
    np.savez(tmp_path / "x.npz", **{**GOOD, **changed})
    with pytest.raises(FileError, match=message):
        read_points(tmp_path / "x.npz")


def test_an_index_of_a_block_out_of_range_is_refused():
    blocks = scipy.sparse.bsr_array((np.ones((2, 2, 2)), np.array([0, 1]), np.array([0, 1, 2])), shape=(4, 4))
    check_indices(blocks)
    blocks.indices[1] = 2
    with pytest.raises(ValueError, match="the indices are from 0 to 2"):
        check_indices(blocks)


def test_a_sparse_matrix_on_the_command_line(tmp_path):
    scipy.sparse.save_npz(tmp_path / "x.npz", MATRIX.tocsc())
    for _ in range(2):
        assert "x.npz: 12 points, 40 features" in run_command("add", "store", "x.npz", "-q", cwd=tmp_path).stdout
    with grinch.open(tmp_path / "store", readonly=True) as store:
        assert store.info()["is_sparse"]
    done = run_command("predict", "store", "x.npz", cwd=tmp_path)
    assert len(done.stdout.splitlines()) == 13, done.stderr
    refused = run_command("compare", "x.npz", cwd=tmp_path)
    assert "got a sparse matrix. Use vectors.toarray()" in refused.stderr
    np.savez(tmp_path / "dense.npz", X=np.eye(3))
    refused = run_command("cluster", "dense.npz", "--workers", 1, cwd=tmp_path)
    assert "holds a dense matrix, which --workers and --dask read from .npy or Parquet" in refused.stderr
