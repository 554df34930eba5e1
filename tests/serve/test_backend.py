"""Where trees come from: models of all kinds, stores, and files of other programs."""

import threading

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

import grinch
from grinch import HAC, Grinch, Tree, cluster_with
from grinch.estimators.registry import SYSTEMS
from grinch.io.read import FileError
from grinch.linkage.named import PAIRWISE_ONLY, VECTOR_LINKAGES
from grinch.linkage.pairwise import SCIPY_METRICS
from grinch.serve.backend import StoreBackend, sampled
from grinch.serve.model_backend import ModelBackend, open_backend
from grinch.serve.views.viewer import Viewer
from grinch.store import DamagedStore
from refusals import refused
from serve.looked import news, now, points, tree_of
from serving import npy, npz
from systems import SMALL
from trees import groups


def common_letters(a, b):
    return len(set("".join(a)) & set("".join(b)))


WORDS = ["abc", "abd", "xyz", "xyw", "abe"]


def directions(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def look(source):
    return source.read(lambda view: view.look())


# Models ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_every_system_can_be_looked_at(name):
    X, payload = news(80)
    ids = [f"p{i}" for i in range(80)]
    model = cluster_with(name, X, linkage="ward", ids=ids, n_clusters=4, **SMALL.get(name, {}))
    source = ModelBackend(model, payload=payload)
    seen = look(source)
    np.testing.assert_array_equal(seen.tree.child_pairs(), model.tree_.child_pairs())
    np.testing.assert_array_equal(seen.cuts["labels"], model.labels_)
    assert source.points(seen.positions) == list(zip(ids, payload, strict=True))
    np.testing.assert_allclose(source.rows(seen.positions), X, rtol=1e-4, atol=1e-4)
    assert source.position_of("p7") == seen.positions[7]
    viewer = Viewer(source)
    assert viewer.about()["n"] == 80
    assert viewer.node(viewer.scene.tree.root)["size"] == 80
    viewer.compute_layers(viewer.scene)  # in this thread, whatever time it takes
    assert len(viewer.layers()["layers"]) == len(model.layers_)
    assert viewer.map("pca")
    if viewer.about()["can_place"]:
        assert viewer.place(X[5].tolist())["neighbours"][0]["id"] == "p5"
    else:
        refused("a Grinch model or in a store", viewer.place, X[5].tolist())


@pytest.mark.parametrize("kind", ["average", "cosine", "single", "complete", "centroid", "ward"])
@pytest.mark.parametrize("system", [Grinch, HAC])
def test_rows_are_those_that_were_given(system, kind):
    X = points(40)[0] + 100  # far from where they are stored
    source = ModelBackend(system(linkage=kind).fit(X))
    rows = source.rows(look(source).positions)
    if source.metric() == "cosine":
        rows, X = directions(rows), directions(X)
    np.testing.assert_allclose(rows, X, rtol=1e-3)


# Linkages that compare directions; all others compare distances. Without a metric it is the first one of a linkage.
DIRECTIONS = ("cosine", "dot", "hellinger", "tanimoto")
BY_NAME = [(name, metric) for name, metrics in VECTOR_LINKAGES.items() for metric in (None, *metrics)]
BY_NAME += [(name, metric) for name in ("single", "complete") for metric in (None, *SCIPY_METRICS)]
BY_NAME += [("average", metric) for metric in PAIRWISE_ONLY]


@pytest.mark.parametrize(("name", "metric"), BY_NAME)
def test_vectors_are_compared_as_their_linkage_does(name, metric, tmp_path):
    X = np.eye(4, dtype=np.float32) + 1
    first = "cosine" if name in ("cosine", "tanimoto") else "euclidean"
    expected = "cosine" if (metric or first) in DIRECTIONS else "euclidean"
    assert ModelBackend(Grinch(linkage=name, metric=metric).fit(X)).metric() == expected
    with grinch.open(tmp_path / "store", linkage=name, metric=metric) as store:
        store.insert(X)
        assert StoreBackend(store).metric() == expected
    if (name, metric) in (("average", None), ("average", "cosine"), ("average", "hellinger")):
        assert ModelBackend(HAC(metric=metric).fit(X)).metric() == expected


@pytest.mark.parametrize("model", [Grinch, HAC])
def test_a_linkage_of_ones_own_over_records(model):
    viewer = Viewer(ModelBackend(model(linkage=common_letters, n_clusters=2).fit(WORDS), payload=WORDS))
    about = viewer.about()
    assert (about["n"], about["can_place"], about["n_features"]) == (5, False, None)
    # An engine knows neighbours of records; the others compare all with all.
    assert about["map"] == ({"methods": ["neighbors"], "method": "neighbors"} if model is Grinch else None)
    page = viewer.node(viewer.scene.tree.root)
    assert (page["nearest"], page["columns"]) == ([], [])
    assert sorted(member["text"] for member in viewer.members(page["node"])["members"]) == sorted(WORDS)
    for given in ({"vector": [1.0]}, {"like": "2"}):
        refused("no vectors", viewer.place, **given)
    if model is HAC:
        refused("there is no map", viewer.map, error=KeyError)


def test_what_is_no_model_or_does_not_fit_is_refused(tmp_path):
    refused("not fitted yet", ModelBackend, Grinch())
    refused("an entry for each of the 30 points; got 29", ModelBackend, Grinch().fit(points(30)[0]), payload=["a"] * 29)
    grinch.open(tmp_path / "store").close()
    refused("payload is for models and trees", open_backend, tmp_path / "store", payload=[])


def test_points_keep_what_is_theirs_while_others_come_and_go():
    X, payload = news(60)
    model = Grinch(n_clusters=4).fit(X[:40], ids=[f"p{i}" for i in range(40)])
    model.remove(["p0", "p7"])
    left = [i for i in range(40) if i not in (0, 7)]
    source = ModelBackend(model, payload=[payload[i] for i in left])
    assert source.read(lambda view: view.ids) == [f"p{i}" for i in left]
    assert source.read(lambda view: view.payload(["p29", "p1"])) == [payload[29], payload[1]]
    clusters = source.read(lambda view: view.clusters())
    assert [clusters[number] for number in sorted(clusters)] == model.clusters_
    refused("'p0' is not", source.read, lambda view: view.payload(["p0"]))
    before = look(source)
    model.partial_fit(X[40:], ids=[f"p{i}" for i in range(40, 60)]).remove(["p3", "p41"])
    model.update(["p5"], X[20:21])
    after = look(source)
    assert (after.version, after.tree.n_leaves) == (before.version + 1, 56)
    there = [i for i in range(60) if i not in (0, 3, 7, 41)]
    assert after.positions.tolist() == there
    assert source.points(after.positions) == [(f"p{i}", payload[i] if i < 40 else None) for i in there]
    # What was shown before leads to the same points, and those that are gone have no id.
    assert source.points(before.positions) == [(None if i == 3 else f"p{i}", payload[i]) for i in left]
    found = source.rows(before.positions)
    np.testing.assert_allclose(directions(found[left.index(5)][None]), directions(X[20:21]), atol=1e-5)
    assert not found[left.index(3)].any()
    assert (source.position_of("p3"), source.position_of("p59")) == (None, 59)
    assert source.find_text("p59", 9) == ([59], True)


def test_only_changes_make_versions():
    X, _ = points(80)
    model = Grinch(n_clusters=3).fit(X[:60])
    source = ModelBackend(model)
    version = source.latest()
    assert model.predict(X[60:]).shape == (20,)
    assert source.place(X[61:62].astype(float))[0] == version
    assert len(model.labels_) + len(model.layers_[0]) == 120
    assert source.latest() == look(source).version == version
    changes = (lambda: model.partial_fit(X[60:]), lambda: model.set_params(n_clusters=5), model.refine)
    for number, change in enumerate(changes, 1):
        change()
        assert source.latest() == version + number
    assert len(set(look(source).cuts["labels"].tolist())) == 5


def test_texts_and_labels_stay_with_a_model_that_grows():
    X, _ = points(80)
    model = Grinch(n_clusters=3).fit(X[:50])
    viewer = Viewer(ModelBackend(model, payload=[f"text{i}" for i in range(50)]), labels=["a", "b"] * 25)
    model.partial_fit(X[50:]).remove([0])
    assert now(viewer).n == 79
    # The labels have the numbers that they had before.
    assert viewer.scene.label_names == ["a", "b"]
    assert viewer.scene.codes.tolist() == [1, 0] * 24 + [1] + [-1] * 30
    assert [hit["title"] for hit in viewer.search("text49")["hits"]] == ["text49"]
    assert viewer.search("text0")["hits"] == []


def test_a_model_that_another_thread_changes():
    X, _ = points(3_000)
    model = Grinch(n_clusters=4).fit(X[:1_000])
    viewer = Viewer(ModelBackend(model))
    writer = threading.Thread(target=lambda: model.partial_fit(X[1_000:]))
    writer.start()
    while writer.is_alive():
        assert now(viewer).n in (1_000, 3_000)
        page = viewer.node(viewer.scene.tree.root, version=viewer.version)
        assert page["size"] in (1_000, 3_000)
        assert viewer.place(X[5].tolist())["neighbours"][0]["id"] == 5
    writer.join()
    assert now(viewer).n == 3_000


# Trees and files ------------------------------------------------------------------------------------------------------


def test_a_tree_alone():
    tree = tree_of(30)
    viewer = Viewer(ModelBackend(tree))
    about = viewer.about()
    assert (about["kind"], about["n"], about["cuts"], about["map"]) == ("tree", 30, [], None)
    assert about["cut"].startswith("k:")
    assert len(viewer.layers()["layers"]) >= 1
    assert viewer.search("17")["hits"][0]["leaf"] == 17
    assert viewer.node(tree.root)["title"] == "30 points"


def test_trees_and_models_in_files(tmp_path):
    matrix = linkage(points(25)[0], "average")
    np.save(tmp_path / "tree.npy", matrix)
    source = open_backend(tmp_path / "tree.npy")
    assert (source.title, source.names_file) == ("tree.npy", tmp_path / "tree.npy.names")
    np.testing.assert_allclose(look(source).tree.to_scipy(), Tree.from_scipy(matrix).to_scipy())
    model = Grinch(n_clusters=3).fit(points(40)[0])
    model.save(tmp_path / "m.grinch")
    source = open_backend(tmp_path / "m.grinch")
    assert source.kind == "model"
    assert groups(look(source).tree) == groups(model.tree_)
    (tmp_path / "m.grinch").write_bytes((tmp_path / "m.grinch").read_bytes()[:-2_000])
    refused(r"m\.grinch", open_backend, tmp_path / "m.grinch")


@pytest.mark.parametrize("start", ["", "\ufeff", "\n  ", "[&R] "])
def test_a_tree_in_newick(tmp_path, start):
    (tmp_path / "tree.nwk").write_text(f"{start}((ape:1,bee:1):2,cät:3);", "utf-8")
    source = open_backend(tmp_path / "tree.nwk", payload=["x", "y", "z"])
    assert source.points([0, 2]) == [("ape", "x"), ("cät", "z")]
    assert source.position_of("cät") == 2
    assert Viewer(source).search("bee")["hits"][0]["leaf"] == 1


NO_SOURCE, NO_TREE = "cannot be opened; accepted are a store", "cannot be read as a tree"
MATRIX = npy(linkage(points(9)[0]))
SPOILT = {
    "empty": (b"", NO_SOURCE),
    "text": (b"just a text", NO_SOURCE),
    "binary": (bytes(range(256)), NO_SOURCE),
    "zip": (npz(a=np.zeros(3)), NO_SOURCE),
    "vectors": (npy(np.zeros((5, 7))), rf"{NO_TREE}: matrix must be a scipy linkage matrix.*got shape \(5, 7\)"),
    "objects": (npy(np.array([{}], object)), f"{NO_TREE}: .*allow_pickle"),
    "the start of a header": (MATRIX[:8], NO_TREE),
    "half a header": (MATRIX[:60], NO_TREE),
    "half a matrix": (MATRIX[:200], NO_TREE),
    "newick": (b"((a,b);", f"{NO_TREE}: .*it ends too early"),
    "one leaf": (b"(" * 200_000 + b"a" + b")" * 200_000 + b";", r"of a single leaf, 'a'; .*two or more, .*'\(a,b\);'"),
    "latin": ("(ä,b);".encode("latin-1"), f"{NO_TREE}: .*utf-8"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_what_cannot_be_looked_at_is_refused(tmp_path, what):
    content, why = SPOILT[what]
    (tmp_path / "file").write_bytes(content)
    refused(why, open_backend, tmp_path / "file", error=FileError)
    refused("does not exist; give a store, a saved model", open_backend, tmp_path / "missing", error=FileError)
    with pytest.raises(FileError, match="a folder without a store or a run of many workers in it; make a store with"):
        open_backend(tmp_path)


# Stores ---------------------------------------------------------------------------------------------------------------


def test_a_store_is_read(tmp_path):
    X, payload = news(40)
    with grinch.open(tmp_path / "store", n_clusters=3) as store:
        store.insert(X, ids=[f"p{i}" for i in range(40)], payload=payload)
        store.remove(["p1"])
        source = open_backend(tmp_path / "store")
        seen = look(source)
        assert (source.title, source.kind, seen.version) == ("store", "store", 2)
        np.testing.assert_array_equal(seen.cuts["default"], store.labels())
        assert source.points(seen.positions[:2]) == [("p0", payload[0]), ("p2", payload[2])]
        assert list(source.payloads(seen.positions)) == [payload[i] for i in range(40) if i != 1]
        assert source.n_features == 5
        store.insert(X[:1] + 1, ids=["new"])
        assert source.latest() == source.layers()[0] == 3
        source.close()
        (tmp_path / "store" / "node-names.sqlite").write_text("no database, but long enough to be taken for one" * 9)
        refused("Move it away to go on without these names", Viewer, StoreBackend(store), error=DamagedStore)


@pytest.mark.parametrize(("n", "most"), [(0, 5), (4, 5), (5, 5), (6, 5), (1_000, 7), (10**6, 999)])
def test_samples_are_evenly_spread(n, most):
    found = sampled(n, most)
    assert len(found) == min(n, most)
    assert ((found >= 0) & (found < n)).all()
    gaps = np.diff(found)
    assert not len(gaps) or (gaps.min() >= 1 and gaps.max() - gaps.min() <= 1)


def test_the_automatic_cut_of_very_many_points_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("grinch.serve.model_backend.MAX_POINTS_FOR_LAYERS", 50)
    monkeypatch.setattr("grinch.serve.views.viewer.MAX_POINTS_FOR_LAYERS", 50)
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = Grinch().fit(X)
    viewer = Viewer(ModelBackend(model))
    assert viewer.about()["cuts"] == []
    assert viewer.about()["cut"].startswith("k:")
    assert viewer.layers()["layers"] is None
    assert viewer.cut_of(viewer.scene, "layer:0").name == "layer:0"
    assert len(viewer.layers()["layers"]) == len(model.layers_)
    # Where it is known, or a number of clusters was given, there is nothing to wait for.
    assert look(ModelBackend(model)).cuts["labels"].tolist() == model.labels_.tolist()
    assert "labels" in look(ModelBackend(Grinch(n_clusters=3).fit(X))).cuts
