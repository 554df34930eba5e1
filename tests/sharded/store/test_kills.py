"""A writer of a sharded store that is killed at any moment leaves each change as a whole, or nothing of it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest

import grinch
from branching import compare, grouped
from effort import at_night
from grinch.sharded.store import journal, session
from grinch.sharded.store.branch import Branch
from grinch.sharded.store.manifest import Manifest
from grinch.sharded.store.versions import Versions
from grinch.store import Store
from killing import kills

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")

# What a change consists of; a process is killed before or after each of their calls.
STEPS = [
    (journal, "write"),
    (journal, "remove"),
    (Branch, "_note"),
    (Store, "insert"),
    (Store, "remove"),
    (Store, "update"),
    (Store, "close"),
    (Versions, "_write"),
    (Manifest, "write"),
    (session, "new_branch"),
    (session.shutil, "rmtree"),
]


class Killed:
    """Kill this process at the ``number``-th of the calls of all steps, before it or after it."""

    def __init__(self, number, is_after):
        self.number, self.is_after, self.count = number, is_after, 0

    def __enter__(self):
        for place, name in STEPS:
            setattr(place, name, self.wrapped(getattr(place, name)))

    def __exit__(self, *_):
        # Nothing is left to be killed: all of it was done.
        os._exit(0)

    def wrapped(self, function):
        def call(*args, **kwargs):
            self.count += 1
            number = self.count
            if number == self.number and not self.is_after:
                os.kill(os.getpid(), signal.SIGKILL)
            found = function(*args, **kwargs)
            if number == self.number:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return call


@pytest.fixture
def place(tmp_path):
    """A folder in memory, where there is one: what is killed are processes, and syncing takes most of the time."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


X, NAMES = grouped(0, 60), [f"p{i}" for i in range(60)]
NEW, NEW_NAMES = grouped(1, 30), [f"q{i}" for i in range(30)]


def before():
    return dict(zip(NAMES, X, strict=True)), dict.fromkeys(NAMES, "old")


def insert(store):
    store.insert(NEW, ids=NEW_NAMES, payload=NEW_NAMES)


def update(store):
    store.update(NAMES[:30], NEW, payload=NEW_NAMES)


def remove(store):
    store.remove(NAMES[::2])


def after(change):
    rows, payloads = before()
    if change is remove:
        return {name: row for name, row in rows.items() if name not in NAMES[::2]}, payloads
    names = NEW_NAMES if change is insert else NAMES[:30]
    return rows | dict(zip(names, NEW, strict=True)), payloads | dict(zip(names, NEW_NAMES, strict=True))


def make(folder, max_points):
    with grinch.open(folder, max_points=30) as store:
        store.insert(X, ids=NAMES, payload=["old"] * 60)
        assert len(store.branches) > 2
        store._set(max_points=max_points)


def kill_at(folder, change, number, is_after):
    """Whether a process that makes a change was killed at this moment; else it has made the change."""

    def work():
        with Killed(number, is_after):
            store = grinch.open(folder)
            change(store)
            store.close()

    return os.waitpid(kills.fork(work), 0)[1] == signal.SIGKILL


def holds(store, rows, payloads):
    try:
        compare(store, rows, payloads)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    ("change", "max_points", "moments"),
    [
        (insert, 1000, (1, 4)),
        (insert, 30, (14, 24)),
        (update, 1000, (1, 6)),
        *(at_night(insert, most, range(1, 200)) for most in (1000, 30, 12)),
        at_night(update, 1000, range(1, 200)),
        at_night(update, 20, range(1, 200)),
        at_night(remove, 1000, range(1, 200)),
    ],
)
def test_a_killed_writer_leaves_all_or_nothing(place, change, max_points, moments):
    make(place / "made", max_points)
    found = set()
    for number in moments:
        for is_after in (False, True):
            folder = place / f"{number}-{is_after}"
            shutil.copytree(place / "made", folder)
            was_killed = kill_at(folder, change, number, is_after)
            with grinch.open(folder, readonly=True) as reader:
                assert reader.n_points in (len(before()[0]), len(after(change)[0])) or was_killed
            with grinch.open(folder) as store:
                is_made = holds(store, *after(change))
                assert is_made or holds(store, *before()), f"killed at {number}, after: {is_after}"
                assert is_made or was_killed
                found.add((is_made, was_killed))
                assert {path.name for path in folder.glob("branch-*")} == set(store.branches)
                assert not (folder / journal.FILE).exists()
                store.check()
                change(store)
                compare(store, *after(change))
            shutil.rmtree(folder)
        if not was_killed:
            break
    assert (True, True) in found
    assert (False, True) in found or moments[0] > 1


def test_a_store_that_was_being_made(place):
    for number in (1, 2, 3, 4):
        folder = place / str(number)

        def work(folder=folder, number=number):
            with Killed(number, False), grinch.open(folder, max_points=30) as store:
                store.insert(X, ids=NAMES)

        assert os.waitpid(kills.fork(work), 0)[1] == signal.SIGKILL
        with grinch.open(folder, max_points=30) as store:
            assert store.n_points in (0, 60)
            store.insert(X, ids=NAMES)
            compare(store, before()[0], {})
            np.testing.assert_array_equal(store.vectors(NAMES), X)
