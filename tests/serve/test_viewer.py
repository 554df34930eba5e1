"""What the page asks, version by version; empty stores, images, and what another process does."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import grinch
from grinch import Grinch
from grinch.serve.backend import StoreBackend
from grinch.serve.model_backend import ModelBackend
from grinch.serve.views import viewer as viewers
from grinch.serve.views.icicle import title
from grinch.serve.views.viewer import Computing, Stale, Viewer
from serve.looked import news, now, points, view, viewer_on


@pytest.fixture
def store(tmp_path):
    X, payload = news(60)
    with grinch.open(tmp_path / "store", n_clusters=4) as store:
        store.insert(X, ids=[f"p{i}" for i in range(60)], payload=payload)
        yield store


@pytest.fixture
def viewer(store):
    return Viewer(StoreBackend(store))


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


def some_of(about, names):
    return tuple(about[name] for name in names.split())


def test_what_is_said_of_a_store_and_of_a_model_without_anything(store):
    about = Viewer(StoreBackend(store)).about()
    said = some_of(about, "title kind version n n_features can_name can_place")
    assert said == ("store", "store", 1, 60, 5, True, True)
    cut = {"cut": "cut:default", "title": "default cut", "clusters": 4}
    assert (about["cuts"], about["cut"]) == ([cut], "cut:default")
    assert about["colors"] == ["cluster", "label", "purity", "time", "fresh"]
    assert set(about["labels"]) == {"rain", "goal", "vote", "stock"}
    times = sorted(store.times().values())
    assert about["times"] == {"first": times[0], "last": times[-1]}
    assert some_of(about, "has_text has_images has_payload versions") == (True, False, True, True)
    about = viewer_on(points(30)[0], n_clusters=3).about()
    assert some_of(about, "kind can_name versions times colors") == ("model", False, False, None, ["cluster", "time"])
    assert some_of(about, "labels has_text has_payload") == (None, False, False)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 45])
@pytest.mark.parametrize("linkage", ["average", "ward"])
def test_few_points_and_points_that_are_all_the_same(tmp_path, n, linkage):
    X, payload = news(n)
    with grinch.open(tmp_path / "store", linkage=linkage) as store:
        if n:
            store.insert(X if n < 9 else np.ones_like(X), payload=payload)
        viewer = Viewer(StoreBackend(store))
        about, layers, *_ = ask_everything(viewer)
        assert (about["n"], about["root"]) == (n, store.tree.root if n else -1)
        assert len(layers["layers"]) == (len(store.layers()[1]) if n else 0)
        if not n:
            with pytest.raises(KeyError, match="not in the tree"):
                viewer.node(0)
            with pytest.raises(KeyError, match="there is no map"):
                viewer.map()


def test_titles(store, viewer):
    scene = viewer.scene
    assert title(viewer, scene, scene.tree.root) == "60 points"
    assert title(viewer, scene, 7) == store.payload(["p7"])[0]["title"]
    cut = scene.cut("cut:default")
    v = int(cut.nodes[0])
    titles = [payload["title"] for _, payload in viewer.backend.points(scene.leaves(v).tolist())]
    assert all(any(word in title for title in titles) for word in title(viewer, scene, v, cut).split(", "))
    store.label(int(cut.clusters[0]), "a name")
    assert title(now(viewer), viewer.scene, v, viewer.scene.cut("cut:default")) == "a name"
    bare = viewer_on(points(30)[0], labels=["same"] * 30)
    root = bare.scene.tree.root
    assert title(bare, bare.scene, root) == "30 points"
    assert [title(bare, bare.scene, v) for v in bare.scene.tree.children(root)] == ["same", "same"]
    with pytest.raises(ValueError, match="labels must have an entry for each of the 9 points; got 8"):
        viewer_on(points(9)[0], labels=[1] * 8)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("aaab", "a"),
        ("aabb", "a + b"),
        ("abbc", "b + a"),
        ("aaaabbcd", "a + b"),
        ("aabbccd-", "a + b + c"),
        ("abcde", "5 points"),
        ("a----", "5 points"),
        ("----", "4 points"),
    ],
)
def test_a_node_is_called_by_few_labels_that_most_points_have(labels, expected):
    rows = np.concatenate([np.zeros((len(labels), 2)), np.full((3, 2), 50.0)])
    rows += np.random.default_rng(0).normal(size=rows.shape)
    known = [None if label == "-" else label for label in labels] + ["far", "far", "away"]
    viewer = viewer_on(rows.astype(np.float32), labels=known)
    tree = viewer.scene.tree
    near = next(v for v in tree.children(tree.root) if 0 in tree.leaves(v))
    assert viewer.scene.sizes[near] == len(labels)
    assert title(viewer, viewer.scene, near) == expected


def test_where_a_point_is(store, viewer):
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


def test_the_version_before_is_still_answered_and_earlier_ones_are_stale(store, viewer):
    first = viewer.node(viewer.scene.tree.root, version=1)
    insert_some(store, 1)
    assert now(viewer).version == 2
    assert viewer.node(first["node"], version=1) == first
    assert viewer.members(first["node"], version=1)["total"] == 60
    assert view(viewer, version=1)[0]["n"] == 60
    assert view(viewer)[0]["n"] == view(viewer, version=2)[0]["n"] == 80
    insert_some(store, 2)
    assert now(viewer).version == 3
    for ask in (viewer.view, viewer.cut, viewer.map, partial(viewer.node, 0)):
        with pytest.raises(Stale, match="version 1 is no longer shown; the tree is at version 3") as error:
            ask(version=1)
        assert error.value.version == 3
    with pytest.raises(Stale):
        viewer.node(0, version=99)
    # It becomes empty, and full again.
    store.remove(store.ids)
    assert now(viewer).n == 0
    ask_everything(viewer)
    insert_some(store, 3)
    assert now(viewer).n == 20
    assert ask_everything(viewer)[0]["labels"] is not None


def test_pictures_are_not_made_more_often_than_is_worth_it(store, viewer, monkeypatch):
    insert_some(store, 1)
    for share, version in ((1e-12, 1), (1e12, 2), (1e12, 2)):
        monkeypatch.setattr(viewers, "SHARE_OF_TIME", share)
        assert viewer.refresh() == version


def test_what_the_user_named_may_come_later(tmp_path):
    with grinch.open(tmp_path / "store") as store:
        viewer = Viewer(StoreBackend(store), text="headline")
        store.insert(points(5)[0], payload=[{"title": "a", "headline": f"h{i}"} for i in range(5)])
        assert now(viewer).members(0)["members"][0]["text"] == "h0"


# Images ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pictures(tmp_path):
    """A folder with images, and with what leads out of it."""
    folder = tmp_path / "pictures"
    for name in ("pictures/a.png", "pictures/inner/B.JPG", "secret.png", "pictures-too/c.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"image" if name.startswith("pictures/") else b"secret")
    (folder / "notes.txt").write_text("text")
    (folder / "folder.png").mkdir()
    links = {"link.png": "../secret.png", "inside.png": "a.png", "notes.png": "notes.txt", "out": ".."}
    for name, target in links.items():
        (folder / name).symlink_to(target)
    return folder


def viewer_of(name, **options):
    payload = [{"image": name}, {"image": "a.png"}, {"image": "b.png"}]
    return Viewer(ModelBackend(Grinch().fit(points(3)[0]), payload=payload), image="image", **options)


@pytest.mark.parametrize("name", ["a.png", "inner/B.JPG", "./a.png", "inner/../a.png", "inside.png", "{folder}/a.png"])
def test_images_below_the_folder(pictures, name):
    viewer = viewer_of(name.format(folder=pictures), images=pictures)
    assert viewer.image(0).read_bytes() == b"image"
    assert viewer.members(0)["members"][0]["image"] == "api/image/0?version=1"
    for leaf in (-1, 3, 10**9):
        with pytest.raises(KeyError, match="is not in version 1"):
            viewer.image(leaf)


OUTSIDE = ["../secret.png", "inner/../../secret.png", "../pictures-too/c.png", "link.png", "out/secret.png"]
BY_FULL_PATH = ["/etc/passwd", "/etc/passwd.png", "file:///etc/passwd.png", "{folder}/../secret.png"]
NOT_IMAGES = ["notes.txt", "notes.png", "folder.png", "missing.png", "", ".", "..", "/"]
NOT_NAMES = ["a.png\0.txt", "\0", "x" * 5_000 + ".png", "\ud800.png", 5, None, ["a.png"], {"a.png": 1}]


@pytest.mark.parametrize("name", [*OUTSIDE, *BY_FULL_PATH, *NOT_IMAGES, *NOT_NAMES])
def test_nothing_else_is_read(pictures, name):
    name = name.format(folder=pictures) if isinstance(name, str) else name
    with pytest.raises(KeyError, match="there is no image of leaf 0"):
        viewer_of(name, images=pictures).image(0)


@pytest.mark.parametrize("name", ["{folder}/a.png", "HTTPS://example.org/x.png", "javascript:alert(1)//.png"])
def test_without_a_folder_nothing_is_read_and_addresses_are_passed_on(pictures, name):
    viewer = viewer_of(name.format(folder=pictures))
    assert viewer.members(0)["members"][0]["image"] == (name if name.startswith("HTTPS") else None)
    with pytest.raises(KeyError, match="there is no image"):
        viewer.image(0)
    with pytest.raises(FileNotFoundError):
        viewer_of("a.png", images=pictures / "missing")


# Several at once ------------------------------------------------------------------------------------------------------


def test_threads_that_ask_while_another_inserts(store, viewer):
    is_done = threading.Event()

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

    with ThreadPoolExecutor(4) as pool:
        threads = [pool.submit(ask, number) for number in range(4)]
        try:
            for seed in range(1, 16):
                insert_some(store, seed, 10)
                store.remove([f"s{seed}x3"])
        finally:
            is_done.set()
    assert [thread.exception() for thread in threads] == [None] * 4
    assert now(viewer).n == len(store) == 60 + 15 * 9
    assert list(viewer.scene.names) == [viewer.scene.tree.root]
