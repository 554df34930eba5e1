"""The routes of the service: what they do to a store, what they refuse, and what they say."""

import http.client
import io
import re
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager

import numpy as np
import pyarrow as pa
import pytest

import grinch
from grinch import Grinch
from grinch.serve.model_backend import ModelBackend
from grinch.store.queries import View
from serving import Served, as_bytes, npy, npz, serving, some_rows, streamed

JSON, NPY, NPZ = (f"application/{kind}" for kind in ("json", "x-npy", "x-npz"))
ARROW = "application/vnd.apache.arrow.stream"


LIMITS = {"max_rows": 500, "max_id": 100, "max_payload": 1_000}


@pytest.fixture
def served(tmp_path):
    with serving(grinch.open(tmp_path / "news", n_clusters=3), **LIMITS) as found:
        yield found


@pytest.fixture
def filled(served):
    """30 points, p0 to p29."""
    return fill(served)


@pytest.fixture(scope="module")
def unchanging(tmp_path_factory):
    """The same for all tests in which nothing changes."""
    with serving(grinch.open(tmp_path_factory.mktemp("unchanging"), n_clusters=3), **LIMITS) as found:
        yield fill(found)


def fill(served):
    X, ids = some_rows(30), [f"p{i}" for i in range(30)]
    assert served.post("/v1/insert", {"X": X.tolist(), "ids": ids, "payload": [{"i": i} for i in range(30)]})[0] == 200
    return served


def another(served):
    """Another connection to the same server."""
    return closing(Served(served.service, served.port))


def store_of(served):
    return served.service.backend.store


def arrow(compression=None, is_legacy=False, metadata=None, **columns):
    options = pa.ipc.IpcWriteOptions(compression=compression, use_legacy_format=is_legacy)
    table, file = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(file, table.schema, options=options) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch, custom_metadata=metadata)
    return file.getvalue()


def messages(stream):
    """The schema, the batch, and the end of an Arrow stream."""
    schema, batch = (part.serialize().to_pybytes() for part in pa.ipc.MessageReader.open_stream(stream))
    return schema, batch, stream.removeprefix(schema + batch)


def with_an_odd_length(batch):
    """A batch that says that its body is a byte longer, which it is."""
    length = pa.ipc.read_message(batch).body.size
    return batch.replace(struct.pack("<q", length), struct.pack("<q", length + 1), 1) + b"\0"


# Inserting ------------------------------------------------------------------------------------------------------------


def test_the_same_points_in_every_format(served, tmp_path):
    X = some_rows(8)
    vectors, ids = pa.array(X[4:6].tolist(), pa.list_(pa.float32())), [4, 5]
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X[6:].ravel()), 4)
    bodies = [
        ({"X": X[:2].tolist(), "ids": [0, 1], "payload": ["a", None]}, JSON),
        (npz(X=X[2:3], ids=np.array([2]), payload=as_bytes([{"b": 1}])), NPZ),
        (npz(X=X[3:4].astype(">f8"), ids_json=as_bytes([3])), NPZ),
        (arrow(id=ids, vector=vectors, payload=['["c"]', None]), ARROW),
        (arrow(id=pa.array([6, 7], pa.uint8()), vector=fixed), ARROW),
    ]
    for version, (body, kind) in enumerate(bodies, 1):
        status, said = served.post("/v1/insert", body, kind)
        assert (status, said["version"]) == (200, version)
    store = store_of(served)
    assert store.ids == list(range(8))
    assert store.payload(range(8)) == ["a", None, {"b": 1}, None, ["c"], None, None, None]
    assert np.array_equal(store.vectors(range(8)), X)
    store.check()


def test_a_plain_array_has_no_ids(served):
    assert served.post("/v1/insert", npy(some_rows(3)), NPY) == (200, {"version": 1, "ids": [0, 1, 2]})
    assert served.post("/v1/insert", npy(np.asfortranarray(some_rows(2, seed=1))), NPY)[1]["ids"] == [3, 4]
    assert np.array_equal(store_of(served).vectors([3, 4]), some_rows(2, seed=1))
    for nothing in (({"X": []},), (npy(np.empty((0, 4))), NPY)):
        assert served.post("/v1/insert", *nothing) == (200, {"version": 2, "ids": []})


