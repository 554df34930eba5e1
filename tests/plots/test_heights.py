"""The axis of heights."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from grinch.plots.style import draw_scale, scale_of


@pytest.mark.parametrize(
    ("merges", "low", "root"),
    [
        ([1, 2, 3], 0, 1),
        ([5, 5, 5], 0, 1),  # all at one height
        ([0.9, 0.95, 1.0], 0.875, 1),  # far above 0: a fifth of the axis is below the lowest
        ([0.1, 0.2, 1.0], 0, 2),
        ([0.01, 0.02, 1.0], 0, 3),
        ([0, 0], 0, 1),
    ],
)
def test_squeezed_heights_are_drawn_apart(merges, low, root):
    scale = scale_of(np.array(merges, float))
    assert (scale.low, scale.root) == (pytest.approx(low), root)
    assert scale.high == (max(merges) or 1)
    assert scale.share(scale.high) == 1
    assert scale.share(scale.low) == 0


@pytest.mark.parametrize("merges", [[1, 2, 3], [0.9, 0.95, 1], [0.1, 0.2, 1], [3, 40, 170_000], [1e-9, 1e-4]])
@pytest.mark.parametrize("width", [2, 9])
def test_ticks_are_inside_in_order_and_apart(merges, width):
    _, ax = plt.subplots(figsize=(width, 3))
    scale = scale_of(np.array(merges, float))
    draw_scale(ax, scale, 8)
    ax.figure.canvas.draw()
    assert ax.get_xlim() == pytest.approx((scale.left, scale.low))
    ticks = ax.get_xticks()
    assert 1 <= len(ticks) <= 12
    assert (np.diff(ticks) < 0).all()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert not any(one.overlaps(two) for i, one in enumerate(boxes) for two in boxes[:i])
