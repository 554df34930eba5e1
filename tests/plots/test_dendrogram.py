"""What a dendrogram shows, and which branches in which order."""

from __future__ import annotations

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import rgb_to_hsv, to_hex, to_rgb
from scipy.cluster.hierarchy import linkage

from effort import trials
from grinch import Tree
from grinch.cuts import cluster_nodes, cut_n_clusters
from grinch.plots import plot_dendrogram
from grinch.plots.colors import COLORS
from grinch.plots.dendrogram import in_order, outline
from grinch.plots.style import GREY
from grinch.tree.blocks import display
from pictures import captions, linkage_on_a_line, outside, overlapping, texts
from trees import random_tree

# What is drawn, in this order; dots only where there are clusters.
LINES, WEDGES, BARS, DOTS = 0, 1, 2, 3


def strokes(ax) -> list[str]:
    return [to_hex(color) for color in ax.collections[LINES].get_colors()]


def widths(ax) -> np.ndarray:
    """How thick the last branches are, from top to bottom."""
    return np.array([np.ptp(path.vertices[:, 1]) for path in ax.collections[WEDGES].get_paths()])


def sizes(ax) -> np.ndarray:
    found = [re.search(r"([\d,]+) points", caption) for caption in captions(ax)]
    return np.array([int(count[1].replace(",", "")) if count else 1 for count in found])


def folded(ax) -> int:
    found = re.search(r"too small to draw, ([\d,]+) points in all", ax.get_xlabel())
    return int(found[1].replace(",", "")) if found else 0


def test_all_points_are_in_a_branch_or_folded_and_branches_are_as_thick_as_they_have_points(tree):
    for n_clusters in (2, 12, 40):
        ax = plot_dendrogram(tree, n_clusters=n_clusters)
        assert len(captions(ax)) <= n_clusters
        assert sizes(ax).sum() + folded(ax) == 300
        assert sum(int(text) for text in texts(ax)) <= folded(ax)
        assert widths(ax) / widths(ax).sum() == pytest.approx(sizes(ax) / sizes(ax).sum())
        # A line for every branch, and one across every split.
        k = len(captions(ax))
        assert len(ax.collections[LINES].get_segments()) == 2 * k - 1 + k - 1


def test_lines_are_at_the_heights_of_the_tree():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0]]))
    ax = plot_dendrogram(tree)
    across = [seg for seg in ax.collections[LINES].get_segments() if seg[0][0] == seg[1][0]]
    assert sorted(seg[0][0] for seg in across) == [1, 2, 6]
    along = [seg for seg in ax.collections[LINES].get_segments() if seg[0][0] != seg[1][0]]
    assert sorted(tuple(seg[:, 0]) for seg in along)[:6] == [(1, 0), (1, 0), (2, 0), (2, 0), (6, 1), (6, 2)]
    assert ax.get_xlim()[0] > 6
    assert ax.get_xlim()[1] == 0


def test_outliers_are_no_branches():
    rng = np.random.default_rng(0)
    points = np.r_[rng.normal(size=(500, 2)), 40 + rng.normal(size=(500, 2)), 1000 * rng.normal(size=(39, 2))]
    tree = Tree.from_scipy(linkage(points, "average"))
    ax = plot_dendrogram(tree, ["a"] * 500 + ["b"] * 500 + ["far"] * 39, n_clusters=2)
    assert sorted(captions(ax)) == ["a  (500 points)", "b  (500 points)"]
    assert texts(ax) == ["+39"]
    assert folded(ax) == 39


def test_labels_name_and_color_the_branches():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [2.0], [20.0], [21.0]], "complete"))
    ax = plot_dendrogram(tree, ["a", "a", "b", "c", None], n_clusters=2)
    assert sorted(captions(ax)) == ["a  (3 points, 67 %)", "c  (2 points, 50 %)"]
    assert GREY.lower() in strokes(ax)
    assert set(strokes(ax)) & set(COLORS)
    mixed = plot_dendrogram(tree, list("abcde"), n_clusters=2)
    assert sorted(captions(mixed)) == ["a and others  (3 points, 33 %)", "d  (2 points, 50 %)"]
    assert plot_dendrogram(tree, [None] * 5, n_clusters=1).get_yticklabels()[0].get_text() == "5 points"


