"""Threads that read a store beside one that changes it see whole versions, each as it was, and change nothing."""

import threading
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial

import numpy as np
import pytest
import scipy.sparse

import grinch
from effort import trials
from grinch.datasets import gaussian_mixture
from grinch.store.database import Database
from grinch.store.rows import stacked
from grinch.store.state import StoreState
from sparse_data import sparse_groups
from threads import Call, held, wait_until

CHANGES = ("apply", "adopt", "refine", "compact")
QUICK = 50


def ids_of(start, stop=None, step=1):
    return [f"p{i}" for i in (range(start) if stop is None else range(start, stop, step))]


def near(a, b):
    return -abs(sum(a) / len(a) - sum(b) / len(b))


def data(kind):
    """How a store is opened, its points, and rows to be placed."""
    if kind == "dense":
        X = gaussian_mixture(trials(1200, 20_000), n_features=5, n_classes=20, random_state=0)[0].astype(np.float32)
        return {"n_clusters": 9}, X, X[:40:4] + 0.01
    if kind == "sparse":
        S = sparse_groups(trials(600, 5000), n_features=80, n_groups=9, dtype=np.float32)
        return {"n_clusters": 6}, S, scipy.sparse.vstack([S[:5] * 2, S[300:305]], format="csr")
    numbers = [round(float(x), 3) for x in np.random.default_rng(0).normal(size=150) * 9]
    return {"linkage": near, "threshold": -2.0}, numbers, [0.1, -7.5, 30.0]


def operations(points):
    """What is done to a store: by name, the method and what it is given."""
    n = points.shape[0] if hasattr(points, "shape") else len(points)
    batch, position = n // 8, n // 3
    yield "insert", (points[:position], ids_of(position), [{"n": i} for i in range(position)])
    yield "add_cut", ("fine",), {"n_clusters": 15}
    for turn in range(3):
        end = position + batch
        yield "insert", (points[position:end], ids_of(position, end), [{"n": i} for i in range(position, end)])
        for i in range(end, end + 3):
            yield "insert", (points[i : i + 1], [f"p{i}"])
        moved = ids_of(turn, 30, 7)
        yield "update", (moved, points[end - len(moved) : end], [turn] * len(moved))
        yield "remove", (ids_of(40 + 3 * turn, 43 + 3 * turn),)
        yield "label", (f"name {turn}",)
        position = end + 3
    yield "recut", ("fine",)
    yield "refine", ()
    yield "compact", ()
    yield "drop_cut", ("fine",)
    # Too quick to wait for anybody.
    for i in range(position, position + QUICK):
        yield "insert", (points[i : i + 1], [f"p{i}"])


def do(store, operation):
    name, given, *named = operation
    if name == "label":
        given = int(store.labels().max()), *given
    getattr(store, name)(*given, **(named[0] if named else {}))


def bits(array):
    if scipy.sparse.issparse(array):
        return bits(array.toarray())
    return (array.dtype.str, array.shape, array.tobytes()) if isinstance(array, np.ndarray) else array


def tree_bits(tree):
    return bits(tree.child_pairs()), bits(tree.scores), tree.names


def seen_in(view, queries):
    """All that can be asked of a version."""
    few = view.ids[::17]
    return {
        "len": len(view),
        "ids": view.ids,
        "vectors": bits(view.vectors(few)),
        "payload": view.payload(few),
        "tree": tree_bits(view.tree),
        "labels": {cut: bits(view.labels(cut)) for cut in view.cut_names},
        "clusters": view.clusters(),
        "names": view.names(),
        "changes": view.changes(max(view.version - 2, 0)),
        "arrived": bits(view.arrived()),
        "predict": {cut: bits(view.predict(queries, cut)) for cut in view.cut_names} if view.can_place else None,
        "place": view.place(queries) if view.can_place else None,
    }


def made(folder, kind):
    """Return what a store said of each version that nobody else reads."""
    given, points, queries = data(kind)
    expected = {}
    with grinch.open(folder, **given) as store:
        for operation in operations(points):
            do(store, operation)
            with store.view(placing=True) as view:
                expected.setdefault(view.version, seen_in(view, queries))
    return expected


