"""A store as its users use it: what comes back, what is refused, who may write."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import grinch
from grinch import Grinch
from grinch.datasets import gaussian_mixture
from grinch.saving import container
from grinch.store import DamagedStore, StoreLocked, snapshots
from grinch.store.database import Database
from grinch.store.snapshots import KIND, read_snapshot
from killing import kills


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "news"


def points(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(8, 6)) * 4
    return (centres[rng.integers(8, size=n)] + rng.normal(size=(n, 6))).astype(np.float32)


def names(n: int, start: int = 0):
    return [f"p{i}" for i in range(start, start + n)]


def same_tree(one, other):
    assert one.n_leaves == other.n_leaves
    np.testing.assert_array_equal(one.child_pairs(), other.child_pairs())
    np.testing.assert_array_equal(one.scores, other.scores)


def test_goes_on_where_it_was(folder):
    X = points(300)
    with grinch.open(folder, linkage="average") as store:
        assert store.insert(X[:100], ids=names(100), payload=[{"i": i} for i in range(100)]) == 1
        assert store.insert(X[100:150], ids=names(50, 100)) == 2
    with grinch.open(folder) as store:
        assert store.version == 2
        assert store.remove(["p3", "p120"]) == 3
        assert store.update(["p5"], X[299:300]) == 4
        store.insert(X[150:200], ids=names(50, 150))
    with grinch.open(folder) as store:
        model = Grinch().partial_fit(X[:100]).partial_fit(X[100:150]).remove([3, 120])
        model.update([5], X[299:300]).partial_fit(X[150:200])
        same_tree(store.tree, model.tree_)
        assert store.ids == [f"p{i}" for i in model.ids_]
        assert store.payload(["p7", "p150"]) == [{"i": 7}, None]
        np.testing.assert_array_equal(store.vectors(["p5", "p6"]), X[[299, 6]])
        store.check()


def test_no_ids_are_running_numbers(folder):
    X = points(60)
    with grinch.open(folder) as store:
        store.insert(X[:40])
        store.insert(X[40:], payload=[str(i) for i in range(20)])
        store.remove([3, 41])
        assert store.remove([3]) == store.version  # it is gone already
        assert store.ids == [i for i in range(60) if i not in (3, 41)]
        assert store.payload([2, 45]) == [None, "5"]
        assert store.update([2], payload=["two"]) == 4
        with pytest.raises(ValueError, match="60 never was"):
            store.remove([60])
    with grinch.open(folder) as store:
        assert store.payload([2]) == ["two"]
        store.check()


def test_batch_sent_again_changes_nothing(folder):
    X = points(50)
    with grinch.open(folder) as store:
        store.insert(X[:30], ids=names(30), payload=list(range(30)))
        before = store.tree
        assert store.insert(X[:30], ids=names(30), payload=list(range(30))) == 1
        assert store.insert(X[:30], ids=names(30)) == 1
        same_tree(store.tree, before)
        # What is new among what is there comes in.
        assert store.insert(X[20:40], ids=names(20, 20)) == 2
        assert len(store) == 40
        with pytest.raises(ValueError, match="'p2' is there with another"):
            store.insert(X[3:6], ids=["p1000", "p1001", "p2"])
        with pytest.raises(ValueError, match="payload must be the same"):
            store.insert(X[:1], ids=["p0"], payload=["other"])
        assert store.version == 2
        assert len(store) == 40
        assert store.remove(["p1"]) == store.remove(["p1"]) == 3
        assert store.update(["p2"], X[45:46]) == store.update(["p2"], X[45:46]) == 4
        store.check()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s, X: s.insert(X[:2], ids=["a"]), "one entry for each of the 2"),
        (lambda s, X: s.insert(X[:2], ids=["a", "a"]), "'a' is there twice"),
        (lambda s, X: s.insert(X[:2]), "ids must be given for all points"),
        (lambda s, X: s.insert(X[:1, :3], ids=["a"]), "features"),
        (lambda s, X: s.insert(X[:1] * np.nan, ids=["a"]), "finite"),
        (lambda s, X: s.insert(X[:1], ids=[1.5]), "whole numbers"),
        (lambda s, X: s.insert(X[:1], ids=[2**70]), "64 bits"),
        (lambda s, X: s.insert(X[:1], ids=["\ud800"]), "UTF-8"),
        (lambda s, X: s.insert(X[:1], ids="a"), "Put a single id into a list"),
        (lambda s, X: s.insert(X[:1], ids=["a"], payload=[{1, 2}]), "JSON"),
        (lambda s, X: s.insert(X[:1], ids=["a"], payload=[float("nan")]), "JSON"),
        (lambda s, X: s.insert(X[:1], ids=["a"], payload=[]), "one entry for each of the 1"),
        (lambda s, X: s.remove(["nobody"]), "'nobody' never was"),
        (lambda s, X: s.update(["nobody"], X[:1]), "'nobody' is not there"),
        (lambda s, X: s.update(["p1"]), "X or payload"),
        (lambda s, X: s.update(["p1"], X[:2]), "a row for each of the 1"),
        (lambda s, X: s.label(10**6, "x"), "see clusters"),
        (lambda s, X: s.label(0, ""), "name must be a text"),
        (lambda s, X: s.labels("nope"), "cut must be one of 'default'"),
        (lambda s, X: s.add_cut("default", n_clusters=3), "no cut is called by yet"),
        (lambda s, X: s.drop_cut("default"), "every store has"),
        (lambda s, X: s.refine(0), "passes"),
        (lambda s, X: s.changes(since=-1), "since"),
    ],
)
def test_refused_changes_nothing(folder, change, why):
    X = points(40)
    with grinch.open(folder) as store:
        store.insert(X[:20], ids=names(20))
        before = store.tree
        with pytest.raises(ValueError, match=why):
            change(store, X)
        assert store.version == 1
        same_tree(store.tree, before)
        store.check()


def test_settings_stay(folder):
    with grinch.open(folder, linkage="ward", n_neighbors=10, n_clusters=3) as store:
        store.insert(points(20))
    with grinch.open(folder, linkage="ward", n_clusters=3) as store:
        assert store.info()["n_neighbors"] == 10
        assert len(store.clusters()) == 3
    for wrong in ({"linkage": "average"}, {"n_neighbors": 7}, {"n_clusters": 4}, {"dtype": "float64"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            grinch.open(folder, **wrong)
    with pytest.raises(ValueError, match="linkage must be one of"):
        grinch.open(folder.with_name("other"), linkage="avarage")
    assert not folder.with_name("other").exists()


def test_double_precision_is_kept(folder):
    X = points(50).astype(np.float64) + 1e-9
    with grinch.open(folder) as store:
        store.insert(X)
    with grinch.open(folder) as store:
        np.testing.assert_array_equal(store.vectors(range(50)), X)
        same_tree(store.tree, Grinch().partial_fit(X).tree_)


def test_frames_bring_columns_and_payload(folder):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(points(20), columns=list("abcdef"))
    with grinch.open(folder) as store:
        payload = pd.DataFrame({"title": names(20), "score": [np.nan, *range(19)]})
        store.insert(frame, ids=pd.Series(names(20)), payload=payload)
        assert store.payload(["p0", "p3"]) == [{"title": "p0", "score": None}, {"title": "p3", "score": 2.0}]
        assert store.insert(frame, ids=names(20, 100)) == 2
        with pytest.raises(ValueError, match="columns"):
            store.insert(frame[list("fedcba")], ids=names(20, 20))


def test_only_one_writes_and_it_is_named(folder):
    with grinch.open(folder) as store:
        store.insert(points(20))
        with pytest.raises(StoreLocked, match=f"process {os.getpid()} on .* since 20"):
            grinch.open(folder)
        assert store.info()["writer"]["pid"] == os.getpid()
    grinch.open(folder).close()


def test_readers_see_what_is_committed(folder):
    X = points(300)
    with grinch.open(folder) as writer:
        writer.insert(X[:100], ids=names(100))
        with grinch.open(folder, readonly=True) as reader:
            assert reader.version == 1
            writer.insert(X[100:200], ids=names(100, 100))
            writer.remove(["p0"])
            writer.label(int(writer.labels()[0]), "mine")
            assert (reader.version, len(reader), len(reader.ids)) == (1, 100, 100)
            assert reader.refresh() == 4
            same_tree(reader.tree, writer.tree)
            assert reader.clusters() == writer.clusters()
            assert reader.changes() == writer.changes()
            writer.refine()
            writer.insert(X[200:], ids=names(100, 200))
            assert reader.refresh() == 6
            same_tree(reader.tree, writer.tree)
            writer.compact()
            assert reader.refresh() == 7
            same_tree(reader.tree, writer.tree)
            np.testing.assert_array_equal(reader.vectors(["p250"]), X[[250]])
            with pytest.raises(PermissionError, match="readonly=True"):
                reader.insert(X[:1], ids=["x"])
    with pytest.raises(FileNotFoundError, match="no store to read"):
        grinch.open(folder / "none", readonly=True)


def test_closed_is_closed(folder):
    store = grinch.open(folder)
    store.insert(points(10))
    store.close()
    store.close()
    with pytest.raises(RuntimeError, match="is closed"):
        store.insert(points(10))
    with pytest.raises(RuntimeError, match="is closed"):
        len(store)
    assert "closed" in repr(store)


def test_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="not empty"):
        grinch.open(tmp_path)
    with pytest.raises(NotADirectoryError, match="is a file"):
        grinch.open(tmp_path / "thesis.txt")


def test_refinement_is_kept(folder):
    X, _ = gaussian_mixture(400, n_classes=20)
    with grinch.open(folder) as store:
        store.insert(X[:300])
        store.refine()
        refined = store.tree
        store.insert(X[300:])
        last = store.tree
    with grinch.open(folder, readonly=True) as store:
        same_tree(store.tree, last)
        store.check()
    same_tree(Grinch().partial_fit(X[:300]).refine().tree_, refined)


def test_compacting_leaves_nothing_of_removed_points(folder):
    X = points(200)
    X[7] = np.array([123.456] * 6, np.float32)
    with grinch.open(folder, linkage="ward") as store:
        store.insert(X, ids=names(200), payload=[f"secret-{i}-secret" for i in range(200)])
        store.label(int(store.labels()[7]), "name")
        store.remove([f"p{i}" for i in range(0, 200, 2)] + ["p7"])
        store.update(["p9"], X[:1])
        labels, kept = store.labels(), store.tree
        store.compact()
        np.testing.assert_array_equal(store.labels(), labels)
        same_tree(store.tree, kept)
        store.check()
        store.insert(points(10, 1), ids=names(10, 500))
    found = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"secret-7-secret" not in found
    assert b"secret-8-secret" not in found
    assert b"secret-9-secret" in found
    assert X[7].tobytes() not in found
    assert b'"p8"' not in found
    with grinch.open(folder) as store:
        assert len(store) == 109
        np.testing.assert_array_equal(store.vectors(["p9", "p11"]), X[[0, 11]])
        store.check()


def test_backup_of_a_tree_larger_than_sizes_are_counted(folder, tmp_path):
    X = np.random.default_rng(0).normal(size=(700, 3)).astype(np.float32)
    with grinch.open(folder, linkage="ward") as store:
        store.adopt(X, grinch.Grinch("ward").fit(X).tree_)
        store.backup(tmp_path / "copy")
        store.check()
        with grinch.open(tmp_path / "copy") as copy:
            assert copy.tree.to_newick() == store.tree.to_newick()


def test_backup_beside_a_writer(folder, tmp_path):
    X = points(300)
    with grinch.open(folder) as store:
        store.insert(X[:200], ids=names(200))
        store.remove(["p5"])
        stop = threading.Event()

        def write():
            for i in range(200, 300):
                if stop.is_set():
                    return
                store.insert(X[i : i + 1], ids=[f"p{i}"])

        thread = threading.Thread(target=write)
        thread.start()
        with grinch.open(folder, readonly=True) as reader:
            reader.backup(tmp_path / "copy")
        store.backup(tmp_path / "second")
        stop.set()
        thread.join()
        with pytest.raises(FileExistsError, match="new or an empty"):
            store.backup(tmp_path / "copy")
    for name in ("copy", "second"):
        with grinch.open(tmp_path / name) as copy:
            copy.check()
            assert copy.version >= 2
            assert copy.ids == [f"p{i}" for i in range(len(copy) + 1) if i != 5]


def test_snapshots_are_taken_aside(folder, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_CHANGED", 50)
    X = points(1200)
    with grinch.open(folder) as store:
        store.insert(X[:800])
        for start in range(800, 1200, 20):
            store.insert(X[start : start + 20])
        store._snapshots.wait()
        assert 0 <= store.info()["operations_since_snapshot"] < 21
        # As if the process had died here.
        model = Grinch().partial_fit(X[:800])
        for start in range(800, 1200, 20):
            model.partial_fit(X[start : start + 20])
        with grinch.open(folder, readonly=True) as reader:
            same_tree(reader.tree, model.tree_)
            reader.check()
    assert sum(path.name.startswith("snapshot-") for path in folder.iterdir()) == 1
    assert {path.name.split("-")[0] for path in folder.iterdir()} == {
        "snapshot",
        "vectors",
        "store.sqlite",
        "writer.lock",
    }


def similar(a, b):
    """A linkage of the user's own."""
    return -abs(sum(r["x"] for r in a) / len(a) - sum(r["x"] for r in b) / len(b))


