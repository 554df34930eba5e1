"""A whole tree at a glance, by the sizes of its groups."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grinch._checks import check_count
from grinch._types import Labels
from grinch.plots import groups, style
from grinch.plots.colors import COLORS, label_colors
from grinch.plots.groups import GivenLabels, LabelGroups, Naming
from grinch.plots.style import AS_IT_IS, INK, PALER
from grinch.tree import Tree
from grinch.tree.blocks import Blocks, Display, blocks, display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT = 8.0
# Inches of a row, and rows by which the last groups are longer: that is where most names are.
ROW, EXTRA_ROWS = 0.36, 3.0
MAX_ROWS = 64
# The width of a letter and the height of a line, in ems, with a little to spare.
LETTER_WIDTH, LINE_HEIGHT = 1.08 * style.LETTER, 1.25
# Fewer letters of a name say nothing.
MIN_LETTERS = 7


class Block(NamedTuple):
    """A group of points as drawn: its node, its row and how many it has, where it starts, its share of all points."""

    node: int
    row: int
    n_rows: float
    start: float
    width: float
    is_last: bool


def plot_icicle(
    tree: Tree,
    labels: GivenLabels | None = None,
    max_nodes: int = 60,
    ax: Axes | None = None,
    title: str = "",
    clusters: GivenLabels | None = None,
    names: Mapping[Any, str] | None = None,
    texts: Sequence[str | None] | None = None,
) -> Axes:
    """Draw the largest groups of a tree as blocks, each as wide as its share of the points, under the group it is in.

    Only splits into sizeable groups count. Smaller groups and single points that leave a group are the gaps under it.
    So a tree of any depth and size makes a picture of few rows, as ``grinch explore`` shows it.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    labels : sequence, optional
        The class of each point: a block is named after its commonest class and has its color, paler the more it is
        mixed.
    max_nodes : int, default=60
        Draw at most this many blocks.
    ax : Axes, optional
        The axes to draw on; a new figure by default.
    title : str, optional
        A title; by default the number of points.
    clusters : sequence, optional
        A flat clustering of the points, such as ``labels_``: it colors the blocks instead of ``labels``, and its
        clusters are outlined. -1 is for points that belong nowhere. The lowest blocks of several clusters are
        colored by their place in the tree, as they all are without ``clusters`` and ``labels``.
    names : dict, optional
        Names of clusters, by their number in ``clusters``.
    texts : sequence of str, optional
        A text for each point: blocks without a name or label are named after their keywords.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> import matplotlib; matplotlib.use("Agg")
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [2.5], [9.0]]))
    >>> ax = plot_icicle(tree, ["a", "a", "a", "b"], max_nodes=3)
    >>> [(block.get_x(), block.get_width()) for block in ax.patches]
    [(0.0, 1.0), (0.0, 0.75), (0.75, 0.25)]
    """
    if tree.n_leaves == 0:
        raise ValueError("tree must have at least one leaf; got an empty tree")
    check_count("max_nodes", max_nodes, 1)
    shown = display(tree)
    classes = groups.group_labels("labels", labels, tree, shown)
    cut = groups.group_labels("clusters", clusters, tree, shown)
    naming = Naming(tree, shown, classes, cut, names, texts, min_label_share=groups.MOST)
    tops = np.empty(0, np.int64) if cut is None else groups.whole_nodes(tree, cut)
    found = _placed(tree, shown, _largest(tree, shown, tops, max_nodes))
    rows = max(block.row + block.n_rows for block in found)
    ax = ax or style.new_axes(10, 0.95 + ROW * rows)
    ax.set(xlim=(0, 1), ylim=(rows, 0), yticks=[])
    ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    ax.tick_params(axis="x", labelsize=FONT)
    codes = [-1 if cut is None else cut.code(block.node, groups.NEARLY_ALL) for block in found]
    faces = _faces(tree, shown, found, codes, cut, classes)
    outlined = [] if cut is None else _outlined(found, codes, cut)
    style.settle(ax)
    legend = _legend(found, bool(outlined), classes is not None and cut is None)
    ax.set_xlabel(style.wrapped(legend, ax, FONT), fontsize=FONT, **AS_IT_IS)
    style.set_title(ax, title or groups.default_title(tree, cut, len(found), "groups"), color=INK)
    style.hide_spines(ax, ("top", "left", "right", "bottom"))
    style.settle(ax)
    _draw(ax, found, faces, outlined, rows)
    for block, face, name in zip(found, faces, _names(found, naming), strict=True):
        _write(ax, block, name, tree.size(block.node), face)
    return ax


# What is drawn ------------------------------------------------------------------------------------------------------


def _largest(tree: Tree, shown: Display, tops: Labels, max_nodes: int) -> Blocks:
    """Return as many blocks as may be: those of the smallest least size that gives few enough, or of fewer rows."""
    is_kept = np.zeros(tree.n_ids, np.bool_)
    is_kept[tops[tops >= 0]] = True

    def found(min_size: int, rows: int = MAX_ROWS) -> Blocks:
        return blocks(tree, shown.starts, 0, tree.n_leaves, min_size, is_kept, rows)

    low, high = groups.default_size(tree.n_leaves), tree.n_leaves + 1
    if len(found(low).nodes) <= max_nodes:
        return found(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if len(found(middle).nodes) <= max_nodes else (middle, high)
    # Where many groups are of one size, the next smaller one gives far too many; its upper rows may be more than these.
    per_row = np.cumsum(np.bincount(found(low).rows))
    upper = found(low, int((per_row <= max_nodes).sum()))
    return max(found(high), upper, key=lambda some: len(some.nodes))


def _placed(tree: Tree, shown: Display, found: Blocks) -> list[Block]:
    """Return blocks with their places; the last ones reach down to the bottom."""
    n, rows = tree.n_leaves, int(found.rows.max()) + 1
    is_last = np.ones(len(found.nodes), np.bool_)
    is_last[found.parents[1:]] = False
    starts, sizes = shown.starts[found.nodes] / n, tree.sizes()[found.nodes] / n
    heights = np.where(is_last, rows - found.rows + EXTRA_ROWS, 1.0)
    columns = (found.nodes, found.rows, heights, starts, sizes, is_last)
    return [Block(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]


def _faces(
    tree: Tree,
    shown: Display,
    found: list[Block],
    codes: list[int],
    cut: LabelGroups | None,
    classes: LabelGroups | None,
) -> list[Any]:
    """Return the color of each block, of its cluster, its label or its place."""
    if cut is None and classes is not None:
        numbers = label_colors(classes.codes, shown.order, len(classes.names)).tolist()
        return [_by_label(classes, block.node, numbers) for block in found]
    order = sorted(range(len(found)), key=lambda i: (found[i].start, found[i].row))
    drawn = [i for i in order if codes[i] >= 0 or found[i].is_last]
    colors = groups.place_colors(tree, shown, cut, [(codes[i], found[i].node) for i in drawn])
    known = dict(zip(drawn, colors, strict=True))
    return [known.get(i, PALER) for i in range(len(found))]


def _outlined(found: list[Block], codes: list[int], cut: LabelGroups) -> list[Block]:
    """Return for each cluster the largest block in its color, if that has nearly all of it."""
    largest: dict[int, Block] = {}
    for block, code in sorted(zip(found, codes, strict=True), key=lambda pair: -pair[0].width):
        largest.setdefault(code, block)
    total = np.bincount(cut.codes[cut.codes >= 0], minlength=len(cut.names))
    return [
        block
        for code, block in largest.items()
        if code >= 0 and cut.counts[block.node] >= groups.NEARLY_ALL * total[code]
    ]


def _by_label(classes: LabelGroups, node: int, numbers: list[int]) -> Any:
    code = classes.code(node)
    return PALER if code < 0 else style.mixed_with(COLORS[numbers[code]], PALER, classes.share(node))


def _draw(ax: Axes, found: list[Block], faces: list[Any], outlined: list[Block], rows: float) -> None:
    """Draw all blocks, and outlines of some with all that is in them."""
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Rectangle

    for block, face in zip(found, faces, strict=True):
        corner = (block.start, block.row)
        ax.add_patch(Rectangle(corner, block.width, block.n_rows, facecolor=face, edgecolor="white", linewidth=0.8))
    corners = [(b.start, b.row, b.start + b.width) for b in outlined]
    boxes = [[(left, top), (right, top), (right, rows), (left, rows)] for left, top, right in corners]
    ax.add_collection(PolyCollection(boxes, facecolors="none", edgecolors=INK, linewidths=1.2), autolim=False)


# Words --------------------------------------------------------------------------------------------------------------


def _names(found: list[Block], naming: Naming) -> list[str]:
    """Return a name for each block, row by row: blocks of a row have no points in common."""
    names = [""] * len(found)
    for row in {block.row for block in found}:
        places = [i for i, block in enumerate(found) if block.row == row]
        for i, name in zip(places, naming([found[i].node for i in places]), strict=True):
            names[i] = name
    return names


def _legend(found: list[Block], has_outlines: bool, is_paler: bool) -> str:
    """Return the meaning of what can be seen."""
    signs = {
        "gaps: single points and groups too small to draw": sum(b.width for b in found if b.is_last) < 1 - 1e-9,
        "outlined: the clusters": has_outlines,
        "paler: more mixed": is_paler,
    }
    said = "; ".join(sign for sign, is_seen in signs.items() if is_seen)
    return "share of the points" + (f" ({said})" if said else "")


def _write(ax: Axes, block: Block, name: str, size: int, face: Any) -> None:
    """Write name and size inside the block: across if there is room, else upright, else not at all."""
    em = style.em(ax, FONT)
    wide = block.width * ax.bbox.width - 0.25 * em
    high = block.n_rows * ax.bbox.height / abs(np.diff(ax.get_ylim())[0]) - 0.25 * em
    text, turned = _fitting(name, f"{size:,}", wide / em, high / em)
    if text:
        x, y = block.start + block.width / 2, block.row + block.n_rows / 2
        look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": FONT, "linespacing": 1.1}
        ax.text(x, y, text, rotation=turned, color=style.ink_on(face), **look, **AS_IT_IS)


def _fitting(name: str, size: str, wide: float, high: float) -> tuple[str, int]:
    r"""Return what fits into a block of a width and a height, in ems, and its rotation.

    >>> _fitting("cats", "12", 6, 3), _fitting("cats", "12", 1.5, 7), _fitting("cats", "12", 1.5, 1)
    (('cats\n(12)', 0), ('cats  (12)', 90), ('', 0))
    >>> _fitting("cats and dogs", "12", 4, 5), _fitting("cats and dogs", "12", 1.5, 6)
    (('cats\nand\ndogs\n(12)', 0), ('cats and…', 90))
    """
    for turned, across, along in ((0, wide, high), (90, high, wide)):
        for text in _ways(name, size, int(across / LETTER_WIDTH)):
            lines = text.split("\n")
            if LETTER_WIDTH * max(map(len, lines)) <= across and LINE_HEIGHT * len(lines) <= along:
                return text, turned
    # Nothing fits as a whole: the direction that shows more of the name.
    across, along, turned = max((wide, high, 0), (high, wide, 90))
    letters = int(across / LETTER_WIDTH)
    has_room = name and letters >= MIN_LETTERS and along >= LINE_HEIGHT
    return (style.shortened(name, letters), turned) if has_room else ("", 0)


def _ways(name: str, size: str, letters: int) -> list[str]:
    """Return ways to write a name and a size, the best first."""
    if not name:
        return [size]
    wrapped = "\n".join(textwrap.wrap(name, max(letters, 1), break_long_words=False, break_on_hyphens=False))
    return [f"{name}\n({size})", f"{name}  ({size})", f"{wrapped}\n({size})", name, wrapped]
