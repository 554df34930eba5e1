"""What holds for all pictures."""

from __future__ import annotations

import subprocess
import sys

import matplotlib.pyplot as plt
import pytest

from grinch import Tree
from grinch.plots import plot_dendrogram, plot_icicle


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
