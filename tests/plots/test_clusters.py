"""What the picture of clusters shows."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

from grinch import Tree
from grinch.cuts import collapse, cut_n_clusters
from grinch.plots import plot_clusters
from pictures import overlapping, texts
from trees import chain


def bars(ax):
    return [bar.get_width() for bar in ax.child_axes[1].patches]


@pytest.mark.parametrize("n", [1, 2, 10, 60])
def test_every_cluster_has_a_row_with_its_size_and_name(tree, n):
    labels = cut_n_clusters(tree, n)
    clusters = collapse(tree, labels).described(confidence=np.linspace(0, 1, n))
    ax = plot_clusters(clusters)
    assert sorted(bars(ax)) == sorted(np.bincount(labels))
    written = texts(ax)
    assert {f"cluster {i}" for i in range(n)} <= set(written)
    assert {f"{confidence:.2f}" for confidence in clusters.confidence} <= set(written)
    assert [text.get_text() for text in ax.child_axes[1].texts] == [f"{size:,.0f}" for size in bars(ax)]
    lines = ax.child_axes[0].collections[1].get_segments()
    assert len(lines) == 1 + 3 * (n - 1)
    assert overlapping(ax) == []
    assert ax.get_title(loc="left").startswith("300 points, ")


def test_a_row_is_where_its_bar_and_its_line_are(tree):
    clusters = collapse(tree, cut_n_clusters(tree, 9))
    ax = plot_clusters(clusters)
    ax.figure.canvas.draw()
    by_name = {text.get_text(): text.get_window_extent() for text in ax.texts}
    for bar, count in zip(ax.child_axes[1].patches, ax.child_axes[1].texts, strict=True):
        box = bar.get_window_extent()
        same_row = [name for name, extent in by_name.items() if abs(extent.y0 + extent.y1 - box.y0 - box.y1) < 4]
        (name,) = [name for name in same_row if name.startswith("cluster")]
        size = clusters.sizes[int(name.removeprefix("cluster "))]
        assert (bar.get_width(), count.get_text()) == (size, str(size))


def test_many_clusters_share_rows_and_all_points_are_in_one():
    rng = np.random.default_rng(0)
    tree = Tree.from_scipy(linkage(rng.normal(size=(400, 3)), "average"))
    words = [["deep", f"w{i}"] for i in range(400)]
    clusters = collapse(tree, np.arange(400)).described(names=[", ".join(own) for own in words], keywords=words)
    ax = plot_clusters(clusters, max_rows=25)
    assert len(bars(ax)) == 25
    assert sum(bars(ax)) == 400
    groups = [text for text in texts(ax) if " clusters: " in text]
    assert groups
    assert all(": deep, w" in text for text in groups)
    assert "400 clusters in 25 rows" in ax.get_title(loc="left")
    assert len(bars(plot_clusters(clusters, max_rows=1))) == 1


def test_points_that_belong_nowhere_are_counted_in_the_title():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0], [30.0]]))
    ax = plot_clusters(collapse(tree, [0, 0, 1, 1, -1]).described(names=["low", "high"]))
    assert ax.get_title(loc="left") == "5 points, 2 clusters; 1 point belongs nowhere"
    assert {"0  low", "1  high"} <= set(texts(ax))
    assert plot_clusters(collapse(tree, [0, 0, 1, 1, -1]), title="mine").get_title(loc="left") == "mine"


def test_a_deep_tree_and_one_without_heights():
    deep = chain(3000)
    for tree in (deep, Tree.from_links(deep.links, np.zeros(deep.n_ids), 0.0)):
        ax = plot_clusters(collapse(tree, np.arange(3000)), max_rows=12)
        assert sum(bars(ax)) == 3000
        ax.figure.canvas.draw()


def test_long_names_end_inside_the_picture(tree):
    clusters = collapse(tree, cut_n_clusters(tree, 2)).described(["long " * 60, ", ".join(["word"] * 90)])
    for where in (None, plt.subplots(figsize=(6, 3))[1]):
        ax = plot_clusters(clusters, ax=where)
        ax.figure.canvas.draw()
        assert all(text.get_window_extent().x1 <= ax.figure.bbox.x1 for text in ax.texts)


def test_what_cannot_be_drawn_is_refused(tree):
    with pytest.raises(TypeError, match=r"clusters must be a ClusterTree, as .* makes one; got Tree"):
        plot_clusters(tree)
    with pytest.raises(ValueError, match="clusters must have at least one cluster"):
        plot_clusters(collapse(tree, np.full(300, -1)))
    with pytest.raises(ValueError, match="max_rows must be a whole number of at least 1; got 0"):
        plot_clusters(collapse(tree, np.zeros(300, int)), max_rows=0)
