"""Whom each point knows: against a plain transcription, in any chunking, and when points leave or never get in."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grinch.refine.neighbor_cost as polish_module
from effort import at_night, trials
from grinch import Grinch
from grinch.core.engine import Engine
from grinch.core.rules import FAST
from grinch.datasets import arrival, gaussian_mixture, load
from grinch.linkage.base import FunctionLinkage
from grinch.linkage.named import linkage_of
from grinch.metrics import dendrogram_purity
from grinch.neighbors import ByKey
from grinch.refine.neighbor_cost import COUNTED, Polisher


def engine_of(n_features, k=25, linkage="average", metric="sqeuclidean"):
    return Engine(linkage_of(linkage, metric), FAST, n_neighbors=k, n_features=n_features, hook=Polisher())


def known(engine):
    """The neighbours that each point knows of, by slot, as lists."""
    neighbors = engine.hook.neighbors
    neighbors.meet(engine)
    return {
        int(x): [int(j) for j in neighbors.among(engine.slots(), engine.slots()[-1] + 1)[x] if j >= 0]
        for x in engine.slots()
    }


def plainly(X, k, width):
    """The same, by the book: everybody keeps the nearest of those that they found and that found them."""
    lists = []
    for x in range(len(X)):
        found = sorted(range(x), key=lambda j: (((X[x] - X[j]) ** 2).sum(), j))[:k][:width]
        lists.append(found)
        for j in found:
            lists[j].append(x)
            # Sorting keeps the order of equals: whoever was known first stays.
            lists[j] = sorted(lists[j], key=lambda i: ((X[i] - X[j]) ** 2).sum())[:width]
    return dict(enumerate(lists))


@given(st.integers(1, 60), st.integers(1, 30), st.integers(0, 2**32 - 1))
@settings(max_examples=trials(12, 300))
def test_whom_a_point_knows(n, k, seed):
    # Whole numbers, so that scores are exact and ties are ties.
    X = np.random.default_rng(seed).integers(0, 30, (n, 2)).astype(float)
    engine = engine_of(2, k)
    engine.insert(X)
    assert known(engine) == plainly(X, k, COUNTED)


def test_sorted_arrival_misses_hardly_a_neighbour():
    X, y = gaussian_mixture(1000, n_classes=10, n_features=8)
    X = X[arrival(y, "sorted")]
    engine = engine_of(8)
    engine.insert(X)
    near = np.vstack([found for _, found in engine.search.nearest(engine.slots(), 1000)])
    found = known(engine)
    earlier = np.vstack([found for _, found in engine.search.stream(0, 1000)])

    def share(lists):
        return np.mean([len(set(lists[x]) & set(near[x].tolist())) / 25 for x in range(1000)])

    assert share(earlier.tolist()) < 0.6
    assert share(found) > 0.8


def test_in_any_chunking_and_with_removals():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6)) + 3 * np.eye(6)[np.sort(rng.integers(0, 6, 700))]
    trees = set()
    for size in (1, 97, 700):
        model = Grinch()
        for begin, stop, gone in ((0, 400, range(50, 250)), (400, 700, range(450, 500))):
            for first in range(begin, stop, size):
                model.partial_fit(X[first : min(first + size, stop)])
            model.remove(gone)
        trees.add(model.tree_.to_newick())
    assert len(trees) == 1


def test_who_leaves_is_known_to_nobody(rng):
    engine = engine_of(3)
    engine.insert(rng.normal(size=(200, 3)))
    before = known(engine)
    gone = np.sort(rng.permutation(200)[:120])
    engine.remove(gone)
    assert known(engine) == {
        x: [j for j in near if j not in set(gone.tolist())] for x, near in before.items() if x not in set(gone.tolist())
    }
    left = known(engine)
    slots = engine.compact()
    assert slots is not None
    assert known(engine) == {i: [int(np.searchsorted(slots, j)) for j in left[int(x)]] for i, x in enumerate(slots)}
    scores = engine.hook.neighbors.scores
    near = engine.hook.neighbors.near
    for x in range(80):
        n = int((near[x] >= 0).sum())
        assert (np.diff(scores[x, :n]) <= 0).all()
    # Those that come now are known, too.
    engine.insert(rng.normal(size=(40, 3)))
    assert any(j >= 80 for x in range(80) for j in known(engine)[x])


def test_who_never_got_in_is_known_to_nobody():
    """A linkage that fails on a point: what came before it is in, and the tree goes on as if it had not been there."""
    points = np.random.default_rng(1).normal(size=150).tolist()
    broken = {"is": True}

    def linkage(a, b):
        if broken["is"] and 1e9 in (*a, *b):
            raise ArithmeticError("too far")
        return -abs(np.mean(a) - np.mean(b))

    def model():
        return Engine(FunctionLinkage(linkage), FAST, n_neighbors=5, hook=Polisher())

    tried, never = model(), model()
    tried.insert(points[:60])
    for _ in range(2):
        with pytest.raises(ValueError, match="too far"):
            tried.insert([points[60 + _], 1e9, 0.5])
    broken["is"] = False
    assert tried.n_slots == 62
    tried.insert(points[62:])
    never.insert(points)
    assert tried.tree().to_newick() == never.tree().to_newick()
    assert known(tried) == known(never)


@pytest.mark.parametrize(
    ("error", "fails_at"),
    [
        *((KeyboardInterrupt(), when) for when in (1, 400, 2000)),
        (ZeroDivisionError("in a linkage"), 400),
        at_night(KeyboardInterrupt(), 5),
        *(at_night(ZeroDivisionError("in a linkage"), when) for when in (1, 5, 2000)),
    ],
)
def test_whatever_is_raised_all_points_so_far_are_in_a_valid_tree(fails_at, error):
    calls = {"left": 10**9}

    def linkage(a, b):
        calls["left"] -= 1
        if calls["left"] == 0:
            raise error
        return -abs(np.mean(a) - np.mean(b))

    points = np.random.default_rng(2).normal(size=120).tolist()
    model = Grinch(linkage, n_neighbors=5).fit(points[:41])
    calls["left"] = fails_at
    with pytest.raises((KeyboardInterrupt, ValueError)):
        model.partial_fit(points[41:])
    calls["left"] = 10**9
    model.tree_.check()
    n = model.n_leaves_
    assert 41 <= n < 120
    model.partial_fit(points[n:])
    assert model.tree_.to_newick() == Grinch(linkage, n_neighbors=5).fit(points).tree_.to_newick()


def test_candidates_by_key():
    rng = np.random.default_rng(3)
    words = ["".join(rng.choice(list("abc"), 5)) for _ in range(80)]

    def linkage(a, b):
        return float(np.mean([sum(s == t for s, t in zip(u, v, strict=True)) for u in a for v in b]))

    search = ByKey(lambda word: {word[:2], word[-2:]})
    whole = Grinch(linkage, search=search).fit(words)
    parts = Grinch(linkage, search=search)
    for begin in range(0, 80, 21):
        parts.partial_fit(words[begin : begin + 21])
    assert parts.tree_.to_newick() == whole.tree_.to_newick()
    whole.update([3, 7], ["aaaaa", "ccccc"])
    whole.remove([0, 1, 2]).partial_fit(words[:30])
    whole.tree_.check()


def test_saved_and_loaded_in_between(rng, tmp_path):
    X = rng.normal(size=(400, 4))
    whole = Grinch().fit(X)
    model = pickle.loads(pickle.dumps(Grinch().fit(X[:190])))
    model.partial_fit(X[190:300])
    joblib.dump(model, tmp_path / "model")
    locked = joblib.load(tmp_path / "model", mmap_mode="r")
    assert locked.partial_fit(X[300:]).tree_.to_newick() == whole.tree_.to_newick()


def test_sorted_arrival_is_level_with_random():
    digits = load("digits")
    X, y, purity = digits.vectors, digits.labels, {}
    for order in ("random", "sorted"):
        rows = [arrival(y, order, seed) for seed in range(2)]
        purity[order] = np.mean([dendrogram_purity(Grinch().fit(X[o]).tree_, y[o]) for o in rows])
    assert purity["sorted"] > purity["random"] - 0.03


def test_a_polishing_that_was_interrupted_is_made_up_for(monkeypatch):
    X = np.random.default_rng(0).normal(size=(300, 8))
    whole, interrupted, real = Grinch().fit(X), Grinch(), polish_module.polish

    def once(engine, neighbors):
        if engine.n_slots > 100:
            monkeypatch.setattr(polish_module, "polish", real)
            raise KeyboardInterrupt
        real(engine, neighbors)

    monkeypatch.setattr(polish_module, "polish", once)
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(X)
    assert 100 < interrupted.n_leaves_ < 300
    interrupted.partial_fit(X[interrupted.n_leaves_ :])
    assert interrupted.tree_.to_newick() == whole.tree_.to_newick()
