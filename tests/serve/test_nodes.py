"""The page of a node and its members, by brute force."""

from collections import Counter

import numpy as np
import pytest

from grinch import Tree
from grinch.serve.model_backend import ModelBackend
from grinch.serve.views import nodes as module
from grinch.serve.views.viewer import Viewer
from grinch.tree.keys import leaf_keys
from serve.looked import chain, news, points, tree_of, viewer_on

N = 150


@pytest.fixture(scope="module", params=["ward", "cosine"])
def viewer(request):
    X, payload = news(N)
    return viewer_on(X, payload=payload, linkage=request.param, n_clusters=5)


@pytest.fixture(scope="module")
def by_ward():
    X, payload = news(N)
    return viewer_on(X, payload=payload, linkage="ward", n_clusters=5)


def rows_of(viewer):
    """The rows as they are compared."""
    X = points(N)[0].astype(np.float64)
    return X / np.linalg.norm(X, axis=1, keepdims=True) if viewer.backend.metric() == "cosine" else X


def some_nodes(tree, least=1):
    return [int(v) for v in tree.preorder().tolist() if tree.size(v) >= least][:40:3]


def test_what_a_page_says(viewer):
    tree, labels, scene = viewer.scene.tree, viewer.backend.model.labels_, viewer.scene
    heights = tree.heights()
    for v in some_nodes(tree):
        page = viewer.node(v)
        leaves = tree.leaves(v)
        assert (page["version"], page["node"], page["size"]) == (1, v, len(leaves))
        assert scene.order[page["start"] : page["start"] + page["size"]].tolist() == scene.leaves(v).tolist()
        assert page["height"] == pytest.approx(heights[v])
        assert int(page["key"], 16) == int(leaf_keys(leaves.astype(np.int64)).sum()) == int(tree.keys()[v])
        tally = Counter(viewer.backend.payload[i]["label"] for i in leaves.tolist())
        assert {entry["name"]: entry["count"] for entry in page["labels"]} == dict(tally)
        assert [entry["count"] for entry in page["labels"]] == sorted(tally.values(), reverse=True)
        inside = set(labels[leaves].tolist())
        assert (page["cluster"] or {}).get("cluster") == (inside.pop() if len(inside) == 1 else None)
        assert [crumb["node"] for crumb in page["path"]] == scene.path(v)
        assert page["path"][0]["name"] == "all points"
        assert page["times"] is None
        if v == tree.root:
            assert page["persistence"] is None
        else:
            low, high = heights[v], heights[tree.parent(v)]
            assert (page["persistence"]["from"], page["persistence"]["to"]) == (low, high)
            assert page["persistence"]["share"] == pytest.approx((high - low) / heights[tree.root])


def test_exemplars_are_the_most_central_members(viewer):
    X, tree = rows_of(viewer), viewer.scene.tree
    for v in some_nodes(tree, least=3):
        leaves = tree.leaves(v)
        distance = np.linalg.norm(X[leaves] - X[leaves].mean(axis=0), axis=1)
        found = [member["leaf"] for member in viewer.node(v)["exemplars"]]
        expected = leaves[np.argsort(distance)][: module.N_EXEMPLARS]
        by_leaf = dict(zip(leaves.tolist(), distance, strict=True))
        np.testing.assert_allclose([by_leaf[leaf] for leaf in found], [by_leaf[leaf] for leaf in expected], rtol=1e-3)


def test_columns_that_stand_out(viewer):
    X, tree = rows_of(viewer), viewer.scene.tree
    bare = Viewer(ModelBackend(viewer.backend.model))
    assert viewer.node(tree.root)["columns"] == bare.node(tree.root)["columns"] == []
    for v in some_nodes(tree)[1:]:
        # Titles say more than columns without names.
        assert viewer.node(v)["columns"] == []
        z = (X[tree.leaves(v)].mean(axis=0) - X.mean(axis=0)) / X.std(axis=0)
        found = {entry["name"]: entry["z"] for entry in bare.node(v)["columns"]}
        assert found == {f"column {i}": pytest.approx(z[i], abs=1e-3) for i in range(5) if abs(z[i]) > 0.1}
        assert [abs(value) for value in found.values()] == sorted(map(abs, found.values()), reverse=True)


def test_columns_have_their_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(points(60)[0], columns=["height", "width", "depth", "age", "mass"])
    viewer = viewer_on(frame, payload=["a text"] * 60, linkage="ward")
    columns = viewer.node(viewer.scene.tree.children(viewer.scene.tree.root)[0])["columns"]
    assert columns
    assert {entry["name"] for entry in columns} <= set(frame.columns)