ONE = some_rows(1, seed=9)


def arrow_of(*how, columns=None, **options):
    """The row, and what else is there, as a stream."""
    return arrow(*how, **options, **{"id": ["q"], "vector": pa.array(ONE.tolist()), **(columns or {})})


def one(more):
    """A body with one row, its id, and some more."""
    return b'{"X": [[1,2,3,4]], "ids": ["q"], ' + more + b"}"


GOOD = arrow_of()
SCHEMA, BATCH, END = messages(GOOD)
PACKED = messages(arrow_of("zstd"))[1]
REFUSED = {
    JSON: {
        "not JSON": (b"{", "JSON"),
        "not an object": (b"[1, 2]", "body"),
        "empty": (b"", "JSON"),
        "not UTF-8": (b'{"X": [[1,2,3,4]], "ids": ["\xff"]}', "JSON"),
        "half a character": (b'{"X": [[1,2,3,4]], "ids": ["\\ud800"]}', "JSON"),
        "no X": ({"ids": ["q"]}, "X: Field required"),
        "what is unknown": ({"X": ONE.tolist(), "ids": ["q"], "labels": [1]}, "labels"),
        "text as a number": ({"X": [[1, 2, "3", 4]], "ids": ["q"]}, r"X\.0\.2.*'3'"),
        "a flag as a number": ({"X": [[1, 2, True, 4]], "ids": ["q"]}, r"X\.0\.2"),
        "nan": ({"X": [[1, 2, 3, 4], [1, float("nan"), 3, 4]], "ids": ["q", "r"]}, r"X\.1\.1.*finite"),
        "infinity": (b'{"X": [[1, 2, 1e999, 4]], "ids": ["q"]}', "finite"),
        "too large for float32": ({"X": [[1, 2, 1e300, 4]], "ids": ["q"]}, "row 0.*float32"),
        "rows of two lengths": ({"X": [[1, 2, 3, 4], [1, 2]], "ids": ["q", "r"]}, "row 1 has 2"),
        "another width": ({"X": [[1, 2, 3]], "ids": ["q"]}, "4 columns.*got 3"),
        "an empty row": ({"X": [[]], "ids": ["q"]}, "X"),
        "too few ids": ({"X": ONE.tolist(), "ids": []}, "one entry for each of the 1 points; got 0"),
        "ids of another kind": ({"X": ONE.tolist(), "ids": [7]}, "ids must all be texts"),
        "an id that is no id": ({"X": ONE.tolist(), "ids": [1.5]}, "ids"),
        "a huge id": ({"X": ONE.tolist(), "ids": [2**64]}, "ids"),
        "a long id": ({"X": ONE.tolist(), "ids": ["q" * 101]}, "at most 100 characters"),
        "another row for an id": ({"X": ONE.tolist(), "ids": ["p0"]}, "'p0' is there with another"),
        "too few payloads": ({"X": ONE.tolist(), "ids": ["q"], "payload": []}, "payload must have one"),
        "a large payload": ({"X": ONE.tolist(), "ids": ["q"], "payload": ["x" * 1000]}, "at most 1,000"),
        "a deep payload": (one(b'"payload": [' + b"[" * 60 + b"]" * 60 + b"]"), "at most 50 deep"),
        "a bottomless payload": (one(b'"payload": ' + b"[" * 100_000), "JSON"),
        "many payloads": (one(b'"payload": [' + b"[[]]," * 9_999 + b"1]"), "each of the 1 points; got 10000"),
        "lists without end": (b'{"X": [' + b"[1]," * 500_000 + b"[1]]}", "at most 500,000 lists"),
        "more ids than are read": (b'{"X": [[1,2,3,4]], "ids": [' + b"1," * 100_000 + b"1]}", "100000"),
        "more payloads than are read": (one(b'"payload": [' + b"1," * 100_000 + b"1]"), "100000"),
        "too many rows": ({"X": [[0, 0, 0, 1]] * 501}, "at most 500 rows"),
    },
    NPY: {
        "half an array": (npy(ONE)[:-3], "numpy.save.*truncated"),
        "too much of an array": (npy(ONE) + b"1234", "bytes behind it"),
        "no array": (b"\x93NUMPY\x01\x00\xff\xff{", "numpy.save"),
        "an array of terabytes": (npy(ONE).replace(b"(1, 4), }      ", b"(99999999999,)}"), "numpy.save.*truncated"),
        "a shape of flags": (npy(ONE).replace(b"(1, 4), }   ", b"(True, 4), }"), "numpy.save.*shape"),
        "a shape below nothing": (npy(ONE).replace(b"(1, 4), }    ", b"(-1, -4), }  "), "numpy.save.*shape"),
        "pickled objects": (npy(np.array([[1, "a"]], object)), "Python objects"),
        "an array of texts": (npy(np.array([["1", "2"]])), "matrix of numbers"),
        "a row alone": (npy(ONE[0]), "1 dimensions"),
        "nan in an array": (npy(np.array([[1, 2, 3, 4], [1, np.nan, 3, 4]])), "row 1"),
    },
    NPZ: {
        "ids of no characters": (npz(X=ONE, ids=np.array([0x110000], np.uint32).view("<U1")), "ids must be texts"),
        "no archive": (b"PK\x03\x04....", "numpy.savez"),
        "a compressed archive": (npz(np.savez_compressed, X=np.zeros((400, 1000))), "compressed"),
        "an archive without X": (npz(Y=ONE), "must be X"),
        "a large archive": (npz(X=ONE, ids=np.array(["q"]), payload=as_bytes([1]), more=ONE), "there are more"),
        "ids in two dimensions": (npz(X=ONE, ids=np.array([["q"]])), "ids must be a list"),
        "ids that are fractions": (npz(X=ONE, ids=np.array([0.5])), "ids must be a list"),
        "payload that is no list": (npz(X=ONE, ids=np.array(["q"]), payload=as_bytes({"a": 1})), "a list in JSON"),
        "payload that is no JSON": (npz(X=ONE, ids=np.array(["q"]), payload=np.frombuffer(b"[NaN]", "u1")), "NaN"),
    },
    ARROW: {
        "no stream": (b"arrow", "Arrow stream"),
        "half a stream": (GOOD[: len(GOOD) // 2], "Arrow stream"),
        "no vectors": (arrow(id=["q"]), "columns must be vector"),
        "vectors of text": (arrow(vector=[["a"]]), "vector must be a list of numbers"),
        "vectors of two lengths": (
            arrow(id=["q", "r"], vector=[[1.0, 2.0], [1.0]]),
            "has 1 numbers in row 1",
        ),
        "a vector that is not there": (arrow(id=["q", "r"], vector=[[1.0], None]), "empty value"),
        "an id that is not there": (arrow_of(columns={"id": pa.array([None], pa.string())}), "ids"),
        "payload that is not JSON": (arrow_of(columns={"payload": ["{"]}), "payload must be JSON"),
        "a compressed stream": (arrow_of("zstd"), "must not be compressed"),
        "a compressed stream of old": (arrow_of("zstd", is_legacy=True), "must not be compressed"),
        "a compressed batch of old": (SCHEMA + PACKED[4:] + b"\0" * 4, "must not be compressed"),
        "a compressed batch out of step": (
            SCHEMA + with_an_odd_length(BATCH) + PACKED + END,
            "stream|compressed",
        ),
        "compressed by its metadata": (arrow_of(metadata={"ARROW:experimental_compression": "zstd"}), "be compressed"),
        "more behind a stream": (GOOD + GOOD, "nothing behind it"),
        "a stream without a schema": (BATCH + END, "a schema, then batches"),
        "a kind that is elsewhere": (GOOD[:8] + struct.pack("<I", len(GOOD) - 13) + GOOD[12:], "Arrow stream"),
        "a dictionary": (arrow_of(columns={"id": pa.array(["q"]).dictionary_encode()}), "dictionaries|id must be text"),
    },
}


@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind, cases in REFUSED.items() for case in cases])
def test_what_is_refused_changes_nothing(unchanging, kind, case):
    body, message = REFUSED[kind][case]
    before = store_of(unchanging).ids
    status, said = unchanging.post("/v1/insert", body, kind)
    assert status == 422, said
    assert re.search(message, said["error"]), said
    assert len(said["error"]) < 500
    status, about = unchanging.get("/v1/info")
    assert (status, about["version"]) == (200, 1)
    assert store_of(unchanging).ids == before


