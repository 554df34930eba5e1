"""A store as its users use it: what comes back, what is refused, who may write."""

import copy
import os
import signal
import sqlite3
import threading
import time
from contextlib import closing

import numpy as np
import pytest
import scipy.sparse

import grinch
from grinch import Grinch
from grinch.saving import container
from grinch.store import DamagedStore, StoreLocked, snapshots
from grinch.store.database import Database
from grinch.store.snapshots import KIND, read_snapshot
from killing import kills
from refusals import refused
from store.made import execute, flip, names, points, same_tree, similar, snapshot_of
from threads import Call


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "news"


@pytest.fixture
def filled(folder):
    """A store of 100 points that is closed."""
    with grinch.open(folder) as store:
        store.insert(points(100), ids=names(100))
    return folder


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix], ids=["dense", "sparse"])
def test_batch_sent_again_changes_nothing(folder, form):
    X = form(points(50))
    with grinch.open(folder) as store:
        store.insert(X[:30], ids=names(30), payload=list(range(30)))
        before = store.tree
        assert store.insert(X[:30], ids=names(30), payload=list(range(30))) == 1
        assert store.insert(X[:30], ids=names(30)) == 1
        same_tree(store.tree, before)
        # What is new among what is there comes in.
        assert store.insert(X[20:40], ids=names(20, 20)) == 2
        refused("'p2' is there with another", store.insert, X[3:6], ids=["p1000", "p1001", "p2"])
        refused("payload must be the same", store.insert, X[:1], ids=["p0"], payload=["other"])
        assert (store.version, len(store)) == (2, 40)
        assert store.remove(["p1"]) == store.remove(["p1"]) == 3
        assert store.update(["p2"], X[45:46]) == store.update(["p2"], X[45:46]) == 4
        assert store.update(["p3"], payload=["three"]) == 5
        assert store.payload(["p3", "p35"]) == ["three", None]
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
        *((lambda s, X, name=name: s.label(0, name), "name must be") for name in ("\ud800", "", 7)),
        *((lambda s, X, name=name: s.add_cut(name), "name must be") for name in ("\ud800", "", 7)),
        (lambda s, X: s.insert(X[:1], ids=["a"], columns=list("bacdef")), "columns"),
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
        store.insert(X[:20], ids=names(20), columns=list("abcdef"))
        before = store.tree
        refused(why, change, store, X)
        assert store.version == 1
        same_tree(store.tree, before)
        store.check()


def test_settings_stay(folder):
    with grinch.open(folder, linkage="ward", n_neighbors=10, n_clusters=3) as store:
        store.insert(points(20))
    with grinch.open(folder, linkage="ward", n_clusters=3) as store:
        assert store.info()["n_neighbors"] == 10
        assert len(store.clusters()) == 3
    linkages = ({"linkage": "average"}, {"linkage": similar}, {"linkage": Odd(), "readonly": True})
    for wrong in (*linkages, {"n_neighbors": 7}, {"n_clusters": 4}, {"dtype": "float64"}):
        refused(next(iter(wrong)), grinch.open, folder, **wrong)
    refused("linkage must be one of", grinch.open, folder.with_name("other"), linkage="avarage")
    assert not folder.with_name("other").exists()
    # A default is written down by its number.
    with grinch.open(folder.with_name("paper"), mode="paper") as store:
        assert store.info()["n_neighbors"] == 50
    grinch.open(folder.with_name("paper"), n_neighbors=50).close()
    # Double precision is kept.
    X = points(50).astype(np.float64) + 1e-9
    with grinch.open(folder.with_name("double")) as store:
        store.insert(X)
    with grinch.open(folder.with_name("double")) as store:
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
        refused("columns", store.insert, frame[list("fedcba")], ids=names(20, 20))