class Reader:
    """Asks a store all there is without end, in a thread, and compares it with what was expected of the version."""

    def __init__(self, store, expected, queries):
        self.store, self.expected, self.queries = store, expected, queries
        # By a linkage written in Python, only the store itself can say, between changes.
        self.can_predict = not isinstance(queries, list)
        self.rounds, self.versions = 0, Counter()
        self.latest, self._stop = 0, threading.Event()
        self._call = Call(self._read)

    def _read(self):
        while not self._stop.is_set():
            with self.store.view() as view:
                self._compare(view.version, seen_in(view, self.queries))
            self._ask_alone(lambda: len(self.store), "len")
            self._ask_alone(lambda: self.store.clusters(), "clusters")
            self._ask_alone(lambda: tree_bits(self.store.tree), "tree")
            self._ask_alone(lambda: bits(self.store.labels()), "labels", "default")
            if self.can_predict:
                self._ask_alone(lambda: bits(self.store.predict(self.queries)), "predict", "default")
            self.rounds += 1

    def _compare(self, version, found):
        assert version >= self.latest, "it goes backwards"
        self.latest = version
        self.versions[version] += 1
        for name, value in found.items():
            if value is not None:
                assert value == self.expected[version][name], f"{name} of version {version}"

    def _ask_alone(self, ask, *names):
        """Ask the store itself, which does not say of which version it is: of one from before until after."""
        before, found, after = self.store.version, ask(), self.store.version
        assert self.latest <= before <= after
        self.latest = after
        answers = []
        for version in range(before, after + 1):
            answer = self.expected[version]
            for name in names:
                answer = answer[name]
            answers.append(answer)
        assert found in answers, f"{names} between version {before} and {after}"

    def check(self):
        if not self._call.is_alive():
            self._call.result()

    def more_rounds(self, n):
        """Wait until it has asked everything this many times more."""
        enough = self.rounds + n
        wait_until(lambda: self.check() or self.rounds >= enough)

    def end(self):
        self._stop.set()
        self._call.result()


@pytest.fixture
def meanwhile(monkeypatch):
    """Lets something be done by the thread that makes a change, in the middle of it; returns the list of what is."""
    actions = []

    def inside(change):
        def changed(self, *given, **named):
            found = change(self, *given, **named)
            for action in actions:
                action()
            return found

        return changed

    for name in CHANGES:
        monkeypatch.setattr(StoreState, name, inside(getattr(StoreState, name)))
    # Where there is no other thread when a change begins, nothing is published.
    end = threading.Event()
    other = Call(end.wait)
    yield actions
    end.set()
    other.result()


@pytest.mark.parametrize("kind", ["dense", "sparse", "records"])
def test_readers_see_whole_versions_and_change_nothing(kind, tmp_path, meanwhile):
    given, points, queries = data(kind)
    expected = made(tmp_path / "read by one thread", kind)
    steps = list(operations(points))
    with grinch.open(tmp_path / "store", **given) as store:
        do(store, steps[0])
        readers = [Reader(store, expected, queries) for _ in range(trials(1, 3))]

        waited = []

        def let_them_read():
            # The change is in memory, and not on disk: whoever reads now is given the version before.
            before = [sum(reader.versions.values()) for reader in readers]
            for reader in readers:
                reader.more_rounds(2)
            assert all(reader.latest == store.version - 1 for reader in readers)
            waited.append([sum(reader.versions.values()) - n for reader, n in zip(readers, before, strict=True)])

        for reader in readers:
            reader.more_rounds(1)
        meanwhile.append(let_them_read)
        for operation in steps[1:-QUICK]:
            do(store, operation)
        meanwhile.clear()
        for operation in steps[-QUICK:]:
            do(store, operation)
        for reader in readers:
            reader.more_rounds(1)
            reader.end()
            assert reader.versions[max(expected)]
        assert len(waited) > 20
        assert np.min(waited) >= 1
        final = tree_bits(store.tree), bits(store.labels()), store.clusters(), store.version
        store.check()
    with grinch.open(tmp_path / "unread", **given) as twin:
        for operation in steps:
            do(twin, operation)
        assert final == (tree_bits(twin.tree), bits(twin.labels()), twin.clusters(), twin.version)


