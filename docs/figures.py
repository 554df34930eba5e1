"""The pictures of the pages, drawn by the code as it is now.

    python docs/figures.py [digits | dendrogram | icicle | ...]     (or: make docs-figures)

In docs/images, digits.png, dendrogram.png and icicle.png are trees fitted on the spot; docstrings.png shows those of
the packages that are installed; frontier.png shows benchmarks/frontier.json; clusters.png needs clinc150
(docs/datasets.md) and its sentences in GRINCH_DATA. The pictures of the explorer are what it opens with, in a Chromium
that Playwright finds; of a million points that takes some minutes. What cannot be drawn stays as it is.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from sklearn.datasets import load_digits

import grinch
from grinch import HAC, Grinch, Tree
from grinch.datasets.docstrings import load_docstrings
from grinch.metrics import dendrogram_purity
from grinch.plots import plot_clusters, plot_dendrogram, plot_icicle
from grinch.plots.style import GREY, INK, PALE, PALETTE
from grinch.text import TextVectors

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
SIDE = 8
# The last two of the palette are too pale for an image.
COLORS = (*PALETTE[:8], "#DD7711", "#885522")
# A group with fewer images than this is left out of the picture; it joins the next larger group.
SMALLEST = 45


@dataclass(frozen=True)
class Group:
    """A group that is drawn: a node of the tree, where it is in the picture, and the groups it splits into."""

    node: int
    x: float
    row: int
    parts: tuple[Group, ...]


def large_groups(tree: Tree, smallest: int) -> Group:
    """The tree with only those splits whose two sides both have at least ``smallest`` leaves."""
    waiting: list[tuple[int, int, bool]] = [(tree.root, 0, False)]
    done: list[Group] = []
    columns = 0
    while waiting:
        node, row, is_open = waiting.pop()
        sides = split(tree, node, smallest)
        if not sides:
            done.append(Group(node, float(columns), row, ()))
            columns += 1
        elif is_open:
            right, left = done.pop(), done.pop()
            done.append(Group(node, (left.x + right.x) / 2, row, (left, right)))
        else:
            waiting += [(node, row, True), (sides[1], row + 1, False), (sides[0], row + 1, False)]
    return done[0]


def split(tree: Tree, node: int, smallest: int) -> tuple[int, int] | None:
    """The two sides of the first split below this node that leaves enough on both, the larger first."""
    while not tree.is_leaf(node):
        sides = sorted(tree.children(node), key=lambda v: -tree.size(v))
        if tree.size(sides[1]) >= smallest:
            return sides[0], sides[1]
        node = sides[0]
    return None


def draw_digits(path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    tree = Grinch(metric="cosine").fit(X).tree_
    purity, hac = (dendrogram_purity(t, y) for t in (tree, HAC(linkage="average", metric="cosine").fit(X).tree_))
    top = large_groups(tree, SMALLEST)
    groups = flat(top)
    columns, rows = 1 + max(g.x for g in groups), 1 + max(g.row for g in groups)
    figure, ax = plt.subplots(figsize=(0.56 * columns, 0.56 * rows + 1.1), layout="constrained")
    ax.set(xlim=(-0.6, columns - 0.4), ylim=(rows + 0.05, -0.55), aspect="auto")
    ax.axis("off")
    ax.set_title(f"{len(y):,} handwritten digits, inserted one by one: the top of the tree\n", loc="left", fontsize=13)
    ax.text(
        0,
        1.005,
        f"Squares are mean images of groups, coloured by digit; below, their size and the share of that digit."
        f" Dendrogram purity {purity:.2f} (HAC: {hac:.2f}).",
        transform=ax.transAxes,
        fontsize=10,
        color=GREY,
    )
    for group in groups:
        for part in group.parts:
            bottom = part.row if part.parts else rows - 1
            ax.plot([group.x, part.x, part.x], [group.row, group.row, bottom], color=PALE, linewidth=1.8, zorder=1)
    for group in groups:
        draw_group(ax, group, tree, X, y, rows - 1)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def flat(top: Group) -> list[Group]:
    found = [top]
    for group in found:
        found.extend(group.parts)
    return found


def draw_group(ax: Axes, group: Group, tree: Tree, X: Any, y: Any, last_row: int) -> None:
    leaves = tree.leaves(group.node)
    counts = np.bincount(y[leaves])
    digit, share = int(counts.argmax()), counts.max() / len(leaves)
    color = COLORS[digit] if share > 0.6 else GREY
    row = group.row if group.parts else last_row
    ink = LinearSegmentedColormap.from_list("", ["white", color])
    half, tall = 0.37, 0.37
    box = (group.x - half, group.x + half, row + tall, row - tall)
    ax.imshow(X[leaves].mean(axis=0).reshape(SIDE, SIDE), cmap=ink, extent=box, aspect="auto", zorder=2)
    ax.add_patch(plt.Rectangle((box[0], box[3]), 2 * half, 2 * tall, fill=False, edgecolor=color, zorder=3))
    if not group.parts:
        ax.text(
            group.x, row + 0.46, f"{len(leaves)}\n{100 * share:.0f} %", ha="center", va="top", fontsize=8, color=INK
        )


def draw_dendrogram(path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    model = Grinch(metric="cosine").fit(X)
    names = [f"digit {digit}" for digit in y]
    ax = plot_dendrogram(model.tree_, names, n_clusters=30, clusters=model.labels_, vectors=X)
    ax.figure.savefig(path, dpi=100)


def draw_icicle(path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    model = Grinch(metric="cosine").fit(X)
    ax = plot_icicle(model.tree_, [f"digit {digit}" for digit in y], max_nodes=50, clusters=model.labels_)
    ax.figure.savefig(path, dpi=100)


def draw_frontier(path: Path) -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import frontier

    frontier.draw(json.loads((ROOT / "benchmarks" / "frontier.json").read_text()), path)


def draw_clusters(path: Path) -> None:
    """Sentences by their keywords."""
    found = data("clinc150_text.tsv.gz", path)
    if not found:
        return
    X, texts = intents(found[0])
    model = Grinch("ward", n_clusters=24).fit(X[:8000])
    ax = plot_clusters(model.cluster_tree(texts[:8000]))
    ax.figure.savefig(path, dpi=110)


def intents(path: Path) -> tuple[Any, list[str]]:
    """The vectors and the sentences of CLINC150 that have an intent, in random order."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    X = np.load(path.parent / "clinc150_minilm384.npz")["X"].astype(np.float32)
    order = np.random.default_rng(0).permutation([i for i, line in enumerate(lines) if line[1] != "oos"])
    return X[order], [lines[i][2] for i in order]


