"""The branches of a tree that count, and how they come together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from grinch._checks import check_count
from grinch._types import Floats, Ids, Labels
from grinch.cuts import check_n_clusters
from grinch.plots.names import MOST, NEARLY_ALL, GivenLabels, LabelGroups, Naming, default_size, groups, whole_nodes
from grinch.plots.style import (
    ACCENT,
    AS_IT_IS,
    GREY,
    INK,
    LETTER,
    PALE,
    PALETTE,
    Scale,
    cluster_slots,
    counted,
    draw_scale,
    hide_spines,
    keep_inside,
    lines_in,
    new_axes,
    scale_of,
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
    branches: list[Branch], naming: Naming, vectors: npt.ArrayLike | None, classes: LabelGroups | None
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


def _title(tree: Tree, branches: list[Branch], cut: LabelGroups | None) -> str:
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


class Branch(NamedTuple):
    """A line of the picture: from its node down to where it is split, or to its end.

    ``node``: all its points are under this one. ``split``: where it is split into ``parts`` (places in the list of
    branches), or -1 for a last one. ``folded``: how many points leave on the way down, too few at a time to be drawn.
    """

    node: int
    split: int
    parts: tuple[int, ...]
    folded: int


def outline(tree: Tree, starts: Ids, heights: Floats, n_branches: int, min_size: int | None = None) -> list[Branch]:
    """The branches after at most ``n_branches - 1`` splits, parents before children, larger sides first.

    Splits whose smaller side is largest are drawn, the highest among equals, unless it has fewer than ``min_size``
    points. Where two of them meet, both sides are larger still, so that split is drawn, too. ``starts`` are those of
    :func:`~grinch.tree.blocks.display`, ``heights`` those of the tree.

    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch.tree.blocks import display
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [7.5], [99.0]]))
    >>> branches = outline(tree, display(tree).starts, tree.heights(), 2)
    >>> [tree.size(branch.node) for branch in branches], branches[0].folded
    ([5, 2, 2], 1)
    """
    least = default_size(tree.n_leaves) if min_size is None else check_count("min_size", min_size, 1)
    sizes, children = tree.sizes(), tree.child_pairs()
    # What is under a node are those that start in its range, the larger first: the first of them is the highest.
    splits = sorted(
        (int(starts[v]), -int(sizes[v]), v) for v in _largest_splits(tree, heights, n_branches - 1, least).tolist()
    )
    found, above, waiting = list[Branch](), list[int](), [(tree.root, -1)]
    while waiting:
        node, parent = waiting.pop()
        i = bisect_left(splits, (int(starts[node]), -int(sizes[node]), -1))
        is_split = i < len(splits) and splits[i][0] < starts[node] + sizes[node]
        split = splits[i][2] if is_split else -1
        found.append(Branch(node, split, (), int(sizes[node] - sizes[split]) if is_split else 0))
        above.append(parent)
        if is_split:
            small, large = sorted(children[split].tolist(), key=lambda v: int(sizes[v]))
            waiting += [(small, len(found) - 1), (large, len(found) - 1)]
    parts: list[list[int]] = [[] for _ in found]
    for i, parent in enumerate(above[1:], 1):
        parts[parent].append(i)
    return [branch._replace(parts=tuple(own)) for branch, own in zip(found, parts, strict=True)]


def _largest_splits(tree: Tree, heights: Floats, count: int, least: int) -> Ids:
    """The internal nodes whose smaller sides are largest, the highest among equals."""
    internal = np.arange(tree.offset + 1, tree.offset + tree.n_leaves, dtype=np.int32)
    sides = tree.sizes()[tree.child_pairs()[internal]]
    smaller = np.minimum(sides[:, 0], sides[:, 1])
    if 0 < count < len(smaller):
        least = max(least, int(np.partition(smaller, -count)[-count]))
    larger, equal = internal[smaller > least][:count], internal[smaller == least]
    highest = equal[np.argsort(-heights[equal], kind="stable")]
    return np.concatenate([larger, highest[: count - len(larger)]])


def in_order(branches: list[Branch], sizes: Ids, distances: Floats | None = None) -> list[int]:
    """The last branches from top to bottom: the larger side of each split first, or what is alike side by side.

    ``sizes`` are by node; ``distances`` are those of any two last branches, by their places in the list. Every split,
    the lowest first, turns its sides so that their nearest ends face each other (Gruvaeus and Wainer, 1972).
    """
    orders: list[list[int]] = [[] for _ in branches]
    for i in range(len(branches) - 1, -1, -1):
        if not branches[i].parts:
            orders[i] = [i]
            continue
        first, second = (orders[part] for part in branches[i].parts)
        orders[i] = first + second if distances is None else _facing(first, second, distances)
    return orders[0] if distances is None else _heavy_end_first(orders[0], branches, sizes)


def _facing(first: list[int], second: list[int], distances: Floats) -> list[int]:
    """Both lists as one, each turned over or not, with the least distance where they meet."""
    turned = [(a, b) for a in (first, first[::-1]) for b in (second, second[::-1])]
    a, b = min(turned, key=lambda pair: float(distances[pair[0][-1], pair[1][0]]))
    return a + b


def _heavy_end_first(order: list[int], branches: list[Branch], sizes: Ids) -> list[int]:
    weights = sizes[[branches[i].node for i in order]] * (np.arange(len(order)) - (len(order) - 1) / 2)
    return order if weights.sum() <= 0 else order[::-1]


def by_vectors(vectors: npt.ArrayLike, members: list[Labels], n: int) -> Floats:
    """The distances of the means of groups of points."""
    rows: Any = vectors if hasattr(vectors, "shape") else np.asarray(vectors, np.float64)
    if len(rows.shape) != 2 or rows.shape[0] != n:
        raise ValueError(f"vectors must be of shape ({n}, n_features), a row for each point; got {tuple(rows.shape)}")
    means = np.array([np.asarray(rows[own].mean(axis=0), np.float64).ravel() for own in members])
    return np.asarray(cdist(means, means))


def by_labels(known: LabelGroups, members: list[Labels]) -> Floats:
    """The distances of groups by the shares of labels in them."""
    shares = np.zeros((len(members), len(known.named.names) + 1))  # one more, where -1 points
    for i, own in enumerate(members):
        np.add.at(shares[i], known.named.codes[own], 1 / len(own))
    return np.asarray(cdist(shares, shares))


# How thick branches are on average, in rows, and the thickest as a share of all rows.
THICKNESS, THICKEST = 0.55, 0.2
# The share of the width before the first split, where points are folded there.
ROOM_FOR_FOLDED = 0.12
# Rows between thick branches.
GAP = 0.3
# Rows there is room for at least, so that a single branch is no block.
FEWEST_ROWS = 3


class Places(NamedTuple):
    """By branch: the heights where its line begins and ends, its row, and its thickness where it is a last one.

    ``n_rows`` is the height of the picture, in rows; the last branches have one each, or more if they are thick.
    """

    begins: Floats
    ends: Floats
    rows: Floats
    widths: Floats
    n_rows: float
    scale: Scale
    axis: str
    """What the axis of heights is called; empty where nothing meets."""


def place(tree: Tree, heights: Floats, branches: list[Branch], order: list[int]) -> Places:
    """The last branches in this order from top to bottom, the others in the middle of what they are split into."""
    levels, has_heights = _levels(tree, heights, branches)
    scale = scale_of(np.array([levels[i] for i, branch in enumerate(branches) if branch.parts] or [levels[0]]))
    if branches[0].folded:
        scale = scale._replace(margin=ROOM_FOR_FOLDED)
    pitches = row_heights(tree, branches, order)
    n_rows = max(float(pitches.sum()), FEWEST_ROWS)
    ends = np.maximum(levels, scale.low)
    begins, rows, widths = np.full(len(branches), scale.left), np.zeros(len(branches)), np.zeros(len(branches))
    rows[order] = np.cumsum(pitches) - pitches / 2 + (n_rows - pitches.sum()) / 2
    widths[order] = _widths(tree, branches, order)
    for i in range(len(branches) - 1, -1, -1):
        if branches[i].parts:
            parts = list(branches[i].parts)
            rows[i], begins[parts] = rows[parts].mean(), ends[i]
    axis = scale.title if has_heights else "splits (all merges are at height 0)"
    return Places(begins, ends, rows, widths, n_rows, scale, axis if tree.n_leaves > 1 else "")


def row_heights(tree: Tree, branches: list[Branch], order: list[int]) -> Floats:
    """A row for the name of each last branch, or more if the branch is thick."""
    return np.maximum(_widths(tree, branches, order) + GAP, 1.0)


def _widths(tree: Tree, branches: list[Branch], order: list[int]) -> Floats:
    """How thick the last branches are, in rows: as their numbers of points."""
    shares = tree.sizes()[[branches[i].node for i in order]] / tree.n_leaves
    return shares * (len(order) * min(THICKNESS, THICKEST / shares.max()) if len(order) > 1 else 1.0)


def _levels(tree: Tree, heights: Floats, branches: list[Branch]) -> tuple[Floats, bool]:
    """Where each branch is split, or comes together; in splits above the last one, and False, where all is at 0."""
    if heights[tree.root] > 0:
        return heights[[branch.split if branch.parts else branch.node for branch in branches]], True
    levels = np.zeros(len(branches))
    for i in range(len(branches) - 1, -1, -1):
        if branches[i].parts:
            levels[i] = 1 + levels[list(branches[i].parts)].max()
    return levels, False


class Paint(NamedTuple):
    """The color of each branch; and of the clusters that begin in a branch, the branch and where they come together."""

    colors: list[str]
    starts: list[tuple[int, float]]


def paint(
    tree: Tree,
    heights: Floats,
    branches: list[Branch],
    order: list[int],
    cut: LabelGroups | None,
    classes: LabelGroups | None,
) -> Paint:
    """Colors of clusters or else of labels; grey where several come together."""
    for known in (cut, classes):
        codes = [] if known is None else _codes(branches, known, NEARLY_ALL if known is cut else MOST)
        # A cut far below the branches colors none of them: labels do, then.
        if known is not None and max(codes) >= 0:
            slots = _slots(known, [codes[i] for i in order if codes[i] >= 0], is_cut=known is cut)
            colors = [PALETTE[slots[code]] if code >= 0 else GREY for code in codes]
            return Paint(colors, _starts(tree, heights, branches, codes, known) if known is cut else [])
    return Paint([ACCENT if not branch.parts else GREY for branch in branches], [])


def _starts(
    tree: Tree, heights: Floats, branches: list[Branch], codes: list[int], cut: LabelGroups
) -> list[tuple[int, float]]:
    """Branches in which a cluster begins, each with the height of the lowest node over all its points."""
    tops = whole_nodes(tree, cut)
    if heights[tree.root] <= 0:
        return []
    above = {part: codes[i] for i, branch in enumerate(branches) for part in branch.parts}
    begun = [(i, code) for i, code in enumerate(codes) if code >= 0 and code != above.get(i)]
    return [(i, float(heights[tops[code]])) for i, code in begun if tops[code] >= 0]


def _codes(branches: list[Branch], known: LabelGroups, least: float) -> list[int]:
    """The number of the label or cluster that most of a branch have (this share), and all branches below, or -1."""
    codes = [-1] * len(branches)
    for i in range(len(branches) - 1, -1, -1):
        below = {codes[part] for part in branches[i].parts}
        if not below:
            codes[i] = known.code(branches[i].node) if known.share(branches[i].node) >= least else -1
        elif len(below) == 1:
            codes[i] = below.pop()
    return codes


def _slots(known: LabelGroups, codes: list[int], is_cut: bool) -> dict[int, int]:
    """Which color of the palette each label or cluster has."""
    return cluster_slots(known.named.values, codes) if is_cut else {code: code % len(PALETTE) for code in codes}
