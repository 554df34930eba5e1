"""Looking changes nothing: a model that is read grows into the same tree as its twin that is not."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import grinch
from effort import at_night
from grinch import Grinch, Online, Rotate, Rules
from grinch.linkage.named import VECTOR_LINKAGES
from grinch.neighbors import ByKey, ByVector
from sparse_data import sparse_groups
from twins import same_bits

# Beyond the cap of 300 leaves, where summaries of nodes may lag behind.
N, BATCH = 1200, 300
DAILY = {("cosine", "cosine"), ("average", "sqeuclidean"), ("average", "dot"), ("tanimoto", "tanimoto")}
NAMED = [(name, metric) for name, metrics in VECTOR_LINKAGES.items() for metric in metrics]


def overlapping_groups(n: int) -> np.ndarray:
    """Return points in a few overlapping groups, so that branches grow large; every fortieth is zero."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 8))[rng.integers(9, size=n)] + rng.normal(size=(n, 8))
    X[::40] = 0.0
    return X


def look(model, X) -> None:
    """Read all there is to read: with points of the tree, with nothing in common with any, far from all, in between."""
    far, nothing = X[:3] * 1e6, X[:3] * 0.0
    for points in (X[:40], nothing, far, X[:20] * 0.37, X[:3] + far):
        model.predict(points)
    assert len(model.labels_) == model.tree_.n_leaves
    model.transform(X[:5])
    model.layers_, model.clusters_, model.stats_
    model.summary()
    by_number = copy.copy(model).set_params(n_clusters=7)
    by_number.labels_, by_number.predict(nothing)
    pickle.dumps(model)


def look_at_points(model, X) -> None:
    """Read what there is to read of models and linkages that cannot say more."""
    model.predict([*X[:20], np.zeros(8), np.full(8, 1e6)])
    model.labels_, model.tree_


def assert_same_tree(a, b) -> None:
    assert same_bits(a.tree_.keys(), b.tree_.keys())
    assert same_bits(a.tree_.heights(), b.tree_.heights())


def check_twins(new_model, X, look=look, batch=BATCH):
    """Let two models take the same batches, of which one is read after each, and go the same way from there."""
    (n, *_), both = np.shape(X), (new_model(), new_model())
    for start in range(0, n, batch):
        for model in both:
            before = model.partial_fit(X[start : start + batch]).stats_
        look(both[1], X[: start + batch])
        assert both[1].stats_ == before
    assert_same_tree(*both)
    for model in both:
        model.remove(range(0, n, 7))
    look(both[1], X)
    for model in both:
        model.partial_fit(X[:batch])
    assert_same_tree(*both)


@pytest.mark.parametrize(("linkage", "metric"), [each if each in DAILY else at_night(*each) for each in NAMED])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_all_linkages_on_vectors(linkage, metric, is_sparse):
    X = sparse_groups(N, n_features=120, n_groups=6) if is_sparse else overlapping_groups(N)
    X = np.abs(X) if linkage == "tanimoto" or metric == "hellinger" else X
    check_twins(lambda: Grinch(linkage, metric=metric), X)


@pytest.mark.parametrize("linkage", ["single", at_night("complete")])
def test_linkages_of_all_pairs(linkage):
    check_twins(lambda: Grinch(linkage), overlapping_groups(320), batch=160)


@pytest.mark.parametrize("mode", [Rules.fast(polish=False), Rules.fast(cap=30, polish=False), "paper"])
def test_other_rules(mode):
    check_twins(lambda: Grinch("cosine", mode=mode), overlapping_groups(N))


@pytest.mark.parametrize("system", [Online, Rotate])
def test_other_systems(system):
    check_twins(lambda: system("cosine"), overlapping_groups(N), look_at_points)


def test_records_with_sources_of_candidates():
    def similarity(a, b):
        return -float(np.abs(np.mean(a, axis=0) - np.mean(b, axis=0)).sum())

    sources = [ByVector(lambda rows: np.asarray(rows), n=20, metric="sqeuclidean"), ByKey(lambda row: int(row[0]))]
    check_twins(lambda: Grinch(similarity, search=sources), list(overlapping_groups(160)), look_at_points, 80)


def test_the_smallest_example():
    """The height of the root once changed by looking at where its own points would go."""
    X = np.array([[0, 1], [1, 0], [1, 1], [1, 1]], np.float32)
    rules = Rules.exact(pull=False, graft=False, restructure=False, lagging=True, cap=1)
    model = Grinch("average", metric="sqeuclidean", mode=rules)
    for row in X:
        model.partial_fit(row[None])
    model.predict(X[:3])
    assert model.tree_.heights()[model.tree_.root] == pytest.approx(1.5)


def test_refining_unsettled_points_does_not_depend_on_what_was_read():
    X = overlapping_groups(N)
    unread, read = (Grinch("average", metric="sqeuclidean").fit(X) for _ in range(2))
    look(read, X)
    for model in (unread, read):
        model.refine(points="unsettled")
    assert_same_tree(unread, read)


def test_whole_numbers_stay_whole_when_others_are_looked_up():
    """Ties among whole numbers are exact; a query once made every later search compare all points again."""
    X = np.rint(3 * overlapping_groups(400))
    model = Grinch("average", metric="dot").fit(X)
    before = pickle.loads(pickle.dumps(model))
    model.predict(X[:5] + 0.25)
    model.predict(X[:5] * 1e9)
    for attribute in ("is_whole", "longest"):
        assert getattr(model.engine().summaries, attribute) == getattr(before.engine().summaries, attribute)


def test_a_store_whose_writer_reads_is_the_same_to_its_readers(tmp_path):
    # So few that automatic cuts are made with the change, and not when a forked process is done.
    X = overlapping_groups(2000)
    stores = [grinch.open(tmp_path / name, linkage="cosine") for name in ("unread", "read")]
    for start in range(0, 2000, 200):
        for store in stores:
            store.insert(X[start : start + 200])
        stores[1].predict(np.zeros((3, 8)))
        stores[1].predict(X[:30])
        stores[1].labels(), stores[1].tree, stores[1].clusters()
    assert same_bits(stores[0].tree.heights(), stores[1].tree.heights())
    assert stores[0].clusters() == stores[1].clusters()
    with grinch.open(tmp_path / "read", readonly=True) as reader:
        assert reader.clusters() == stores[1].clusters()
        assert same_bits(reader.tree.heights(), stores[1].tree.heights())
    stores[1].check()
    for store in stores:
        store.close()
