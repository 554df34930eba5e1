"""A folder that has files of a store and no readable database is refused by name, and stays as it is."""

import os
import shutil
import tarfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import grinch
from commands import run_command
from grinch.legacy import convert
from grinch.store import DamagedStore
from refusals import refused
from store.made import die_after, execute, files, overwrite, points, snapshot_of
from threads import held

N = 40


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "store"
    with grinch.open(folder, n_clusters=4) as store:
        store.insert(points(N), ids=[f"p{i}" for i in range(N)], payload=[{"n": i} for i in range(N)])
        store.remove(["p3"])
    (folder / "my notes.txt").write_text("mine")
    return folder


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made, tmp_path / "store")
    return tmp_path / "store"


DAMAGE = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: os.truncate(path, 0),
    "a few bytes": lambda path: os.truncate(path, 10),
    "the header alone": lambda path: os.truncate(path, 100),
    "one page": lambda path: os.truncate(path, 4096),
    "cut in half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "noise": lambda path: path.write_bytes(np.random.default_rng(0).bytes(path.stat().st_size)),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "first page of zeros": lambda path: overwrite(path, 0, bytes(4096)),
    "header, then zeros": lambda path: overwrite(path, 100, bytes(path.stat().st_size - 100)),
    "a table dropped": lambda path: execute(path, "drop table points"),
    "of another program": lambda path: (path.unlink(), execute(path, "create table about (name text, value text)")),
}
REFUSED = r"store/store\.sqlite is damaged: .* from a backup, or .*: grinch store recover .*/store NEW$"


@pytest.mark.parametrize("damage", DAMAGE)
def test_no_readable_database_is_refused_and_nothing_changes(folder, damage):
    DAMAGE[damage](folder / "store.sqlite")
    before = files(folder)
    for how in ({}, {"readonly": True}, {"n_clusters": 4}):
        refused(REFUSED, grinch.open, folder, error=DamagedStore, **how)
        assert files(folder) == before


