"""Inserts that wait together are made together, and come to the same as one by one."""

import threading
from contextlib import closing, contextmanager

import numpy as np
import pytest

import grinch
from grinch.serve.write_batcher import Call, Closed, Full, Insert, Writer
from refusals import refused
from serving import some_rows


@pytest.fixture
def store(tmp_path):
    with grinch.open(tmp_path / "store", n_clusters=3) as opened:
        yield opened


@contextmanager
def held(writer):
    """Nothing is written within the block; what waits then is written together."""
    begun, free = threading.Event(), threading.Event()

    def wait(_):
        begun.set()
        free.wait()
        return 0

    blocking = writer.submit(Call(wait))
    begun.wait()
    try:
        yield
    finally:
        free.set()
        blocking.result()


def writing(store, **limits):
    return closing(Writer(store, **limits))


def point(seed, *ids):
    """A point to insert."""
    return Insert(some_rows(1, seed=seed), *([list(ids)] if ids else []))


def test_gathered_inserts_are_those_one_by_one(store, tmp_path):
    X = some_rows(40)
    pairs = [(X[i : i + 2], [f"p{i}", f"p{i + 1}"], [{"i": i}, None]) for i in range(0, 40, 2)]
    with writing(store) as writer:
        with held(writer):
            waiting = [writer.submit(Insert(*pair)) for pair in pairs]
        found = [future.result() for future in waiting]
    assert {done.version for done in found} == {1}, "one change on disk"
    assert [done.ids for done in found] == [ids for _, ids, _ in pairs]
    with grinch.open(tmp_path / "twin", n_clusters=3) as twin:
        for pair in pairs:
            twin.insert(*pair)
        assert store.ids == twin.ids
        assert store.payload(store.ids) == twin.payload(twin.ids)
        assert np.array_equal(store.vectors(store.ids), twin.vectors(twin.ids))
        assert np.array_equal(store.tree.to_scipy(), twin.tree.to_scipy())
    store.check()


def test_points_without_ids_are_numbered_as_they_came(store):
    with writing(store) as writer:
        with held(writer):
            waiting = [writer.submit(Insert(some_rows(n, seed=n))) for n in (2, 1, 3)]
        assert [future.result().ids for future in waiting] == [[0, 1], [2], [3, 4, 5]]
        assert writer.submit(point(9)).result() == (2, [6])


def test_one_that_is_refused_does_no_harm_to_the_others(store):
    store.insert(some_rows(1), ids=["there"])
    wrong = {
        "'there' is there with another": point(99, "there"),
        "ids must be given for all points": point(3),
        "features": Insert(some_rows(1, d=7), ["wide"]),
    }
    with writing(store) as writer:
        with held(writer):
            good = [writer.submit(point(i, f"p{i}")) for i in (1, 2)]
            bad = {message: writer.submit(one) for message, one in wrong.items()}
            good.append(writer.submit(point(4, "p4")))
        assert [future.result().ids for future in good] == [["p1"], ["p2"], ["p4"]]
        for message, future in bad.items():
            refused(message, future.result)
    assert store.ids == ["there", "p1", "p2", "p4"]
    store.check()


def test_the_same_id_twice_is_as_one_after_the_other(store):
    with writing(store) as writer:
        with held(writer):
            given = (point(0, "a"), point(0, "a"), point(1, "a"), point(2, "c"))
            first, again, other, third = (writer.submit(one) for one in given)
        assert first.result() == again.result() == (1, ["a"]), "the same point again is passed over"
        refused("'a' is there with another", other.result)
        assert third.result().ids == ["c"]
    assert store.ids == ["a", "c"]


def test_changes_are_made_in_the_order_they_came(store):
    seen = []
    with writing(store) as writer:
        with held(writer):
            writer.submit(point(0, "a"))
            writer.submit(Call(lambda s: seen.append(list(s.ids))))
            writer.submit(point(1, "b"))
            writer.submit(Call(lambda s: s.remove(["a"])))
            last = writer.submit(point(2, "a2"))
            # Whoever gave up before it was written is passed over.
            assert writer.submit(point(3, "gone")).cancel()
        last.result()
    assert seen == [["a"]]
    assert store.ids == ["b", "a2"]


def test_too_much_is_refused_at_once(store):
    with writing(store, max_waiting=2) as writer:
        with held(writer):
            waiting = [writer.submit(point(i, i)) for i in range(2)]
            refused("try again", writer.submit, point(3, 3), error=Full)
            assert writer.depth == 2
        assert [future.result().ids for future in waiting] == [[0], [1]]
        assert writer.submit(point(3, 3)).result().ids == [3]


def test_too_many_bytes_are_refused_but_one_large_insert_is_not(store):
    with writing(store, max_bytes=100) as writer:
        with held(writer):
            large = writer.submit(Insert(some_rows(20), list(range(20))))
            with pytest.raises(Full):
                writer.submit(point(3, 30))
        assert len(large.result().ids) == 20


def test_a_batch_has_no_more_points_than_it_may(store):
    sizes = []
    with writing(store, max_points=5, written=lambda *size: sizes.append(size)) as writer:
        with held(writer):
            waiting = [writer.submit(Insert(some_rows(2, seed=i))) for i in range(5)]
        assert [future.result().version for future in waiting] == [1, 1, 2, 2, 3]
    assert sizes == [(1, 1), (2, 4), (2, 4), (1, 2)]


def test_what_waits_is_written_at_the_end_and_nothing_more(store):
    with writing(store) as writer:
        waiting = [writer.submit(point(i, i)) for i in range(20)]
    assert sorted(name for future in waiting for name in future.result().ids) == list(range(20))
    with pytest.raises(Closed):
        writer.submit(point(0, 99))
    assert len(store) == 20


def test_an_error_after_a_change_does_not_end_the_thread(store, caplog):
    with writing(store, changed=lambda: 1 / 0) as writer:
        assert [writer.submit(point(i, i)).result().version for i in range(2)] == [1, 2]
    assert "ZeroDivisionError" in caplog.text
