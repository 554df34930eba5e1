"""The layout of the map: neighbours beside each other, and points beside their relatives in the tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

import grinch
from grinch import Grinch
from grinch.serve.backend import StoreBackend
from grinch.serve.model_backend import ModelBackend
from grinch.serve.views import maps
from grinch.serve.views.scene import Scene
from grinch.serve.views.viewer import Viewer
from grinch.tree.layout import hilbert_curve, lay_out, spread_over
from serve.looked import map_of, now, tree_of
from serve.test_maps import plane_of


def neighbors(X, k=15):
    return NearestNeighbors(n_neighbors=k + 1).fit(X).kneighbors(X, return_distance=False)[:, 1:]


def kept(X, plane, k=15):
    """Return the share of nearest neighbours that are still nearest on the plane."""
    both = zip(neighbors(X, k).tolist(), neighbors(plane, k).tolist(), strict=True)
    return np.mean([len({*a} & {*b}) / k for a, b in both])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 16, 17, 1_000])
def test_the_curve_goes_by_small_steps_through_different_places(n):
    curve = hilbert_curve(n)
    assert curve.shape == (n, 2)
    assert len(np.unique(curve, axis=0)) == n
    side = 2 ** int(np.ceil(np.log2(max(np.sqrt(n), 1))))
    # A full curve goes from cell to cell; of fewer points than cells, some are left out.
    assert (np.abs(np.diff(curve, axis=0)).sum(axis=1) <= -(-(side**2) // n) / side + 1e-9).all()


def test_more_neighbors_are_kept_than_by_principal_components():
    X, _ = make_blobs(1_500, n_features=20, centers=30, cluster_std=2.0, random_state=0)
    viewer = Viewer(ModelBackend(Grinch().fit(X)))
    plane = plane_of(map_of(viewer))[1]
    shown = X[viewer.scene.order]
    assert kept(shown, plane) > 1.5 * kept(shown, PCA(2).fit_transform(shown))
    np.testing.assert_array_equal(plane, plane_of(map_of(Viewer(viewer.backend)))[1])


def test_groups_are_round():
    groups, each = 300, 40
    near = np.arange(groups * each)[:, None] // each * each + np.random.default_rng(0).integers(0, each, (1, 15))
    plane = lay_out(near.astype(np.int32)).reshape(groups, each, 2)
    x, y = np.moveaxis(plane - np.median(plane, axis=1, keepdims=True), -1, 0)
    is_far = np.hypot(x, y) > np.quantile(np.hypot(x, y), 0.9, axis=1, keepdims=True)
    # Of those furthest out, no more than others are along the diagonals.
    angles = np.degrees(np.arctan2(y, x))[is_far] % 90
    assert np.mean(np.abs(angles - 45) < 15) == pytest.approx(1 / 3, abs=0.08)


def test_records_have_a_map_too():
    words = ["apple", "apples", "aple", "banana", "bananas", "banan", "cherry", "cherries", "chery"]

    def alike(a, b):
        return np.mean([len({*x} & {*y}) / len({*x} | {*y}) for x in a for y in b])

    viewer = Viewer(ModelBackend(Grinch(linkage=alike, n_clusters=3).fit(words), payload=words))
    assert maps.methods(viewer, viewer.scene) == ["neighbors"]
    assert np.isfinite(plane_of(map_of(viewer))[1]).all()


def nodes_over(tree):
    """Return the leaves under each node."""
    return {v: set(tree.leaves(v).tolist()) for v in tree.nodes()}


@pytest.mark.parametrize("n", [2, 3, 40])
def test_gaps_are_sizes_of_common_ancestors(n):
    scene = Scene(ModelBackend(tree_of(n)).read(lambda view: view.look()))
    under = nodes_over(scene.tree)
    for place in range(1, n):
        pair = set(scene.order[place - 1 : place + 1].tolist())
        assert scene.gaps[place] == min(len(leaves) for leaves in under.values() if pair <= leaves)


@given(st.data())
def test_points_beside_a_sample_are_at_their_nearest_relative(data):
    n = data.draw(st.integers(2, 30))
    scene = Scene(ModelBackend(tree_of(n, data.draw(st.integers(0, 99)))).read(lambda view: view.look()))
    places = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1))), np.int32)
    plane = np.column_stack([places, places]).astype(np.float32) * 100
    found, under = spread_over(plane, places, scene.gaps, n), nodes_over(scene.tree)
    for place in range(n):
        chosen = places[np.argmin(np.linalg.norm(plane - found[place], axis=1))]
        sizes = {
            int(other): min(len(own) for own in under.values() if {scene.order[place], scene.order[other]} <= own)
            for other in places
        }
        assert sizes[int(chosen)] == min(sizes.values())
    np.testing.assert_array_equal(found[places], plane)


def test_points_keep_their_places_as_others_come(tmp_path):
    X, _ = make_blobs(600, n_features=8, centers=6, random_state=1)
    with grinch.open(tmp_path / "store") as store:
        store.insert(X[:500])
        viewer = Viewer(StoreBackend(store))
        map_of(viewer)
        positions, before = viewer.laid_out
        store.insert(X[500:])
        map_of(now(viewer))
        later, after = viewer.laid_out
        np.testing.assert_array_equal(after[np.isin(later, positions)], before)
        new = after[~np.isin(later, positions)]
        width = np.ptp(before, axis=0).max()
        nearest = X[:500][[np.argmin(((X[:500] - x) ** 2).sum(axis=1)) for x in X[500:]]]
        at = [before[np.flatnonzero((X[:500] == x).all(axis=1))[0]] for x in nearest]
        assert np.median(np.linalg.norm(new - at, axis=1)) < 0.1 * width
        # Once most are new, all are laid out again, from where they were.
        store.insert(make_blobs(1_500, n_features=8, centers=6, random_state=2)[0])
        map_of(now(viewer))
        assert len(viewer.laid_out[0]) == 2_100


def test_of_many_points_a_sample_is_laid_out(monkeypatch):
    X, y = make_blobs(400, n_features=6, centers=5, random_state=3)
    monkeypatch.setattr(maps, "MAX_POINTS", 100)
    monkeypatch.setattr("grinch.serve.views.sample.MAX_POINTS", 100)
    viewer = Viewer(ModelBackend(Grinch().fit(X)))
    plane = plane_of(map_of(viewer))[1]
    near = neighbors(plane, 5)
    labels = y[viewer.scene.order]
    assert np.mean(labels[near] == labels[:, None]) > 0.9


@pytest.mark.parametrize("n", range(1, 6))
def test_few_points(n):
    near = np.array([[j for j in range(n) if j != i] + [-1] for i in range(n)], np.int32)
    plane = lay_out(near)
    assert plane.shape == (n, 2)
    assert np.isfinite(plane).all()
    assert len(np.unique(plane.round(6), axis=0)) == n
