"""Colors by place in the tree: the hue follows the tree, so that cousins are alike; neighbours differ in lightness.

A color is a number below :data:`N_COLORS`, for the table :data:`COLORS`: a hue, and one of three lightnesses.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grinch._types import Floats, Ids, Labels

# Hues in degrees of Oklch: all but the purples that would join the last with the first.
FIRST_HUE, LAST_HUE, N_HUES = 25.0, 335.0, 84
# Lightness and chroma in Oklch; neighbours from left to right take turns.
TONES = ((0.66, 0.155), (0.80, 0.115), (0.52, 0.14))
N_COLORS = N_HUES * len(TONES)


def tree_colors(hues: Floats) -> npt.NDArray[np.uint8]:
    """Return the colors of nodes from left to right, by their hues from 0 to 1 (:func:`grinch.tree.blocks.hues`).

    >>> tree_colors(np.array([0.1, 0.12, 0.9])).tolist()
    [24, 31, 227]
    """
    return hue_steps(hues) * np.uint8(len(TONES)) + np.arange(len(hues), dtype=np.uint8) % np.uint8(len(TONES))


def hue_steps(hues: Floats) -> npt.NDArray[np.uint8]:
    """Return the number of the nearest hue in the table, from 0 to N_HUES - 1."""
    return np.clip(np.asarray(hues) * N_HUES, 0, N_HUES - 1).astype(np.uint8)


def side_by_side(hues: Floats) -> list[str]:
    """Return the colors of what is drawn side by side, in that order, by their hues from 0 to 1.

    >>> side_by_side(np.array([0.1, 0.12]))
    ['#d8741b', '#f3ad6d']
    """
    return [COLORS[number] for number in tree_colors(hues).tolist()]


def label_colors(codes: Labels, order: Ids, n_labels: int) -> npt.NDArray[np.uint8]:
    """Return the color of each label, by its hue (:func:`label_hues`)."""
    found = label_hues(codes, order, n_labels)
    ranked = np.argsort(found, kind="stable")
    colors = np.empty(n_labels, np.uint8)
    colors[ranked] = tree_colors(found[ranked])
    return colors


def label_hues(codes: Labels, order: Ids, n_labels: int) -> Floats:
    """Return the hue of each label: its place among the labels, in the order in which they are in the tree.

    ``codes`` has the label of each leaf, -1 for none; ``order`` the leaves from left to right.
    """
    known = codes[order]
    places = np.flatnonzero(known >= 0)
    by_label = np.lexsort((places, known[places]))
    counts = np.bincount(known[places], minlength=n_labels)
    starts = np.cumsum(counts) - counts
    # The place of the middle one of each label; labels that no leaf has come last.
    middle = np.where(counts > 0, np.append(places[by_label], len(order))[starts + counts // 2], len(order))
    ranked = np.argsort(middle, kind="stable")
    found = np.empty(n_labels)
    found[ranked] = (np.arange(n_labels) + 0.5) / max(n_labels, 1)
    return found


def _table() -> tuple[str, ...]:
    hues = np.radians(np.repeat(np.linspace(FIRST_HUE, LAST_HUE, N_HUES), len(TONES)))
    lightness, chroma = np.tile(np.array(TONES), (N_HUES, 1)).T
    # Less chroma where the screen cannot show as much.
    for _ in range(40):
        rgb = _linear_rgb(lightness, chroma * np.cos(hues), chroma * np.sin(hues))
        chroma = np.where(((rgb < 0) | (rgb > 1)).any(axis=0), chroma * 0.97, chroma)
    rgb = np.clip(rgb, 0, 1)
    encoded = np.where(rgb <= 0.0031308, 12.92 * rgb, 1.055 * rgb ** (1 / 2.4) - 0.055)
    return tuple("#" + "".join(f"{value:02x}" for value in color) for color in np.rint(255 * encoded.T).astype(int))


def _linear_rgb(lightness: Floats, a: Floats, b: Floats) -> Floats:
    """Return linear sRGB of colors in Oklab (Ottosson, 2020)."""
    to_cones = np.array(
        [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.2914855480]]
    )
    to_rgb = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.7076147010],
        ]
    )
    rgb: Floats = to_rgb @ (to_cones @ np.stack([lightness, a, b])) ** 3
    return rgb


COLORS = _table()
