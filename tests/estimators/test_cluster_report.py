"""What estimators say of their clusters, against brute force, and what scikit-learn's users expect of them."""

from __future__ import annotations

import pickle
import sys

import numba
import numpy as np
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV

from effort import at_night
from grinch import HAC, Birch, Grinch, MiniBatchHAC, Perch, cuts
from grinch.datasets import separated
from grinch.linkage import Pairwise
from refusals import refused


def named(each):
    """An id that is the same in every process."""
    return getattr(each, "__name__", str(each)[:50].replace("\n", ""))


@numba.njit
def minus_gap(a, b):
    """A compiled linkage of one's own: it looks at all there is of a group."""
    return -np.abs(a.mean - b.mean).sum() - a.spread - b.spread + 0.01 * b.size + 0.1 * a.length


def common(a, b):
    """A linkage on records: the share of letters in common."""
    a, b = set("".join(a)), set("".join(b))
    return len(a & b) / len(a | b)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def centres(X, labels):
    return np.array([X[labels == c].mean(axis=0) for c in range(labels.max() + 1)])


def to_means(X, labels, queries):
    return cdist(queries, centres(X, labels))


def to_directions(X, labels, queries):
    return 1 - unit(queries) @ unit(centres(unit(X), labels)).T


def to_sums(X, labels, queries):
    return 1 - unit(queries) @ unit(centres(X, labels)).T


def to_roots(X, labels, queries):
    return to_directions(np.sqrt(X), labels, np.sqrt(queries))


def to_sets(X, labels, queries):
    means = centres(X, labels)
    common = queries @ means.T
    return 1 - common / ((queries**2).sum(axis=1)[:, None] + (means**2).sum(axis=1) - common)


def products(X, labels, queries):
    return -queries @ centres(X, labels).T


# Where an exemplar is the nearest point to the centre.
NEAREST = (to_means, to_directions, to_roots, to_sets)
VECTORS = [
    (Grinch("average", metric="cosine"), to_directions),
    (Grinch("cosine"), to_sums),
    (Grinch("average", metric="dot"), products),
    (Grinch("average"), to_means),
    (Grinch("ward"), to_means),
    (Grinch("centroid"), to_means),
    (Grinch("single"), to_means),
    (Grinch("complete", metric="cosine"), to_directions),
    (Grinch("tanimoto"), to_sets),
    (Grinch(metric="hellinger"), to_roots),
    (Grinch("ward", shuffle=True, random_state=0), to_means),
    (HAC(), to_means),
    (HAC("average", metric="cosine"), to_directions),
    (HAC("ward", lean=True), to_means),
    (HAC("cosine"), to_sums),
    (HAC("average", metric="dot"), products),
    (MiniBatchHAC("ward", buffer_size=30, shuffle=True, random_state=1), to_means),
    (MiniBatchHAC(metric="cosine", buffer_size=30), to_directions),
    (Perch(), to_means),
    (Perch(metric="cosine"), to_directions),
    (Birch(shuffle=True, random_state=2), to_means),
    (Birch(metric="cosine"), to_directions),
]


@pytest.mark.parametrize(("model", "expected"), VECTORS, ids=named)
@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_matrix])
def test_transform_is_the_distance_to_the_centre(rng, model, expected, wrap):
    X, queries = rng.normal(size=(70, 4)) + 0.2, rng.normal(size=(9, 4))
    X, queries = (X, queries) if expected not in (to_roots, to_sets) else (np.abs(X), np.abs(queries))
    model = clone(model).set_params(n_clusters=6).fit(wrap(X))
    found = model.transform(wrap(queries))
    np.testing.assert_allclose(found, expected(X, model.labels_, queries), rtol=1e-5, atol=1e-6)
    if not isinstance(model, Grinch):
        np.testing.assert_array_equal(model.predict(queries), found.argmin(axis=1))
    own = model.transform(X)[np.arange(70), model.labels_]
    for c, (exemplar,) in enumerate(model.summary(n_exemplars=1)["exemplars"] if expected in NEAREST else ()):
        assert own[exemplar] == pytest.approx(own[model.labels_ == c].min(), abs=1e-6)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(queries), found)


@pytest.mark.parametrize(("model", "expected"), VECTORS[:8], ids=named)
def test_points_that_came_and_went_are_told_apart(rng, model, expected):
    rows = dict(enumerate(rng.normal(size=(60, 4)) + 0.2))
    model = clone(model).set_params(n_clusters=4).fit(np.array(list(rows.values())))
    model.remove([0, 7, 30])
    model.update([3, 59, 4], new := rng.normal(size=(3, 4)))
    rows |= dict(zip([3, 59, 4], new, strict=True))
    kept = np.array([rows[i] for i in model.ids_])
    np.testing.assert_allclose(model.transform(new), expected(kept, model.labels_, new), rtol=1e-5, atol=1e-6)
    exemplars = [own[0] for own in model.summary(n_exemplars=1)["exemplars"]]
    assert [model.clusters_[c].count(name) for c, name in enumerate(exemplars)] == [1] * 4


