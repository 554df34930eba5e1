"""What is said of the clusters of sparse vectors is what is said of the same vectors dense."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from grinch import HAC, Grinch

LINKAGES = [
    ("average", "cosine"),
    ("average", "dot"),
    ("average", "sqeuclidean"),
    ("average", "hellinger"),
    ("cosine", None),
    ("ward", None),
    ("centroid", None),
    ("tanimoto", None),
]


@pytest.fixture
def vectors(rng):
    """Five groups of rows with mostly their own columns."""
    groups = np.repeat(np.arange(5), 24)
    inside = (np.arange(60) // 12)[None] == groups[:, None]
    found = (1 + rng.random((120, 60))) * (rng.random((120, 60)) < np.where(inside, 0.5, 0.03))
    return found.astype(np.float32)


def models(vectors, linkage, metric):
    """The same tree of dense rows and of sparse ones."""
    dense = Grinch(linkage=linkage, metric=metric, n_clusters=5).fit(vectors)
    return dense, Grinch(linkage=linkage, metric=metric, n_clusters=5).fit(scipy.sparse.csr_matrix(vectors))


@pytest.mark.parametrize(("linkage", "metric"), LINKAGES)
def test_distances_to_clusters(vectors, linkage, metric):
    dense, sparse = models(vectors, linkage, metric)
    assert (dense.labels_ == sparse.labels_).all()
    for given in (vectors, scipy.sparse.csr_matrix(vectors)):
        np.testing.assert_allclose(sparse.transform(given), dense.transform(vectors), atol=1e-5)
    assert sparse.score(vectors) == pytest.approx(dense.score(vectors), abs=1e-5)


@pytest.mark.parametrize(("linkage", "metric"), LINKAGES)
def test_clusters(vectors, linkage, metric):
    dense, sparse = models(vectors, linkage, metric)
    for name in ("size", "exemplars"):
        assert dense.summary()[name].tolist() == sparse.summary()[name].tolist()
    np.testing.assert_allclose(dense.summary()["sure"], sparse.summary()["sure"], atol=1e-4)
    assert [layer.max() for layer in dense.layers_] == [layer.max() for layer in sparse.layers_]


def test_distances_by_their_formulas(vectors):
    sparse = scipy.sparse.csr_matrix(vectors)
    model = Grinch(linkage="tanimoto", n_clusters=5).fit(sparse)
    means = np.stack([vectors[model.labels_ == c].mean(axis=0) for c in range(5)]).astype(np.float64)
    products = vectors @ means.T
    union = np.square(vectors).sum(axis=1)[:, None] + np.square(means).sum(axis=1) - products
    np.testing.assert_allclose(model.transform(sparse), 1 - products / union, atol=1e-6)
    best = [np.argmin(np.where(model.labels_ == c, model.transform(sparse)[:, c], np.inf)) for c in range(5)]
    assert [points[0] for points in model.summary()["exemplars"]] == best

    model = Grinch(metric="hellinger", linkage="average", n_clusters=5).fit(sparse)
    roots = np.sqrt(vectors) / np.maximum(np.sqrt(vectors.sum(axis=1, keepdims=True)), 1e-9)
    means = np.stack([roots[model.labels_ == c].mean(axis=0) for c in range(5)])
    cosines = roots @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    np.testing.assert_allclose(model.transform(sparse), 1 - cosines, atol=1e-6)


def test_roots_are_compared_by_every_system(vectors):
    model = HAC(linkage="average", metric="hellinger", n_clusters=5).fit(vectors)
    roots = HAC(linkage="average", metric="cosine", n_clusters=5).fit(np.sqrt(vectors))
    assert (model.labels_ == roots.labels_).all()
    np.testing.assert_allclose(model.transform(vectors), roots.transform(np.sqrt(vectors)), atol=1e-5)
    assert model.predict(vectors).tolist() == model.labels_.tolist()


def test_what_stores_dense_rows_names_what_does_not():
    """Rows so wide that no dense one would fit into memory."""
    X = scipy.sparse.csr_matrix((np.ones(4), ([0, 1, 2, 2], [5, 5, 2**31 - 2, 7])), shape=(3, 2**31 - 1))
    X = scipy.sparse.vstack([X] * 40).tocsr()
    with pytest.raises(ValueError, match="Grinch"):
        HAC().fit(X)
