"""Search by names, ids, words and texts."""

import numpy as np
import pytest

import grinch
from grinch import Grinch
from grinch.serve.backend import StoreBackend
from grinch.serve.model_backend import ModelBackend
from grinch.serve.views.search import SNIPPET, _around
from grinch.serve.views.viewer import Viewer
from serve.looked import news


@pytest.fixture(scope="module", params=["model", "store", "numbers", "no ids"])
def viewer(request, tmp_path_factory):
    X, payload = news(120)
    ids = {"numbers": list(range(1_000, 1_120)), "no ids": None}.get(request.param, [f"p{i}" for i in range(120)])
    if request.param == "model":
        yield Viewer(ModelBackend(Grinch(n_clusters=4).fit(X, ids=ids), payload=payload))
        return
    with grinch.open(tmp_path_factory.mktemp("search") / "store", n_clusters=4) as store:
        store.insert(X, ids=ids, payload=payload)
        yield Viewer(StoreBackend(store))


def test_an_id_leads_to_its_point_first(viewer):
    name = viewer.backend.points([17])[0][0]
    hit = viewer.search(str(name))["hits"][0]
    assert (hit["kind"], hit["leaf"], hit["node"], hit["size"]) == ("id", 17, 17, 1)
    assert hit["start"] == np.flatnonzero(viewer.scene.order == 17)[0]
    assert viewer.search(f"  {name}\n")["hits"][0] == hit


def test_texts_are_found_with_what_is_around_them_and_no_more_than_asked_for(viewer):
    found = viewer.search("ITEM0x33")
    assert [(hit["leaf"], hit["kind"]) for hit in found["hits"]] == [(33, "text")]
    assert "item0x33" in found["hits"][0]["snippet"]
    assert found["complete"]
    found = viewer.search("report", limit=5)
    assert (len(found["hits"]), found["complete"]) == (5, False)
    assert len(viewer.search("report", limit=10_000)["hits"]) == 100


def test_words_lead_to_clusters(viewer):
    found = viewer.search("storm", limit=100)["hits"]
    kinds = [hit["kind"] for hit in found]
    assert kinds == sorted(kinds, key=["keyword", "text"].index)
    assert "keyword" in kinds
    cluster = found[0]
    leaves = viewer.scene.leaves(cluster["node"]).tolist()
    titles = [payload["title"] for _, payload in viewer.backend.points(leaves)]
    assert sum("storm" in title for title in titles) > len(titles) / 4
    texts = {hit["leaf"] for hit in found if hit["kind"] == "text"}
    payloads = list(viewer.backend.payloads(viewer.scene.look.positions))
    assert texts == {i for i, payload in enumerate(payloads) if "storm" in payload["title"]}


def test_clusters_are_found_by_number(viewer):
    cut = viewer.scene.cut(viewer.default_cut(viewer.scene))
    for cluster, node in zip(cut.clusters.tolist(), cut.nodes.tolist(), strict=True):
        for q in (f"#{cluster}", f"cluster {cluster}", f"Cluster{cluster}", f"cluster #{cluster}"):
            hits = [hit["node"] for hit in viewer.search(q)["hits"] if hit["kind"] == "cluster"]
            assert hits == [node], q


NOWHERE = [
    *("", "   ", "²", "#²", "#", "cluster", "--5", "-1", "9" * 30, "-" + "9" * 5_000, "title"),
    *("%", "_", "\\", "'", '"', "\0", "日本"),
]


@pytest.mark.parametrize("q", NOWHERE)
def test_what_leads_nowhere_has_no_hits(viewer, q):
    assert viewer.search(q)["hits"] == []


def test_names_of_clusters_and_nodes_come_first(tmp_path):
    X, payload = news(120)
    with grinch.open(tmp_path / "store", n_clusters=4) as store:
        store.insert(X, payload=payload)
        cluster = int(store.labels()[0])
        store.label(cluster, "Report of all")
        viewer = Viewer(StoreBackend(store))
        child = viewer.scene.tree.children(viewer.scene.tree.root)[0]
        viewer.name(child, "my REPORTS")
        hits = viewer.search("report")["hits"]
        first = [("name", "my REPORTS"), ("cluster", "Report of all")]
        assert [(hit["kind"], hit["title"]) for hit in hits[:2]] == first
        assert hits[0]["node"] == child
        assert set(viewer.scene.leaves(hits[1]["node"]).tolist()) == set(np.flatnonzero(store.labels() == cluster))


def test_html_is_only_text_and_what_was_removed_is_not_found(tmp_path):
    X, payload = news(30)
    evil = '<img src=x onerror="alert(1)"> & <b>bold</b>'
    payload[:10] = [{"title": evil}] * 10
    with grinch.open(tmp_path / "store") as store:
        store.insert(X, ids=[f"<i>{i}</i>" for i in range(30)], payload=payload)
        viewer = Viewer(StoreBackend(store))
        hit = next(hit for hit in viewer.search("onerror")["hits"] if hit["kind"] == "text")
        assert (hit["title"], hit["snippet"]) == (evil, evil)
        assert viewer.search("<i>3</i>")["hits"][0]["leaf"] == 3
        member = viewer.members(3)["members"][0]
        assert (member["text"], member["id"]) == (evil, "<i>3</i>")
        store.remove(["<i>3</i>"])
        assert viewer.search("<i>3</i>", limit=50)["hits"] == []
        assert [hit["leaf"] for hit in viewer.search("item0x14")["hits"] if hit["kind"] == "text"] == [14]
        # The picture of then still shows it, as what it is.
        assert viewer.node(3)["title"] == "a point that was removed"


@pytest.mark.parametrize("length", [0, 5, SNIPPET, SNIPPET + 1, 5_000])
@pytest.mark.parametrize("before", [0, 10, 3_000])
def test_snippets_are_around_the_word(length, before):
    text = "x" * before + "WORD" + "y" * length
    snippet = _around(text, "word")
    assert "WORD" in snippet
    assert len(snippet) <= SNIPPET + 2
    assert snippet.strip("…") in text
    assert snippet.startswith("…") == (not text.startswith(snippet.strip("…")))
    assert snippet.endswith("…") == (not text.endswith(snippet.strip("…")))
