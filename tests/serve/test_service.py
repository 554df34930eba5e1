"""The routes of the service: what they do to a store, what they refuse, and what they say."""

from __future__ import annotations

import http.client
import io
import json
import re
import struct
import threading
import time
import zipfile
from contextlib import ExitStack, closing, contextmanager

import numpy as np
import pyarrow as pa
import pytest

import grinch
from grinch import Grinch
from grinch.serve.api import bodies as arrow_bodies
from grinch.serve.model_backend import ModelBackend
from grinch.store.queries import View
from serving import serving, some_rows, streamed

NPY, NPZ, ARROW = "application/x-npy", "application/x-npz", "application/vnd.apache.arrow.stream"


@pytest.fixture
def served(tmp_path):
    with serving(grinch.open(tmp_path / "news", n_clusters=3), max_rows=500, max_id=100, max_payload=1_000) as found:
        yield found


@pytest.fixture
def filled(served):
    """30 points, p0 to p29."""
    return fill(served)


@pytest.fixture(scope="module")
def unchanging(tmp_path_factory):
    """The same for all tests in which nothing changes."""
    store = grinch.open(tmp_path_factory.mktemp("unchanging"), n_clusters=3)
    with serving(store, max_rows=500, max_id=100, max_payload=1_000) as found:
        yield fill(found)


def fill(served):
    X, ids = some_rows(30), [f"p{i}" for i in range(30)]
    assert served.post("/v1/insert", {"X": X.tolist(), "ids": ids, "payload": [{"i": i} for i in range(30)]})[0] == 200
    return served


def store_of(served):
    return served.service.backend.store


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def as_bytes(values):
    return np.frombuffer(json.dumps(values).encode(), np.uint8)


def arrow(compression=None, is_legacy=False, metadata=None, **columns):
    options = pa.ipc.IpcWriteOptions(compression=compression, use_legacy_format=is_legacy)
    table, file = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(file, table.schema, options=options) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch, custom_metadata=metadata)
    return file.getvalue()


def messages(stream):
    """The schema, the batches, and the end of an Arrow stream."""
    found, at = [], 0
    while at < len(stream):
        length = struct.unpack_from("<i", stream, at + 4)[0]
        end = at + 8 + (length and length + arrow_bodies._message(stream, at + 8)[2])
        found.append(stream[at:end])
        at = end
    return found


def with_an_odd_length(batch):
    """A batch that says that its body is a byte longer, which it is."""
    broken = bytearray(batch)
    at = arrow_bodies._field(batch, 8 + struct.unpack_from("<I", batch, 8)[0], arrow_bodies.BODY_LENGTH)
    struct.pack_into("<q", broken, at, struct.unpack_from("<q", batch, at)[0] + 1)
    return bytes(broken) + b"\0"


# Inserting ------------------------------------------------------------------------------------------------------------