@pytest.mark.parametrize(
    "kind", ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data", "x" * 999]
)
def test_other_kinds_of_bodies_are_refused(unchanging, kind):
    status, said = unchanging.post("/v1/insert", b"X=1", kind)
    assert status == 415
    assert "application/json" in said["error"]


def test_arrow_that_points_anywhere_is_refused(unchanging):
    """Every byte of a stream, another one: nothing is followed out of the body, and the process lives."""
    rng, good = np.random.default_rng(0), bytearray(GOOD)
    for at in rng.choice(len(good), 150, replace=False).tolist():
        broken = bytearray(good)
        broken[at] = int(rng.integers(256))
        status, _ = unchanging.post("/v1/predict", bytes(broken), ARROW)
        assert status in (200, 422)
    offset = good.index(struct.pack("<ii", 0, 4))
    good[offset + 4 : offset + 8] = struct.pack("<i", 2**30)
    assert unchanging.post("/v1/predict", bytes(good), ARROW)[0] == 422


# The other changes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        *(("remove", {"ids": "p0"}, "ids: Input should be a valid array"), ("remove", {}, "ids: Field required")),
        ("update", {"ids": ["p0"], "X": [[1, 2]]}, "4 columns"),
        ("update", {"X": [[1, 2, 3, 4]]}, "ids: Field required"),
        ("label", {"cluster": 0, "name": ""}, "name"),
        ("label", {"cluster": 0, "name": "x", "cut": "nothing"}, "cut must be one of 'default'"),
        ("cuts", {"name": "default"}, "no cut is called by yet"),
        ("cuts", {"name": "x", "n_clusters": 2, "threshold": 0.5}, "n_clusters"),
        ("recut", {"name": "nothing"}, "cut must be one of"),
        *(("refine", {"passes": passes}, "passes") for passes in (0, "1")),
    ],
)
def test_changes_that_are_refused(unchanging, path, body, message):
    status, said = unchanging.post(f"/v1/{path}", body)
    assert status == 422
    assert message in said["error"]
    assert unchanging.get("/v1/info")[1]["version"] == 1


