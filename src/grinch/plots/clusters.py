"""The clusters of a cut, and how they come together above it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grinch._checks import check_count
from grinch._types import Floats, Labels
from grinch.cuts import ClusterTree, collapse, labels_of, splits_by_cost
from grinch.plots.style import (
    AS_IT_IS,
    GREY,
    INK,
    LETTER,
    PALE,
    PALETTE,
    hide_spines,
    lines_in,
    new_axes,
    settle,
    shortened,
    wrapped,
)
from grinch.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT = 8.5
# Branches that get a colour of their own, once there are more rows than colours: more would look like confetti.
MOST_BRANCHES = 7
# Where the parts are, in shares of the width: the tree, the bars, the end of how sure, and the names.
TREE, BARS, SURE, NAMES = (0.0, 0.36), (0.37, 0.17), 0.632, 0.65


class Rows(NamedTuple):
    """What is drawn: a tree with a leaf for each row, and for its nodes those of the tree of the clusters."""

    tree: Tree
    nodes: Labels
    order: list[int]
    """The leaves from top to bottom."""


def plot_clusters(clusters: ClusterTree, max_rows: int = 60, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw the tree above a cut: a row for each cluster, with its size, how sure it is, and its name or keywords.

    A line is drawn in full from where a cluster meets another back to where it comes together itself: the longer, the
    more it is a cluster of its own. Colours are those of the branches.

    Parameters
    ----------
    clusters : ClusterTree
        From :meth:`grinch.Grinch.cluster_tree` or :func:`grinch.cuts.collapse`.
    max_rows : int, default=60
        With more clusters than this, or than ``ax`` has room for, branches of small clusters that are near each other
        share a row.
    title : str, optional
        A title; by default it says how many points and clusters there are.
    ax : Axes, optional
        Where to draw; a new figure by default. The parts of the picture are axes inside it (``ax.child_axes``).

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from grinch import Tree, cuts
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0], [10.0]]))
    >>> ax = plot_clusters(cuts.collapse(tree, [0, 0, 1, 1, 1]))
    >>> dendrogram, bars = ax.child_axes
    >>> [text.get_text() for text in bars.texts]
    ['3', '2']
    """
    if not isinstance(clusters, ClusterTree):
        raise TypeError(
            f"clusters must be a ClusterTree, as model.cluster_tree() makes one; got {type(clusters).__name__}"
        )
    if clusters.n_clusters == 0:
        raise ValueError("clusters must have at least one cluster; all points of this cut belong nowhere (-1)")
    room = max_rows if ax is None else lines_in(ax, FONT)
    rows = _rows(clusters, min(check_count("max_rows", max_rows, 1), room))
    colors = _colors(rows.tree)
    n = len(rows.order)
    ax = ax or new_axes(11, 1.3 + 0.235 * _room(n))
    ax.set_title(title or _title(clusters, n), loc="left", fontsize=11, color=INK, pad=18, **AS_IT_IS)
    ax.axis("off")
    settle(ax)
    spots = _spots(rows)
    _draw_tree(ax.inset_axes((TREE[0], 0, TREE[1], 1)), clusters, rows, spots, colors)
    _draw_bars(ax.inset_axes((BARS[0], 0, BARS[1], 1)), clusters, rows, colors, _longest(ax, clusters))
    _write(ax, clusters, rows)
    return ax


# What is drawn ----------------------------------------------------------------------------------------------------


def _rows(clusters: ClusterTree, max_rows: int) -> Rows:
    """A row for each cluster, or for each branch: split first is what has many points and is wide."""
    tree = clusters.tree
    costs = np.where(np.arange(tree.n_ids) >= tree.offset, clusters.sizes * (1e-9 + np.nan_to_num(clusters.heights)), 0)
    drawn = collapse(tree, labels_of(tree, splits_by_cost(tree, costs, max_rows)))
    return Rows(drawn.tree, drawn.nodes, _order(drawn.tree, clusters.sizes[drawn.nodes]))


def _order(tree: Tree, sizes: Labels) -> list[int]:
    """The leaves from top to bottom, the larger side first."""
    waiting, order = [tree.root], []
    while waiting:
        v = waiting.pop()
        if tree.is_leaf(v):
            order.append(v)
        else:
            waiting += sorted(tree.children(v), key=lambda child: int(sizes[child]))
    return order


def _spots(rows: Rows) -> Floats:
    """The vertical place of every node."""
    spots = np.zeros(rows.tree.n_ids)
    spots[rows.order] = np.arange(len(rows.order))
    for v in rows.tree.internal_nodes()[::-1].tolist():
        spots[v] = np.mean(spots[list(rows.tree.children(v))])
    return spots


def _colors(tree: Tree) -> list[str]:
    """The colour of every node: that of its branch, grey above the branches."""
    n = tree.n_leaves
    most = n if n <= len(PALETTE) else MOST_BRANCHES
    branches = tree.number_subtrees(splits_by_cost(tree, tree.sizes() * tree.heights(), most))
    return [GREY if branch < 0 else PALETTE[branch % len(PALETTE)] for branch in branches.tolist()]


def _title(clusters: ClusterTree, n_rows: int) -> str:
    outside = clusters.n_points - int(clusters.sizes[clusters.tree.root])
    in_none = f"; {outside:,} {'point belongs' if outside == 1 else 'points belong'} nowhere" if outside else ""
    drawn = f" in {n_rows} rows" if n_rows < clusters.n_clusters else ""
    word = "cluster" if clusters.n_clusters == 1 else "clusters"
    return f"{clusters.n_points:,} points, {clusters.n_clusters:,} {word}{drawn}{in_none}"


