"""What holds for every system."""

from __future__ import annotations

import pickle
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from grinch import HAC, SCC, Birch, Grinch, MiniBatchHAC, Online, Perch, Rotate, cluster_with
from grinch.datasets import separated
from grinch.estimators.registry import SYSTEMS, make_system
from grinch.metrics import dendrogram_purity
from interrupts import interrupting
from refusals import refused
from systems import SMALL

GROWING = [name for name in SYSTEMS if hasattr(SYSTEMS[name].estimator, "partial_fit")]


every_system = pytest.mark.parametrize("name", SYSTEMS)


every_growing_system = pytest.mark.parametrize("name", GROWING)


def make(name, **settings):
    return make_system(name, **{**SMALL.get(name, {}), **settings})


@parametrize_with_checks([Grinch(), HAC(), MiniBatchHAC(), Perch(), Birch(), SCC()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        *(Grinch("ward", mode="exact"), HAC(linkage="cosine"), HAC(linkage="ward", lean=True), Online(), Rotate()),
        *(SCC(rule="affinity"), SCC(rule="rnn")),
    ]
)
def test_scikit_learn_contract_of_variants(estimator, check):
    check(estimator)


@every_system
def test_finds_separated_clusters(name, rng):
    X, y = separated("cliques", n_classes=8, per_class=25, n_features=10, random_state=1)
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
    model = cluster_with(name, X, metric="sqeuclidean", n_clusters=8, **SMALL.get(name, {}))
    model.tree_.check()
    assert (model.n_leaves_, model.n_features_in_) == (200, 10)
    distances, table = model.fit_transform(X), model.summary()
    assert distances.shape == (200, model.cluster_tree().n_clusters)
    assert table["cluster"].tolist() == list(range(distances.shape[1]))
    assert table["size"].tolist() == np.bincount(model.labels_).tolist()
    # A buffer of 20, collapsed leaves and Online promise nothing, and under Affinity a whole class joins another that
    # is still in parts; the others must be perfect.
    if name not in (*SMALL, "online", "affinity"):
        assert dendrogram_purity(model.tree_, y) == model.score(X, y) == 1.0
        assert adjusted_rand_score(y, model.labels_) == 1.0
        np.testing.assert_array_equal(distances.argmin(axis=1), model.labels_)
        assert model.score(X) > 0.5
    else:
        assert dendrogram_purity(model.tree_, y) > 0.6


@every_system
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_points(name, n):
    model = make(name, n_clusters=2).fit(np.eye(3)[:n])
    model.tree_.check()
    assert model.tree_.n_leaves == n
    assert model.labels_.tolist() == [0, 1, 1][:n] or model.labels_.tolist() in ([0, 0, 1][:n], [0, 1, 0][:n])
    assert model.labels_.max() + 1 == min(n, 2)
    assert model.tree_.to_scipy().shape == (n - 1, 4)
    assert np.isfinite(model.tree_.heights()).all()


@every_system
def test_duplicates_and_ties(name):
    X = np.repeat(np.array([[1.0, 0], [0, 1], [1, 1]]), 30, axis=0)
    model = make(name, n_clusters=3).fit(X)
    model.tree_.check()
    assert model.tree_.n_leaves == 90
    assert np.isfinite(model.tree_.heights()).all()
    if name not in SMALL and name != "online":
        assert dendrogram_purity(model.tree_, np.repeat([0, 1, 2], 30)) == 1.0
    grid = np.array([[x, y] for x in range(8) for y in range(8)], float)
    make(name).fit(grid).tree_.check()
    make(name).fit(np.zeros((40, 2))).tree_.check()


@every_growing_system
def test_any_chunking_gives_the_tree_of_fit(name, rng):
    """151 is a multiple of nothing: not of the batch of the searches, nor of the buffer, nor of any of the chunks."""
    X = rng.normal(size=(151, 5)) + 6 * rng.integers(0, 4, (151, 1))
    # The radius of Birch is otherwise estimated from the first points there are.
    whole = make(name, **({"radius": 0.7} if name == "birch" else {})).fit(X)
    for size in (1, 7, 50, 150):
        model = clone(whole)
        for start in range(0, 151, size):
            model.partial_fit(X[start : start + size])
            if size >= 50:  # whether it is looked at in between or not
                assert model.tree_.n_leaves == len(model.labels_) == min(start + size, 151)
        assert model.tree_.to_newick() == whole.tree_.to_newick()
        np.testing.assert_array_equal(model.labels_, whole.labels_)


@every_system
def test_ids_name_the_points(name, rng):
    X = rng.normal(size=(30, 4))
    ids = [f"p{i}" for i in range(30)]
    model = make(name, n_clusters=3)
    model.fit(X, ids=ids)
    assert model.ids_ == ids
    assert sorted(name for cluster in model.clusters_ for name in cluster) == sorted(ids)
    assert "p7" in model.tree_.to_newick()
    refused("'a' is there twice", model.fit, X[:2], ids=["a", "a"])
    assert model.n_leaves_ == 30


@every_growing_system
def test_a_shuffled_fit_numbers_leaves_by_row(name, rng):
    X, y = separated("cliques", n_classes=4, per_class=10, n_features=6, random_state=2)
    model = make(name, shuffle=True, random_state=3, n_clusters=4, metric="sqeuclidean")
    if name in ("perch-c", "perch-bc", "mb-hac"):
        model.set_params(**({"buffer_size": 50} if name == "mb-hac" else {"max_leaves": 50}))
    model.fit(X)
    if name != "online":
        assert adjusted_rand_score(y, model.labels_) == 1.0
    again = clone(model).fit(X)
    assert again.tree_.to_newick() == model.tree_.to_newick()


