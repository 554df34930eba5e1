"""The page in a real browser."""

import re

import numpy as np
import pytest

import grinch
from serve.browser import serving, some_points

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def test_opening_and_zooming(shown):
    assert shown.text("#title") == "notes"
    assert shown.text("#subtitle") == "160 points · version 2"
    assert shown.page.title() == "notes · grinch"
    assert shown.state["blocks"] > 20
    assert shown.state["map"] == "2|neighbors"
    assert shown.text("#crumbs").split() == ["all", "points", "160"]
    assert not shown.is_wider_than_screen()
    shown.page.wait_for_selector("#cuts >> text=Layers")
    top = shown.tops()[0]
    shown.double_click(top["node"])
    assert shown.state["view"] == pytest.approx({"x0": top["start"], "x1": top["start"] + top["size"]})
    assert shown.page.locator(".crumb").count() > 1
    shown.press("Escape")
    assert shown.state["view"]["x1"] - shown.state["view"]["x0"] > top["size"]
    shown.page.locator(".crumb").first.click()
    assert shown.idle().state["view"] == {"x0": 0, "x1": 160}


def test_the_wheel_zooms_around_the_mouse(shown):
    box = shown.page.locator("#icicle").bounding_box()
    shown.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 60)
    for _ in range(5):
        shown.page.mouse.wheel(0, -300)
    view = shown.idle().state["view"]
    assert view["x1"] - view["x0"] < 40
    assert view["x0"] + (view["x1"] - view["x0"]) / 4 == pytest.approx(40, abs=0.5)
    leaves = [block for block in shown.blocks() if block["size"] == 1]
    assert leaves
    assert all(re.search(r"\(p\d+\)$", leaf["title"]) for leaf in leaves if leaf["title"])
    # Drag by a quarter of the width: what was a quarter to the left is there now.
    shown.page.mouse.down()
    shown.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60, steps=4)
    shown.page.mouse.up()
    assert shown.idle().state["view"]["x0"] == pytest.approx(view["x0"] - (view["x1"] - view["x0"]) / 4, rel=0.05)


def test_cutting(shown):
    shown.enter("#count", "7")
    assert shown.state["cut"] == "k:7"
    tops = shown.tops()
    assert len(tops) == 7
    shown.page.click("#tab-clusters")
    assert shown.idle().page.locator(".cluster").count() == 7
    assert [int(text) for text in shown.page.locator(".cluster .note").all_inner_texts()] == [
        top["size"] for top in tops
    ]
    shown.page.focus("#slider")
    shown.press("ArrowRight", "ArrowRight", "PageUp")
    assert int(shown.state["cut"][2:]) > 7
    shown.page.click("#cuts >> text=automatic cut")
    assert shown.idle().state["cut"] == "cut:default"


def test_searching(shown):
    shown.press("/")
    shown.page.keyboard.type("lisbon")
    shown.idle()
    hits = shown.page.locator("#hits .hit")
    assert hits.count() > 1
    shown.press("ArrowDown", "ArrowUp", "Enter")
    assert shown.focused() == "icicle"
    assert "lisbon" in shown.page.locator("#panel-node").inner_text()
    assert shown.page.locator("#hits").is_hidden()
    shown.enter("#query", "p0042")
    assert shown.state["selection"]["size"] == 1
    assert "(p0042)" in shown.text("#panel-node h2")
    shown.page.fill("#query", "no such thing")
    assert "Nothing found" in shown.idle().text("#hits")


def test_a_name_stays_after_a_restart(own_store, open_page):
    with serving(own_store) as address:
        shown = open_page(address)
        top = shown.tops()[0]
        shown.click(top["node"])
        shown.page.click("#rename")
        shown.page.keyboard.type("Things of interest")
        shown.press("Enter")
        assert shown.text("#panel-node h2") == "Things of interest"
        shown.page.goto("about:blank")
    with serving(own_store) as address:
        shown.open(address)
        named = [block for block in shown.blocks() if block["flags"] & 8]
        assert [(block["title"], block["size"]) for block in named] == [("Things of interest", top["size"])]
        shown.enter("#query", "things of")
        assert shown.text("#panel-node h2") == "Things of interest"


def test_points_of_another_writer_appear_and_glow(own_store, open_page):
    rows, ids, known = some_points(7, 500)
    with serving(own_store) as address:
        shown = open_page(address)
        shown.click(shown.tops()[0]["node"])
        selected = shown.state["selection"]
        with grinch.open(own_store) as store:
            store.insert(rows, ids=ids, payload=known)
        shown.until("s.version === 3")
        assert shown.state["n"] == 167
        assert shown.state["since"] == 2
        assert shown.blocks()[0]["fresh"] == 7
        assert shown.text("#badge") == "7"
        # What was selected still is, although nodes have other numbers now.
        assert abs(shown.state["selection"]["size"] - selected["size"]) <= 7
        shown.page.click("#tab-changes")
        assert "7 new points" in shown.text("#panel-changes")
        # Nothing that is news: clusters that grew a little are counted.
        assert " grew" in shown.text("#panel-changes")


