"""A browser for tests of the page, and a server for it to look at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np

import grinch
from grinch.serve.api.app import make_app
from grinch.serve.backend import StoreBackend
from grinch.serve.views.viewer import Viewer
from serving import running

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # So that the graphics card can be played by a program, which is not done of itself any more.
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
)
TOPICS = {
    "weather": "rain and wind over the sea tomorrow",
    "cooking": "boil the pasta and stir the sauce",
    "banking": "transfer money to my savings account",
    "travel": "book a flight to lisbon in may",
}


def find_browser() -> str | None:
    """Where a browser is installed, if there is one."""
    return os.environ.get("GRINCH_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


def some_points(n: int, start: int = 0) -> tuple[np.ndarray, list[str], list[dict]]:
    """Vectors around a few centres, their ids, and what is known of them."""
    rng = np.random.default_rng(start + 7)
    topics = list(TOPICS)
    centres = np.eye(len(topics), 12) * 4
    which = rng.integers(0, len(topics), n)
    rows = (centres[which] + rng.normal(size=(n, 12)) * 0.5).astype(np.float32)
    ids = [f"p{start + i:04d}" for i in range(n)]
    known = [{"text": f"{TOPICS[topics[k]]} ({i})", "label": topics[k]} for i, k in zip(ids, which, strict=True)]
    return rows, ids, known


def make_store(folder, n: int = 160) -> None:
    """A store of two versions."""
    with grinch.open(folder, linkage="average") as store:
        for start, stop in ((0, n - 40), (n - 40, n)):
            rows, ids, known = some_points(stop - start, start)
            store.insert(rows, ids=ids, payload=known)


@contextmanager
def serving(folder, port: int = 0, **options) -> Iterator[str]:
    """The page of a store that is open for reading; its address."""
    with (
        closing(Viewer(StoreBackend(grinch.open(folder, readonly=True)), **options)) as viewer,
        serving_viewer(viewer, port) as url,
    ):
        yield url


@contextmanager
def serving_viewer(viewer: Viewer, port: int = 0) -> Iterator[str]:
    with running(make_app(viewer), port) as found:
        yield f"http://127.0.0.1:{found}/"


class Shown:
    """A page in the browser, and what a user does with it."""

    def __init__(self, page):
        self.page = page
        self.problems: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(str(error)))

    def _said(self, said) -> None:
        # That a server is gone at the end of a test is the browser's complaint, not the page's.
        if said.type in ("error", "warning") and "ERR_CONNECTION_REFUSED" not in said.text:
            self.problems.append(said.text)

    def open(self, url: str, *, is_idle: bool = True) -> Shown:
        self.page.goto(url)
        self.page.wait_for_selector("html[data-ready]")
        return self.idle() if is_idle else self

    def idle(self) -> Shown:
        """Wait until nothing is on its way."""
        # What is evaluated has no time limit of its own.
        late = "new Promise((_, fail) => setTimeout(() => fail(new Error('never idle')), 30000))"
        self.page.evaluate(f"Promise.race([grinchPage.idle(), {late}])")
        return self

    def until(self, condition: str, seconds: float = 20, *, waits: bool = True) -> Shown:
        """Wait until something is true of the state ``s``, and, if it ``waits``, until nothing is on its way."""
        for _ in range(int(seconds * 20)):
            if self.page.evaluate(f"(() => {{ const s = grinchPage.state; return Boolean({condition}); }})()"):
                return self.idle() if waits else self
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never true: {condition}; {self.state}")

    @property
    def state(self) -> dict:
        return self.page.evaluate("grinchPage.state")

    def blocks(self) -> list[dict]:
        return self.page.evaluate("grinchPage.blocks()")

    def tops(self) -> list[dict]:
        """The clusters of the cut that are blocks, the largest first."""
        return sorted((block for block in self.blocks() if block["flags"] & 2), key=lambda block: -block["size"])

    def place_of(self, node: int) -> tuple[float, float]:
        at, box = self.page.evaluate("n => grinchPage.blockAt(n)", node), self.page.locator("#icicle").bounding_box()
        return box["x"] + at["x"], box["y"] + at["y"]

    def click(self, node: int) -> Shown:
        self.page.mouse.click(*self.place_of(node))
        return self.idle()

    def double_click(self, node: int) -> Shown:
        self.page.mouse.dblclick(*self.place_of(node))
        return self.idle()

    def on_map(self, point: int) -> tuple[float, float]:
        """The place of a point of the map on the screen."""
        at, box = self.page.evaluate("i => grinchPage.pointAt(i)", point), self.page.locator("#map").bounding_box()
        return box["x"] + at["x"], box["y"] + at["y"]

    def enter(self, selector: str, text: str) -> Shown:
        """Fill in a field, and press Enter."""
        self.page.fill(selector, text)
        return self.idle().press("Enter")

    def resize(self, width: int) -> Shown:
        self.page.set_viewport_size({"width": width, "height": 800})
        return self.idle()

    def press(self, *keys: str) -> Shown:
        for key in keys:
            self.page.keyboard.press(key)
            self.idle()
        return self

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def focused(self) -> str:
        return self.page.evaluate("document.activeElement.id")

    def is_wider_than_screen(self) -> bool:
        return self.page.evaluate("document.documentElement.scrollWidth > innerWidth")
