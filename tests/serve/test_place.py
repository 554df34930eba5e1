"""Where a point would go, against what the model or the store predicts."""

from __future__ import annotations

import json

import numpy as np
import pytest

import grinch
from grinch import Grinch, cuts
from grinch.serve.backend import StoreBackend
from grinch.serve.model_backend import ModelBackend
from grinch.serve.views.viewer import Viewer
from serve.looked import labels_of_cut, news, now, points

NEW = points(60, seed=7)[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"n_clusters": 4},
        {"n_clusters": 30},
        {},
        {"metric": "cosine", "threshold": 0.6},
        {"metric": "cosine", "threshold": 0.999},
        {"linkage": "ward", "n_clusters": 7},
    ],
)
def test_a_point_goes_where_the_model_predicts(settings):
    X, payload = news(150)
    model = Grinch(**settings).fit(X)
    viewer = Viewer(ModelBackend(model, payload=payload))
    for row, expected in zip(NEW, model.predict(NEW).tolist(), strict=True):
        found = viewer.place(row.tolist(), cut="cut:labels")
        assert (found["cluster"] or {"cluster": -1})["cluster"] == expected
        assert found["node"] in viewer.scene.tree
        assert found["size"] == viewer.scene.tree.size(found["node"])
        assert [crumb["node"] for crumb in found["path"]] == viewer.scene.path(found["node"])


def test_the_nearest_point_is_named():
    X, payload = news(100)
    viewer = Viewer(ModelBackend(Grinch(linkage="ward").fit(X), payload=payload))
    for row in NEW[:20]:
        nearest = int(np.argmin(((X - row) ** 2).sum(axis=1)))
        assert [point["leaf"] for point in viewer.place(row.tolist())["neighbours"]] == [nearest]


def test_in_a_cut_of_our_own_it_joins_the_cluster_of_its_place():
    X, _ = points(150)
    model = Grinch(linkage="ward", n_clusters=6).fit(X)
    viewer = Viewer(ModelBackend(model))
    scene = viewer.scene
    cut = scene.cut("k:6")
    assert (cuts.cut_sizeable(scene.tree, 6, 2) >= 0).any()
    labels = labels_of_cut(scene, cut)
    for row in NEW[:20]:
        found = viewer.place(row.tolist(), cut="k:6")
        under = set(labels[scene.tree.leaves(found["node"])].tolist())
        beside = found["neighbours"][0]["leaf"]
        expected = under.pop() if len(under) == 1 else labels[beside]
        assert (found["cluster"] or {"cluster": -1})["cluster"] == expected


def test_like_a_point_that_is_there(tmp_path):
    X, payload = news(80)
    with grinch.open(tmp_path / "store", n_clusters=4) as store:
        store.insert(X, ids=[f"p{i}" for i in range(80)], payload=payload)
        viewer = Viewer(StoreBackend(store))
        for i in (0, 17, 79):
            found = viewer.place(like=f"p{i}")
            assert found["neighbours"][0]["id"] == f"p{i}"
            assert found["cluster"]["cluster"] == store.predict(X[i : i + 1])[0]
        with pytest.raises(KeyError, match="id 'p80' is not there"):
            viewer.place(like="p80")


def test_in_a_store_it_goes_where_the_store_predicts(tmp_path):
    X, _ = points(150)
    with grinch.open(tmp_path / "store", n_clusters=4) as store:
        store.insert(X)
        store.remove(list(range(0, 30)))
        store.add_cut("fine", n_clusters=20)
        store.add_cut("strict", threshold=0.9)
        viewer = Viewer(StoreBackend(store))
        for cut in ("default", "fine", "strict"):
            for row, expected in zip(NEW[:20], store.predict(NEW[:20], cut).tolist(), strict=True):
                found = viewer.place(row.tolist(), cut=f"cut:{cut}")["cluster"]
                assert (found or {"cluster": -1})["cluster"] == expected


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
    viewer = Viewer(ModelBackend(Grinch(n_clusters=1).fit(points(n)[0])))
    assert viewer.place([1.0, 2, 3, 4, 5])["cluster"]["cluster"] == 0


def test_a_text_is_read_as_json():
    viewer = Viewer(ModelBackend(Grinch(n_clusters=2).fit(points(20)[0])))
    assert viewer.place(json.dumps(NEW[0].tolist())) == viewer.place(NEW[0].tolist())


@pytest.mark.parametrize(
    ("vector", "why"),
    [
        (None, "vector must be a list of numbers"),
        ("", "a list of numbers in JSON"),
        ("[1, 2", "a list of numbers in JSON"),
        ("[" * 100_000, "a list of numbers in JSON"),
        ('{"a": 1}', "vector must be a list of numbers"),
        ("5", "vector must be a list of numbers"),
        (["1", 2, 3, 4, 5], "vector must be a list of numbers"),
        ([True, 2, 3, 4, 5], "vector must be a list of numbers"),
        ([[1, 2, 3, 4, 5]], "vector must be a list of numbers"),
        ([1, 2], "must have 5 numbers"),
        ([], "must have 5 numbers"),
        ([float("nan"), 2, 3, 4, 5], "NaN|finite|nan"),
        ("[NaN, 1, 1, 1, 1]", "NaN|finite|nan"),
        ([10**400, 2, 3, 4, 5], "too large"),
        ([1e308] * 5, "values that can be squared"),
    ],
)
@pytest.mark.parametrize("kind", ["model", "store"])
def test_what_is_no_point_is_refused(tmp_path, kind, vector, why):
    X, _ = points(20)
    if kind == "model":
        source = ModelBackend(Grinch().fit(X))
    else:
        store = grinch.open(tmp_path / "store")
        store.insert(X)
        source = StoreBackend(store)
    with pytest.raises(ValueError, match=why):
        Viewer(source).place(vector)
    source.close()


def test_nowhere_in_an_empty_store(tmp_path):
    with grinch.open(tmp_path / "store") as store, pytest.raises(ValueError, match="there are no points yet"):
        Viewer(StoreBackend(store)).place([1.0, 2.0])
