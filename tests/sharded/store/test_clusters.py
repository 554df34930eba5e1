"""Clusters of a sharded store that keep their ids, beside a plain store and from version to version."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import grinch
from effort import trials
from grinch import Tree
from grinch.sharded.store import following
from grinch.sharded.store.carrying import carried_splits
from grinch.sharded.store.clusters import FILE
from grinch.store import DamagedStore

GROUPS = np.random.default_rng(5).normal(size=(6, 8)) * 6


def points(seed, n, groups=range(6)):
    rng = np.random.default_rng(seed)
    of = rng.choice(list(groups), n)
    return (GROUPS[of] + rng.normal(size=(n, 8)) * 0.3).astype(np.float32), of


@pytest.mark.parametrize("how", [{"n_clusters": 5}, {"threshold": -0.7}])
def test_one_branch_has_the_ids_and_changes_of_a_plain_store(tmp_path, how):
    with (
        grinch.open(tmp_path / "one", max_points=1000, **how) as one,
        grinch.open(tmp_path / "plain", **how) as plain,
    ):
        for store in (one, plain):
            store.insert(points(0, 60)[0], ids=[f"p{i}" for i in range(60)])
            store.insert(points(1, 30)[0], ids=[f"q{i}" for i in range(30)])
            store.remove([f"p{i}" for i in range(0, 60, 7)])
            store.update(["q3", "q4"], points(2, 2)[0])
        assert one.labels().tolist() == plain.labels().tolist()
        assert one.clusters() == plain.clusters()
        shown = [[(*vars(change).values(),)[:7] for change in store.changes()] for store in (one, plain)]
        assert shown[0] == shown[1]
        gone = {f"p{i}" for i in range(0, 60, 7)}
        assert not any(name in gone for change in one.changes() for name in change.exemplars)


def test_ids_stay_over_splits_restarts_and_readers(tmp_path):
    X, of = points(0, 200, range(5))
    with grinch.open(tmp_path / "s", max_points=60) as store:
        store.insert(X[:100])
        before = dict(zip(store.ids, store.labels().tolist(), strict=True))
        version = store.label(before[0], "first")
        store.insert(X[100:])
        assert len(store.branches) > 3
        after = store.labels()
        assert adjusted_rand_score(after, of) > 0.99
        assert [after[i] for i in range(100)] == [before[i] for i in range(100)]
        assert {change.kind for change in store.changes(since=version)} == {"grew"}
        assert sum(change.count for change in store.changes(since=version)) == 100
        assert store.names() == {before[0]: "first"}
    with grinch.open(tmp_path / "s") as store, grinch.open(tmp_path / "s", readonly=True) as reader:
        assert store.labels().tolist() == reader.labels().tolist() == after.tolist()
        # A group that nobody has seen is born where most of it came to, and no id is given twice.
        new = points(3, 30, [5])[0]
        version = store.insert(new)
        assert np.isin(store.labels()[-30:], after).mean() < 0.5
        reader.refresh()
        assert reader.labels().tolist() == store.labels().tolist()
        assert reader.changes() == store.changes()
        born = [change for change in store.changes() if change.kind == "born"]
        assert len({change.cluster for change in born}) == len(born) == len(set(store.labels().tolist()))
        with pytest.raises(PermissionError, match="readonly"):
            reader.label(0, "x")
        store.backup(tmp_path / "copy")
        assert store.predict(X[:3]).tolist() == store.labels()[:3].tolist()
        assert store.refine() > version
        assert sorted(store.times()) == list(range(1, store.version + 1))
        assert store.compact() > version
        store.check()
        assert len(store.labels()) == 230
    with grinch.open(tmp_path / "copy", readonly=True) as copy:
        assert copy.names() == {before[0]: "first"}
        assert copy.changes()[-1].version == version


def test_a_reader_sees_later_points_beside_others(tmp_path, monkeypatch):
    X, of = points(0, 120, range(4))
    with grinch.open(tmp_path / "s", max_points=50) as store:
        store.insert(X[:80])
        monkeypatch.setattr(following, "FOLLOWED_AT_ONCE", 0)
        store.insert(X[80:])
        with grinch.open(tmp_path / "s", readonly=True) as reader:
            assert adjusted_rand_score(reader.labels(), of) > 0.95
            assert adjusted_rand_score(reader.labels(), store.labels()) > 0.95


def test_cuts_are_added_dropped_and_made_again(tmp_path):
    X, _ = points(0, 150)
    with grinch.open(tmp_path / "s", max_points=60, n_clusters=3) as store:
        store.insert(X)
        store.add_cut("fine", n_clusters=9)
        assert {name: about["clusters"] for name, about in store.cuts().items()} == {"default": 3, "fine": 9}
        ids = set(store.labels("fine").tolist())
        with pytest.raises(ValueError, match="no cut is called by yet"):
            store.add_cut("fine")
        store.drop_cut("fine")
        with pytest.raises(ValueError, match="cut must be"):
            store.labels("fine")
        store.add_cut("fine")
        assert ids.isdisjoint(store.labels("fine").tolist())
        assert store.cuts()["fine"]["kind"] == "automatic"
        store.insert(points(1, 100)[0])
        assert store.cuts()["fine"]["is_recut_advised"]
        version = store.recut("fine")
        assert store.cuts()["fine"]["points_changed"] == 0
        assert store.version == version
        with pytest.raises(ValueError, match="which every store has"):
            store.drop_cut("default")
        with pytest.raises(ValueError, match="id of a cluster there is"):
            store.label(10_000, "x")


def test_a_damaged_file_is_refused_by_name(tmp_path):
    with grinch.open(tmp_path / "s", max_points=60) as store:
        store.insert(points(0, 20)[0])
    (tmp_path / "s" / FILE).write_bytes(b"nothing that can be read" * 100)
    with (
        grinch.open(tmp_path / "s", readonly=True) as store,
        pytest.raises(DamagedStore, match="sqlite is damaged"),
    ):
        store.labels()


def test_no_points_have_no_clusters(tmp_path):
    with grinch.open(tmp_path / "s", max_points=60) as store:
        assert store.clusters() == {}
        store.insert(points(0, 5)[0])
        store.remove(list(range(5)))
        assert store.clusters() == {}
        assert [change.kind for change in store.changes()][-1] == "dissolved"
        store.insert(points(0, 5)[0])
        assert len(store.labels()) == 5


@settings(max_examples=trials(60, 2_000))
@given(st.integers(2, 40), st.integers(1, 6), st.integers(0, 10**6))
def test_a_carried_cut_of_the_same_tree_is_the_same(n, k, seed):
    rng = np.random.default_rng(seed)
    tree = Tree.from_merges(_random_merges(rng, n), np.sort(rng.random(n - 1))[::-1])
    labels = grinch.cuts.cut_n_clusters(tree, min(k, n))
    known = np.where(rng.random(n) < 0.7, labels, -1)
    carried = grinch.cuts.labels_of(tree, carried_splits(tree, labels))
    assert (carried == labels).all()
    # What is known of a cluster stays together.
    some = grinch.cuts.labels_of(tree, carried_splits(tree, known))
    for cluster in np.unique(known[known >= 0]):
        assert len(np.unique(some[known == cluster])) == 1


def _random_merges(rng, n):
    roots, pairs = list(range(n)), []
    for k in range(n - 1):
        i, j = rng.choice(len(roots), 2, replace=False)
        pairs.append((roots[i], roots[j]))
        roots = [root for at, root in enumerate(roots) if at not in (i, j)] + [n + k]
    return np.array(pairs)
