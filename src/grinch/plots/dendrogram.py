"""The main branches of a tree, and how they come together."""

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
from grinch.plots import groups, style
from grinch.plots.colors import label_hues, side_by_side
from grinch.plots.groups import GivenLabels, LabelGroups, Naming
from grinch.plots.style import AS_IT_IS, GREY, INK, PALE, Scale
from grinch.tree import Tree
from grinch.tree.blocks import Display, display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT, SMALL_FONT = 8.0, 6.5
# Inches of a row.
ROW = 0.2
# Points of a line without and with all points.
THIN, THICK = 1.0, 2.5
# The right end of the bars at the ends of branches, in widths of the axes.
BAR = 1.008
# The share of the width that is for names.
FOR_NAMES = 0.42
# The mean thickness of branches, in rows, and that of the thickest as a share of all rows.
THICKNESS, THICKEST = 0.55, 0.2
# The share of the width before the first split, where points are folded there.
ROOM_FOR_FOLDED = 0.12
# The share of a label's color in a branch of which hardly any point has it.
LEAST_COLOR = 0.25
# Rows between thick branches.
GAP = 0.3
# Rows of a picture at least, so that a single branch is no block.
MIN_ROWS = 3


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
    """Draw the main branches of a tree, as thick as their number of points, with names.

    Only splits into two sizeable groups are drawn: those whose smaller side is largest. Smaller groups and single
    points that leave a branch are folded into it, and counted there (+n). So a tree of any depth and size makes a
    picture of its structure, not of its outliers. Similar branches are side by side where the tree allows it.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    labels : sequence, optional
        The class of each point: branches are named after their commonest class, with its share, and have its color,
        greyer where less than half of the points have it. With ``texts``, it is beside the keywords.
    n_clusters : int, default=40
        Draw at most this many branches; fewer if ``ax`` has no room for their names.
    title : str, optional
        A title; by default the numbers of points and branches.
    ax : Axes, optional
        The axes to draw on; a new figure by default.
    clusters : sequence, optional
        A flat clustering of the points, such as ``labels_``: it colors the branches instead of ``labels``, and dots
        are where its clusters come together. -1 is for points that belong nowhere. Branches of several clusters are
        colored by their place in the tree, as are all of them without ``clusters`` and ``labels``.
    names : dict, optional
        Names of clusters, by their number in ``clusters``.
    texts : sequence of str, optional
        A text for each point: branches without a name are named after their keywords.
    vectors : array-like of shape (n_points, n_features), optional
        Used to place similar branches side by side; by default ``labels`` are.
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
    classes = groups.group_labels("labels", labels, tree, shown)
    cut = groups.group_labels("clusters", clusters, tree, shown)
    naming = Naming(tree, shown, classes, cut, names, texts, words_first=True)
    room = None if ax is None else style.lines_in(ax, FONT)
    branches = _fitting(tree, lambda n: outline(tree, shown.starts, heights, n, min_size), n_clusters, room)
    order = in_order(branches, tree.sizes(), _distances(branches, tree.n_leaves, naming, vectors, classes))
    layout = _layout(tree, heights, branches, order)
    colors, starts = _paint(tree, shown, heights, branches, order, cut, classes)
    starts = [(i, height) for i, height in starts if height >= layout.scale.low]
    ax = ax or style.new_axes(9, 1.15 + ROW * layout.n_rows)
    last = [branches[i].node for i in order]
    style.set_title(ax, title or groups.default_title(tree, cut, len(last), "branches"), color=INK)
    _frame(ax, layout)
    _write_captions(ax, layout.rows[order].tolist(), _captions(tree, naming, last))
    _write_legend(ax, [layout.axis, _legend(branches, bool(starts))])
    layout.scale.draw(ax, FONT)
    _draw_lines(ax, tree, branches, layout, colors)
    _draw_ends(ax, order, layout, colors)
    if starts:
        x, y, dots = zip(*((height, layout.rows[i], colors[i]) for i, height in starts), strict=True)
        ax.scatter(x, y, s=22, c=dots, edgecolors="white", linewidths=0.8, zorder=3)
    _write_folded(ax, branches, layout)
    return ax


# Branches -----------------------------------------------------------------------------------------------------------


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
    """Return the branches after at most ``n_branches - 1`` splits, parents before children, larger sides first.

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
    least = groups.default_size(tree.n_leaves) if min_size is None else check_count("min_size", min_size, 1)
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
    """Return the internal nodes whose smaller sides are largest, the highest among equals."""
    internal = np.arange(tree.offset + 1, tree.offset + tree.n_leaves, dtype=np.int32)
    sides = tree.sizes()[tree.child_pairs()[internal]]
    smaller = np.minimum(sides[:, 0], sides[:, 1])
    if 0 < count < len(smaller):
        least = max(least, int(np.partition(smaller, -count)[-count]))
    larger, equal = internal[smaller > least][:count], internal[smaller == least]
    highest = equal[np.argsort(-heights[equal], kind="stable")]
    return np.concatenate([larger, highest[: count - len(larger)]])


