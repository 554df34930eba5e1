"""The map against numpy: PCA, columns, and what is known of every point."""

from __future__ import annotations

import numpy as np
import pytest

import grinch
from grinch import Grinch
from grinch.serve.backend import StoreBackend
from grinch.serve.model_backend import ModelBackend
from grinch.serve.views import maps
from grinch.serve.views.icicle import unpack_arrays
from grinch.serve.views.maps import quantized
from grinch.serve.views.viewer import Viewer
from serve.looked import news, now, points, tree_of

WIDE = 65_535


def pca(rows):
    centred = rows - rows.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T


def scaled(values):
    low, high = values.min(axis=0), values.max(axis=0)
    return (values - low) / np.where(high > low, high - low, 1) * WIDE


def plane_of(message):
    header, arrays = unpack_arrays(message)
    return header, np.column_stack([arrays["x"], arrays["y"]]).astype(float)


def test_pca_is_that_of_numpy():
    X, _ = points(300)
    viewer = Viewer(ModelBackend(Grinch(linkage="ward").fit(X)))
    header, plane = plane_of(viewer.map("pca"))
    assert (header["version"], header["method"], header["n"]) == (1, "pca", 300)
    expected = pca(X.astype(float))[viewer.scene.order]
    for axis in (0, 1):
        close = [np.abs(scaled(sign * expected[:, axis : axis + 1])[:, 0] - plane[:, axis]).max() for sign in (1, -1)]
        assert min(close) < 40
    width = np.ptp(expected, axis=0)
    assert header["aspect"] == pytest.approx(np.clip(width[0] / width[1], 0.2, 5), rel=1e-3)


def test_directions_are_compared_under_cosine():
    X, _ = points(200)
    viewer = Viewer(ModelBackend(Grinch(linkage="cosine").fit(X)))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    expected = pca(unit.astype(float))[viewer.scene.order]
    plane = plane_of(viewer.map())[1]
    close = [np.abs(scaled(sign * expected[:, :1])[:, 0] - plane[:, 0]).max() for sign in (1, -1)]
    assert min(close) < 40


def test_some_rows_at_a_time_are_the_same(monkeypatch):
    X, _ = points(100)
    model = Grinch(linkage="ward").fit(X)
    whole = Viewer(ModelBackend(model)).map("pca")
    monkeypatch.setattr(maps, "ROWS_PER_CHUNK", 7)
    np.testing.assert_allclose(plane_of(Viewer(ModelBackend(model)).map("pca"))[1], plane_of(whole)[1], atol=1)


@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (3, 1), (5, 1), (4, 2)])
def test_few_points_and_few_columns(shape):
    X = np.random.default_rng(0).normal(size=shape)
    header, plane = plane_of(Viewer(ModelBackend(Grinch(linkage="ward").fit(X))).map("pca"))
    assert plane.shape == (shape[0], 2)
    assert header["n"] == shape[0]


def test_the_map_does_not_turn_as_points_come(tmp_path):
    X, _ = points(200)
    with grinch.open(tmp_path / "store", linkage="ward") as store:
        store.insert(X[:150])
        viewer = Viewer(StoreBackend(store))
        viewer.map()
        mean, axes, n = viewer.axes
        store.insert(X[150:])
        now(viewer).map()
        assert viewer.axes[2] == n == 150
        np.testing.assert_array_equal(viewer.axes[1], axes)
        # Once there are more than twice as many, they are found again.
        store.insert(points(400, seed=3)[0])
        now(viewer).map()
        assert viewer.axes[2] == 600
        assert mean is not viewer.axes[0]


def test_columns_of_the_payload():
    X, _ = points(50)
    rng = np.random.default_rng(3)
    place = rng.normal(size=(50, 2))
    payload = [{"left": float(x), "up": str(y)} for x, y in place]
    viewer = Viewer(ModelBackend(Grinch().fit(X), payload=payload), x="left", y="up")
    assert viewer.about()["map"] == {"methods": maps.methods(viewer, viewer.scene), "method": "columns"}
    header, plane = plane_of(viewer.map())
    assert header["method"] == "columns"
    np.testing.assert_allclose(plane, scaled(place)[viewer.scene.order], atol=1)


