"""The client, beside a store in this process that is done the same to."""

import itertools
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import numpy as np
import pandas as pd
import pytest

import grinch
from grinch.serve import client as clients
from grinch.serve import connection as connections
from refusals import refused
from serving import TOKEN, answering, as_bytes, npy, npz, serving, some_rows


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(grinch.open(tmp_path_factory.mktemp("served"), n_clusters=3), token=TOKEN) as served:
        yield served


@pytest.fixture
def pair(tmp_path):
    """A client of a new service, and a twin."""
    with (
        serving(grinch.open(tmp_path / "served", n_clusters=3), token=TOKEN) as served,
        grinch.connect(served.url, TOKEN) as client,
        grinch.open(tmp_path / "twin", n_clusters=3) as twin,
    ):
        yield client, twin


def everything_said_by(store, ids):
    """What a store and its client answer, as plain values."""
    X = some_rows(9, seed=5)
    yield len(store), store.version, store.ids, store.cuts(), store.names(), store.names(gone=True)
    yield store.changes(), store.changes(since=2, cut=None), store.payload(ids[9:12]), store.vectors(ids[9:12]).tolist()
    for cut in ("default", "five"):
        yield store.labels(cut).tolist(), store.clusters(cut), store.predict(X, cut).tolist()
    yield store.labels().tolist(), store.clusters(), store.predict(X).tolist()
    yield store.tree.to_scipy().tolist(), store.tree.names


def test_a_client_has_the_face_of_a_store(pair):
    X, ids = some_rows(60), [f"p{i}\0" if i == 7 else f"é{i}" for i in range(60)]
    payload = [{"i": i, "n": np.int64(i)} for i in range(60)]
    for step in (
        lambda store: store.insert(X[:50], ids=ids[:50], payload=payload[:50]),
        lambda store: store.insert(X[:2], ids=ids[:2]),
        lambda store: store.insert(X[50:].astype(np.float64), ids=np.array(ids[50:])),
        lambda store: store.insert([], ids=[]),
        lambda store: store.remove(ids[3:5]),
        lambda store: store.update(ids[6:8], some_rows(2, seed=3)),
        lambda store: store.update([ids[9]], payload=[None]),
        lambda store: store.update([ids[10]], some_rows(1, seed=4), [["x"]]),
        lambda store: store.update(ids[10:12], payload=pd.DataFrame({"n": [1.5, None], "title": ["x", "y"]})),
        lambda store: store.label(min(store.clusters()), "first"),
        lambda store: store.add_cut("five", n_clusters=5),
        lambda store: store.add_cut("high", n_clusters=5, cut="height"),
        lambda store: store.add_cut("coarse", layer="coarse"),
        lambda store: store.add_cut("second", layer=1),
        lambda store: store.recut(),
        lambda store: store.refine(),
        lambda store: list(everything_said_by(store, ids)),
        lambda store: store.drop_cut("five"),
    ):
        client, twin = (step(store) for store in pair)
        assert client == twin


def test_errors_are_those_of_the_store(pair):
    X = some_rows(5)
    for store in pair:
        store.insert(X, ids=list("abcde"))
    for step in (
        lambda store: store.insert(X[:1], ids=["b"]),
        lambda store: store.insert(X[:1]),
        lambda store: store.insert(X[:1], ids=[1]),
        lambda store: store.insert(X[:2], ids=["x", "x"]),
        lambda store: store.remove(["nobody"]),
        lambda store: store.remove("a"),
        lambda store: store.update(["a"]),
        lambda store: store.payload(["nobody"]),
        lambda store: store.labels("nothing"),
        lambda store: store.label(99, "x"),
        lambda store: store.drop_cut("default"),
    ):
        messages = []
        for store in pair:
            with pytest.raises(ValueError, match="must") as caught:
                step(store)
            messages.append(str(caught.value))
        assert messages[0].partition(";")[0] == messages[1].partition(";")[0]
    assert pair[0].version == pair[1].version == 1


