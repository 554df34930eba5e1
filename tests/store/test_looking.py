"""What shows a store asks of it: a version at once, and points by their positions, also beside a writer."""

import time
from contextlib import closing

import numpy as np
import pytest

import grinch
from grinch.store.database import Database
from store.made import points


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "news"


def ids_of(kind, start, stop):
    return None if kind is None else [f"p{i}" if kind == "text" else 1000 - i for i in range(start, stop)]


def test_rows_of_removed_points_are_there_until_the_store_is_compacted(folder):
    X = points(10)
    with grinch.open(folder) as store:
        store.insert(X)
        before = store.look()
        store.label(int(store.labels()[0]), "first")
        store.remove([3])
        # What was looked at does not change.
        assert (before.positions.tolist(), before.names) == (list(range(10)), {"default": {}})
        assert list(store.look().names["default"].values()) == ["first"]
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


def test_the_tree_above_the_clusters_has_their_names(folder):
    X = np.repeat(np.eye(3, 6), 4, axis=0) + points(12) / 1000
    said = ["rain and wind", "a red fox", "bread with salt"]
    with grinch.open(folder, n_clusters=3) as store:
        store.insert(X[:8], payload=[{"text": said[i // 4]} for i in range(8)])
        store.insert(X[8:])
        labels = store.labels()
        store.label(int(labels[0]), "Weather")
        clusters = store.cluster_tree()
        assert sorted(clusters.clusters.tolist()) == sorted(set(labels.tolist()))
        names = dict(zip(clusters.clusters.tolist(), clusters.names, strict=True))
        assert names[labels[0]] == "Weather"
        assert "fox" in names[labels[4]]
        assert names[labels[8]] == f"cluster {labels[8]}"
        assert clusters.sizes[: clusters.n_clusters].tolist() == [4, 4, 4]
        assert clusters.n_points == 12
        store.remove(store.ids)
        assert store.cluster_tree().n_clusters == 0


NO_IDS = [None, 1.5, True, [1], {}, "p9", "", 2**70, -1, -(2**70), b"p3", "\ud800"]


@pytest.mark.parametrize("kind", [None, "text"])
def test_what_is_no_id_has_no_position(folder, kind):
    with grinch.open(folder) as store:
        assert [store.position_of(name) for name in NO_IDS] == [None] * len(NO_IDS)
        store.insert(points(5), ids=ids_of(kind, 0, 5))
        assert [store.position_of(name) for name in NO_IDS] == [None] * len(NO_IDS)


# Text -----------------------------------------------------------------------------------------------------------------

TEXTS = ["100 % sure", "100 per cent", "a_b", "axb", "a\\b", 'a "quote"', "Straße", "日本語", "two\nlines", "ÄRGER"]
FOUND = [
    *(("100 %", [0]), ("100", [0, 1]), ("%", [0]), ("_", [2]), ("a_b", [2]), ("\\", [4]), ('"quote"', [5])),
    *(("straße", [6]), ("STRA", [6]), ("本", [7]), ("two\nlines", [8]), ("ÄRGER", [9]), ("Ärger", [9]), ("p4", [4])),
    # The name of a field is no text: it would be found in all points.
    *(("nothing like it", []), ("1906", [6]), ("title", [])),
]


def test_finds_texts_as_they_are(folder):
    with grinch.open(folder) as store:
        payload = [text if i % 2 else {"title": text, "more": [1900 + i]} for i, text in enumerate(TEXTS)]
        store.insert(points(10), ids=ids_of("text", 0, 10), payload=payload)
        for text, expected in FOUND:
            assert store.find_text(text) == (expected, True), text


def test_finds_no_more_than_the_limit_and_what_time_allows_and_says_so(folder):
    with grinch.open(folder) as store:
        store.insert(points(30), payload=["word"] * 20 + ["other"] * 10)
        assert store.find_text("word", limit=5) == ([0, 1, 2, 3, 4], False)
        assert store.find_text("word", limit=21) == (list(range(20)), True)
        store.remove([0])
        assert store.find_text("word", limit=50) == (list(range(1, 20)), True)
        store.insert(points(4_000), payload=["x" * 400] * 4_000)
        assert store.find_text("y", seconds=-1.0) == ([], False)
        assert store.find_text("y") == ([], True)
        with closing(Database(folder, readonly=True)) as database:
            assert database.find_text("x", 9, time.monotonic() - 1)[1] is False
            assert database.find_text("x", 3, time.monotonic() + 9) == ([30, 31, 32], False)


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


def test_what_cannot_be_placed_is_refused(folder):
    with grinch.open(folder) as store:
        with pytest.raises(ValueError, match="no points yet"):
            store.place([[1.0, 2.0]])
        store.insert(points(5))
        for X in ([[1.0]], [[np.nan] * 6], [["a"] * 6], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]):
            with pytest.raises(ValueError, match=r"X|array|convert|features|2D|number"):
                store.place(X)
