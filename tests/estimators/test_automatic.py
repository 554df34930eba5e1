"""The automatic cut of fitted models: the same in any chunking, for any linkage and every system."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from grinch import HAC, Grinch, Rules
from grinch.cuts import cut_auto
from grinch.estimators.registry import SYSTEMS, make_system
from grinch.neighbors import ByKey
from systems import SMALL


@pytest.fixture(scope="module")
def five():
    rng = np.random.default_rng(3)
    y = np.repeat(np.arange(5), [60, 50, 40, 30, 20])
    order = rng.permutation(len(y))
    return (rng.normal(size=(5, 12))[y] * 6 + rng.normal(size=(200, 12)))[order], y[order]


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_cuts_automatically(name, five):
    X, y = five
    model = make_system(name, **SMALL.get(name, {})).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.5
    layers = model.layers_
    assert len(layers) == len(model.layer_persistence_) >= 1
    assert any(np.array_equal(model.labels_, layer) for layer in layers)
    for fine, coarse in pairwise(layers):
        assert all(len(set(coarse[fine == c])) == 1 for c in range(fine.max() + 1))


@pytest.mark.parametrize("linkage", ["average", "cosine", "centroid", "ward", "single", "complete"])
def test_for_every_linkage(linkage, five):
    X, y = five
    assert adjusted_rand_score(y, Grinch(linkage).fit(X).labels_) > 0.9


def test_labels_follow_points_that_leave_and_change(five):
    X, y = five
    model = Grinch().fit(X)
    assert len(model.labels_) == 200
    model.remove(list(range(0, 40))).update([50], X[:1])
    assert len(model.labels_) == 160
    y = np.append(y[40:50], [y[0], *y[51:]])
    assert adjusted_rand_score(y, model.labels_) > 0.9
    model.remove(list(range(40, 150)))  # enough for slots to be given anew
    assert adjusted_rand_score(y[110:], model.labels_) > 0.9


def test_the_cut_of_the_tree_by_itself_is_the_same(five):
    X, _ = five
    model = Grinch(mode=Rules.fast(polish=False)).fit(X)
    np.testing.assert_array_equal(model.labels_, cut_auto(model.tree_, X))


def test_neighbours_that_a_refinement_found_are_those_that_would_be_looked_for(five):
    X, _ = five
    model = Grinch().fit(X).refine()
    again = pickle.loads(pickle.dumps(model))  # which does not keep them
    np.testing.assert_array_equal(model.labels_, again.labels_)
    np.testing.assert_array_equal(model.labels_, copy.deepcopy(model).labels_)


def words(kind, rng):
    return " ".join(rng.permutation([f"{kind}{i}" for i in range(8)])[:5])


def overlap(a, b):
    """The share of common words."""
    a, b = (set(" ".join(texts).split()) for texts in (a, b))
    return len(a & b) / len(a | b)


@pytest.mark.parametrize("search", ["auto", ByKey(lambda text: sorted({word[0] for word in text.split()}))])
def test_records_of_any_kind(search):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(4), 15))
    texts = [words("abcd"[c], rng) for c in y]
    model = Grinch(linkage=overlap, search=search).fit(texts[:30])
    asked = model.partial_fit(texts[30:]).stats_["scores"]
    assert adjusted_rand_score(y, model.labels_) == 1
    assert model.stats_["scores"] < asked + 200  # the scores of siblings, and no search
    model.remove(list(range(40)))
    assert adjusted_rand_score(y[40:], model.labels_) == 1
    assert adjusted_rand_score(y, HAC(linkage=overlap).fit(texts).labels_) == 1


def test_few_records_are_divided_too():
    texts = ["deep tree", "soup recipe", "tree search", "bread soup", "graph tree search", "soup bread recipe"]
    model = Grinch(linkage=overlap).fit(texts)
    assert model.labels_.tolist() == [0, 1, 0, 1, 0, 1]
    assert model.n_clusters_ == 2


def test_copies_of_one_point_are_one_cluster():
    assert Grinch().fit(np.ones((50, 3))).labels_.max() == 0
    digits, y = load_digits(return_X_y=True)
    twice = Grinch().fit(np.repeat(digits[:400], 2, axis=0)).labels_
    assert adjusted_rand_score(np.repeat(y[:400], 2), twice) > 0.5
    three = np.repeat(np.eye(3), 30, axis=0)
    assert adjusted_rand_score(np.repeat(np.arange(3), 30), Grinch().fit(three).labels_) == 1


def test_points_that_belong_nowhere_can_be_asked_for(five):
    X, _ = five
    far = -40 * np.eye(3, 12)
    model = HAC(linkage="average").fit(np.concatenate([X, far]))
    assert model.labels_.min() == 0
    labels = model.set_params(noise=True).labels_
    assert (labels[-3:] == -1).all()
    assert (labels[:-3] == -1).sum() < 10
    assert set(labels) == {-1, *range(labels.max() + 1)}
    assert sum(map(len, model.clusters_)) == (labels >= 0).sum()
    assert model.summary()["size"].sum() == (labels >= 0).sum()
    with pytest.raises(ValueError, match="noise must be True or False; got 'yes'"):
        assert model.set_params(noise="yes").labels_


def test_predict_goes_by_the_same_clusters(five):
    X, y = five
    model = Grinch().fit(X[:150])
    known = model.labels_
    for row, cluster in zip(y[150:], model.predict(X[150:]), strict=True):
        assert (y[:150][known == cluster] == row).mean() > 0.9
