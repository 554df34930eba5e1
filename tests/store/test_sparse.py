"""Sparse rows in a store: what comes back, and what is noticed."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import scipy.sparse

import grinch
from grinch import Grinch
from grinch.store import DamagedStore
from grinch.store.snapshots import read_snapshot
from refusals import refused
from sparse_data import sparse_groups
from store.made import flip, snapshot_of

X = sparse_groups(700, dtype=np.float32)


def same(one, other) -> bool:
    return one.shape == other.shape and (one != other).nnz == 0


def files(folder):
    return {"entries": next(folder.glob("vectors-*.bin")), "ends": next(folder.glob("vectors-*.bin.ends"))}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "store"
    with grinch.open(folder) as store:
        store.insert(X[:500])
        store.insert(X[500:510])
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """A store of 510 rows."""
    return shutil.copytree(made, tmp_path / "store")


def test_rows_stay_sparse(folder):
    with grinch.open(folder) as store:
        assert store.info()["is_sparse"]
        assert same(store.vectors([509, 3]), X[[509, 3]])
        # Nothing on disk grows with the number of columns.
        assert sum(path.stat().st_size for path in files(folder).values()) == 8 * X[:510].nnz + 8 * 510
        store.remove([4, 5])
        store.compact()
        assert same(store.rows_at(np.array([3, 4, 6])), scipy.sparse.vstack([X[3], 0 * X[4], X[6]], format="csr"))
        store.check()


def test_rows_are_made_what_the_first_were(tmp_path):
    for first, is_sparse in ((X[:200], True), (X[:200].toarray(), False)):
        then = X[200:300].toarray() if is_sparse else X[200:300]
        with grinch.open(tmp_path / f"{is_sparse}") as store:
            store.insert(first)
            store.insert(then)
            assert store.info()["is_sparse"] == is_sparse
            assert store.update([7], X[7].toarray()) == store.version == 2  # the same row
            assert same(scipy.sparse.csr_matrix(store.vectors([250])), X[250])
            model = Grinch().partial_fit(first).partial_fit(X[200:300] if is_sparse else then.toarray())
            np.testing.assert_array_equal(store.tree.scores, model.tree_.scores)
        with grinch.open(tmp_path / f"{is_sparse}") as store:
            store.check()


def test_a_store_begun_with_a_tree_and_its_backup(tmp_path):
    model = Grinch().fit(X[:100])
    with grinch.open(tmp_path / "store") as store:
        store.adopt(X[:100], model.tree_)
        store.insert(X[100:120])
        store.backup(tmp_path / "copy")
    twin = Grinch().fit_tree(X[:100], model.tree_).partial_fit(X[100:120])
    for name in ("store", "copy"):
        with grinch.open(tmp_path / name) as store:
            store.check()
            np.testing.assert_array_equal(store.tree.child_pairs(), twin.tree_.child_pairs())
            assert same(store.vectors(store.ids), X[:120])


@pytest.mark.parametrize("file", ["entries", "ends"])
@pytest.mark.parametrize("harm", ["a bit", "the largest number", "cut off", "gone"])
def test_damage_is_noticed(folder, file, harm):
    path = files(folder)[file]
    content = bytearray(path.read_bytes())
    at = len(content) // 2 // 8 * 8
    if harm == "a bit":
        content[at] ^= 1
    elif harm == "the largest number":
        content[at : at + 8] = b"\xff" * 7 + b"\x7f"
    path.write_bytes(content[: at if harm == "cut off" else len(content)])
    if harm == "gone":
        path.unlink()
    with pytest.raises(DamagedStore, match="damaged"), grinch.open(folder, readonly=True) as store:
        store.check()


def test_damage_to_rows_in_a_snapshot_is_noticed_when_it_is_opened(folder):
    path = snapshot_of(folder)
    columns = read_snapshot(path).arrays["model/fitted.builder.summaries.rows.leaf_columns"]
    flip(path, path.read_bytes().index(columns.tobytes()) + 40)
    refused("leaf_columns", grinch.open, folder, error=DamagedStore)


def test_new_columns_come_where_they_are_expected(tmp_path):
    narrow, ids = X[:300, :40], [f"p{i}" for i in range(400)]
    wide = X[300:400]
    with grinch.open(tmp_path / "store") as store:
        store.insert(narrow, ids=ids[:300])
        refused(r"40 features.*new_columns=True", store.insert, wide, ids=ids[300:])
        padded = scipy.sparse.vstack([X[:300]]).tocsr()
        padded.data[padded.indices >= 40] = 0
        assert store.insert(padded[:9], ids=ids[:9], new_columns=True) == 1  # the same rows
        refused("'p0' is there with another", store.insert, X[:9] + X[40:49], ids=ids[:9], new_columns=True)
        with grinch.open(tmp_path / "store", readonly=True) as reader:
            assert store.insert(wide[:5], ids=ids[300:305], new_columns=True) == 2
            store.update(["p7"], wide[7])
            assert reader.refresh() == 3
            assert same(reader.vectors(["p7", "p301"]), wide[[7, 1]])
        # Sent again, with some that are new: what is there is passed over.
        assert store.insert(wide, ids=ids[300:], new_columns=True) == 4
        assert store.insert(wide, ids=ids[300:], new_columns=True) == 4
        assert store.n_features == X.shape[1]
        pairs = store.tree.child_pairs()
    model = Grinch().fit(narrow, ids=ids[:300]).partial_fit(wide[:5], ids=ids[300:305], new_columns=True)
    model.update(["p7"], wide[7]).partial_fit(wide[5:], ids=ids[305:], new_columns=True)
    np.testing.assert_array_equal(pairs, model.tree_.child_pairs())
    with grinch.open(tmp_path / "store") as store:
        store.check()
        np.testing.assert_array_equal(store.tree.child_pairs(), pairs)
        whole = scipy.sparse.vstack([padded, wide])
        assert same(store.vectors(ids[:7] + ids[8:]), whole.tocsr()[[*range(7), *range(8, 400)]])


def test_new_columns_with_names_begin_with_those_that_are_known(tmp_path):
    with grinch.open(tmp_path / "store") as store:
        store.insert(X[:20, :3], columns=list("abc"))
        refused("columns that the first points had", store.insert, X[:20, :4], columns=list("bacd"), new_columns=True)
        store.insert(X[:20, :4], columns=list("abcd"), new_columns=True)
        refused("columns that the first points had", store.insert, X[:20, :3], columns=list("abc"))
        store.insert(X[:20, :3], columns=list("abc"), new_columns=True)
        assert (store.columns, store.n_features, len(store)) == (list("abcd"), 4, 60)
        assert same(store.vectors([40, 41])[:, :3], X[:2, :3])
    with grinch.open(tmp_path / "store") as store:
        store.check()
    with grinch.open(tmp_path / "dense") as store:
        store.insert(X[:20, :5].toarray())
        refused("begun with sparse rows", store.insert, X[:20], new_columns=True)
        assert (store.version, store.n_features) == (1, 5)
