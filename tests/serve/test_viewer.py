"""What the page asks, version by version; empty stores, images, and what another process does."""

from __future__ import annotations

import json
import os
import threading

import numpy as np
import pytest

import grinch
from grinch import Grinch
from grinch.serve.backend import StoreBackend
from grinch.serve.model_backend import ModelBackend, open_backend
from grinch.serve.views import viewer as viewers
from grinch.serve.views.icicle import title
from grinch.serve.views.viewer import Computing, Stale, Viewer
from killing import kills
from serve.looked import news, now, points, view


@pytest.fixture
def store(tmp_path):
    X, payload = news(60)
    with grinch.open(tmp_path / "store", n_clusters=4) as store:
        store.insert(X, ids=[f"p{i}" for i in range(60)], payload=payload)
        yield store


def insert_some(store, seed, n=20):
    X, payload = news(n, seed)
    return store.insert(X, ids=[f"s{seed}x{i}" for i in range(n)], payload=payload)


def ask_everything(viewer, version=None):
    """All that a page asks; each answer can be written as JSON."""
    about = viewer.about()
    answers = [about, viewer.layers(), viewer.changes(), viewer.versions(), viewer.search("rain", version=version)]
    viewer.view(version=version), viewer.cut(version=version)
    scene = viewer.at(version)
    if scene.n:
        viewer.points("time", version=version), viewer.map(version=version) if about["map"] else None
        for v in (scene.tree.root, 0):
            answers += [viewer.node(v, version=version), viewer.members(v, version=version)]
    for answer in answers:
        json.dumps(answer, allow_nan=False)
    return answers


# What is looked at ----------------------------------------------------------------------------------------------------


def test_what_is_said_of_a_store(store):
    about = Viewer(StoreBackend(store)).about()
    times = sorted(store.times().values())
    assert {name: about[name] for name in ("title", "kind", "version", "n", "can_name", "can_place", "n_features")} == {
        "title": "store",
        "kind": "store",
        "version": 1,
        "n": 60,
        "can_name": True,
        "can_place": True,
        "n_features": 5,
    }
    cut = {"cut": "cut:default", "title": "default cut", "clusters": 4, "is_recut_advised": False}
    assert about["cuts"] == [cut]
    assert about["cut"] == "cut:default"
    assert about["colors"] == ["cluster", "label", "purity", "time", "fresh"]
    assert set(about["labels"]) == {"rain", "goal", "vote", "stock"}
    assert about["times"] == {"first": times[0], "last": times[-1]}
    assert (about["has_text"], about["has_images"], about["has_payload"], about["versions"]) == (
        True,
        False,
        True,
        True,
    )


def test_what_is_said_of_a_model_without_anything():
    about = Viewer(ModelBackend(Grinch(n_clusters=3).fit(points(30)[0]))).about()
    assert (about["kind"], about["can_name"], about["versions"], about["times"]) == ("model", False, False, None)
    assert (about["colors"], about["labels"], about["has_text"], about["has_payload"]) == (
        ["cluster", "time"],
        None,
        False,
        False,
    )


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("linkage", ["average", "ward"])
def test_few_points(tmp_path, n, linkage):
    X, payload = news(3)
    with grinch.open(tmp_path / "store", linkage=linkage) as store:
        if n:
            store.insert(X[:n], payload=payload[:n])
        viewer = Viewer(StoreBackend(store))
        answers = ask_everything(viewer)
        assert answers[0]["n"] == n
        assert answers[0]["root"] == (store.tree.root if n else -1)
        assert len(answers[1]["layers"]) == (len(store.layers()[1]) if n else 0)
        if not n:
            with pytest.raises(KeyError, match="not in the tree"):
                viewer.node(0)
            with pytest.raises(KeyError, match="there is no map"):
                viewer.map()


def test_points_that_are_all_the_same(tmp_path):
    with grinch.open(tmp_path / "store") as store:
        store.insert(np.ones((40, 3), np.float32))
        store.insert(np.zeros((5, 3), np.float32) + 1)
        answers = ask_everything(Viewer(StoreBackend(store)))
        assert answers[0]["n"] == 45