@pytest.mark.parametrize(
    "estimator", [Grinch("ward"), HAC("ward"), Perch(), Birch()], ids=lambda each: type(each).__name__
)
def test_distances_far_from_the_origin_and_of_tiny_vectors(rng, estimator):
    X = rng.normal(size=(60, 3)) * 0.01
    for change in (lambda rows: rows + 1e6, lambda rows: rows * 1e-15):
        points = change(X)
        model = clone(estimator).set_params(n_clusters=3).fit(points)
        expected = to_means(points, model.labels_, points)
        np.testing.assert_allclose(model.transform(points), expected, rtol=2e-3, atol=1e-6 * expected.max())


@pytest.mark.parametrize("metric", ["cityblock", "jaccard"])
@pytest.mark.parametrize("model", [Grinch("average"), HAC("complete")], ids=str)
def test_under_other_distances_an_exemplar_is_the_centre(rng, metric, model):
    X = rng.integers(0, 2, (60, 9)).astype(float) + np.eye(9)[0]
    model = clone(model).set_params(metric=metric, n_clusters=5).fit(X)
    exemplars = [own[0] for own in model.summary()["exemplars"]]
    assert exemplars == [points[0] for points in cuts.central_leaves(model.tree_, model.labels_)]
    np.testing.assert_allclose(model.transform(X), cdist(X, X[exemplars], metric))


def test_under_a_compiled_linkage_it_is_minus_the_score(rng):
    X, queries = rng.normal(size=(50, 3)).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    model = Grinch(minus_gap, metric="sqeuclidean", n_clusters=4).fit(X)
    labels = model.labels_
    means = centres(X, labels)
    spread = [((X[labels == c] - means[c]) ** 2).sum(axis=1).mean() for c in range(4)]
    gaps = cdist(queries, means, "cityblock") + spread - 0.01 * np.bincount(labels)
    expected = gaps - 0.1 * np.linalg.norm(queries, axis=1, keepdims=True)
    np.testing.assert_allclose(model.transform(queries), expected, rtol=1e-5)


@pytest.mark.parametrize("estimator", [Grinch, HAC, MiniBatchHAC])
def test_records_are_measured_by_their_linkage(estimator):
    records = ["abc", "xyz", "bcd", "yzw", "abd", "xw"]
    model = estimator(common, n_clusters=2).fit(records, ids=list("uvwxyz"))
    groups = [[records["uvwxyz".index(name)] for name in own] for own in model.clusters_]
    np.testing.assert_allclose(
        model.transform(["ab", "x"]), [[-common([q], group) for group in groups] for q in ["ab", "x"]]
    )
    assert model.predict(["ab", "x"]).tolist() == [0, 1]
    assert model.score(records, [0, 1, 0, 1, 0, 1]) == 1.0
    assert 0 < model.score(records) <= 1
    table = model.summary(records)
    assert [own[0] for own in table["exemplars"]] == ["u", "v"]
    apart = Pairwise("average", distance=lambda x, y: abs(len(x) - len(y)))
    np.testing.assert_allclose(estimator(apart, n_clusters=2).fit(["a", "bb", "cc" * 9]).transform(["a"]), [[0.5, 17]])


def test_a_linkage_that_fails_in_transform_is_explained():
    def linkage(a, b):
        if "bad" in a or "nan" in a:
            return 1 / 0 if "bad" in a else float("nan")
        return -abs(len(a[0]) - len(b[0]))

    model = Grinch(linkage, n_clusters=2).fit(["a", "bb", "ccc"])
    refused(r"linkage raised ZeroDivisionError: .*for the record 'bad'", model.transform, ["a", "bad"])
    refused(r"linkage returned nan, which is no score .for the record 'nan'", model.transform, ["nan"])


