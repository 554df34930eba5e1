"""How trees are cut with nothing chosen, and with little: layers, least sizes, noise, membership."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import grinch
from effort import trials
from grinch import HAC, Grinch, MiniBatchHAC, Perch, cuts


def stretched(seed):
    X, y = make_blobs(400, centers=[[-9, 0], [0, 4], [9, -3]], random_state=seed)
    return X @ np.array([[0.6, -0.6], [-0.4, 0.8]]), y


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "made",
    [
        lambda seed: make_blobs(400, centers=[[-9, 0], [0, 6], [9, -3]], random_state=seed),
        lambda seed: make_blobs(400, centers=[[-9, 0], [0, 9], [9, -3]], cluster_std=[1, 2, 0.5], random_state=seed),
        lambda seed: make_blobs(400, centers=15, n_features=10, random_state=seed),
        lambda seed: make_moons(400, noise=0.05, random_state=seed),
        lambda seed: make_circles(600, factor=0.5, noise=0.05, random_state=seed),
        stretched,
    ],
    ids=["blobs", "varied", "15 blobs", "moons", "circles", "aniso"],
)
def test_what_everybody_sees_is_found(made, seed):
    X, y = made(seed)
    assert adjusted_rand_score(y, Grinch().fit(X).labels_) > 0.95


def test_overlapping_classes_do_not_fall_apart():
    X, y = grinch.datasets.gaussian_mixture(4000, n_classes=200, n_features=32, random_state=1)
    model = Grinch().fit(X)
    assert model.n_clusters_ < 4 * len(np.unique(y))
    assert adjusted_rand_score(y, model.labels_) > 0.35


# Layers and least sizes -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nested():
    """Six groups of five, and a few points between them."""
    rng = np.random.default_rng(0)
    centres = (rng.normal(size=(6, 8)) * 60)[:, None] + rng.normal(size=(6, 5, 8)) * 10
    X = np.repeat(centres.reshape(30, 8), 20, axis=0) + rng.normal(size=(600, 8))
    return rng.permutation(np.concatenate([X, rng.normal(size=(12, 8)) * 60]))


@pytest.mark.parametrize("system", [Grinch, HAC, MiniBatchHAC, Perch])
def test_layers_by_name_and_number(nested, system):
    model = system().fit(nested)
    layers = model.layers_
    assert len(layers) > 1
    for name, number in (("fine", 0), ("coarse", -1), (0, 0), (len(layers) - 1, -1)):
        np.testing.assert_array_equal(model.set_params(layer=name).labels_, layers[number])
    assert any((model.set_params(layer="auto").labels_ == layer).all() for layer in layers)
    with pytest.raises(
        ValueError, match=f"layer must be from 0, the finest, to {len(layers) - 1}, the coarsest; got 9"
    ):
        _ = model.set_params(layer=9).labels_


@given(
    st.integers(0, 1000),
    st.integers(2, 12),
    st.sampled_from([{}, {"n_clusters": 6}, {"n_clusters": 6, "cut": "height"}, {"threshold": -0.5}]),
    st.booleans(),
)
@settings(max_examples=trials(15, 300))
def test_clusters_are_large_enough(seed, least, how, noise):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2)) + rng.integers(0, 4, (60, 1)) * 5
    model = Grinch(min_cluster_size=least, **how).fit(X)
    assert np.bincount(model.labels_).min() >= least
    for fine, coarse in zip(model.layers_, model.layers_[1:], strict=False):
        assert len(np.unique(np.stack([fine, coarse]), axis=1).T) == fine.max() + 1
        assert min(np.bincount(fine).min(), np.bincount(coarse).min()) >= least
    labels = model.set_params(noise=noise).labels_
    assert labels.min() >= (-1 if noise else 0)
    assert np.bincount(labels[labels >= 0], minlength=1).min() >= (least if (labels >= 0).any() else 0)
    assert set(labels[labels >= 0]) == set(range(labels.max() + 1))


def test_small_groups_are_noise_if_that_is_asked_for():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 30, rng.normal(size=(3, 2)) + 200])
    model = Grinch(min_cluster_size=10).fit(X)
    assert model.labels_.max() == 1
    labels = model.set_params(noise=True).labels_
    assert (labels[-3:] == -1).all()
    assert (labels[:-3] >= 0).sum() > 110


def test_equal_points_stay_together_in_any_order():
    rng = np.random.default_rng(1)
    X = np.repeat(rng.normal(size=(30, 2)) * 5, 3, axis=0)
    for _ in range(4):
        order = rng.permutation(len(X))
        labels = np.empty(len(X), np.int64)
        labels[order] = Grinch(min_cluster_size=4).fit(X[order]).labels_
        assert (labels.reshape(30, 3) == labels[::3, None]).all()


def test_the_table_and_the_tree_of_joined_clusters(nested):
    model = Grinch(n_clusters=5).fit(nested)
    table, labels = model.summary(), model.labels_
    assert table["size"].tolist() == np.bincount(labels).tolist()
    assert model.cluster_tree().sizes[:5].tolist() == np.bincount(labels).tolist()
    for cluster, node in zip(table["cluster"], table["node"], strict=True):
        assert (labels[model.tree_.leaves(node)] == cluster).all()


# Noise and membership -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_points_between_clusters_are_noise(seed):
    X, _ = make_blobs(1000, centers=10, cluster_std=0.3, random_state=seed)
    rng = np.random.default_rng(seed)
    points = np.concatenate([X, rng.uniform(X.min(axis=0), X.max(axis=0), (200, 2))])
    labels = Grinch(noise=True).fit(points).labels_
    assert (labels[1000:] == -1).sum() >= 150
    assert (labels[:1000] == -1).sum() <= 50


def test_membership_agrees_with_predict():
    X = load_digits().data
    model = Grinch().fit(X)
    shares = model.membership(X)
    assert shares.shape == (len(X), model.n_clusters_)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (shares.argmax(axis=1) == model.predict(X)).mean() >= 0.95
    # From the distances: sure where the nearest centre is far nearer than the next.
    distances = np.sort(model.transform(X), axis=1)
    nearness = distances[:, 0] / distances[:, 1]
    assert shares.max(axis=1)[nearness < 0.6].mean() > shares.max(axis=1)[nearness > 0.9].mean()


@pytest.mark.parametrize(
    "model", [Grinch(metric="dot"), Grinch(metric="cosine"), HAC("ward"), Grinch("single"), Grinch(n_clusters=1)]
)
def test_memberships_sum_to_one(model):
    X = np.abs(np.random.default_rng(0).normal(size=(80, 4)))
    shares = model.fit(X).membership(X)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_membership_of_a_point_at_a_centre():
    model = HAC("ward", n_clusters=2).fit([[0.0], [2], [9], [11]])
    np.testing.assert_allclose(model.membership([[1.0], [10], [5.5]]), [[1, 0], [0, 1], [0.5, 0.5]], atol=1e-8)


def test_a_threshold_is_cut_as_before(nested):
    model = Grinch(threshold=-200.0).fit(nested)
    np.testing.assert_array_equal(model.labels_, cuts.cut_threshold(model.tree_, -200.0))