def test_the_same_points_in_every_format(served, tmp_path):
    X = some_rows(8)
    vectors, ids = pa.array(X[4:6].tolist(), pa.list_(pa.float32())), [4, 5]
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X[6:].ravel()), 4)
    bodies = [
        ({"X": X[:2].tolist(), "ids": [0, 1], "payload": ["a", None]}, "application/json"),
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


def test_nothing_is_no_change(filled):
    assert filled.post("/v1/insert", {"X": []}) == (200, {"version": 1, "ids": []})
    assert filled.post("/v1/insert", npy(np.empty((0, 4))), NPY) == (200, {"version": 1, "ids": []})


def test_points_sent_again_are_passed_over(filled):
    body = {"X": some_rows(30)[:2].tolist(), "ids": ["p0", "p1"]}
    assert filled.post("/v1/insert", body) == (200, {"version": 1, "ids": ["p0", "p1"]})


ONE = some_rows(1, seed=9)
GOOD = arrow(id=["q"], vector=pa.array(ONE.tolist()))
SCHEMA, BATCH, END = messages(GOOD)
PACKED = messages(arrow("zstd", id=["q"], vector=pa.array(ONE.tolist())))[1]
REFUSED = {
    "not JSON": (b"{", "application/json", "JSON"),
    "not an object": (b"[1, 2]", "application/json", "body"),
    "empty": (b"", "application/json", "JSON"),
    "not UTF-8": (b'{"X": [[1,2,3,4]], "ids": ["\xff"]}', "application/json", "JSON"),
    "half a character": (b'{"X": [[1,2,3,4]], "ids": ["\\ud800"]}', "application/json", "JSON"),
    "no X": ({"ids": ["q"]}, "application/json", "X: Field required"),
    "what is unknown": ({"X": ONE.tolist(), "ids": ["q"], "labels": [1]}, "application/json", "labels"),
    "text as a number": ({"X": [[1, 2, "3", 4]], "ids": ["q"]}, "application/json", r"X\.0\.2.*'3'"),
    "a flag as a number": ({"X": [[1, 2, True, 4]], "ids": ["q"]}, "application/json", r"X\.0\.2"),
    "nan": ({"X": [[1, 2, 3, 4], [1, float("nan"), 3, 4]], "ids": ["q", "r"]}, "application/json", r"X\.1\.1.*finite"),
    "infinity": (b'{"X": [[1, 2, 1e999, 4]], "ids": ["q"]}', "application/json", "finite"),
    "too large for float32": ({"X": [[1, 2, 1e300, 4]], "ids": ["q"]}, "application/json", "row 0.*float32"),
    "rows of two lengths": ({"X": [[1, 2, 3, 4], [1, 2]], "ids": ["q", "r"]}, "application/json", "row 1 has 2"),
    "another width": ({"X": [[1, 2, 3]], "ids": ["q"]}, "application/json", "4 columns.*got 3"),
    "an empty row": ({"X": [[]], "ids": ["q"]}, "application/json", "X"),
    "no ids": ({"X": ONE.tolist()}, "application/json", "ids must be given for all points"),
    "too few ids": ({"X": ONE.tolist(), "ids": []}, "application/json", "one entry for each of the 1 points; got 0"),
    "the same id twice": ({"X": some_rows(2).tolist(), "ids": ["q", "q"]}, "application/json", "'q' is there twice"),
    "ids of another kind": ({"X": ONE.tolist(), "ids": [7]}, "application/json", "ids must all be texts"),
    "an id that is no id": ({"X": ONE.tolist(), "ids": [1.5]}, "application/json", "ids"),
    "a huge id": ({"X": ONE.tolist(), "ids": [2**64]}, "application/json", "ids"),
    "a long id": ({"X": ONE.tolist(), "ids": ["q" * 101]}, "application/json", "at most 100 characters"),
    "another row for an id": ({"X": ONE.tolist(), "ids": ["p0"]}, "application/json", "'p0' is there with another"),
    "too few payloads": ({"X": ONE.tolist(), "ids": ["q"], "payload": []}, "application/json", "payload must have one"),
    "a large payload": (
        {"X": ONE.tolist(), "ids": ["q"], "payload": ["x" * 1000]},
        "application/json",
        "at most 1,000",
    ),
    "a deep payload": (
        b'{"X": [[1,2,3,4]], "ids": ["q"], "payload": [' + b"[" * 60 + b"]" * 60 + b"]}",
        "application/json",
        "at most 50 deep",
    ),
    "a bottomless payload": (b'{"X": [[1,2,3,4]], "payload": ' + b"[" * 100_000, "application/json", "JSON"),
    "many more payloads than rows": (
        b'{"X": [[1,2,3,4]], "ids": ["q"], "payload": [' + b"[[]]," * 9_999 + b"1]}",
        "application/json",
        "one entry for each of the 1 points; got 10000",
    ),
    "lists without end": (b'{"X": [' + b"[1]," * 500_000 + b"[1]]}", "application/json", "at most 500,000 lists"),
    "more ids than are read": (b'{"X": [[1,2,3,4]], "ids": [' + b"1," * 100_000 + b"1]}", "application/json", "100000"),
    "more payloads than are read": (
        b'{"X": [[1,2,3,4]], "ids": ["q"], "payload": [' + b"1," * 100_000 + b"1]}",
        "application/json",
        "100000",
    ),
    "too many rows": ({"X": [[0, 0, 0, 1]] * 501}, "application/json", "at most 500 rows"),
    "half an array": (npy(ONE)[:-3], NPY, "as many bytes as its shape"),
    "too much of an array": (npy(ONE) + b"1234", NPY, "as many bytes as its shape"),
    "no array": (b"\x93NUMPY\x01\x00\xff\xff{", NPY, "numpy.save"),
    "an array of terabytes": (
        npy(ONE).replace(b"(1, 4), }      ", b"(99999999999,)}"),
        NPY,
        "as many bytes as its shape",
    ),
    "a shape of flags": (npy(ONE).replace(b"(1, 4), }   ", b"(True, 4), }"), NPY, "numpy.save.*shape"),
    "a shape below nothing": (npy(ONE).replace(b"(1, 4), }    ", b"(-1, -4), }  "), NPY, "numpy.save.*shape"),
    "ids of no characters": (npz(X=ONE, ids=np.array([0x110000], np.uint32).view("<U1")), NPZ, "ids must be texts"),
    "pickled objects": (npy(np.array([[1, "a"]], object)), NPY, "an array of numbers"),
    "an array of texts": (npy(np.array([["1", "2"]])), NPY, "matrix of numbers"),
    "a row alone": (npy(ONE[0]), NPY, "1 dimensions"),
    "nan in an array": (npy(np.array([[1, 2, 3, 4], [1, np.nan, 3, 4]])), NPY, "row 1"),
    "no archive": (b"PK\x03\x04....", NPZ, "numpy.savez"),
    "an archive without X": (npz(Y=ONE), NPZ, "must be X"),
    "a large archive": (npz(X=ONE, ids=np.array(["q"]), payload=as_bytes([1]), more=ONE), NPZ, "there are more"),
    "ids in two dimensions": (npz(X=ONE, ids=np.array([["q"]])), NPZ, "ids must be a list"),
    "ids that are fractions": (npz(X=ONE, ids=np.array([0.5])), NPZ, "ids must be a list"),
    "payload that is no list": (npz(X=ONE, ids=np.array(["q"]), payload=as_bytes({"a": 1})), NPZ, "a list in JSON"),
    "payload that is no JSON": (npz(X=ONE, ids=np.array(["q"]), payload=np.frombuffer(b"[NaN]", "u1")), NPZ, "NaN"),
    "no stream": (b"arrow", ARROW, "Arrow stream"),
    "half a stream": (GOOD[: len(GOOD) // 2], ARROW, "Arrow stream"),
    "no vectors": (arrow(id=["q"]), ARROW, "columns must be vector"),
    "vectors of text": (arrow(vector=[["a"]]), ARROW, "vector must be a list of numbers"),
    "vectors of two lengths": (arrow(id=["q", "r"], vector=[[1.0, 2.0], [1.0]]), ARROW, "row 1 has 1"),
    "a vector that is not there": (arrow(id=["q", "r"], vector=[[1.0], None]), ARROW, "some are null"),
    "an id that is not there": (arrow(id=pa.array([None], pa.string()), vector=[[1.0, 2, 3, 4]]), ARROW, "ids"),
    "payload that is not JSON": (arrow(id=["q"], vector=ONE.tolist(), payload=["{"]), ARROW, "payload must be JSON"),
    "a compressed stream": (arrow("zstd", id=["q"], vector=ONE.tolist()), ARROW, "must not be compressed"),
    "a compressed stream of old": (
        arrow("zstd", is_legacy=True, id=["q"], vector=ONE.tolist()),
        ARROW,
        "format since 0.15",
    ),
    "a compressed batch of old": (SCHEMA + PACKED[4:] + b"\0" * 4, ARROW, "format since 0.15"),
    "a compressed batch out of step": (SCHEMA + with_an_odd_length(BATCH) + PACKED + END, ARROW, "length of a message"),
    "a batch that is compressed by its metadata": (
        arrow(metadata={"ARROW:experimental_compression": "zstd"}, id=["q"], vector=ONE.tolist()),
        ARROW,
        "must not be compressed",
    ),
    "more behind a stream": (GOOD + GOOD, ARROW, "nothing behind it"),
    "a stream without a schema": (BATCH + END, ARROW, "a schema, then batches"),
    "a kind that is elsewhere": (GOOD[:8] + struct.pack("<I", len(GOOD) - 13) + GOOD[12:], ARROW, "Arrow stream"),
    "a dictionary": (
        arrow(id=pa.array(["q"]).dictionary_encode(), vector=ONE.tolist()),
        ARROW,
        "without dictionaries|id must be text",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_changes_nothing(unchanging, case):
    body, kind, message = REFUSED[case]
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


def test_a_compressed_archive_is_refused(unchanging):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", npy(np.zeros((400, 1000))))
    status, said = unchanging.post("/v1/insert", file.getvalue(), NPZ)
    assert status == 422
    assert "compressed" in said["error"]


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
        ("remove", {"ids": ["nobody"]}, "'nobody' never was"),
        ("remove", {"ids": "p0"}, "ids: Input should be a valid array"),
        ("remove", {}, "ids: Field required"),
        ("update", {"ids": ["p0"]}, "X or payload must be given"),
        ("update", {"ids": ["p0"], "X": [[1, 2]]}, "4 columns"),
        ("update", {"X": [[1, 2, 3, 4]]}, "ids: Field required"),
        ("label", {"cluster": 99, "name": "x"}, "cluster must be the id of a cluster"),
        ("label", {"cluster": 0, "name": ""}, "name"),
        ("label", {"cluster": 0, "name": "x", "cut": "nothing"}, "cut must be one of 'default'"),
        ("cuts", {"name": "default"}, "no cut is called by yet"),
        ("cuts", {"name": "x", "n_clusters": 2, "threshold": 0.5}, "n_clusters"),
        ("cuts/drop", {"name": "default"}, "another cut than 'default'"),
        ("recut", {"name": "nothing"}, "cut must be one of"),
        ("refine", {"passes": 0}, "passes"),
        ("refine", {"passes": "1"}, "passes"),
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
    assert unchanging.get("/v1/cut?name=default")[1]["labels"] == store.labels().tolist()
    assert unchanging.get("/v1/cut?n_clusters=5")[1]["labels"] == grinch.cuts.cut_sizeable(store.tree, 5).tolist()
    assert unchanging.get("/v1/cut?threshold=0.2")[1]["labels"] == grinch.cuts.cut_threshold(store.tree, 0.2).tolist()
    layers = [labels for labels, _ in store.layers()[1]]
    assert unchanging.get("/v1/cut?layer=0")[1]["labels"] == layers[0].tolist()
    _, content = unchanging.get("/v1/cut?format=npy")
    assert np.array_equal(np.load(io.BytesIO(content)), store.labels())
    assert unchanging.post("/v1/vectors", {"ids": ["p7"]})[1]["X"] == store.vectors(["p7"]).tolist()


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


def test_a_node_and_a_search(unchanging):
    status, node = unchanging.get(f"/v1/node/{store_of(unchanging).tree.root}")
    assert (status, node["size"]) == (200, 30)
    assert unchanging.get(f"/v1/node/{node['node']}/members?limit=5")[1]["total"] == 30
    hits = unchanging.get("/v1/search?q=p17")[1]["hits"]
    assert hits[0]["leaf"] == 17


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/cut?layer=999", 404),
        ("/v1/cut?n_clusters=0", 422),
        ("/v1/cut?n_clusters=2&threshold=1", 422),
        ("/v1/cut?threshold=nan", 422),
        ("/v1/cut?name=nothing", 422),
        ("/v1/cut?name=", 422),
        ("/v1/clusters?cut=nothing", 422),
        ("/v1/changes?since=-1", 422),
        ("/v1/changes?cut=nothing", 422),
        ("/v1/changes/stream?since=99", 422),
        ("/v1/changes/stream?cut=nothing", 422),
        ("/v1/tree?format=gif", 422),
        ("/v1/node/99999999", 404),
        ("/v1/node/-1", 422),
        ("/v1/node/0?version=7", 409),
        ("/v1/nothing", 404),
        ("/v1", 404),
        ("/v1/insert", 405),
    ],
)
def test_questions_that_have_no_answer(unchanging, path, status):
    found, said = unchanging.get(path)
    assert (found, next(iter(said))) == (status, "error")


def test_an_empty_store_answers(served):
    assert served.get("/v1/info")[1]["points"] == 0
    assert served.get("/v1/ids")[1]["ids"] == []
    assert served.get("/v1/cut")[1]["labels"] == []
    assert served.get("/v1/cut?n_clusters=3")[1]["labels"] == []
    assert served.get("/v1/cut?layer=0")[0] == 404
    assert served.get("/v1/clusters")[1]["clusters"] == []
    assert served.get("/v1/changes")[1]["changes"] == []
    assert served.get("/v1/tree")[1]["node"] == []
    assert served.get("/v1/tree?format=newick")[0] == 200
    assert served.get("/v1/tree?format=npy")[0] == 200
    assert served.get("/v1/search?q=x")[1]["hits"] == []
    assert served.get("/v1/node/0")[0] == 404
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


def test_a_stream_without_since_begins_now(filled):
    with listening(filled, "/v1/changes/stream") as stream:
        filled.post("/v1/label", {"cluster": 0, "name": "first"})
        assert streamed(stream, 1)[0][1] == "2"


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
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
        for i in range(first, 200, 10):
            body = json.dumps({"X": X[i : i + 1].tolist(), "ids": [f"p{i}"]})
            connection.request("POST", "/v1/insert", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = json.loads(answer.read())
            (done if answer.status == 200 else wrong).append((said, i))
        connection.close()

    def read():
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
        while not stop.is_set():
            connection.request("GET", "/v1/clusters")
            answer = connection.getresponse()
            said = json.loads(answer.read())
            members = sum(one["size"] for one in said["clusters"])
            if answer.status != 200 or members < said["version"]:
                wrong.append(said)
        connection.close()

    writers = [threading.Thread(target=write, args=(i,)) for i in range(10)]
    readers = [threading.Thread(target=read) for _ in range(4)]
    for thread in writers + readers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    store = store_of(served)
    assert sorted(store.ids) == sorted(f"p{i}" for i in range(200))
    assert all(said["ids"] == [f"p{i}"] for said, i in done)
    assert store.version < 200, "some of them were written together"
    store.check()


def test_predictions_that_are_asked_together_are_those_alone(filled, monkeypatch):
    """While the store is taken they gather; some of them are wrong, and the others are answered."""
    store, X, answers = store_of(filled), some_rows(12, seed=8), {}
    alone, calls = store.predict(X).tolist(), []
    predict = View.predict
    monkeypatch.setattr(View, "predict", lambda view, X, cut: calls.append(len(X)) or predict(view, X, cut))

    def ask(i, body):
        connection = http.client.HTTPConnection("127.0.0.1", filled.port, timeout=30)
        connection.request("POST", "/v1/predict", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answers[i] = answer.status, json.loads(answer.read())
        connection.close()

    bodies = [{"X": X[i : i + 1].tolist()} for i in range(12)]
    bodies += [{"X": [[1, 2]]}, {"X": X[:1].tolist(), "cut": "nothing"}]
    threads = [threading.Thread(target=ask, args=each) for each in enumerate(bodies)]
    with store.view():
        for thread in threads:
            thread.start()
        for thread in threads[:1]:
            thread.join(0.5)
    for thread in threads:
        thread.join()
    assert [answers[i][1]["clusters"] for i in range(12)] == [[cluster] for cluster in alone]
    assert (answers[12][0], answers[13][0]) == (422, 422)
    assert len(calls) < 14


def test_too_much_at_once_is_said(tmp_path):
    with serving(grinch.open(tmp_path), max_queued=1) as served:
        store, answers = store_of(served), []
        served.post("/v1/insert", {"X": some_rows(1, seed=99).tolist(), "ids": [99]})
        served.post("/v1/insert", {"X": some_rows(1, seed=98).tolist(), "ids": [98]})

        def insert(i):
            connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
            body = json.dumps({"X": some_rows(1, seed=i).tolist(), "ids": [i]})
            connection.request("POST", "/v1/insert", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answers.append((answer.status, answer.headers["Retry-After"], json.loads(answer.read())))
            connection.close()

        threads = [threading.Thread(target=insert, args=(i,)) for i in range(6)]
        with store.view():
            for thread in threads:
                thread.start()
            while len(answers) < 4:
                time.sleep(0.001)
            refused = [said for said in answers if said[0] == 503]
            assert len(refused) >= 4
            assert refused[0][1] == "1"
            assert "try again" in refused[0][2]["error"]
        for thread in threads:
            thread.join()
        assert len(store) - 2 == 6 - len(refused) == sum(status == 200 for status, _, _ in answers)


# Others ---------------------------------------------------------------------------------------------------------------


def test_numbers_for_prometheus(filled):
    filled.get("/v1/nothing")
    status, content = filled.get("/metrics")
    lines = content.decode().splitlines()
    assert status == 200
    assert filled.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert "grinch_points 30" in lines
    assert "grinch_version 1" in lines
    assert "grinch_queue_depth 0" in lines
    assert 'grinch_requests_total{route="/v1/insert",method="POST",status="200"} 1' in lines
    assert 'grinch_requests_total{route="other",method="GET",status="404"} 1' in lines
    assert 'grinch_request_seconds_count{route="/v1/insert"} 1' in lines
    assert 'grinch_batch_points_bucket{le="32"} 1' in lines
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert all(line.startswith("#") or line.startswith(tuple(names)) for line in lines)


def test_a_read_only_service_changes_nothing(tmp_path):
    with grinch.open(tmp_path) as store:
        store.insert(some_rows(4), ids=list("abcd"))
    with serving(grinch.open(tmp_path, readonly=True), is_read_only=True) as served:
        for path, body in [
            ("/v1/insert", {"X": [[1, 2, 3, 4]], "ids": ["e"]}),
            ("/v1/remove", {"ids": ["a"]}),
            ("/v1/update", {"ids": ["a"], "payload": [1]}),
            ("/v1/label", {"cluster": 0, "name": "x"}),
            ("/v1/refine", {}),
        ]:
            status, said = served.post(path, body)
            assert (status, "read-only" in said["error"]) == (403, True), path
        assert served.post("/api/names", {"node": 0, "name": "x"})[0] == 403
        assert served.get("/v1/info")[1]["is_read_only"] is True
        assert served.get("/v1/ids")[1]["ids"] == list("abcd")


def test_a_model_is_served(blobs):
    X, _ = blobs
    model = Grinch(n_clusters=12).fit(X)
    with serving(ModelBackend(model, "blobs", payload=[f"text {i}" for i in range(300)])) as served:
        assert served.get("/v1/info")[1] == {
            "kind": "model",
            "is_read_only": True,
            "points": 300,
            "version": 1,
            "n_features": 6,
            "columns": None,
            "title": "blobs",
        }
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
