"""What can be read back from a picture."""

from __future__ import annotations

from matplotlib.text import Text


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def overlapping(ax) -> list[tuple[str, str]]:
    """Pairs of texts that lie on each other in the finished picture."""
    ax.figure.canvas.draw()
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in ax.texts]
    return [(a, b) for i, (a, one) in enumerate(boxes) for b, two in boxes[:i] if one.overlaps(two)]
