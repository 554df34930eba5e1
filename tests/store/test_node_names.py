"""Names of nodes in a file of their own: written beside a writer, copied, checked, forgotten."""

import os
import time

import numpy as np
import pytest

import grinch
from grinch.store import DamagedStore
from grinch.store.node_names import FILE, MAX_LENGTH, NodeNames
from killing import kills
from refusals import refused
from store.made import execute, needs_fork, points


@pytest.fixture
def names(tmp_path):
    return NodeNames(tmp_path / FILE)


def test_what_was_given_is_there_in_order(names):
    assert names.all() == []
    assert names.add("one", [1, 2], size=5, total=9) == 1
    assert names.add("  zwei \n Wörter  ", ["a", "ü"], size=2, total=9) == 2
    assert tuples(NodeNames(names.path)) == [(1, "one", [1, 2], 5, 9), (2, "zwei Wörter", ["a", "ü"], 2, 9)]
    names.drop([1])
    assert said(names) == ["zwei Wörter"]
    # A number is never given to another name; letters that cannot be written are replaced.
    assert names.add("a\ud800b", [3], size=1, total=9) == 3
    assert names.all()[1].name == "a?b"
    names.add("x" * MAX_LENGTH, [1], size=1, total=1)
    with pytest.raises(ValueError, match=f"at most {MAX_LENGTH} characters; got {MAX_LENGTH + 1}"):
        names.add("x" * (MAX_LENGTH + 1), [1], size=1, total=1)


def said(names):
    return [name.name for name in names.all()]


def tuples(names):
    return [tuple(name) for name in names.all()]


def test_nothing_is_made_before_the_first_name(names):
    names.all(), names.drop([1]), names.check(), names.forget(lambda ids: [False] * len(ids))
    names.copy_to(names.path.with_name("copy"))
    assert list(names.path.parent.iterdir()) == []
    assert names.state() is None
    # An empty file is what another process sees while the first name is being given.
    names.path.touch()
    assert names.all() == []
    names.add("one", [1], size=1, total=1)
    assert said(names) == ["one"]


def test_what_is_no_name_and_where_nothing_can_be_written_is_refused(names):
    for name in ("", " \n\t ", None, 5, b"text", ["a"]):
        refused("name must be a text that is not empty", names.add, name, [1], size=1, total=1)
    assert not names.path.exists()
    with pytest.raises(OSError, match="cannot be read or written"):
        NodeNames(names.path.parent / "no folder" / FILE).add("one", [1], size=1, total=1)


def test_the_state_changes_with_every_change(names):
    seen = [names.state()]
    for change in (
        lambda: names.add("one", [1], size=1, total=1),
        lambda: names.add("two", [1], size=1, total=1),
        lambda: names.drop([1]),
        lambda: names.forget(lambda ids: [False] * len(ids)),
    ):
        change()
        assert names.state() == names.state()
        seen.append(names.state())
    assert len({str(state) for state in seen}) == 5


# Damage ---------------------------------------------------------------------------------------------------------------


def spoil_header(path):
    path.write_bytes(b"no database at all" + path.read_bytes()[18:])


def spoil_pages(path):
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))


QUERIES = (
    'update names set points = \'{"no": "list"}\'',
    "update names set points = '[1,'",
    "alter table names rename column points to others",
)


@pytest.mark.parametrize("spoil", [spoil_header, spoil_pages, *QUERIES])
def test_a_damaged_file_is_refused_with_what_to_do(names, spoil):
    names.add("one", [1], size=1, total=1)
    execute(names.path, spoil) if isinstance(spoil, str) else spoil(names.path)
    before = names.path.read_bytes()
    for use in (names.all, names.check, lambda: names.forget(lambda ids: [True] * len(ids))):
        refused(r"node-names\.sqlite is damaged: .*Move it away to go on without", use, error=DamagedStore)
    assert names.path.read_bytes() == before


# With a store ---------------------------------------------------------------------------------------------------------


