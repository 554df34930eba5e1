"""Pictures of a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from grinch.cuts import node_labels, splits_n_clusters
from grinch.tree import Tree
from grinch.tree.links import LEFT, RIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_dendrogram(
    tree: Tree, labels: Sequence[object] | None = None, n_clusters: int = 40, title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw the top of a tree: its cut into ``n_clusters``, each with its size and, if known, its commonest label.

    >>> from scipy.cluster.hierarchy import linkage
    >>> import matplotlib; matplotlib.use("Agg")
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0]]))
    >>> ax = plot_dendrogram(tree, ["a", "a", "b", "b"], n_clusters=3)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['b', 'b', 'a  (2 points)']
    """
    import matplotlib.pyplot as plt
    from matplotlib.collections import LineCollection

    if tree.n_leaves == 0:
        raise ValueError("tree must have at least one leaf; got an empty tree")
    clusters = node_labels(tree, splits_n_clusters(tree, n_clusters))
    frontier = _frontier(tree, clusters)
    captions, colors = _captions(tree, clusters, labels)
    if ax is None:
        _, ax = plt.subplots(figsize=(9, 1.2 + 0.22 * len(frontier)), layout="constrained")
    heights = tree.heights()
    spot, paint = _layout(tree, frontier, clusters, colors)
    segments, strokes = [], []
    for v in spot:
        if clusters[v] >= 0 and v in frontier:
            continue
        left, right = int(tree.links.table[v, LEFT]), int(tree.links.table[v, RIGHT])
        for child in (left, right):
            start = 0.0 if child in frontier else heights[child]
            segments.append([(start, spot[child]), (heights[v], spot[child])])
            strokes.append(paint[child])
        segments.append([(heights[v], spot[left]), (heights[v], spot[right])])
        strokes.append(paint[v])
    ax.add_collection(LineCollection(segments, colors=strokes, linewidths=1.4))
    ax.set_yticks(range(len(frontier)), [captions[clusters[v]] for v in frontier], fontsize=8)
    top = float(heights[tree.root]) or 1.0
    ax.set_xlim(top * 1.03, -top * 0.01)
    ax.yaxis.tick_right()
    ax.tick_params(axis="y", length=0)
    for tick, v in zip(ax.get_yticklabels(), frontier, strict=True):
        tick.set_color(paint[v])
    ax.set_ylim(-0.7, len(frontier) - 0.3)
    ax.set_xlabel("height (dissimilarity of the two sides of a merge)")
    ax.set_title(title or f"{tree.n_leaves:,} points, the top {len(frontier)} clusters", loc="left", fontsize=11)
    for side in ("top", "left", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _frontier(tree: Tree, clusters: npt.NDArray[np.int64]) -> dict[int, int]:
    """The top node of each cluster, from bottom to top of the picture, with its place."""
    seen: set[int] = set()
    tops = []
    for v in tree.preorder()[clusters[tree.preorder()] >= 0].tolist():
        if clusters[v] not in seen:
            seen.add(int(clusters[v]))
            tops.append(v)
    return {v: i for i, v in enumerate(reversed(tops))}


def _captions(
    tree: Tree, clusters: npt.NDArray[np.int64], labels: Sequence[object] | None
) -> tuple[dict[int, str], dict[int, Any]]:
    """What to write beside each cluster, and in which color: one color a label, grey for none."""
    import matplotlib.pyplot as plt

    of_points = clusters[: tree.n_leaves]
    sizes = Counter(of_points.tolist())
    if labels is None:
        return {c: f"{n:,} points" if n > 1 else "1 point" for c, n in sizes.items()}, dict.fromkeys(sizes, "#444444")
    tallies: dict[int, Counter[str]] = {c: Counter() for c in sizes}
    for cluster, label in zip(of_points.tolist(), labels, strict=True):
        tallies[cluster][str(label)] += 1
    palette = plt.get_cmap("tab10")
    common = {c: tally.most_common(1)[0] for c, tally in tallies.items()}
    ranked = [label for label, _ in Counter(str(label) for label in labels).most_common()]
    colors = {c: palette(ranked.index(label) % 10) for c, (label, _) in common.items()}

    def caption(cluster: int) -> str:
        label, n = common[cluster]
        if sizes[cluster] == 1:
            return label
        share = f", {100 * n / sizes[cluster]:.0f} %" if n < sizes[cluster] else ""
        return f"{label}  ({sizes[cluster]:,} points{share})"

    return {c: caption(c) for c in sizes}, colors


def _layout(
    tree: Tree, frontier: dict[int, int], clusters: npt.NDArray[np.int64], colors: dict[int, Any]
) -> tuple[dict[int, float], dict[int, Any]]:
    """Vertical place and color of every node at or above the cut, children before parents."""
    spot: dict[int, float] = {}
    paint: dict[int, Any] = {}
    for v in tree.preorder()[::-1].tolist():
        if v in frontier:
            spot[v], paint[v] = float(frontier[v]), colors[int(clusters[v])]
        elif clusters[v] < 0:
            left, right = int(tree.links.table[v, LEFT]), int(tree.links.table[v, RIGHT])
            spot[v] = (spot[left] + spot[right]) / 2
            paint[v] = paint[left] if paint[left] == paint[right] else "#888888"
    return spot, paint
