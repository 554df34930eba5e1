"""Bars that compare methods."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grinch.plots import style
from grinch.plots.style import ACCENT, AS_IT_IS, GREY, INK, PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Measured(NamedTuple):
    """A mean and a deviation, or the reason why there are none."""

    mean: float
    deviation: float
    reason: str

    def text(self) -> str:
        """Return the figures beside the bar."""
        if self.reason:
            return self.reason
        size = max(abs(self.mean), abs(self.deviation))
        digits = 3 if size < 1 else 2 if size < 10 else 1 if size < 100 else 0
        # None, or too small to be seen in these digits.
        spread = f" ± {self.deviation:,.{digits}f}" if round(self.deviation, digits) > 0 else ""
        return f"{self.mean:,.{digits}f}{spread}"


def plot_comparison(
    rows: Sequence[Mapping[str, Any]],
    metric: str,
    method: str = "method",
    highlight: Collection[str] = (),
    missing: str = "not measured",
    xlabel: str = "",
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw a bar for each row, from top to bottom: the mean of ``row[metric]``, its deviation, and both in figures.

    Parameters
    ----------
    rows : sequence of mappings
        One for each method. ``row[method]`` is its name; ``row[metric]`` is a number, a list of numbers (replicates:
        mean ± standard deviation), or a text that says why there is none, such as "out of memory".
    metric, method : str
        The keys of the values and of the names.
    highlight : collection of str
        Names of the methods to colour; all, if there are none.
    missing : str
        The text where a row has no value.
    xlabel, title : str
        The label below (by default ``metric``) and the title.
    ax : Axes, optional
        The axes to draw on; a new figure by default.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> rows = [{"method": "grinch", "purity": [0.5, 0.7]}, {"method": "HAC", "purity": "out of memory"}]
    >>> [text.get_text() for text in plot_comparison(rows, "purity").texts]
    ['0.600 ± 0.100', 'out of memory']
    """
    if not rows:
        raise ValueError("rows must have at least one method; got none")
    for i, row in enumerate(rows):
        if method not in row:
            raise ValueError(f"rows[{i}] must have a name under {method!r}; it has {', '.join(map(repr, row))}")
    names = [str(row[method]) for row in rows]
    values = [_measured(name, metric, row.get(metric), missing) for name, row in zip(names, rows, strict=True)]
    ax = ax or style.new_axes(7.5, 1.1 + 0.36 * len(rows))
    colors = [ACCENT if not highlight or name in highlight else PALE for name in names]
    places = range(len(rows))
    ax.barh(places, [value.mean for value in values], color=colors, height=0.62)
    look: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8.5, **AS_IT_IS}
    for place, value in enumerate(values):
        if value.deviation > 0:
            ax.errorbar(value.mean, place, xerr=value.deviation, color=INK, linewidth=1, capsize=2.5, capthick=1)
        # Beside the whisker, on the far side of the bar.
        end = max(value.mean + value.deviation, 0.0)
        color, slant = (GREY, "italic") if value.reason else (INK, "normal")
        ax.annotate(value.text(), (end, place), (5, 0), color=color, style=slant, **look)
    low = min(0.0, *(value.mean - value.deviation for value in values))
    high = max(0.0, *(value.mean + value.deviation for value in values)) or 1.0
    # A fifth of the width is for the figures.
    ax.set_xlim(low * 1.05, high + 0.22 * (high - low))
    ax.set_yticks(places, names, fontsize=9, color=INK, **AS_IT_IS)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.axvline(0, color=PALE, linewidth=1)
    ax.xaxis.set_major_formatter(style.plain_number)
    ax.set_xlabel(xlabel or metric, **AS_IT_IS)
    style.set_title(ax, title)
    style.hide_spines(ax, ("top", "left", "right"))
    return ax


def _measured(name: str, metric: str, value: Any, missing: str) -> Measured:
    if value is None or isinstance(value, str):
        return Measured(0.0, 0.0, missing if value is None else value)
    try:
        numbers = np.asarray(value, np.float64).ravel()
    except (TypeError, ValueError):
        raise ValueError(
            f"the {metric!r} of {name!r} must be a number, a list of numbers, or a text that says why it is missing;"
            f" got {value!r}"
        ) from None
    numbers = numbers[np.isfinite(numbers)]
    return Measured(float(numbers.mean()), float(numbers.std()), "") if len(numbers) else Measured(0.0, 0.0, missing)