def test_a_linkage_in_python_places_when_the_change_is_done(tmp_path, meanwhile):
    _, numbers, queries = data("records")
    before, after = numbers[:60], numbers[60:]
    with grinch.open(tmp_path / "twin", linkage=near, n_clusters=5) as twin:
        twin.insert(before)
        old = twin.labels().tolist()
        twin.insert(after)
        expected = twin.predict(queries).tolist(), twin.place(queries)
    calls = []
    with grinch.open(tmp_path / "store", linkage=near, n_clusters=5) as store:
        store.insert(before)

        def ask():
            calls.append(Call(lambda: store.predict(queries).tolist()))
            calls.append(Call(lambda: store.place(queries)))
            # All else does not wait.
            assert Call(lambda: store.labels().tolist()).result() == old
            assert Call(lambda: len(store)).result() == 60
            time.sleep(0.05)
            assert all(call.is_alive() for call in calls)

        meanwhile.append(ask)
        store.insert(after)
        assert tuple(call.result() for call in calls) == expected


def test_a_reader_of_a_store_that_is_written_in_this_process_refreshes(tmp_path, meanwhile):
    given, points, queries = data("dense")
    expected = made(tmp_path / "twin", "dense")
    steps = list(operations(points))
    with grinch.open(tmp_path / "store", **given) as store:
        do(store, steps[0])
        with grinch.open(tmp_path / "store", readonly=True) as reading:
            reader = Reader(reading, expected, queries)
            reader.more_rounds(1)
            for operation in steps[1:-QUICK]:
                do(store, operation)
            version = store.version
            # It goes on when it is asked to; whoever reads meanwhile is given what was there before.
            assert reading.version == 1
            meanwhile.append(lambda: reader.more_rounds(2))
            assert reading.refresh() == version
            meanwhile.clear()
            reader.more_rounds(2)
            assert reader.latest == version
            reader.end()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("ids", [None, "text"])
def test_a_view_shows_rows_as_they_were(kind, ids, tmp_path, meanwhile):
    """Whatever happens to them later: in its own change, and in those after it."""
    given, points, queries = data(kind)
    rows, names = points[:200], ids_of(200) if ids else list(range(200))
    views = []
    with grinch.open(tmp_path / "store", **given) as store, ExitStack() as stack:
        store.insert(rows, names if ids else None, [{"n": i} for i in range(200)])

        def seen(view):
            rows_at = bits(view.rows_at(np.array([5, 3])))
            return seen_in(view, queries) | {"rows": bits(view.vectors(names)), "at": rows_at}

        with store.view(placing=True) as view:
            expected = seen(view)
        enter = partial(stack.enter_context, held(lambda: store.view(placing=True)))
        meanwhile.append(lambda: views or views.append(enter()[1]))
        # The view is taken in the middle of this.
        store.update(names[:50], points[200:250], ["new"] * 50)
        (view,) = views
        assert seen(view) == expected
        for change in (
            lambda: store.remove(names[3:60]),
            # Much more than there was: arrays grow, and the file is mapped again.
            lambda: store.insert(points[250:600], ids_of(250, 600) if ids else None),
            lambda: store.update(names[100:150], points[60:110]),
            store.refine,
            store.compact,
        ):
            change()
            assert seen(view) == expected
        assert bits(store.vectors(names[:3])) == bits(points[200:203])
        assert bits(store.vectors(names[60:150])) == bits(stacked([rows[60:100], points[60:110]]))
        assert store.payload(names[:2]) == ["new", "new"]
        with pytest.raises(ValueError, match="is not there"):
            store.vectors(names[3:4])
        stack.close()
        store.check()


def test_ids_are_those_of_each_version_in_whichever_order_views_are_asked(tmp_path, meanwhile):
    """What one view has read serves the others: points that came since, were removed, or were never there."""
    rng, points = np.random.default_rng(5), data("dense")[1]
    ids, expected, views, n_given = [], {}, [], 0
    with grinch.open(tmp_path / "store", n_clusters=9) as store, ExitStack() as stack:
        store.insert(points[:1], ["first"])
        store.remove(["first"])

        def take():
            _, view = stack.enter_context(held(lambda: store.view()))
            expected[view.version] = list(ids)
            views.append(view)

        # Views are published once somebody has asked.
        Call(store.labels).result()
        meanwhile.append(take)
        for _ in range(30):
            how = rng.integers(8) if len(ids) > 20 else 0
            if how < 4:
                new = ids_of(n_given, n_given + int(rng.integers(1, 20)))
                store.insert(points[n_given : n_given + len(new)], new)
                n_given += len(new)
                ids = ids + new
            elif how < 6:
                gone = {*rng.choice(ids, 3).tolist(), *ids[-2:]}
                store.remove(sorted(gone))
                ids = [name for name in ids if name not in gone]
            elif how == 6:
                store.update(ids[:2], points[-2:] + rng.normal(size=(2, 5)).astype(np.float32))
            else:
                store.compact()
            if rng.integers(3):
                assert store.ids == ids
        for i in rng.integers(0, len(views), 100).tolist():
            view = views[i]
            assert view.ids == expected[view.version]
            clusters, labels = view.clusters(), view.labels().tolist()
            assert {name: c for c, names in clusters.items() for name in names} == dict(
                zip(expected[view.version], labels, strict=True)
            )


