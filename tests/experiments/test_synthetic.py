"""The paper's synthetic data: perfect purity in exact mode, and the order of the systems as the paper has it."""

from __future__ import annotations

import pytest

from grinch import Grinch, Online, Rotate
from grinch.datasets import paper_synthetic
from grinch.metrics import dendrogram_purity


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
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
    X, y = paper_synthetic(n_classes=15, random_state=0)
    purities = [dendrogram_purity(system(linkage="cosine").fit(X).tree_, y) for system in (Online, Rotate, Grinch)]
    assert purities[0] < purities[1] < purities[2]
    assert purities[2] > 0.95
