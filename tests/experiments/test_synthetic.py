"""The paper's synthetic data: perfect purity in exact mode, and the order of the systems as the paper has it."""

from __future__ import annotations

import numpy as np
import pytest

from grinch import Grinch
from grinch.datasets import gaussian_mixture, paper_synthetic
from grinch.metrics import dendrogram_purity


def test_the_data_are_as_described():
    X, y = paper_synthetic(random_state=1)
    assert X.shape == (2500, 10_000)
    assert np.bincount(y).tolist() == [25] * 100
    assert set(np.unique(X)) == {0, 1}
    assert X.sum(axis=1).min() >= 1
    assert X.sum(axis=1).mean() == pytest.approx(10, abs=0.3)
    for point, label in zip(X[:50], y[:50], strict=True):
        assert (np.flatnonzero(point) // 100 == label).all()


@pytest.mark.parametrize("seed", range(8))
def test_exact_mode_is_perfect_on_part_of_it(seed):
    """Fewer classes: the classes are orthogonal, so how many there are changes nothing but the time."""
    X, y = paper_synthetic(n_classes=12, random_state=seed)
    model = Grinch(linkage="cosine", mode="exact").fit(X)
    assert dendrogram_purity(model.tree_, y) == 1.0
    assert model.stats_["grafts"] > 0


@pytest.mark.slow
def test_exact_mode_is_perfect_on_all_of_it():
    X, y = paper_synthetic(random_state=0)
    model = Grinch(linkage="cosine", mode="exact").fit(X)
    assert dendrogram_purity(model.tree_, y) == 1.0
    assert model.stats_["grafts"] > 0


def test_online_rotate_and_grinch_come_in_this_order():
    X, y = paper_synthetic(n_classes=30, random_state=3)
    online = Grinch(linkage="cosine", rotate=False, graft=False).fit(X)
    rotate = Grinch(linkage="cosine", graft=False).fit(X)
    purities = [dendrogram_purity(m.tree_, y) for m in (online, rotate, Grinch(linkage="cosine").fit(X))]
    assert purities[0] < purities[1] < purities[2]
    assert purities[2] > 0.95


def test_the_mixture_has_unequal_classes():
    X, y = gaussian_mixture(5000, n_classes=100, n_features=8)
    assert X.shape == (5000, 8)
    counts = np.bincount(y, minlength=100)
    assert counts.max() > 5 * np.median(counts)
