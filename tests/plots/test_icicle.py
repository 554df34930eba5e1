"""What an icicle shows."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.cluster.hierarchy import linkage

from grinch import Tree
from grinch.plots import plot_icicle
from grinch.plots.style import PALETTE
from pictures import overlapping, texts


def caterpillar(n: int) -> Tree:
    """One point leaves at a time: n - 1 levels."""
    rows = np.column_stack([np.r_[0, n + np.arange(n - 2)], np.arange(1, n), np.arange(1, n), np.arange(2, n + 1)])
    return Tree.from_scipy(rows.astype(float))


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
    assert len(ax.patches) == max_nodes - (max_nodes % 2 == 0)
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
    assert to_hex(ax.patches[1].get_facecolor()) == PALETTE[0].lower()
    assert to_hex(ax.patches[2].get_facecolor()) != PALETTE[1].lower()  # mixed, so paler


def test_a_tree_as_deep_as_it_has_points_is_one_block():
    ax = plot_icicle(caterpillar(100_000))
    assert [p.get_width() for p in ax.patches] == [1]
    assert texts(ax) == ["100,000"]


def test_two_groups_at_the_bottom_of_a_deep_tree_are_found():
    rows = linkage(
        np.r_[np.arange(40.0) / 40, 5 + np.arange(60.0) / 60, 10.0 * 1.3 ** np.arange(1, 60)][:, None], "single"
    )
    ax = plot_icicle(Tree.from_scipy(rows), max_nodes=3)
    assert [p.get_width() for p in ax.patches] == pytest.approx([1, 60 / 159, 40 / 159])
    assert max(p.get_y() for p in ax.patches) == 1


def test_a_single_point_is_a_block():
    tree = Tree()
    tree.attach()
    assert texts(plot_icicle(tree, ["x"])) == ["x\n(1)"]


def test_texts_of_an_icicle_never_overlap(tree, blobs):
    ax = plot_icicle(tree, [f"class {k}" for k in blobs[1]])
    assert len(texts(ax)) > 5
    assert overlapping(ax) == []


@pytest.mark.parametrize("wrong", [0, -3, 2.5, True])
def test_max_nodes_must_be_a_count(tree, wrong):
    with pytest.raises(ValueError, match="max_nodes must be a whole number of at least 1; got"):
        plot_icicle(tree, max_nodes=wrong)