COMMANDS = [
    *("serve store --port 0", "serve store --port 0 --read-only"),
    *("explore store --no-browser", "explore store --export page.html"),
    *("add store points.csv", "remove store p1", "clusters store", "changes store", "predict store points.csv"),
    *("label store 0 zero", "cuts store", "recut store", "refine store", "store backup store copy"),
    *(f"store {name} store" for name in ("info", "check", "compact", "snapshot", "export")),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_it(folder, command, monkeypatch):
    monkeypatch.setattr("grinch.serve.api.app.run", lambda *_, **__: None)
    (folder.parent / "points.csv").write_text("a,b,c\n1,2,3\n4,5,7\n")
    for damage in ("empty", "gone", "of another program"):
        DAMAGE[damage](folder / "store.sqlite") if (folder / "store.sqlite").exists() else None
        before = files(folder)
        done = run_command(*command.split(), cwd=folder.parent, columns=10_000)
        assert done.returncode == 2
        assert "store/store.sqlite is damaged" in done.stderr
        assert "grinch store recover store NEW" in done.stderr
        assert "a new store is made" not in done.stdout
        assert files(folder) == before
        (folder / "store.sqlite").touch()


def assert_refused(folder, match, noted=()):
    """However it is opened, it is refused, and its files stay as they are, but those with these names."""
    before = {name: content for name, (content, _) in files(folder).items()}
    for readonly in (False, True):
        refused(match, grinch.open, folder, error=DamagedStore, readonly=readonly)
        after = {name: content for name, (content, _) in files(folder).items()}
        assert after | {name: before[name] for name in noted} == before
    return before


def test_what_is_in_the_log_outlasts_an_emptied_database(tmp_path):
    """SQLite deletes the log beside an empty file."""
    folder = tmp_path / "store"
    die_after(lambda: grinch.open(folder).insert(points(N)))
    whole = (folder / "store.sqlite").read_bytes()
    os.truncate(folder / "store.sqlite", 0)
    assert len(assert_refused(folder, "it is empty")["store.sqlite-wal"]) > 4096
    (folder / "store.sqlite").write_bytes(whole)
    with grinch.open(folder) as store:
        assert len(store) == N


def test_damage_that_is_found_late_changes_nothing(folder):
    """Not in the header, but where the snapshot is named, or in the snapshot: after the lock is taken."""
    execute(folder / "store.sqlite", "update about set value = '\"snapshot-7.grinch\"' where name = 'snapshot'")
    assert_refused(folder, r"store\.sqlite is damaged: the checksum of a row in 'about'")


def test_damage_beside_the_log_of_a_writer_that_died_changes_nothing(tmp_path):
    """The log stays as it is; only once all is read would it become a part of the database."""
    folder = tmp_path / "store"

    def work():
        store = grinch.open(folder)
        store.insert(points(N))
        store.snapshot()
        store.insert(points(5, 1))

    die_after(work)
    overwrite(snapshot_of(folder), 4096, b"damaged")
    # Who writes is noted, and the index of the log is no more than that.
    before = assert_refused(folder, r"snapshot-1-\w+\.grinch is damaged", ("writer.lock", "store.sqlite-shm"))
    assert before["store.sqlite-wal"]


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_reader_leaves_a_store_as_it_found_it(folder, is_shared):
    before = files(folder)
    with held(nullcontext) if is_shared else nullcontext(), grinch.open(folder, readonly=True) as store:
        assert len(store.ids) == N - 1
        store.check()
    assert files(folder) == before


@pytest.mark.parametrize("name", ["writer.lock", "thesis.txt", ".DS_Store"])
def test_a_store_is_made_beside_hidden_files_alone(tmp_path, name):
    (tmp_path / name).write_text("years of work")
    if name.startswith("."):
        grinch.open(tmp_path, n_clusters=4).close()
        # A reader may say how it would cut a new store.
        grinch.open(tmp_path, readonly=True, n_clusters=7).close()
    else:
        refused("is not empty and has no store in it", grinch.open, tmp_path, error=FileExistsError)
    refused("is a file", grinch.open, tmp_path / name, error=NotADirectoryError)
    assert (tmp_path / name).read_text() == "years of work"


@pytest.mark.parametrize("content", [b"", bytes(80), b'{"pid": 1, "host": "a", "since": 0}'])
def test_a_store_is_made_beside_the_lock_of_an_interrupted_start(tmp_path, content):
    """After a power cut, the lock may have its length and none of its bytes."""
    (tmp_path / "writer.lock").write_bytes(content)
    with grinch.open(tmp_path) as store:
        assert store.insert([[0.0], [1.0]]) == 1


# What is deleted ------------------------------------------------------------------------------------------------------


def test_only_files_that_the_store_made_are_deleted(folder, tmp_path):
    """A snapshot and rows that look like ours, and came from elsewhere, stay whatever the store does."""
    strange = ["snapshot-99-deadbeef.grinch", "vectors-deadbeef.bin", "vectors-deadbeef.bin.ends", "branch-00000"]
    for name in strange:
        (folder / name).write_text("mine")
    with grinch.open(folder) as store:
        store.insert(points(5, 1), ids=list("abcde"))
        store.snapshot()
        store.refine()
        store.compact()
        store.check()
    with grinch.open(folder) as store:
        store.check()
    assert {name: (folder / name).read_text() for name in strange} == dict.fromkeys(strange, "mine")
    assert (folder / "my notes.txt").read_text() == "mine"
    ours = {path.name for path in folder.iterdir()} - {*strange, "my notes.txt", "store.sqlite", "writer.lock"}
    assert sorted(name.split("-")[0] for name in ours) == ["snapshot", "vectors"]


def test_an_older_database_does_not_delete_what_is_newer(folder, tmp_path):
    """As after a restore of some of the files."""
    shutil.copytree(folder, tmp_path / "older")
    with grinch.open(folder) as store:
        store.insert(points(30, 2), ids=[f"q{i}" for i in range(30)])
        store.compact()
    newer = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".grinch", ".bin")}
    for path in (tmp_path / "older").iterdir():
        shutil.copy2(path, folder)
    with grinch.open(folder) as store:
        assert len(store) == N - 1
        store.insert(points(2, 3), ids=["x", "y"])
    for name, data in newer.items():
        assert (folder / name).read_bytes() == data


# Stores of shards -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"readonly": True}])
def test_a_sharded_store_is_refused_and_left_alone(tmp_path, how):
    """A store of 30 points in several branches, as grinch before 0.2 made it; the points are in its branches."""
    with tarfile.open(Path(__file__).parent / "data" / "default_stores.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    sharded = tmp_path / "sharded"
    before = files(sharded)
    refused(r"has a sharded store.*grinch convert BRANCH NEW.* a026ddb\. Nothing in", grinch.open, sharded, **how)
    assert files(sharded) == before
    with grinch.open(tmp_path / "new") as new:
        for folder in sharded.glob("branch-*"):
            convert(folder, tmp_path / folder.name)
            with grinch.open(tmp_path / folder.name, readonly=True) as branch:
                new.insert(branch.vectors(branch.ids), branch.ids, branch.payload(branch.ids))
        assert sorted(new.ids) == list(range(30))
    (sharded / "sharded.json").unlink()
    refused("has no store", grinch.open, sharded, error=(FileExistsError, FileNotFoundError), **how)
    del before["sharded.json"]
    assert files(sharded) == before