def test_titles(store):
    viewer = Viewer(StoreBackend(store))
    scene = viewer.scene
    assert title(viewer, scene, scene.tree.root) == "60 points"
    assert title(viewer, scene, 7) == store.payload(["p7"])[0]["title"]
    cut = scene.cut("cut:default")
    words = title(viewer, scene, int(cut.nodes[0]), cut).split(", ")
    leaves = scene.leaves(int(cut.nodes[0])).tolist()
    titles = [payload["title"] for _, payload in viewer.backend.points(leaves)]
    assert all(any(word in title for title in titles) for word in words)
    store.label(int(cut.clusters[0]), "a name")
    assert title(now(viewer), viewer.scene, int(cut.nodes[0]), viewer.scene.cut("cut:default")) == "a name"
    bare = Viewer(ModelBackend(Grinch(n_clusters=2).fit(points(30)[0])), labels=["same"] * 30)
    assert title(bare, bare.scene, bare.scene.tree.root) == "same"


def test_labels_must_fit():
    with pytest.raises(ValueError, match="labels must have an entry for each of the 9 points; got 8"):
        Viewer(ModelBackend(Grinch().fit(points(9)[0])), labels=[1] * 8)


def test_where_a_point_is(store):
    viewer = Viewer(StoreBackend(store))
    tree = viewer.scene.tree
    found = viewer.locate("p7")
    assert (found["node"], found["size"]) == (7, 1)
    larger = viewer.locate("p7", 20)
    assert 7 in tree.leaves(larger["node"])
    assert larger["start"] == viewer.scene.starts[larger["node"]]
    with pytest.raises(KeyError, match="id 'nobody' is not there"):
        viewer.locate("nobody")
    insert_some(store, 1)
    with pytest.raises(KeyError, match="is not in version 1"):
        viewer.locate("s1x3")


# Versions -------------------------------------------------------------------------------------------------------------


def test_the_version_before_is_still_answered_and_earlier_ones_are_stale(store):
    viewer = Viewer(StoreBackend(store))
    first = viewer.node(viewer.scene.tree.root, version=1)
    insert_some(store, 1)
    assert now(viewer).version == 2
    assert viewer.node(first["node"], version=1) == first
    assert viewer.members(first["node"], version=1)["total"] == 60
    assert view(viewer, version=1)[0]["n"] == 60
    assert view(viewer)[0]["n"] == view(viewer, version=2)[0]["n"] == 80
    insert_some(store, 2)
    assert now(viewer).version == 3
    for ask in (viewer.view, viewer.cut, viewer.map):
        with pytest.raises(Stale, match="version 1 is no longer shown; the tree is at version 3"):
            ask(version=1)
    with pytest.raises(Stale) as error:
        viewer.node(0, version=1)
    assert error.value.version == 3
    with pytest.raises(Stale):
        viewer.node(0, version=99)


def test_pictures_are_not_made_more_often_than_is_worth_it(store, monkeypatch):
    viewer = Viewer(StoreBackend(store))
    insert_some(store, 1)
    monkeypatch.setattr(viewers, "SHARE_OF_TIME", 1e-12)
    assert viewer.refresh() == 1
    monkeypatch.setattr(viewers, "SHARE_OF_TIME", 1e12)
    assert viewer.refresh() == 2
    assert viewer.refresh() == 2


def test_a_store_that_becomes_empty_and_full_again(store):
    viewer = Viewer(StoreBackend(store))
    store.remove(store.ids)
    assert now(viewer).n == 0
    ask_everything(viewer)
    insert_some(store, 3)
    assert now(viewer).n == 20
    assert ask_everything(viewer)[0]["labels"] is not None


def test_what_the_user_named_may_come_later(tmp_path):
    with grinch.open(tmp_path / "store") as store:
        viewer = Viewer(StoreBackend(store), text="headline")
        store.insert(points(5)[0], payload=[{"title": "a", "headline": f"h{i}"} for i in range(5)])
        assert now(viewer).members(0)["members"][0]["text"] == "h0"


def write(folder):
    with grinch.open(folder) as store:
        insert_some(store, 1)
        store.remove(["p1", "p2"])
        store.refine()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_another_process_does_is_seen(store, tmp_path):
    kills.warm_up()
    folder = store.folder
    store.close()
    viewer = Viewer(open_backend(folder))
    assert viewer.n == 60
    pid = kills.fork(lambda: write(folder))
    assert os.waitpid(pid, 0)[1] == 0
    assert (now(viewer).version, viewer.n) == (4, 78)
    assert viewer.search("s1x7")["hits"][0]["kind"] == "id"
    assert viewer.changes(1)["new_points"] == 20
    assert ask_everything(viewer)[0]["n"] == 78
    viewer.close()


