"""A sharded store on the page and over HTTP: one source, the same routes, and what its own methods say."""

from __future__ import annotations

import json
import time
from contextlib import closing

import numpy as np
import pytest

import grinch
from grinch.serve.arrays import unpack_arrays
from grinch.serve.sources import StoreSource, open_source
from grinch.serve.viewer import Viewer
from serve.looked import labels_of_cut, news, now
from serving import serving


@pytest.fixture
def folder(tmp_path):
    """150 points with titles, in several branches."""
    X, payload = news(150)
    with grinch.open(tmp_path / "many", max_points=60, linkage="ward", n_clusters=4) as store:
        store.insert(X, ids=[f"p{i}" for i in range(150)], payload=payload)
        store.label(int(store.labels()[0]), "the first")
        assert len(store.branches) > 2
    return tmp_path / "many"


def test_the_page_of_a_sharded_store(folder):
    X, payload = news(150)
    with closing(open_source(folder)) as source:
        assert isinstance(source, StoreSource)
        viewer, store = Viewer(source), source.store
        about = viewer.about()
        assert (about["n"], about["version"], about["kind"]) == (150, store.version, "store")
        assert about["cuts"][0]["clusters"] == 4
        assert about["can_place"]
        assert about["can_name"]
        assert source.metric() == "euclidean"
        scene = viewer.scene
        np.testing.assert_array_equal(labels_of_cut(scene, scene.cut("cut:default")), store.labels())
        header, places = unpack_arrays(viewer.map("pca"))
        assert header["n"] == len(places["x"]) == 150
        placed = viewer.place(X[7].tolist())
        assert placed["neighbours"][0]["id"] == "p7"
        assert placed["cluster"]["cluster"] == store.predict(X[7:8])[0]
        assert viewer.place(like="p9")["neighbours"][0]["id"] == "p9"
        assert viewer.search("item0x44")["hits"][0]["leaf"] == 44
        assert viewer.search("the first")["hits"][0]["kind"] == "cluster"
        assert viewer.search("p12")["hits"][0]["kind"] == "id"
        assert viewer.node(scene.tree.root)["size"] == 150
        assert {member["id"] for member in viewer.members(scene.tree.root, limit=150)["members"]} == set(store.ids)
        viewer._compute_layers(scene)
        assert len(viewer.layers()["layers"]) == len(store.layers()) > 0
        assert viewer.changes(0)["counts"] == {"born": 4, "renamed": 1}
        assert scene.label_names
        assert set(scene.label_names) == {about["label"] for about in payload}
        viewer.name(scene.tree.root, "all of it")
        assert viewer.node(scene.tree.root)["title"] == "all of it"


def test_versions_come_while_the_page_is_open(folder):
    X, payload = news(90, seed=1)
    with closing(open_source(folder)) as source:
        viewer = Viewer(source)
        before = viewer.version
        with grinch.open(folder) as store:
            branches = len(store.branches)
            store.insert(X, ids=[f"q{i}" for i in range(90)], payload=payload)
            store.remove(["p3"])
            assert len(store.branches) > branches
            labels = store.labels()
        now(viewer)
        assert viewer.version == source.store.version > before
        assert viewer.n == 239
        np.testing.assert_array_equal(viewer.scene.seen.cuts["default"], labels)
        assert viewer.changes(since=before)["new_points"] == 90
        assert viewer.locate("q5")["size"] == 1
        with pytest.raises(KeyError, match="not there"):
            viewer.locate("p3")
        assert viewer.at(before).n == 150


def shown(served, path, version):
    """What a viewer answers once it shows a version: not at once, where the last picture took long."""
    for _ in range(600):
        status, said = served.get(path)
        if status == 200 and said["version"] == version:
            return said
        time.sleep(0.05)
    raise AssertionError(said)