def test_records_and_a_linkage_of_ones_own(folder):
    rng = np.random.default_rng(0)
    records = [{"x": float(x), "tags": ("a", i)} for i, x in enumerate(rng.normal(size=60).round(3))]
    with grinch.open(folder, linkage=similar, n_clusters=3) as store:
        store.insert(records[:40], ids=names(40))
        store.remove(["p2"])
        store.insert(records[40:], ids=names(20, 40))
        assert store.insert(records[40:], ids=names(20, 40)) == 3
        store.check()
        assert store.vectors(["p41"]) == [records[41]]
        store.compact()
    with grinch.open(folder, linkage=similar) as store:
        model = Grinch(linkage=similar).partial_fit(records[:40]).remove([2]).partial_fit(records[40:])
        same_tree(store.tree, model.tree_)
        assert store.vectors(["p3", "p59"]) == [records[3], records[59]]
        store.update(["p3"], [records[5]])
        store.check()


def fails_at_last(a, b):
    if any(r == 13 for r in (*a, *b)):
        raise RuntimeError("no thirteens")
    return -abs(sum(a) / len(a) - sum(b) / len(b))


def test_linkage_that_fails_leaves_the_store_as_it_was(folder):
    with grinch.open(folder, linkage=fails_at_last) as store:
        store.insert([1, 2, 5, 7], ids=list("abcd"))
        before = store.tree
        with pytest.raises(ValueError, match="no thirteens"):
            store.insert([8, 13, 9], ids=list("efg"))
        assert store.ids == list("abcd")
        same_tree(store.tree, before)
        store.insert([8, 9], ids=list("eg"))
        store.check()


