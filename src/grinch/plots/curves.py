"""Lines over the number of points, or over anything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from grinch.errors import unknown_name
from grinch.plots import style
from grinch.plots.style import AS_IT_IS, INK, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOGS = ("", "x", "y", "xy")
FONT = 9
# Lines beyond the colors of the palette differ in dashes.
DASHES = ("-", "--", ":")


def plot_curves(
    series: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]],
    xlabel: str = "points",
    ylabel: str = "",
    log: str = "",
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw one line for each entry of ``series``, with its name at its end.

    Parameters
    ----------
    series : mapping from name to (x, y)
        For example purity, or seconds, against the number of points. A value of nan leaves a gap.
    xlabel, ylabel, title : str
        The labels of the axes and the title.
    log : {"", "x", "y", "xy"}
        Axes that are logarithmic.
    ax : Axes, optional
        The axes to draw on; a new figure by default.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> ax = plot_curves({"grinch": ([1, 2, 3], [2, 4, 6]), "HAC": ([1, 2], [1, 4])}, ylabel="seconds")
    >>> [text.get_text() for text in ax.texts]
    ['grinch', 'HAC']
    """
    from matplotlib.ticker import LogFormatter

    if log not in LOGS:
        raise unknown_name("log", log, LOGS)
    if not series:
        raise ValueError("series must have at least one line; got none")
    lines = {name: _line(name, *pair) for name, pair in series.items()}
    ax = ax or style.new_axes(8, 4.5)
    ax.set(xscale="log" if "x" in log else "linear", yscale="log" if "y" in log else "linear")
    ax.set_xlabel(xlabel, **AS_IT_IS)
    ax.set_ylabel(ylabel, **AS_IT_IS)
    style.set_title(ax, title)
    for i, (x, y) in enumerate(lines.values()):
        dash = DASHES[i // len(PALETTE) % len(DASHES)]
        # Every measurement is marked, unless there are too many to distinguish.
        marker = "o" if len(x) <= 20 else ""
        ax.plot(x, y, dash, color=style.series_color(i), linewidth=1.8, marker=marker, markersize=4)
    low, high = ax.get_ylim()
    # Zero is shown if that costs less than a third of the picture.
    if "y" not in log and 0 < low < high / 3:
        ax.set_ylim(bottom=0)
    for axis, name in ((ax.xaxis, "x"), (ax.yaxis, "y")):
        axis.set_major_formatter(style.plain_number)
        if name in log:
            axis.set_minor_formatter(LogFormatter())
    style.hide_spines(ax, ("top", "right"))
    ax.grid(axis="y", color="#EEEEEE", linewidth=0.8)
    ax.set_axisbelow(True)
    _name_the_ends(ax, lines)
    return ax


def _line(name: str, x: Any, y: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    across, up = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if across.ndim != 1 or across.shape != up.shape or not (np.isfinite(across) & np.isfinite(up)).any():
        raise ValueError(
            f"series[{name!r}] must be two lists of numbers of one length, (x, y), with at least one finite pair;"
            f" got shapes {across.shape} and {up.shape}"
        )
    return across, up


def _name_the_ends(ax: Axes, lines: Mapping[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]) -> None:
    """Write the names in a column on the right, each as near to the end of its line as the others let it."""
    # Room for the names, before their places are measured.
    style.settle(ax)
    ends = []
    for x, y in lines.values():
        last = np.flatnonzero(np.isfinite(x) & np.isfinite(y))[-1]
        ends.append((float(x[last]), float(y[last])))
    wanted = [float(ax.transAxes.inverted().transform(ax.transData.transform(end))[1]) for end in ends]
    gap = 1.35 * style.em(ax, FONT) / ax.bbox.height
    look: dict[str, Any] = {"textcoords": ax.transAxes, "va": "center", "fontsize": FONT, "color": INK, **AS_IT_IS}
    arrow = {"arrowstyle": "-", "linewidth": 0.8, "shrinkA": 2, "relpos": (0, 0.5), "shrinkB": 4}
    for i, (name, end, place) in enumerate(zip(lines, ends, spread(wanted, gap), strict=True)):
        ax.annotate(name, end, (1.03, place), arrowprops={**arrow, "color": style.series_color(i)}, **look)


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Return places near the wanted ones, in the same order, at least ``gap`` apart, and between 0 and 1 if they fit.

    >>> spread([0.5, 0.5, 0.9], 0.1)
    [0.45, 0.55, 0.9]
    """
    groups: list[list[int]] = []

    def lowest(group: list[int]) -> float:
        extent = gap * (len(group) - 1)
        middle = sum(wanted[i] for i in group) / len(group)
        return max(min(middle - extent / 2, 1 - extent), 0.0)

    for i in sorted(range(len(wanted)), key=lambda i: wanted[i]):
        groups.append([i])
        # Groups that would overlap become one, centred on their mean.
        while len(groups) > 1 and lowest(groups[-1]) < lowest(groups[-2]) + gap * len(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    places = list(wanted)
    for group in groups:
        for step, i in enumerate(group):
            places[i] = lowest(group) + step * gap
    return places
