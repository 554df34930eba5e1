"""Sizes and medoids of clusters, against all pairs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist, pdist, squareform

from grinch.cuts import (
    cluster_sizes,
    exemplars,
)


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("metric", ["cosine", "euclidean", "sqeuclidean"])
def test_an_exemplar_is_the_medoid(rng, metric, wrap):
    vectors = rng.normal(size=(200, 4))
    labels = rng.integers(-1, 8, 200)
    labels[labels == 5] = 2
    found = exemplars(wrap(vectors), labels, metric)
    for number, exemplar in enumerate(found.tolist()):
        members = np.flatnonzero(labels == number)
        if number == 5:
            assert exemplar == -1
        else:
            sums = cdist(vectors[members], vectors[members], metric).sum(axis=1)
            assert exemplar in members[np.isclose(sums, sums.min())]
    assert cluster_sizes(labels).tolist() == [(labels == number).sum() for number in range(8)]


def test_exemplars_of_large_clusters_by_blocks_and_by_the_mean(rng, monkeypatch):
    vectors = rng.normal(size=(1500, 3))
    sums = squareform(pdist(vectors)).sum(axis=1)
    assert exemplars(vectors, np.zeros(1500, int), "euclidean").tolist() == [sums.argmin()]
    monkeypatch.setattr("grinch.cuts.medoids.ALL_PAIRS_UP_TO", 1000)
    nearest = np.linalg.norm(vectors - vectors.mean(axis=0), axis=1).argmin()
    assert exemplars(vectors, np.zeros(1500, int), "euclidean").tolist() == [nearest]


def test_exemplars_at_the_edges():
    assert exemplars(np.empty((0, 2)), []).tolist() == cluster_sizes([]).tolist() == []
    assert exemplars([[1.0], [2.0]], [-1, -1], "euclidean").tolist() == []
    assert exemplars([[1.0], [2.0]], [1, 0]).tolist() == [1, 0]
    # Of opposite vectors and a zero one, the zero vector has the smallest sum of cosine distances.
    assert exemplars([[1.0], [-1.0], [0.0]], [0, 0, 0]).tolist() == [2]
    for bad in (["a", "b"], [0.5, 1.0], [[0, 1]], [-2, 0]):
        with pytest.raises(ValueError, match="labels must be one cluster number from 0 on"):
            exemplars([[1.0], [2.0]], bad)
    with pytest.raises(ValueError, match=r"metric must be one of .* got 'cosin'; did you mean 'cosine'"):
        exemplars([[1.0]], [0], "cosin")
