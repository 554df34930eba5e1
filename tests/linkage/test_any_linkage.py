"""Linkages of the user's own: three ways to write one, candidates, errors, records and ids."""

from __future__ import annotations

import itertools
import pickle
import random
import types
from dataclasses import dataclass

import networkx as nx
import numba
import numpy as np
import pandas as pd
import pytest

from effort import at_night, trials
from engines import engine_in
from grinch import Grinch, Rules
from grinch.core.engine import Engine
from grinch.core.rules import EXACT, FAST
from grinch.errors import LinkageError
from grinch.linkage import Pairwise, VectorMeans
from grinch.linkage.named import linkage_of
from grinch.neighbors import ByKey, ByVector
from grinch.tree.checks import check_links
from refusals import refused
from separation import KINDS, SeparatingLinkage, arrival, missed_components

# Three ways to write one ---------------------------------------------------------------------------------------------


@numba.njit
def compiled_cosine(a, b):
    lengths = a.length * b.length
    return np.dot(a.mean, b.mean) / lengths if lengths > 0 else 0.0


def plain_cosine(a, b):
    u, v = np.sum(a, axis=0), np.sum(b, axis=0)
    lengths = np.linalg.norm(u) * np.linalg.norm(v)
    return float(u @ v / lengths) if lengths > 0 else 0.0


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_the_same_formula_gives_the_same_tree_in_all_ways(blobs, mode):
    X, _ = blobs
    X = X[:60].astype(np.float64)
    expected = Grinch(linkage="cosine", mode=mode).fit(X).tree_.to_newick(lengths=False)
    for linkage in (compiled_cosine, plain_cosine, VectorMeans("cosine")):
        data = X if linkage is compiled_cosine else list(X)
        assert Grinch(linkage=linkage, mode=mode).fit(data).tree_.to_newick(lengths=False) == expected


def test_compiled_linkage_interpreted_is_the_same(blobs):
    X, _ = blobs
    fast, slow = (Engine(linkage_of(compiled_cosine), FAST, n_features=6, compiled=c) for c in (True, False))
    fast.insert(X[:60])
    slow.insert(X[:60])
    assert fast.tree().to_newick() == slow.tree().to_newick()


N = 10
ORDER = np.exp(np.arange(N))
EDGES = np.zeros((N, N), np.bool_)


@numba.njit
def separates(a, b):
    """A separating linkage on vectors: vertex i is unit vector i, and the graph is a global."""
    inside = (a.mean > 0) | (b.mean > 0)
    reached = inside & (np.cumsum(inside) == 1)
    for _ in range(N):
        for i in np.flatnonzero(reached):
            reached |= inside & EDGES[i]
    chance = np.sin(np.sum(ORDER[a.mean > 0])) * np.sin(np.sum(ORDER[b.mean > 0]))
    return chance + 3.0 * (reached.sum() == inside.sum())


@pytest.mark.parametrize("kind", ["trees", *(at_night(kind) for kind in KINDS if kind != "trees")])
def test_the_theorem_with_a_compiled_linkage(kind):
    """The graph is a global of the compiled function, so each graph compiles anew; a few of each kind."""
    rng = random.Random(kind)
    for trial in range(trials(1, 5)):
        graph = KINDS[kind](rng, N)
        edges = nx.to_numpy_array(graph, range(N)) > 0
        code = types.FunctionType(separates.py_func.__code__, {**globals(), "EDGES": edges}, "separates")
        source = numba.njit(code)
        for _ in range(40):
            order = arrival(rng, graph, hubs_last=True)
            engine = Engine(linkage_of(source), EXACT, n_features=N)
            engine.insert(np.eye(N)[order])
            assert missed_components(engine.tree(), graph, order) == [], (kind, trial)


