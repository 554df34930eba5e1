"""What looks at a sharded store finds: the same as its own methods say, and what a plain store would show."""

from __future__ import annotations

import os

import numpy as np
import pytest

import grinch
from grinch.sharded.store import following
from grinch.sharded.store.leaves import Leaves
from grinch.sharded.store.versions import TIMES
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.node_names import NodeNames
from killing import kills

WORDS = ("rain", "goal", "vote", "stock")
CENTRES = np.random.default_rng(7).normal(size=(4, 6)) * 5


def news(seed, n):
    rng = np.random.default_rng(seed)
    of = rng.integers(4, size=n)
    X = (CENTRES[of] + rng.normal(size=(n, 6))).astype(np.float32)
    return X, [{"title": f"{WORDS[c]} item{seed}x{i}", "label": WORDS[c]} for i, c in enumerate(of)]


@pytest.fixture(params=["named", "numbered"])
def store(request, tmp_path):
    """120 points in several branches, some removed, some moved from branch to branch."""
    X, payload = news(0, 120)
    names = [f"p{i}" for i in range(120)] if request.param == "named" else list(range(120))
    given = {"ids": names} if request.param == "named" else {}
    with grinch.open(tmp_path / "many", max_points=40, n_clusters=4) as store:
        for part in (slice(0, 50), slice(50, 120)):
            some = {name: values[part] for name, values in given.items()}
            store.insert(X[part], payload=payload[part], **some)
        store.remove([names[0], names[60]])
        # To where other points are: they keep the numbers in which they came.
        store.update(names[5:12], X[100:107] + 0.01)
        assert len(store.branches) > 2
        yield store


def test_it_is_what_the_store_says(store):
    look, ids = store.look(), store.ids
    store.label(int(store.labels()[0]), "first")
    assert look.version == store.version - 1
    look = store.look()
    np.testing.assert_array_equal(look.tree.child_pairs(), store.tree.child_pairs())
    np.testing.assert_array_equal(look.cuts["default"], store.labels())
    assert look.names == {"default": store.names()}
    assert look.drifted == frozenset()
    assert (np.diff(look.positions) > 0).all()
    assert store.points_at(look.positions) == list(zip(ids, store.payload(ids), strict=True))
    np.testing.assert_array_equal(store.rows_at(look.positions), store.vectors(ids))
    assert [store.position_of(name) for name in ids] == look.positions.tolist()
    # In any order, twice, and with some that are gone.
    asked = np.array([7, 0, 119, 7, 60, 10**9])
    expected = [ids[i] for i in np.searchsorted(look.positions, [7, 119])]
    assert [name for name, _ in store.points_at(asked)] == [expected[0], None, expected[1], expected[0], None, None]
    rows = store.rows_at(asked)
    np.testing.assert_array_equal(rows[[0, 2, 3]], store.vectors([expected[0], expected[1]])[[0, 1, 0]])
    assert not rows[[1, 4, 5]].any()
    assert store.position_of("nobody") is None
    assert store.position_of(1.5) is None
    assert store.n_given == 120


def test_arrivals_outlive_splits_and_moves(store):
    look = store.look()
    first, second = sorted(set(look.arrived.tolist()))
    assert (look.arrived == np.where(look.positions < 50, first, second)).all()
    times = store.times()
    assert sorted(times) == list(range(1, store.version + 1))
    assert (np.diff(list(times.values())) >= 0).all()
    np.testing.assert_array_equal(look.times, [times[version] for version in look.arrived.tolist()])
    with grinch.open(store.folder, readonly=True) as reader:
        assert reader.arrived().tolist() == look.arrived.tolist()
        assert reader.times() == times
        # Without the file nothing is known of when, and nothing else is lost.
        (store.folder / TIMES).unlink()
    with grinch.open(store.folder, readonly=True) as reader:
        assert reader.version == store.version
        assert set(reader.arrived().tolist()) == {reader.version}
        assert len(set(reader.times().values())) == 1


def test_places_are_those_of_the_branches(store):
    X, _ = news(3, 25)
    look = store.look()
    version, places = store.place(X)
    assert version == store.version
    ids = [name for name, _ in store.points_at([nearest for _, nearest in places])]
    branches = {branch.name: branch for branch in store._branches}
    for (node, _), name, own in zip(places, ids, store.branch_places(X), strict=True):
        assert name == own.nearest
        tree = branches[own.branch].store.tree
        inside = [branches[own.branch].store.ids[leaf] for leaf in tree.leaves(own.node)]
        assert sorted(map(str, inside)) == sorted(str(store.ids[leaf]) for leaf in look.tree.leaves(node))
    clusters = dict(zip(store.ids, store.labels().tolist(), strict=True))
    assert store.predict(X).tolist() == [clusters[name] for name in ids]


def test_texts_and_changes_are_found(store):
    payload = dict(store.points_at(store.look().positions))
    numbers, is_complete = store.find_text("RAIN", 1000)
    assert is_complete
    found = [name for name, _ in store.points_at(numbers)]
    assert sorted(map(str, found)) == sorted(str(n) for n, about in payload.items() if about["label"] == "rain")
    some, is_complete = store.find_text("rain", 3)
    assert len(some) == 3
    assert not is_complete
    assert store.find_text("nothing like it") == ([], True)
    all_of_it = [(c.version, c.kind, c.cluster, c.size, c.count) for c in store.changes()]
    latest, is_all = store.latest_changes(0, "default", 1000)
    assert is_all
    assert [(c.version, c.kind, c.cluster, c.size, c.count) for c in latest] == all_of_it[::-1]
    few, is_all = store.latest_changes(0, "default", 2)
    assert (few, is_all) == (latest[:2], False)
    until = latest[-1].version
    assert [c.version for c in store.latest_changes(0, "default", 99, until)[0]] == [until] * sum(
        c.version == until for c in latest
    )
    with pytest.raises(ValueError, match="cut must be one of"):
        store.latest_changes(0, "other", 2)