def test_much_is_sent_in_parts(service, monkeypatch):
    monkeypatch.setattr(clients, "CHUNK", 700)
    monkeypatch.setattr(clients, "IDS_PER_REQUEST", 7)
    with grinch.connect(service.url, TOKEN) as client:
        before = len(client)
        ids = [f"part-{i}" for i in range(40)]
        client.insert(some_rows(40, seed=6), ids=ids, payload=[{"text": "x" * 20}] * 40)
        assert client.ids[before:] == ids
        assert client.payload(ids) == [{"text": "x" * 20}] * 40
        expected = service.service.backend.store.predict(some_rows(40, seed=6))
        assert client.predict(some_rows(40, seed=6)).tolist() == expected.tolist()


def test_points_without_ids(tmp_path):
    with serving(grinch.open(tmp_path)) as served, grinch.connect(served.url) as client:
        assert client.tree.n_leaves == 0
        for rows, ids in (([[1, 2]], [0]), ([[1, 3], [2, 1]], [0, 1, 2])):
            client.insert(rows)
            assert (client.ids, client.tree.n_leaves, client.tree.names) == (ids, len(ids), None)
        client.remove([0])
        assert client.tree.names == [1, 2]


def test_a_node_and_a_search(service):
    with grinch.connect(service.url, TOKEN) as client:
        client.insert(some_rows(3, seed=7), ids=["one", "two", "three"])
        assert client.search("three")[0]["kind"] == "id"
        assert client.node(0)["size"] == 1
        refused("node 99999", client.node, 99999, error=KeyError)
        assert client.labels(n_clusters=2).max() == 1
        assert len(client.labels(layer=0)) == len(client)


def test_who_may_not_is_told_and_an_address_is_checked(service):
    with grinch.connect(service.url, "not-the-right-token") as client, pytest.raises(PermissionError, match="token"):
        client.version
    with grinch.connect(service.url) as client, pytest.raises(PermissionError, match="token"):
        client.insert([[1, 2, 3, 4]])
    for url in ("", "127.0.0.1:8765", "ftp://x", "http://", "unix:/x"):
        refused("url must be the address", grinch.connect, url)


def test_changes_are_followed_over_a_lost_connection(tmp_path, monkeypatch):
    """The first connection ends after one event; the second goes on behind it."""
    with serving(grinch.open(tmp_path, n_clusters=2)) as served, grinch.connect(served.url) as client:
        client.insert(some_rows(10), ids=list(range(10)))
        events, asked = connections.Connection.events, []

        def one_event(self, path, query, last):
            asked.append(last)
            yield next(events(self, path, query, last))
            raise TimeoutError

        monkeypatch.setattr(connections.Connection, "events", one_event)
        followed = client.follow(since=0)
        assert [next(followed).kind for _ in range(2)] == ["born", "born"]
        client.label(0, "first")
        assert next(followed).kind == "renamed"
        assert asked == [0, 1]
        followed.close()


def test_a_service_that_is_busy_is_asked_again(service, monkeypatch):
    waits = []
    monkeypatch.setattr(connections.time, "sleep", waits.append)
    asked = connections.Connection._ask_once
    answers = iter([503, 503])

    def busy(self, *given):
        status = next(answers, None)
        return asked(self, *given) if status is None else connections.Answer(status, {}, b'{"error": "busy"}')

    monkeypatch.setattr(connections.Connection, "_ask_once", busy)
    with grinch.connect(service.url, TOKEN) as client:
        assert client.info()["kind"] == "store"
        assert waits == [0.1, 0.2]
        answers = iter([503] * 9)
        refused("busy", client.info, error=ConnectionError)


@pytest.mark.parametrize(("ids", "attempts"), [(["a"], 3), (None, 1)])
def test_points_without_ids_are_not_sent_twice(monkeypatch, ids, attempts):
    """Whether they arrived is not known when the connection is lost; at last, nobody is there."""
    monkeypatch.setattr(connections.time, "sleep", lambda _: None)
    taken = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up():
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        taken.append(connection.recv(10_000))

        thread = threading.Thread(target=hang_up)
        thread.start()
        client = grinch.connect(f"http://127.0.0.1:{listening.getsockname()[1]}", retries=2)
        with client, pytest.raises(ConnectionError, match="was lost"):
            client.insert([[1, 2]], ids=ids)
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert len(taken) == attempts
    with client, pytest.raises(ConnectionError, match="no server answers"):
        client.version