def in_order(branches: list[Branch], sizes: Ids, distances: Floats | None = None) -> list[int]:
    """Return the last branches from top to bottom: larger sides first, or what is alike side by side.

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
    if distances is None:
        return orders[0]
    # The end with more points is on top.
    weights = sizes[[branches[i].node for i in orders[0]]] * (np.arange(len(orders[0])) - (len(orders[0]) - 1) / 2)
    return orders[0] if weights.sum() <= 0 else orders[0][::-1]


def _facing(first: list[int], second: list[int], distances: Floats) -> list[int]:
    """Return both lists as one, each turned over or not, with the least distance where they meet."""
    turned = [(a, b) for a in (first, first[::-1]) for b in (second, second[::-1])]
    a, b = min(turned, key=lambda pair: float(distances[pair[0][-1], pair[1][0]]))
    return a + b


def _fitting(tree: Tree, outlined: Callable[[int], list[Branch]], n_clusters: int, room: int | None) -> list[Branch]:
    """Return the branches to draw, fewer where there is no room for their names."""
    n_branches = n_clusters if room is None else min(n_clusters, room)
    while True:
        branches = outlined(n_branches)
        last = [i for i, branch in enumerate(branches) if not branch.parts]
        if room is None or len(last) == 1 or _row_heights(_widths(tree, branches, last)).sum() <= room:
            return branches
        n_branches = len(last) - 1


def _distances(
    branches: list[Branch], n: int, naming: Naming, vectors: npt.ArrayLike | None, classes: LabelGroups | None
) -> Floats | None:
    """Return the distances of the last branches by their vectors, or else by the shares of their labels."""
    last = [i for i, branch in enumerate(branches) if not branch.parts]
    members = [naming.sample(branches[i].node) for i in last]
    if vectors is not None:
        places = _means(vectors, members, n)
    elif classes is not None:
        places = np.zeros((len(members), len(classes.names) + 1))  # one more, where -1 points
        for i, own in enumerate(members):
            np.add.at(places[i], classes.codes[own], 1 / len(own))
    else:
        return None
    distances = np.zeros((len(branches), len(branches)))
    distances[np.ix_(last, last)] = cdist(places, places)
    return distances


def _means(vectors: npt.ArrayLike, members: list[Labels], n: int) -> Floats:
    """Return the means of groups of points."""
    rows: Any = vectors if hasattr(vectors, "shape") else np.asarray(vectors, np.float64)
    if len(rows.shape) != 2 or rows.shape[0] != n:
        raise ValueError(f"vectors must be of shape ({n}, n_features), a row for each point; got {tuple(rows.shape)}")
    return np.array([np.asarray(rows[own].mean(axis=0), np.float64).ravel() for own in members])


# Places and colors --------------------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """By branch: the heights where its line begins and ends, its row, and its thickness where it is a last one.

    ``n_rows`` is the height of the picture, in rows; the last branches have one each, or more if they are thick.
    ``axis`` is the name of the axis of heights; empty where nothing meets.
    """

    begins: Floats
    ends: Floats
    rows: Floats
    widths: Floats
    n_rows: float
    scale: Scale
    axis: str


def _layout(tree: Tree, heights: Floats, branches: list[Branch], order: list[int]) -> Layout:
    """Place the last branches in this order from top to bottom, the others in the middle of their parts."""
    levels, has_heights = _levels(tree, heights, branches)
    scale = style.scale_of(np.array([levels[i] for i, branch in enumerate(branches) if branch.parts] or [levels[0]]))
    if branches[0].folded:
        scale = scale._replace(margin=ROOM_FOR_FOLDED)
    begins, rows, widths = np.full(len(branches), scale.left), np.zeros(len(branches)), np.zeros(len(branches))
    widths[order] = _widths(tree, branches, order)
    pitches = _row_heights(widths[order])
    n_rows = max(float(pitches.sum()), MIN_ROWS)
    ends = np.maximum(levels, scale.low)
    rows[order] = np.cumsum(pitches) - pitches / 2 + (n_rows - pitches.sum()) / 2
    for i in range(len(branches) - 1, -1, -1):
        if branches[i].parts:
            parts = list(branches[i].parts)
            rows[i], begins[parts] = rows[parts].mean(), ends[i]
    axis = scale.title if has_heights else "splits (all merges are at height 0)"
    return Layout(begins, ends, rows, widths, n_rows, scale, axis if tree.n_leaves > 1 else "")


def _row_heights(widths: Floats) -> Floats:
    """Return a row for the name of each last branch, or more if the branch is thick."""
    return np.maximum(widths + GAP, 1.0)


def _widths(tree: Tree, branches: list[Branch], order: list[int]) -> Floats:
    """Return the thickness of the last branches, in rows, by their numbers of points."""
    shares = tree.sizes()[[branches[i].node for i in order]] / tree.n_leaves
    return shares * (len(order) * min(THICKNESS, THICKEST / shares.max()) if len(order) > 1 else 1.0)


def _levels(tree: Tree, heights: Floats, branches: list[Branch]) -> tuple[Floats, bool]:
    """Return the height of the split or top of each branch, and True; if all are 0, splits below it, and False."""
    if heights[tree.root] > 0:
        return heights[[branch.split if branch.parts else branch.node for branch in branches]], True
    levels = np.zeros(len(branches))
    for i in range(len(branches) - 1, -1, -1):
        if branches[i].parts:
            levels[i] = 1 + levels[list(branches[i].parts)].max()
    return levels, False


def _paint(
    tree: Tree,
    shown: Display,
    heights: Floats,
    branches: list[Branch],
    order: list[int],
    cut: LabelGroups | None,
    classes: LabelGroups | None,
) -> tuple[list[Any], list[tuple[int, float]]]:
    """Return the colors of branches, and the branches in which a cluster begins, with the height of its top.

    Colors are those of clusters, or else of labels, or else of places in the tree; grey where several come together.
    """
    if cut is None and classes is not None:
        return _by_label(shown, branches, order, classes), []
    codes = [-1] * len(branches) if cut is None else _codes(branches, cut, groups.NEARLY_ALL)
    found = groups.place_colors(tree, shown, cut, [(codes[i], branches[i].node) for i in order])
    last = dict(zip(order, found, strict=True))
    of_cluster = {codes[i]: color for i, color in last.items() if codes[i] >= 0}
    colors = [last.get(i) or of_cluster.get(code, GREY) for i, code in enumerate(codes)]
    return colors, [] if cut is None else _starts(tree, heights, branches, codes, cut)


def _by_label(shown: Display, branches: list[Branch], order: list[int], classes: LabelGroups) -> list[Any]:
    """Return the colors of branches by their commonest labels; those of mixed last ones are greyer."""
    codes = _codes(branches, classes, groups.MOST)
    best = {i: classes.code(branches[i].node) for i in order}
    drawn = [code for code in dict.fromkeys(best.values()) if code >= 0]
    hues = label_hues(classes.codes, shown.order, len(classes.names))
    of_label = dict(zip(drawn, side_by_side(hues[drawn]), strict=True))
    colors: list[Any] = [of_label.get(code, GREY) for code in codes]
    for i, code in best.items():
        if codes[i] < 0 <= code:
            colors[i] = style.mixed_with(of_label[code], GREY, LEAST_COLOR + classes.share(branches[i].node))
    return colors


def _starts(
    tree: Tree, heights: Floats, branches: list[Branch], codes: list[int], cut: LabelGroups
) -> list[tuple[int, float]]:
    """Return the branches in which a cluster begins, each with the height of the lowest node over all its points."""
    tops = groups.whole_nodes(tree, cut)
    if heights[tree.root] <= 0:
        return []
    above = {part: codes[i] for i, branch in enumerate(branches) for part in branch.parts}
    begun = [(i, code) for i, code in enumerate(codes) if code >= 0 and code != above.get(i)]
    return [(i, float(heights[tops[code]])) for i, code in begun if tops[code] >= 0]


def _codes(branches: list[Branch], known: LabelGroups, min_share: float) -> list[int]:
    """Return the code of the label or cluster that most points of a branch and of all below it have, or -1."""
    codes = [-1] * len(branches)
    for i in range(len(branches) - 1, -1, -1):
        below = {codes[part] for part in branches[i].parts}
        if len(below) < 2:
            codes[i] = below.pop() if below else known.code(branches[i].node, min_share)
    return codes


# Words --------------------------------------------------------------------------------------------------------------


def _captions(tree: Tree, naming: Naming, nodes: list[int]) -> list[tuple[str, str]]:
    """Return the name of each branch, and its size with the share of its points that have this name."""
    found = []
    for name, node in zip(naming(nodes), nodes, strict=True):
        size, share = tree.size(node), naming.share(node)
        label = naming.label_beside(node)
        facts = f"{size:,}, {label}" if label else style.counted(size, "point")
        if share < 1:
            facts += f"{'' if label else ','} {100 * share:.0f} %"
        found.append((name, "" if name and size == 1 else f"  ({facts})" if name else facts))
    return found


def _legend(branches: list[Branch], has_dots: bool) -> str:
    """Return the meaning of the signs of the picture."""
    signs = ["dots: where the clusters come together"] if has_dots else []
    if folded := sum(branch.folded for branch in branches):
        signs.append(f"+n: single points and groups too small to draw, {folded:,} points in all")
    return "; ".join(signs)


def _write_captions(ax: Axes, rows: list[float], captions: list[tuple[str, str]]) -> None:
    """Write names at the right end of the branches, cut short where there is no room."""
    letters = style.letters_in(ax, FONT, FOR_NAMES)
    texts = [style.shortened(name, max(letters - len(facts), 8)) + facts for name, facts in captions]
    ax.set_yticks(rows, texts, fontsize=FONT, color=INK, **AS_IT_IS)
    ax.yaxis.tick_right()
    ax.tick_params(axis="y", length=0, pad=9)
    style.keep_inside(ax)


def _write_folded(ax: Axes, branches: list[Branch], layout: Layout) -> None:
    """Write the number of points that left a branch above its line, where there is room for it."""
    style.settle(ax)
    look: dict[str, Any] = {"ha": "center", "fontsize": SMALL_FONT, "color": GREY}
    em = style.em(ax, SMALL_FONT)
    for i, branch in enumerate(branches):
        text = f"+{branch.folded:,}"
        line = ax.transData.transform([(x, layout.rows[i]) for x in (layout.begins[i], layout.ends[i])])
        if branch.folded and line[1, 0] - line[0, 0] >= style.LETTER * em * len(text) + em:
            x, y = ax.transData.inverted().transform(line.mean(axis=0))
            ax.annotate(text, (x, y), (0, 2.5), textcoords="offset points", **look)


# Drawing ------------------------------------------------------------------------------------------------------------


def _frame(ax: Axes, layout: Layout) -> None:
    style.settle(ax)
    ax.set_ylim(layout.n_rows, 0)
    ax.tick_params(axis="x", labelsize=FONT, colors=GREY)
    style.hide_spines(ax, ("top", "left", "right"))
    ax.spines["bottom"].set_color(PALE)
    ax.spines["bottom"].set_visible(bool(layout.axis))
    ax.xaxis.set_visible(bool(layout.axis))


def _write_legend(ax: Axes, texts: list[str]) -> None:
    """Write below the axes, as wide as they are now that names are beside them."""
    style.settle(ax)
    lines = [style.wrapped(text, ax, FONT) for text in texts if text]
    ax.set_xlabel("\n".join(lines), fontsize=FONT, color=GREY, **AS_IT_IS)


def _draw_lines(ax: Axes, tree: Tree, branches: list[Branch], layout: Layout, colors: list[Any]) -> None:
    from matplotlib.collections import LineCollection

    lines, of = [], []
    for i, branch in enumerate(branches):
        row, end = layout.rows[i], layout.ends[i]
        own = [[(layout.begins[i], row), (end, row)]]
        if branch.parts:
            own.append([(end, row) for row in layout.rows[list(branch.parts)]])
        lines += own
        of += [i] * len(own)
    widths = THIN + THICK * np.sqrt(tree.sizes()[[branches[i].node for i in of]] / tree.n_leaves)
    drawn = LineCollection(lines, colors=[colors[i] for i in of], linewidths=widths, capstyle="projecting")
    ax.add_collection(drawn)


def _draw_ends(ax: Axes, order: list[int], layout: Layout, colors: list[Any]) -> None:
    """Let the last branches open out to the number of their points."""
    from matplotlib.collections import PolyCollection

    low, wedges, bars = layout.scale.low, [], []
    for i in order:
        row, half = layout.rows[i], layout.widths[i] / 2
        wedges.append([(layout.ends[i], row), (low, row - half), (low, row + half)])
        bars.append([(1.0, row - half), (1.0, row + half), (BAR, row + half), (BAR, row - half)])
    faces = [colors[i] for i in order]
    look: dict[str, Any] = {"facecolors": faces, "edgecolors": faces, "linewidths": THIN}
    ax.add_collection(PolyCollection(wedges, **look))
    ax.add_collection(PolyCollection(bars, **look, transform=ax.get_yaxis_transform(), clip_on=False), autolim=False)
