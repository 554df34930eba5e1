"""The branches of a tree that count, and how they come together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from grinch._types import Floats
from grinch.cuts import check_n_clusters
from grinch.plots.branch_places import Paint, Places, paint, place, row_heights
from grinch.plots.commonest import GivenLabels, Groups, groups
from grinch.plots.heights import draw_scale
from grinch.plots.naming import Naming
from grinch.plots.outline import Branch, in_order, outline
from grinch.plots.similarity import by_labels, by_vectors
from grinch.plots.style import (
    AS_IT_IS,
    GREY,
    INK,
    LETTER,
    PALE,
    counted,
    hide_spines,
    keep_inside,
    lines_in,
    new_axes,
    settle,
    shortened,
    wrapped,
)
from grinch.tree import Tree
from grinch.tree.blocks import display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT, SMALL_FONT = 8.0, 6.5
# Inches of a row.
ROW = 0.2
# Points of a line without and with all points.
THIN, THICK = 1.0, 2.5
# Where the bars at the ends of branches end, in widths of the axes.
BAR = 1.008
# The share of the width that is for names.
FOR_NAMES = 0.42


def plot_dendrogram(
    tree: Tree,
    labels: GivenLabels | None = None,
    n_clusters: int = 40,
    title: str = "",
    ax: Axes | None = None,
    clusters: GivenLabels | None = None,
    names: Mapping[Any, str] | None = None,
    texts: Sequence[str | None] | None = None,
    vectors: npt.ArrayLike | None = None,
    min_size: int | None = None,
) -> Axes:
    """Draw the branches of a tree that count, each as thick as it has points, with a name.

    Only splits into two sizeable groups are drawn: those whose smaller side is largest. Smaller groups and single
    points that leave a branch are folded into it, and counted there (+n). So a tree of any depth and size makes a
    picture of its structure, not of its outliers. Branches that are alike are side by side where the tree allows it.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    labels : sequence, optional
        The class of each point: branches are called by their commonest, with its share, and have its color. With
        ``texts``, the commonest is beside the keywords.
    n_clusters : int, default=40
        Draw at most this many branches; fewer if ``ax`` has no room for their names.
    title : str, optional
        A title; by default it says how many points and branches there are.
    ax : Axes, optional
        Where to draw; a new figure by default.
    clusters : sequence, optional
        A flat clustering of the points, such as ``labels_``: it colors the branches instead of ``labels``, and dots
        are where its clusters come together. -1 is for points that belong nowhere.
    names : dict, optional
        What clusters are called, by their number in ``clusters``.
    texts : sequence of str, optional
        A text for each point: branches without a name are called by their keywords.
    vectors : array-like of shape (n_points, n_features), optional
        What tells which branches are alike; by default ``labels`` do.
    min_size : int, optional
        Branches with fewer points than this are never drawn; by default 5, or a twentieth of few points, or a
        five-hundredth of many.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> import matplotlib; matplotlib.use("Agg")
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0], [50.0]]))
    >>> ax = plot_dendrogram(tree, ["a", "a", "b", "b", "c"], n_clusters=2)
    >>> [text.get_text() for text in ax.get_yticklabels()], [text.get_text() for text in ax.texts]
    (['b  (2 points)', 'a  (2 points)'], ['+1'])
    """
    if tree.n_leaves == 0:
        raise ValueError("tree must have at least one leaf; got an empty tree")
    check_n_clusters(n_clusters)
    shown, heights = display(tree), tree.heights()
    classes, cut = groups("labels", labels, tree, shown), groups("clusters", clusters, tree, shown)
    naming = Naming(tree, shown, classes, cut, names, texts, words_first=True)
    room = None if ax is None else lines_in(ax, FONT)
    branches = _fitting(tree, lambda n: outline(tree, shown.starts, heights, n, min_size), n_clusters, room)
    order = in_order(branches, tree.sizes(), _distances(branches, naming, vectors, classes))
    places = place(tree, heights, branches, order)
    painted = paint(tree, heights, branches, order, cut, classes)
    ax = ax or new_axes(9, 1.15 + ROW * places.n_rows)
    ax.set_title(title or _title(tree, branches, cut), loc="left", fontsize=11, color=INK, **AS_IT_IS)
    starts = [(i, height) for i, height in painted.starts if height >= places.scale.low]
    _frame(ax, places, _legend(branches, bool(starts)))
    _write_captions(ax, places.rows[order].tolist(), _captions(tree, naming, [branches[i].node for i in order]))
    draw_scale(ax, places.scale, FONT)
    _draw_lines(ax, tree, branches, places, painted)
    _draw_ends(ax, order, places, painted)
    _draw_starts(ax, starts, places, painted)
    _write_folded(ax, branches, places)
    return ax


def _fitting(tree: Tree, outlined: Callable[[int], list[Branch]], n_clusters: int, room: int | None) -> list[Branch]:
    """The branches to draw, fewer where there is no room for their names."""
    n_branches = n_clusters if room is None else min(n_clusters, room)
    while True:
        branches = outlined(n_branches)
        last = [i for i, branch in enumerate(branches) if not branch.parts]
        if room is None or len(last) == 1 or row_heights(tree, branches, last).sum() <= room:
            return branches
        n_branches = len(last) - 1


def _distances(
    branches: list[Branch], naming: Naming, vectors: npt.ArrayLike | None, classes: Groups | None
) -> Floats | None:
    """How far apart the last branches are, by their places in the list, if there is something to tell by."""
    last = [i for i, branch in enumerate(branches) if not branch.parts]
    members = [naming.sample(branches[i].node) for i in last]
    if vectors is not None:
        found = by_vectors(vectors, members, naming.n)
    elif classes is not None:
        found = by_labels(classes, members)
    else:
        return None
    distances = np.zeros((len(branches), len(branches)))
    distances[np.ix_(last, last)] = found
    return distances


# Words ------------------------------------------------------------------------------------------------------------


def _captions(tree: Tree, naming: Naming, nodes: list[int]) -> list[tuple[str, str]]:
    """The name of each branch, and its size with the share of the points that are what the name says."""
    found = []
    for name, node in zip(naming(nodes), nodes, strict=True):
        size, share = tree.size(node), naming.share(node)
        label = naming.label_beside(node)
        facts = f"{size:,}, {label}" if label else counted(size, "point")
        if share < 1:
            facts += f"{'' if label else ','} {100 * share:.0f} %"
        found.append((name, "" if name and size == 1 else f"  ({facts})" if name else facts))
    return found


def _title(tree: Tree, branches: list[Branch], cut: Groups | None) -> str:
    n, last = tree.n_leaves, sum(not branch.parts for branch in branches)
    n_clusters = 0 if cut is None else len(cut.named.names)
    said = counted(n, "point") + (f" in {counted(n_clusters, 'cluster')}" if n_clusters else "")
    if last > 1:
        return f"{said}, {last} branches"
    return said if n == 1 else f"{said}, no split into two groups of some size"


def _legend(branches: list[Branch], has_dots: bool) -> str:
    """What the signs of the picture mean."""
    said = []
    if has_dots:
        said.append("dots: where the clusters come together")
    if folded := sum(branch.folded for branch in branches):
        said.append(f"+n: single points and groups too small to draw, {folded:,} points in all")
    return "; ".join(said)


def _write_captions(ax: Axes, rows: list[float], captions: list[tuple[str, str]]) -> None:
    """At the right end of the branches, cut short where there is no room."""
    letters = int(FOR_NAMES * ax.bbox.width / (LETTER * FONT * ax.figure.dpi / 72))
    texts = [shortened(name, max(letters - len(facts), 8)) + facts for name, facts in captions]
    ax.set_yticks(rows, texts, fontsize=FONT, color=INK, **AS_IT_IS)
    ax.yaxis.tick_right()
    ax.tick_params(axis="y", length=0, pad=9)
    keep_inside(ax)


def _write_folded(ax: Axes, branches: list[Branch], places: Places) -> None:
    """The number of points that left a branch, above its line, where there is room for it."""
    settle(ax)
    em = SMALL_FONT * ax.figure.dpi / 72
    for i, branch in enumerate(branches):
        text = f"+{branch.folded:,}"
        line = ax.transData.transform([(x, places.rows[i]) for x in (places.begins[i], places.ends[i])])
        if branch.folded and line[1, 0] - line[0, 0] >= LETTER * em * len(text) + em:
            x, y = ax.transData.inverted().transform(line.mean(axis=0))
            ax.annotate(
                text, (x, y), (0, 2.5), textcoords="offset points", ha="center", fontsize=SMALL_FONT, color=GREY
            )


# Drawing ----------------------------------------------------------------------------------------------------------


def _frame(ax: Axes, places: Places, legend: str) -> None:
    settle(ax)
    said = [wrapped(text, ax, FONT) for text in (places.axis, legend) if text]
    ax.set_xlabel("\n".join(said), fontsize=FONT, color=GREY, **AS_IT_IS)
    ax.set_ylim(places.n_rows, 0)
    ax.tick_params(axis="x", labelsize=FONT, colors=GREY)
    hide_spines(ax, ("top", "left", "right"))
    ax.spines["bottom"].set_color(PALE)
    ax.spines["bottom"].set_visible(bool(places.axis))
    ax.xaxis.set_visible(bool(places.axis))


def _draw_lines(ax: Axes, tree: Tree, branches: list[Branch], places: Places, painted: Paint) -> None:
    from matplotlib.collections import LineCollection

    lines, of = [], []
    for i, branch in enumerate(branches):
        row, end = places.rows[i], places.ends[i]
        lines.append([(places.begins[i], row), (end, row)])
        of.append(i)
        if branch.parts:
            lines.append([(end, row) for row in places.rows[list(branch.parts)]])
            of.append(i)
    shares = tree.sizes()[[branches[i].node for i in of]] / tree.n_leaves
    ax.add_collection(
        LineCollection(
            lines,
            colors=[painted.colors[i] for i in of],
            linewidths=THIN + THICK * np.sqrt(shares),
            capstyle="projecting",
        )
    )


def _draw_ends(ax: Axes, order: list[int], places: Places, painted: Paint) -> None:
    """The last branches open out to the number of their points."""
    from matplotlib.collections import PolyCollection

    low, wedges, bars = places.scale.low, [], []
    for i in order:
        row, half = places.rows[i], places.widths[i] / 2
        wedges.append([(places.ends[i], row), (low, row - half), (low, row + half)])
        bars.append([(1.0, row - half), (1.0, row + half), (BAR, row + half), (BAR, row - half)])
    colors = [painted.colors[i] for i in order]
    ax.add_collection(PolyCollection(wedges, facecolors=colors, edgecolors=colors, linewidths=THIN))
    across = ax.get_yaxis_transform()
    ax.add_collection(
        PolyCollection(bars, facecolors=colors, edgecolors=colors, linewidths=THIN, transform=across, clip_on=False),
        autolim=False,
    )


def _draw_starts(ax: Axes, starts: list[tuple[int, float]], places: Places, painted: Paint) -> None:
    """A dot where each cluster comes together."""
    if starts:
        x, y, colors = zip(*((height, places.rows[i], painted.colors[i]) for i, height in starts), strict=True)
        ax.scatter(x, y, s=22, c=colors, edgecolors="white", linewidths=0.8, zorder=3)
