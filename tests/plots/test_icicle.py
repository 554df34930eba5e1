"""What an icicle shows."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.cluster.hierarchy import linkage

from effort import by_turns
from grinch import Tree
from grinch.cuts import cut_n_clusters
from grinch.plots import plot_icicle
from grinch.plots.colors import COLORS
from grinch.plots.groups import default_size
from grinch.plots.style import PALER
from grinch.tree.blocks import blocks, display
from pictures import linkage_on_a_line, outside, overlapping, texts


def test_without_gaps_every_row_of_an_icicle_is_full():
    tree = Tree.from_scipy(linkage(np.arange(16.0)[:, None] ** 1.001, "complete"))
    ax = plot_icicle(tree, max_nodes=31)
    assert len(ax.patches) == 31
    bottom = max(p.get_y() + p.get_height() for p in ax.patches)
    last = [p for p in ax.patches if p.get_y() + p.get_height() == bottom]
    assert sum(p.get_width() for p in last) == pytest.approx(1)
    assert ax.patches[0].get_width() == 1


@pytest.mark.parametrize("max_nodes", [1, 2, 3, 10, 60])
def test_blocks_lie_inside_the_block_above_and_never_on_each_other(tree, blobs, max_nodes):
    ax = plot_icicle(tree, blobs[1], max_nodes=max_nodes)
    assert min(max_nodes, 3) - (max_nodes == 2) <= len(ax.patches) <= max_nodes
    boxes = [(p.get_x(), p.get_x() + p.get_width(), p.get_y(), p.get_y() + p.get_height()) for p in ax.patches]
    for i, (left, right, top, low) in enumerate(boxes):
        assert top == 0 or any(a <= left + 1e-9 and right <= b + 1e-9 and d == top for a, b, _, d in boxes)
        for other in boxes[:i]:
            assert min(right, other[1]) - max(left, other[0]) < 1e-9 or min(low, other[3]) <= max(top, other[2])


def test_blocks_have_the_sizes_of_the_nodes_and_the_color_of_their_commonest_label():
    points = np.r_[np.zeros(6) + np.arange(6) / 10, 50 + np.arange(3) / 10, 99 + np.arange(1) / 10][:, None]
    tree = Tree.from_scipy(linkage(points, "average"))
    ax = plot_icicle(tree, ["a"] * 6 + ["b"] * 3 + ["c"], max_nodes=3)
    widths = [p.get_width() for p in ax.patches]
    assert widths == pytest.approx([1, 0.6, 0.4])
    assert texts(ax) == ["a\n(10)", "a\n(6)", "b\n(4)"]
    assert to_hex(ax.patches[1].get_facecolor()) in COLORS
    assert to_hex(ax.patches[2].get_facecolor()) not in COLORS  # mixed, so paler


def test_texts_of_an_icicle_never_overlap_and_stay_inside_their_blocks(tree, blobs):
    for i, name in enumerate(("class {}", "a class with quite a long name, number {}", "{}")):
        for size in by_turns((None, (4, 3)), i):
            where = size and plt.subplots(figsize=size)[1]
            ax = plot_icicle(tree, [name.format(k) for k in blobs[1]], clusters=cut_n_clusters(tree, 8), ax=where)
            assert len(texts(ax)) > 5
            assert overlapping(ax) == []
            boxes = [patch.get_window_extent() for patch in ax.patches]
            for text in ax.texts:
                own = text.get_window_extent()
                assert any(b.x0 <= own.x0 and own.x1 <= b.x1 and b.y0 <= own.y0 and own.y1 <= b.y1 for b in boxes)
    assert outside(plot_icicle(tree, blobs[1])) == []


def test_clusters_color_the_blocks_and_are_outlined(tree):
    labels = cut_n_clusters(tree, 5)
    ax = plot_icicle(tree, clusters=labels)
    sizes = np.bincount(labels) / 300
    outlines = [path.vertices for path in ax.collections[0].get_paths()]
    assert sorted(np.ptp(box[:, 0]) for box in outlines) == pytest.approx(sorted(sizes))
    bottom = ax.get_ylim()[0]
    for box in outlines:
        assert box[:, 1].max() == bottom
        inside = [p for p in ax.patches if box[:, 0].min() - 1e-9 <= p.get_x() < box[:, 0].max() - 1e-9]
        colors = {to_hex(p.get_facecolor()) for p in inside if p.get_y() >= box[:, 1].min()}
        assert len(colors) == 1
        assert colors < set(COLORS)
    assert to_hex(ax.patches[0].get_facecolor()) == PALER.lower()
    assert texts(ax)[0] == "5 clusters\n(300)"
    assert "outlined: the clusters" in ax.get_xlabel()
    assert ax.get_title(loc="left").startswith("300 points in 5 clusters, ")


@pytest.mark.parametrize("largest", [[30], [30, 30], [300], [400, 400], [9_000]])
def test_the_whole_tree_is_called_by_all_its_clusters(largest, rng):
    """Whatever their sizes: clusters of less than a twentieth of all points count, too."""
    sizes = [*largest, *rng.integers(2, 20, size=200).tolist()]
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    gaps = np.where(np.diff(clusters) > 0, rng.uniform(5, 50, len(clusters) - 1), rng.random(len(clusters) - 1))
    tree = Tree.from_scipy(linkage_on_a_line(np.concatenate([[0.0], np.cumsum(gaps)])))
    ax = plot_icicle(tree, clusters=clusters)
    said = "cluster 0 and 200 more" if largest == [9_000] else f"{len(sizes)} clusters"
    assert texts(ax)[0] == f"{said}\n({len(clusters):,})"
    assert f"{len(clusters):,} points in {len(sizes)} clusters" in ax.get_title(loc="left")


def test_strays_of_another_cluster_are_not_counted():
    points = np.r_[np.arange(20) / 100, 2 + np.arange(20) / 100, 50 + np.arange(60) / 100][:, None]
    tree = Tree.from_scipy(linkage(points, "average"))
    clusters = np.repeat([3, 5, 7], [20, 20, 60])
    clusters[0] = 7
    assert texts(plot_icicle(tree, clusters=clusters, max_nodes=3)) == [
        "3 clusters\n(100)",
        "cluster 7\n(60)",
        "2 clusters\n(40)",
    ]


@pytest.mark.parametrize("given", [{"clusters": range(300)}, {}])
def test_the_lowest_blocks_of_several_clusters_have_colors_of_their_own(given, tree):
    ax = plot_icicle(tree, **given)
    assert len(ax.collections[0].get_paths()) == 0
    bottom = ax.get_ylim()[0]
    lowest = [to_hex(p.get_facecolor()) for p in ax.patches if p.get_y() + p.get_height() == bottom]
    assert len(set(lowest)) == len(lowest) > 10
    assert set(lowest) < set(COLORS)
    assert {to_hex(p.get_facecolor()) for p in ax.patches} == {*lowest, PALER.lower()}


def test_names_and_keywords_are_in_the_blocks():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [20.0], [21.0]]))
    ax = plot_icicle(tree, clusters=[3, 3, 5, 5], names={3: "low"}, max_nodes=3)
    assert texts(ax) == ["2 clusters\n(4)", "low\n(2)", "cluster 5\n(2)"]
    words = ["red apple", "red cherry", "blue sky", "blue sea"]
    found = texts(plot_icicle(tree, texts=words, max_nodes=3))
    assert found == ["4", "red, apple, cherry\n(2)", "blue, sea, sky\n(2)"]


def test_the_blocks_are_those_that_the_explorer_shows(tree):
    shown = display(tree)
    ax = plot_icicle(tree, max_nodes=1000)
    found = blocks(tree, shown.starts, 0, 300, default_size(300))
    assert [p.get_x() for p in ax.patches] == (shown.starts[found.nodes] / 300).tolist()
    assert [p.get_y() for p in ax.patches] == found.rows.tolist()


@pytest.mark.slow
def test_an_icicle_of_a_million_points(rng):
    n = 1_000_000
    centres = np.repeat(np.arange(40), n // 40)
    tree = Tree.from_scipy(linkage_on_a_line(centres * 10 + np.sort(rng.random((40, n // 40)), axis=1).ravel()))
    ax = plot_icicle(tree, clusters=centres, max_nodes=100)
    assert len(ax.collections[0].get_paths()) == 40
    assert overlapping(ax) == []


def test_blocks_are_called_by_labels_that_most_have_and_else_by_keywords():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [2.0], [50.0], [51.0], [52.0]]))
    words = ["apple pie"] * 3 + ["bond market"] * 3
    ax = plot_icicle(tree, ["a", "a", "b", "x", "y", "z"], max_nodes=3, texts=words)
    called = [text.partition("\n")[0] for text in texts(ax)]
    assert called[1] == "a"
    assert called[2].startswith("bond")


def test_clusters_are_outlined_where_a_few_other_points_are_beside_them():
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(6)[:, None] * 50.0, 40, axis=0) + rng.normal(size=(240, 1))
    # Two points beside each group, which no cluster has.
    rows = np.concatenate([rows, np.repeat(np.arange(6)[:, None] * 50.0, 2, axis=0) + [[8.0], [9.0]] * 6])
    labels = np.append(np.repeat(np.arange(6), 40), np.full(12, -1))
    ax = plot_icicle(Tree.from_scipy(linkage(rows, "average")), clusters=labels, max_nodes=40)
    outlines = [path.vertices for path in ax.collections[0].get_paths()]
    assert sorted(np.ptp(box[:, 0]) * 252 for box in outlines) == pytest.approx([42] * 6)
