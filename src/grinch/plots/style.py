"""What all plots share: few colors, little ink, fonts for all scripts, and an axis of heights."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grinch._types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Paul Tol's "muted" scheme and one more of his blues, which the color-blind can distinguish too. Strong ones first.
PALETTE = ("#332288", "#CC6677", "#117733", "#6699CC", "#999933", "#882255", "#44AA99", "#AA4499", "#88CCEE", "#DDCC77")
INK, GREY, PALE, PALER = "#333333", "#888888", "#DDDDDD", "#F0F0F0"
ACCENT = "#6699CC"
# The mean width of a letter, in ems.
LETTER = 0.56
# Texts of users are shown as they are: a dollar sign begins no formula.
AS_IT_IS: dict[str, Any] = {"parse_math": False}
# Fonts of Linux, macOS and Windows with the letters of many scripts, or of one.
FONTS = (
    "Noto Sans CJK SC, Noto Sans CJK JP, Source Han Sans SC, WenQuanYi Zen Hei, PingFang SC, Hiragino Sans,"
    " Microsoft YaHei, Yu Gothic, Malgun Gothic, Apple SD Gothic Neo, NanumGothic, Noto Sans Devanagari,"
    " Noto Sans Tamil, Noto Sans Bengali, Noto Sans Thai, Noto Sans Hebrew, Noto Sans Arabic, Nirmala UI,"
    " Leelawadee UI, Thonburi, Lohit Devanagari, Loma, Arial Unicode MS, Unifont"
)


# Axes ---------------------------------------------------------------------------------------------------------------


def new_axes(width: float, height: float) -> Axes:
    """Return an empty Axes on a figure of its own, of a size in inches."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def hide_spines(ax: Axes, sides: Iterable[str]) -> None:
    """Hide the frame of axes on these sides."""
    for side in sides:
        ax.spines[side].set_visible(False)


def set_title(ax: Axes, title: str, **style: Any) -> None:
    """Write a title above the left end of axes."""
    ax.set_title(title, loc="left", fontsize=11, **style, **AS_IT_IS)


def settle(ax: Axes) -> None:
    """Let the layout take place, so that sizes in pixels are known."""
    ax.figure.canvas.figure.draw_without_rendering()


def em(ax: Axes, font: float) -> float:
    """Return the size of a font in pixels."""
    return font * ax.figure.dpi / 72


def lines_in(ax: Axes, font: float) -> int:
    """Return the number of lines of text that fit above each other, beside a title and the name of an axis."""
    ax.set_title(" ")
    ax.set_xlabel(" \n ", fontsize=font)
    settle(ax)
    return max(int(ax.bbox.height / (1.25 * em(ax, font))), 1)


def letters_in(ax: Axes, font: float, share: float = 1.0) -> int:
    """Return the number of letters that fit into a share of the width of axes."""
    return int(share * ax.bbox.width / (LETTER * em(ax, font)))


def keep_inside(ax: Axes) -> None:
    """Make axes narrower by what is written on their right, if the figure has no layout that does."""
    if ax.figure.canvas.figure.get_layout_engine() is not None:
        return
    settle(ax)
    beyond = max((label.get_window_extent().x1 for label in ax.get_yticklabels()), default=0.0) - ax.bbox.x1
    if beyond > 0:
        box = ax.get_position()
        width = box.width * max(1 - beyond / ax.bbox.width, 0.2)
        ax.set_position((box.x0, box.y0, width, box.height))


@contextmanager
def many_fonts() -> Iterator[None]:
    """Take every letter from the first installed font that has it, in texts that are written within.

    >>> import matplotlib
    >>> with many_fonts():
    ...     matplotlib.rcParams["font.family"][0]
    'sans-serif'
    """
    import matplotlib
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    families = [*matplotlib.rcParams["font.family"], *(name for name in FONTS.split(", ") if name in installed)]
    with matplotlib.rc_context({"font.family": families}):
        yield


# Colors -------------------------------------------------------------------------------------------------------------


def series_color(number: int) -> str:
    """Return the color of one of several curves."""
    return PALETTE[number % len(PALETTE)]


def mixed_with(color: str, other: str, share: float) -> tuple[float, float, float]:
    """Return a share of one color and the rest of another."""
    from matplotlib.colors import to_rgb

    red, green, blue = (share * a + (1 - share) * b for a, b in zip(to_rgb(color), to_rgb(other), strict=True))
    return red, green, blue


