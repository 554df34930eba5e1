"""HAC against scipy, against brute force, and against Fact 1 of the paper."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage as scipy_linkage
from scipy.spatial.distance import pdist

from grinch import HAC, MiniBatchHAC
from grinch.baselines import distance_rows
from grinch.linkage import Pairwise
from grinch.linkage.named import linkage_of
from refusals import refused
from separation import KINDS, SeparatingLinkage, missed_components
from trees import groups

REDUCIBLE = ("single", "complete", "average", "ward")


def scipy_groups(matrix):
    n = len(matrix) + 1
    found = [frozenset([i]) for i in range(n)]
    for left, right, *_ in matrix:
        found.append(found[int(left)] | found[int(right)])
    return set(found)


@pytest.mark.parametrize("linkage", ["centroid", linkage_of("centroid"), linkage_of("ward")])
def test_centroid_and_ward_are_scipys(rng, linkage):
    X, name = rng.normal(size=(80, 5)), getattr(linkage, "name", linkage)
    assert groups(HAC(linkage=linkage).fit(X).tree_) == scipy_groups(scipy_linkage(X, name))


# By name, by the metrics of scipy, compiled, and as a linkage of one's own: settings, and what they are to scipy.
SCIPYS = [
    *(({"linkage": name}, name, "sqeuclidean" if name == "average" else "euclidean") for name in REDUCIBLE),
    *(({"metric": metric}, "average", metric) for metric in ("cosine", "cityblock", "chebyshev", "correlation")),
    *(({"linkage": linkage_of("average", metric)}, "average", metric) for metric in ("sqeuclidean", "cosine")),
    ({"linkage": Pairwise("single", distance="euclidean")}, "single", "euclidean"),
    ({"linkage": Pairwise("complete", distance="cityblock")}, "complete", "cityblock"),
    ({"linkage": Pairwise("average", distance="euclidean")}, "average", "euclidean"),
]


@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize(("ours", "name", "metric"), SCIPYS)
@pytest.mark.parametrize("seed", range(3))
def test_heights_and_groups_are_scipys(ours, name, metric, lean, seed):
    X = np.random.default_rng(seed).normal(size=(60, 6))
    matrix = scipy_linkage(pdist(X, metric), name)
    tree = HAC(**ours, lean=lean).fit(X).tree_
    np.testing.assert_allclose(tree.to_scipy()[:, 2:], matrix[:, 2:], rtol=1e-4, atol=1e-6)
    assert groups(tree) == scipy_groups(matrix)


@pytest.mark.parametrize("kind", ["single", "complete", "average"])
def test_lean_keeps_few_rows_of_distances(kind, monkeypatch, rng):
    """With room for three of them, the others are computed again."""
    X = rng.normal(size=(40, 3))
    monkeypatch.setattr(distance_rows, "ROOM", 3 * 8 * 40)
    monkeypatch.setattr(distance_rows, "PIECE", 2 * 8 * 40)
    matrix = scipy_linkage(pdist(X, "cityblock"), kind)
    tree = HAC(Pairwise(kind, distance="cityblock"), lean=True).fit(X).tree_
    np.testing.assert_allclose(tree.to_scipy()[:, 2], matrix[:, 2])
    assert groups(tree) == scipy_groups(matrix)


def best_first_by_brute_force(n, score):
    """All pairs looked at before each merge."""
    active = [frozenset([i]) for i in range(n)]
    found = set(active)
    while len(active) > 1:
        pairs = [(score(a, b), a, b) for i, a in enumerate(active) for b in active[:i]]
        _, a, b = max(pairs, key=lambda pair: pair[0])
        active = [g for g in active if g not in (a, b)] + [a | b]
        found.add(a | b)
    return found


@given(st.integers(0, 10**6), st.integers(2, 14))
def test_any_function_is_merged_best_first(seed, n):
    """Random scores: as far from reducible as can be."""
    known: dict[frozenset, float] = {}
    rng = random.Random(seed)

    def score(a, b):
        return known.setdefault(frozenset([frozenset(a), frozenset(b)]), rng.random())

    model = HAC(linkage=score).fit(list(range(n)))
    assert groups(model.tree_) == best_first_by_brute_force(n, score)


@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_fact_1_components_of_a_separated_graph_are_nodes(kind, lean):
    rng = random.Random(kind)
    for trial in range(60):
        graph = KINDS[kind](rng, rng.choice([6, 12, 20]))
        order = list(graph)
        rng.shuffle(order)
        tree = HAC(linkage=SeparatingLinkage(graph, trial), lean=lean).fit(order).tree_
        assert missed_components(tree, graph, order) == [], (kind, trial)


def test_scores_are_asked_for_once(rng):
    X = rng.normal(size=(50, 3))
    assert HAC(linkage=linkage_of("ward")).fit(X).stats_ == {"scores": 49 * 50 // 2 + 48 * 49 // 2, "merges": 49}


@pytest.mark.parametrize("linkage", ["average", "cosine"])
def test_what_does_not_fit_is_refused_before_it_starts(linkage, monkeypatch):
    monkeypatch.setattr("grinch._checks.available_memory", lambda: 10_000)
    model = HAC(linkage=linkage)
    per_pair = 8 if linkage == "average" else 7.2
    refused(
        rf"100 points needs {int(per_pair * 100**2):,} bytes.*10,000 are free.*lean=True",
        model.fit,
        np.ones((100, 2)),
        error=MemoryError,
    )
    refused("smaller buffer_size", MiniBatchHAC().fit, np.ones((100, 2)), error=MemoryError)
    assert HAC(lean=True).fit(np.eye(100)).n_leaves_ == 100
    assert MiniBatchHAC(buffer_size=20).fit(np.eye(100)).n_leaves_ == 100


def test_lean_refuses_what_is_not_reducible():
    for name in ("centroid", "cosine"):
        with pytest.raises(ValueError, match=f"lean=True needs a linkage that is reducible.*got '{name}'"):
            HAC(linkage=name, lean=True).fit(np.eye(3))


@pytest.mark.parametrize("lean", [False, True])
def test_ctrl_c_keeps_the_merges_made_so_far(lean):
    numbers = [0.0, 0.1, 5.0, 5.2, 9.0, 9.3, 20.0]
    asked = 0

    def gap(a, b):
        nonlocal asked
        asked += 1
        if len(a) + len(b) > 3:
            raise KeyboardInterrupt
        return -abs(sum(a) / len(a) - sum(b) / len(b))

    model = HAC(linkage=gap, lean=lean, threshold=-1.0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(numbers)
    tree = model.tree_
    tree.check()
    assert tree.n_leaves == 7
    assert frozenset([0, 1]) in groups(tree)
    assert tree.scores[tree.root] == -np.inf
    assert np.isfinite(tree.heights()).all()
    assert model.labels_[0] == model.labels_[1]
    assert model.labels_[0] != model.labels_[6]


def test_a_linkage_that_fails_names_the_groups_and_nothing_is_fitted():
    def bad(a, b):
        if len(a) + len(b) > 2:
            raise RuntimeError("no")
        return float(a[0] + b[0])

    model = HAC(linkage=bad)
    refused(r"raised RuntimeError: no \(for \[1, 2\] and \[0\]\)\. Nothing was fitted", model.fit, [1, 2, 3])
    assert not model.__sklearn_is_fitted__()
    stream = MiniBatchHAC(linkage=bad, buffer_size=2).partial_fit([1, 2], ids=["x", "y"])
    refused("raised RuntimeError", stream.partial_fit, [3, 4], ids=["z", "w"])
    assert stream.n_leaves_ == 2
    assert stream.ids_ == ["x", "y"]


def test_a_metric_that_is_not_defined_says_so():
    X = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [2.0, 0.0, 1.0]])
    for lean in (False, True):
        refused("metric='correlation' is not defined for some rows", HAC(metric="correlation", lean=lean).fit, X)
    zero = HAC(metric="cosine").fit([[0.0, 0], [1, 1], [2, 2.1]])
    assert zero.tree_.heights().max() == pytest.approx(1.0)


@pytest.mark.parametrize("linkage", ["average", "cosine", "ward", "single"])
@pytest.mark.parametrize("buffer_size", [60, 61, 1000])
def test_a_buffer_as_large_as_the_data_is_hac(linkage, buffer_size, rng):
    X = rng.normal(size=(60, 4))
    whole = HAC(linkage=linkage_of(linkage)).fit(X).tree_
    assert MiniBatchHAC(linkage, buffer_size=buffer_size).fit(X).tree_.to_newick() == whole.to_newick()


def test_a_small_buffer_merges_the_best_pair_in_it(rng):
    """By hand: a list of at most b nodes; when it is full, its best pair is merged."""
    X = rng.normal(size=(50, 3)).astype(np.float32).astype(float)
    buffer, found = [], set()

    def score(a, b):
        return -np.mean([np.sum((X[i] - X[j]) ** 2) for i in a for j in b])

    def merge():
        _, a, b = max(((score(a, b), a, b) for i, a in enumerate(buffer) for b in buffer[:i]), key=lambda t: t[0])
        buffer.remove(a)
        buffer.remove(b)
        buffer.append(a | b)
        found.add(a | b)

    for i in range(50):
        if len(buffer) == 7:
            merge()
        buffer.append(frozenset([i]))
        found.add(buffer[-1])
    while len(buffer) > 1:
        merge()
    assert groups(MiniBatchHAC(metric="sqeuclidean", buffer_size=7).fit(X).tree_) == found
