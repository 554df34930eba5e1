"""The explorer as one file: what it answers is what a viewer answers."""

import base64
import re
from contextlib import ExitStack, closing

import numpy as np
import pytest

import grinch
from effort import at_night
from grinch import Grinch
from grinch.serve.backend import StoreBackend
from grinch.serve.export import MAX_POINTS, page_of, write_page
from grinch.serve.model_backend import ModelBackend, open_backend
from grinch.serve.views.icicle import unpack_arrays
from grinch.serve.views.viewer import Viewer
from serve.browser import Shown, make_store, serving_viewer, some_points
from serve.looked import viewer_on
from serving import answering

# Arrays as lists; what is no number as null, as JSON has it.
ASK = """async ([what, args]) => {
  const source = await import("grinch/local");
  const found = await source[what](...args);
  if (!found || !found.arrays) return found;
  const listed = Object.entries(found.arrays).map(([name, values]) => [name, Array.from(values)]);
  return {header: found.header, arrays: Object.fromEntries(listed)};
}"""


class Exported:
    """A page that was written to a file and opened from there, beside the viewer it was made of.

    The page numbers nodes from left to right, larger ones first; answers of the viewer are renumbered like that.
    """

    def __init__(self, viewer, page):
        self.viewer, self.page = viewer, page
        sizes, starts = viewer.scene.sizes, viewer.scene.starts
        nodes = viewer.scene.tree.preorder()
        self.nodes = nodes[np.lexsort((-sizes[nodes], starts[nodes]))].tolist()
        self.number = {v: i for i, v in enumerate(self.nodes)} | {-1: -1, None: None}

    def ask(self, what, *args):
        return self.page.page.evaluate(ASK, [what, args])

    def assert_same_arrays(self, found, message):
        header, arrays = unpack_arrays(message)
        assert {name for name, *_ in header.pop("arrays")} == set(found["arrays"])
        for name, values in arrays.items():
            expected = [self.number[v] for v in values.tolist()] if name in ("node", "split") else values.astype(float)
            # Arrival is in 16 bits.
            np.testing.assert_allclose(found["arrays"][name], expected, rtol=1e-5, atol=1e-5, err_msg=name)
        for name, value in header.items():
            assert like(found["header"][name]) == self.like(value, name), name

    def like(self, value, name=""):
        """An answer of the viewer as the page gives it: numbers to five digits, nodes by the numbers of the page."""
        if name == "names":
            return {str(self.number[int(v)]): title for v, title in value.items()}
        if isinstance(value, dict):
            return {str(key): self.like(entry, key) for key, entry in value.items()}
        if isinstance(value, list):
            return [self.like(entry, name) for entry in value]
        return self.number[value] if name in ("node", "leaf") else like(value)


def like(value):
    """A value as it is compared: numbers to five digits."""
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
        viewer = Viewer(StoreBackend(store))
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


def test_the_cuts_the_map_and_what_is_known_are_those_of_the_viewer(exported):
    for cut in ("auto", "cut:default", "layer:0", *(f"k:{k}" for k in (1, 2, 5, 20))):
        exported.assert_same_arrays(exported.ask("cut", {"cut": cut}), exported.viewer.cut(cut))
    assert like(exported.ask("layers")) == like(exported.viewer.layers())
    exported.assert_same_arrays(exported.ask("map", {}), exported.viewer.map())
    for what in ("label", "time", "fresh"):
        asked = {"what": what, "since": 1}
        exported.assert_same_arrays(exported.ask("points", asked), exported.viewer.points(**asked))
    for since in (0, 1, 2, 3):
        assert like(exported.ask("changes", {"since": since})) == exported.like(exported.viewer.changes(since))
    assert like(exported.ask("versions")) == like(exported.viewer.versions())
    assert exported.ask("locate", "p0005", 30) == exported.like(exported.viewer.locate("p0005", 30))
    about = exported.ask("about")
    assert (about["can_name"], about["can_place"]) == (False, False)


def test_pages_of_nodes_are_those_of_the_viewer(exported):
    for i in range(0, len(exported.nodes), 7):
        found, known = exported.ask("node", i, {"since": 1}), exported.viewer.node(exported.nodes[i], since=1)
        known.pop("key")
        if known["size"] == 1:
            known["keywords"] = []  # which are not shown of a point
        # Similarities are in eight bits, columns in tenths of a standard deviation.
        (ours, theirs), (own, other) = ((page.pop("columns"), page["nearest"]) for page in (found, known))
        assert [column["name"] for column in ours] == [column["name"] for column in own if abs(column["z"]) >= 0.05]
        for column, expected in zip(ours, own, strict=False):
            assert column == {**expected, "z": pytest.approx(expected["z"], abs=0.06), "mean": column["mean"]}
        for near, expected in zip(theirs, other, strict=True):
            assert near.pop("similarity") == pytest.approx(expected.pop("similarity"), abs=0.03)
        assert like(found) == exported.like(known)


