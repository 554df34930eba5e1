"""Readers beside a writer: they wait for short changes, and see what was there before long ones."""

from __future__ import annotations

import threading
import time
from collections import defaultdict

import numpy as np
import pytest

import grinch
from grinch.serve.live import Busy, Live, LiveSource
from grinch.serve.sources import StoreSource
from grinch.store.beside import Beside, NotShown
from serving import some_rows


@pytest.fixture
def store(tmp_path):
    with grinch.open(tmp_path, n_clusters=4) as opened:
        opened.insert(some_rows(300), ids=[f"p{i}" for i in range(300)], payload=[{"i": i} for i in range(300)])
        opened.add_cut("close", threshold=0.5)
        opened.label(0, "first")
        yield opened


def everything(seen):
    """What can be asked of a store, in plain values."""
    return {
        "version": seen.version,
        "n": len(seen),
        "ids": seen.ids,
        "id_kind": seen.id_kind,
        "labels": [seen.labels(cut).tolist() for cut in ("default", "close")],
        "clusters": seen.clusters(),
        "names": seen.names(),
        "payload": seen.payload(["p7", "p0"]),
        "changes": seen.changes(0, None),
        "times": seen.times(),
        "tree": seen.tree.to_newick(seen.tree.names),
        "points_at": seen.points_at([3, 299]),
        "position_of": [seen.position_of("p5"), seen.position_of("nobody")],
        "arrived": seen.arrived().tolist(),
        "cuts": seen.cuts(),
        "info": {name: value for name, value in seen.info().items() if name != "bytes"},
    }


def test_beside_is_the_store_as_it_was(store):
    before, beside = everything(store), Beside(store)
    store.insert(some_rows(50, seed=1), ids=[f"q{i}" for i in range(50)])
    store.remove(["p0"])
    store.update(["p7"], payload=[None])
    assert everything(beside) == before
    assert len(store) == 349
    beside.close()
    with pytest.raises(NotShown):
        beside.labels()


def test_what_cannot_be_seen_from_beside_is_waited_for(store):
    beside = Beside(store)
    for ask in (
        lambda: beside.vectors(["p0"]),
        lambda: beside.rows_at(np.arange(2)),
        lambda: beside.place(some_rows(1)),
        lambda: beside.touched(0),
        lambda: beside.would_recut(),
        lambda: beside.predict(some_rows(1)),
    ):
        with pytest.raises(NotShown):
            ask()
    beside.close()


def test_readers_do_not_wait_for_a_long_change(store):
    live, seen = Live(store), []
    live._pace = 1.0
    with live.changing(100), store._turn:
        asking = threading.Thread(target=lambda: seen.append(live.read(lambda s: (s.version, len(s)))))
        asking.start()
        asking.join(20)
        assert seen == [(3, 300)], "answered although the store is taken"
    assert live._beside is None


def test_who_waits_for_a_long_change_is_counted_and_does_not_ask_all_the_time(store, monkeypatch):
    live, found, waits, has_ended = Live(store), [], defaultdict(list), Live._has_ended
    live._pace = 1.0

    def ask(seen):
        return seen.vectors(["p0"]).shape

    def wait(self, beside, seconds):
        """As long as it takes, once a reader has asked eight times."""
        waits[threading.get_ident()].append(seconds)
        return has_ended(self, beside, 0.0 if len(waits[threading.get_ident()]) < 8 else None)

    monkeypatch.setattr(Live, "_has_ended", wait)

    with live.changing(100), store._turn:
        readers = [threading.Thread(target=lambda: found.append(live.read(ask, 3))) for _ in range(3)]
        for reader in readers:
            reader.start()
        while live._waiting < 3:
            assert all(reader.is_alive() for reader in readers)
            time.sleep(0.001)
        with pytest.raises(Busy, match="try again"):
            live.read(ask, 3)
        assert live.read(len, 3) == 300, "what can be seen is not waited for"
        while min(map(len, waits.values())) < 8:
            time.sleep(0.001)
        assert found == []
    for reader in readers:
        reader.join()
    assert found == [(1, 4)] * 3
    assert list(waits.values()) == [[0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.2, 0.2]] * 3
    assert live._waiting == 0


def test_readers_wait_for_a_short_change_and_see_it(store):
    live, seen, begun = Live(store), [], threading.Event()

    def ask():
        begun.set()
        seen.append(live.read(lambda s: s.version))

    asking = threading.Thread(target=ask)
    with live.changing(1), store._turn:
        asking.start()
        begun.wait()
        asking.join(0.05)
        assert seen == []
        store.insert(some_rows(1, seed=3), ids=["new"])
    asking.join()
    assert seen == [4]


def test_an_error_within_a_change_leaves_the_store_to_be_read(store):
    live = Live(store)
    live._pace = 1.0
    with pytest.raises(ValueError, match="features"), live.changing(100):
        store.insert(some_rows(100, d=9), ids=list(map(str, range(100))))
    assert live.read(lambda s: (s.version, s is store)) == (3, True)


def test_a_reader_of_what_another_process_writes_goes_on_to_it(tmp_path, monkeypatch):
    monkeypatch.setattr("grinch.serve.live.FRESH", 0.0)
    with grinch.open(tmp_path) as writer:
        writer.insert(some_rows(5))
        with grinch.open(tmp_path, readonly=True) as reader:
            live = Live(reader)
            writer.insert(some_rows(3, seed=1))
            assert live.read(len) == 8


def test_layers_are_found_while_points_come(tmp_path):
    """Two threads in the model of a store at once would leave it good for nothing."""
    with grinch.open(tmp_path) as store:
        store.insert(some_rows(300))
        source, wrong, stop = LiveSource(Live(store)), [], threading.Event()

        def look():
            while not stop.is_set():
                try:
                    seen = source.see()
                    layers = source.layers(seen)
                    if layers is not None and len(layers[0].labels) != seen.tree.n_leaves:
                        wrong.append("layers of another version")
                except Exception as error:
                    wrong.append(error)

        looking = threading.Thread(target=look)
        looking.start()
        for i in range(25):
            store.insert(some_rows(10, seed=i + 1))
        stop.set()
        looking.join()
        assert wrong == []
        store.check()


def test_a_source_over_a_live_store_is_that_of_the_store(store):
    live = LiveSource(Live(store))
    plain = StoreSource(live.store)
    keys = np.array([0, 5, 299])
    assert live.latest() == plain.latest() == 3
    assert live.see().keys.tolist() == plain.see().keys.tolist()
    assert live.points(keys) == plain.points(keys)
    assert list(live.payloads(keys)) == list(plain.payloads(keys))
    assert np.array_equal(live.rows(keys), plain.rows(keys))
    assert (live.columns(), live.metric(), live.n_features()) == (plain.columns(), plain.metric(), plain.n_features())
    assert live.key_of("p7") == 7
    assert live.place(some_rows(1, seed=8)) == plain.place(some_rows(1, seed=8))
    assert live.changes(0, "default", 50, 3) == plain.changes(0, "default", 50, 3)
    assert live.times() == plain.times()