def test_names_outlast_compacting_and_are_in_backups_and_checks(tmp_path):
    names = NodeNames(tmp_path / "store" / FILE)
    with grinch.open(tmp_path / "store") as store:
        store.insert(points(30))
        store.backup(tmp_path / "before")
        names.add("one", [1, 2, 3], size=3, total=30)
        store.refine()
        store.compact()
        store.backup(tmp_path / "after")
    with grinch.open(tmp_path / "store") as store:
        store.check()
        assert tuples(names) == [(1, "one", [1, 2, 3], 3, 30)]
        spoil_pages(names.path)
        refused(r"node-names\.sqlite is damaged", store.check, error=DamagedStore)
    assert not (tmp_path / "before" / FILE).exists()
    assert said(NodeNames(tmp_path / "after" / FILE)) == ["one"]
    with grinch.open(tmp_path / "after") as store:
        store.check()


@pytest.mark.parametrize("ids", [None, [f"person{i}@mail" for i in range(40)]])
def test_of_removed_points_nothing_is_left_after_compacting(tmp_path, ids):
    names = NodeNames(tmp_path / "store" / FILE)
    called = list(range(40)) if ids is None else ids
    with grinch.open(tmp_path / "store") as store:
        store.insert(points(40), ids=ids)
        names.add("gone", called[:4], size=4, total=40)
        names.add("half", called[2:10], size=16, total=40)
        names.add("whole", called[20:30], size=10, total=40)
        store.remove(called[:6])
        assert len(names.all()) == 3
        store.compact()
    assert tuples(names) == [(2, "half", called[6:10], 8, 40), (3, "whole", called[20:30], 10, 40)]
    if ids is not None:
        for path in (tmp_path / "store").iterdir():
            assert b"person3@mail" not in path.read_bytes(), path


# Several processes ----------------------------------------------------------------------------------------------------


def insert_slowly(folder):
    with grinch.open(folder) as store:
        for k in range(10):
            store.insert(points(5, seed=k))
            time.sleep(0.01)


@needs_fork
def test_names_are_given_while_another_process_inserts(tmp_path):
    kills.warm_up()
    folder = tmp_path / "store"
    grinch.open(folder).close()
    pid = kills.fork(lambda: insert_slowly(folder))
    names, given, ended = NodeNames(folder / FILE), 0, False
    while not ended:
        ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        given += 1
        assert names.add(f"name {given}", [given], size=1, total=1) == given
        time.sleep(0.005)
    with grinch.open(folder, readonly=True) as store:
        assert (len(store), store.version) == (50, 10)
        store.check()
    assert said(names) == [f"name {i}" for i in range(1, given + 1)]


def give_many(path, who):
    names = NodeNames(path)
    for k in range(25):
        names.add(f"{who} {k}", [who, k], size=2, total=9)
        names.all()


@needs_fork
def test_two_processes_that_give_names_at_once(tmp_path):
    path = tmp_path / FILE
    pids = [kills.fork(lambda who=who: give_many(path, who)) for who in ("one", "two")]
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0
    found = said(NodeNames(path))
    assert sorted(found) == sorted(f"{who} {k}" for who in ("one", "two") for k in range(25))
    assert [name for name in found if name.startswith("one")] == [f"one {k}" for k in range(25)]


@pytest.mark.parametrize("is_named", [True, False])
def test_a_cluster_has_the_name_of_the_node_that_is_most_of_it(tmp_path, is_named):
    X, ids = np.tile(9 * np.eye(3), (8, 1)), [f"p{i}" for i in range(24)] if is_named else None
    X += np.random.default_rng(0).normal(size=X.shape)
    with grinch.open(tmp_path / "store", n_clusters=3) as store:
        store.insert(X[:12], ids=ids and ids[:12])
        names = NodeNames(tmp_path / "store" / FILE)
        one, other, _ = store.labels()[:3].tolist()
        members = store.clusters()[one]
        names.add("all", store.ids, size=12, total=12)
        names.add("old", members, size=4, total=12)
        names.add("pets", members[:2], size=4, total=12)
        assert store.names() == {one: "pets"}
        assert [event.title for event in store.digest(limit=1).events] == ["pets"]
        # It grew as all did, and points that are gone do not count.
        store.insert(X[12:], ids=ids and ids[12:])
        store.remove(members[1:3])
        assert store.names() == {one: "pets"}
        store.label(one, "animals")
        store.label(other, "plants")
        assert store.names() == {one: "animals", other: "plants"}
        names.path.write_bytes(b"damaged" * 1000)
        assert store.names() == {one: "animals", other: "plants"}
        with pytest.raises(DamagedStore):
            store.check()
