"""What a dendrogram shows."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import to_hex
from scipy.cluster.hierarchy import linkage

from grinch import Tree
from grinch.plots import plot_dendrogram
from grinch.plots.style import GREY, PALETTE


def strokes(ax) -> set[str]:
    return {to_hex(color) for color in ax.collections[0].get_colors()}


def test_a_dendrogram_has_three_lines_for_each_merge_and_every_point_in_a_branch(tree, blobs):
    ax = plot_dendrogram(tree, n_clusters=12)
    assert len(ax.collections[0].get_segments()) == 3 * 11
    sizes = [int(tick.get_text().split()[0]) for tick in ax.get_yticklabels()]
    assert len(sizes) == 12
    assert sum(sizes) == 300


def test_labels_name_and_color_the_branches():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [2.0], [20.0], [21.0]], "complete"))
    ax = plot_dendrogram(tree, ["a", "a", "b", "c", None], n_clusters=2)
    captions = sorted(tick.get_text() for tick in ax.get_yticklabels())
    assert captions == ["a  (3 points, 67 %)", "c  (2 points, 50 %)"]
    assert PALETTE[0].lower() in strokes(ax)
    assert GREY.lower() in strokes(ax)


def test_clusters_color_the_branches_below_them_and_labels_still_name_them():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [3.0], [20.0], [21.0]], "complete"))
    ax = plot_dendrogram(tree, clusters=[7, 7, 7, 8, 8], n_clusters=5)
    assert sorted(tick.get_text() for tick in ax.get_yticklabels()) == ["cluster 7"] * 3 + ["cluster 8"] * 2
    # Two merges in one cluster, one in the other, all of one color each; grey where they meet.
    colors = [to_hex(color) for color in ax.collections[0].get_colors()]
    assert colors.count(PALETTE[0].lower()) == 2 * 3 + 1
    assert colors.count(PALETTE[1].lower()) == 1 * 3 + 1
    assert colors.count(GREY.lower()) == 1
    ax = plot_dendrogram(tree, labels=list("vwxyz"), clusters=[7, 7, 7, 8, 8], n_clusters=5)
    assert sorted(tick.get_text() for tick in ax.get_yticklabels()) == list("vwxyz")
    assert strokes(ax) == {PALETTE[0].lower(), PALETTE[1].lower(), GREY.lower()}


def test_clusters_that_share_a_color_are_not_taken_for_one():
    points = np.arange(22.0)[:, None] ** 2
    ax = plot_dendrogram(Tree.from_scipy(linkage(points, "single")), clusters=range(22), n_clusters=22)
    joints = [seg for seg in ax.collections[0].get_segments() if seg[0][0] == seg[1][0]]
    colors = [to_hex(c) for c in ax.collections[0].get_colors()]
    assert len(joints) == 21
    assert colors.count(GREY.lower()) == 21 + 20  # every merge, and the branch of every merge but the root
