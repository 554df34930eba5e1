"""The first screen: the tree before everything else, cuts that can be read, names, and all ways to use it."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

import grinch
from grinch import Grinch
from grinch.serve.backend import StoreBackend
from grinch.serve.export import write_page
from grinch.serve.model_backend import ModelBackend
from grinch.serve.views import maps
from grinch.serve.views.sample import Sample
from grinch.serve.views.viewer import Viewer
from serve.browser import TOPICS, serving, serving_viewer

AXE = "axe-core@4.10.2"
SERIOUS = ("serious", "critical")


def many_clusters(n_clusters, each=6, seed=0):
    """Rows, and payloads with the number of the class as a text."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(n_clusters, 12)) * 20
    rows = np.repeat(centers, each, axis=0) + rng.normal(size=(n_clusters * each, 12)) * 0.3
    topics = list(TOPICS.values())
    payload = [{"text": f"{topics[i % 4]} number{i // each}", "label": str(i // each)} for i in range(len(rows))]
    return rows.astype(np.float32), payload


# Order ----------------------------------------------------------------------------------------------------------------


def test_the_tree_is_there_long_before_the_map(made_store, open_page, monkeypatch):
    asked, made = threading.Event(), maps.make_map

    def slow(*given):
        asked.set()
        time.sleep(10)
        return made(*given)

    monkeypatch.setattr(maps, "make_map", slow)
    with serving(made_store) as url:
        begin = time.monotonic()
        shown = open_page(url, is_idle=False)
        shown.until("s.blocks > 20", waits=False)
        assert time.monotonic() - begin < 8
        assert asked.wait(10)
        shown.until("s.works.includes('laying out the map…')", waits=False)
        assert "laying out the map" in shown.text("#progress")
        # Meanwhile everything else answers.
        shown.page.mouse.click(*shown.place_of(shown.tops()[0]["node"]))
        shown.until("s.page", waits=False)
        assert time.monotonic() - begin < 10
        assert shown.state["map"] is None
        shown.until("s.map")
        assert shown.page.locator("#progress").is_hidden()


def test_the_tree_does_not_wait_for_names(made_store, open_page, monkeypatch):
    go, words = threading.Event(), Sample.words.fget

    def slow(sample):
        go.wait(30)
        return words(sample)

    monkeypatch.setattr(Sample, "words", property(slow))
    with serving(made_store) as url:
        shown = open_page(url, is_idle=False)
        shown.until("s.blocks > 20", waits=False)
        assert not any("lisbon" in block["title"] for block in shown.blocks() if block["size"] > 1)
        assert "finding names" in shown.text("#progress")
        shown.until("document.querySelectorAll('.cluster').length", waits=False)
        assert shown.text(".cluster:first-child .name") in TOPICS
        go.set()
        shown.until("s.hasWords")
        shown.until("grinchPage.blocks().some((block) => block.size > 1 && block.title.includes('lisbon'))")
        assert shown.page.locator("#progress").is_hidden()
        shown.until("document.querySelector('#panel-clusters').textContent.includes('lisbon')")


@pytest.mark.parametrize("kind", ["store", "model"])
def test_nothing_waits_for_the_neighbours_of_the_map(kind, made_store, monkeypatch):
    if kind == "store":
        backend = StoreBackend(grinch.open(made_store, readonly=True))
        monkeypatch.setattr("grinch.store.state.StoreState.neighbors", lambda state: wait())
    else:
        backend = ModelBackend(Grinch().fit(many_clusters(20)[0]))
        monkeypatch.setattr("grinch.estimators.fit.Fit.neighbors", lambda fitted: wait())
    inside, go = threading.Event(), threading.Event()

    def wait():
        inside.set()
        assert go.wait(60)
        raise RuntimeError("enough")

    viewer = Viewer(backend)

    def neighbors():
        with pytest.raises(RuntimeError, match="enough"):
            viewer.backend.neighbors()

    asking = threading.Thread(target=neighbors, daemon=True)
    asking.start()
    assert inside.wait(30)
    answers = []

    def ask():
        viewer.refresh()
        answers.extend([viewer.about(), viewer.view(), viewer.cut(), viewer.node(viewer.scene.tree.root)])

    other = threading.Thread(target=ask, daemon=True)
    other.start()
    other.join(30)
    go.set()
    asking.join(30)
    viewer.close()
    assert len(answers) == 4


# Cuts -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A store of a thousand clusters."""
    folder = tmp_path_factory.mktemp("crowd") / "crowd"
    rows, payload = many_clusters(1_000, 4)
    with grinch.open(folder, n_clusters=1_000) as store:
        store.insert(rows, payload=payload)
    return folder


def test_a_thousand_clusters(crowd, open_page):
    with serving(crowd) as url:
        shown = open_page(url)
        # It opens at a cut that can be read; the other one is a click away, and remembered.
        assert shown.state["cut"] == "k:25"
        assert len(shown.tops()) == 25
        assert "by size" in shown.text("#count-unit")
        shown.page.click("#cuts >> text=default cut")
        assert shown.idle().state["cut"] == "cut:default"
        assert shown.page.locator("#count").input_value() == "1000"
        shown.page.click("#tab-clusters")
        shown.until("document.querySelectorAll('.cluster').length >= 100")
        while shown.page.locator(".cluster").count() < 1_000:
            before = shown.page.locator(".cluster").count()
            shown.page.locator(".end").scroll_into_view_if_needed()
            shown.until(f"document.querySelectorAll('.cluster').length > {before}")
        assert shown.page.locator(".cluster").count() == 1_000
        shown.page.fill(".filter input", "number77")
        shown.until("document.querySelectorAll('.cluster').length < 20")
        assert "number77" in shown.page.locator(".cluster .name").first.inner_text()
        shown.page.goto("about:blank")
        assert shown.open(url).state["cut"] == "cut:default"


def test_a_number_that_cannot_be_had_is_said(crowd, open_page):
    with serving(crowd) as url:
        shown = open_page(url)
        most = shown.page.evaluate("fetch('api/about').then((r) => r.json()).then((about) => about.max_k)")
        shown.enter("#count", "3999")
        assert shown.state["cut"] == f"k:{most}"
        assert f"{most:,} is the most this tree can be cut into by size" in shown.text("#count-note")
        shown.enter("#count", "30")
        assert shown.text("#count-note") == ""
        # To the right there are more clusters, also beyond the cuts by size.
        counts = []
        for step in range(0, 1001, 100):
            shown.page.locator("#slider").fill(str(step))
            counts.append(int(shown.idle().page.locator("#count").input_value()))
        assert counts == sorted(counts)
        assert counts[0] == 1
        layers = [text.split()[-1] for text in shown.page.locator("#cuts .meta ~ .chip").all_inner_texts()]
        sizes = [int(text.replace(",", "")) for text in layers]
        assert sizes == sorted(sizes)
        assert counts[-1] == max([most, *sizes])


# Names ----------------------------------------------------------------------------------------------------------------

# Keeps what was written on the tree since it was last cleared.
WRITTEN = """
globalThis.written = [];
const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
Object.assign(CanvasRenderingContext2D.prototype, {
  clearRect(...area) {
    if (this.canvas.id === "icicle") written.length = 0;
    return clearRect.apply(this, area);
  },
  fillText(text, x, y) {
    const at = this.getTransform(), { x: left, y: top } = at.transformPoint({ x, y });
    if (this.canvas.id === "icicle") written.push({ text, x: left, y: top, isDown: at.b > 0.5 });
    return fillText.call(this, text, x, y);
  },
});
"""


@pytest.mark.parametrize("width", [390, 1280])
def test_names_are_inside_of_the_blocks(made_store, open_page, width):
    with serving(made_store) as url:
        shown = open_page(url, width=width, script=WRITTEN)
        shown.enter("#count", "6")
        view, box = shown.state["view"], shown.page.locator("#icicle").bounding_box()
        scale, written = box["width"] / (view["x1"] - view["x0"]), shown.page.evaluate("written")
        directions = set()
        for block in (tops := shown.tops()):
            left, wide = (block["start"] - view["x0"]) * scale, block["size"] * scale
            y = shown.place_of(block["node"])[1] - box["y"]
            inside = [
                text
                for text in written
                if left <= text["x"] <= left + wide and text["y"] > y - shown.state["rowHeight"]
            ]
            # In the column under its top there is its name, and what is below it.
            first = min(inside, key=lambda text: text["y"])
            assert first["text"].rstrip("…").split(", ")[0] in block["title"], (block, inside)
            directions.add(first["isDown"])
        assert len(tops) == 6
        # Downwards where a column is narrow.
        assert directions == {True, False}


def test_names_say_what_is_not_written_above(shown):
    found = shown.page.evaluate(
        """async () => {
          const { Picture } = await import("grinch/picture");
          const names = { 0: "rain, wind, sea", 1: "rain, wind", 2: "wind, storm, coast", 3: "storm" };
          const places = { row: [0, 1, 1, 2], start: [0, 0, 4, 4], size: [8, 4, 4, 2] };
          const arrays = { node: [0, 1, 2, 3], parent: [-1, 0, 0, 2], flags: [0, 0, 0, 0], ...places };
          const picture = new Picture({ header: { names }, arrays }, {});
          return [0, 1, 2, 3].map((i) => picture.name(i));
        }"""
    )
    assert found == ["rain, wind, sea", "rain, wind", "storm, coast", "storm"]


# Fields ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_two_hundred_classes_are_classes(is_shuffled):
    rows, payload = many_clusters(200, 20)
    order = np.random.default_rng(1).permutation(len(rows)) if is_shuffled else np.arange(len(rows))
    viewer = Viewer(ModelBackend(Grinch().fit(rows[order]), payload=[payload[i] for i in order]))
    assert viewer.fields.label == "label"
    assert len(viewer.about()["labels"]) == 200


def test_two_hundred_classes_are_shown(open_page):
    rows, payload = many_clusters(200, 12)
    for known in payload:
        del known["text"]
    viewer = Viewer(ModelBackend(Grinch(n_clusters=200).fit(rows), payload=payload))
    with serving_viewer(viewer) as url:
        shown = open_page(url, width=1920)
        shown.page.click("#cuts >> text=200")
        shown.page.select_option("#color", "label")
        assert shown.idle().state["color"] == "label"
        assert "200 labels" in shown.text("#legend")
        blocks = sorted(shown.tops(), key=lambda block: block["start"])
        assert len(blocks) == 200
        about, scene = viewer.about(), viewer.scene
        labels = [int(scene.codes[scene.order[block["start"]]]) for block in blocks]
        assert sorted(labels) == list(range(200))
        colors = [about["label_colors"][label] for label in labels]
        assert all(one != other for one, other in pairwise(colors))
        names = {label["name"] for label in shown.state["labels"]}
        assert len(names) > 10
        assert names <= {str(label) for label in range(200)}
        top = blocks[0]
        shown.double_click(top["node"]).click(top["node"])
        assert shown.page.locator("#panel-node .bars:not(.signed) .bar-row").count() == 1
        assert "100 %" in shown.text("#panel-node .bars:not(.signed)")


@pytest.mark.parametrize("values", [[f"a title of its own {i}" for i in range(400)], [i / 7 for i in range(400)]])
def test_what_never_repeats_is_no_class(values):
    rows, _ = many_clusters(100, 4)
    viewer = Viewer(ModelBackend(Grinch().fit(rows), payload=[{"label": value} for value in values]))
    assert viewer.fields.label is None


def test_a_store_remembers_the_fields_that_were_named(own_store):
    def opened(**named):
        return Viewer(StoreBackend(grinch.open(own_store, readonly=True)), **named)

    assert (opened().fields.label, opened().fields.text) == ("label", "text")
    assert opened(text="label").fields.text == "label"
    again = opened()
    assert again.fields.text == "label"
    assert again.names.fields() == {"text": "label"}
    with pytest.raises(ValueError, match="image must name a field"):
        opened(image="photo")
    assert again.names.fields() == {"text": "label"}
    assert opened(text="").fields.text == "text"
    assert opened().names.fields() == {}
    # A field that is gone is looked for again.
    again.names.name_fields({"text": "headline"})
    assert opened().fields.text == "text"


# Lists and pages ------------------------------------------------------------------------------------------------------


def test_clusters_are_listed_in_pages(crowd):
    viewer = Viewer(StoreBackend(grinch.open(crowd, readonly=True)))
    cut = viewer.cut_of(viewer.scene, "cut:default")
    viewer.scene.names = {int(cut.nodes[500]): "zebras"}
    for order in ("size", "new", "name"):
        pages = [viewer.clusters("cut:default", order=order, offset=at, limit=170) for at in range(0, 1_000, 170)]
        listed = [cluster for page in pages for cluster in page["clusters"]]
        assert {page["total"] for page in pages} == {1_000}
        assert sorted(cluster["node"] for cluster in listed) == sorted(cut.nodes.tolist())
        assert [cluster["is_named"] for cluster in listed] == [True] + 999 * [False]
        rest = listed[1:]
        if order == "size":
            assert all(a["size"] >= b["size"] for a, b in pairwise(rest))
        elif order == "name":
            assert [c["name"].lower() for c in rest] == sorted(c["name"].lower() for c in rest)
        else:
            arrived = viewer.scene.mean_arrival(np.array([c["node"] for c in rest]))
            assert (np.diff(arrived) <= 1e-12).all()
    assert [c["name"] for c in viewer.clusters("cut:default", "EBRA")["clusters"]] == ["zebras"]
    assert viewer.clusters("cut:default", "nothing like it") == {
        "version": 1,
        "total": 0,
        "largest": int(cut.sizes.max()),
        "clusters": [],
    }
    with pytest.raises(ValueError, match="order must be one of size, new, name"):
        viewer.clusters(order="age")


def test_labels_are_shares_of_the_node(open_page):
    rows, payload = many_clusters(12, 10)
    payload[0]["label"] = None
    viewer = Viewer(ModelBackend(Grinch().fit(rows), payload=payload))
    page = viewer.node(viewer.scene.tree.root)
    assert (page["n_labels"], page["n_labelled"], len(page["labels"])) == (12, 119, 8)
    with serving_viewer(viewer) as url:
        shown = open_page(url)
        shown.click(shown.blocks()[0]["node"])
        bars = shown.page.locator("#panel-node .bars:not(.signed) .bar-row")
        assert bars.count() == 9
        assert bars.nth(7).inner_text().split("\n")[0] == "5 others"
        assert bars.nth(8).inner_text().split("\n")[0] == "no label"
        widths = [float(w[:-1]) for w in bars.locator("i").evaluate_all("all => all.map((i) => i.style.width)")]
        assert sum(widths) == pytest.approx(100, abs=0.1)
        titles = shown.page.locator("#panel-node h3").all_inner_texts()
        order = [titles.index(title) for title in ("Most typical", "Labels", "Numbers")]
        assert order == sorted(order)
        assert shown.page.locator(".facts dt").count() == shown.page.locator(".facts dd .meta").count() > 1


# The map --------------------------------------------------------------------------------------------------------------


def test_what_is_selected_is_brought_into_view_and_named_by_its_parts(shown):
    assert shown.state["mapView"] == {"x": 0.5, "y": 0.5, "zoom": 1}
    before = {label["name"] for label in shown.state["labels"]}
    assert before
    shown.enter("#count", "4")
    top = shown.tops()[0]
    shown.click(top["node"]).until("s.mapView.zoom > 1.2")
    box = shown.page.locator("#map").bounding_box()
    inside = [shown.page.evaluate("i => grinchPage.pointAt(i)", top["start"] + i) for i in range(top["size"])]
    share = np.mean([0 < at["x"] < box["width"] and 0 < at["y"] < box["height"] for at in inside])
    assert share > 0.8
    labels = shown.state["labels"]
    for i, one in enumerate(labels):
        for other in labels[:i]:
            apart = abs(one["x"] - other["x"]) >= one["wide"] + other["wide"] or abs(one["y"] - other["y"]) >= 21
            assert apart, (one, other)
    shown.page.focus("#icicle")
    shown.press("Home")
    assert shown.state["mapView"]["zoom"] == 1


def test_names_given_by_people_come_first(own_store, open_page):
    with serving(own_store) as url:
        shown = open_page(url)
        shown.enter("#count", "6")
        smallest = shown.tops()[-1]
        shown.click(smallest["node"])
        shown.page.click("#rename")
        shown.page.keyboard.type("First of all")
        shown.press("Enter")
        shown.page.click("#tab-clusters")
        shown.until("document.querySelector('.cluster .name')?.textContent === 'First of all'")
        shown.page.focus("#icicle")
        shown.press("Home")
        shown.until("s.labels[0]?.name === 'First of all'")


# Everybody ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The source of axe-core, fetched by npm."""
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None:
        pytest.skip("npm is not installed, which fetches axe-core")
    done = subprocess.run([npm, "pack", AXE], cwd=folder, capture_output=True, text=True, timeout=120)
    packed = next(folder.glob("*.tgz"), None)
    if done.returncode or packed is None:
        pytest.skip(f"npm could not fetch {AXE}: {done.stderr[-200:]}")
    with tarfile.open(packed) as archive:
        source = archive.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode()


def serious(shown, axe):
    shown.page.evaluate(f"() => {{ {axe} }}")
    found = shown.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return {one["id"]: [node["html"] for node in one["nodes"]] for one in found if one["impact"] in SERIOUS}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_can_be_used_by_everybody(shown, axe, theme, width):
    shown.page.emulate_media(color_scheme=theme)
    shown.resize(width)
    assert serious(shown, axe) == {}
    shown.click(shown.tops()[0]["node"])
    assert serious(shown, axe) == {}
    for tab in ("clusters", "changes"):
        shown.page.click(f"#tab-{tab}")
        shown.idle()
        assert serious(shown, axe) == {}, tab
    shown.page.click("#help-open")
    assert serious(shown, axe) == {}


def touch(shown, *moves):
    """Touch the page with one or two fingers, and move them; each move is a list of places."""
    session = shown.page.context.new_cdp_session(shown.page)
    for i, fingers in enumerate(moves):
        points = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(fingers)]
        session.send("Input.dispatchTouchEvent", {"type": "touchMove" if i else "touchStart", "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    return shown.idle()


@pytest.mark.parametrize("pane", ["icicle", "map"])
def test_pinch_and_swipe(url, open_page, pane):
    shown = open_page(url, width=390, has_touch=True, is_mobile=True)
    shown.page.locator(f"#{pane}").scroll_into_view_if_needed()
    box = shown.page.locator(f"#{pane}").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = shown.state
    touch(shown, *([(x - 20 - d, y), (x + 20 + d, y)] for d in range(0, 61, 10)))
    after = shown.state
    if pane == "icicle":
        assert after["view"]["x1"] - after["view"]["x0"] < 0.5 * (before["view"]["x1"] - before["view"]["x0"])
    else:
        assert after["mapView"]["zoom"] > 2
    touch(shown, *([(x - d, y)] for d in range(0, 81, 10)))
    moved = shown.state
    if pane == "icicle":
        assert moved["view"]["x0"] > after["view"]["x0"]
    else:
        assert moved["mapView"]["x"] > after["mapView"]["x"]
    # A finger on the page scrolls it, and selects nothing.
    assert moved["selection"] is None


def test_the_export_has_the_same_screen(made_store, tmp_path, open_page):
    viewer = Viewer(StoreBackend(grinch.open(made_store, readonly=True)))
    write_page(viewer, tmp_path / "page.html")
    with serving_viewer(viewer) as url:
        served, exported = open_page(url), open_page((tmp_path / "page.html").as_uri())
        for shown in (served, exported):
            shown.page.click("#tab-clusters")
            shown.idle().until("document.querySelectorAll('.cluster').length > 3")
        for selector in ("#cuts", "#count-unit", "#panel-clusters", "#legend"):
            assert served.text(selector) == exported.text(selector)
        names = [{label["name"] for label in shown.state["labels"]} for shown in (served, exported)]
        assert names[0] == names[1] != set()
    viewer.close()
