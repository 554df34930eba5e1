"""What all pictures share: few colours, little ink."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Paul Tol's "muted" scheme and one more of his blues: the colour-blind can tell them apart too. Strong ones first.
PALETTE = (
    "#332288",
    "#CC6677",
    "#117733",
    "#6699CC",
    "#999933",
    "#882255",
    "#44AA99",
    "#AA4499",
    "#88CCEE",
    "#DDCC77",
)
INK, GREY, PALE, PALER = "#333333", "#888888", "#DDDDDD", "#F0F0F0"
ACCENT = "#6699CC"


def new_axes(width: float, height: float) -> Axes:
    """An empty Axes on a figure of its own, in inches."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def hide_spines(ax: Axes, sides: Iterable[str]) -> None:
    for side in sides:
        ax.spines[side].set_visible(False)


def settle(ax: Axes) -> None:
    """Let the layout take place, so that sizes in pixels are known."""
    ax.figure.canvas.figure.draw_without_rendering()


def plain_number(value: float, _: float = 0) -> str:
    """A number on an axis, without powers of ten.

    >>> plain_number(100000.0), plain_number(0.05)
    ('100,000', '0.05')
    """
    return f"{value:,.10g}"