def test_dark_and_light_and_colors(shown):
    ground = "getComputedStyle(document.body).backgroundColor"
    shown.page.emulate_media(color_scheme="dark")
    dark = shown.page.evaluate(ground)
    shown.page.click("#theme")
    light = shown.page.evaluate(ground)
    assert (dark, light) == ("rgb(14, 16, 18)", "rgb(246, 246, 243)")
    shown.page.reload()
    shown.page.wait_for_selector("html[data-ready]")
    assert shown.idle().page.evaluate(ground) == light
    legends = {"label": "cooking", "purity": "of one label", "time": "20", "fresh": "average (25 %)"}
    for color, legend in (legends | {"cluster": "above the cut"}).items():
        shown.page.select_option("#color", color)
        assert shown.idle().state["color"] == color
        assert legend in shown.text("#legend")


def test_keys(shown):
    shown.page.focus("#icicle")
    shown.press("ArrowDown")
    root = shown.state["selection"]
    assert root["size"] == 160
    shown.press("ArrowDown")
    child = shown.state["selection"]
    assert child["size"] < 160
    shown.press("ArrowRight")
    assert shown.state["selection"]["start"] >= child["start"] + child["size"]
    shown.press("Enter")
    view, beside = shown.state["view"], shown.state["selection"]
    assert view["x0"] <= beside["start"] < view["x1"] < 161
    assert str(beside["size"]) in shown.page.inner_text("#said")
    shown.press("Home")
    assert shown.state["selection"] is None
    shown.press("ArrowUp")
    assert shown.state["selection"]["node"] == root["node"]
    assert shown.state["view"] == {"x0": 0, "x1": 160}
    shown.press("?")
    assert shown.page.locator("#help").is_visible()
    shown.press("Escape")
    assert shown.page.locator("#help").is_hidden()
    before = shown.page.locator("#count").input_value()
    shown.press("]")
    assert int(shown.page.locator("#count").input_value()) > int(before)
    shown.press("m")
    assert shown.page.locator("#map-pane").is_hidden()


@pytest.mark.parametrize("renderer", ["webgl", "density"])
def test_the_map_is_drawn(url, shown, renderer):
    shown.page.evaluate(f"localStorage.setItem('grinch.renderer', '{renderer}')")
    shown.open(url)
    assert shown.state["renderer"] == renderer
    colors = shown.page.evaluate(
        """() => {
          const map = document.getElementById("map"), copy = document.createElement("canvas");
          Object.assign(copy, {width: map.width, height: map.height});
          const ctx = copy.getContext("2d");
          ctx.drawImage(map, 0, 0);
          const {data} = ctx.getImageData(0, 0, map.width, map.height), at = grinchPage.pointAt(3);
          const i = 4 * (Math.round(at.y) * map.width + Math.round(at.x));
          let drawn = 0;
          for (let k = 3; k < data.length; k += 4) drawn += data[k] > 0;
          return {drawn, point: data[i + 3]};
        }"""
    )
    assert colors["point"] > 100
    assert 160 < colors["drawn"] < 160 * 200
    # A click selects.
    shown.page.mouse.click(*shown.on_map(5))
    shown.idle()
    assert shown.state["selection"]["size"] == 1
    assert abs(shown.state["hover"]["start"] - shown.state["selection"]["start"]) < 1
    assert "The point" in shown.text("#panel-node")


def test_small_screens(shown):
    """Nothing scrolls sideways, and a tap leads to details."""
    shown.resize(390)
    top = shown.tops()[0]
    shown.click(top["node"]).page.wait_for_selector("#peek:visible")
    assert shown.text("#peek-title") == shown.state["page"]["title"]
    shown.page.click("#peek-open")
    shown.page.wait_for_selector("#peek", state="hidden")
    assert 0 <= shown.page.locator("#panel-node h2").bounding_box()["y"] < 400
    for width in (390, 1024, 1280):
        shown.page.set_viewport_size({"width": width, "height": 800})
        for tab in ("node", "clusters", "changes"):
            shown.page.click(f"#tab-{tab}")
            assert not shown.idle().is_wider_than_screen(), (width, tab)


@pytest.mark.slow
def test_an_empty_store_fills(tmp_path, open_page):
    with grinch.open(tmp_path / "new", linkage="average"):
        pass
    with serving(tmp_path / "new") as address:
        shown = open_page(address)
        assert "No points yet" in shown.text("#empty")
        with grinch.open(tmp_path / "new") as store:
            rows, ids, known = some_points(30)
            store.insert(rows, ids=ids, payload=known)
        shown.until("s.n === 30 && s.blocks > 5")
        assert shown.page.locator("#empty").is_hidden()