@pytest.mark.parametrize("kind", KINDS)
def test_the_theorem_with_batched_scores(kind):
    class Batched(SeparatingLinkage):
        def scores(self, a, others):
            return np.array([self.score(a, b) for b in others])

    rng = random.Random(kind)
    for trial in range(trials(25, 300)):
        graph = KINDS[kind](rng, 10)
        order = arrival(rng, graph, hubs_last=True)
        model = Grinch(linkage=Batched(graph, trial), mode="exact").fit(order)
        assert missed_components(model.tree_, graph, order) == []


def test_what_does_not_compile_is_explained():
    @numba.njit
    def wrong(a, b):
        return a.middle

    with pytest.raises(TypeError, match=r"'wrong' must compile as f\(a, b\) of two VectorGroup"):
        Grinch(linkage=wrong).fit(np.eye(3))
    refused(
        r"metric must be one of 'cosine', 'dot', 'sqeuclidean' for a compiled linkage",
        Grinch(linkage=compiled_cosine, metric="hamming").fit,
        np.eye(3),
    )


def test_compiled_linkages_pickle(blobs):
    X, _ = blobs
    model = Grinch(linkage=compiled_cosine).fit(X[:100])
    again = pickle.loads(pickle.dumps(model))
    assert again.partial_fit(X[100:]).tree_.to_newick() == model.partial_fit(X[100:]).tree_.to_newick()


# The example of the paper's introduction -----------------------------------------------------------------------------


def test_records_similar_only_together_with_a_third():
    """x1 and x2 look alike only in the company of x3; y stands between x1 and x2 for every pairwise measure."""
    x1, x2, x3, y = "x1", "x2", "x3", "y"

    def set_level(a, b):
        group = set(a) | set(b)
        if group <= {x1, x2, x3}:
            return {2: 0.9 if x3 in group else 0.1, 3: 1.0}[len(group)]
        return 0.2

    pair = {frozenset(p): set_level([p[0]], [p[1]]) for p in itertools.combinations([x1, x2, x3, y], 2)}
    for order in itertools.permutations([x1, x2, x3, y]):
        model = Grinch(linkage=set_level, mode="exact", threshold=0.5).fit(order, ids=order)
        assert {frozenset(c) for c in model.clusters_} == {frozenset({x1, x2, x3}), frozenset({y})}
    # Without x3, pairs are all there is: x1 is closer to y than to x2, and so no pairwise linkage, which on single
    # records is its pairwise measure, can tell {x1, x2} apart from {x1, y}.
    assert pair[frozenset({x1, x2})] < pair[frozenset({x1, y})]
    for kind in ("single", "complete", "average"):
        linkage = Pairwise(kind, similarity=lambda p, q: pair[frozenset({p, q})])
        model = Grinch(linkage=linkage, mode="exact").fit([x1, x2, y])
        assert [0, 1] not in [model.tree_.leaves(v).tolist() for v in model.tree_.nodes()]
        # With x3 at hand, {x1, x3} and x2 are still judged by their pairs, of which (x1, x2) is one.
        group, single = linkage.merge(linkage.leaf(x1), linkage.leaf(x3)), linkage.leaf(x2)
        assert linkage.score(group, single) < set_level([x1, x3], [x2])


# How often it is asked -----------------------------------------------------------------------------------------------


class Counting:
    """Mean of numbers; counts its calls."""

    def __init__(self):
        self.calls = self.asked = 0

    def leaf(self, x):
        return (x, 1)

    def merge(self, a, b):
        return (a[0] + b[0], a[1] + b[1])

    def score(self, a, b):
        self.calls += 1
        self.asked += 1
        return -abs(a[0] / a[1] - b[0] / b[1])


class CountingBatches(Counting):
    def scores(self, a, others):
        self.calls += 1
        self.asked += len(others)
        return np.array([-abs(a[0] / a[1] - b[0] / b[1]) for b in others])


def as_circle(numbers):
    return np.column_stack([np.cos(numbers), np.sin(numbers)])


