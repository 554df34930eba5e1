"""The explorer as one file: what it answers is what a viewer answers."""

from __future__ import annotations

import re
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import grinch
from effort import at_night
from grinch import Grinch
from grinch.serve.export import MOST_POINTS, page_of, write_page
from grinch.serve.sources import MemorySource, StoreSource, open_source
from grinch.serve.views.arrays import unpack_arrays
from grinch.serve.views.viewer import Viewer
from serve.browser import Shown, make_store, serving_viewer, some_points

# Arrays as lists; what is no number as null, as JSON has it.
ASK = """async ([what, args]) => {
  const source = await import("grinch/local");
  const found = await source[what](...args);
  if (!found || !found.arrays) return found;
  const listed = Object.entries(found.arrays).map(([name, values]) => [name, Array.from(values)]);
  return {header: found.header, arrays: Object.fromEntries(listed)};
}"""


class Exported:
    """A page that was written to a file and opened from there, beside the viewer it was made of."""

    def __init__(self, viewer, page):
        self.viewer, self.page = viewer, page

    def ask(self, what, *args):
        return self.page.page.evaluate(ASK, [what, args])

    def assert_same_arrays(self, found, message):
        header, arrays = unpack_arrays(message)
        assert {name for name, *_ in header.pop("arrays")} == set(found["arrays"])
        for name, values in arrays.items():
            np.testing.assert_allclose(
                np.array(found["arrays"][name], float), values.astype(float), rtol=1e-5, err_msg=name
            )
        for name, value in header.items():
            assert like(found["header"][name]) == like(value), name


def like(value):
    """A value as it is compared: numbers to six digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {str(name): like(entry) for name, entry in value.items()}
    return [like(entry) for entry in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def viewer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "notes"
    make_store(folder, 300)
    with grinch.open(folder) as store:
        store.label(int(store.labels()[0]), "weather & co")
        viewer = Viewer(StoreSource(store))
        root = viewer.about()["root"]
        viewer.name(viewer.node(root)["children"][0]["node"], "the <b>larger</b> half")
        yield viewer


@pytest.fixture(scope="module")
def exported(viewer, tmp_path_factory, chromium):
    """One page for all tests that only ask it."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_page(viewer, path)
    context = chromium.new_context()
    shown = Shown(context.new_page()).open(path.as_uri())
    yield Exported(viewer, shown)
    context.close()
    assert shown.problems == []


