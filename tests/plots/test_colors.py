"""Colors by place in the tree, for all eyes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex, to_rgb

from grinch.cuts import collapse, cut_n_clusters
from grinch.plots import plot_clusters, plot_dendrogram, plot_icicle
from grinch.plots.colors import COLORS, N_COLORS, tree_colors
from serve.looked import scene_of

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


@pytest.mark.parametrize("n_clusters", [2, 9, 16])
def test_pictures_have_the_colors_of_the_page(n_clusters, tree):
    labels = cut_n_clusters(tree, n_clusters)
    shown = scene_of(tree, flat=labels).cut("cut:flat")
    colors = [COLORS[number] for number in shown.colors]
    icicle = plot_icicle(tree, clusters=labels, max_nodes=200)
    boxes = {box.vertices[:, 0].min(): box.vertices[:, 1].min() for box in icicle.collections[0].get_paths()}
    tops = [p for p in icicle.patches if boxes.get(p.get_x()) == p.get_y()]
    by_place = {round(300 * p.get_x()): to_hex(p.get_facecolor()) for p in tops}
    assert by_place == dict(zip(shown.starts.tolist(), colors, strict=True))
    rows = plot_clusters(collapse(tree, labels)).child_axes[1].patches
    assert [to_hex(bar.get_facecolor()) for bar in rows] == colors
    assert [bar.get_width() for bar in rows] == shown.sizes.tolist()
    lines = plot_dendrogram(tree, clusters=labels, n_clusters=60, min_size=1).collections[0].get_colors()
    hues = {COLORS.index(to_hex(line)) // 3 for line in lines if to_hex(line) in COLORS}
    assert hues == {int(number) // 3 for number in shown.colors}