def test_batches_ask_the_same_in_fewer_calls_and_every_score_is_counted():
    numbers = np.random.default_rng(0).normal(size=150).tolist()
    one, many = Counting(), CountingBatches()
    models = [Grinch(linkage=linkage, mode="exact").fit(numbers) for linkage in (one, many)]
    assert models[0].stats_["scores"] == models[1].stats_["scores"] == one.asked == many.asked
    assert models[0].tree_.to_newick() == models[1].tree_.to_newick()
    assert many.calls < one.calls / 5
    # Asking for the tree again, or for the same bonds, costs no call.
    models[0].tree_
    before = one.calls
    engine_in(models[0]).tree()
    assert one.calls == before


def test_scores_per_insert_do_not_grow_with_n_when_candidates_are_limited():
    numbers = (np.random.default_rng(1).random(2000) * 6).tolist()
    linkage = Counting()
    model = Grinch(linkage=linkage, search=ByVector(as_circle, n=10), n_neighbors=10, mode=Rules.fast(cap=50))
    model.partial_fit(numbers[:500])
    per_insert = []
    for start in (500, 1000, 1500):
        before = linkage.asked
        model.partial_fit(numbers[start : start + 500])
        per_insert.append((linkage.asked - before) / 500)
    assert per_insert[2] < 1.15 * per_insert[0]
    assert per_insert[2] < 150


# Where candidates come from ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_all_vectors_as_candidates_is_exact_search(mode):
    numbers = (np.random.default_rng(2).random(80) * 6).tolist()
    plain = Grinch(linkage=Counting(), mode=mode).fit(numbers).tree_.to_newick()
    for search in (
        ByVector(as_circle, n=80),
        ByKey(lambda x: "all"),
        [ByKey(lambda x: None), ByVector(as_circle, n=80)],
    ):
        assert Grinch(linkage=Counting(), mode=mode, search=search).fit(numbers).tree_.to_newick() == plain


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_records_without_a_common_key_are_never_compared_in_search(mode):
    rng = np.random.default_rng(3)
    records = [
        {"block": int(b), "x": float(x)} for b, x in zip(rng.integers(0, 6, 200), rng.normal(size=200), strict=True)
    ]

    class Blocked(Counting):
        def leaf(self, record):
            return (record["x"], 1, {record["block"]})

        def merge(self, a, b):
            return (a[0] + b[0], a[1] + b[1], a[2] | b[2])

        def score(self, a, b):
            if len(a[2] | b[2]) > 1:
                return -100.0
            return super().score(a, b)

    model = Grinch(linkage=Blocked(), mode=mode, search=ByKey(lambda r: r["block"]), threshold=-50.0).fit(records)
    assert {frozenset(records[i]["block"] for i in c) for c in model.clusters_} == {frozenset({b}) for b in range(6)}


def test_bad_sources():
    refused(
        "metric must be one of 'sqeuclidean', 'cosine', 'dot', 'hellinger'; got 'cosin'",
        ByVector,
        as_circle,
        metric="cosin",
    )
    refused("n must be a whole number of at least 1; got 0", ByVector, as_circle, n=0)
    with pytest.raises(TypeError, match=r"search must be one of .* or a list of them; got 3"):
        Grinch(linkage=Counting(), search=3).fit([1.0])
    refused("search must be one of", Grinch(linkage=Counting(), search=ByVector).fit, [1.0], error=TypeError)
    refused("are for linkages of your own", Grinch(search=ByKey(lambda r: 1)).fit, np.eye(3))
    refused(
        r"embed must return a finite matrix with a row for each of the 2 records; got shape \(2,\)",
        Grinch(linkage=Counting(), search=ByVector(lambda records: np.zeros(2))).fit,
        [1.0, 2.0],
    )


# What a linkage may not do -------------------------------------------------------------------------------------------