# Reading --------------------------------------------------------------------------------------------------------------


def test_what_is_read_is_what_the_store_says(unchanging):
    store = store_of(unchanging)
    X = some_rows(7, seed=2)
    assert unchanging.get("/v1/ids?offset=3&limit=2")[1] == {"version": 1, "total": 30, "ids": ["p3", "p4"]}
    assert unchanging.post("/v1/predict", {"X": X.tolist()})[1]["clusters"] == store.predict(X).tolist()
    assert unchanging.post("/v1/predict?cut=default", npy(X), NPY)[1]["clusters"] == store.predict(X).tolist()
    assert unchanging.post("/v1/predict", {"X": []})[1]["clusters"] == []
    assert unchanging.get("/v1/cut")[1]["labels"] == store.labels().tolist()
    assert unchanging.get("/v1/cut?n_clusters=5")[1]["labels"] == grinch.cuts.cut_sizeable(store.tree, 5).tolist()
    assert unchanging.get("/v1/cut?threshold=0.2")[1]["labels"] == grinch.cuts.cut_threshold(store.tree, 0.2).tolist()
    layers = [labels for labels, _ in store.layers()[1]]
    assert unchanging.get("/v1/cut?layer=0")[1]["labels"] == layers[0].tolist()
    _, content = unchanging.get("/v1/cut?format=npy")
    assert np.array_equal(np.load(io.BytesIO(content)), store.labels())
    assert unchanging.get(f"/v1/node/{store.tree.root}/members?limit=5")[1]["total"] == 30


