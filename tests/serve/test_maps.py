"""The map against numpy: PCA, columns, and what is known of every point."""

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
from serve.looked import map_of, news, now, points, tree_of, viewer_on

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


def differs(found, expected):
    """By how much an axis differs from where it was expected, whichever way it points."""
    return min(np.abs(scaled(sign * expected) - found).max() for sign in (1, -1))


def test_pca_is_that_of_numpy():
    X, _ = points(300)
    viewer = viewer_on(X, linkage="ward")
    header, plane = plane_of(map_of(viewer, "pca"))
    assert (header["version"], header["method"], header["n"]) == (1, "pca", 300)
    expected = pca(X.astype(float))[viewer.scene.order]
    assert all(differs(plane[:, axis], expected[:, axis]) < 40 for axis in (0, 1))
    width = np.ptp(expected, axis=0)
    assert header["aspect"] == pytest.approx(np.clip(width[0] / width[1], 0.2, 5), rel=1e-3)
    # Directions are compared under cosine.
    viewer = viewer_on(X[:200], linkage="cosine")
    unit = X[:200] / np.linalg.norm(X[:200], axis=1, keepdims=True)
    expected = pca(unit.astype(float))[viewer.scene.order]
    assert differs(plane_of(map_of(viewer, "pca"))[1][:, 0], expected[:, 0]) < 40


def test_some_rows_at_a_time_are_the_same(monkeypatch):
    X, _ = points(100)
    model = Grinch(linkage="ward").fit(X)
    whole = map_of(Viewer(ModelBackend(model)), "pca")
    monkeypatch.setattr(maps, "ROWS_PER_CHUNK", 7)
    np.testing.assert_allclose(plane_of(map_of(Viewer(ModelBackend(model)), "pca"))[1], plane_of(whole)[1], atol=1)


@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (3, 1), (5, 1), (4, 2)])
def test_few_points_and_few_columns(shape):
    viewer = viewer_on(np.random.default_rng(0).normal(size=shape), linkage="ward")
    header, plane = plane_of(map_of(viewer, "pca"))
    assert (plane.shape, header["n"]) == ((shape[0], 2), shape[0])


def test_the_map_does_not_turn_as_points_come(tmp_path):
    X, _ = points(200)
    with grinch.open(tmp_path / "store", linkage="ward") as store:
        store.insert(X[:150])
        viewer = Viewer(StoreBackend(store))
        map_of(viewer, "pca")
        mean, axes, n = viewer.axes
        store.insert(X[150:])
        map_of(now(viewer), "pca")
        assert viewer.axes[2] == n == 150
        np.testing.assert_array_equal(viewer.axes[1], axes)
        # Once there are more than twice as many, they are found again.
        store.insert(points(400, seed=3)[0])
        map_of(now(viewer), "pca")
        assert viewer.axes[2] == 600
        assert mean is not viewer.axes[0]


def test_columns_of_the_payload():
    X, _ = points(50)
    rng = np.random.default_rng(3)
    place = rng.normal(size=(50, 2))
    payload = [{"left": float(x), "up": str(y)} for x, y in place]
    viewer = Viewer(ModelBackend(Grinch().fit(X), payload=payload), x="left", y="up")
    assert viewer.about()["map"] == {"methods": maps.methods(viewer, viewer.scene), "method": "columns"}
    header, plane = plane_of(map_of(viewer))
    assert header["method"] == "columns"
    np.testing.assert_allclose(plane, scaled(place)[viewer.scene.order], atol=1)


def test_columns_without_vectors():
    payload = [{"a": i, "b": -i} for i in range(10)]
    viewer = Viewer(ModelBackend(tree_of(10), payload=payload), x="a", y="b")
    assert viewer.about()["map"] == {"methods": ["columns"], "method": "columns"}
    np.testing.assert_allclose(plane_of(map_of(viewer))[1][:, 0], viewer.scene.order / 9 * WIDE, atol=1)


@pytest.mark.parametrize("odd", [None, "text", [1], {}, float("nan"), float("inf"), 10**400, 1e300, "1e999", True])
def test_what_is_no_coordinate_is_at_the_origin(odd):
    payload = [{"a": -1, "b": -1}, {"a": odd, "b": odd}, {"b": 0}, {"a": 1, "b": 1}, "no fields"]
    viewer = Viewer(ModelBackend(tree_of(5), payload=payload), x="a", y="b")
    plane = dict(zip(viewer.scene.order.tolist(), plane_of(map_of(viewer))[1].tolist(), strict=True))
    expected = WIDE if odd is True else WIDE / 2
    assert plane[1] == pytest.approx([expected, expected], abs=1)
    assert plane[2] == plane[4] == pytest.approx([WIDE / 2, WIDE / 2], abs=1)


def test_what_there_is_none_of_is_refused():
    viewer = viewer_on(points(20)[0])
    for method in ("columns", "tsne", "x" * 99):
        with pytest.raises(ValueError, match="method must be one of neighbors, pca"):
            viewer.map(method)
    for what in ("", "label", "cluster", "x" * 99):
        with pytest.raises(ValueError, match=r"what must be label \(where labels are known\), time or fresh"):
            viewer.points(what)


@pytest.mark.parametrize("n", [0, 1, 5, 999, 1_000, 5_000])
def test_both_coordinates_are_in_16_bits(n):
    plane = np.random.default_rng(1).normal(size=(n, 2)).astype(np.float32)
    x, y, aspect = quantized(plane)
    assert (len(x), len(y), x.dtype, y.dtype) == (n, n, np.uint16, np.uint16)
    assert 0.2 <= aspect <= 5
    assert (np.diff(x[np.argsort(plane[:, 0], kind="stable")].astype(int)) >= 0).all()
    if n == 5_000:
        # Points far out do not make the rest a dot.
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