def data(name: str, path: Path) -> list[Path]:
    """A file in GRINCH_DATA; if there is none, say that a picture stays as it is."""
    found = sorted(Path(os.environ.get("GRINCH_DATA", ".")).glob(f"**/{name}"))
    if not found:
        print(f"{path.name} stays as it is: {name} is not in GRINCH_DATA")
    return found


def draw_explorer(path: Path) -> None:
    if found := data("clinc150_text.tsv.gz", path):
        X, texts = intents(found[0])
        screen(path, Grinch().fit(X), texts=texts)


def draw_explorer_digits(path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    screen(path, Grinch().fit(X), labels=y)


def draw_explorer_images(path: Path) -> None:
    if found := data("tiny_imagenet50k_efflite0_pca128.npz", path):
        loaded = np.load(found[0])
        rows = np.random.default_rng(0).permutation(len(loaded["X"]))[:20_000]
        screen(path, Grinch().fit(loaded["X"][rows].astype(np.float32)), labels=loaded["y"][rows])


def draw_explorer_million(path: Path) -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from explorer import made_model

    with tempfile.TemporaryDirectory() as folder:
        screen(path, grinch.load(made_model(Path(folder) / "mixture.grinch", 1_000_000, 16)))


def screen(path: Path, model: Any, **known: Any) -> None:
    """What the explorer of a model opens with."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from playwright.sync_api import sync_playwright

    from explorer import FLAGS

    with model.explore(**known) as explorer, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 720}, reduced_motion="reduce")
        page.goto(explorer.url)
        page.wait_for_selector("html[data-ready]")
        for state in ("hasWords", "map", "works.length === 0"):
            # The policy of the page forbids Playwright's own way of waiting.
            while not page.evaluate(f"Boolean(grinchPage.state.{state})"):
                page.wait_for_timeout(200)
        page.evaluate("grinchPage.idle()")
        page.screenshot(path=path)
        browser.close()


def draw_docstrings(path: Path) -> None:
    """What the packages that are installed say of themselves: the picture of grinch demo --text."""
    found = load_docstrings()
    order = np.random.default_rng(0).permutation(len(found.texts)).tolist()
    texts, packages = ([column[i] for i in order] for column in (found.texts, found.packages))
    X = TextVectors().fit_transform(texts)
    tree = Grinch(metric="cosine").fit(X).tree_
    title = f"{len(texts):,} docstrings of {len(set(packages))} packages: the main branches of their tree"
    ax = plot_dendrogram(tree, packages, n_clusters=42, texts=texts, vectors=X, title=title)
    ax.figure.savefig(path, dpi=110)


FIGURES = {
    "digits": draw_digits,
    "dendrogram": draw_dendrogram,
    "icicle": draw_icicle,
    "frontier": draw_frontier,
    "clusters": draw_clusters,
    "docstrings": draw_docstrings,
    "explorer": draw_explorer,
    "explorer-digits": draw_explorer_digits,
    "explorer-images": draw_explorer_images,
    "explorer-million": draw_explorer_million,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or FIGURES:
        FIGURES[name](IMAGES / f"{name}.png")