def test_with_texts_the_label_is_beside_the_keywords():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [2.0], [20.0], [21.0]], "complete"))
    words = ["red apple", "apple", "apple", "stocks", "stocks"]
    ax = plot_dendrogram(tree, ["a", "a", "b", "c", "c"], n_clusters=2, texts=words)
    assert sorted(captions(ax)) == ["apple, red  (3, a 67 %)", "stocks  (2, c)"]
    assert GREY.lower() in strokes(ax)
    assert set(strokes(ax)) & set(COLORS)


def test_clusters_color_the_branches_below_them_and_labels_still_name_them():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [3.0], [20.0], [21.0]], "complete"))
    ax = plot_dendrogram(tree, clusters=[7, 7, 7, 8, 8], n_clusters=5)
    assert sorted(captions(ax)) == ["cluster 7"] * 3 + ["cluster 8"] * 2
    # Two splits in one cluster, one in the other, all of one color each; grey where they meet.
    counts = {color: strokes(ax).count(color) for color in set(strokes(ax))}
    assert sorted(counts.values()) == [1 + 1, 3 + 1, 5 + 2]
    assert counts[GREY.lower()] == 2
    again = plot_dendrogram(tree, labels=list("vwxyz"), clusters=[7, 7, 7, 8, 8], n_clusters=5)
    assert sorted(captions(again)) == list("vwxyz")
    assert set(strokes(again)) == set(strokes(ax))
    without = plot_dendrogram(tree, clusters=[7, 7, 7, -1, -1], n_clusters=2)
    assert sorted(captions(without)) == ["2 points", "cluster 7  (3 points)"]
    assert "in 1 cluster," in without.get_title(loc="left")


def test_dots_are_where_clusters_come_together(tree):
    labels = cut_n_clusters(tree, 7)
    ax = plot_dendrogram(tree, clusters=labels, min_size=1, n_clusters=60)
    heights = tree.heights()[cluster_nodes(tree, labels)]
    dots = ax.collections[DOTS].get_offsets()
    assert sorted(dots[:, 0]) == pytest.approx(sorted(heights))
    assert "dots: where the clusters come together" in ax.get_xlabel()
    # No cut of the tree: its clusters come together nowhere.
    assert len(plot_dendrogram(tree, clusters=np.arange(300) % 2).collections) == DOTS


def test_branches_of_several_clusters_have_colors_of_their_own(tree, blobs):
    for given in ({"clusters": range(300)}, {}):
        drawn = set(strokes(plot_dendrogram(tree, n_clusters=8, **given)))
        assert len(drawn) == 8 + 1
        assert drawn - set(COLORS) == {GREY.lower()}


def test_branches_of_many_labels_are_greyer():
    tree = Tree.from_scipy(linkage([[0.0], [0.1], [0.2], [20.0], [20.1], [20.2]], "complete"))
    ax = plot_dendrogram(tree, list("abcddd"), n_clusters=2)
    assert captions(ax) == ["a and others  (3 points, 33 %)", "d  (3 points)"]
    mixed, pure = (rgb_to_hsv(to_rgb(color))[1] for color in strokes(ax)[2:])
    assert 0 < mixed < 0.8 * pure


def test_clusters_that_share_a_color_are_not_taken_for_one():
    points = np.arange(22.0)[:, None] ** 2
    ax = plot_dendrogram(Tree.from_scipy(linkage(points, "single")), clusters=range(22), n_clusters=22)
    across = [seg for seg in ax.collections[LINES].get_segments() if seg[0][0] == seg[1][0]]
    assert len(across) == 21
    assert strokes(ax).count(GREY.lower()) == 21 + 21  # every split, and the branch above it


