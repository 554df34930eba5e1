"""Where a point would go, against what the model or the store predicts."""

import json

import numpy as np
import pytest

import grinch
from grinch.serve.backend import StoreBackend
from grinch.serve.views.viewer import Viewer
from serve.looked import labels_of_cut, news, now, points, viewer_on

NEW = points(60, seed=7)[0]


SETTINGS = [
    *({"n_clusters": 4}, {"n_clusters": 30}, {}, {"linkage": "ward", "n_clusters": 7}),
    *({"metric": "cosine", "threshold": 0.6}, {"metric": "cosine", "threshold": 0.999}),
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_point_goes_where_the_model_predicts(settings):
    X, payload = news(150)
    viewer = viewer_on(X, payload=payload, **settings)
    for row, expected in zip(NEW, viewer.backend.model.predict(NEW).tolist(), strict=True):
        found = viewer.place(row.tolist(), cut="cut:labels")
        assert cluster_of(found) == expected
        assert found["node"] in viewer.scene.tree
        assert found["size"] == viewer.scene.tree.size(found["node"])
        assert [crumb["node"] for crumb in found["path"]] == viewer.scene.path(found["node"])
        if settings.get("linkage") == "ward":
            nearest = int(np.argmin(((X - row) ** 2).sum(axis=1)))
            assert [point["leaf"] for point in found["neighbours"]] == [nearest]


def cluster_of(found):
    return (found["cluster"] or {"cluster": -1})["cluster"]


def test_in_a_cut_of_our_own_it_joins_the_cluster_of_its_place():
    viewer = viewer_on(points(150)[0], linkage="ward", n_clusters=6)
    scene = viewer.scene
    labels = labels_of_cut(scene, scene.cut("k:6"))
    for row in NEW[:20]:
        found = viewer.place(row.tolist(), cut="k:6")
        under = set(labels[scene.tree.leaves(found["node"])].tolist())
        assert cluster_of(found) == (under.pop() if len(under) == 1 else labels[found["neighbours"][0]["leaf"]])


def test_in_a_store_it_goes_where_the_store_predicts(tmp_path):
    X, _ = points(150)
    with grinch.open(tmp_path / "store", n_clusters=4) as store:
        store.insert(X, ids=[f"p{i}" for i in range(150)])
        store.remove([f"p{i}" for i in range(30)])
        store.add_cut("fine", n_clusters=20)
        store.add_cut("strict", threshold=0.9)
        viewer = Viewer(StoreBackend(store))
        for cut in ("default", "fine", "strict"):
            for row, expected in zip(NEW[:20], store.predict(NEW[:20], cut).tolist(), strict=True):
                assert cluster_of(viewer.place(row.tolist(), cut=f"cut:{cut}")) == expected
        # Like a point that is there.
        for i in (30, 47, 149):
            found = viewer.place(like=f"p{i}")
            assert found["neighbours"][0]["id"] == f"p{i}"
            assert cluster_of(found) == store.predict(X[i : i + 1])[0]
        with pytest.raises(KeyError, match="id 'p80000' is not there"):
            viewer.place(like="p80000")


def test_in_a_tree_that_has_moved_on(tmp_path):
    X, _ = points(100)
    with grinch.open(tmp_path / "store", n_clusters=4) as store:
        store.insert(X)
        viewer = Viewer(StoreBackend(store))
        store.insert(points(50, seed=5)[0])
        found = viewer.place(X[3].tolist())
        assert found["version"] == 1
        assert found["neighbours"][0]["leaf"] == 3
        assert 3 in viewer.scene.leaves(found["node"])
        # Beside a point that is not in the picture yet.
        new = viewer.place(points(50, seed=5)[0][7].tolist())
        assert new["node"] in viewer.scene.tree
        assert now(viewer).place(X[3].tolist())["version"] == 2


@pytest.mark.parametrize("n", [1, 2])
def test_beside_one_or_two(n):
    assert viewer_on(points(n)[0], n_clusters=1).place([1.0, 2, 3, 4, 5])["cluster"]["cluster"] == 0


def test_a_text_is_read_as_json():
    viewer = viewer_on(points(20)[0], n_clusters=2)
    assert viewer.place(json.dumps(NEW[0].tolist())) == viewer.place(NEW[0].tolist())


NO_LIST, NO_JSON, NOT_FINITE = "vector must be a list of numbers", "a list of numbers in JSON", "NaN|finite|nan"
NO_POINTS = [
    *((vector, NO_LIST) for vector in (None, '{"a": 1}', "5", ["1", 2, 3, 4], [True, 2, 3, 4], [[1, 2, 3, 4, 5]])),
    *((vector, NO_JSON) for vector in ("", "[1, 2", "[" * 100_000)),
    *((vector, "must have 5 numbers") for vector in ([1, 2], [])),
    *((vector, NOT_FINITE) for vector in ([float("nan"), 2, 3, 4, 5], "[NaN, 1, 1, 1, 1]")),
    ([10**400, 2, 3, 4, 5], "too large"),
    ([1e308] * 5, "values that can be squared"),
]


@pytest.mark.parametrize("kind", ["model", "store"])
def test_what_is_no_point_is_refused(tmp_path, kind):
    with grinch.open(tmp_path / "store") as store:
        with pytest.raises(ValueError, match="there are no points yet"):
            Viewer(StoreBackend(store)).place([1.0, 2.0])
        store.insert(points(20)[0])
        viewer = viewer_on(points(20)[0]) if kind == "model" else Viewer(StoreBackend(store))
        for vector, why in NO_POINTS:
            with pytest.raises(ValueError, match=why):
                viewer.place(vector)