# Images ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.png").write_bytes(b"image")
    (folder / "inner" / "B.JPG").write_bytes(b"image")
    (folder / "notes.txt").write_text("text")
    (folder / "folder.png").mkdir()
    (tmp_path / "secret.png").write_bytes(b"secret")
    (tmp_path / "pictures-too").mkdir()
    (tmp_path / "pictures-too" / "c.png").write_bytes(b"secret")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "inside.png").symlink_to(folder / "a.png")
    (folder / "notes.png").symlink_to(folder / "notes.txt")
    (folder / "out").symlink_to(tmp_path)
    return folder


def viewer_of(pictures, name, **options):
    model = Grinch().fit(points(3)[0])
    payload = [{"image": name}, {"image": "a.png"}, {"image": "b.png"}]
    return Viewer(ModelBackend(model, payload=payload), image="image", **options)


@pytest.mark.parametrize("name", ["a.png", "inner/B.JPG", "./a.png", "inner/../a.png", "inside.png"])
def test_images_below_the_folder(pictures, name):
    viewer = viewer_of(pictures, name, images=pictures)
    assert viewer.image(0).read_bytes() == b"image"
    assert viewer.members(0)["members"][0]["image"] == "api/image/0?version=1"


def test_an_absolute_path_below_the_folder(pictures):
    assert viewer_of(pictures, str(pictures / "a.png"), images=pictures).image(0) == pictures.resolve() / "a.png"


@pytest.mark.parametrize(
    "name",
    [
        "../secret.png",
        "inner/../../secret.png",
        "../pictures-too/c.png",
        "/etc/passwd",
        "/etc/passwd.png",
        "link.png",
        "out/secret.png",
        "notes.txt",
        "notes.png",
        "folder.png",
        "",
        ".",
        "..",
        "/",
        "missing.png",
        "a.png\0.txt",
        "\0",
        "x" * 5_000 + ".png",
        "\ud800.png",
        5,
        None,
        ["a.png"],
        {"a.png": 1},
        "file:///etc/passwd.png",
    ],
)
def test_nothing_else_is_read(pictures, name):
    viewer = viewer_of(pictures, name, images=pictures)
    with pytest.raises(KeyError, match="there is no image of leaf 0"):
        viewer.image(0)


def test_what_is_outside_by_its_full_path_is_not_read(pictures):
    viewer = viewer_of(pictures, str(pictures.parent / "secret.png"), images=pictures)
    with pytest.raises(KeyError, match="there is no image"):
        viewer.image(0)


def test_without_a_folder_nothing_is_read(pictures):
    viewer = viewer_of(pictures, str(pictures / "a.png"))
    assert viewer.members(0)["members"][0]["image"] is None
    with pytest.raises(KeyError, match="there is no image"):
        viewer.image(0)


@pytest.mark.parametrize("leaf", [-1, 3, 10**9])
def test_an_image_of_nobody(pictures, leaf):
    with pytest.raises(KeyError, match="is not in version 1"):
        viewer_of(pictures, "a.png", images=pictures).image(leaf)


def test_addresses_are_passed_on(pictures):
    viewer = viewer_of(pictures, "HTTPS://example.org/x.png", images=pictures)
    assert viewer.members(0)["members"][0]["image"] == "HTTPS://example.org/x.png"
    with pytest.raises(KeyError, match="there is no image"):
        viewer.image(0)
    script = viewer_of(pictures, "javascript:alert(1)//.png")
    assert script.members(0)["members"][0]["image"] is None


def test_a_folder_of_images_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        viewer_of(tmp_path, "a.png", images=tmp_path / "missing")


# Several at once ------------------------------------------------------------------------------------------------------


def test_threads_that_ask_while_another_inserts(store):
    viewer = Viewer(StoreBackend(store))
    problems, is_done = [], threading.Event()

    def ask(number):
        while not is_done.is_set():
            try:
                viewer.refresh(now=True)
                scene = viewer.scene
                assert view(viewer, version=scene.version)[0]["version"] == scene.version
                assert viewer.node(scene.tree.root, version=scene.version)["size"] == scene.n
                assert len(viewer.members(scene.tree.root, version=scene.version, limit=5)["members"]) == 5
                viewer.search("rain"), viewer.layers(), viewer.changes(), viewer.map(version=scene.version)
                viewer.place(like=f"p{number}"), viewer.cut("k:3", version=scene.version), viewer.about()
                viewer.name(scene.tree.root, f"all {number}", version=scene.version)
            except (Stale, Computing):
                pass
            except BaseException as error:
                problems.append(error)
                raise

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for seed in range(1, 16):
        insert_some(store, seed, 10)
        store.remove([f"s{seed}x3"])
    is_done.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert now(viewer).n == len(store) == 60 + 15 * 9
    assert list(viewer.scene.names) == [viewer.scene.tree.root]