def _room(n: int) -> int:
    """Rows there is room for: a few at least, so that a single bar is no block."""
    return max(n, 3)


# Drawing ----------------------------------------------------------------------------------------------------------


def _draw_tree(ax: Axes, clusters: ClusterTree, rows: Rows, spots: Floats, colors: list[str]) -> None:
    from matplotlib.collections import LineCollection

    tree, heights = rows.tree, np.nan_to_num(clusters.heights[rows.nodes])
    top = float(heights[tree.root])
    low = float(heights[rows.order].min())
    span = (top - low) or abs(top) or 1.0
    root_end, tips = top + 0.04 * span, low - 0.02 * span
    segments, strokes, leads = [[(top, spots[tree.root]), (root_end, spots[tree.root])]], [colors[tree.root]], []
    for v in tree.nodes():
        if tree.is_leaf(v):
            leads.append([(heights[v], spots[v]), (tips, spots[v])])
            continue
        ends = tree.children(v)
        segments.append([(heights[v], spots[ends[0]]), (heights[v], spots[ends[1]])])
        strokes.append(colors[v])
        for child in ends:
            segments.append([(heights[v], spots[child]), (heights[child], spots[child])])
            strokes.append(colors[child])
    ax.add_collection(LineCollection(leads, colors=PALE, linewidths=1, zorder=1))
    ax.add_collection(LineCollection(segments, colors=strokes, linewidths=1.7, capstyle="projecting", zorder=2))
    ax.set_xlim(root_end, tips)
    ax.set_ylim(_room(len(rows.order)) - 0.4, -0.6)
    ax.set_yticks([])
    ax.tick_params(axis="x", labelsize=8, colors=GREY)
    ax.set_xlabel(wrapped("height (dissimilarity where clusters meet)", ax, FONT), fontsize=FONT, color=GREY)
    hide_spines(ax, ("top", "left", "right"))
    ax.spines["bottom"].set_color(PALE)
    if tree.n_leaves == 1:
        ax.axis("off")  # nothing meets


def _longest(ax: Axes, clusters: ClusterTree) -> float:
    """The longest bar as a share of the room for bars, so that figures fit beside it."""
    letter = LETTER * FONT * ax.figure.dpi / 72 / ax.bbox.width
    figures = letter * (len(f"{int(clusters.sizes.max()):,}") + 1)
    end = SURE - 5 * letter if clusters.sure is not None else NAMES
    return float(np.clip((end - BARS[0] - figures) / BARS[1], 0.1, 1))


def _draw_bars(ax: Axes, clusters: ClusterTree, rows: Rows, colors: list[str], longest: float) -> None:
    sizes = clusters.sizes[rows.nodes[rows.order]]
    ax.barh(range(len(sizes)), sizes, color=[colors[v] for v in rows.order], height=0.66)
    for place, size in enumerate(sizes.tolist()):
        ax.annotate(
            f"{size:,}", (size, place), (4, 0), textcoords="offset points", va="center", fontsize=FONT, color=INK
        )
    ax.set_xlim(0, float(sizes.max()) / longest)
    ax.set_ylim(_room(len(sizes)) - 0.4, -0.6)
    ax.axis("off")


def _write(ax: Axes, clusters: ClusterTree, rows: Rows) -> None:
    """Headings, names, and how sure each cluster is."""
    n = _room(len(rows.order))

    def place(i: float) -> float:
        return 1 - (i + 0.6) / (n + 0.2)

    def write(x: float, y: float, text: str, **style: Any) -> None:
        ax.text(x, y, text, transform=ax.transAxes, fontsize=FONT, va="center", **style, **AS_IT_IS)

    letters = int((1 - NAMES) * ax.bbox.width / (LETTER * FONT * ax.figure.dpi / 72))
    # Above the first row by as much as rows are apart.
    heading = 1 + 0.35 / (n + 0.2)
    write(BARS[0], heading, "points", color=GREY)
    if clusters.sure is not None:
        write(SURE, heading, "sure", color=GREY, ha="right")
    for i, v in enumerate(rows.order):
        node = int(rows.nodes[v])
        if clusters.sure is not None and node < clusters.n_clusters and not np.isnan(clusters.sure[node]):
            write(SURE, place(i), f"{clusters.sure[node]:.2f}", color=GREY, ha="right")
        write(NAMES, place(i), shortened(_caption(clusters, node), letters), color=INK)


def _caption(clusters: ClusterTree, node: int) -> str:
    if node < clusters.n_clusters:
        number, name = int(clusters.clusters[node]), clusters.names[node]
        return name if name == f"cluster {number}" else f"{number}  {name}"
    leaves = clusters.tree.leaves(node)
    largest = leaves[np.argsort(-clusters.sizes[leaves], kind="stable")].tolist()
    if clusters.keywords is None:
        named = [str(clusters.clusters[leaf]) for leaf in largest]
    else:
        named = _shared_words(clusters, largest)
    return f"{len(leaves)} clusters: {', '.join(named)}"


def _shared_words(clusters: ClusterTree, leaves: list[int]) -> list[str]:
    """The keywords of several clusters, first those of the most points."""
    assert clusters.keywords is not None
    points: Counter[str] = Counter()
    for leaf in leaves:
        points.update(dict.fromkeys(clusters.keywords[leaf], int(clusters.sizes[leaf])))
    return [word for word, _ in points.most_common(5)]