def test_nearest_nodes(viewer):
    X, tree = rows_of(viewer), viewer.scene.tree
    assert viewer.node(tree.root)["nearest"] == []
    for v in some_nodes(tree)[1:]:
        size, own = tree.size(v), set(tree.leaves(v).tolist())
        likeness = {}
        for u in tree.nodes():
            is_highest = u != tree.root and tree.size(u) <= 2 * size < tree.size(tree.parent(u))
            if is_highest and tree.size(u) >= size / 8 and not own & set(tree.leaves(u).tolist()):
                a, b = X[tree.leaves(u)].mean(axis=0), X[tree.leaves(v)].mean(axis=0)
                if viewer.backend.metric() == "cosine":
                    likeness[u] = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
                else:
                    likeness[u] = -np.linalg.norm(a - b)
        found = viewer.node(v)["nearest"]
        expected = sorted(likeness.values(), reverse=True)[: module.N_NEAREST]
        np.testing.assert_allclose([entry["similarity"] for entry in found], expected, rtol=1e-3, atol=1e-4)
        assert all(entry["node"] in likeness and entry["size"] == tree.size(entry["node"]) for entry in found)


def test_parts_are_the_first_split_that_matters(viewer):
    tree = viewer.scene.tree
    for v in some_nodes(tree, least=2):
        large, small = viewer.node(v)["children"]
        top = tree.parent(large["node"])
        assert tree.parent(small["node"]) == top
        assert large["size"] >= small["size"]
        # On the way down to it only a few points left at a time.
        while top != v:
            assert tree.size(top) >= 0.8 * tree.size(v)
            assert tree.size(tree.sibling(top)) < 0.05 * tree.size(v)
            top = tree.parent(top)
    leaf = viewer.node(0)
    assert (leaf["children"], leaf["size"], leaf["title"]) == ([], 1, viewer.backend.payload[0]["title"])


def test_the_parts_of_a_chain():
    tree = chain(400)
    large, small = Viewer(ModelBackend(tree)).node(tree.root)["children"]
    assert (large["size"] + small["size"], small["size"]) == (319, 1)


@pytest.mark.parametrize("order", module.ORDERS)
@pytest.mark.parametrize("limit", [1, 7, 50, 1_000])
def test_members_cover_every_leaf_once(by_ward, order, limit, monkeypatch):
    # More members than are compared.
    monkeypatch.setattr(module, "MAX_COMPARED", 20)
    tree = by_ward.scene.tree
    for v in (tree.root, tree.children(tree.root)[0], 3):
        found, page = [], {"members": [None]}
        while page["members"]:
            page = by_ward.members(v, len(found), limit, order)
            assert page["total"] == tree.size(v)
            assert len(page["members"]) <= min(limit, 200)
            found += [member["leaf"] for member in page["members"]]
        assert sorted(found) == tree.leaves(v).tolist()
        if order != "central":
            assert found == sorted(found, reverse=order == "newest")


def test_what_is_shown_of_members(by_ward):
    members = by_ward.members(by_ward.scene.tree.root, order="arrival", limit=3)["members"]
    for i, member in enumerate(members):
        x, payload = int(np.flatnonzero(by_ward.scene.order == i)[0]), by_ward.backend.payload[i]
        said = {"text": payload["title"], "label": payload["label"], "image": None, "payload": payload, "time": None}
        assert member == {"leaf": i, "x": x, "id": i} | said


def test_orders_and_nodes_there_are_none_of_are_refused(by_ward):
    for order in ("", "random", "CENTRAL", "x" * 999):
        with pytest.raises(ValueError, match="order must be one of central, arrival, newest"):
            by_ward.members(0, order=order)
    for node in (-1, N, 2 * N, 10**9):
        for ask in (by_ward.node, by_ward.members):
            with pytest.raises(KeyError, match="is not in the tree"):
                ask(node)


def test_trees_without_vectors_and_without_heights_have_pages():
    viewer = Viewer(ModelBackend(tree_of(20)))
    page = viewer.node(viewer.scene.tree.root)
    assert (page["nearest"], page["columns"], page["labels"], page["keywords"]) == ([], [], None, [])
    assert len(page["exemplars"]) == module.N_EXEMPLARS
    tree = Tree()
    for _ in range(4):
        tree.attach(**({} if tree.root < 0 else {"beside": tree.root}))
    page = Viewer(ModelBackend(tree)).node(tree.root)
    assert (page["size"], page["score"]) == (4, None)
