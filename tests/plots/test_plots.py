"""What all plots share: groups and their labels, the axis of heights, and refusals."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from grinch import Tree
from grinch.cuts import cluster_nodes, collapse, cut_n_clusters
from grinch.plots import plot_clusters, plot_comparison, plot_curves, plot_dendrogram, plot_icicle
from grinch.plots.groups import default_size, group_labels, whole_nodes
from grinch.plots.style import scale_of
from grinch.tree.blocks import display
from refusals import refused
from trees import chain, random_tree


def test_pictures_import_matplotlib_when_drawn():
    code = "import sys, grinch.plots; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("draw", [plot_dendrogram, plot_icicle])
def test_pictures_of_a_tree_refuse_what_does_not_fit(draw, tree):
    refused("tree must have at least one leaf", draw, Tree())
    refused("labels must have one entry for each of the 300 points of the tree; got 2", draw, tree, labels=["a", "b"])
    refused("must be a whole number of at least 1; got 0", draw, tree, None, 0)
    _, given = plt.subplots()
    assert draw(tree, ax=given) is given


# No formula that matplotlib could read, if it tried.
DOLLARS = r"$\frac{$ \no"
PICTURES = {
    "dendrogram": lambda tree, names, **more: plot_dendrogram(tree, labels=names, **more),
    "dendrogram of texts": lambda tree, names, **more: plot_dendrogram(tree, texts=names, clusters=names, **more),
    "icicle": lambda tree, names, **more: plot_icicle(tree, labels=names, **more),
    "icicle of texts": lambda tree, names, **more: plot_icicle(tree, texts=names, clusters=names, **more),
    "clusters": lambda tree, names, **more: plot_clusters(
        collapse(tree, cut_n_clusters(tree, 2)).described(names=[DOLLARS, "b"]), **more
    ),
    "comparison": lambda tree, names, **more: plot_comparison(
        [{"method": DOLLARS, DOLLARS: 0.5}, {"method": "b", DOLLARS: f"{DOLLARS} failed"}], DOLLARS, **more
    ),
    "curves": lambda tree, names, **more: plot_curves(
        {DOLLARS: ([1, 2], [1, 2])}, xlabel=DOLLARS, ylabel=DOLLARS, **more
    ),
}


@pytest.mark.parametrize("is_given", [False, True])
@pytest.mark.parametrize("name", PICTURES)
def test_dollar_signs_begin_no_formula(name, is_given, tree):
    ax = None
    if is_given:
        ax = plt.subplots()[1]
        ax.figure.canvas.draw()  # so that ticks are there
    names = [f"{DOLLARS} {leaf % 3}" for leaf in range(300)]
    drawn = PICTURES[name](tree, names, title=DOLLARS, ax=ax)
    drawn.figure.canvas.draw()
    written = [text for text in drawn.findobj(Text) if "$" in text.get_text()]
    assert DOLLARS in [text.get_text() for text in written]
    assert not any(text.get_parse_math() for text in written)


@pytest.mark.parametrize("draw", [plot_dendrogram, plot_icicle])
def test_a_chain_is_one_group_with_all_its_points(draw):
    assert draw(chain(20_000)).get_title(loc="left") == "20,000 points, no split into two groups of some size"
    assert draw(random_tree(None, 1), ["x"]).get_title(loc="left") == "1 point"


def test_groups_worth_a_name():
    assert [default_size(n) for n in (1, 19, 20, 60, 100, 2_500, 10_000, 1_000_000)] == [1, 1, 1, 3, 5, 5, 20, 2_000]


def labelled(n, **labels):
    tree = random_tree(np.random.default_rng(0), n)
    (parameter,) = labels
    return group_labels(parameter, labels[parameter], tree, display(tree))


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", None, "b", ""],
        np.array(["b", "a", "", "b", ""]),
        pd.Series(["b", "a", np.nan, "b", pd.NA]),
        [("b",), ("a",), None, ("b",), float("nan")],
    ],
)
def test_labels_are_numbered_by_how_common_they_are_and_may_be_missing(labels):
    found = labelled(5, labels=labels)
    assert found.codes.tolist() == [0, 1, -1, 0, -1]
    assert [str(value) for value in found.values] == found.names
    assert len(found.names) == 2


def test_numbers_are_labels_and_minus_one_is_no_cluster():
    assert labelled(4, labels=np.array([2.5, np.nan, 1.0, 1.0])).names == ["1.0", "2.5"]
    assert labelled(3, labels=[-1, 4, 4]).names == ["4", "-1"]
    for clusters in ([-1, 4, 4], np.array([-1, 4, 4])):
        found = labelled(3, clusters=clusters)
        assert (found.names, found.codes.tolist(), found.values) == (["4"], [-1, 0, 0], [4])


def test_the_commonest_label_of_every_node(tree, rng):
    labels = rng.integers(0, 5, 300)
    known = group_labels("labels", labels, tree, display(tree))
    for v in tree.nodes():
        counts = Counter(labels[tree.leaves(v)].tolist())
        assert counts[int(known.name(v))] == max(counts.values()) == round(known.share(v) * tree.size(v))


def test_the_node_of_a_cluster_is_the_lowest_over_all_its_points(tree):
    labels = cut_n_clusters(tree, 9)
    labels[labels == 4] = -1
    labels[np.flatnonzero(labels == 3)[:1]] = -1
    cut = group_labels("clusters", labels, tree, display(tree))
    expected = cluster_nodes(tree, labels)
    assert whole_nodes(tree, cut).tolist() == [expected[number] for number in cut.values]
    # Every other point: of no node all points and no others.
    scattered = group_labels("clusters", np.arange(300) % 2, tree, display(tree))
    assert whole_nodes(tree, scattered).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("merges", "low", "root"),
    [
        ([1, 2, 3], 0, 1),
        ([5, 5, 5], 0, 1),  # all at one height
        ([0.9, 0.95, 1.0], 0.875, 1),  # far above 0: a fifth of the axis is below the lowest
        ([0.1, 0.2, 1.0], 0, 2),
        ([0.01, 0.02, 1.0], 0, 3),
        ([0, 0], 0, 1),
    ],
)
def test_squeezed_heights_are_drawn_apart(merges, low, root):
    scale = scale_of(np.array(merges, float))
    assert (scale.low, scale.root) == (pytest.approx(low), root)
    assert scale.high == (max(merges) or 1)
    assert scale.share(scale.high) == 1
    assert scale.share(scale.low) == 0


@pytest.mark.parametrize("merges", [[1, 2, 3], [0.9, 0.95, 1], [0.1, 0.2, 1], [3, 40, 170_000], [1e-9, 1e-4]])
@pytest.mark.parametrize("width", [2, 9])
def test_ticks_are_inside_in_order_and_apart(merges, width):
    _, ax = plt.subplots(figsize=(width, 3))
    scale = scale_of(np.array(merges, float))
    scale.draw(ax, 8)
    ax.figure.canvas.draw()
    assert ax.get_xlim() == pytest.approx((scale.left, scale.low))
    ticks = ax.get_xticks()
    assert 1 <= len(ticks) <= 12
    assert (np.diff(ticks) < 0).all()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert not any(one.overlaps(two) for i, one in enumerate(boxes) for two in boxes[:i])
