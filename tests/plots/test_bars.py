"""What bars show."""

from __future__ import annotations

import numpy as np
import pytest

from grinch.plots import plot_comparison
from pictures import overlapping, texts


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