@every_system
def test_a_copy_goes_on_like_the_original(name, rng):
    X = rng.normal(size=(60, 4))
    model = make(name).fit(X[:40])
    copy = pickle.loads(pickle.dumps(model))
    assert copy.tree_.to_newick() == model.tree_.to_newick()
    if name in GROWING:
        assert copy.partial_fit(X[40:]).tree_.to_newick() == model.partial_fit(X[40:]).tree_.to_newick()


@every_system
def test_sparse_points(name, rng):
    X = rng.integers(0, 4, (50, 6)) * rng.random((50, 6))
    model = make(name).fit(scipy.sparse.csr_matrix(X))
    # Scores of sparse rows are rounded otherwise, in the last digits.
    assert sorted(model.tree_.keys().tolist()) == sorted(make(name).fit(X).tree_.keys().tolist())


@every_system
def test_bad_values_name_the_row_and_change_nothing(name):
    nothing, bad = np.empty((0, 3)), np.ones((3, 4))
    bad[1, 2] = np.nan
    refused("0 sample", make(name).fit, nothing)
    model = make(name).fit(np.eye(4))
    for message, rows in (("NaN in row 1, column 2", bad), ("0 sample", nothing)):
        refused(message, model.fit, rows)
        assert (model.n_leaves_, model.n_features_in_) == (4, 4)
    refused("n_clusters must be a whole number", make(name, n_clusters=0).fit, np.eye(4))


@every_system
def test_progress_adds_up_to_the_points(name, rng, monkeypatch):
    steps: list[float] = []

    @contextmanager
    def bar(what, total):
        assert total == 40
        yield steps.append

    monkeypatch.setattr("grinch.progress.progress_bar", bar)
    make(name, verbose=True).fit(rng.normal(size=(40, 3)))
    assert sum(steps) == pytest.approx(40, abs=1)


@pytest.mark.parametrize(("name", "given"), [*((name, {}) for name in GROWING), ("grinch", {"search": "index"})])
def test_ctrl_c_leaves_a_valid_tree_that_grows_on(name, given, rng, monkeypatch):
    X, model = rng.normal(size=(3_000, 8)), make(name, verbose=True, **given)
    monkeypatch.setattr("grinch.progress.progress_bar", interrupting(after=300))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    n = model.n_leaves_
    model.tree_.check()
    assert 0 < n == len(model.labels_) < 3_000
    model.partial_fit(X[n : n + 700])
    assert model.n_leaves_ == n + 700
    if name != "birch":  # whose radius is estimated from the first points there are
        assert model.tree_.to_newick() == make(name, **given).fit(X[: n + 700]).tree_.to_newick()
    model.tree_.check()


@every_system
def test_a_cut_changed_after_fit_is_checked(name, rng):
    model = make(name).fit(rng.normal(size=(20, 3)))
    model.n_clusters = 0
    refused("n_clusters must be a whole number", lambda: model.labels_)
    model.n_clusters, model.threshold = None, np.nan
    refused("threshold must be a number", lambda: model.labels_)


def test_flags_and_sizes_are_checked(rng):
    X = rng.normal(size=(60, 3))
    refused("balance must be True or False; got 'no'", Perch(balance="no").fit, X)
    refused("lean must be True or False; got 'yes'", HAC(lean="yes").fit, X)
    assert Perch(max_leaves=2**31 - 1).fit(X).n_leaves_ == 60
    assert Birch(radius=np.float32(0.5)).fit(X).n_leaves_ == 60
    assert make_system("hac", linkage="ward", metric="euclidean").fit(X).n_leaves_ == 60


def test_the_registry_says_what_it_takes():
    refused(r"method must be one of .*'grinch'.*did you mean 'perch'", make_system, "pertch")
    refused(
        r"a setting of method 'hac' must be one of .*'lean'.*got 'leann'; did you mean 'lean'",
        make_system,
        "hac",
        leann=True,
    )
    refused("takes no linkage of your own", make_system, "birch", linkage=lambda a, b: 0.0)
    assert isinstance(make_system("grinch"), Grinch)
    assert make_system("hac", metric="cosine").metric == "cosine"
    assert make_system("hac", linkage="ward", metric="euclidean").metric == "sqeuclidean"
    assert make_system("perch", linkage="ward").metric == "euclidean"
    assert make_system("birch", linkage="single", metric="cosine").metric == "cosine"


@every_system
@pytest.mark.parametrize("linkage", ["average", "cosine", "centroid", "ward", "single", "complete"])
def test_every_method_runs_with_every_linkage_by_name(name, linkage, rng):
    tree = cluster_with(name, rng.normal(size=(30, 4)), linkage=linkage, **SMALL.get(name, {})).tree_
    tree.check()
    assert tree.n_leaves == 30


@pytest.mark.parametrize("name", [name for name, system in SYSTEMS.items() if system.takes_linkage])
def test_a_function_is_a_linkage_for_every_method_that_takes_one(name):
    model = cluster_with(name, [1.0, 2.0, 9.0], linkage=lambda a, b: -abs(min(a) - min(b)), n_clusters=2)
    # Online puts the third point beside the second, and nothing moves it later.
    assert model.labels_.tolist() == ([0, 1, 1] if name == "online" else [0, 0, 1])