def test_the_tree_in_every_format(unchanging):
    tree = store_of(unchanging).tree
    assert np.array_equal(np.load(io.BytesIO(unchanging.get("/v1/tree?format=npy")[1])), tree.to_scipy())
    assert unchanging.get("/v1/tree?format=newick")[1].decode() == tree.to_newick(tree.names)
    status, nodes = unchanging.get("/v1/tree")
    assert status == 200
    rows = list(zip(*(nodes[name] for name in ("node", "parent", "left", "right", "size")), strict=True))
    assert len(rows) == 59
    for node, parent, left, right, size in rows:
        assert parent == (-1 if tree.parent(node) is None else tree.parent(node))
        assert (left, right) == (tree.children(node) or (-1, -1))
        assert size == tree.size(node)
    lines = unchanging.get("/v1/tree?format=csv")[1].decode().splitlines()
    assert lines[0] == "node,parent,left,right,size,height,id"
    assert [line.rpartition(",")[2] for line in lines[1:31]] == tree.names


NO_ANSWER = {
    404: ("cut?layer=999", "node/99999999", "nothing", ""),
    405: ("insert",),
    409: ("node/0?version=7",),
    422: (
        *("cut?n_clusters=0", "cut?n_clusters=2&threshold=1", "cut?threshold=nan", "cut?name=nothing", "cut?name="),
        *("clusters?cut=nothing", "changes?since=-1", "changes?cut=nothing", "changes/stream?since=99"),
        *("changes/stream?cut=nothing", "tree?format=gif", "node/-1"),
    ),
}


@pytest.mark.parametrize("status", NO_ANSWER)
def test_questions_that_have_no_answer(unchanging, status):
    for path in NO_ANSWER[status]:
        found, said = unchanging.get(f"/v1/{path}".rstrip("/"))
        assert (found, next(iter(said))) == (status, "error"), path


def test_an_empty_store_answers(served):
    empty = {"ids": "ids", "cut": "labels", "cut?n_clusters=3": "labels", "clusters": "clusters", "changes": "changes"}
    for path, name in (empty | {"tree": "node", "search?q=x": "hits"}).items():
        assert served.get(f"/v1/{path}")[1][name] == [], path
    for path, status in {"cut?layer=0": 404, "node/0": 404, "tree?format=newick": 200, "tree?format=npy": 200}.items():
        assert served.get(f"/v1/{path}")[0] == status, path
    assert served.get("/v1/info")[1]["points"] == 0
    status, said = served.post("/v1/predict", {"X": [[1, 2]]})
    assert (status, "no points yet" in said["error"]) == (422, True)
    assert served.post("/v1/refine", {}) == (200, {"version": 0})


# Changes as they happen -----------------------------------------------------------------------------------------------


def test_changes_come_in_pages_of_whole_versions(filled):
    for i in range(5):
        filled.post("/v1/insert", {"X": some_rows(3, seed=10 + i).tolist(), "ids": [f"q{i}{j}" for j in range(3)]})
    store = store_of(filled)
    everything, since, found = store.changes(0), 0, []
    for _ in range(20):
        page = filled.get(f"/v1/changes?since={since}&limit=2")[1]
        found += page["changes"]
        since = page["until"]
        if not page["more"]:
            break
    assert [(one["version"], one["kind"], one["cluster"], one["size"]) for one in found] == [
        (change.version, change.kind, change.cluster, change.size) for change in everything
    ]
    assert since == page["version"] == 6


