"""Names that people gave to nodes are found again: in any version, after a restart, by another process."""

from contextlib import closing

import numpy as np
import pytest

import grinch
from grinch import Grinch, Tree
from grinch.serve.backend import StoreBackend
from grinch.serve.model_backend import open_backend
from grinch.serve.node_names import node_of
from grinch.serve.views.icicle import unpack_arrays
from grinch.serve.views.viewer import Viewer
from grinch.store import DamagedStore
from grinch.store.node_names import MAX_POINTS, NodeName
from grinch.tree.blocks import covering
from serve.looked import chain, news, now, points, scene_of, viewer_on


@pytest.fixture
def store(tmp_path):
    X, payload = news(120)
    with grinch.open(tmp_path / "store", n_clusters=4) as store:
        store.insert(X, ids=[f"p{i}" for i in range(120)], payload=payload)
        yield store


@pytest.fixture
def viewer(store):
    return Viewer(StoreBackend(store))


@pytest.fixture
def before(viewer):
    """All clusters have names; by name, the ids of their points."""
    for i, v in enumerate(cluster_nodes(viewer)):
        viewer.name(v, f"name {i}")
    return named(viewer)


def cluster_nodes(viewer):
    return viewer.scene.cut("k:4").nodes.tolist()


def named(viewer):
    """By name, the ids of the points of its node."""
    scene, ids = viewer.scene, viewer.backend.store.ids
    return {name: {ids[leaf] for leaf in scene.leaves(v).tolist()} for v, name in viewer.scene.names.items()}


def test_a_name_is_there_after_a_restart_and_in_a_copy(store, viewer, tmp_path):
    v = cluster_nodes(viewer)[1]
    assert viewer.name(v, "  weather \n news ") == {"version": 1, "node": v, "name": "weather news"}
    assert (viewer.node(v)["name"], viewer.node(v)["title"]) == ("weather news", "weather news")
    store.backup(tmp_path / "copy")
    for folder in ("store", "copy"):
        with closing(Viewer(open_backend(tmp_path / folder))) as again:
            assert again.scene.names == {v: "weather news"}
    # In the model of a file, too.
    model = Grinch().fit(points(40)[0])
    model.save(tmp_path / "m.grinch")
    for expected in (None, "root of all"):
        looked = Viewer(open_backend(tmp_path / "m.grinch"))
        assert looked.scene.names.get(model.tree_.root) == expected
        looked.name(model.tree_.root, "root of all")


def test_names_that_cannot_be_given(store, viewer):
    bare = viewer_on(points(9)[0])
    assert not bare.about()["can_name"]
    with pytest.raises(ValueError, match="names cannot be stored here"):
        bare.name(0, "name")
    with pytest.raises(KeyError, match="not in the tree"):
        viewer.name(10**6, "name")
    assert not viewer.names._file.path.exists()
    viewer.name(3, "kept")
    with pytest.raises(ValueError, match="name must"):
        viewer.name(3, "x" * 201)
    assert viewer.scene.names == {3: "kept"}
    store.remove(["p3"])
    with pytest.raises(ValueError, match="removed meanwhile"):
        viewer.name(3, "name")
    viewer.names._file.path = viewer.names._file.path / "no folder"
    with pytest.raises(ValueError, match=r"name cannot be kept: .*cannot be read or written"):
        viewer.name(4, "name")


def test_another_name_replaces_the_first_and_none_takes_it_away(viewer):
    v, w = cluster_nodes(viewer)[:2]
    viewer.name(v, "one")
    viewer.name(w, "other")
    viewer.name(v, "two")
    assert viewer.scene.names == {v: "two", w: "other"}
    assert viewer.name(v, None)["name"] is None
    assert viewer.scene.names == {w: "other"}
    viewer.name(v, None)
    assert viewer.scene.names == {w: "other"}


def test_no_earlier_name_comes_to_light(store):
    one, other = Viewer(StoreBackend(store)), Viewer(open_backend(store.folder))
    v = cluster_nodes(one)[0]
    # Both name it at once: neither knows of the other's.
    one.names._file.add("first", one.names._points(one.scene, v), 30, 120)
    other.names._file.add("second", one.names._points(one.scene, v), 30, 120)
    assert now(one).scene.names == now(other).scene.names == {v: "second"}
    one.name(v, None)
    assert now(other).scene.names == {}
    other.close()


# Trees that change ----------------------------------------------------------------------------------------------------


