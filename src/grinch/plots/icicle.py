"""A whole tree at a glance, by the sizes of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._checks import check_count
from grinch.plots.commonest import Named, named
from grinch.plots.style import INK, PALER, hide_spines, new_axes, settle
from grinch.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT = 8
# A group thinner than this share of the points could not be seen.
THINNEST = 1 / 500


class Block(NamedTuple):
    """A group of points as drawn: its node, its row, where it starts, and its share of all points."""

    node: int
    row: int
    start: float
    width: float
    is_last: bool


def plot_icicle(
    tree: Tree,
    labels: Sequence[Any] | npt.NDArray[Any] | None = None,
    max_nodes: int = 60,
    ax: Axes | None = None,
    title: str = "",
) -> Axes:
    """Draw the largest groups of a tree as blocks, each as wide as its share of the points, under the group it is in.

    Only splits into two sizeable groups count: those whose smaller side is largest. Points that leave a group a few
    at a time are the gaps under it. So a tree of any depth and size makes a picture of few rows.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    labels : sequence, optional
        The class (or flat cluster) of each point: a block has the color of its commonest, paler the more it is mixed.
    max_nodes : int, default=60
        Draw at most this many blocks.
    ax : Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        A title; by default it says how many points there are.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> import matplotlib; matplotlib.use("Agg")
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [2.5], [9.0]]))
    >>> ax = plot_icicle(tree, ["a", "a", "a", "b"], max_nodes=3)
    >>> [(block.get_x(), block.get_width()) for block in ax.patches]
    [(0.0, 1.0), (0.0, 0.75), (0.75, 0.25)]
    """
    from matplotlib.patches import Rectangle

    if tree.n_leaves == 0:
        raise ValueError("tree must have at least one leaf; got an empty tree")
    check_count("max_nodes", max_nodes, 1)
    known = None if labels is None else named("labels", labels, tree.n_leaves)
    blocks = _blocks(tree, _splits(tree, max_nodes))
    rows = 1 + max(block.row for block in blocks)
    ax = ax or new_axes(10, min(1.2 + 0.55 * rows, 9))
    ax.set(xlim=(0, 1), ylim=(rows, 0), yticks=[])
    ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    ax.set_xlabel("share of the points (gaps: points that leave a group a few at a time)")
    mixed = "" if known is None else " (paler: more mixed)"
    ax.set_title(title or f"{tree.n_leaves:,} points, {len(blocks)} groups{mixed}", loc="left", fontsize=11)
    hide_spines(ax, ("top", "left", "right", "bottom"))
    settle(ax)
    faces, names = _faces(tree, blocks, known)
    for block, face, name in zip(blocks, faces, names, strict=True):
        # The last groups reach down to the bottom: that leaves room for their names.
        height = rows - block.row if block.is_last else 1
        ax.add_patch(
            Rectangle((block.start, block.row), block.width, height, facecolor=face, edgecolor="white", linewidth=0.8)
        )
        _write(ax, block, height, name, tree.size(block.node), face)
    return ax


def _splits(tree: Tree, max_nodes: int) -> set[int]:
    """The internal nodes whose smaller side is largest; every one of them adds two blocks."""
    internal = tree.internal_nodes()
    smaller = tree.sizes()[tree.child_pairs()[internal]].min(axis=1, initial=tree.n_leaves)
    order = np.argsort(-smaller, kind="stable")[: (max_nodes - 1) // 2]
    return set(internal[order[smaller[order] >= THINNEST * tree.n_leaves]].tolist())


def _blocks(tree: Tree, splits: set[int]) -> list[Block]:
    """The blocks, parents before children and larger children first."""
    sizes, n = tree.sizes(), tree.n_leaves
    waiting = [(tree.root, 0, 0)]
    blocks: list[Block] = []
    while waiting:
        node, row, start = waiting.pop()
        v = node
        # Go down the larger side until a split that counts; what leaves on the way is too small to draw.
        while not tree.is_leaf(v) and v not in splits:
            v = max(tree.children(v), key=tree.size)
        is_last = tree.is_leaf(v)
        if not is_last:
            big, small = sorted(tree.children(v), key=tree.size, reverse=True)
            waiting.append((small, row + 1, start + int(sizes[big])))
            waiting.append((big, row + 1, start))
        blocks.append(Block(node, row, start / n, int(sizes[node]) / n, is_last))
    return blocks


def _faces(tree: Tree, blocks: list[Block], known: Named | None) -> tuple[list[Any], list[str]]:
    """The color and the name of each block."""
    from matplotlib.colors import to_rgb

    if known is None:
        return ["#88AACC" if block.is_last else "#CCDDEE" for block in blocks], [""] * len(blocks)
    faces, names = [], []
    for block in blocks:
        counts = np.bincount(known.codes[tree.leaves(block.node)], minlength=len(known.names))
        code = int(counts.argmax())
        share = counts[code] / counts.sum()
        faces.append(tuple(share * np.array(to_rgb(known.color(code))) + (1 - share) * np.array(to_rgb(PALER))))
        # A block without a majority is known by its size alone.
        names.append(known.names[code] if share >= 0.5 else "")
    return faces, names


def _write(ax: Axes, block: Block, height: float, name: str, size: int, face: Any) -> None:
    """Name and size inside the block: across if there is room, upright if there is that way, otherwise nothing."""
    from matplotlib.colors import to_rgb

    lines = [name, f"({size:,})"] if name else [f"{size:,}"]
    em = FONT * ax.figure.dpi / 72
    wide, high = block.width * ax.bbox.width, height * ax.bbox.height / abs(np.diff(ax.get_ylim())[0])
    red, green, blue = to_rgb(face)
    ink = INK if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "white"
    for text, turned in (("\n".join(lines), 0), ("  ".join(lines), 0), ("  ".join(lines), 90)):
        rows = text.split("\n")
        need = 0.62 * em * max(map(len, rows)) + em, 1.25 * em * len(rows) + 0.3 * em
        if need[0] <= (high if turned else wide) and need[1] <= (wide if turned else high):
            middle = block.start + block.width / 2, block.row + height / 2
            ax.text(*middle, text, ha="center", va="center", rotation=turned, fontsize=FONT, color=ink, linespacing=1.1)
            return
