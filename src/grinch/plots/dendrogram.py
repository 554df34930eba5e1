"""The top of a tree, branch by branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from grinch.cuts import check_n_clusters, node_labels, splits_n_clusters
from grinch.plots.commonest import Named, named
from grinch.plots.style import GREY, INK, hide_spines, new_axes
from grinch.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_dendrogram(
    tree: Tree,
    labels: Sequence[Any] | npt.NDArray[Any] | None = None,
    n_clusters: int = 40,
    title: str = "",
    ax: Axes | None = None,
    clusters: Sequence[Any] | npt.NDArray[Any] | None = None,
) -> Axes:
    """Draw the top of a tree: its cut into ``n_clusters``, each with its size and, if known, its commonest label.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    labels : sequence, optional
        The true class of each point: written beside the branches, and what colours them.
    n_clusters : int, default=40
        How many branches to draw.
    title : str, optional
        A title; by default it says how many points there are.
    ax : Axes, optional
        Where to draw; a new figure by default.
    clusters : sequence, optional
        A flat clustering of the points, such as ``labels_``: it colours the branches instead of ``labels``.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> import matplotlib; matplotlib.use("Agg")
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0]]))
    >>> ax = plot_dendrogram(tree, ["a", "a", "b", "b"], n_clusters=3)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['b', 'b', 'a  (2 points)']
    """
    from matplotlib.collections import LineCollection

    if tree.n_leaves == 0:
        raise ValueError("tree must have at least one leaf; got an empty tree")
    check_n_clusters(n_clusters)
    branches = node_labels(tree, splits_n_clusters(tree, n_clusters))
    frontier = _frontier(tree, branches)
    of_points = branches[: tree.n_leaves]
    classes = None if labels is None else named("labels", labels, tree.n_leaves)
    groups = None if clusters is None else named("clusters", clusters, tree.n_leaves)
    captions = _captions(of_points, classes or groups, "" if classes else "cluster ")
    colors = _colors(of_points, groups or classes)
    ax = ax or new_axes(9, 1.2 + 0.22 * len(frontier))
    heights = tree.heights()
    spot, paint = _layout(tree, frontier, branches, colors)
    segments, strokes = [], []
    for v in spot:
        if v in frontier:
            continue
        left, right = tree.children(v)
        for child in (left, right):
            start = 0.0 if child in frontier else heights[child]
            segments.append([(start, spot[child]), (heights[v], spot[child])])
            strokes.append(paint[child])
        segments.append([(heights[v], spot[left]), (heights[v], spot[right])])
        strokes.append(paint[v])
    ax.add_collection(LineCollection(segments, colors=strokes, linewidths=1.6, capstyle="projecting"))
    ax.set_yticks(range(len(frontier)), [captions[branches[v]] for v in frontier], fontsize=8, color=INK)
    top = float(heights[tree.root]) or 1.0
    ax.set_xlim(top * 1.03, -top * 0.01)
    ax.yaxis.tick_right()
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.7, len(frontier) - 0.3)
    ax.set_xlabel("height (dissimilarity of the two sides of a merge)")
    ax.set_title(title or f"{tree.n_leaves:,} points, the top {len(frontier)} clusters", loc="left", fontsize=11)
    hide_spines(ax, ("top", "left", "right"))
    return ax


def _frontier(tree: Tree, branches: npt.NDArray[np.int64]) -> dict[int, int]:
    """The top node of each branch, from bottom to top of the picture, with its place."""
    preorder = tree.preorder()
    below = preorder[branches[preorder] >= 0]
    _, first = np.unique(branches[below], return_index=True)
    return {v: i for i, v in enumerate(below[np.sort(first)[::-1]].tolist())}


def _captions(of_points: npt.NDArray[np.int64], known: Named | None, before: str) -> list[str]:
    """What to write beside each branch: its commonest label and its size."""
    sizes = np.bincount(of_points)
    words = ["1 point" if size == 1 else f"{size:,} points" for size in sizes]
    if known is None:
        return words
    counts = known.counts(of_points)
    captions = []
    for size, word, code, n in zip(sizes, words, counts.argmax(axis=1), counts.max(axis=1), strict=True):
        share = f", {100 * n / size:.0f} %" if n < size else ""
        name = before + known.names[code] if known.names[code] else "no label"
        captions.append(name if size == 1 else f"{name}  ({word}{share})")
    return captions


def _colors(of_points: npt.NDArray[np.int64], known: Named | None) -> list[tuple[int, str]]:
    """For each branch the number of its commonest cluster or label, and the color of it."""
    if known is None:
        return [(0, INK)] * (int(of_points.max()) + 1)
    return [(code, known.color(code)) for code in known.counts(of_points).argmax(axis=1).tolist()]


def _layout(
    tree: Tree, frontier: dict[int, int], branches: npt.NDArray[np.int64], colors: list[tuple[int, str]]
) -> tuple[dict[int, float], dict[int, str]]:
    """Vertical place and color of every node at or above the cut, children before parents."""
    spot: dict[int, float] = {}
    paint: dict[int, tuple[int, str]] = {}
    for v in tree.preorder()[::-1].tolist():
        if v in frontier:
            spot[v], paint[v] = float(frontier[v]), colors[int(branches[v])]
        elif branches[v] < 0:
            left, right = tree.children(v)
            spot[v] = (spot[left] + spot[right]) / 2
            # Compared by number: two clusters may share a color.
            paint[v] = paint[left] if paint[left] == paint[right] else (-1, GREY)
    return spot, {v: color for v, (_, color) in paint.items()}
