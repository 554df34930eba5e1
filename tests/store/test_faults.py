"""Writes that fail: the store is as it was before the operation, in memory and on disk, and goes on."""

import contextlib
import errno
import functools
import re
import shutil
import sqlite3
import subprocess

import numpy as np
import pytest

import grinch
from effort import at_night, trials
from killing import kills
from store.made import names

resource = pytest.importorskip("resource")
FULL = OSError(errno.ENOSPC, "No space left on device")
BROKEN = OSError(errno.EIO, "Input/output error")
FULL_DATABASE = sqlite3.OperationalError("database or disk is full")
FULL_DATABASE.sqlite_errorcode, FULL_DATABASE.sqlite_errorname = sqlite3.SQLITE_FULL, "SQLITE_FULL"


def vectors(seed, n):
    return kills.vectors_for(np.random.default_rng(seed), n)


def new_store(folder, is_sparse=False):
    store = grinch.open(folder, n_clusters=5)
    # Dense rows that come later are made sparse in a store that began so.
    rows = kills.points_for(3 if is_sparse else 1, np.random.default_rng(0), 60)
    store.insert(rows, ids=names(60), payload=[{"n": i} for i in range(60)])
    store.label(0, "first")
    store.remove(["p3", "p4"])
    return store


OPERATIONS = {
    "insert": lambda store: store.insert(
        vectors(1, 40), ids=names(40, letter="q"), payload=[{"q": i} for i in range(40)]
    ),
    "remove": lambda store: store.remove(["p10", "p11", "p12"]),
    "update": lambda store: store.update(["p20", "p21"], vectors(2, 2), payload=["new", "er"]),
    "refine": lambda store: store.refine(),
    "snapshot": lambda store: store.snapshot(),
    "compact": lambda store: store.compact(),
    "label": lambda store: store.label(1, "second"),
    "add_cut": lambda store: store.add_cut("fine", n_clusters=15),
}
FAULTS = {
    "full disk": ("pwrite", kills.Fate("before", FULL)),
    "full disk after half of it": ("pwrite", kills.Fate("half", FULL)),
    "short write, then full": ("pwrite", kills.Fate("short", FULL)),
    "sync fails": ("fsync", kills.Fate("before", BROKEN)),
    "sync fails after all": ("fsync", kills.Fate("after", BROKEN)),
    "rename fails": ("replace", kills.Fate("before", FULL)),
    "commit fails": ("commit", kills.Fate("before", FULL_DATABASE)),
    "truncate fails": ("ftruncate", kills.Fate("before", BROKEN)),
}


@pytest.fixture(scope="module")
def state_after(tmp_path_factory):
    """By operation, the state of a store after it, when nothing fails."""

    @functools.cache
    def state_after(operation, is_sparse):
        with new_store(tmp_path_factory.mktemp("twin") / "store", is_sparse) as store:
            OPERATIONS[operation](store)
            return kills.state_of(store)

    return state_after


def seen_by_a_reader(folder):
    with grinch.open(folder, readonly=True) as reader:
        reader.check()
        return kills.state_of(reader)


def failure_of(operate, store):
    try:
        operate(store)
    except OSError as error:
        return error
    return None


# Every day all faults of one operation, and the gravest of the others.
GRAVEST = ("full disk after half of it", "sync fails", "commit fails")
CASES = [
    (operation, fault, is_sparse)
    if fault in GRAVEST or (operation == "insert" and not is_sparse)
    else at_night(operation, fault, is_sparse)
    # Sparse rows are in two files.
    for is_sparse in (False, True)
    for operation in (("insert", "update", "compact") if is_sparse else OPERATIONS)
    for fault in FAULTS
]