def test_names_keywords_and_ids_are_captions():
    tree = Tree.from_newick("((ape:1,bee:1):3,(cow:1,dog:1):3);")
    assert sorted(captions(plot_dendrogram(tree))) == ["ape", "bee", "cow", "dog"]
    clusters = [3, 3, 5, 5]
    ax = plot_dendrogram(tree, labels=list("wxyz"), n_clusters=2, clusters=clusters, names={3: "wild"})
    assert sorted(captions(ax)) == ["wild  (2 points)", "y  (2 points, 50 %)"]
    words = ["red apple", "red cherry", "blue sky", "blue sea"]
    assert sorted(captions(plot_dendrogram(tree, n_clusters=2, texts=words))) == [
        "blue, sea, sky  (2 points)",
        "red, apple, cherry  (2 points)",
    ]
    with pytest.raises(ValueError, match="names must be a dictionary from clusters to their names, and needs clusters"):
        plot_dendrogram(tree, names={3: "wild"})
    with pytest.raises(ValueError, match="texts must have one entry for each of the 4 points; got 1"):
        plot_dendrogram(tree, texts=["red"])


def test_vectors_decide_which_branches_are_side_by_side(rng):
    points = rng.normal(size=(50, 1)).cumsum(axis=0)
    tree = Tree.from_scipy(linkage(points, "average"))
    ax = plot_dendrogram(tree, labels=range(50), vectors=points, n_clusters=50, min_size=1)
    steps = np.diff(points[[int(caption) for caption in captions(ax)], 0])
    assert (steps > 0).all() or (steps < 0).all()
    with pytest.raises(ValueError, match=r"vectors must be of shape \(50, n_features\), a row for each point; got"):
        plot_dendrogram(tree, vectors=points[:7])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_points(n):
    tree = Tree.from_scipy(linkage(np.arange(float(n))[:, None])) if n > 1 else Tree()
    if n == 1:
        tree.attach()
    ax = plot_dendrogram(tree, labels=list("abc")[:n], clusters=[0] * n)
    assert sorted(captions(ax)) == list("abc")[:n]
    assert (overlapping(ax), outside(ax)) == ([], [])


def test_duplicates_are_drawn_by_their_splits():
    ax = plot_dendrogram(Tree.from_scipy(linkage(np.zeros((64, 2)))), clusters=[0] * 64, n_clusters=8)
    assert ax.get_xlabel().startswith("splits (all merges are at height 0)")
    assert len(ax.collections) == DOTS
    assert ax.get_xlim()[0] >= 1


def test_merges_below_what_they_join_are_drawn_level_with_it():
    tree = Tree.from_merges(np.array([[0, 1], [4, 2], [5, 3]]), np.array([-5.0, -1.0, -9.0]), 0.0)
    across = [seg for seg in plot_dendrogram(tree).collections[LINES].get_segments() if seg[0][1] != seg[1][1]]
    assert sorted(seg[0][0] for seg in across) == [5, 5, 9]


def test_nothing_overlaps_or_is_cut_off(tree, blobs):
    names = [f"a class with quite a long name, and more of it, {k}" for k in blobs[1]]
    # Every day on a figure of its own and on a small one; at night also on one of four.
    small, fourth = plt.subplots(figsize=(4, 3))[1], plt.subplots(2, 2, layout="constrained")[1][0, 0]
    for where in (None, small, fourth)[: trials(2, 3)]:
        ax = plot_dendrogram(tree, names, clusters=cut_n_clusters(tree, 9), n_clusters=60, min_size=1, ax=where)
        assert overlapping(ax) == []
        assert where is not None or outside(ax) == []
        assert len(captions(ax)) >= (60 if where is None else 3)
        assert all("…" in caption for caption in captions(ax) if "points" in caption)