BAD_ANSWERS = {
    "nan": (lambda: float("nan"), "linkage returned nan, which is no score"),
    "none": (lambda: None, "linkage must return a number; it returned None"),
    "text": (lambda: "near", "linkage must return a number; it returned 'near'"),
    "raises": (lambda: 1 / 0, "linkage raised ZeroDivisionError: division by zero"),
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
@pytest.mark.parametrize("batched", [False, True])
def test_bad_answers_name_the_groups_and_leave_the_tree(kind, batched):
    answer, message = BAD_ANSWERS[kind]
    names = [f"record {i}" for i in range(60)]
    numbers = np.random.default_rng(5).normal(size=60).tolist()

    class Bad(Counting):
        def score(self, a, b):
            value = super().score(a, b)
            return answer() if a[1] + b[1] == 7 else value

    class BadBatches(Bad):
        def scores(self, a, others):
            values = [self.score(a, b) for b in others]
            return values

    model = Grinch(linkage=BadBatches() if batched else Bad(), mode="exact")
    if batched and kind in ("none", "text"):
        message = "numbers from scores|must return a number"
    with pytest.raises(ValueError, match=message) as caught:
        model.fit(numbers, ids=names)
    n = model.n_leaves_
    assert 0 < n < 60
    assert "record " in str(caught.value)
    assert "The tree is as it was before that point" in str(caught.value)
    assert model.ids_ == names[:n]
    check_links(engine_in(model).links)


@numba.njit
def nan_for_seven(a, b):
    return np.nan if a.size + b.size == 7 else np.dot(a.mean, b.mean)


def test_a_compiled_linkage_that_returns_nan(blobs):
    X, _ = blobs
    model = Grinch(linkage=nan_for_seven, metric="dot", mode="exact")
    with pytest.raises(
        LinkageError, match=r"linkage returned nan, which is no score \(for \[.*\] and \[.*\]\)"
    ) as caught:
        model.fit(X)
    assert sum(map(len, caught.value.groups)) == 7
    n = model.n_leaves_
    assert 6 <= n < 300
    check_links(engine_in(model).links)
    smaller = Grinch(linkage=nan_for_seven, metric="dot", mode="exact").fit(X[:n])
    assert smaller.n_leaves_ == n


def test_a_leaf_or_merge_that_raises():
    class NoLeaf(Counting):
        def leaf(self, x):
            return (x["value"], 1)

    model = Grinch(linkage=NoLeaf())
    with pytest.raises(LinkageError, match=r"linkage raised KeyError in leaf\(\): 'value' \(for \[1\]\)"):
        model.fit([{"value": 1}, {}])
    assert not hasattr(model, "tree_")

    class NoMerge(Counting):
        def merge(self, a, b):
            raise OverflowError("too much")

    with pytest.raises(LinkageError, match=r"linkage raised OverflowError in merge\(\): too much"):
        Grinch(linkage=NoMerge()).fit([1.0, 2.0, 3.0, 4.0])


def test_asymmetry_is_found_when_asked_for():
    def lopsided(a, b):
        return len(a) - 2 * len(b)

    Grinch(linkage=lopsided).fit([1, 2, 3, 4])
    with pytest.raises(LinkageError, match=r"is not symmetric: f\(a, b\) is .* and f\(b, a\) is"):
        Grinch(linkage=lopsided, check_linkage=True).fit([1, 2, 3, 4, 5, 6])
    assert Grinch(linkage=Counting(), check_linkage=True).fit([1, 2, 3, 4]).n_leaves_ == 4


# Records and ids -----------------------------------------------------------------------------------------------------


@dataclass
class Paper:
    title: str
    year: int


def test_records_of_every_kind():
    years = [1990, 2020, 1991, 2021, 1992]
    expected = [0, 1, 0, 1, 0]
    frame = pd.DataFrame({"title": list("abcde"), "year": years})
    kinds = {
        "dicts": ([{"year": y} for y in years], lambda r: r["year"]),
        "dataclasses": ([Paper("t", y) for y in years], lambda r: r.year),
        "strings": ([str(y) for y in years], int),
        "tuples": ([("x", y) for y in years], lambda r: r[1]),
        "pandas": (frame, lambda r: r["year"]),
    }
    for kind, (records, year) in kinds.items():
        linkage = Pairwise("average", distance=lambda x, y, year=year: abs(year(x) - year(y)))
        assert Grinch(linkage=linkage, n_clusters=2).fit_predict(records).tolist() == expected, kind


def test_ids_come_back():
    names = ["ann", "bob", "cid", "dan"]
    model = Grinch(linkage=Pairwise("single", distance=lambda x, y: abs(x - y)), n_clusters=2)
    model.partial_fit([1, 9, 2], ids=names[:3]).partial_fit([8], ids=names[3:])
    assert model.ids_ == names
    assert model.clusters_ == [["ann", "cid"], ["bob", "dan"]]
    assert model.tree_.to_newick(lengths=False) in ("((ann,cid),(bob,dan));", "((bob,dan),(ann,cid));")
    graph = model.tree_.to_networkx()
    assert {graph.nodes[v]["id"] for v in range(4)} == set(names)
    shuffled = Grinch(n_clusters=2, shuffle=True, random_state=1).fit(np.eye(4)[[0, 1, 0, 1]], ids=names)
    assert shuffled.clusters_ == [["ann", "cid"], ["bob", "dan"]]
    assert Grinch(n_clusters=2).fit(np.eye(4)[[0, 1, 0, 1]]).clusters_ == [[0, 2], [1, 3]]


def test_bad_ids_change_nothing():
    model = Grinch(n_clusters=1).fit(np.eye(3), ids=["a", "b", "c"])
    for ids, message in (
        (["c"], "ids must be different for every point; 'c' is there twice"),
        (["d", "e"], "one entry for each of the 1 points; got 2"),
        ([float("nan")], "ids must be equal to themselves to be found again; nan is not"),
        (None, "for all points or for none; the points in the tree have them, and these do not"),
    ):
        refused(message, model.partial_fit, [[1.0, 0, 0]], ids=ids)
    assert model.ids_ == ["a", "b", "c"]
    with pytest.raises(ValueError, match="the points in the tree do not have them, and these do"):
        Grinch().fit(np.eye(3)).partial_fit(np.eye(3), ids=[1, 2, 3])


def test_infinite_scores_leave_finite_heights():
    def apart(a, b):
        return float("-inf") if {x > 5 for x in a} != {x > 5 for x in b} else -abs(sum(a) / len(a) - sum(b) / len(b))

    model = Grinch(linkage=apart, mode="exact", threshold=-100.0).fit([1, 9, 2, 8])
    assert model.labels_.tolist() == [0, 1, 0, 1]
    heights = model.tree_.to_scipy()[:, 2]
    assert np.isfinite(heights).all()
    assert heights[2] > heights[1]
    assert np.isfinite(Grinch(linkage=lambda a, b: float("-inf")).fit([1, 2, 3]).tree_.to_scipy()).all()


def test_a_tree_grows_under_the_parameters_it_was_begun_with(blobs):
    X, _ = blobs
    model = Grinch(n_clusters=3).fit(X)
    refused(
        r"linkage cannot change while a tree grows: it was begun with linkage='average'",
        model.set_params(linkage="ward").partial_fit,
        X[:5],
    )
    assert model.n_leaves_ == 300
    assert model.set_params(linkage="average", n_clusters=4).partial_fit(X[:5]).n_leaves_ == 305


@numba.njit
def nan_at_zero(a, b):
    return np.dot(a.mean, b.mean) / (a.length * b.length)


def test_nan_in_predict_is_reported_and_leaves_nothing_behind(rng):
    X = np.abs(rng.normal(size=(30, 3))) + 0.1
    model = Grinch(linkage=nan_at_zero, n_clusters=3).fit(X[:20])
    refused("returned nan", model.predict, [[0.0, 0.0, 0.0]], error=LinkageError)
    assert model.partial_fit(X[20:]).n_leaves_ == 30
    assert model.tree_.to_newick() == Grinch(linkage=nan_at_zero).fit(X).tree_.to_newick()