def test_the_table(rng):
    X = np.concatenate([rng.normal(size=(20, 3)), rng.normal(size=(10, 3)) + 20, [[-90.0, 0, 0]]])
    ids = [f"p{i}" for i in range(31)]
    model = HAC("ward", n_clusters=3).fit(X, ids=ids)
    texts = ["low ground"] * 20 + ["high ground"] * 10 + ["far away"]
    table = model.summary(texts, n_exemplars=2, n_keywords=1)
    assert list(table) == [
        *("cluster", "size", "share", "confidence", "exemplars", "keywords", "node", "score", "parent_score")
    ]
    assert table["size"].tolist() == [20, 10, 1]
    assert table["share"].tolist() == [20 / 31, 10 / 31, 1 / 31]
    assert table["keywords"].tolist() == [["low"], ["high"], ["away"]]
    tree, confidence = model.tree_, model.current_fit().automatic().confidence
    for row in table.itertuples():
        members = tree.leaves(row.node)
        assert [ids[i] for i in members] == model.clusters_[row.cluster]
        gaps = np.linalg.norm(X[members] - X[members].mean(axis=0), axis=1)
        assert row.exemplars == [ids[i] for i in members[np.argsort(gaps)][:2]]
        parent = tree.parent(row.node)
        assert row.confidence == confidence[row.node]
        assert row.parent_score == tree.scores[parent]
    np.testing.assert_array_equal(table["score"], tree.scores[table["node"]])
    by_id = dict(zip(ids, texts, strict=True))
    assert model.summary(by_id, n_exemplars=2, n_keywords=1).equals(table)
    clusters = model.cluster_tree(texts, n_keywords=2)
    assert clusters.names == ["low, ground", "high, ground", "away, far"]
    assert clusters.keywords == [["low", "ground"], ["high", "ground"], ["away", "far"]]
    assert clusters.confidence.tolist() == table["confidence"].tolist()
    kinds = ["a"] * 19 + [None] + ["b"] * 10 + [None]
    assert model.cluster_tree(labels=kinds).names == ["a (95 %)", "b", "cluster 2"]
    both = model.cluster_tree(texts, labels=kinds, n_keywords=1)
    assert both.names == ["low (a 95 %)", "high (b)", "away"]
    refused("labels must have an entry for each of the 31 points; got 1", model.cluster_tree, labels=["a"])


def test_noise_is_in_no_row(rng):
    X = np.concatenate([rng.normal(size=(60, 3)), rng.normal(size=(40, 3)) + 20, [[200.0, 0, 0], [0, 300, 0]]])
    model = Grinch("ward", n_clusters=4, noise=True).fit(X)
    assert (model.labels_ < 0).sum() >= 1
    table = model.summary()
    assert table["size"].tolist() == np.bincount(model.labels_[model.labels_ >= 0]).tolist()
    distances = model.transform(X)
    inside = model.labels_ >= 0
    assert (distances.argmin(axis=1) == model.labels_)[inside].mean() > 0.8
    assert model.cluster_tree().n_clusters == len(table)
    assert list(model.set_output(transform="pandas").transform(X)) == [f"grinch{i}" for i in range(len(table))]


def test_how_long_a_cluster_lasts_does_not_depend_on_the_noise_in_it(rng):
    X = np.concatenate([rng.normal(size=(60, 3)), rng.normal(size=(40, 3)) + 40, [[9.0, 0, 0], [0, 9, 0]]])
    model = HAC("ward", n_clusters=2).fit(X)
    whole, rest = model.summary(), model.set_params(noise=True).summary()
    assert whole["size"].tolist() == [62, 40]
    assert rest["size"].sum() < 102
    assert rest["confidence"].tolist() == whole["confidence"].tolist() == model.cluster_tree().confidence.tolist()


def test_a_single_cluster_a_single_point_and_none(rng):
    model = Grinch(n_clusters=1).fit(rng.normal(size=(9, 3)))
    assert model.summary()["size"].tolist() == [9]
    assert np.isnan(model.summary()["parent_score"][0])
    assert model.score(rng.normal(size=(4, 3))) == 0.0
    alone = Grinch(metric="cosine").fit([[1.0, 2.0]])
    assert alone.summary()["exemplars"].tolist() == [[0]]
    assert alone.transform([[1.0, 2.0], [2.0, -1.0]]).round(6).tolist() == [[0.0], [1.0]]
    empty = alone.remove([0])
    assert empty.transform([[1.0, 2.0]]).shape == (1, 0)
    assert (len(empty.summary()), empty.cluster_tree().n_clusters) == (0, 0)
    twins = Grinch("ward", n_clusters=2).fit(np.ones((6, 2)))
    assert twins.summary()["confidence"].between(0, 1).all()
    assert twins.score(np.ones((2, 2))) == 0.0


def test_score_is_a_silhouette_or_an_agreement(rng):
    X = rng.normal(size=(80, 3))
    model = HAC("ward", n_clusters=5).fit(X)
    queries, y = rng.normal(size=(15, 3)), np.array(["a", "b", None] * 5, dtype=object)
    near = np.sort(model.transform(queries), axis=1)
    assert model.score(queries) == pytest.approx(np.mean((near[:, 1] - near[:, 0]) / near[:, 1]))
    known = y != None  # noqa: E711
    assert model.score(queries, y) == adjusted_rand_score(y[known].tolist(), model.predict(queries)[known])
    refused("inconsistent numbers of samples", model.score, queries, [1, 2])


