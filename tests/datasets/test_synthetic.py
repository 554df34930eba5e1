"""Data made on the spot."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist, pdist

from effort import at_night
from grinch import Grinch, Tree
from grinch.datasets import arrival, gaussian_mixture, paper_synthetic, separated
from grinch.metrics import dendrogram_purity
from refusals import refused


@pytest.mark.parametrize("n_features", [1, 2, 10, 64])
def test_cliques_are_closer_to_their_own_than_to_any_other(n_features):
    vectors, labels = separated("cliques", n_classes=20, per_class=12, n_features=n_features, random_state=n_features)
    apart = cdist(vectors, vectors)
    own = labels[:, None] == labels[None, :]
    assert vectors.shape == (240, n_features)
    assert np.bincount(labels).tolist() == [12] * 20
    assert apart[own].max() <= 2 + 1e-3
    assert apart[~own].min() >= 4 - 1e-3
    for method in ("single", "complete", "average", "centroid"):
        assert dendrogram_purity(Tree.from_scipy(linkage(vectors, method)), labels) == 1.0


@pytest.mark.parametrize("n_features", [2, 3, 20])
def test_chains_are_connected_and_long_and_only_single_linkage_keeps_them(n_features):
    vectors, labels = separated("chains", n_classes=12, per_class=40, n_features=n_features, random_state=n_features)
    for k in range(12):
        chain = vectors[labels == k]
        assert linkage(chain, "single")[:, 2].max() < 1
        assert pdist(chain).max() >= 39 / 2
        assert cdist(chain, vectors[labels != k]).min() >= 2
    assert dendrogram_purity(Tree.from_scipy(linkage(vectors, "single")), labels) == 1.0
    assert dendrogram_purity(Tree.from_scipy(linkage(vectors, "complete")), labels) < 0.9


def connected_first(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    """Separates chains as Definition 1 asks: nearer is better, and a connected union better than any other."""
    union = [*a, *b]
    is_connected = connected_components(cdist(union, union) < 1, return_labels=False) == 1
    return is_connected - cdist(a, b).min() / 1000


@pytest.mark.parametrize("order", [at_night("random"), "sorted", at_night("round-robin")])
def test_the_exact_mode_finds_what_a_linkage_separates(order):
    vectors, labels = separated("cliques", n_classes=8, per_class=10, n_features=3)
    first = arrival(labels, order)
    model = Grinch(linkage="complete", mode="exact").fit(vectors[first])
    assert dendrogram_purity(model.tree_, labels[first]) == 1.0
    vectors, labels = separated("chains", n_classes=4, per_class=7, n_features=3)
    first = arrival(labels, order)
    model = Grinch(linkage=connected_first, mode="exact").fit(list(vectors[first]))
    assert dendrogram_purity(model.tree_, labels[first]) == 1.0


def test_separated_data_of_impossible_shapes_are_refused():
    refused(r"kind must be one of 'cliques', 'chains'; got 'clique'; did you mean", separated, "clique")
    refused(r"n_features must be at least 2 for kind='chains'; got 1", separated, "chains", n_features=1)
    refused(r"per_class must be at least 1 for kind='cliques'; got 0", separated, per_class=0)
    assert separated(n_classes=1, per_class=1, n_features=1).vectors.shape == (1, 1)


def test_the_data_are_as_described():
    X, y = paper_synthetic(random_state=1)
    assert X.shape == (2500, 10_000)
    assert np.bincount(y).tolist() == [25] * 100
    assert set(np.unique(X)) == {0, 1}
    assert X.sum(axis=1).min() >= 1
    assert X.sum(axis=1).mean() == pytest.approx(10, abs=0.3)
    for point, label in zip(X[:50], y[:50], strict=True):
        assert (np.flatnonzero(point) // 100 == label).all()


def test_the_mixture_has_unequal_classes():
    X, y = gaussian_mixture(5000, n_classes=100, n_features=8)
    assert X.shape == (5000, 8)
    counts = np.bincount(y, minlength=100)
    assert counts.max() > 5 * np.median(counts)