@contextmanager
def listening(served, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    with closing(connection), connection.getresponse() as stream:
        yield stream


def test_changes_are_streamed_and_the_stream_is_gone_on_with(filled):
    with listening(filled, "/v1/changes/stream?since=0") as stream:
        first = streamed(stream, 1)[0]
        assert (first[0], first[1], first[2]["version"]) == ("changes", "1", 1)
        assert {one["kind"] for one in first[2]["changes"]} == {"born"}
        filled.post("/v1/label", {"cluster": 0, "name": "first"})
        renamed = streamed(stream, 1)[0]
        assert (renamed[1], [one["kind"] for one in renamed[2]["changes"]]) == ("2", ["renamed"])
    filled.post("/v1/label", {"cluster": 0, "name": "second"})
    filled.post("/v1/label", {"cluster": 1, "name": "third"})
    with listening(filled, "/v1/changes/stream?since=0", Last_Event_ID=renamed[1]) as stream:
        assert [number for _, number, _ in streamed(stream, 2)] == ["3", "4"]
    # Without since it begins now.
    with listening(filled, "/v1/changes/stream") as stream:
        filled.post("/v1/label", {"cluster": 0, "name": "third"})
        assert streamed(stream, 1)[0][1] == "5"


def test_pages_hear_that_something_else_is_shown(filled):
    with listening(filled, "/api/events") as stream:
        assert streamed(stream, 1)[0][2].keys() == {"version", "n"}
        filled.post("/v1/insert", {"X": ONE.tolist(), "ids": ["q"]})
        shown = {}
        while shown.get("n") != 31:
            shown = streamed(stream, 1)[0][2]
        assert shown["version"] == 2


def test_so_many_may_listen(tmp_path):
    store = grinch.open(tmp_path)
    with serving(store, max_listeners=1) as served, listening(served, "/v1/changes/stream") as stream:
        assert stream.readline() == b"retry: 2000\n"
        status, said = served.get("/v1/changes/stream")
        assert (status, served.headers["Retry-After"]) == (503, "1")
        assert "listen already" in said["error"]


def test_the_end_of_the_server_is_the_end_of_streams(tmp_path):
    with ExitStack() as stack:
        with serving(grinch.open(tmp_path)) as served:
            streams = [stack.enter_context(listening(served, path)) for path in ("/v1/changes/stream", "/api/events")]
            assert [stream.readline() for stream in streams] == [b"retry: 2000\n"] * 2
        changes, events = (stream.read() for stream in streams)
        assert changes == b"\n"
        assert b"event: version" in events


# Many at once ---------------------------------------------------------------------------------------------------------


def test_many_clients_at_once(served):
    """Ten write, four read; all that was acknowledged is there, and what is read is of one version."""
    X, done, wrong = some_rows(200), [], []
    stop = threading.Event()

    def write(first):
        with another(served) as client:
            for i in range(first, 200, 10):
                status, said = client.post("/v1/insert", {"X": X[i : i + 1].tolist(), "ids": [f"p{i}"]})
                (done if status == 200 else wrong).append((said, i))

    def read():
        with another(served) as client:
            while not stop.is_set():
                status, said = client.get("/v1/clusters")
                if status != 200 or sum(one["size"] for one in said["clusters"]) < said["version"]:
                    wrong.append(said)

    with ThreadPoolExecutor(14) as pool:
        readers, writers = [pool.submit(read) for _ in range(4)], [pool.submit(write, i) for i in range(10)]
        wait(writers)
        stop.set()
    assert [thread.exception() for thread in readers + writers] == [None] * 14
    assert wrong == []
    store = store_of(served)
    assert sorted(store.ids) == sorted(f"p{i}" for i in range(200))
    assert all(said["ids"] == [f"p{i}"] for said, i in done)
    assert store.version < 200, "some of them were written together"
    store.check()


def test_predictions_that_are_asked_together_are_those_alone(filled, monkeypatch):
    """While the store is taken they gather; some of them are wrong, and the others are answered."""
    store, X = store_of(filled), some_rows(12, seed=8)
    alone, calls = store.predict(X).tolist(), []
    predict = View.predict
    monkeypatch.setattr(View, "predict", lambda view, X, cut: calls.append(len(X)) or predict(view, X, cut))

    def ask(body):
        with another(filled) as client:
            return client.post("/v1/predict", body)

    bodies = [{"X": X[i : i + 1].tolist()} for i in range(12)]
    bodies += [{"X": [[1, 2]]}, {"X": X[:1].tolist(), "cut": "nothing"}]
    with ThreadPoolExecutor(14) as pool, store.view():
        asked = [pool.submit(ask, body) for body in bodies]
        wait(asked, 0.5)
    answers = [one.result() for one in asked]
    assert [said["clusters"] for _, said in answers[:12]] == [[cluster] for cluster in alone]
    assert [status for status, _ in answers[12:]] == [422, 422]
    assert len(calls) < 14


def test_too_much_at_once_is_said(tmp_path):
    with serving(grinch.open(tmp_path), max_queued=1) as served:
        store, answers = store_of(served), []
        served.post("/v1/insert", {"X": some_rows(1, seed=99).tolist(), "ids": [99]})
        served.post("/v1/insert", {"X": some_rows(1, seed=98).tolist(), "ids": [98]})

        def insert(i):
            with another(served) as client:
                status, said = client.post("/v1/insert", {"X": some_rows(1, seed=i).tolist(), "ids": [i]})
                answers.append((status, client.headers["Retry-After"], said))

        with ThreadPoolExecutor(6) as pool, store.view():
            inserted = [pool.submit(insert, i) for i in range(6)]
            while len(answers) < 4:
                time.sleep(0.001)
            refused = [said for said in answers if said[0] == 503]
            assert len(refused) >= 4
            assert refused[0][1] == "1"
            assert "try again" in refused[0][2]["error"]
        assert [thread.exception() for thread in inserted] == [None] * 6
        assert len(store) - 2 == 6 - len(refused) == sum(status == 200 for status, _, _ in answers)


# Others ---------------------------------------------------------------------------------------------------------------


def test_numbers_for_prometheus(filled):
    filled.get("/v1/nothing")
    status, content = filled.get("/metrics")
    lines = content.decode().splitlines()
    assert status == 200
    assert filled.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert {
        *("grinch_points 30", "grinch_version 1", "grinch_queue_depth 0"),
        'grinch_requests_total{route="/v1/insert",method="POST",status="200"} 1',
        'grinch_requests_total{route="other",method="GET",status="404"} 1',
        'grinch_request_seconds_count{route="/v1/insert"} 1',
        'grinch_batch_points_bucket{le="32"} 1',
    } <= set(lines)
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert all(line.startswith("#") or line.startswith(tuple(names)) for line in lines)


def test_a_read_only_service_changes_nothing(tmp_path):
    with grinch.open(tmp_path) as store:
        store.insert(some_rows(4), ids=list("abcd"))
    with serving(grinch.open(tmp_path, readonly=True), is_read_only=True) as served:
        for path, body in {
            "v1/insert": {"X": [[1, 2, 3, 4]], "ids": ["e"]},
            "v1/remove": {"ids": ["a"]},
            "v1/update": {"ids": ["a"], "payload": [1]},
            "v1/label": {"cluster": 0, "name": "x"},
            "v1/refine": {},
        }.items():
            status, said = served.post(f"/{path}", body)
            assert (status, "read-only" in said["error"]) == (403, True), path
        assert served.post("/api/names", {"node": 0, "name": "x"})[0] == 403
        assert served.get("/v1/info")[1]["is_read_only"] is True
        assert served.get("/v1/ids")[1]["ids"] == list("abcd")


def test_a_model_is_served(blobs):
    X, _ = blobs
    model = Grinch(n_clusters=12).fit(X)
    with serving(ModelBackend(model, "blobs", payload=[f"text {i}" for i in range(300)])) as served:
        info = {"kind": "model", "is_read_only": True, "points": 300, "version": 1, "n_features": 6, "columns": None}
        assert served.get("/v1/info")[1] == info | {"title": "blobs"}
        assert served.get("/v1/cut")[1]["labels"] == model.labels_.tolist()
        assert served.get("/v1/cut?layer=0")[1]["labels"] == model.layers_[0].tolist()
        assert served.post("/v1/predict", {"X": X[:9].tolist()})[1]["clusters"] == model.predict(X[:9]).tolist()
        assert served.post("/v1/payload", {"ids": [7]})[1]["payload"] == ["text 7"]
        assert served.get("/v1/clusters")[1]["clusters"][0]["ids"] == model.clusters_[0]
        assert served.get("/v1/changes")[1]["changes"] == []
        assert "does not keep" in served.post("/v1/vectors", {"ids": [3]})[1]["error"]
        assert served.post("/v1/payload", {"ids": [300]})[0] == 422
        assert served.post("/v1/insert", {"X": X[:1].tolist()})[0] == 403


def test_a_tree_is_served():
    tree = grinch.Tree.from_newick("((a:1,b:1):1,(c:1,d:1):1);")
    with serving(ModelBackend(tree, "small")) as served:
        assert served.get("/v1/ids")[1]["ids"] == ["a", "b", "c", "d"]
        assert served.get("/v1/cut?n_clusters=2")[1]["labels"] == [0, 0, 1, 1]
        assert served.get("/v1/cut")[0] == 422
        status, said = served.post("/v1/predict", {"X": [[1]]})
        assert (status, "tree alone" in said["error"]) == (422, True)
