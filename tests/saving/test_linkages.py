"""Linkages of every kind: by what they are made of, by name, or handed in."""

import os
import sys
import types

import numba
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import grinch
from effort import at_night
from grinch import HAC, Grinch, MiniBatchHAC
from grinch.datasets import gaussian_mixture
from grinch.errors import NotSavable, SavedModelError
from grinch.linkage import Bayesian, BetaBernoulli, Learned, NormalGamma, Pairwise, VectorMeans, WeightedSum, WithRules
from grinch.linkage.base import find, name_of
from grinch.neighbors import ByKey, ByVector
from refusals import refused
from twins import assert_same, go_on, refitted, reopened

X = gaussian_mixture(300, n_features=5, n_classes=8, random_state=0)[0]
NUMBERS = np.random.default_rng(0).normal(size=220).round(3).tolist()
WORDS = ["".join(np.random.default_rng(i).choice(list("abcdef"), 6)) for i in range(120)]


def near(a, b):
    return -abs(sum(a) / len(a) - sum(b) / len(b))


@numba.njit
def mean_dot(a, b):
    return np.dot(a.mean, b.mean)


def gap(x, y):
    return abs(x - y)


def alike(x, y):
    return len(set(x) & set(y)) / len(set(x) | set(y))


def as_row(records):
    return np.array([[x, 1.0] for x in records])


def first_letter(record):
    return record[0]


def letters(record):
    return sorted(set(record[:3]))


class Spans:
    """Summaries that are tuples of all kinds of plain values."""

    def leaf(self, x):
        return (x, x, {"n": 1}, frozenset([x]), np.float32(x), np.array([x]))

    def merge(self, a, b):
        n = {"n": a[2]["n"] + b[2]["n"]}
        return (min(a[0], b[0]), max(a[1], b[1]), n, a[3] | b[3], max(a[4], b[4]), np.concatenate([a[5], b[5]]))

    def score(self, a, b):
        return -(max(a[1], b[1]) - min(a[0], b[0]))


def span_features(a, others):
    return np.array([[max(a[1], b[1]) - min(a[0], b[0])] for b in others], float)


SPANS = Spans()
LEARNED = Learned(LogisticRegression().fit([[1], [2], [3], [20], [30]], [1, 1, 1, 0, 0]), SPANS, span_features)
BOTH = WeightedSum([(1.0, VectorMeans("cosine")), (0.25, Pairwise("average", distance="euclidean"))])
RULED = WithRules(Pairwise("average", similarity=alike), must=[first_letter], weight=2.0)

CASES = {
    "single": (lambda: "single", X),
    "complete": (lambda: "complete", X),
    "average over a distance": (lambda: "average", X),
    "function": (lambda: near, NUMBERS),
    "object": (lambda: SPANS, NUMBERS),
    "learned": (lambda: LEARNED, NUMBERS),
    "compiled": (lambda: mean_dot, X),
    "pairwise by name": (lambda: Pairwise("complete", distance="cityblock"), X),
    "pairwise of functions": (lambda: Pairwise("average", distance=gap, remember=50), NUMBERS),
    "weighted": (lambda: BOTH, X),
    "rules": (lambda: RULED, WORDS),
    "bayesian": (lambda: Bayesian(NormalGamma(rate=0.5), alpha=0.5), X),
    "bernoulli": (lambda: Bayesian(BetaBernoulli(0.5, 0.5)), (X > 0).astype(int).tolist()),
    "vector means": (lambda: VectorMeans("ward"), X),
}


@pytest.mark.parametrize("mode", ["fast", *(at_night(mode) for mode in ("paper", "exact"))])
@pytest.mark.parametrize("case", CASES)
def test_linkages_go_on(case, mode, tmp_path):
    make, records = CASES[case]
    metric = "cityblock" if case == "average over a distance" else None
    n, stop = (30, 40) if mode == "exact" else (40, 52)
    model = Grinch(make(), metric=metric, mode=mode, n_clusters=5)
    twin = refitted(model, records[:n], tmp_path)
    asked = {"gone": [3, 5, 8], "updated": ([1, 2], records[stop : stop + 2]), "queries": records[-5:]}
    go_on((model, twin), [(records[n:stop],)], **asked, refine=mode != "exact")


@pytest.mark.parametrize("kind", [HAC, MiniBatchHAC])
@pytest.mark.parametrize("case", ["function", "object", "pairwise of functions", "rules", "compiled"])
def test_other_systems_with_linkages(kind, case, tmp_path):
    make, records = CASES[case]
    model = kind(make(), **({"buffer_size": 20} if kind is MiniBatchHAC else {})).fit(records[:50])
    twin = reopened(model, tmp_path)
    go_on((model, twin), [(records[50:70],)] if kind is MiniBatchHAC else [])


SEARCHES = {
    "vectors": ByVector(as_row, n=10),
    "index": ByVector(as_row, n=10, metric="sqeuclidean", index=True),
    "keys": ByKey(int),
    "two": [ByVector(as_row, n=5), ByVector(as_row, n=3, metric="dot")],
}