# Servers that are something else --------------------------------------------------------------------------------------


@contextmanager
def client_hearing(*said):
    """A client of a server that answers the same, again and again: JSON, or bytes as they are."""
    answers = itertools.cycle(one if isinstance(one, bytes) else json.dumps(one).encode() for one in said)
    with answering(lambda _: next(answers)) as url, grinch.connect(url, retries=0) as client:
        yield client


def tree_of(linkage, ids):
    return npz(linkage=np.array(linkage, float), ids_json=as_bytes(ids))


ODD_ANSWERS = [
    *((lambda client: client.info(), said) for said in (b"<html>", b"[" * 100_000)),
    *((lambda client: client.version, said) for said in ([1], {})),
    (lambda client: len(client), {"version": "x", "points": None}),
    (lambda client: client.ids, {"version": 1, "total": 5, "ids": None}),
    (lambda client: client.changes(), {"version": 1, "until": 0, "more": True, "changes": []}),
    (lambda client: client.names(), {"names": [1]}),
    (lambda client: client.cuts(), {}),
    *((lambda client: client.tree, said) for said in (b"PK\x03\x04....", npy(np.zeros((0, 4))))),
    (lambda client: client.tree, tree_of([[0, 1, 1, 2]], [1, 2, 3])),
    (lambda client: client.tree, tree_of([[0, 3, 1, 2], [1, 2, 2, 3]], [1, 2, 3])),
    (lambda client: client.labels(), npy(np.zeros(3, int)).replace(b"(3,)", b"(30000000000,)")),
    *((lambda client: client.labels(), npy(array)) for array in (np.array([{}], object), np.array(["a"]))),
    *((lambda client: next(client.follow(0)), b"id: " + said) for said in (b"x\ndata: {}\n\n", b"1\ndata: nope\n\n")),
    *((lambda client: next(client.follow(0)), said) for said in (b"id: 1\ndata: {}\n\n", b"data: " + b"x" * 1_001)),
]


@pytest.mark.parametrize(("ask", "said"), ODD_ANSWERS)
def test_what_is_not_understood_is_said(monkeypatch, ask, said):
    monkeypatch.setattr(connections, "MAX_LINE", 1_000)
    with client_hearing(said) as client, pytest.raises(ConnectionError, match="the server answered"):
        ask(client)


@pytest.mark.parametrize("pages", [[([1], 1), ([], 1)], [([1], 1), ([2], 2)]], ids=["nothing more", "moving on"])
def test_ids_that_never_come_are_not_asked_for_ever(monkeypatch, pages):
    waits = []
    monkeypatch.setattr(clients.time, "sleep", waits.append)
    said = [{"version": version, "total": 5, "ids": ids} for ids, version in pages]
    with client_hearing(*said) as client, pytest.raises(ConnectionError, match="try again"):
        client.ids
    assert len(waits) == clients.TRIES


def test_the_tree_and_its_ids_are_of_one_version(tmp_path, monkeypatch):
    """Something is written before every request."""
    with serving(grinch.open(tmp_path)) as served, grinch.connect(served.url) as client:
        asked, count = connections.Connection._ask_once, itertools.count()

        def written(self, *given):
            served.post("/v1/insert", {"X": some_rows(1, seed=next(count)).tolist(), "ids": [f"p{next(count)}"]})
            return asked(self, *given)

        monkeypatch.setattr(connections.Connection, "_ask_once", written)
        for n in range(1, 5):
            tree = client.tree
            assert tree.n_leaves == len(tree.names) == n


def test_threads_share_a_client(service):
    with grinch.connect(service.url, TOKEN) as client:
        before = len(client)
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(lambda i: client.insert(some_rows(1, seed=i), ids=[f"thread-{i}"]), range(1_000, 1_025)))
        assert len(client) == before + 25
