"""What a sharded store does, against a plain store and against what was put into it."""

from __future__ import annotations

import os
import shutil
from contextlib import closing

import numpy as np
import pytest

import grinch
from branching import compare, grouped
from effort import at_night
from grinch.datasets import gaussian_mixture
from grinch.metrics import dendrogram_purity
from grinch.serve.sources import open_source
from grinch.sharded.store import ShardedStore
from grinch.sharded.store.branch import Branch
from grinch.store import DamagedStore, StoreLocked
from killing import kills

LINKAGES = [
    {"linkage": "average"},
    {"linkage": "average", "metric": "dot"},
    {"linkage": "average", "metric": "sqeuclidean"},
    {"linkage": "cosine"},
    {"linkage": "centroid"},
    {"linkage": "ward"},
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a store that was split, its rows, and what is known of them."""
    folder, X, names = tmp_path_factory.mktemp("made") / "split", grouped(0, 90), [f"p{i}" for i in range(90)]
    with grinch.open(folder, max_points=40) as store:
        store.insert(X, ids=names, payload=names)
        assert len(store.branches) > 2
    return folder, dict(zip(names, X, strict=True)), {name: name for name in names}


@pytest.fixture
def split(made, tmp_path):
    """A copy of that store, with what is in it."""
    with grinch.open(shutil.copytree(made[0], tmp_path / "split")) as store:
        yield store, dict(made[1]), dict(made[2])


@pytest.mark.parametrize("settings", LINKAGES)
def test_one_branch_is_a_plain_store(tmp_path, settings):
    X = grouped(1, 80)
    with (
        grinch.open(tmp_path / "one", max_points=1000, **settings) as one,
        grinch.open(tmp_path / "plain", **settings) as plain,
    ):
        for store in (one, plain):
            assert store.insert(X[:50], payload=list(range(50))) == 1
            assert store.insert(X[50:]) == 2
            assert store.remove([3, 60]) == 3
            assert store.update([5], X[:1], payload=["new"]) == 4
        assert one.ids == plain.ids
        assert one.payload([5, 7]) == plain.payload([5, 7]) == ["new", 7]
        np.testing.assert_array_equal(one.tree.child_pairs(), plain.tree.child_pairs())
        np.testing.assert_array_equal(one.tree.scores, plain.tree.scores)
        np.testing.assert_array_equal(one.vectors(one.ids), plain.vectors(plain.ids))
        version, places = plain.place(X[:9])
        assert one.place(X[:9]) == (one.version, places) == (version, places)
        assert [(p.node, p.nearest) for p in one.branch_places(X[:9])] == places


@pytest.mark.parametrize(
    ("settings", "is_named"),
    [*((one, True) for one in LINKAGES[3:]), *(at_night(one, True) for one in LINKAGES[:3]), ({}, False)],
)
def test_splits_keep_every_point(tmp_path, settings, is_named):
    rows, payloads = {}, {}
    with grinch.open(tmp_path / "s", max_points=25, **settings) as store:
        for batch in range(3):
            X = grouped(batch, 20)
            names = [f"p{i}" if is_named else i for i in range(20 * batch, 20 * batch + 20)]
            payload = names if batch % 2 else None
            store.insert(X, ids=names if is_named else None, payload=payload)
            rows |= zip(names, X, strict=True)
            payloads |= zip(names, payload or [None] * 20, strict=True)
            compare(store, rows, payloads)
        assert max(store.branches.values()) <= 25
        store.check()
        tree, version = store.tree, store.version
    with grinch.open(tmp_path / "s", readonly=True) as store:
        assert (type(store), store.version) == (ShardedStore, version)
        compare(store, rows, payloads)
        np.testing.assert_array_equal(store.tree.child_pairs(), tree.child_pairs())
        assert (store.tree.names is not None) == is_named


def test_a_split_costs_little_purity(tmp_path):
    X, y = gaussian_mixture(1200, n_classes=20, n_features=64)
    found = {}
    for name, more in {"plain": {}, "sharded": {"max_points": 360}}.items():
        with grinch.open(tmp_path / name, **more) as store:
            for start in range(0, 1200, 400):
                store.insert(X[start : start + 400])
            found[name] = dendrogram_purity(store.tree, y)
            assert len(getattr(store, "branches", range(6))) >= 4
    assert found["sharded"] >= found["plain"] - 0.02, found


def test_scores_between_branches_are_those_of_their_points(tmp_path):
    X = grouped(2, 60)
    with grinch.open(tmp_path / "s", max_points=31, linkage="average", metric="sqeuclidean") as store:
        store.insert(X)
        tree = store.tree
        assert len(store.branches) > 1
        left, right = (tree.leaves(v) for v in tree.children(tree.root))
        gaps = np.square(X[left][:, None].astype(float) - X[right][None]).sum(axis=2)
        np.testing.assert_allclose(tree.scores[tree.root], -gaps.mean(), rtol=1e-5)


def test_points_that_are_there_are_passed_over_in_any_branch(split):
    store, rows, payloads = split
    version, names = store.version, list(rows)
    assert store.insert(np.array(list(rows.values())), ids=names) == version
    assert store.insert(np.array(list(rows.values())), ids=names, payload=names) == version
    with pytest.raises(ValueError, match="'p7' is there with another"):
        store.insert(-rows["p7"][None], ids=["p7"])
    with pytest.raises(ValueError, match=r"payload must be the same.*'p8'"):
        store.insert(rows["p8"][None], ids=["p8"], payload=["other"])
    X = grouped(5, 2)
    store.insert(np.stack([rows["p3"], *X]), ids=["p3", "new", "newer"])
    compare(store, rows | {"new": X[0], "newer": X[1]}, payloads)


def test_a_point_moves_with_its_row(split):
    store, rows, payloads = split
    branch_of = {name: branch.name for branch in store._branches for name in branch.store.ids}
    other = next(name for name in rows if branch_of[name] != branch_of["p0"])
    store.update(["p0", "p1"], np.stack([rows[other], rows["p1"]]))
    compare(store, rows | {"p0": rows[other]}, payloads)
    assert "p0" in store._by_name[branch_of[other]].store.ids
    store.update(["p0"], rows["p0"][None], payload=["moved back"])
    compare(store, rows, payloads | {"p0": "moved back"})
    assert "p0" in store._by_name[branch_of["p0"]].store.ids
    version = store.version
    assert store.update(["p0"], rows["p0"][None]) == version
    store.update(list(rows), payload=["x"] * 90)
    compare(store, rows, dict.fromkeys(rows, "x"))
    store.check()


@pytest.mark.parametrize("is_named", [True, False])
def test_removed_points_stay_known_across_splits(tmp_path, is_named):
    X = grouped(4, 60)
    names = [f"p{i}" if is_named else i for i in range(60)]
    with grinch.open(tmp_path / "s", max_points=30) as store:
        store.insert(X[:20], ids=names[:20] if is_named else None)
        store.remove(names[:4])
        store.insert(X[20:], ids=names[20:] if is_named else None)
        assert len(store.branches) > 1
        version = store.version
        assert store.remove(names[:4]) == version
        with pytest.raises(ValueError, match="never was"):
            store.remove([names[30], "nobody" if is_named else 60])
        assert store.n_points == 56
        store.remove(names)
        compare(store, {}, {})
        assert store.clusters() == {}
        store.insert(X[:3], ids=names[:3] if is_named else None)
        compare(store, dict(zip(names[:3] if is_named else [60, 61, 62], X[:3], strict=True)), {})
        store.check()


def test_one_empty_branch_is_no_part_of_the_tree(split):
    store, rows, payloads = split
    gone = store._branches[1].store.ids
    store.remove(gone)
    compare(store, {name: row for name, row in rows.items() if name not in gone}, payloads)
    assert 0 in store.branches.values()


def test_labels_clusters_and_predictions(split):
    store, rows, _ = split
    X = np.array(list(rows.values()))
    assert len(np.unique(store.labels())) > 2
    labels = store.labels(n_clusters=5)
    assert {name: number for number, some in store.clusters(n_clusters=5).items() for name in some} == dict(
        zip(rows, labels.tolist(), strict=True)
    )
    np.testing.assert_array_equal(store.predict(X + 1e-4, n_clusters=5), labels)
    places = store.branch_places(X)
    assert {place.branch for place in places} == set(store.branches)
    assert [place.nearest for place in places] == list(rows)


def test_the_cut_it_was_made_with_is_its_own(tmp_path):
    with grinch.open(tmp_path / "s", max_points=30, n_clusters=3) as store:
        store.insert(grouped(0, 70))
        assert len(store.clusters()) == 3
    with grinch.open(tmp_path / "s") as store:
        assert len(store.clusters()) == 3
    with pytest.raises(ValueError, match="made with n_clusters=3"):
        grinch.open(tmp_path / "s", n_clusters=4)


def test_a_change_that_fails_half_way_is_taken_back(split, monkeypatch):
    store, rows, payloads = split
    insert, calls = Branch.insert, []

    def fails_at_second(self, *args):
        calls.append(self.name)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        insert(self, *args)

    X = np.stack([next(iter(rows.values())), *grouped(11, 30)]) + np.float32(0.01)
    monkeypatch.setattr(Branch, "insert", fails_at_second)
    with pytest.raises(OSError, match="No space"):
        store.insert(X, ids=[f"q{i}" for i in range(31)])
    assert len(set(calls)) == 2
    monkeypatch.setattr(Branch, "insert", insert)
    compare(store, rows, payloads)
    assert not list(store.folder.glob("journal*"))
    new = dict(zip([f"q{i}" for i in range(31)], X, strict=True))
    store.insert(X, ids=list(new))
    compare(store, rows | new, payloads)
    store.check()


def test_readers_beside_a_writer(split):
    store, rows, payloads = split
    with pytest.raises(StoreLocked, match="being written to"):
        grinch.open(store.folder)
    with grinch.open(store.folder, readonly=True) as reader:
        compare(reader, rows, payloads)
        n, version, X = len(reader.branches), reader.version, grouped(20, 80)
        new = dict(zip([f"q{i}" for i in range(80)], X, strict=True))
        store.insert(X, ids=list(new))
        store.remove(["p0"])
        assert len(store.branches) > n
        compare(reader, rows, payloads)
        assert reader.version == version
        assert reader.refresh() == store.version == reader.version
        left = {name: row for name, row in (rows | new).items() if name != "p0"}
        compare(reader, left, payloads)
        np.testing.assert_array_equal(reader.tree.child_pairs(), store.tree.child_pairs())
        reader.check()
        with pytest.raises(PermissionError, match="readonly=True"):
            reader.insert(X)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_reader_never_sees_half_a_change(split):
    """Points that move from branch to branch are in one of them at any time."""
    store, rows, _ = split
    names, X = list(rows), np.array(list(rows.values()))
    store.close()

    def work():
        with grinch.open(store.folder) as writer:
            for shift in range(1, 7):
                writer.update(names[:30], np.roll(X, shift, axis=0)[:30])

    writer = kills.fork(work)
    seen = 0
    with grinch.open(store.folder, readonly=True) as reader:
        versions = {reader.version}
        while os.waitpid(writer, os.WNOHANG) == (0, 0):
            versions.add(reader.refresh())
            assert reader.ids == names
            assert sorted(name for branch in reader._branches for name in branch.store.ids) == sorted(names)
            seen += 1
        reader.refresh()
        np.testing.assert_array_equal(reader.vectors(names[:30]), np.roll(X, 6, axis=0)[:30])
        reader.check()
    assert len(versions) > 1
    assert seen > 1


def test_a_sharded_store_can_be_looked_at(split):
    store, rows, _ = split
    with closing(open_source(store.folder)) as source:
        assert (source.kind, source.has_versions) == ("store", True)
        assert source.points([0, 89, 3]) == [(name, name) for name in ("p0", "p89", "p3")]
    with store.explore() as explorer:
        assert explorer.viewer.about()["cuts"][0]["cut"] == "cut:default"
    assert len(rows) == 90


def test_a_backup_is_a_store(split, tmp_path):
    store, rows, payloads = split
    store.backup(tmp_path / "copy")
    with grinch.open(store.folder, readonly=True) as reader:
        reader.backup(tmp_path / "other")
    with pytest.raises(FileExistsError, match="new or an empty folder"):
        store.backup(tmp_path / "copy")
    for name in ("copy", "other"):
        with grinch.open(tmp_path / name) as copy:
            compare(copy, rows, payloads)
            assert copy.version == store.version
            copy.insert(grouped(30, 3), ids=["x", "y", "z"])
            copy.check()


def test_another_max_points_counts_from_the_next_insert(split):
    store, rows, payloads = split
    store.close()
    with grinch.open(store.folder, max_points=20) as again:
        again.insert(grouped(30, 1), ids=["x"])
        assert max(again.branches.values()) <= 20
        compare(again, rows | {"x": grouped(30, 1)[0]}, payloads)
    with grinch.open(store.folder) as again:
        assert again.max_points == 20


def test_damage_is_noticed(split):
    store, _, _ = split
    store.close()
    order = next(iter(sorted(store.folder.glob("branch-*/order.bin"))))
    data = order.read_bytes()
    order.write_bytes(data[:-8])
    with pytest.raises(DamagedStore, match=r"order.bin is damaged"):
        grinch.open(store.folder)
    order.write_bytes(data[8:] + data[:8])
    with grinch.open(store.folder) as again:
        again.check()  # points have ids: another order of them is one that could be
    manifest = store.folder / "sharded.json"
    text = manifest.read_text()
    for wrong in ("", "{", text.replace('"pairs"', '"pears"'), text.replace("branch-", "../")):
        manifest.write_text(wrong)
        with pytest.raises(DamagedStore, match=r"sharded.json is damaged"):
            grinch.open(store.folder)
    manifest.write_text(text.replace('"format": 1', '"format": 2'))
    with pytest.raises(DamagedStore, match="Upgrade grinch"):
        grinch.open(store.folder)
    manifest.write_text(text)
    (store.folder / "journal.npz").write_bytes(b"PK broken")
    with pytest.raises(DamagedStore, match=r"journal.npz is damaged"):
        grinch.open(store.folder)


def test_errors_say_what_to_do(split, tmp_path):
    store, rows, _ = split
    X = grouped(0, 2)
    for call, message in (
        (lambda: store.insert(X), "ids must be given for all points"),
        (lambda: store.insert(X, ids=[1, 2]), "ids must all be texts"),
        (lambda: store.insert(X, ids=["a", "a"]), "'a' is there twice"),
        (lambda: store.insert(X[:, :3], ids=["a", "b"]), "3 features"),
        (lambda: store.insert(X, ids=["a", "b"], payload=[{1}, 2]), "payload must be anything that JSON can hold"),
        (lambda: store.update(["p1"]), "X or payload must be given"),
        (lambda: store.update(["p1"], X), "X must have a row for each of the 1 ids; got 2"),
        (lambda: store.payload([7]), "ids in this store are texts, and this is a number"),
        (lambda: store.labels(n_clusters=2, threshold=0.5), "give one of them"),
        (lambda: store.changes(-1), "since"),
        (lambda: grinch.open(tmp_path / "n", max_points=1), "max_points"),
        (lambda: grinch.open(tmp_path / "n", max_points=9, linkage="single"), "linkage of a sharded store must be one"),
        (lambda: grinch.open(tmp_path / "n", max_points=9, linkage=lambda a, b: 1.0), "on vectors"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    compare(store, rows, {name: name for name in rows})
    store.close()
    with pytest.raises(RuntimeError, match="is closed; open it again"):
        store.insert(X, ids=["a", "b"])
    with pytest.raises(ValueError, match="linkage cannot change"):
        grinch.open(store.folder, linkage="ward")


def test_folders_that_are_something_else(tmp_path):
    grinch.open(tmp_path / "plain").close()
    with pytest.raises(FileExistsError, match="has a plain one"):
        grinch.open(tmp_path / "plain", max_points=9)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(FileExistsError, match="is not empty"):
        grinch.open(tmp_path / "mine", max_points=9)
    with pytest.raises(NotADirectoryError, match="is a file"):
        grinch.open(tmp_path / "mine" / "letter.txt", max_points=9)
    with pytest.raises(FileNotFoundError, match="no sharded store"):
        grinch.open(tmp_path / "none", max_points=9, readonly=True)
