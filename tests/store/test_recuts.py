"""Automatic cuts that are made in a forked process: when they take effect is in the log, however slow it was."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import struct
import time
from contextlib import suppress

import numpy as np
import pytest

import grinch
from effort import at_night, trials
from grinch import Grinch
from grinch.cuts.tracking import MadeCut, Tracker
from grinch.store import recuts, snapshots, state
from killing import kills
from store.made import die_after, needs_fork, points, same_partition

pytestmark = needs_fork

X = points(1000, seed=3)
ACKNOWLEDGED = struct.Struct("<qq")


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory):
    """Compile all, so that no fork has to."""
    with grinch.open(tmp_path_factory.mktemp("warm") / "store") as store:
        store.insert(X[:100])
        for i in range(100, 150):
            store.insert(X[[i]])


@pytest.fixture(autouse=True)
def few_points(monkeypatch):
    """Of no number of points is a cut made at once, but for batches of a quarter."""
    monkeypatch.setattr(state, "MAX_AT_ONCE", 0)


@pytest.fixture
def door(tmp_path, monkeypatch):
    """A file without which no forked process begins to make a cut; nothing is left that waits for it."""
    path, number = tmp_path / "door", os.getpid()

    def wait():
        while not path.exists() and os.getppid() == number:
            time.sleep(0.001)

    monkeypatch.setattr(recuts, "before_making", wait)
    yield path
    path.touch()


def insert_until_cut(store, first):
    """Insert points, one at a time, until a cut is taken that another process has made; return the next point."""
    for i in range(first, len(X)):
        version = store.insert(X[[i]])
        if store.version > version:
            assert store.version == version + 1
            return i + 1
        time.sleep(0.02)
    raise AssertionError("no cut was taken")


def state_of(store):
    return store.version, store.labels().tolist(), store.changes(), store.cuts()


def no_cut_is_made(*_):
    raise AssertionError("a cut was made")


def test_a_slow_cut_takes_effect_when_it_is_logged(tmp_path, door, monkeypatch):
    folder = tmp_path / "store"
    with grinch.open(folder) as store, grinch.open(folder, readonly=True) as reader:
        store.insert(X[:100])
        store.insert(X[100:130])  # due: changed, and no quarter by itself
        store.insert(X[130:140])
        assert store.cuts()["default"]["points_changed"] >= 40 > 140 / 4
        then = len(store)
        for i in range(then, then + 10):
            store.insert(X[[i]])
        assert store.version == 13
        labels, version = store.labels(), store.version
        reader.refresh()
        assert state_of(reader) == state_of(store)
        door.touch()
        n = insert_until_cut(store, then + 10)
        # All that is there agrees, without making the cut again.
        monkeypatch.setattr(MadeCut, "of", no_cut_is_made)
        assert state_of(reader) != state_of(store)
        reader.refresh()
        assert state_of(reader) == state_of(store)
        kinds = {change.kind for change in store.changes(since=store.version - 1)}
        assert kinds <= {"born", "dissolved", "split", "merged", "grew", "shrank"}
        assert store.cuts()["default"]["points_changed"] <= n - 130
        assert len(labels) == n - (store.version - version - 1)
        store.check()
        shutil.copytree(folder, tmp_path / "copy")
        with grinch.open(tmp_path / "copy", readonly=True) as copy:
            assert state_of(copy) == state_of(store)
        grinch.store.replay(folder, tmp_path / "replayed")
        with grinch.open(tmp_path / "replayed", readonly=True) as copy:
            assert copy.labels().tolist() == store.labels().tolist()
        monkeypatch.undo()


def is_cut_of_the_tree_then(store):
    """Whether the clusters are those of a tree without the points that came since it was taken."""
    n = len(store) - store.cuts()["default"]["points_changed"]
    return same_partition(store.labels()[:n], Grinch().fit(X[:n]).labels_)


def test_what_is_taken_is_the_cut_of_the_tree_then(tmp_path):
    with grinch.open(tmp_path) as store:
        store.insert(X[:200])
        first = 200
        for _ in range(2):
            first = insert_until_cut(store, first)
            assert is_cut_of_the_tree_then(store)


@pytest.mark.parametrize("ends", ["killed", "raises", "is killed for memory half way"])
def test_a_process_that_dies_leaves_the_clusters_as_they_are(tmp_path, monkeypatch, ends):
    def die(*_):
        if ends == "raises":
            raise MemoryError
        os.kill(os.getpid(), signal.SIGKILL)

    if ends.startswith("is killed"):
        monkeypatch.setattr(MadeCut, "to_bytes", lambda cut: os.getpid() == number or die())
    else:
        monkeypatch.setattr(recuts, "before_making", die)
    number = os.getpid()
    with grinch.open(tmp_path / "store", n_clusters=3) as store:
        store.insert(X[:100])
    with grinch.open(tmp_path / "store") as store:
        if not ends.startswith("is killed"):
            store.add_cut("auto")
            store.insert(X[100:130])
            for i in range(130, 170):
                store.insert(X[[i]])
            assert store.version == 43
            assert store.cuts()["auto"]["points_changed"] >= 70
            monkeypatch.undo()
    with grinch.open(tmp_path / "store") as store:
        if not ends.startswith("is killed"):
            # It was made when the store was closed.
            assert store.version == 44
            assert store.cuts()["auto"]["points_changed"] == 0
            assert same_partition(store.labels("auto"), Grinch().fit(X[:170]).labels_)
        store.check()


FULL = sqlite3.OperationalError("database or disk is full")
FULL.sqlite_errorcode, FULL.sqlite_errorname = sqlite3.SQLITE_FULL, "SQLITE_FULL"


@pytest.mark.parametrize(
    ("when", "error"),
    [
        ("at its commit", FULL),
        ("half way", MemoryError()),
        ("half way", KeyboardInterrupt()),
        ("at its commit", KeyboardInterrupt()),
    ],
)
def test_a_cut_that_cannot_be_taken_is_made_again(tmp_path, monkeypatch, when, error):
    """The change before it is made, and memory, disk and readers agree."""
    take, faults, has_fired = Tracker.recut, kills.Faults(), False

    def recut(*arguments):
        nonlocal has_fired
        has_fired, changes = True, take(*arguments)
        if when == "half way":
            raise error
        faults.arm("commit", 1, kills.Fate("before", error))
        return changes

    folder = tmp_path / "store"
    with kills.Calls(faults), grinch.open(folder) as store:
        store.insert(X[:100])
        store.insert(X[100:130])
        monkeypatch.setattr(Tracker, "recut", recut)
        for n in range(130, len(X)):
            with suppress(KeyboardInterrupt):
                store.insert(X[[n]])
            if has_fired:
                break
            time.sleep(0.02)
        assert has_fired
        assert (len(store), store.version) == (n + 1, n - 127)
        assert 4 * store.cuts()["default"]["points_changed"] >= 100
        store.check()
        for place in (folder, shutil.copytree(folder, tmp_path / "copy")):
            with grinch.open(place, readonly=True) as reader:
                assert state_of(reader) == state_of(store)
        monkeypatch.undo()
        monkeypatch.setattr(state, "MAX_AT_ONCE", 0)
        faults.disarm()
        insert_until_cut(store, n + 1)
        assert is_cut_of_the_tree_then(store)
        store.check()


@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()])
def test_closing_when_a_cut_cannot_be_taken(tmp_path, monkeypatch, error):
    """Nothing is lost, and it is made when the store is closed the next time."""
    faults, folder = kills.Faults(), tmp_path / "store"
    with kills.Calls(faults):
        store = grinch.open(folder)
        store.insert(X[:100])
        store.insert(X[100:130])
        before = state_of(store)
        faults.arm("commit", 1, kills.Fate("before", error))
        with pytest.warns(UserWarning, match="nothing is lost") if error is FULL else pytest.raises(KeyboardInterrupt):
            store.close()
        faults.disarm()
        with grinch.open(folder, readonly=True) as reader:
            reader.check()
            assert state_of(reader) == before
        grinch.open(folder).close()
    with grinch.open(folder, readonly=True) as reader:
        assert reader.cuts()["default"]["points_changed"] == 0
        assert is_cut_of_the_tree_then(reader)


def test_closing_waits_for_a_cut_and_takes_it(tmp_path):
    with grinch.open(tmp_path) as store:
        store.insert(X[:200])
        store.insert(X[200:240])
        version = store.insert(X[240:280])
    with grinch.open(tmp_path, readonly=True) as store:
        assert store.version > version
        assert 4 * store.cuts()["default"]["points_changed"] < 280
        assert is_cut_of_the_tree_then(store)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_recut_makes_it_now_and_waits_for_nothing(tmp_path, door):
    with grinch.open(tmp_path / "store") as store:
        store.insert(X[:200])
        store.insert(X[200:240])
        store.insert(X[240:280])
        version = store.recut()
        assert store.cuts()["default"]["points_changed"] == 0
        assert same_partition(store.labels(), Grinch().fit(X[:280]).labels_)
        door.touch()
        for i in range(280, 300):
            store.insert(X[[i]])
        assert store.version == version + 20
    with grinch.open(tmp_path / "store", readonly=True) as store:
        assert store.version == version + 20


def test_a_large_batch_is_cut_at_once_and_not_again(tmp_path, door):
    with grinch.open(tmp_path / "store") as store:
        store.insert(X[:100])
        store.insert(X[100:130])
        store.insert(X[130:140])
        assert store.cuts()["default"]["points_changed"]
        assert store.insert(X[140:300]) == store.version == 4
        assert store.cuts()["default"]["points_changed"] == 0
        assert same_partition(store.labels(), Grinch().fit(X[:300]).labels_)
        # That of the tree before is out of date.
        door.touch()
        for i in range(300, 320):
            store.insert(X[[i]])
            time.sleep(0.01)
        assert store.version == 24


def test_where_nothing_forks_a_cut_is_made_with_the_change(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "CAN_FORK", False)
    with grinch.open(tmp_path / "store") as store:
        store.insert(X[:100])
        for i in range(100, 140):
            changed = 1 + store.cuts()["default"]["points_changed"]
            assert store.insert(X[[i]]) == store.version
            if 4 * changed >= len(store):
                assert store.cuts()["default"]["points_changed"] == 0
                assert same_partition(store.labels(), Grinch().fit(X[: i + 1]).labels_)


def test_a_writer_that_dies_before_a_cut_is_taken_leaves_what_was_there(tmp_path, door):
    folder, seen = tmp_path / "store", tmp_path / "seen"

    def work():
        store = grinch.open(folder)
        store.insert(X[:100])
        store.insert(X[100:130])
        store.insert(X[130:140])
        door.touch()
        time.sleep(0.2)  # it may be made by now, and is not taken
        seen.write_text(json.dumps([store.version, store.labels().tolist()]))

    die_after(work)
    version, labels = json.loads(seen.read_text())
    assert version == 3
    for _ in range(2):
        with grinch.open(folder, readonly=True) as store:
            store.check()
            assert (store.version, store.labels().tolist()) == (version, labels)
    with kills.open_patiently(folder) as store:
        assert not [path for path in folder.iterdir() if path.name.startswith(".cut")]
        assert (store.version, store.labels().tolist()) == (version, labels)
    # It was due, and is made when the store is closed.
    with grinch.open(folder, readonly=True) as store:
        assert store.version == version + 1
        assert same_partition(store.labels(), Grinch().fit(X[:140]).labels_)


def batches(rng):
    """Batches of one point and of more, for as long as there are any."""
    first = 100
    while first < 400:
        n = rng.choice((1, 3, 10, 25))
        yield X[first : first + n]
        first += n


def write(folder, out, seed, ready=None):
    """Insert batches; write down after each of them which version there is, and its clusters."""
    store = grinch.open(folder)
    store.insert(X[:100])
    os.write(out, ACKNOWLEDGED.pack(store.version, digest(store)))
    if ready is not None:
        ready.touch()
    for batch in batches(random.Random(seed)):
        store.insert(batch)
        os.write(out, ACKNOWLEDGED.pack(store.version, digest(store)))
        time.sleep(0.001)
    store.close()


def digest(store):
    return int.from_bytes(np.sort(np.uint64(1 + store.labels()) * np.uint64(2**40 + 15)).tobytes()[:7], "little") + sum(
        (i + 1) * label for i, label in enumerate(store.labels().tolist())
    )


def acknowledged(read):
    data = b""
    while piece := os.read(read, 2**16):
        data += piece
    os.close(read)
    return dict(ACKNOWLEDGED.iter_unpack(data[: len(data) // ACKNOWLEDGED.size * ACKNOWLEDGED.size]))


def test_a_reader_in_another_process_sees_the_same_clusters(tmp_path):
    folder, ready, (read, out) = tmp_path / "store", tmp_path / "ready", os.pipe()
    pid = kills.fork(lambda: write(folder, out, 1, ready))
    os.close(out)
    while not ready.exists():
        time.sleep(0.001)
    seen, has_ended = {}, False
    with grinch.open(folder, readonly=True) as reader:
        while not has_ended:
            has_ended = os.waitpid(pid, os.WNOHANG)[0] == pid
            reader.refresh()
            seen[reader.version] = digest(reader)
        reader.check()
    expected = acknowledged(read)
    assert max(expected) <= max(seen)
    common = expected.keys() & seen.keys()
    assert len(common) > 3
    assert {version: seen[version] for version in common} == {version: expected[version] for version in common}


@pytest.mark.parametrize("seed", [1, 2, *(at_night(seed) for seed in range(3, 12))])
def test_kills_beside_cuts_that_are_being_made(tmp_path, seed):
    """What was acknowledged is there; what was not is there as a whole, or not at all, and the store goes on."""
    rng = random.Random(seed)
    for number in range(trials(4, 8)):
        folder = tmp_path / str(number)
        moment = kills.Moment(rng.choice(("commit", "fsync", "pwrite")), rng.choice(("before", "after")), 0, 0.0, False)
        at, count = rng.randint(8, 50), 0

        def decide(called, moment=moment, at=at):
            nonlocal count
            count += called == moment.name
            return kills.Fate(moment.ending) if called == moment.name and count == at else None

        read, out = os.pipe()

        def work(folder=folder, decide=decide, out=out):
            with kills.Calls(decide):
                write(folder, out, seed)

        pid = kills.fork(work)
        os.close(out)
        os.waitpid(pid, 0)
        expected = acknowledged(read)
        with grinch.open(folder, readonly=True) as reader:
            reader.check()
            version, seen, n = reader.version, digest(reader), len(reader)
        if expected:
            assert version >= max(expected)
            assert expected.get(version, seen) == seen
        with kills.open_patiently(folder) as store:
            assert (store.version, digest(store), len(store)) == (version, seen, n)
            store.check()
        with grinch.open(folder, readonly=True) as reader:
            reader.check()
            assert 4 * reader.cuts()["default"]["points_changed"] < max(len(reader), 1)
            shutil.rmtree(folder)


def test_snapshots_are_taken_beside_cuts(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_CHANGED", 20)
    with grinch.open(tmp_path / "store") as store:
        store.insert(X[:100])
        for batch in batches(random.Random(0)):
            store.insert(batch)
            store.check()
        now = state_of(store)
        with grinch.open(tmp_path / "store", readonly=True) as reader:
            assert state_of(reader) == now
    with grinch.open(tmp_path / "store") as store:
        store.check()