@pytest.mark.parametrize(("operation", "fault", "is_sparse"), CASES)
def test_an_operation_that_fails_changes_nothing(tmp_path, state_after, operation, fault, is_sparse):
    """At its first such call, its second, and so on, as long as there are that many; every day, up to the third."""
    faults, (name, fate), expected = kills.Faults(), FAULTS[fault], state_after(operation, is_sparse)
    with kills.Calls(faults), new_store(tmp_path / "store", is_sparse) as store:
        before = kills.state_of(store)
        for number in range(1, 1 + trials(3, 5)):
            faults.arm(name, number, fate)
            error = failure_of(OPERATIONS[operation], store)
            faults.disarm()
            if error is None:
                break
            assert faults.has_fired, error
            assert kills.state_of(store) == before, f"call {number}: {error}"
            assert seen_by_a_reader(store.folder) == before, f"call {number}: {error}"
        else:
            OPERATIONS[operation](store)
        assert kills.state_of(store) == expected
        assert seen_by_a_reader(store.folder) == expected
    assert seen_by_a_reader(tmp_path / "store") == expected


def insert(store, k, n=50):
    return store.insert(vectors(k, n), ids=[f"{k}-{i}" for i in range(n)])


def check_after_a_failure(store, states, k):
    """As it was before, to this process and to others."""
    assert kills.state_of(store) == states[-1]
    assert seen_by_a_reader(store.folder) == states[-1]
    assert f"{k}-0" not in store.ids


def insert_until_it_fails(store, states, first):
    """Insert with little room; the number of the batch that failed."""
    for k in range(first, first + 400):
        error = failure_of(lambda store, k=k: insert(store, k), store)
        if error is not None:
            assert re.search(r"(No space left on device|File too large).*/(store\.sqlite|vectors-)", str(error))
            assert error.errno in (errno.ENOSPC, errno.EFBIG)
            check_after_a_failure(store, states, k)
            return k
        states.append(kills.state_of(store))
    raise AssertionError("the disk was never full")


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 10 MB; mounting takes rights and tools that not everybody has."""
    mount, image = tmp_path / "disk", tmp_path / "image"
    mount.mkdir()
    image.write_bytes(bytes(10_000_000))
    commands = [["mkfs.ext4", "-q", "-F", "-m", "0", image], ["mount", "-o", "loop", image, mount]]
    try:
        for command in commands:
            subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a small disk is not possible here")
    yield mount
    subprocess.run(["umount", mount], check=True)


def fill(disk, left):
    """Leave this much room on a disk, and not even that if it is needed for keeping books."""
    with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
        while shutil.disk_usage(disk).free > left:
            filler.write(bytes(2048))


def test_a_disk_that_is_full(small_disk):
    with grinch.open(small_disk / "store", n_clusters=5) as store:
        insert(store, 0)
        states = [kills.state_of(store)]
        for round, left in enumerate((50_000, 0, 200_000, 9_000)[: trials(2, 4)]):
            fill(small_disk, left)
            k = insert_until_it_fails(store, states, 1 + 1000 * round)
            store.check()
            (small_disk / "filler").unlink()
            insert(store, k)
            states.append(kills.state_of(store))
    assert seen_by_a_reader(small_disk / "store") == states[-1]


def test_files_that_may_not_grow(tmp_path):
    with grinch.open(tmp_path / "store", n_clusters=5) as store:
        insert(store, 0)
        states, (soft, hard) = [kills.state_of(store)], resource.getrlimit(resource.RLIMIT_FSIZE)
        for round in range(trials(1, 3)):
            store.snapshot()  # and none in the background
            largest = max(path.stat().st_size for path in store.folder.iterdir())
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 5000 * round, hard))
            try:
                k = insert_until_it_fails(store, states, 1 + 1000 * round)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            store.check()
            insert(store, k)
            states.append(kills.state_of(store))
    assert seen_by_a_reader(tmp_path / "store") == states[-1]


def test_a_store_that_cannot_be_made_can_be_made_later(tmp_path):
    faults = kills.Faults()
    with kills.Calls(faults):
        for name in ("pwrite", "fsync", "replace", "commit"):
            for number in range(1, 4):
                faults.arm(name, number, kills.Fate("before", FULL_DATABASE if name == "commit" else FULL))
                try:
                    grinch.open(tmp_path / name).close()
                except OSError:
                    assert faults.has_fired
                faults.disarm()
                with grinch.open(tmp_path / name) as store:
                    assert len(store) == store.version == 0
                shutil.rmtree(tmp_path / name)
