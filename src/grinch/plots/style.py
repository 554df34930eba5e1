"""What all pictures share: few colours, little ink."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._types import Floats

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


# Fonts of Linux, macOS and Windows with the letters of many scripts, or of one.
OTHERS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Apple SD Gothic Neo",
    "NanumGothic",
    "Noto Sans Devanagari",
    "Noto Sans Tamil",
    "Noto Sans Bengali",
    "Noto Sans Thai",
    "Noto Sans Hebrew",
    "Noto Sans Arabic",
    "Nirmala UI",
    "Leelawadee UI",
    "Thonburi",
    "Lohit Devanagari",
    "Loma",
    "Arial Unicode MS",
    "Unifont",
)


@contextmanager
def many_fonts() -> Iterator[None]:
    """Within, texts that are written get every letter from the first font that has it.

    >>> import matplotlib
    >>> with many_fonts():
    ...     matplotlib.rcParams["font.family"][0]
    'sans-serif'
    """
    import matplotlib
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    families = [*matplotlib.rcParams["font.family"], *(name for name in OTHERS if name in installed)]
    with matplotlib.rc_context({"font.family": families}):
        yield


# Where the lower half of the merges would take less than this share of a plain axis, roots are drawn.
SQUEEZED = 0.3
ROOTS = (1, 2, 3)
# An axis begins at 0 unless that would leave more than this share of it empty.
EMPTY = 0.4
# How far apart ticks are at least, in ems.
APART = 5
ROOT_NAMES = {1: "", 2: ", square-root scale", 3: ", cube-root scale"}


class Scale(NamedTuple):
    """From the lowest to the highest; heights are drawn as their roots of this degree.

    ``margin`` is how far the axis goes on beyond the highest, as a share of it.
    """

    low: float
    high: float
    root: int
    margin: float = 0.025

    def share(self, heights: Floats | float) -> Floats:
        """Where heights are on the axis, from 0 at its low end to 1."""
        low, high = (self._rooted(np.array(end)) for end in (self.low, self.high))
        return np.asarray((self._rooted(np.asarray(heights, np.float64)) - low) / (high - low))

    @property
    def left(self) -> float:
        """The end of the axis, a little beyond the highest."""
        low, high = (float(self._rooted(np.array(end))) for end in (self.low, self.high))
        return float((high + self.margin * (high - low)) ** self.root)

    def _rooted(self, heights: Floats) -> Floats:
        # Axes ask for values beyond their ends, too.
        return np.asarray(np.sign(heights) * np.abs(heights) ** (1 / self.root))

    @property
    def title(self) -> str:
        return f"height (dissimilarity of the two sides of a merge{ROOT_NAMES[self.root]})"


def scale_of(merges: Floats) -> Scale:
    """The axis for merges at these heights.

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
    root = next((root for root in ROOTS if middle ** (1 / root) >= SQUEEZED), ROOTS[-1])
    return Scale(0.0, high, root)


def draw_scale(ax: Axes, scale: Scale, font: float) -> None:
    """Ticks at round heights, as many as can be told apart; the highest is on the left."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if scale.root > 1:
        ax.set_xscale("function", functions=(scale._rooted, lambda x: np.sign(x) * np.abs(x) ** scale.root))
    ax.set_xlim(scale.left, scale.low)
    apart = APART * font * ax.figure.dpi / 72 / ax.bbox.width
    ax.xaxis.set_major_locator(FixedLocator(_ticks(scale, apart)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda height, _: f"{height:,.6g}"))


def _ticks(scale: Scale, apart: float) -> list[float]:
    """Round heights from the highest to the lowest, at least this share of the axis apart."""
    from matplotlib.ticker import MaxNLocator

    if scale.root == 1:
        steps = np.array(
            MaxNLocator(min(8, max(int(1 / apart), 1)), steps=[1, 2, 5, 10]).tick_values(scale.low, scale.high)
        )
    else:  # many near 0, where there is room for them
        decade = 10.0 ** np.floor(np.log10(scale.high))
        steps = np.append(np.outer(decade / 10.0 ** np.arange(5), (1, 2, 5)).ravel(), 0.0)
    kept: list[float] = []
    for step in np.unique(steps[(steps >= scale.low) & (steps <= scale.high)])[::-1].tolist():
        place, above = float(scale.share(step)), float(scale.share(kept[-1])) if kept else np.inf
        if step == 0 or (above - place > apart and (place > apart or scale.low > 0)):
            kept.append(step)
    return kept