def test_members_are_all_there_once(exported):
    v = exported.viewer.node(exported.viewer.about()["root"])["children"][0]["node"]
    leaves = sorted(exported.number[leaf] for leaf in exported.viewer.scene.leaves(v).tolist())
    for order in ("arrival", "newest", "central"):
        asked = [{"offset": at, "limit": 70, "order": order} for at in range(0, 300, 70)]
        members = [point for page in asked for point in exported.ask("members", exported.number[v], page)["members"]]
        assert sorted(point["leaf"] for point in members) == leaves
        known = exported.like(exported.viewer.members(v, 0, 6 if order == "central" else 70, order))["members"]
        assert like(members[: len(known)]) == known


@pytest.mark.parametrize("q", ["larger", "weather", "p0017", "lisbon", "(p0003)", "nothing like it", "cluster 1", "#2"])
def test_search_finds_what_the_viewer_finds(exported, q):
    found, known = exported.ask("search", q, {"limit": 20}), exported.like(exported.viewer.search(q, 20))
    of_page, of_viewer = ({(hit["kind"], hit["node"]) for hit in each["hits"]} for each in (found, known))
    assert of_page == of_viewer


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_images_are_inside(tmp_path, open_page):
    (tmp_path / "images").mkdir()
    for i in range(8):
        (tmp_path / "images" / f"{i}.png").write_bytes(PIXEL)
    payload = [{"image": "../secret.png"}, *({"image": f"{i}.png"} for i in range(1, 8))]
    (tmp_path / "secret.png").write_bytes(PIXEL)
    model = Grinch(n_clusters=2).fit(np.random.default_rng(0).normal(size=(8, 3)))
    viewer = Viewer(ModelBackend(model, payload=payload), images=tmp_path / "images")
    shown = Exported(viewer, written(viewer, tmp_path, open_page))
    members = shown.ask("members", 0, {"order": "arrival"})["members"]
    assert members[0]["image"] is None
    assert all(member["image"].startswith("data:image/png;base64,") for member in members[1:])


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
    asked = []
    # It serves images without https.
    with answering(lambda path: asked.append(path) or PIXEL) as address, ExitStack() as stack:
        places = [address, "https://images.example/"]
        payload = [{"text": f"point {i}", "image": f"{places[i % 2]}{i}.png"} for i in range(6)]
        viewer = viewer_on(np.random.default_rng(0).normal(size=(6, 3)), payload=payload)
        if kind == "served":
            url = stack.enter_context(serving_viewer(viewer))
        else:
            write_page(viewer, tmp_path / "page.html")
            url = (tmp_path / "page.html").as_uri()
        context = stack.enter_context(closing(chromium.new_context()))
        # The only https server there is, inside the browser.
        fetched = []

        def fulfill(route):
            fetched.append(route.request.url)
            route.fulfill(body=PIXEL, content_type="image/png")

        context.route("https://images.example/*", fulfill)
        shown = Shown(context.new_page()).open(url)
        shown.click(viewer.about()["root"] if kind == "served" else 0)
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
        assert written(Viewer(StoreBackend(store)), tmp_path, open_page).state["n"] == n


def written(viewer, folder, open_page):
    """The page of a viewer, opened from its file."""
    write_page(viewer, folder / "page.html")
    return open_page((folder / "page.html").as_uri())


def test_trees_of_other_programs(tmp_path, open_page):
    (tmp_path / "tree.nwk").write_text("((ape:1,bee:1):2,('a cat':2,dog:2):1);")
    assert written(Viewer(open_backend(tmp_path / "tree.nwk")), tmp_path, open_page).state["n"] == 4


def test_nothing_in_the_data_ends_a_script():
    payload = [f"</script><script>globalThis.broken = {i}</script><!--" for i in range(4)]
    page = page_of(viewer_on(np.eye(4), payload=payload))
    assert re.search(r'id="grinch-data">([^<]*)</script>', page)
    assert "broken" not in page


def test_too_many_points_are_refused(monkeypatch, viewer):
    monkeypatch.setattr("grinch.serve.export.MAX_POINTS", 100)
    with pytest.raises(ValueError, match=r"at most 100 points; there are 300"):
        page_of(viewer)
    assert MAX_POINTS == 50_000
