"""What shows a store asks of it: a version at once, and points by their positions, also beside a writer."""

from __future__ import annotations

import os
import time
from contextlib import closing

import numpy as np
import pytest

import grinch
from grinch.store.database import Database
from killing import kills
from store.made import needs_fork, points


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "news"


def ids_of(kind, start, stop):
    return None if kind is None else [f"p{i}" if kind == "text" else 1000 - i for i in range(start, stop)]


class Twin:
    """What should be known of each position: its row, payload and the version in which it came."""

    def __init__(self, store, kind):
        self.store, self.kind, self.given = store, kind, 0
        self.rows, self.payloads, self.arrived = {}, {}, {}

    def name(self, position):
        return position if self.kind is None else ids_of(self.kind, position, position + 1)[0]

    def insert(self, n, seed):
        X, first = points(n, seed), self.given
        payload = [{"n": i} if i % 2 else None for i in range(first, first + n)]
        version = self.store.insert(X, ids=ids_of(self.kind, first, first + n), payload=payload)
        for i in range(n):
            self.rows[first + i], self.payloads[first + i], self.arrived[first + i] = X[i], payload[i], version
        self.given += n

    def remove(self, positions):
        self.store.remove([self.name(position) for position in positions])
        for position in positions:
            del self.rows[position], self.payloads[position], self.arrived[position]

    def update(self, positions, seed):
        X = points(len(positions), seed)
        self.store.update([self.name(position) for position in positions], X)
        self.rows |= dict(zip(positions, X, strict=True))

    def check(self, store):
        there = sorted(self.rows)
        look = store.look()
        assert look.version == store.version
        assert look.positions.tolist() == there
        assert look.arrived.tolist() == store.arrived().tolist() == [self.arrived[p] for p in there]
        assert look.times.tolist() == [store.times()[self.arrived[p]] for p in there]
        assert look.tree.n_leaves == len(there)
        if there:
            np.testing.assert_array_equal(look.tree.child_pairs(), store.tree.child_pairs())
            assert list(look.cuts) == list(store.cuts())
            for name, labels in look.cuts.items():
                np.testing.assert_array_equal(labels, store.labels(name))
            np.testing.assert_array_equal(store.rows_at(look.positions), [self.rows[p] for p in there])
        assert store.points_at(there) == [(self.name(p), self.payloads[p]) for p in there]
        gone = [p for p in range(self.given + 3) if p not in self.rows]
        assert store.points_at(gone) == [(None, None)] * len(gone)
        for position in range(self.given + 3):
            expected = position if position in self.rows else None
            assert store.position_of(self.name(position)) == expected


@pytest.mark.parametrize("kind", [None, "text", "number"])
def test_a_version_at_once_after_everything_that_can_happen(folder, kind):
    with grinch.open(folder, n_clusters=3) as store:
        empty = store.look()
        assert (empty.version, empty.tree.n_leaves, len(empty.positions), empty.cuts) == (0, 0, 0, {})
        twin = Twin(store, kind)
        twin.insert(1, seed=1)
        twin.check(store)
        twin.insert(40, seed=2)
        store.add_cut("coarse", n_clusters=2)
        twin.insert(20, seed=3)
        twin.check(store)
        twin.remove([0, 5, 40, 60])
        twin.update([7, 8, 41], seed=4)
        twin.check(store)
        store.refine()
        twin.check(store)
        before = store.look()
        store.compact()
        twin.check(store)
        twin.insert(9, seed=5)
        store.label(int(store.labels()[0]), "first")
        twin.check(store)
        assert store.look().names == {"default": {int(store.labels()[0]): "first"}, "coarse": {}}
        with grinch.open(folder, readonly=True) as reader:
            twin.check(reader)
        # What was looked at does not change.
        assert before.positions.tolist() == [p for p in twin.rows if p < 61]
        before.tree.check()
        twin.remove(sorted(twin.rows))
        twin.check(store)
        assert store.look().cuts == {}
    with grinch.open(folder) as store:
        twin.check(store)


def test_rows_of_removed_points_are_there_until_the_store_is_compacted(folder):
    X = points(10)
    with grinch.open(folder) as store:
        store.insert(X)
        store.remove([3])
        np.testing.assert_array_equal(store.rows_at(np.array([2, 3])), X[[2, 3]])
        store.compact()
        np.testing.assert_array_equal(store.rows_at(np.array([2, 3, 99])), [X[2], np.zeros(6), np.zeros(6)])
        assert store.rows_at(np.empty(0, np.int64)).shape == (0, 6)


def test_points_that_are_no_vectors(folder):
    def common(a, b):
        return len(set("".join(a)) & set("".join(b)))

    with grinch.open(folder, linkage=common, n_clusters=2) as store:
        store.insert(["abc", "abd", "xyz"], ids=["one", "two", "three"])
        look = store.look()
        assert look.arrived.tolist() == [1, 1, 1]
        assert store.rows_at(look.positions) is None
        assert store.points_at([2]) == [("three", None)]
        version, [(beside, nearest)] = store.place(["xy"])
        assert (version, nearest) == (1, 2)
        assert 2 in look.tree.leaves(beside)