def test_it_opens_from_a_file_and_shows_the_tree(exported):
    assert exported.page.state["n"] == 300
    assert exported.page.state["cut"] == exported.viewer.about()["cut"]
    assert exported.page.state["blocks"] > 10
    assert exported.page.page.evaluate("performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("color", ["cluster", at_night("label"), "purity", at_night("time"), "fresh"])
def test_the_blocks_are_those_of_the_viewer(exported, color):
    cuts = [cut["cut"] for cut in exported.ask("about")["cuts"]] + ["k:1", "k:3", "k:7", "layer:0"]
    for cut in cuts:
        for x0, x1, width, rows in ((0, 300, 1200, 24), (10.5, 77.25, 300, 24), (299, 300, 50, 3), (0, 300, 20, 2)):
            asked = {"x0": x0, "x1": x1, "width": width, "rows": rows, "cut": cut, "color": color, "since": 1}
            exported.assert_same_arrays(exported.ask("view", asked), exported.viewer.view(**asked))


def test_the_cuts_are_those_of_the_viewer(exported):
    for cut in ("auto", "cut:default", "layer:0", *(f"k:{k}" for k in (1, 2, 5, 20))):
        exported.assert_same_arrays(exported.ask("cut", {"cut": cut}), exported.viewer.cut(cut))
    assert like(exported.ask("layers")) == like(exported.viewer.layers())


def test_pages_of_nodes_are_those_of_the_viewer(exported):
    scene = exported.viewer.scene
    for v in scene.tree.preorder()[::23].tolist():
        found, known = exported.ask("node", v, {"since": 1}), exported.viewer.node(v, since=1)
        # In eight bits, what is nearly as near or as typical may change places.
        for name in ("columns", "nearest", "exemplars", "key"):
            known.pop(name)
            found.pop(name, None)
        assert like(found) == like(known)


def test_what_is_typical_and_near_is_nearly_that_of_the_viewer(exported):
    scene, same, all_of_them = exported.viewer.scene, 0, 0
    for v in scene.tree.preorder()[1:200:7].tolist():
        found, known = exported.ask("node", v), exported.viewer.node(v)
        for name, key in (("exemplars", "leaf"), ("nearest", "node")):
            same += len({entry[key] for entry in found[name]} & {entry[key] for entry in known[name]})
            all_of_them += len(known[name])
            assert len(found[name]) == len(known[name])
    assert same >= 0.9 * all_of_them > 50


def test_members_are_all_there_once(exported):
    v = exported.viewer.node(exported.viewer.about()["root"])["children"][0]["node"]
    leaves = sorted(exported.viewer.scene.leaves(v).tolist())
    for order in ("arrival", "newest", "central"):
        pages = [exported.ask("members", v, {"offset": at, "limit": 70, "order": order}) for at in range(0, 300, 70)]
        assert sorted(point["leaf"] for page in pages for point in page["members"]) == leaves
        if order != "central":
            assert like(pages[0]) == like(exported.viewer.members(v, 0, 70, order))


@pytest.mark.parametrize("q", ["larger", "weather", "p0017", "lisbon", "(p0003)", "nothing like it", "cluster 1", "#2"])
def test_search_finds_what_the_viewer_finds(exported, q):
    found, known = exported.ask("search", q, {"limit": 20}), exported.viewer.search(q, 20)
    assert {(hit["kind"], hit["node"]) for hit in found["hits"]} == {
        (hit["kind"], hit["node"]) for hit in known["hits"]
    }


def test_the_map_and_what_is_known_of_points(exported):
    exported.assert_same_arrays(exported.ask("map", {}), exported.viewer.map())
    for what in ("label", "time", "fresh"):
        asked = {"what": what, "since": 1}
        exported.assert_same_arrays(exported.ask("points", asked), exported.viewer.points(**asked))


def test_what_happened_is_known(exported):
    for since in (0, 1, 2, 3):
        assert like(exported.ask("changes", {"since": since})) == like(exported.viewer.changes(since))
    assert like(exported.ask("versions")) == like(exported.viewer.versions())
    assert exported.ask("locate", "p0005", 30) == exported.viewer.locate("p0005", 30)


def test_nothing_can_be_named_or_placed(exported):
    about = exported.ask("about")
    assert not about["can_name"]
    assert not about["can_place"]


def png(shade: int) -> bytes:
    """A picture of one pixel."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes([0, shade])))
        + chunk(b"IEND", b"")
    )


def test_images_are_inside(tmp_path, open_page):
    (tmp_path / "images").mkdir()
    for i in range(8):
        (tmp_path / "images" / f"{i}.png").write_bytes(png(30 * i))
    payload = [{"image": f"{i}.png"} for i in range(8)]
    payload[0] = {"image": "../secret.png"}
    (tmp_path / "secret.png").write_bytes(png(1))
    model = Grinch(n_clusters=2).fit(np.random.default_rng(0).normal(size=(8, 3)))
    viewer = Viewer(MemorySource(model, payload=payload), images=tmp_path / "images")
    write_page(viewer, tmp_path / "page.html")
    shown = Exported(viewer, open_page((tmp_path / "page.html").as_uri()))
    members = shown.ask("members", viewer.about()["root"], {"order": "arrival"})["members"]
    assert members[0]["image"] is None
    assert all(member["image"].startswith("data:image/png;base64,") for member in members[1:])


@contextmanager
def image_server() -> Iterator[tuple[str, list[str]]]:
    """A server of images without https; its address, and what was asked of it."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "image/png")
            self.end_headers()
            self.wfile.write(png(9))

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# What the policy of a page blocks when somebody puts it there.
BLOCKED = """(address) => new Promise((done) => {
  const found = {};
  document.addEventListener("securitypolicyviolation", (event) => {
    found[event.effectiveDirective] = event.blockedURI;
    if (Object.keys(found).length === 2) done(found);
  });
  const image = new Image();
  image.onload = () => done("the image was fetched");
  image.src = address + "blocked.png";
  const script = document.createElement("script");
  script.textContent = "fetch('/')";
  document.head.append(script);
})"""


@pytest.mark.parametrize("kind", ["served", "exported"])
def test_only_images_with_an_https_address_are_fetched(kind, tmp_path, chromium):
    """And the policy of the page blocks any other, and scripts that are not its own."""
    with image_server() as (address, asked), ExitStack() as stack:
        places = [address, "https://images.example/"]
        payload = [{"text": f"point {i}", "image": f"{places[i % 2]}{i}.png"} for i in range(6)]
        model = Grinch(n_clusters=2).fit(np.random.default_rng(0).normal(size=(6, 3)))
        viewer = Viewer(MemorySource(model, payload=payload))
        if kind == "served":
            url = stack.enter_context(serving_viewer(viewer))
        else:
            write_page(viewer, tmp_path / "page.html")
            url = (tmp_path / "page.html").as_uri()
        context = stack.enter_context(closing(chromium.new_context()))
        # The only https server there is, inside the browser.
        fetched = []

        def answer(route):
            fetched.append(route.request.url)
            route.fulfill(body=png(3), content_type="image/png")

        context.route("https://images.example/*", answer)
        shown = Shown(context.new_page()).open(url)
        shown.click(viewer.about()["root"])
        shown.until("[...document.images].filter((i) => i.naturalWidth && i.src.startsWith('https:')).length >= 3")
        assert sorted(fetched) == [f"https://images.example/{i}.png" for i in (1, 3, 5)]
        assert shown.problems == []
        assert asked == []
        blocked = shown.page.evaluate(BLOCKED, address)
        assert blocked == {"img-src": address + "blocked.png", "script-src-elem": "inline"}
        assert asked == []


@pytest.mark.parametrize("n", [0, 1, at_night(2), at_night(3)])
def test_few_points(n, tmp_path, open_page):
    with grinch.open(tmp_path / "store") as store:
        if n:
            rows, ids, payload = some_points(n)
            store.insert(rows, ids=ids, payload=payload)
        write_page(Viewer(StoreSource(store)), tmp_path / "page.html")
    assert open_page((tmp_path / "page.html").as_uri()).state["n"] == n


def test_trees_of_other_programs(tmp_path, open_page):
    (tmp_path / "tree.nwk").write_text("((ape:1,bee:1):2,('a cat':2,dog:2):1);")
    write_page(Viewer(open_source(tmp_path / "tree.nwk")), tmp_path / "page.html")
    shown = open_page((tmp_path / "page.html").as_uri())
    assert shown.state["n"] == 4


def test_nothing_in_the_data_ends_a_script(tmp_path):
    payload = [f"</script><script>globalThis.broken = {i}</script><!--" for i in range(4)]
    model = Grinch(n_clusters=2).fit(np.eye(4))
    page = page_of(Viewer(MemorySource(model, payload=payload)))
    data = re.search(r'id="grinch-data">([^<]*)</script>', page)
    assert data
    assert "broken" not in page


def test_too_many_points_are_refused(monkeypatch, viewer):
    monkeypatch.setattr("grinch.serve.export.MOST_POINTS", 100)
    with pytest.raises(ValueError, match=r"at most 100 points; there are 300"):
        page_of(viewer)
    assert MOST_POINTS == 50_000
