"""Neighbours by distance and angle, against brute force."""

from __future__ import annotations

import numpy as np

from grinch.hints.neighbors import agreed_neighbors, neighbor_cost
from grinch.tree import NONE
from trees import random_tree


def test_neighbours_are_those_of_brute_force(rng):
    X = rng.normal(size=(60, 3)) + 1
    distances = ((X[:, None] - X) ** 2).sum(axis=2)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    angles = -(unit @ unit.T)
    for values in (distances, angles):
        np.fill_diagonal(values, np.inf)
    near = agreed_neighbors(X)
    for i in range(60):
        both = set(np.argsort(distances[i])[:10].tolist()) & set(np.argsort(angles[i])[:10].tolist())
        assert set(near[i].tolist()) - {NONE} == both
        assert (near[i][len(both) :] == NONE).all()


def test_where_distance_and_angle_agree_on_little_more_are_looked_at():
    """On a line all angles are equal, so the ten nearest by angle are any ten."""
    near = agreed_neighbors(np.arange(1.0, 201.0)[:, None])
    assert (near != NONE).sum() >= 200
    for n in (3, 8):
        assert (agreed_neighbors(np.ones((n, 2))) != NONE).sum() == n * (n - 1)


def test_the_cost_is_the_mean_size_of_common_ancestors(rng):
    tree = random_tree(rng, 30)
    near = rng.integers(NONE, 30, (30, 4)).astype(np.int32)
    sizes = [tree.size(tree.lca(i, int(j))) for i, row in enumerate(near) for j in row if j != NONE]
    assert neighbor_cost(tree, near) == np.mean(sizes)