def ink_on(face: Any) -> str:
    """Return a color of text that can be read on a color."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(face)
    return INK if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "white"


# Words --------------------------------------------------------------------------------------------------------------


def plain_number(value: float, _: float = 0) -> str:
    """Return a number for an axis, without powers of ten.

    >>> plain_number(100000.0), plain_number(0.05)
    ('100,000', '0.05')
    """
    return f"{value:,.10g}"


def counted(n: int, what: str) -> str:
    """Return a number and what it counts.

    >>> counted(1, "point"), counted(1200, "point")
    ('1 point', '1,200 points')
    """
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def shortened(text: str, letters: int) -> str:
    """Return a text up to the last word that fits.

    >>> shortened("18 clusters: 100, 101, 102, 103, 104, 105", 30)
    '18 clusters: 100, 101, 102, …'
    """
    if len(text) <= letters:
        return text
    before, comma, _ = text[: max(letters - 1, 1)].rpartition(", ")
    return f"{before}, …" if comma else text[: max(letters - 1, 1)].rstrip() + "…"


def wrapped(text: str, ax: Axes, font: float) -> str:
    """Return a text in lines that are no wider than the axes, which have settled."""
    return textwrap.fill(text, max(letters_in(ax, font), 20))


# An axis of heights -------------------------------------------------------------------------------------------------

# Where the lower half of the merges would take less than this share of a linear axis, roots are drawn.
SQUEEZED = 0.3
ROOT_NAMES = {1: "", 2: ", square-root scale", 3: ", cube-root scale"}
# An axis begins at 0 unless that would leave more than this share of it empty.
EMPTY = 0.4
# The least distance of ticks, in ems.
TICK_DISTANCE = 5


class Scale(NamedTuple):
    """An axis of heights from the highest on the left to the lowest, drawn as their roots of a degree.

    ``margin`` is the part of the axis beyond the highest, as a share of it.
    """

    low: float
    high: float
    root: int
    margin: float = 0.025

    def rooted(self, heights: Floats | float) -> Floats:
        """Return roots of heights; also of negative ones, for axes ask for values beyond their ends."""
        return np.asarray(np.sign(heights) * np.abs(heights) ** (1 / self.root), np.float64)

    def share(self, heights: Floats | float) -> Floats:
        """Return the places of heights on the axis, from 0 at its low end to 1."""
        low, high = self.rooted(self.low), self.rooted(self.high)
        return np.asarray((self.rooted(heights) - low) / (high - low))

    @property
    def left(self) -> float:
        """The end of the axis, a little beyond the highest."""
        low, high = float(self.rooted(self.low)), float(self.rooted(self.high))
        return float((high + self.margin * (high - low)) ** self.root)

    @property
    def title(self) -> str:
        """The name of the axis."""
        return f"height (dissimilarity of the two sides of a merge{ROOT_NAMES[self.root]})"

    def draw(self, ax: Axes, font: float) -> None:
        """Set up the axis, with ticks at as many round heights as there is room for."""
        from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

        if self.root > 1:
            ax.set_xscale("function", functions=(self.rooted, lambda x: np.sign(x) * np.abs(x) ** self.root))
        ax.set_xlim(self.left, self.low)
        ax.xaxis.set_major_locator(FixedLocator(self._ticks(TICK_DISTANCE * em(ax, font) / ax.bbox.width)))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda height, _: f"{height:,.6g}"))

    def _ticks(self, apart: float) -> list[float]:
        """Return round heights from the highest to the lowest, at least this share of the axis apart."""
        from matplotlib.ticker import MaxNLocator

        if self.root == 1:
            locator = MaxNLocator(min(8, max(int(1 / apart), 1)), steps=[1, 2, 5, 10])
            steps = np.array(locator.tick_values(self.low, self.high))
        else:  # many near 0, where there is room for them
            decade = 10.0 ** np.floor(np.log10(self.high))
            steps = np.append(np.outer(decade / 10.0 ** np.arange(5), (1, 2, 5)).ravel(), 0.0)
        ticks: list[float] = []
        for step in np.unique(steps[(steps >= self.low) & (steps <= self.high)])[::-1].tolist():
            place, above = float(self.share(step)), float(self.share(ticks[-1])) if ticks else np.inf
            if step == 0 or (above - place > apart and (place > apart or self.low > 0)):
                ticks.append(step)
        return ticks


def scale_of(merges: Floats) -> Scale:
    """Return the axis for merges at these heights.

    >>> scale_of(np.array([1.0, 2.0, 3.0]))[:3], scale_of(np.array([0.1, 0.2, 9.0]))[:3]
    ((0.0, 3.0, 1), (0.0, 9.0, 3))
    """
    high = float(merges.max(initial=0.0))
    if high <= 0:
        return Scale(0.0, 1.0, 1)
    lowest = float(merges.min())
    # A fifth of the axis is for what is below the lowest merge.
    low = lowest - 0.25 * (high - lowest)
    if lowest < high and low > EMPTY * high:
        return Scale(low, high, 1)
    middle = float(np.median(merges)) / high
    return Scale(0.0, high, next((root for root in ROOT_NAMES if middle ** (1 / root) >= SQUEEZED), 3))
