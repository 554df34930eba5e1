"""An axis of heights on which the merges of a picture can be told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grinch._types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
