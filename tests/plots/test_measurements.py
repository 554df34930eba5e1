"""What curves and bars show, and where their names are."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.text import Text

from grinch.plots import plot_comparison, plot_curves
from grinch.plots.curves import spread
from pictures import overlapping, texts
from refusals import refused


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
    refused("series must have at least one line", plot_curves, {})
    refused(r"series\['a'\] must be two lists .* got shapes \(2,\) and \(1,\)", plot_curves, {"a": ([1, 2], [1])})
    refused("log must be one of '', 'x', 'y', 'xy'; got 'yx'", plot_curves, {"a": ([1], [1])}, log="yx")


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
    refused("rows must have at least one method", plot_comparison, [], "purity")
    refused(r"rows\[0\] must have a name under 'method'; it has 'name'", plot_comparison, [{"name": "a"}], "purity")
    with pytest.raises(ValueError, match=r"the 'purity' of 'a' must be a number, a list of numbers, or a text"):
        plot_comparison([{"method": "a", "purity": {"mean": 1}}], "purity")
