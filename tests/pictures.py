"""What can be read back from a picture."""

from __future__ import annotations

import numpy as np
from matplotlib.text import Text


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def overlapping(ax) -> list[tuple[str, str]]:
    """Pairs of texts that lie on each other in the finished picture."""
    ax.figure.canvas.draw()
    written = [*ax.texts, *ax.get_yticklabels(), *ax.get_xticklabels()]
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in written if text.get_text()]
    return [(a, b) for i, (a, one) in enumerate(boxes) for b, two in boxes[:i] if one.overlaps(two)]


def captions(ax) -> list[str]:
    """What is written beside the rows."""
    return [tick.get_text() for tick in ax.get_yticklabels()]


def outside(ax) -> list[str]:
    """Texts that are not inside the figure."""
    ax.figure.canvas.draw()
    frame = ax.figure.bbox.padded(1)
    below = [*ax.get_xticklabels(), ax.xaxis.label] if ax.xaxis.get_visible() else []
    found = [*ax.texts, *ax.get_yticklabels(), ax.title, *below]
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in found if text.get_text()]
    return [text for text, box in boxes if not (frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1))]


def linkage_on_a_line(points: np.ndarray) -> np.ndarray:
    """Single linkage of sorted numbers, by a union of neighbours."""
    n, rows = len(points), []
    node, size, first = list(range(n)), [1] * n, list(range(n))
    last = list(range(n))
    gaps = np.diff(points)
    for i in np.argsort(gaps, kind="stable").tolist():
        # The ends of the two runs that meet between i and i + 1.
        left, right = first[i], last[i + 1]
        a, b = node[left], node[right]
        count = size[left] + size[right]
        rows.append((a, b, gaps[i], count))
        for end in (left, right):
            node[end], size[end], first[end], last[end] = n + len(rows) - 1, count, left, right
    return np.array(rows)
