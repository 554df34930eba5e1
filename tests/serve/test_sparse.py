"""A sparse model that is looked at: narrow rows as dense ones, wide ones by the directions in which they vary most."""

import numpy as np
import pytest
import scipy.sparse

from grinch.serve.export import page_of
from grinch.serve.views import sample as samples
from grinch.serve.views.icicle import unpack_arrays
from grinch.serve.views.sample import N_DIRECTIONS, Directions
from serve.looked import viewer_on

N, N_TOPICS = 240, 4


def topics(width, seed=0):
    """Rows with 12 entries, three quarters of them in columns of their topic."""
    rng = np.random.default_rng(seed)
    which = rng.integers(0, N_TOPICS, N)
    own = rng.integers(0, width, (N_TOPICS, 20))
    columns = np.where(rng.random((N, 12)) < 0.75, own[which[:, None], rng.integers(0, 20, (N, 12))], 0)
    columns = np.where(columns == 0, rng.integers(0, width, (N, 12)), columns)
    X = scipy.sparse.csr_matrix((1 + rng.random(N * 12), columns.ravel(), np.arange(0, 12 * N + 1, 12)), (N, width))
    X.sum_duplicates()
    return X.astype(np.float32), which


def plane_of(viewer):
    _, arrays = unpack_arrays(viewer.map("pca"))
    return np.column_stack([arrays["x"], arrays["y"]]).astype(float)


@pytest.mark.parametrize("linkage", ["cosine", "ward"])
def test_narrow_rows_are_shown_as_dense_ones(linkage):
    X, _ = topics(100)
    dense, sparse = (viewer_on(rows, linkage=linkage) for rows in (X.toarray(), X))
    assert np.abs(plane_of(dense) - plane_of(sparse)).max() < 100
    root = dense.about()["root"]
    assert dense.node(root)["exemplars"] == sparse.node(root)["exemplars"]
    # A point like another is placed beside it.
    X, _ = topics(1000)
    for metric in ("cosine", "hellinger"):
        viewer = viewer_on(X, linkage="average", metric=metric)
        assert viewer.place(like=7)["neighbours"][0]["id"] == 7


@pytest.mark.parametrize("linkage", ["cosine", "ward", "average", "tanimoto"])
def test_wide_rows(linkage):
    X, which = topics(100_000)
    viewer = viewer_on(X, linkage=linkage, n_clusters=N_TOPICS)
    sample = viewer.sample(viewer.scene)
    assert sample.rows.shape == (N, N_DIRECTIONS)
    page = viewer.node(int(viewer.scene.tree.parents()[0]))
    assert page["columns"] == []
    assert page["exemplars"]
    plane, own = plane_of(viewer), which[viewer.scene.order]
    middles = np.stack([plane[own == topic].mean(axis=0) for topic in range(N_TOPICS)])
    nearest = np.linalg.norm(plane[:, None] - middles, axis=2).argmin(axis=1)
    # Two directions tell most of four topics apart.
    assert (nearest == own).mean() > 0.6
    assert "grinch-data" in page_of(viewer)


def test_directions_are_those_of_the_largest_singular_values(monkeypatch, rng):
    monkeypatch.setattr(samples, "MAX_ROWS_FOR_DIRECTIONS", 40)
    rows = scipy.sparse.random_array((80, 400), density=0.1, format="csr", rng=rng)
    shorten = Directions()
    shorten.fit(rows, 80)
    assert shorten(rows).shape == (80, N_DIRECTIONS)
    first = shorten.directions
    _, values, directions = np.linalg.svd(rows[::2].toarray(), full_matrices=False)
    found = np.linalg.norm(rows[::2].toarray() @ first, axis=0)
    np.testing.assert_allclose(found[:5], values[:5], rtol=0.02)
    assert np.abs(directions[0] @ first[:, 0]) > 0.99
    # They stay until there are more than twice as many points.
    for n, stays in ((160, True), (161, False)):
        shorten.fit(rows[:20], n)
        assert (shorten.directions is first) == stays


@pytest.mark.parametrize("n", [1, 2])
def test_few_or_empty_rows(n):
    viewer = viewer_on(scipy.sparse.csr_matrix((n, 5000), dtype=np.float32), linkage="ward")
    assert plane_of(viewer).shape == (n, 2)
