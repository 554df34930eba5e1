"""What holds for all pictures."""

from __future__ import annotations

import subprocess
import sys

import matplotlib.pyplot as plt
import pytest
from matplotlib.text import Text

from grinch import Tree
from grinch.cuts import collapse, cut_n_clusters
from grinch.plots import plot_clusters, plot_comparison, plot_curves, plot_dendrogram, plot_icicle


def test_pictures_import_matplotlib_when_drawn():
    code = "import sys, grinch.plots; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("draw", [plot_dendrogram, plot_icicle])
def test_pictures_of_a_tree_refuse_what_does_not_fit(draw, tree):
    with pytest.raises(ValueError, match="tree must have at least one leaf"):
        draw(Tree())
    with pytest.raises(ValueError, match="labels must have one entry for each of the 300 points of the tree; got 2"):
        draw(tree, labels=["a", "b"])
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