def test_only_one_writes_and_it_is_named_and_closed_is_closed(folder):
    with grinch.open(folder) as store:
        store.insert(points(20))
        refused(f"process {os.getpid()} on .* since 20", grinch.open, folder, error=StoreLocked)
        assert store.info()["writer"]["pid"] == os.getpid()
    store.close()
    for use in (lambda: store.insert(points(10)), lambda: len(store)):
        refused("is closed", use, error=RuntimeError)
    assert "closed" in repr(store)
    grinch.open(folder).close()


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
    assert b"secret-9-secret" in found
    assert not any(gone in found for gone in (b"secret-7-secret", b"secret-8-secret", X[7].tobytes(), b'"p8"'))
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
    X, stop = points(300), threading.Event()
    with grinch.open(folder) as store:
        store.insert(X[:200], ids=names(200))
        store.remove(["p5"])

        def write():
            for i in range(200, 300):
                if not stop.is_set():
                    store.insert(X[i : i + 1], ids=[f"p{i}"])

        writer = Call(write)
        with grinch.open(folder, readonly=True) as reader:
            reader.backup(tmp_path / "copy")
        store.backup(tmp_path / "second")
        stop.set()
        writer.result()
        refused("new or an empty", store.backup, tmp_path / "copy", error=FileExistsError)
    for name in ("copy", "second"):
        with grinch.open(tmp_path / name) as copy:
            copy.check()
            assert copy.version >= 2
            assert copy.ids == [f"p{i}" for i in range(len(copy) + 1) if i != 5]


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
    if any(r in (13, 14) for r in (*a, *b)):
        raise KeyboardInterrupt if 14 in (*a, *b) else RuntimeError("no thirteens")
    return -abs(sum(a) / len(a) - sum(b) / len(b))


@pytest.mark.parametrize(("odd", "error"), [(13, ValueError), (14, KeyboardInterrupt)])
def test_change_that_fails_leaves_the_store_as_it_was(folder, odd, error):
    with grinch.open(folder, linkage=fails_at_last) as store:
        store.insert([1, 2, 5, 7], ids=list("abcd"))
        before = store.tree
        for change in (lambda: store.insert([8, odd, 9], ids=list("efg")), lambda: store.update(["a", "b"], [3, odd])):
            refused("no thirteens" if error is ValueError else None, change, error=error)
            assert (store.version, store.ids) == (1, list("abcd"))
            same_tree(store.tree, before)
        store.insert([8, 9], ids=list("eg"))
        store.check()


def test_hostile_names_are_refused(filled):
    with closing(Database(filled, readonly=False)) as database:
        for name, value in (("snapshot", "../../etc/passwd"), ("vectors", "/etc/passwd"), ("n_features", 10**18)):
            before = database.get(name)
            database.set(name, value)
            refused("it names", grinch.open, filled, error=DamagedStore)
            database.set(name, before)
    with grinch.open(filled) as store:
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
        version = store.add_cut("fine", n_clusters=20)
        assert set(store.cuts()) == {"default", "fine"}
        born = store.changes(cut="fine")
        assert [(c.version, c.kind, c.cluster) for c in born] == [(version, "born", i) for i in range(20)]
        assert {c.cluster: c.size for c in born} == {k: len(some) for k, some in store.clusters("fine").items()}
        store.label(3, "threes", cut="fine")
        store.drop_cut("fine")
        assert set(store.cuts()) == {"default"}
        store.check()


class Odd:
    """A linkage whose summaries are no plain values."""

    def leaf(self, record):
        return [lambda: record]

    def merge(self, a, b):
        return a + b

    def score(self, a, b):
        return -abs(a[0]() - b[0]())


def test_other_linkages_are_warned_of_and_one_that_cannot_be_kept_is_refused_at_once(folder, tmp_path):
    with grinch.open(folder, linkage=Odd()) as store:
        refused("cannot be written", store.insert, [1, 2, 3])
        assert (len(store), store.version) == (0, 0)
    with grinch.open(tmp_path / "other", linkage=fails_at_last) as store:
        store.insert([1, 2, 5])
    with pytest.warns(UserWarning, match="fails_at_last.*continues with"):
        grinch.open(tmp_path / "other", linkage=similar).close()