def test_names_survive_growth(store, viewer, before):
    for seed in range(1, 6):
        X, payload = news(200, seed)
        store.insert(X, ids=[f"s{seed}x{i}" for i in range(200)], payload=payload)
        found = named(now(viewer))
        assert set(found) == set(before)
        for name, ids in found.items():
            # Most of what it was, and little of what others were.
            assert len(ids & before[name]) > 0.8 * len(before[name])
            assert all(len(ids & before[other]) < 0.2 * len(before[other]) for other in before if other != name)
    assert len(store) == 1_120


def test_names_survive_removal_refining_and_compacting(store, viewer, before):
    # All but a few points of the first, and some of the others.
    first = sorted(before["name 0"])
    gone = first[: len(first) - 4] + [name for i in (1, 2, 3) for name in sorted(before[f"name {i}"])[:5]]
    store.remove(gone)
    store.refine()
    for change in (lambda: None, store.compact):
        change()
        found = named(now(viewer))
        assert set(found) == set(before)
        left = {name: ids - set(gone) for name, ids in before.items()}
        for name, ids in found.items():
            assert len(ids & left[name]) / len(ids | left[name]) > 0.5


def test_a_name_goes_when_nothing_like_its_node_is_left(store, viewer):
    v = cluster_nodes(viewer)[0]
    viewer.name(v, "gone")
    ids = sorted(named(viewer)["gone"])
    # Its points are now all over the place.
    store.update(ids, points(len(ids), seed=3)[0])
    assert named(now(viewer)) == {}
    store.remove(store.ids)
    assert now(viewer).n == 0
    assert viewer.scene.names == {}


def test_a_large_node_is_known_by_some_of_its_points(tmp_path):
    with grinch.open(tmp_path / "store", n_clusters=3) as store:
        store.insert(points(2_000)[0])
        viewer = Viewer(StoreBackend(store))
        tree = viewer.scene.tree
        v = max(tree.children(tree.root), key=tree.size)
        viewer.name(v, "large")
        assert len(viewer.names._file.all()[0].points) == MAX_POINTS
        assert viewer.scene.names == {v: "large"}


def test_every_node_of_a_tree_is_found_by_all_its_points():
    tree = scene_of(grinch.Grinch().fit(points(60)[0]).tree_)
    for v in tree.tree.nodes():
        leaves = tree.leaves(v).tolist()
        assert node_of(tree, NodeName(1, "name", leaves, len(leaves), 60), leaves) == v


def test_a_chain_as_deep_as_it_has_points():
    n = 50_000
    scene = scene_of(chain(n))
    v = covering(scene.tree, scene.starts, 0, 30_000)
    leaves = scene.leaves(v)[:: 30_000 // 60].tolist()
    found = node_of(scene, NodeName(1, "name", leaves, 30_000, n), leaves)
    # The points say only roughly where it ends.
    assert abs(scene.sizes[found] - 30_000) <= 600
    assert node_of(scene_of(Tree.from_newick("(a,b);")), NodeName(1, "name", [7], 1, 9), []) is None


# Others ---------------------------------------------------------------------------------------------------------------


def test_a_named_node_is_always_seen(tmp_path):
    """Also where it is folded into a larger one that loses a few points on the way down to it."""
    with grinch.open(tmp_path) as store:
        store.insert(np.random.default_rng(3).normal(size=(400, 4)) ** 3)
        viewer = Viewer(StoreBackend(store))
        shown = set(unpack_arrays(viewer.view(cut="k:2"))[1]["node"].tolist())
        scene = viewer.scene
        hidden = [v for v in scene.tree.preorder().tolist() if scene.sizes[v] >= 20 and v not in shown]
        viewer.name(hidden[0], "here")
        header, arrays = unpack_arrays(viewer.view(cut="k:2"))
        assert hidden[0] in arrays["node"].tolist()
        assert header["names"][str(hidden[0])] == "here"


def test_a_tree_is_shown_although_its_names_are_damaged(tmp_path, caplog):
    with grinch.open(tmp_path) as store:
        store.insert(np.eye(6))
        viewer = Viewer(StoreBackend(store))
        (tmp_path / "node-names.sqlite").write_bytes(b"no database" * 100)
        assert unpack_arrays(now(viewer).view())[0]["n"] == 6
        assert "damaged" in caplog.text
        with pytest.raises((ValueError, DamagedStore)):
            viewer.name(viewer.about()["root"], "all")