@pytest.mark.slow
def test_a_million_points():
    n = 1_000_000
    rng = np.random.default_rng(0)
    points = rng.integers(0, 50, n) * 10 + rng.random(n)
    order = np.argsort(points)
    # Neighbours on a line meet by their distance: single linkage.
    tree = Tree.from_scipy(linkage_on_a_line(points[order]))
    clusters = (points[order] // 10).astype(int)
    ax = plot_dendrogram(tree, labels=clusters.astype(str), clusters=clusters, n_clusters=50)
    assert len(captions(ax)) == 50
    assert sizes(ax).sum() == n
    assert all("%" not in caption for caption in captions(ax))


def test_a_branch_of_two_clusters_is_not_called_by_one_of_them():
    """Even where one has a few more points; strays of another cluster do not count."""
    merges = linkage(np.concatenate([np.arange(11.0) / 100, 5 + np.arange(9.0) / 100])[:, None])
    tree = Tree.from_scipy(merges)
    two = plot_dendrogram(tree, n_clusters=1, clusters=[0] * 11 + [1] * 9)
    assert captions(two) == ["2 clusters  (20 points)"]
    most = plot_dendrogram(tree, n_clusters=1, clusters=[0] * 18 + [1] * 2)
    assert captions(most) == ["cluster 0 and 1 more  (20 points)"]
    named = plot_dendrogram(tree, n_clusters=1, clusters=[0] * 18 + [1] * 2, names={0: "low"})
    assert captions(named) == ["low and 1 more  (20 points)"]
    stray = plot_dendrogram(tree, n_clusters=2, clusters=[0] * 10 + [1] * 10)
    assert captions(stray) == ["cluster 0  (11 points)", "cluster 1  (9 points)"]


def outlined(tree: Tree, n_branches: int, min_size: int | None = None):
    return outline(tree, display(tree).starts, tree.heights(), n_branches, min_size)


def smaller_side(tree: Tree, v: int) -> int:
    return min(tree.size(child) for child in tree.children(v))


@pytest.mark.parametrize("n_branches", [1, 2, 5, 12, 100])
@pytest.mark.parametrize("min_size", [1, 3])
def test_the_splits_that_are_drawn_have_the_largest_smaller_sides(rng, n_branches, min_size):
    for _ in range(10):
        tree = random_tree(rng, 60)
        branches = outlined(tree, n_branches, min_size)
        drawn = [branch.split for branch in branches if branch.parts]
        internal = tree.internal_nodes().tolist()
        allowed = sorted((smaller_side(tree, v) for v in internal if smaller_side(tree, v) >= min_size), reverse=True)
        assert sorted((smaller_side(tree, v) for v in drawn), reverse=True) == allowed[: n_branches - 1]


def test_two_groups_at_the_end_of_a_chain_are_found():
    points = np.r_[np.arange(40.0) / 40, 5 + np.arange(60.0) / 60, 10.0 * 1.3 ** np.arange(1, 60)]
    tree = Tree.from_scipy(linkage(points[:, None], "single"))
    branches = outlined(tree, 2)
    assert [tree.size(branch.node) for branch in branches] == [159, 60, 40]
    assert branches[0].folded == 59


def test_every_split_turns_the_nearest_ends_towards_each_other_and_keeps_branches_together(rng):
    for _ in range(20):
        tree = random_tree(rng, 60)
        branches = outlined(tree, 20, 1)
        distances = rng.random((len(branches), len(branches)))
        distances += distances.T
        for known in (None, distances):
            order = in_order(branches, tree.sizes(), known)
            place = {i: k for k, i in enumerate(order)}
            last = {}
            for i in range(len(branches) - 1, -1, -1):
                parts = [last[part] for part in branches[i].parts]
                last[i] = sorted((p for part in parts for p in part), key=place.get) if parts else [i]
                spots = [place[j] for j in last[i]]
                assert spots == list(range(spots[0], spots[0] + len(spots)))
                if parts and known is not None:
                    upper, lower = sorted(parts, key=lambda part: place[part[0]])
                    ends = [distances[a, b] for a in (upper[0], upper[-1]) for b in (lower[0], lower[-1])]
                    assert distances[upper[-1], lower[0]] == min(ends)


def test_without_distances_the_larger_side_comes_first():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [20.0], [21.0], [22.5], [40.0]]))
    branches = outlined(tree, 3, 1)
    assert [tree.size(branches[i].node) for i in in_order(branches, tree.sizes())] == [3, 1, 2]


def test_what_is_written_below_is_inside_beside_long_names():
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(8, 4)) * 20, 30, axis=0) + rng.normal(size=(240, 4))
    tree = Tree.from_scipy(linkage(np.concatenate([rows, rng.normal(size=(25, 4)) * 40]), "average"))
    names = [f"a class with a name that is rather long, as it goes on and on, {i // 30}" for i in range(265)]
    ax = plot_dendrogram(tree, names, n_clusters=16, clusters=[min(i // 30, 8) for i in range(265)])
    assert ax.get_xlabel().replace("\n", " ").endswith("points in all")
    assert "dots: where the clusters come together" in ax.get_xlabel().replace("\n", " ")
    assert outside(ax) == []