def test_what_is_known_of_points_is_never_html(tmp_path, open_page):
    rows, _, _ = some_points(20)
    with grinch.open(tmp_path / "hostile", linkage="average") as store:
        ids = [f"{HOSTILE}{i}" for i in range(20)]
        known = [{"text": f"{HOSTILE} {i}", "label": HOSTILE, HOSTILE: i} for i in range(20)]
        store.insert(rows, ids=ids, payload=known)
    with serving(tmp_path / "hostile") as address:
        shown = open_page(address)
        shown.click(shown.blocks()[0]["node"])
        shown.page.click("#rename")
        shown.page.keyboard.type(HOSTILE)
        shown.press("Enter")
        assert shown.text("#panel-node h2") == HOSTILE
        shown.page.fill("#query", "onerror")
        shown.idle()
        assert HOSTILE in shown.page.locator("#hits .hit").first.inner_text()
        shown.page.keyboard.press("Escape")
        shown.page.locator("details summary").first.click()
        shown.page.select_option("#color", "label")
        shown.page.mouse.move(*shown.on_map(5))
        shown.page.wait_for_timeout(200)
        assert HOSTILE[:20] in shown.idle().text("#tip")
        assert shown.page.locator("main img, main script, #tip img").count() == 0
        assert shown.page.title() == "hostile · grinch"


@pytest.mark.slow
def test_the_address_leads_back(url, open_page):
    shown = open_page(url)
    shown.enter("#count", "6")
    shown.page.select_option("#color", "label")
    top = shown.idle().tops()[1]
    shown.double_click(top["node"]).click(top["node"])
    before = shown.idle().state
    shown.page.wait_for_url(re.compile(r"x=.*id="))
    assert "token" not in shown.page.url
    again = open_page(shown.page.url).state
    for what in ("cut", "color", "version"):
        assert again[what] == before[what]
    assert again["selection"]["node"] == before["selection"]["node"] == top["node"]
    assert again["view"] == pytest.approx(before["view"], abs=0.01)


def test_where_a_point_would_go(shown):
    def place(field, given):
        shown.page.fill(field, given)
        shown.page.click("#placing button[type=submit]")
        return shown.idle()

    shown.resize(390)
    shown.page.click("#placing-open")
    assert "point itself" in place("#like", "p0003").text("#placing")
    assert "p0003" in shown.text("#placing .point")
    # A long text fits into the dialog.
    shown.page.evaluate(
        """() => document.querySelectorAll("#placing .name, #placing p").forEach((part) => {
          part.textContent = "a long text ".repeat(30) + "x".repeat(300);
        })"""
    )
    for width in (390, 1280):
        shown.page.set_viewport_size({"width": width, "height": 800})
        assert shown.page.locator("#placing").evaluate("dialog => dialog.scrollWidth <= dialog.clientWidth"), width
    assert "Into" in place("#vector", np.array2string(np.eye(12)[0] * 4, separator=",")).text("#placing .answer")
    assert "Give numbers" in place("#vector", "one, two").text("#placing .problem")


def test_changes_are_since_the_version_before(shown):
    shown.page.click("#tab-changes")
    assert shown.idle().state["since"] == 1
    assert "the previous version" in shown.text("#panel-changes output")
    assert "40 new points" in shown.text("#panel-changes")
    shown.page.focus("#since")
    shown.press("ArrowLeft", "ArrowLeft")
    assert (shown.focused(), shown.state["since"]) == ("since", 0)
    assert "160 new points" in shown.text("#panel-changes")
    shown.press("ArrowRight")
    assert (shown.focused(), shown.state["since"]) == ("since", 1)


def test_all_that_is_new_glows_on_the_map_and_numbers_are_readable(shown):
    found = shown.page.evaluate(
        """async () => {
          const { GLOW, pointColors } = await import("grinch/mapcolors");
          const { evenly, places } = await import("grinch/maplabels");
          const fresh = Uint16Array.from({ length: 50_000 }, (_, i) => i % 2), all = places(fresh);
          const glowing = pointColors("cluster", fresh.length, null, null, fresh).filter((color) => color === GLOW);
          return { glowing: glowing.length, all: all.length, some: evenly(all, 5) };
        }"""
    )
    assert found == {"glowing": 25_000, "all": 25_000, "some": [1, 10_001, 20_001, 30_001, 40_001]}
    given = [0, -2.5, 0.12345, 1234.5, 4.49e6, -1.5e-6, 2.5e20, None]
    made = shown.page.evaluate("async given => given.map((await import('grinch/format')).real)", given)
    assert made == ["0", "−2.5", "0.123", "1,230", "4.49 million", "−1.5×10⁻⁶", "2.5×10²⁰", "–"]


def test_a_server_that_goes_and_comes_back(own_store, open_page):
    with serving(own_store) as address:
        shown = open_page(address)
        shown.click(shown.tops()[0]["node"])
        title = shown.text("#panel-node h2")
    # Nobody does anything, and it is said all the same.
    shown.page.wait_for_selector("#banner:visible")
    shown.page.fill("#count", "3")
    shown.page.keyboard.press("Enter")
    assert shown.text("#panel-node h2") == title
    assert "does not answer" in shown.text("#banner")
    assert shown.state["blocks"] > 5
    with serving(own_store, port=int(address.rsplit(":", 1)[1].strip("/"))):
        shown.until("s.isOnline")
        assert shown.page.locator("#banner").is_hidden()
        shown.until("s.steady.includes('k:3')")
        shown.page.close()
    # The browser itself says that nobody answered; the page says nothing.
    assert all("Failed to load resource" in problem for problem in shown.problems)
    shown.problems.clear()
