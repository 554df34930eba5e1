"""Colors by place in the tree, for all eyes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from grinch.plots.colors import COLORS, N_COLORS, tree_colors

# Simulated sight without red and without green cones (Machado, Oliveira and Fernandes, 2009), on linear sRGB.
EYES = {
    "all cones": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}

TO_CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
TO_LAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)


def oklab(linear):
    """Return Oklab of linear sRGB (Ottosson, 2020)."""
    return np.cbrt(np.clip(linear, 0, 1) @ np.transpose(TO_CONES)) @ np.transpose(TO_LAB)


def seen(eye):
    rgb = np.array([to_rgb(color) for color in COLORS])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return oklab(linear @ np.asarray(EYES[eye]).T)


@pytest.mark.parametrize("eye", EYES)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=300))
def test_neighbours_look_different(eye, hues):
    colors = seen(eye)[tree_colors(np.sort(np.array(hues)))]
    assert (np.linalg.norm(np.diff(colors, axis=0), axis=1) > 0.08).all()


def test_the_hue_rises_and_all_colors_are_there():
    assert len(COLORS) == N_COLORS == len(set(COLORS))
    a, b = seen("all cones").T[1:]
    hue = np.degrees(np.arctan2(b, a)) % 360
    for tone in range(3):
        assert (np.diff(hue[tone::3]) > 0).all()


@pytest.mark.parametrize("ground", ["#ffffff", "#15181b"])
def test_colors_stand_out_from_the_ground(ground):
    rgb = np.array(to_rgb(ground))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    assert np.abs(seen("all cones")[:, 0] - oklab(linear)[0]).min() > 0.15


@given(st.lists(st.floats(0, 1), max_size=50))
def test_like_hues_have_like_colors(hues):
    numbers = tree_colors(np.sort(np.array(hues))).astype(int) // 3
    assert (np.abs(numbers / 84 - np.sort(hues)) <= 1 / 84 + 1e-9).all()