def test_ids_that_were_read_in_a_change_that_fails_are_forgotten(tmp_path, meanwhile):
    points, seen = data("dense")[1], []

    def fail():
        seen.append(store.ids)
        raise OSError("no room")

    with grinch.open(tmp_path / "store") as store:
        store.insert(points[:3], ["a", "b", "c"])
        meanwhile.append(fail)
        with pytest.raises(OSError, match="no room"):
            store.insert(points[3:5], ["d", "e"])
        meanwhile.clear()
        assert seen == [["a", "b", "c", "d", "e"]]
        store.insert(points[3:5], ["f", "g"])
        assert store.ids == ["a", "b", "c", "f", "g"]


def test_only_ids_of_new_points_are_read(tmp_path, monkeypatch):
    points, read, real = data("dense")[1], [], Database.all_ids

    def all_ids(self, *given, **named):
        read.append(real(self, *given, **named))
        return read[-1]

    monkeypatch.setattr(Database, "all_ids", all_ids)
    with grinch.open(tmp_path / "store") as store:
        store.insert(points[:50], ids_of(50))
        assert store.ids == ids_of(50)
        store.remove(["p7", "p49"])
        store.insert(points[50:53], ids_of(50, 53))
        there = [name for name in ids_of(53) if name not in ("p7", "p49")]
        assert sorted(name for names in store.clusters().values() for name in names) == sorted(there)
        assert store.tree.names == there
        assert read == [ids_of(50), ids_of(50, 53), []]


@pytest.mark.slow
def test_readers_beside_a_hundred_thousand_points_see_whole_versions(tmp_path):
    centres, rng = np.random.default_rng(0).normal(size=(50, 16)), np.random.default_rng(1)
    X = (centres[rng.integers(0, 50, 100_000)] + 0.3 * rng.normal(size=(100_000, 16))).astype(np.float32)
    ids, queries = [f"point {i}" for i in range(len(X))], X[:20] + np.float32(0.01)
    # Batches that publish a view in any case, and small ones, which do so if somebody has read.
    sizes = [10_000, *[1_000] * 40, *[10] * 1_000, *[10_000] * 4]
    batches = [slice(end - size, end) for size, end in zip(sizes, np.cumsum(sizes).tolist(), strict=True)]
    assert batches[-1].stop == len(X)

    def answers(view):
        labels, clusters = view.labels(), view.clusters()
        assert sum(map(len, clusters.values())) == len(view) == len(labels)
        return bits(labels), [(number, len(some), some[0], some[-1]) for number, some in clusters.items()]

    expected, places = {}, {}
    with grinch.open(tmp_path / "unread", n_clusters=50) as store:
        for batch in batches:
            version = store.insert(X[batch], ids=ids[batch])
            with store.view(placing=True) as view:
                expected[version], places[version] = answers(view), bits(view.predict(queries))
        final = tree_bits(store.tree)
    with grinch.open(tmp_path / "read", n_clusters=50) as store:
        store.insert(X[batches[0]], ids=ids[batches[0]])
        stop, seen = threading.Event(), set()

        def read():
            while not stop.is_set():
                with store.view(placing=True) as view:
                    assert answers(view) == expected[view.version]
                    assert bits(view.predict(queries)) == places[view.version]
                    seen.add(view.version)

        reader = Call(read)
        for batch in batches[1:]:
            store.insert(X[batch], ids=ids[batch])
        stop.set()
        reader.result()
        assert len(seen) > 20
        assert tree_bits(store.tree) == final