def test_columns_without_vectors():
    payload = [{"a": i, "b": -i} for i in range(10)]
    viewer = Viewer(ModelBackend(tree_of(10), payload=payload), x="a", y="b")
    assert viewer.about()["map"] == {"methods": ["columns"], "method": "columns"}
    np.testing.assert_allclose(plane_of(viewer.map())[1][:, 0], viewer.scene.order / 9 * WIDE, atol=1)


@pytest.mark.parametrize("odd", [None, "text", [1], {}, float("nan"), float("inf"), 10**400, 1e300, "1e999", True])
def test_what_is_no_coordinate_is_at_the_origin(odd):
    payload = [{"a": -1, "b": -1}, {"a": odd, "b": odd}, {"b": 0}, {"a": 1, "b": 1}, "no fields"]
    viewer = Viewer(ModelBackend(tree_of(5), payload=payload), x="a", y="b")
    plane = dict(zip(viewer.scene.order.tolist(), plane_of(viewer.map())[1].tolist(), strict=True))
    expected = WIDE if odd is True else WIDE / 2
    assert plane[1] == pytest.approx([expected, expected], abs=1)
    assert plane[2] == plane[4] == pytest.approx([WIDE / 2, WIDE / 2], abs=1)


def test_a_method_there_is_none_of_is_refused():
    viewer = Viewer(ModelBackend(Grinch().fit(points(20)[0])))
    for method in ("columns", "tsne", "x" * 99):
        with pytest.raises(ValueError, match="method must be one of pca"):
            viewer.map(method)


@pytest.mark.parametrize("n", [0, 1, 5, 999, 1_000, 5_000])
def test_both_coordinates_are_in_16_bits(n):
    plane = np.random.default_rng(1).normal(size=(n, 2)).astype(np.float32)
    x, y, aspect = quantized(plane)
    assert (len(x), len(y), x.dtype, y.dtype) == (n, n, np.uint16, np.uint16)
    assert 0.2 <= aspect <= 5
    if n > 1:
        assert (np.diff(x[np.argsort(plane[:, 0], kind="stable")].astype(int)) >= 0).all()


def test_points_far_out_do_not_make_the_rest_a_dot():
    plane = np.random.default_rng(1).normal(size=(5_000, 2)).astype(np.float32)
    plane[0] = [1e6, -1e6]
    x, y, _ = quantized(plane)
    assert (x[0], y[0]) == (WIDE, 0)
    assert np.ptp(x[1:].astype(int)) > WIDE / 2


# Of every point -------------------------------------------------------------------------------------------------------


def test_something_of_every_point(tmp_path):
    with grinch.open(tmp_path / "store") as store:
        for seed in range(3):
            X, payload = news(20, seed)
            payload[3]["label"] = None
            store.insert(X, payload=payload)
        viewer = Viewer(StoreBackend(store))
        order = viewer.scene.order
        header, arrays = unpack_arrays(viewer.points("fresh", since=1))
        assert (header["version"], header["what"], header["n"]) == (3, "fresh", 60)
        np.testing.assert_array_equal(arrays["value"], (store.arrived() > 1)[order])
        labels = [payload["label"] for payload in store.payload(store.ids)]
        values = unpack_arrays(viewer.points("label"))[1]["value"]
        found = [None if value == WIDE else viewer.scene.label_names[value] for value in values.tolist()]
        assert found == [labels[leaf] for leaf in order.tolist()]
        times = np.array([store.times()[version] for version in store.arrived().tolist()])[order]
        values = unpack_arrays(viewer.points("time"))[1]["value"]
        np.testing.assert_allclose(values, (times - times.min()) / np.ptp(times) * 65_534, atol=1)


@pytest.mark.parametrize("what", ["", "label", "cluster", "x" * 99])
def test_something_that_is_not_known_is_refused(what):
    with pytest.raises(ValueError, match=r"what must be label \(where labels are known\), time or fresh"):
        Viewer(ModelBackend(tree_of(9))).points(what)