def test_merges_that_are_forbidden_or_demanded_have_a_score():
    def linkage(a, b):
        together = set(a) | set(b)
        if {"x", "y"} <= together:
            return -np.inf
        return np.inf if {"x", "q"} <= together else -float(len(together))

    model = Grinch(linkage, n_clusters=2).fit(["x", "y", "xx", "yy"])
    assert np.isinf(model.transform(["q", "y"])).any()
    assert 0 < model.score(["q", "y"]) <= 1


def test_points_that_no_cluster_takes_are_clusters_of_their_own_in_a_score():
    model = Grinch(metric="cosine", threshold=0.9).fit([[1.0, 0], [1, 0.01], [0, 1], [0.01, 1]])
    rows = [[1, 0.0], [1, 1], [1, 1.1], [0, 1]]
    assert model.predict(rows).tolist() == [0, -1, -1, 1]
    assert model.score(rows, [0, 1, 2, 3]) == 1.0
    assert model.score(rows, [0, 1, 1, 3]) < 1.0


@pytest.mark.parametrize(
    "model", [Grinch("ward"), HAC("ward"), *map(at_night, [Perch(), MiniBatchHAC("ward"), Birch()])], ids=str
)
def test_a_grid_search_needs_no_scoring(rng, model):
    X, y = separated("cliques", n_classes=5, per_class=16, n_features=6, random_state=3)
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
    for target in (None, y):
        search = GridSearchCV(clone(model), {"n_clusters": [2, 5, 20]}, cv=3).fit(X, target)
        assert search.best_params_ == {"n_clusters": 5}
        assert search.predict(X).shape == (80,)


def test_what_the_user_changes_later_changes_nothing(rng):
    for estimator in (HAC("ward"), MiniBatchHAC("ward"), Grinch("ward"), Birch(), Perch()):
        X = rng.normal(size=(40, 3))
        queries = X[:5].copy()
        model = estimator.set_params(n_clusters=3).fit(X)
        before = model.transform(queries)
        X[:] = 0
        np.testing.assert_array_equal(model.transform(queries), before)


def test_bad_questions_are_refused(rng, monkeypatch):
    model = Grinch(n_clusters=2).fit(rng.normal(size=(20, 3)))
    refused("X has 2 features, but Grinch is expecting 3", model.transform, [[1.0, 2.0]])
    refused("texts must have one entry for each of the 20 points; got 1", model.summary, ["a"])
    refused("n_exemplars must be a whole number of at least 1; got 0", model.summary, n_exemplars=0)
    refused("n_keywords must be a whole number of at least 1; got None", model.cluster_tree, n_keywords=None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    refused(r"summary\(\) needs pandas, .* pip install 'grinch\[pandas\]'", model.summary, error=ImportError)


def test_keywords_from_the_names_of_columns():
    X = np.array([[3.0, 0, 1, 0], [2, 0, 1, 0], [0, 4, 1, 1], [0, 3, 1, 0]])
    for system in (Grinch(n_clusters=2), Grinch("ward", n_clusters=2), HAC(n_clusters=2)):
        table = system.fit(X).summary(terms=["cat", "stock", None, "rare"])
        assert table["keywords"].tolist() == [["cat"], ["stock", "rare"]]
    refused("names must have one entry for each of the 4 columns", system.summary, terms=["cat"])
    refused("give one of them", system.summary, ["a"] * 4, terms=["a"] * 4)
    records = Grinch(linkage=lambda a, b: -abs(sum(a) / len(a) - sum(b) / len(b)), n_clusters=2).fit([1, 2, 8, 9])
    refused("are records, which have none", records.summary, terms=["a"])


def test_roots_are_compared_by_every_system(rng):
    inside = (np.arange(60) // 12)[None] == np.repeat(np.arange(5), 24)[:, None]
    vectors = (1 + rng.random((120, 60))) * (rng.random((120, 60)) < np.where(inside, 0.5, 0.03))
    model = HAC(linkage="average", metric="hellinger", n_clusters=5).fit(vectors)
    roots = HAC(linkage="average", metric="cosine", n_clusters=5).fit(np.sqrt(vectors))
    assert (model.labels_ == roots.labels_).all()
    np.testing.assert_allclose(model.transform(vectors), roots.transform(np.sqrt(vectors)), atol=1e-5)
    assert model.predict(vectors).tolist() == model.labels_.tolist()