@pytest.mark.parametrize("kind", SEARCHES)
def test_sources_of_candidates(kind, tmp_path):
    model = Grinch(near, search=SEARCHES[kind])
    twin = refitted(model, NUMBERS[:100], tmp_path, **({"search": SEARCHES[kind]} if kind == "keys" else {}))
    go_on((model, twin), [(NUMBERS[100:130],)], gone=[3, 4], queries=NUMBERS[-5:], refine=True)
    # Keys by name.
    model = Grinch(Pairwise("average", similarity=alike), search=ByKey(letters, most=20)).fit(WORDS[:60])
    go_on((model, reopened(model, tmp_path)), [(WORDS[60:80],)], gone=[3, 4], queries=WORDS[-5:])


def test_members_are_not_written_again_for_every_node(tmp_path):
    records = [f"{i:03d}" + "x" * 2000 for i in range(60)]
    model = Grinch(lambda a, b: -abs(len(a) - len(b))).fit(records)
    model.labels_
    model.save(tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < 250_000


# Names --------------------------------------------------------------------------------------------------------------


def test_what_has_no_name_is_handed_in(tmp_path):
    model = Grinch(lambda a, b: near(a, b)).fit(NUMBERS[:30])
    model.save(tmp_path / "model")
    with pytest.raises(SavedModelError, match=r"linkage is a function, which a file cannot hold. Pass .*linkage="):
        grinch.load(tmp_path / "model")
    assert_same(model, grinch.load(tmp_path / "model", linkage=near))

    local = Spans()
    model = Grinch(local).fit(NUMBERS[:30])
    model.save(tmp_path / "model")
    refused(r"an object of .*Spans", grinch.load, tmp_path / "model", error=SavedModelError)
    go_on((model, grinch.load(tmp_path / "model", linkage=Spans())), [(NUMBERS[30:50],)])

    fresh = Pairwise("average", similarity=lambda x, y: -abs(x - y))
    model = Grinch(fresh).fit(NUMBERS[:60])
    handed = Pairwise("average", similarity=lambda x, y: -abs(x - y))
    go_on((model, reopened(model, tmp_path, linkage=handed)), [(NUMBERS[60:90],)], refine=True)


def test_a_search_is_handed_in(tmp_path):
    model = Grinch(near, search=ByVector(lambda records: as_row(records), n=8)).fit(NUMBERS[:30])
    model.save(tmp_path / "model")
    refused(r"Pass.*search=", grinch.load, tmp_path / "model", error=SavedModelError)
    go_on((model, grinch.load(tmp_path / "model", search=ByVector(as_row, n=8))), [(NUMBERS[30:50],)])


def test_what_needs_nothing_is_given_nothing(tmp_path):
    Grinch().fit(X[:9]).save(tmp_path / "model")
    for name, saved, other in (("linkage", "average", "ward"), ("search", "auto", "exact")):
        with pytest.raises(ValueError, match=f"{name} is '{saved}' in the saved model, and cannot be another one"):
            grinch.load(tmp_path / "model", **{name: other})


def test_nothing_is_imported_or_run(tmp_path, monkeypatch):
    module = types.ModuleType("my_linkages")
    exec("def close(a, b):\n    return -abs(sum(a) - sum(b))", module.__dict__)
    monkeypatch.setitem(sys.modules, "my_linkages", module)
    Grinch(module.close).fit(NUMBERS[:9]).save(tmp_path / "model")
    assert grinch.load(tmp_path / "model").linkage is module.close
    monkeypatch.delitem(sys.modules, "my_linkages")
    (tmp_path / "my_linkages.py").write_text("raise SystemError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SavedModelError, match=r"needs 'my_linkages:close'.*Import my_linkages first.*linkage="):
        grinch.load(tmp_path / "model")


def test_names_that_no_file_may_use_and_names_of_what_is_no_linkage(monkeypatch):
    for name in ("os:system", "subprocess:run", "builtins:eval", "numpy:load", "pickle:loads", "os.path:join"):
        refused("no linkage or search is taken from", find, name, "linkage", error=SavedModelError)
    module = types.ModuleType("my_things")
    module.system = os.system
    module.numbers, module.kind, module.other = [1], Spans, near
    monkeypatch.setitem(sys.modules, "my_things", module)
    for name in ("system", "numbers", "kind", "other", "nothing", "kind.leaf", "__loader__.x"):
        refused("which is not there", find, f"my_things:{name}", "linkage", error=SavedModelError)
    assert name_of(len) is None
    for name, thing in {"near": near, "SPANS": SPANS, "mean_dot": mean_dot}.items():
        assert name_of(thing) == f"{__name__}:{name}"


# Records ------------------------------------------------------------------------------------------------------------


def test_records_that_cannot_be_written(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(NotSavable, match=r"record 1 \(in order of arrival\) cannot be written.*builtins.object"):
        Grinch(lambda a, b: 0.0).fit([1, object()]).save(path)
    circle = []
    circle.append(circle)
    with pytest.raises(NotSavable, match="hold themselves"):
        Grinch(lambda a, b: 0.0).fit([1, circle]).save(path)
    with pytest.raises(NotSavable, match="an id cannot be written"):
        Grinch().fit(X[:2], ids=[object(), 1]).save(path)
    assert not path.exists()