def test_empty_store_and_empty_batches(folder):
    with grinch.open(folder) as store:
        assert (store.clusters(), store.labels().tolist(), store.ids, store.changes()) == ({}, [], [], [])
        assert store.insert(np.empty((0, 3))) == store.insert([]) == 0
        assert store.id_kind is None
        store.insert(points(5), ids=names(5))
        assert store.insert(np.empty((0, 6)), ids=[]) == store.remove([]) == store.update([], []) == 1
        store.remove(names(5))
        assert (store.clusters(), len(store.tree)) == ({}, 0)
        store.insert(points(5), ids=names(5, 5))
        store.check()


def test_ids_are_of_one_kind(folder):
    X = points(20)
    with grinch.open(folder) as store:
        store.insert(X[:5], ids=range(5))
        assert store.id_kind == "number"
        refused("'7', a text", store.insert, X[5:7], ids=[6, "7"])
        refused("ids in this store are numbers, and this is a text", store.remove, ["3"])
        assert store.insert(X[5:7], ids=np.array([6, 7], np.uint8)) == 2
        refused("60 never was", store.remove, [60])


# What an attacker found ---------------------------------------------------------------------------------------------


def test_lock_that_was_taken_away(folder):
    first = grinch.open(folder)
    first.insert(points(20))
    (folder / "writer.lock").unlink()
    with grinch.open(folder) as second:
        second.insert(points(5))
        refused("no longer this process's", first.insert, points(7), error=StoreLocked)
        assert second.insert(points(3)) == 3
        second.check()
    with pytest.raises(StoreLocked):
        first.insert(points(7))
    first._release()


def test_damage_does_not_get_right_checksums(filled, monkeypatch):
    """Of a large snapshot, most is not verified when it is opened, but before it becomes a part of the next one."""
    monkeypatch.setattr("grinch.store.snapshots.VERIFIED_BYTES", 0)
    path = snapshot_of(filled)
    means = read_snapshot(path).arrays["model/fitted.builder.summaries.arrays.means"].tobytes()
    flip(path, path.read_bytes().index(means[:256]))
    store = grinch.open(filled)
    with pytest.raises(DamagedStore, match="means"):
        store.snapshot() if store.insert(points(5), ids=names(5, 200)) else None
    refused("means", store.close, error=DamagedStore)
    with pytest.raises(DamagedStore, match="means"):
        grinch.open(filled, readonly=True).check()


@pytest.mark.parametrize("part", ["snapshot", "vectors"])
def test_files_that_are_gone_or_too_short_are_missed_at_once(filled, part):
    path = next(filled.glob(f"{part}-*"))
    data = path.read_bytes()
    for harm in (path.unlink, lambda: path.write_bytes(b""), lambda: path.write_bytes(data[:-24])):
        harm()
        refused(path.name, grinch.open, filled, error=DamagedStore)
    path.write_bytes(data)
    with grinch.open(filled) as store:
        store.check()


def test_files_of_another_store_are_refused(tmp_path):
    for name in ("one", "two"):
        with grinch.open(tmp_path / name) as store:
            store.insert(points(50))
    snapshot_of(tmp_path / "one").write_bytes(snapshot_of(tmp_path / "two").read_bytes())
    refused("another store", grinch.open, tmp_path / "one", error=DamagedStore)


CRAFTED = {
    "root": lambda arrays: arrays["links.head"].__setitem__(0, 2**30),
    "cycle": lambda arrays: arrays["links.table"].__setitem__((arrays["links.head"][0], 1), arrays["links.head"][0]),
    "neighbour": lambda arrays: arrays["gardener.neighbors.near"].__setitem__(slice(None), 2**30),
}


@pytest.mark.parametrize("what", CRAFTED)
def test_crafted_snapshots_are_refused(filled, what):
    path = snapshot_of(filled)
    snapshot = read_snapshot(path)
    arrays = {name: array.copy() for name, array in snapshot.arrays.items()}
    CRAFTED[what]({name.removeprefix("model/fitted.builder."): array for name, array in arrays.items()})
    path.unlink()
    container.write(path, KIND, snapshot.header, arrays)
    refused("damaged", grinch.open, filled)


