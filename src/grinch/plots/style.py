"""What all pictures share: few colours, little ink."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

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
# The width of a letter on average, in parts of the font's size.
LETTER = 0.56
INK, GREY, PALE, PALER = "#333333", "#888888", "#DDDDDD", "#F0F0F0"
ACCENT = "#6699CC"
# What users have written is shown as it is: a dollar sign begins no formula.
AS_IT_IS: dict[str, Any] = {"parse_math": False}


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


def lines_in(ax: Axes, font: float) -> int:
    """How many lines of text there is room for, one above the other, beside a title and the name of an axis."""
    ax.set_title(" ")
    ax.set_xlabel(" \n ", fontsize=font)
    settle(ax)
    return max(int(ax.bbox.height / (1.25 * font * ax.figure.dpi / 72)), 1)


def keep_inside(ax: Axes) -> None:
    """Make axes narrower by what is written on their right, if the figure does not see to that by itself."""
    if ax.figure.canvas.figure.get_layout_engine() is not None:
        return
    settle(ax)
    beyond = max((label.get_window_extent().x1 for label in ax.get_yticklabels()), default=0.0) - ax.bbox.x1
    if beyond > 0:
        box = ax.get_position()
        width = box.width * max(1 - beyond / ax.bbox.width, 0.2)
        ax.set_position((box.x0, box.y0, width, box.height))


def plain_number(value: float, _: float = 0) -> str:
    """A number on an axis, without powers of ten.

    >>> plain_number(100000.0), plain_number(0.05)
    ('100,000', '0.05')
    """
    return f"{value:,.10g}"


def told_apart(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Which color each id has: one that stays with it, where two neighbours would not have the same.

    >>> told_apart(np.array([19])).tolist(), told_apart(np.array([2, 19, 8])).tolist()
    ([4], [4, 7, 6])
    """
    n = len(PALETTE)
    slots = (ids * 7 + ids // n) % n
    for i in (np.flatnonzero(slots[1:] == slots[:-1]) + 1).tolist():
        # Another one than both neighbours have, so that these keep theirs.
        beside = {int(slots[i - 1]), int(slots[i + 1]) if i + 1 < len(slots) else -1}
        if int(slots[i]) in beside:
            slots[i] = next(other for step in (3, 6, 9) if (other := (int(slots[i]) + step) % n) not in beside)
    return slots.astype(np.uint8)


def cluster_slots(values: Sequence[Any], codes: Iterable[int]) -> dict[int, int]:
    """Which color of the palette clusters have, by their codes, in the order in which they are drawn.

    A color goes by the number of the cluster, ``values[code]``, or by its code where clusters are no numbers.
    """
    seen = list(dict.fromkeys(codes))
    found = [values[code] for code in seen]
    is_whole = all(isinstance(value, (int, np.integer)) for value in found)
    return dict(zip(seen, told_apart(np.array(found if is_whole else seen, np.int64)).tolist(), strict=True))


def shortened(text: str, letters: int) -> str:
    """The text up to the last word that fits.

    >>> shortened("18 clusters: 100, 101, 102, 103, 104, 105", 30)
    '18 clusters: 100, 101, 102, …'
    """
    if len(text) <= letters:
        return text
    before, comma, _ = text[: max(letters - 1, 1)].rpartition(", ")
    return f"{before}, …" if comma else text[: max(letters - 1, 1)].rstrip() + "…"


def wrapped(text: str, ax: Axes, font: float) -> str:
    """The text in lines that are no wider than the axes, which have settled."""
    return textwrap.fill(text, max(int(ax.bbox.width / (LETTER * font * ax.figure.dpi / 72)), 20))


def counted(n: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "point"), counted(1200, "point")
    ('1 point', '1,200 points')
    """
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def mixed_with(color: str, other: str, share: float) -> tuple[float, float, float]:
    """A share of one color and the rest of another."""
    from matplotlib.colors import to_rgb

    red, green, blue = (share * a + (1 - share) * b for a, b in zip(to_rgb(color), to_rgb(other), strict=True))
    return red, green, blue


def ink_on(face: Any) -> str:
    """The color of text that can be read on a color."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(face)
    return INK if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "white"