def test_the_routes_of_a_sharded_store(tmp_path):
    X, payload = news(150)
    ids = [f"p{i}" for i in range(150)]
    with serving(grinch.open(tmp_path / "many", max_points=60, linkage="ward", n_clusters=4)) as served:
        store = served.service.desk.live.store
        for at in (slice(0, 50), slice(50, 150)):
            body = {"X": X[at].tolist(), "ids": ids[at], "payload": payload[at]}
            status, said = served.post("/v1/insert", body)
            assert (status, said["ids"]) == (200, ids[at])
            assert said["version"] == store.version
        assert len(store.branches) > 2
        wrong = served.post("/v1/insert", {"X": [[1.0]], "ids": ["x"]})
        assert wrong[0] == 422
        assert "5 columns" in wrong[1]["error"]
        assert served.post("/v1/remove", {"ids": ["p0", "p1"]})[0] == 200
        assert served.post("/v1/remove", {"ids": ["nobody"]})[0] == 422
        assert (
            served.post("/v1/update", {"ids": ["p2"], "X": X[100:101].tolist(), "payload": [{"title": "new"}]})[0]
            == 200
        )
        assert served.post("/v1/refine", {"passes": 1})[0] == 200
        cluster = int(store.labels()[0])
        assert served.post("/v1/label", {"cluster": cluster, "name": "mine"})[0] == 200
        assert served.post("/v1/cuts", {"name": "fine", "n_clusters": 9})[0] == 200
        assert served.post("/v1/recut", {"name": "default"})[0] == 200

        version = store.version
        assert served.get("/v1/ids")[1] == {"version": version, "total": 148, "ids": store.ids}
        assert served.get("/v1/cut")[1] == {"version": version, "labels": store.labels().tolist()}
        assert served.get("/v1/cut?name=fine")[1]["labels"] == store.labels("fine").tolist()
        assert served.get("/v1/cut?n_clusters=3")[1]["labels"] == store.labels(n_clusters=3).tolist()
        assert shown(served, "/v1/cut?layer=0", version)["labels"] == store.layers()[0][0].tolist()
        listed = served.get("/v1/clusters")[1]["clusters"]
        assert {one["cluster"]: one["ids"] for one in listed} == store.clusters()
        assert [one["name"] for one in listed if one["cluster"] == cluster] == ["mine"]
        assert served.get("/v1/names")[1]["names"] == {str(cluster): "mine"}
        assert len(served.get("/v1/changes?cut=*")[1]["changes"]) == len(store.changes(cut=None))
        assert served.post("/v1/payload", {"ids": ["p2", "p9"]})[1]["payload"] == [{"title": "new"}, payload[9]]
        rows = np.array(served.post("/v1/vectors", {"ids": ["p2", "p9"]})[1]["X"], np.float32)
        np.testing.assert_array_equal(rows, X[[100, 9]])
        assert served.post("/v1/predict", {"X": X[20:30].tolist()})[1]["clusters"] == store.predict(X[20:30]).tolist()
        assert served.post("/v1/predict", {"X": X[:2].tolist(), "cut": "nothing"})[0] in (404, 422)
        tree = served.get("/v1/tree")[1]
        assert tree["size"][-1] <= 148
        assert max(tree["size"]) == 148
        assert served.get("/v1/tree?format=newick")[1].decode() == store.tree.to_newick(store.ids)
        assert shown(served, "/v1/search?q=item0x44", version)["hits"][0]["leaf"] == 42
        assert shown(served, f"/v1/node/{store.tree.root}", version)["size"] == 148
        about = served.get("/v1/info")[1]
        assert (about["kind"], about["points"], about["max_points"]) == ("store", 148, 60)
        assert set(about["cuts"]) == {"default", "fine"}
        assert b"grinch_points 148" in served.get("/metrics")[1]
        assert served.get("/api/about")[1]["can_place"]
        assert served.post("/v1/cuts/drop", {"name": "fine"})[0] == 200
        assert store.cut_names == ["default"]
        with grinch.connect(served.url) as client:
            assert client.ids == store.ids
            assert client.tree.n_leaves == 148
            assert client.clusters() == store.clusters()
    with grinch.open(tmp_path / "many") as again:
        assert (len(again), again.names()) == (148, {cluster: "mine"})
        again.check()


def test_points_without_ids_get_numbers_over_http(tmp_path):
    X, _ = news(80)
    with serving(grinch.open(tmp_path / "many", max_points=30)) as served:
        assert served.post("/v1/insert", {"X": X[:50].tolist()})[1]["ids"] == list(range(50))
        assert served.post("/v1/remove", {"ids": [49]})[0] == 200
        assert served.post("/v1/insert", {"X": X[50:].tolist()})[1]["ids"] == list(range(50, 80))
        assert json.dumps(served.get("/v1/ids")[1]["ids"]) == json.dumps([i for i in range(80) if i != 49])


def test_a_read_only_service_beside_a_writer(folder):
    X, _ = news(30, seed=2)
    with grinch.open(folder) as writer, serving(grinch.open(folder, readonly=True)) as served:
        assert served.post("/v1/insert", {"X": X.tolist()})[0] == 403
        writer.insert(X, ids=[f"r{i}" for i in range(30)])
        served.service.desk.live._looked_at = -10.0
        assert served.get("/v1/info")[1]["version"] == writer.version
        assert served.get("/v1/cut")[1]["labels"] == writer.labels().tolist()