def test_databases_that_no_store_writes_are_refused(filled):
    trigger = "create trigger t after insert on operations begin delete from points; end"
    later = "update about set value = '99' where name = 'format'"
    for queries, why in (([trigger], "trigger"), (["drop trigger t", later], "later version")):
        execute(filled / "store.sqlite", *queries)
        refused(why, grinch.open, filled, error=DamagedStore)


def test_interrupt_as_a_transaction_begins(folder, monkeypatch):
    armed, real = [], sqlite3.connect

    class Interrupted(sqlite3.Connection):
        def execute(self, query, *values):
            found = super().execute(query, *values)
            if query == "begin immediate" and armed:
                raise armed.pop()
            return found

    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: real(*given, factory=Interrupted, **named))
    with grinch.open(folder) as store:
        store.insert(points(10))
        armed.append(KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            store.insert(points(3))
        assert store.insert(points(3)) == 2


def test_forks_cannot_use_the_store_and_do_not_hold_its_lock(folder):
    store = grinch.open(folder)
    store.insert(points(20))
    read, write = os.pipe()

    def use():
        try:
            store.insert(points(5))
            os.write(write, b"inserted")
        except RuntimeError as error:
            store.close()
            os.write(write, str(error).encode())
        time.sleep(20)

    pid = kills.fork(use)
    assert b"is a fork" in os.read(read, 1000)
    assert store.insert(points(5)) == 2
    store.check()
    store.close()
    grinch.open(folder).close()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_snapshot_that_cannot_be_begun_fails_no_change(folder, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_CHANGED", 10)

    def refuse():
        raise OSError(12, "no memory")

    monkeypatch.setattr(os, "fork", refuse)
    with grinch.open(folder) as store:
        assert [store.insert(points(50)) for _ in range(2)] == [1, 2]
        assert len(store) == 100


def test_background_snapshots_leave_nothing_behind(folder, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_CHANGED", 1)
    monkeypatch.setattr(snapshots, "CHANGED_SHARE", 0.0)
    with grinch.open(folder) as store:
        for seed in range(4):
            store.insert(points(30, seed))
            store.refine()
        store.check()  # waits for the snapshot of the last insert; no other is begun beside it
        store.insert(points(30, 9))
        store.check()
        assert store.info()["operations_since_snapshot"] == 0
        with grinch.open(folder, readonly=True) as reader:
            same_tree(reader.tree, store.tree)
            reader.check()
            refused("readonly=True", reader.insert, points(1), error=PermissionError)
    assert sorted(path.name.split("-")[0] for path in folder.iterdir()) == [
        *("snapshot", "store.sqlite", "vectors", "writer.lock")
    ]
    refused("no store to read", grinch.open, folder / "none", error=FileNotFoundError, readonly=True)


def test_a_snapshot_that_ends_late_does_not_undo_a_refinement(tmp_path, monkeypatch):
    """What refinement did is in no log: only its own snapshot has it, and an older one must not count again."""
    rng = np.random.default_rng(0)
    ended = []

    def write_later(self, name, content, forget, then):
        frozen = copy.deepcopy(content)
        ended.append(lambda: (self.write(name, frozen), then()))

    with grinch.open(tmp_path / "s", n_clusters=4) as store:
        store.insert(rng.normal(size=(400, 3)))
        with monkeypatch.context() as patched:
            patched.setattr(snapshots, "MIN_CHANGED", 1)
            patched.setattr(snapshots.Snapshots, "fork_snapshot", write_later)
            store.insert(rng.normal(size=(300, 3)))
            patched.setattr(snapshots, "MIN_CHANGED", 10**9)
            store.refine()
            store.add_cut("fine", n_clusters=20)
            expected = store.tree.to_newick()
            assert len(ended) == 1
            ended[0]()
        assert store.tree.to_newick() == expected
        with grinch.open(tmp_path / "s", readonly=True) as reader:
            assert reader.tree.to_newick() == expected
        store.check()
