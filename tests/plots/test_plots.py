"""What is drawn, read back from the Axes."""

from __future__ import annotations

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text
from scipy.cluster.hierarchy import linkage

from grinch import Tree
from grinch.plots import plot_comparison, plot_curves, plot_dendrogram, plot_icicle
from grinch.plots.curves import spread
from grinch.plots.style import GREY, PALETTE


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture
def tree(blobs):
    return Tree.from_scipy(linkage(blobs[0], "ward"))


def caterpillar(n: int) -> Tree:
    """One point leaves at a time: n - 1 levels."""
    rows = np.column_stack([np.r_[0, n + np.arange(n - 2)], np.arange(1, n), np.arange(1, n), np.arange(2, n + 1)])
    return Tree.from_scipy(rows.astype(float))


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def overlapping(ax) -> list[tuple[str, str]]:
    """Pairs of texts that lie on each other in the finished picture."""
    ax.figure.canvas.draw()
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in ax.texts]
    return [(a, b) for i, (a, one) in enumerate(boxes) for b, two in boxes[:i] if one.overlaps(two)]


def test_pictures_import_matplotlib_when_drawn():
    code = "import sys, grinch.plots; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# Dendrogram ----------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("draw", [plot_dendrogram, plot_icicle])
def test_pictures_of_a_tree_refuse_what_does_not_fit(draw, tree):
    with pytest.raises(ValueError, match="tree must have at least one leaf"):
        draw(Tree())
    with pytest.raises(ValueError, match="labels must have one entry for each of the 300 points of the tree; got 2"):
        draw(tree, labels=["a", "b"])
    _, given = plt.subplots()
    assert draw(tree, ax=given) is given


# Icicle --------------------------------------------------------------------------------------------------------------


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


# Curves --------------------------------------------------------------------------------------------------------------


def test_curves_hold_the_values_and_name_their_ends():
    series = {"grinch": ([1, 10, 100], [1, 2, 3]), "HAC": ([1, 10], [1.0, np.nan])}
    ax = plot_curves(series, "points", "seconds", log="x")
    assert [line.get_ydata().tolist()[:1] for line in ax.lines] == [[1], [1]]
    assert texts(ax) == ["grinch", "HAC"]
    assert [text.xy for text in ax.texts] == [(100, 3), (1, 1)]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("points", "seconds")


def test_names_of_curves_that_end_together_do_not_overlap():
    ax = plot_curves({f"method {i}": ([1, 2], [0, 1 + i / 1000]) for i in range(12)}, log="")
    assert len(texts(ax)) == 12
    assert overlapping(ax) == []
    frame = ax.get_window_extent()
    assert all(frame.y0 - 9 < Text.get_window_extent(text).y0 < frame.y1 for text in ax.texts)
    looks = {(line.get_color(), line.get_linestyle()) for line in ax.lines}
    assert len(looks) == 12


def test_spread_keeps_the_order_and_the_gap(rng):
    for _ in range(50):
        wanted = rng.random(8).tolist()
        places = spread(wanted, 0.07)
        assert np.argsort(places).tolist() == np.argsort(wanted).tolist()
        assert np.diff(np.sort(places)).min() >= 0.07 - 1e-9
    assert spread([0.1, 0.5], 0.07) == [0.1, 0.5]


def test_curves_refuse_what_cannot_be_drawn():
    with pytest.raises(ValueError, match="series must have at least one line"):
        plot_curves({})
    with pytest.raises(ValueError, match=r"series\['a'\] must be two lists .* got shapes \(2,\) and \(1,\)"):
        plot_curves({"a": ([1, 2], [1])})
    with pytest.raises(ValueError, match="log must be one of '', 'x', 'y', 'xy'; got 'yx'"):
        plot_curves({"a": ([1], [1])}, log="yx")


# Bars ----------------------------------------------------------------------------------------------------------------


def test_bars_are_means_with_deviations_or_reasons():
    rows = [
        {"method": "grinch", "purity": [0.4, 0.6]},
        {"method": "online", "purity": 0.25},
        {"method": "HAC", "purity": "out of memory"},
        {"method": "PERCH"},
        {"method": "Birch", "purity": [np.nan]},
    ]
    ax = plot_comparison(rows, "purity", highlight=["grinch"], missing="not run")
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([0.5, 0.25, 0, 0, 0])
    assert texts(ax) == ["0.500 ± 0.100", "0.250", "out of memory", "not run", "not run"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["grinch", "online", "HAC", "PERCH", "Birch"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first row on top
    assert len(ax.containers) == 2  # the bars, and one error bar
    assert ax.patches[0].get_facecolor() != ax.patches[1].get_facecolor()
    assert overlapping(ax) == []


def test_figures_of_bars_have_as_many_digits_as_make_sense_and_fit():
    rows = [{"name": str(v), "seconds": v} for v in (0.1234, 5.678, 56.78, 12345.6)]
    ax = plot_comparison(rows, "seconds", method="name")
    assert texts(ax) == ["0.123", "5.68", "56.8", "12,346"]
    ax.figure.canvas.draw()
    right = ax.get_window_extent().x1
    assert all(text.get_window_extent().x1 <= right for text in ax.texts)


def test_bars_refuse_rows_without_names_or_numbers():
    with pytest.raises(ValueError, match="rows must have at least one method"):
        plot_comparison([], "purity")
    with pytest.raises(ValueError, match=r"rows\[0\] must have a name under 'method'; it has 'name'"):
        plot_comparison([{"name": "a"}], "purity")
    with pytest.raises(ValueError, match=r"the 'purity' of 'a' must be a number, a list of numbers, or a text"):
        plot_comparison([{"method": "a", "purity": {"mean": 1}}], "purity")