@pytest.mark.parametrize("kind", [None, "text"])
@pytest.mark.parametrize("name", [None, 1.5, True, [1], {}, "p9", "", 2**70, -1, -(2**70), b"p3", "\ud800"])
def test_what_is_no_id_has_no_position(folder, name, kind):
    with grinch.open(folder) as store:
        assert store.position_of(name) is None
        store.insert(points(5), ids=ids_of(kind, 0, 5))
        assert store.position_of(name) is None


# Text -----------------------------------------------------------------------------------------------------------------

TEXTS = [
    "100 % sure",
    "100 per cent",
    "a_b",
    "axb",
    "back\\slash",
    'a "quote"',
    "Straße",
    "日本語",
    "two\nlines",
    "ÄRGER",
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100 %", [0]),
        ("100", [0, 1]),
        ("%", [0]),
        ("_", [2]),
        ("a_b", [2]),
        ("\\", [4]),
        ('"quote"', [5]),
        ("straße", [6]),
        ("STRA", [6]),
        ("本", [7]),
        ("two\nlines", [8]),
        ("ÄRGER", [9]),
        ("Ärger", [9]),
        ("nothing like it", []),
        ("p4", [4]),
        ("1906", [6]),
        # The name of a field is no text: it would be found in all points.
        ("title", []),
    ],
)
def test_finds_texts_as_they_are(folder, text, expected):
    with grinch.open(folder) as store:
        payload = [text if i % 2 else {"title": text, "more": [1900 + i]} for i, text in enumerate(TEXTS)]
        store.insert(points(10), ids=ids_of("text", 0, 10), payload=payload)
        assert store.find_text(text) == (expected, True)


def test_finds_no_more_than_the_limit_and_says_so(folder):
    with grinch.open(folder) as store:
        store.insert(points(30), payload=["word"] * 20 + ["other"] * 10)
        assert store.find_text("word", limit=5) == ([0, 1, 2, 3, 4], False)
        assert store.find_text("word", limit=21) == (list(range(20)), True)
        store.remove([0])
        assert store.find_text("word", limit=50) == (list(range(1, 20)), True)


def test_a_search_that_takes_too_long_ends(folder):
    with grinch.open(folder) as store:
        store.insert(points(4_000), payload=["x" * 400] * 4_000)
        found, is_complete = store.find_text("y", seconds=-1.0)
        assert (found, is_complete) == ([], False)
        assert store.find_text("y") == ([], True)
        with closing(Database(folder, readonly=True)) as database:
            assert database.find_text("x", 9, time.monotonic() - 1)[1] is False
            assert database.find_text("x", 3, time.monotonic() + 9) == ([0, 1, 2], False)


# Places ---------------------------------------------------------------------------------------------------------------


def test_a_point_goes_beside_its_own_copy(folder):
    X = points(50)
    with grinch.open(folder, linkage="average") as store:
        store.insert(X)
        store.remove([0, 1])
        version, found = store.place(X[2:10])
        tree = store.tree
        assert version == store.version
        for position, (beside, nearest) in zip(range(2, 10), found, strict=True):
            assert nearest == position
            assert position in np.array(store.ids)[tree.leaves(beside)]


@pytest.mark.parametrize("X", [[[1.0]], [[np.nan] * 6], [["a"] * 6], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
def test_what_cannot_be_placed_is_refused(folder, X):
    with grinch.open(folder) as store:
        with pytest.raises(ValueError, match="no points yet"):
            store.place([[1.0, 2.0]])
        store.insert(points(5))
        with pytest.raises(ValueError, match=r"X|array|convert|features|2D|number"):
            store.place(X)


# Beside a writer ------------------------------------------------------------------------------------------------------


def write(folder):
    with grinch.open(folder, n_clusters=3) as store:
        for k in range(1, 30):
            store.insert(points(7, seed=k), payload=[f"word{k}"] * 7)
            if k % 5 == 0:
                store.remove([7 * k - 1])
            if k % 9 == 0:
                store.refine()


@needs_fork
def test_a_reader_beside_a_writer(folder):
    kills.warm_up()
    grinch.open(folder, n_clusters=3).close()
    pid = kills.fork(lambda: write(folder))
    versions, ended = set(), False
    with grinch.open(folder, readonly=True) as reader:
        while not ended:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
            version = reader.refresh()
            look = reader.look()
            assert look.version == version
            assert look.tree.n_leaves == len(look.positions) == len(look.arrived) == len(look.times)
            assert not len(look.arrived) or (look.arrived.max() <= version and np.isfinite(look.times).all())
            there = look.positions[-3:].tolist()
            assert [name for name, _ in reader.points_at(there)] == there
            assert [payload for _, payload in reader.points_at(there)] == [f"word{p // 7 + 1}" for p in there]
            versions.add(version)
        assert reader.find_text("word29")[0] == list(range(196, 203))
    assert len(versions) > 3
