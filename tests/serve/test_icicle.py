"""Blocks and clusters on their way to the page."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stnp

import grinch
from grinch.serve.backend import StoreBackend
from grinch.serve.model_backend import ModelBackend
from grinch.serve.views import icicle
from grinch.serve.views.icicle import DTYPES, MORE, NAMED, POINT, TOP, WITHIN, pack_arrays, unpack_arrays
from grinch.serve.views.viewer import Viewer
from grinch.tree.blocks import covering
from serve.looked import chain, labels_of_cut, news, tree_of, view, viewer_on

N = 300


@pytest.fixture(scope="module")
def viewer():
    X, payload = news(N)
    return viewer_on(X, payload=payload, n_clusters=8, cut="height")


@pytest.fixture
def store(tmp_path):
    with grinch.open(tmp_path / "store", n_clusters=4) as store:
        for seed in range(3):
            X, payload = news(40, seed)
            store.insert(X, payload=payload)
        yield store


VIEWS = [
    *({}, {"width": 300, "rows": 5}, {"rows": 0}, {"rows": 10**6, "width": 10**9}, {"width": 0}, {"cut": "k:3"}),
    *({"x0": x0, "x1": x1} for x0, x1 in ((40.5, 90.2), (299, 300), (10, 10), (50, 20), (1e9, 2e9), (-50, 1e9))),
]


@pytest.mark.parametrize("asked", VIEWS)
def test_blocks_are_those_of_the_scene(viewer, asked):
    header, arrays = view(viewer, **asked)
    scene, nodes = viewer.scene, arrays["node"]
    assert (header["version"], header["n"]) == (1, N)
    assert 0 <= header["x0"] < header["x1"] <= N
    assert header["rows"] == arrays["row"].max() + 1 <= min(max(asked.get("rows", 24), 1), icicle.MAX_ROWS)
    np.testing.assert_array_equal(arrays["start"], scene.starts[nodes])
    np.testing.assert_array_equal(arrays["size"], scene.sizes[nodes])
    np.testing.assert_allclose(arrays["height"], scene.heights[nodes], rtol=1e-5, atol=1e-6)
    assert nodes[0] == covering(viewer.scene.tree, viewer.scene.starts, header["x0"], header["x1"])
    assert [crumb["node"] for crumb in header["path"]] == scene.path(int(nodes[0]))
    assert ((arrays["start"] < header["x1"]) & (arrays["start"] + arrays["size"] > header["x0"])).all()
    assert not arrays["fresh"].any()
    assert {int(v) for v in header["names"]} <= set(nodes.tolist())
    assert len(header["names"]) <= icicle.MAX_TITLES


def test_splits_that_are_too_narrow_are_not_seen(viewer):
    for width in (50, 400, 3_000):
        header, arrays = view(viewer, width=width, rows=64)
        least = np.ceil(icicle.MIN_PIXELS * N / width)
        inner = arrays["parent"] >= 0
        is_cluster = np.isin(arrays["node"], viewer.scene.cut("cut:labels").nodes)
        assert (arrays["size"][inner & ~is_cluster] >= least).all()
        tops = np.isin(arrays["node"], viewer.scene.cut("cut:labels").nodes)
        pixels = np.where(tops, icicle.MIN_PIXELS_FOR_CLUSTER, icicle.MIN_PIXELS_FOR_TITLE)
        wide = arrays["size"] >= pixels * N / width
        assert {int(v) for v in header["names"]} == set(arrays["node"][wide].tolist())


def test_flags(viewer):
    cut = viewer.scene.cut("cut:labels")
    _, arrays = view(viewer, rows=64, width=8_000)
    tree, labels = viewer.scene.tree, viewer.backend.model.labels_
    parents = set(arrays["parent"].tolist())
    seen = zip(*(arrays[name].tolist() for name in ("node", "flags", "split")), strict=True)
    for i, (v, flags, end) in enumerate(seen):
        assert bool(flags & POINT) == tree.is_leaf(v)
        assert bool(flags & TOP) == (v in cut.nodes)
        assert not flags & NAMED
        # Nothing is seen of what is inside.
        assert bool(flags & MORE) == (i not in parents and not tree.is_leaf(v)) == (end < 0 and not tree.is_leaf(v))
        if len(set(labels[tree.leaves(v)].tolist())) == 1:
            assert flags & WITHIN
    # Where rows end there is more.
    _, arrays = view(viewer, rows=1)
    assert (arrays["node"].tolist(), arrays["split"].tolist()) == ([tree.root], [-1])
    assert arrays["flags"][0] & MORE


def test_colors_of_clusters(viewer):
    _, arrays = view(viewer)
    cut = viewer.scene.cut("cut:labels")
    slot = dict(zip(cut.clusters.tolist(), cut.colors.tolist(), strict=True))
    labels, tree = viewer.backend.model.labels_, viewer.scene.tree
    for v, color in zip(arrays["node"].tolist(), arrays["color"].tolist(), strict=True):
        inside = set(labels[tree.leaves(v)].tolist())
        if len(inside) == 1:
            assert color == slot[inside.pop()]
    assert (arrays["value"] == 1).all()


@pytest.mark.parametrize("color", ["label", "purity"])
def test_colors_of_labels(viewer, color):
    _, arrays = view(viewer, color=color)
    labels = np.array([viewer.backend.payload[i]["label"] for i in range(N)])
    for v, code, value in zip(arrays["node"].tolist(), arrays["color"].tolist(), arrays["value"].tolist(), strict=True):
        own = labels[viewer.scene.tree.leaves(v)].tolist()
        most = max(own.count(label) for label in own)
        assert own.count(viewer.scene.label_names[code]) == most
        assert value == pytest.approx(most / len(own), rel=1e-6)


def test_colors_of_time_and_what_is_new(store):
    viewer = Viewer(StoreBackend(store))
    arrived, tree = store.arrived(), viewer.scene.tree
    times = np.array([store.times()[version] for version in arrived.tolist()])
    when = (times - times.min()) / np.ptp(times)
    _, by_time = view(viewer, color="time")
    for v, value in zip(by_time["node"].tolist(), by_time["value"].tolist(), strict=True):
        assert value == pytest.approx(when[tree.leaves(v)].mean(), abs=1e-5)
    _, fresh = view(viewer, color="fresh", since=1)
    for v, value, count in zip(fresh["node"].tolist(), fresh["value"].tolist(), fresh["fresh"].tolist(), strict=True):
        new = (arrived[tree.leaves(v)] > 1).sum()
        assert (count, value) == (new, pytest.approx(new / tree.size(v)))


def test_a_color_there_is_none_of_is_refused():
    for color in ("", "label", "red", "x" * 99):
        with pytest.raises(ValueError, match="color must be one of cluster, time; got"):
            Viewer(ModelBackend(tree_of(9))).view(color=color)


def test_names_of_nodes_and_clusters_are_shown(store):
    viewer = Viewer(StoreBackend(store))
    cut = viewer.scene.cut("cut:default")
    store.label(int(cut.clusters[0]), "a cluster")
    viewer = Viewer(StoreBackend(store))
    viewer.name(int(cut.nodes[1]), "a node")
    header, arrays = view(viewer)
    assert header["names"][str(int(cut.nodes[0]))] == "a cluster"
    assert header["names"][str(int(cut.nodes[1]))] == "a node"
    is_named = (arrays["flags"] & NAMED) > 0
    assert arrays["node"][is_named].tolist() == [int(cut.nodes[1])]


# The clusters of a cut ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", ["cut:labels", "k:5", "auto", None])
def test_clusters_of_a_cut(viewer, cut):
    header, arrays = unpack_arrays(viewer.cut(cut))
    chosen = viewer.cut_of(viewer.scene, cut)
    assert (header["cut"], header["clusters"]) == (chosen.name, len(chosen))
    for name in ("start", "size", "node", "color", "cluster"):
        np.testing.assert_array_equal(arrays[name], getattr(chosen, f"{name}s"))
    assert [entry["size"] for entry in header["list"]] == sorted(chosen.sizes.tolist(), reverse=True)
    labels = labels_of_cut(viewer.scene, chosen)
    for entry in header["list"]:
        assert set(viewer.scene.leaves(entry["node"]).tolist()) == set(np.flatnonzero(labels == entry["cluster"]))
        assert entry["name"] == icicle.title(viewer, viewer.scene, entry["node"], chosen)


def test_layers_are_cuts(viewer):
    layers = viewer.layers()["layers"]
    for i, (layer, labels) in enumerate(zip(layers, viewer.backend.model.layers_, strict=True)):
        assert (layer["cut"], layer["title"], layer["clusters"]) == (f"layer:{i}", f"layer {i + 1}", labels.max() + 1)
        header, _ = unpack_arrays(viewer.cut(layer["cut"]))
        assert header["title"] == f"layer {i + 1}"
    another = Viewer(ModelBackend(viewer.backend.model))
    # Also when nobody asked for the layers before.
    assert unpack_arrays(another.cut("layer:0"))[0]["clusters"] == layers[0]["clusters"]
    with pytest.raises(ValueError, match="cut must be one of"):
        another.cut("layer:99")


def test_a_chain_has_a_cut_to_begin_with():
    viewer = Viewer(ModelBackend(chain(200)))
    assert viewer.about()["cut"] == "k:1"
    assert view(viewer)[1]["node"][0] == viewer.scene.tree.root


# Messages of a header and arrays --------------------------------------------------------------------------------------

some_arrays = st.dictionaries(
    st.text(max_size=8),
    st.sampled_from(sorted(DTYPES)).flatmap(lambda kind: stnp.arrays(kind, st.integers(0, 20))),
    max_size=5,
)
some_headers = st.dictionaries(st.text(max_size=5).filter(lambda name: name != "arrays"), st.integers() | st.text())


@given(some_headers, some_arrays)
def test_what_was_packed_comes_out(header, arrays):
    message = pack_arrays(header, arrays)
    assert len(message) % 8 == 0
    found, unpacked = unpack_arrays(message)
    found.pop("arrays")
    assert found == header
    assert list(unpacked) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(unpacked[name], array, strict=True)


def test_every_array_begins_where_the_page_can_map_it():
    message = pack_arrays({"text": "ü" * 5}, {"a": np.arange(3, dtype=np.uint8), "b": np.arange(2.0)})
    length = int.from_bytes(message[:4], "little")
    assert (4 + length) % 8 == 0
    assert message[4 + length : 4 + length + 8] == bytes([0, 1, 2, 0, 0, 0, 0, 0])
    assert np.frombuffer(message, "<f8", 2, 4 + length + 8).tolist() == [0.0, 1.0]
    for value in (float("nan"), float("inf"), object()):
        with pytest.raises((TypeError, ValueError), match="JSON"):
            pack_arrays({"x": value}, {})
