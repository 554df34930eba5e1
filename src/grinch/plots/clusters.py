"""The clusters of a cut, and how they come together above it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grinch._checks import check_count
from grinch._types import Floats, Labels
from grinch.cuts import ClusterTree, collapse, labels_of, splits_by_cost
from grinch.plots import style
from grinch.plots.colors import side_by_side
from grinch.plots.style import AS_IT_IS, GREY, INK, PALE
from grinch.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT = 8.5
# The shares of the width: of the bars, of the confidence, and of the names at least and at most; the tree has the rest.
BARS, CONFIDENCE, LEAST_NAMES, MOST_NAMES, BETWEEN = 0.17, 0.09, 0.1, 0.35, 0.01


class Places(NamedTuple):
    """Where the parts are, in shares of the width: the ends of the tree, the bars and the confidence, and the names."""

    tree: float
    bars: tuple[float, float]
    confidence: float
    names: float


class Rows(NamedTuple):
    """A tree with a leaf for each row, its nodes in the tree of the clusters, its leaves from top to bottom, colors."""

    tree: Tree
    nodes: Labels
    order: list[int]
    colors: list[str]


def plot_clusters(clusters: ClusterTree, max_rows: int = 60, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw the tree above a cut: a row for each cluster, with its size, its confidence, and its name or keywords.

    The coloured line of a cluster spans the heights at which it is whole: the longer, the better separated it is.
    Rows are in the order of the tree, and colours show places in it, as in ``grinch explore``.

    Parameters
    ----------
    clusters : ClusterTree
        From ``cluster_tree`` of a model or of a store, or :func:`grinch.cuts.collapse`.
    max_rows : int, default=60
        With more clusters than this, or than ``ax`` has room for, branches of small clusters that are near each other
        share a row.
    title : str, optional
        A title; by default the numbers of points and clusters.
    ax : Axes, optional
        The axes to draw on; a new figure by default. The parts of the picture are axes inside it (``ax.child_axes``).

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
    room = max_rows if ax is None else style.lines_in(ax, FONT)
    rows = _rows(clusters, min(check_count("max_rows", max_rows, 1), room))
    n = len(rows.order)
    ax = ax or style.new_axes(11, 1.3 + 0.235 * _room(n))
    style.set_title(ax, title or _title(clusters, n), color=INK, pad=18)
    ax.axis("off")
    style.settle(ax)
    captions = [_caption(clusters, int(rows.nodes[v])) for v in rows.order]
    places = _places(ax, captions, clusters.confidence is not None)
    _draw_tree(ax.inset_axes((0, 0, places.tree, 1)), clusters, rows)
    bars = ax.inset_axes((places.bars[0], 0, places.bars[1] - places.bars[0], 1))
    _draw_bars(bars, clusters, rows, _longest(ax, clusters, places))
    _write(ax, clusters, rows, captions, places)
    return ax


def _places(ax: Axes, captions: list[str], has_confidence: bool) -> Places:
    """Return the places of the parts: as much for the names as they need, the rest for the tree."""
    letter = style.LETTER * style.em(ax, FONT) / ax.bbox.width
    names = 1 - float(np.clip(letter * (max(map(len, captions)) + 1), LEAST_NAMES, MOST_NAMES))
    confidence = names - 2 * BETWEEN
    bars = confidence - CONFIDENCE if has_confidence else confidence
    return Places(bars - BARS - BETWEEN, (bars - BARS, bars), confidence, names)


def _rows(clusters: ClusterTree, max_rows: int) -> Rows:
    """Return a row for each cluster, or for each branch: those with many points and great heights are split first."""
    tree = clusters.tree
    costs = np.where(np.arange(tree.n_ids) >= tree.offset, clusters.sizes * (1e-9 + np.nan_to_num(clusters.heights)), 0)
    drawn = collapse(tree, labels_of(tree, splits_by_cost(tree, costs, max_rows)))
    hues, waiting, order = clusters.hues[drawn.nodes], [drawn.tree.root], []
    while waiting:
        v = waiting.pop()
        if drawn.tree.is_leaf(v):
            order.append(v)
        else:  # the one on the left first
            waiting += sorted(drawn.tree.children(v), key=lambda child: -float(hues[child]))
    colors = [GREY] * drawn.tree.n_ids
    for v, color in zip(order, side_by_side(hues[order]), strict=True):
        colors[v] = color
    return Rows(drawn.tree, drawn.nodes, order, colors)


def _spots(rows: Rows) -> Floats:
    """Return the vertical place of every node."""
    spots = np.zeros(rows.tree.n_ids)
    spots[rows.order] = np.arange(len(rows.order))
    for v in rows.tree.internal_nodes()[::-1].tolist():
        spots[v] = np.mean(spots[list(rows.tree.children(v))])
    return spots


def _title(clusters: ClusterTree, n_rows: int) -> str:
    outside = clusters.n_points - int(clusters.sizes[clusters.tree.root])
    in_none = f"; {style.counted(outside, 'point')} belong{'s' * (outside == 1)} nowhere" if outside else ""
    drawn = f" in {n_rows} rows" if n_rows < clusters.n_clusters else ""
    counts = style.counted(clusters.n_points, "point"), style.counted(clusters.n_clusters, "cluster")
    return f"{', '.join(counts)}{drawn}{in_none}"


def _room(n: int) -> int:
    """Return the number of rows there is room for: a few at least, so that a single bar is no block."""
    return max(n, 3)


def _draw_tree(ax: Axes, clusters: ClusterTree, rows: Rows) -> None:
    from matplotlib.collections import LineCollection

    tree, colors, spots = rows.tree, rows.colors, _spots(rows)
    heights = np.nan_to_num(clusters.heights[rows.nodes])
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
    ax.set_xlabel(style.wrapped("height (dissimilarity where clusters meet)", ax, FONT), fontsize=FONT, color=GREY)
    style.hide_spines(ax, ("top", "left", "right"))
    ax.spines["bottom"].set_color(PALE)
    if tree.n_leaves == 1:
        ax.axis("off")  # nothing meets


def _longest(ax: Axes, clusters: ClusterTree, places: Places) -> float:
    """Return the longest bar as a share of the room for bars, so that figures fit beside it."""
    letter = style.LETTER * style.em(ax, FONT) / ax.bbox.width
    figures = letter * (len(f"{int(clusters.sizes.max()):,}") + 1)
    start, stop = places.bars
    room = (places.confidence - 5 * letter if clusters.confidence is not None else places.names) - start - figures
    return float(np.clip(room / (stop - start), 0.1, 1))


def _draw_bars(ax: Axes, clusters: ClusterTree, rows: Rows, longest: float) -> None:
    sizes = clusters.sizes[rows.nodes[rows.order]]
    ax.barh(range(len(sizes)), sizes, color=[rows.colors[v] for v in rows.order], height=0.66)
    look: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": FONT, "color": INK}
    for place, size in enumerate(sizes.tolist()):
        ax.annotate(f"{size:,}", (size, place), (4, 0), **look)
    ax.set_xlim(0, float(sizes.max()) / longest)
    ax.set_ylim(_room(len(sizes)) - 0.4, -0.6)
    ax.axis("off")


def _write(ax: Axes, clusters: ClusterTree, rows: Rows, captions: list[str], places: Places) -> None:
    """Write headings, names, and the confidence of each cluster."""
    n = _room(len(rows.order))

    def place(i: float) -> float:
        return 1 - (i + 0.6) / (n + 0.2)

    def write(x: float, y: float, text: str, **style: Any) -> None:
        ax.text(x, y, text, transform=ax.transAxes, fontsize=FONT, va="center", **style, **AS_IT_IS)

    letters = style.letters_in(ax, FONT, 1 - places.names)
    # Above the first row by as much as rows are apart.
    heading = 1 + 0.35 / (n + 0.2)
    write(places.bars[0], heading, "points", color=GREY)
    if clusters.confidence is not None:
        write(places.confidence, heading, "confidence", color=GREY, ha="right")
    for i, v in enumerate(rows.order):
        node = int(rows.nodes[v])
        if clusters.confidence is not None and node < clusters.n_clusters and not np.isnan(clusters.confidence[node]):
            write(places.confidence, place(i), f"{clusters.confidence[node]:.2f}", color=GREY, ha="right")
        write(places.names, place(i), style.shortened(captions[i], letters), color=INK)


def _caption(clusters: ClusterTree, node: int) -> str:
    if node < clusters.n_clusters:
        number, name = int(clusters.clusters[node]), clusters.names[node]
        return name if name == f"cluster {number}" else f"{number}  {name}"
    leaves = clusters.tree.leaves(node)
    largest = leaves[np.argsort(-clusters.sizes[leaves], kind="stable")].tolist()
    if clusters.keywords is None and clusters.names[largest[0]] == f"cluster {clusters.clusters[largest[0]]}":
        named = [str(clusters.clusters[leaf]) for leaf in largest]
    else:  # the words of the most points
        points: Counter[str] = Counter()
        for leaf in largest:
            words = clusters.names[leaf].split(", ") if clusters.keywords is None else clusters.keywords[leaf]
            points.update(dict.fromkeys(words, int(clusters.sizes[leaf])))
        named = [word for word, _ in points.most_common(5)]
    return f"{len(leaves)} clusters: {', '.join(named)}"