def test_layers_are_those_of_a_plain_store(tmp_path):
    X, _ = news(0, 80)
    with grinch.open(tmp_path / "one", max_points=1000) as one, grinch.open(tmp_path / "plain") as plain:
        assert one.layers() == plain.layers() == []
        one.insert(X)
        plain.insert(X)
        assert [labels.tolist() for labels, _ in one.layers()] == [labels.tolist() for labels, _ in plain.layers()]
        np.testing.assert_allclose([p for _, p in one.layers()], [p for _, p in plain.layers()], rtol=1e-5)
        assert one.look().arrived.tolist() == plain.look().arrived.tolist()
        assert set(one.info()) - set(plain.info()) == {"max_points", "branches"}
        assert set(plain.info()) <= set(one.info())


def write_more(folder):
    with grinch.open(folder) as store:
        X = np.random.default_rng(1).normal(size=(60, 6)).astype(np.float32)
        ids = [f"q{i}" for i in range(60)] if store.id_kind == "text" else None
        store.insert(X, ids=ids, payload=[{"title": f"new {i}"} for i in range(60)])
        store.label(int(store.labels()[0]), "renamed")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_reader_sees_what_another_process_writes(store):
    with grinch.open(store.folder, readonly=True) as reader:
        before = reader.look()
        store.close()
        assert os.waitpid(kills.fork(lambda: write_more(store.folder)), 0)[1] == 0
        assert reader.look().version == before.version
        assert reader.refresh() > before.version
        assert reader.refresh() == reader.version
        after = reader.look()
        assert after.tree.n_leaves == before.tree.n_leaves + 60
        assert (after.arrived > before.version).sum() == 60
        assert "renamed" in after.names["default"].values()
        np.testing.assert_array_equal(after.cuts["default"], reader.labels())
        assert [payload["title"] for _, payload in reader.points_at(after.positions[-2:])] == ["new 58", "new 59"]
        assert before.tree.n_leaves == len(before.positions) == len(before.cuts["default"])


def test_clusters_behind_the_tree_are_shown_as_they_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(following, "FOLLOWED_AT_ONCE", 0)
    X, _ = news(0, 60)
    with grinch.open(tmp_path / "s", max_points=30) as store:
        store.insert(X[:40])
        with grinch.open(tmp_path / "s", readonly=True) as reader:
            # Nobody has followed yet: as the writer will find it.
            np.testing.assert_array_equal(reader.look().cuts["default"], store.look().cuts["default"])
            store.insert(X[40:])
            reader.refresh()
            np.testing.assert_array_equal(reader.look().cuts["default"], reader.labels())
            assert len(reader.labels()) == 60


def test_no_points_have_nothing_to_look_at(tmp_path):
    with grinch.open(tmp_path / "s", max_points=30) as store:
        look = store.look()
        assert (look.version, look.tree.n_leaves, look.cuts, len(look.positions)) == (0, 0, {}, 0)
        assert store.rows_at(np.array([0])) is None
        assert store.points_at([0]) == [(None, None)]
        assert store.find_text("x") == ([], True)
        with pytest.raises(ValueError, match="no points yet"):
            store.place([[1.0]])


def test_names_of_nodes_go_with_a_backup_and_their_points(store, tmp_path):
    names = NodeNames(store.folder / NAMES_FILE)
    names.add("two", store.ids[:2], 2, 118)
    names.add("gone", store.ids[2:3], 1, 118)
    gone = store.ids[2]
    store.backup(tmp_path / "copy")
    assert [given.name for given in NodeNames(tmp_path / "copy" / NAMES_FILE).all()] == ["two", "gone"]
    store.remove([gone])
    store.compact()
    assert [given.name for given in names.all()] == ["two"]


def test_leaves_are_found_by_their_numbers():
    rng = np.random.default_rng(0)
    for n_branches in (1, 3):
        owners = rng.integers(n_branches, size=40)
        numbers = rng.permutation(100)[:40]
        parts = [numbers[owners == i] for i in range(n_branches)]

        class OneBranch:
            def __init__(self, own):
                self.order = np.concatenate([[-1], own])

            def positions(self):
                return np.arange(1, len(self.order))

        leaves = Leaves.of([OneBranch(part) for part in parts])
        assert leaves.numbers.tolist() == sorted(numbers.tolist())
        for part, rank in zip(parts, leaves.ranks(), strict=True):
            assert leaves.numbers[rank].tolist() == part.tolist()
        asked = rng.integers(-5, 110, size=60)
        found = {}
        for owner, at, positions in leaves.parts(asked):
            for i, position in zip(at.tolist(), positions.tolist(), strict=True):
                found[i] = int(parts[owner][position - 1])
        assert found == {i: int(number) for i, number in enumerate(asked) if number in set(numbers.tolist())}
