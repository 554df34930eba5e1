"""Sparse rows in a sharded store stay sparse, on every way."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import grinch
from effort import at_night
from grinch import Rules
from grinch.sharded import ShardedGrinch
from grinch.sharded.store import journal
from grinch.sharded.store.steps import Insert, Points, Remove, Update
from sparse_data import sparse_groups

X = sparse_groups(600, dtype=np.float32)
LINKAGES = [
    {"linkage": "average"},
    {"linkage": "ward"},
    at_night({"linkage": "average", "metric": "sqeuclidean"}),
    at_night({"linkage": "average", "metric": "hellinger"}),
    at_night({"linkage": "tanimoto"}),
]


@pytest.mark.parametrize("settings", LINKAGES)
def test_branches_are_those_of_the_same_dense_rows(tmp_path, settings):
    mode = Rules.fast(most_entries=float("inf"))
    found = {}
    for name, rows in (("sparse", X), ("dense", X.toarray())):
        with grinch.open(tmp_path / name, max_points=200, mode=mode, **settings) as store:
            store.insert(rows[:400])
            store.insert(rows[400:])
            nearest = np.array([place.nearest for place in store.branch_places(rows[:100])])
            found[name] = store.branches, store.info()["is_sparse"], store.tree, nearest
    assert [found[name][1] for name in ("sparse", "dense")] == [True, False]
    assert len(found["sparse"][0]) > 2
    sizes = [sorted(found[name][0].values()) for name in ("sparse", "dense")]
    assert sizes[0] == sizes[1]
    np.testing.assert_array_equal(found["sparse"][3], found["dense"][3])
    tops = [found[name][2].scores[found[name][2].root] for name in ("sparse", "dense")]
    assert tops[0] == pytest.approx(tops[1], rel=1e-4)


def test_nothing_grows_with_the_number_of_columns(tmp_path):
    wide = scipy.sparse.csr_matrix((X.data, X.indices * 200, X.indptr), shape=(600, 400 * 200))
    with grinch.open(tmp_path / "store", max_points=250) as store:
        for start in range(0, 600, 200):
            store.insert(wide[start : start + 200])
        assert store.info()["bytes"]["vectors"] < 20 * wide.nnz + 16 * 600
        found = store.vectors([599, 3, 77])
        assert (found != wide[[599, 3, 77]]).nnz == 0
        assert store.vectors([]).shape == (0, 400 * 200)
        store.update([7], wide[8])
        store.remove([9, 10])
        store.refine()
        store.check()
        seen = store.rows_at(np.array([599, 9, 3]))
        assert (seen[[0, 2]] != wide[[599, 3]]).nnz == seen[1].nnz == 0
    with grinch.open(tmp_path / "store", readonly=True) as store:
        assert (store.vectors([7]) != wide[8]).nnz == 0
        assert store.n_points == 598
        assert len(store.labels()) == 598


def test_dense_rows_are_made_sparse_in_a_store_that_began_so(tmp_path):
    with grinch.open(tmp_path / "store", max_points=100) as store:
        store.insert(X[:300])
        store.insert(X[300:400].toarray())
        assert (store.vectors(range(400)) != X[:400]).nnz == 0


@pytest.mark.slow
def test_a_store_of_a_sparse_run(cluster, tmp_path):
    model = ShardedGrinch(2, cluster.client, sample_size=100).fit(X)
    with model.to_store(tmp_path / "store") as store:
        assert store.info()["is_sparse"]
        store.insert(X[:5])
        assert (store.vectors(range(605)) != scipy.sparse.vstack([X, X[:5]])).nnz == 0


def test_changes_that_were_not_finished(tmp_path):
    steps = [
        Insert("branch-00001", Points(X[:3], ["a", "b", "c"], None, np.arange(3))),
        Update("branch-00002", ["d"], X[3], None),
        Remove("branch-00002", ["e"]),
    ]
    journal.write(tmp_path, steps)
    first, second, third = journal.read(tmp_path)
    assert (first.points.rows != X[:3]).nnz == (second.rows != X[3]).nnz == 0
    assert first.points.rows.shape == (3, X.shape[1])
    assert third == steps[2]