def damaged(folder: Path) -> None:
    """Whoever opens and checks the store gets an error that says what is wrong."""
    with pytest.raises(DamagedStore), grinch.open(folder) as store:
        store.check()


@pytest.mark.parametrize("part", ["snapshot", "vectors", "store.sqlite"])
@pytest.mark.parametrize("how", ["cut in half", "emptied", "a bit flipped", "gone", "noise"])
def test_damage_is_named(folder, part, how):
    with grinch.open(folder) as store:
        store.insert(points(100), ids=names(100), payload=names(100))
    path = next(path for path in folder.iterdir() if path.name.startswith(part))
    data = bytearray(path.read_bytes())
    if how == "cut in half":
        path.write_bytes(data[: len(data) // 2])
    elif how == "emptied":
        path.write_bytes(b"")
    elif how == "gone":
        path.unlink()
    elif how == "noise":
        path.write_bytes(np.random.default_rng(0).bytes(len(data)))
    else:
        where = np.flatnonzero(np.frombuffer(data, np.uint8))
        data[where[len(where) // 2]] ^= 16
        path.write_bytes(data)
    damaged(folder)


def test_hostile_names_are_refused(folder):
    with grinch.open(folder) as store:
        store.insert(points(20))
    for name, value in (("snapshot", "../../etc/passwd"), ("vectors", "/etc/passwd"), ("n_features", 10**18)):
        with closing(Database(folder, readonly=False)) as database:
            before = database.get(name)
            database.set(name, value)
        with pytest.raises(DamagedStore, match="it names"):
            grinch.open(folder)
        with closing(Database(folder, readonly=False)) as database:
            database.set(name, before)
    with grinch.open(folder) as store:
        store.check()


def test_later_format_is_refused(folder):
    grinch.open(folder).close()
    connection = sqlite3.connect(folder / "store.sqlite")
    connection.execute("update about set value = '99' where name = 'format'")
    connection.commit()
    connection.close()
    with pytest.raises(DamagedStore, match="later version"):
        grinch.open(folder)


def test_dead_writer_is_taken_over(folder):
    def write_and_die():
        grinch.open(folder).insert(points(50))
        os.kill(os.getpid(), signal.SIGKILL)

    assert os.waitpid(kills.fork(write_and_die), 0)[1] == signal.SIGKILL
    with grinch.open(folder) as store:
        assert (store.version, len(store)) == (1, 50)
        store.check()


def test_names_stay_with_clusters(folder):
    X = points(200)
    with grinch.open(folder, linkage="ward", n_clusters=8) as store:
        store.insert(X[:100], ids=names(100))
        cluster = int(store.labels()[0])
        assert store.label(cluster, "cats") == 2
        assert store.label(cluster, "cats") == 2
        store.insert(X[100:], ids=names(100, 100))
        assert store.names() == {cluster: "cats"}
        assert [change.kind for change in store.changes(since=1) if change.version == 2] == ["renamed"]
    with grinch.open(folder) as store:
        assert store.names() == store.names(gone=True) == {cluster: "cats"}
        assert "p0" in store.clusters()[cluster]
        store.add_cut("fine", n_clusters=20)
        assert set(store.cuts()) == {"default", "fine"}
        assert len(store.clusters("fine")) == 20
        store.label(3, "threes", cut="fine")
        store.drop_cut("fine")
        assert set(store.cuts()) == {"default"}
        store.check()


def test_predict_says_ids(folder):
    X = points(300)
    with grinch.open(folder, n_clusters=8) as store:
        store.insert(X[:200])
        store.remove(range(10))
        model = Grinch(n_clusters=8).partial_fit(X[:200]).remove(range(10))
        expected, labels = model.labels_, store.labels()
        by_number = {int(number): int(labels[np.argmax(expected == number)]) for number in np.unique(expected)}
        assert store.predict(X[200:]).tolist() == [by_number[k] for k in model.predict(X[200:]).tolist()]


class Odd:
    """A linkage whose summaries are no plain values."""

    def leaf(self, record):
        return [lambda: record]

    def merge(self, a, b):
        return a + b

    def score(self, a, b):
        return -abs(a[0]() - b[0]())


def test_linkage_that_cannot_be_kept_is_refused_at_once(folder):
    with grinch.open(folder, linkage=Odd()) as store:
        with pytest.raises(ValueError, match="cannot be written"):
            store.insert([1, 2, 3])
        assert (len(store), store.version) == (0, 0)


def test_other_linkage_by_name_is_warned_of(folder):
    with grinch.open(folder, linkage=fails_at_last) as store:
        store.insert([1, 2, 5])
    with pytest.warns(UserWarning, match="fails_at_last.*goes on with"):
        grinch.open(folder, linkage=similar).close()


def test_empty_store_and_empty_batches(folder):
    with grinch.open(folder) as store:
        assert (store.clusters(), store.labels().tolist(), store.ids, store.changes()) == ({}, [], [], [])
        assert store.insert(np.empty((0, 3))) == store.insert([]) == 0
        store.insert(points(5), ids=names(5))
        assert store.insert(np.empty((0, 6)), ids=[]) == store.remove([]) == store.update([], []) == 1
        store.remove(names(5))
        assert store.clusters() == {}
        assert len(store.tree) == 0
        store.insert(points(5), ids=names(5, 5))
        store.check()


def test_ids_are_of_one_kind(folder):
    X = points(20)
    with grinch.open(folder) as store:
        assert store.id_kind is None
        store.insert(X[:5], ids=range(5))
        assert store.id_kind == "number"
        with pytest.raises(ValueError, match="'7', a text"):
            store.insert(X[5:7], ids=[6, "7"])
        with pytest.raises(ValueError, match="ids in this store are numbers, and this is a text"):
            store.remove(["3"])
        assert store.insert(X[5:7], ids=np.array([6, 7], np.uint8)) == 2


def test_columns_are_compared(folder):
    X = points(20)[:, :3]
    with grinch.open(folder) as store:
        store.insert(X[:5], columns=["a", "b", "c"])
        with pytest.raises(ValueError, match="columns"):
            store.insert(X[5:], columns=["b", "a", "c"])
        assert store.insert(X[5:], columns=["a", "b", "c"]) == 2


def test_cut_that_is_added_is_born(folder):
    with grinch.open(folder) as store:
        store.insert(points(60))
        version = store.add_cut("fine", n_clusters=7)
        born = store.changes(cut="fine")
        assert [(c.version, c.kind, c.cluster) for c in born] == [(version, "born", i) for i in range(7)]
        assert {c.cluster: c.size for c in born} == {k: len(some) for k, some in store.clusters("fine").items()}


def test_backup_keeps_the_holes(folder, tmp_path):
    with grinch.open(folder) as store:
        store.insert(points(300))
        store.insert(points(300, 1))
        store.snapshot()
        store.backup(tmp_path / "copy")
        mine = store.info()["bytes"]["snapshot"]
    with grinch.open(tmp_path / "copy", readonly=True) as copy:
        assert copy.info()["bytes"]["snapshot"] <= 1.2 * mine + 2**20
        copy.check()


def test_linkage_cannot_change(folder):
    with grinch.open(folder, linkage="ward") as store:
        store.insert(points(10))
    with pytest.raises(ValueError, match="linkage"):
        grinch.open(folder, linkage=similar)
    with pytest.raises(ValueError, match="linkage"):
        grinch.open(folder, linkage=Odd(), readonly=True)
    with grinch.open(folder) as store:
        store.check()


def test_interrupted_change_is_none(folder, monkeypatch):
    X = points(600)
    with grinch.open(folder, linkage="ward") as store:
        store.insert(X[:200], ids=names(200))
        before = store.tree
        real, calls = Grinch._insert, []

        def interrupted(self, rows):
            calls.append(len(rows))
            real(self, rows[: len(rows) // 2])
            raise KeyboardInterrupt

        for change in (
            lambda: store.insert(X[200:400], ids=names(200, 200)),
            lambda: store.update(["p3", "p4"], X[500:502]),
        ):
            monkeypatch.setattr(Grinch, "_insert", interrupted)
            with pytest.raises(KeyboardInterrupt):
                change()
            monkeypatch.setattr(Grinch, "_insert", real)
            assert store.version == 1
            same_tree(store.tree, before)
        assert calls == [200, 2]
        assert store.insert(X[200:400], ids=names(200, 200)) == 2
        store.check()


# What an attacker found ---------------------------------------------------------------------------------------------


def test_fork_cannot_use_the_store(folder):
    with grinch.open(folder) as store:
        store.insert(points(20))
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                store.insert(points(5))
                os.write(write, b"inserted")
            except RuntimeError as error:
                store.close()
                os.write(write, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        assert b"is a fork" in os.read(read, 1000)
        assert store.insert(points(5)) == 2
        store.check()


def test_lock_that_was_taken_away(folder):
    first = grinch.open(folder)
    first.insert(points(20))
    (folder / "writer.lock").unlink()
    with grinch.open(folder) as second:
        second.insert(points(5))
        with pytest.raises(StoreLocked, match="no longer this process's"):
            first.insert(points(7))
        assert second.insert(points(3)) == 3
        second.check()
    with pytest.raises(StoreLocked):
        first.insert(points(7))
    first._release()


def test_lock_is_given_back_beside_forks(folder):
    store = grinch.open(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        time.sleep(20)
        os._exit(0)
    store.close()
    grinch.open(folder).close()
    os.kill(pid, 9)
    os.waitpid(pid, 0)


def test_vectors_that_are_gone_are_missed_at_once(folder):
    with grinch.open(folder) as store:
        store.insert(points(100))
    path = next(folder.glob("vectors-*"))
    data = path.read_bytes()
    for left in (b"", data[:-24]):
        path.write_bytes(left)
        with pytest.raises(DamagedStore, match=path.name):
            grinch.open(folder)
    path.unlink()
    with pytest.raises(DamagedStore, match=path.name):
        grinch.open(folder)
    path.write_bytes(data)
    with grinch.open(folder) as store:
        store.check()


def test_damage_does_not_get_right_checksums(folder, monkeypatch):
    """Of a large snapshot, most is not verified when it is opened, but before it becomes a part of the next one."""
    monkeypatch.setattr("grinch.store.snapshots.VERIFIED_BYTES", 0)
    with grinch.open(folder) as store:
        store.insert(points(100))
    path = next(folder.glob("snapshot-*"))
    snapshot = read_snapshot(path)
    data = bytearray(path.read_bytes())
    at = data.index(snapshot.arrays["model/fitted.builder.summaries.arrays.means"].tobytes()[:256])
    data[at] ^= 1
    with open(path, "r+b") as file:
        file.write(data)
    store = grinch.open(folder)
    with pytest.raises(DamagedStore, match="means"):
        store.snapshot() if store.insert(points(5)) else None
    with pytest.raises(DamagedStore, match="means"):
        store.close()
    with pytest.raises(DamagedStore, match="means"):
        grinch.open(folder, readonly=True).check()


def test_files_of_another_store_are_refused(tmp_path):
    for name, seed in (("one", 0), ("two", 1)):
        with grinch.open(tmp_path / name) as store:
            store.insert(points(50, seed))
    one, two = (next((tmp_path / name).glob("snapshot-*")) for name in ("one", "two"))
    one.write_bytes(two.read_bytes())
    with pytest.raises(DamagedStore, match="another store"):
        grinch.open(tmp_path / "one")


@pytest.mark.parametrize("what", ["root", "cycle", "neighbour"])
def test_crafted_snapshots_are_refused(folder, tmp_path, what):
    with grinch.open(folder) as store:
        store.insert(points(100))
    path = next(folder.glob("snapshot-*"))
    snapshot = read_snapshot(path)
    arrays = {name: array.copy() for name, array in snapshot.arrays.items()}
    if what == "root":
        arrays["model/fitted.builder.links.head"][0] = 2**30
    elif what == "cycle":
        table = arrays["model/fitted.builder.links.table"]
        root = arrays["model/fitted.builder.links.head"][0]
        table[root, 1] = root
    else:
        arrays["model/fitted.builder.gardener.neighbors.near"][:] = 2**30
    path.unlink()
    container.write(path, KIND, snapshot.header, arrays)
    with pytest.raises(ValueError, match="damaged"):
        grinch.open(folder)


def test_triggers_are_refused(folder):
    with grinch.open(folder) as store:
        store.insert(points(10), ids=names(10))
    connection = sqlite3.connect(folder / "store.sqlite")
    connection.execute("create trigger t after insert on operations begin delete from points; end")
    connection.commit()
    connection.close()
    with pytest.raises(DamagedStore, match="trigger"):
        grinch.open(folder)


def test_odd_names_are_refused(folder):
    with grinch.open(folder, n_clusters=np.int64(3)) as store:
        store.insert(points(30))
        for name in ("\ud800", "", 7):
            with pytest.raises(ValueError, match="name must be"):
                store.add_cut(name)
            with pytest.raises(ValueError, match="name must be"):
                store.label(0, name)
        store.add_cut("half", threshold=np.float32(0.5))
        store.insert(points(30, 1), payload=[{"a": 1, "b": 2}] * 30)
        store.check()


def test_interrupt_as_a_transaction_begins(folder):
    with grinch.open(folder) as store:
        store.insert(points(10))
        real = store._database._connection

        class Interrupted:
            def __getattr__(self, name):
                return getattr(real, name)

            def execute(self, query, *values):
                found = real.execute(query, *values)
                if query == "begin immediate":
                    raise KeyboardInterrupt
                return found

        store._database._connection = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            store.insert(points(3))
        store._database._connection = real
        assert store.insert(points(3)) == 2


def test_snapshot_that_cannot_be_begun_fails_no_change(folder, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_CHANGED", 10)

    def refuse():
        raise OSError(12, "no memory")

    monkeypatch.setattr(os, "fork", refuse)
    with grinch.open(folder) as store:
        assert store.insert(points(50)) == 1
        assert store.insert(points(50)) == 2
        assert len(store) == 100


def test_nothing_is_left_beside_background_snapshots(folder, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_CHANGED", 1)
    monkeypatch.setattr(snapshots, "CHANGED_SHARE", 0.0)
    with grinch.open(folder) as store:
        for seed in range(4):
            store.insert(points(30, seed))
            store.refine()
    assert len(list(folder.glob("snapshot-*"))) == 1
