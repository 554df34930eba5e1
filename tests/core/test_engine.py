"""The engine: compiled against interpreted, any chunking, valid after every insert, undone when something raises."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from core.both import CAPS
from dense_linkages import DENSE
from effort import at_night, trials
from engines import Raises
from grinch.core.engine import ENGINE, Engine
from grinch.core.rules import EXACT, FAST, ONLINE, Rules
from grinch.errors import LinkageError
from grinch.linkage.base import FunctionLinkage
from grinch.linkage.named import linkage_of
from grinch.refine.neighbor_cost import Polisher
from grinch.summaries import VectorSummaries
from grinch.summaries.arrays import LARGE, STALE, State, is_large, merge, score, settle
from grinch.tree.checks import check_links
from grinch.tree.links import LEFT, NO_LIMIT, RIGHT

# Drawn numbers may be too small for float32 to square, which is said.
pytestmark = pytest.mark.filterwarnings("ignore:.*count as zero vectors")


# Few distinct values make duplicates, zero vectors and ties common.
points = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 40), st.integers(1, 4)),
    elements=st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0]),
)
continuous = hnp.arrays(
    np.float32, st.tuples(st.integers(1, 40), st.integers(1, 20)), elements=st.floats(-100, 100, width=32)
)
flags = {name: st.booleans() for name in Rules._fields if isinstance(getattr(EXACT, name), bool)}
limits = {name: st.sampled_from([1, 2, 5, 20, NO_LIMIT]) for name in CAPS}
sizes = {"most_entries": st.just(NO_LIMIT), "n_candidates": st.sampled_from([1, 5, 25])}
rules = st.builds(Rules, **flags, **limits, **sizes)


def engine_of(X, linkage, rules, k=5, compiled=True):
    hook = Polisher() if rules.polish else None
    return Engine(linkage, rules, n_neighbors=k, n_features=X.shape[1], hook=hook, compiled=compiled)


def newick(engine):
    return engine.tree().to_newick()


def check_summaries(engine):
    """What is not marked stale must be what computing it afresh gives."""
    links, sums = engine.links, engine.summaries.arrays
    state = State(*links, *sums, engine.rules)
    spare = engine.summaries.capacity + engine.n_slots
    settle(state)
    for v in links.nodes()[1].tolist():
        left, right = links.table[v, LEFT], links.table[v, RIGHT]
        p = links.table[v, 0]
        if sums.stale[v] & STALE:
            assert p < 0 or sums.stale[p] & STALE or is_large(state, p), "a stale node's parent is stale"
            assert p < 0 or np.isnan(sums.sibling_scores[p]), "a stale node's parent has no cached bond"
        assert bool(sums.stale[v] & LARGE) == is_large(state, v), "who is large is known"
        if not sums.stale[left] & STALE and not sums.stale[right] & STALE:
            if not np.isnan(sums.sibling_scores[v]):
                assert sums.sibling_scores[v] == score(state, left, right)
            if not sums.stale[v]:
                merge(state, spare, left, right)
                assert_same_summary(engine.summaries, spare, v)


def assert_same_summary(store, u, v):
    if isinstance(store, VectorSummaries):
        np.testing.assert_array_equal(store.arrays.means[u], store.arrays.means[v])
        np.testing.assert_array_equal(store.arrays.moments[u], store.arrays.moments[v])
    else:
        assert store.items[u] == store.items[v]


@given(X=points | continuous, rules=rules, linkage=st.sampled_from(DENSE), k=st.integers(1, 8))
@settings(max_examples=trials(60, 1000))
def test_compiled_and_interpreted_give_the_same_tree(X, rules, linkage, k):
    fast, slow = (engine_of(X, linkage, rules, k, compiled) for compiled in (True, False))
    fast.insert(X)
    slow.insert(X)
    assert newick(fast) == newick(slow)
    assert fast.stats == slow.stats


@given(X=points | continuous, rules=rules, linkage=st.sampled_from(DENSE), data=st.data())
@settings(max_examples=trials(80, 2000))
def test_chunks_that_are_read_and_saved_in_between_give_valid_trees_and_the_same(X, rules, linkage, data):
    whole, parts, start = engine_of(X, linkage, rules), engine_of(X, linkage, rules), 0
    whole.insert(X)
    while start < len(X):
        stop = data.draw(st.just(start + 1) | st.integers(start + 1, len(X)))
        parts.insert(X[start:stop])
        assert parts.n_leaves == stop
        check_links(parts.links)
        check_summaries(parts)
        start = stop
        for task in data.draw(st.lists(st.sampled_from(["tree", "place", "pickle"]), max_size=2)):
            if task == "pickle":
                parts = pickle.loads(pickle.dumps(parts))
            else:
                parts.tree() if task == "tree" else parts.place(X[:3])
    tree = parts.tree()
    tree.check()
    assert newick(whole) == newick(parts)
    np.testing.assert_array_equal(whole.tree().scores, tree.scores)
    assert np.isfinite(tree.scores[tree.internal_nodes()]).all()


DAILY = [("average", "cosine"), ("ward", "sqeuclidean")]
MANY = [each if (each.name, each.metric) in DAILY else at_night(each) for each in DENSE]


@pytest.mark.parametrize("linkage", MANY, ids=lambda linkage: f"{linkage.name}-{linkage.metric}")
def test_any_chunking_of_many_points_gives_the_same_tree(rng, linkage):
    """Past the size of a batch and of a block of the search, with near-ties from rounding."""
    n_all = trials(4400, 6000)
    X = np.repeat(rng.normal(size=(n_all // 4, 8)), 4, axis=0).astype(np.float32)[rng.permutation(n_all)]
    trees = []
    for size in (n_all, 1, 255, 1000):
        engine = engine_of(X, linkage, FAST, 25)
        n = 600 if size == 1 else n_all
        for start in range(0, n, size):
            engine.insert(X[start : start + size])
        if size == 1:
            engine.insert(X[n:])
        trees.append(newick(engine))
    assert trees[0] == trees[1] == trees[2] == trees[3]


def test_online_and_rotate_are_settings(blobs):
    X, _ = blobs
    online = engine_of(X, linkage_of("average"), ONLINE)
    online.insert(X)
    assert not any(online.stats.values())
    # Online: the sibling of a leaf that arrived last among its neighbours is its nearest earlier point.
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    tree = online.tree()
    assert tree.sibling(len(X) - 1) == int(np.argmax(unit[:-1] @ unit[-1]))
    rotate = engine_of(X, linkage_of("average"), FAST._replace(graft=False))
    rotate.insert(X)
    assert rotate.stats["rotations"] > 0
    assert rotate.stats["grafts_tried"] == 0


class KeepsRaising(Raises):
    """As it is where a linkage fails on some record, however often it is tried again."""

    def __call__(self, a, b):
        self.at = max(self.at, self.calls + 1) if 0 < self.at <= self.calls else self.at
        return super().__call__(a, b)


@pytest.mark.parametrize("error", [ZeroDivisionError("in a linkage"), KeyboardInterrupt()])
@pytest.mark.parametrize("rules", [EXACT, FAST], ids=["exact", "polished"])
def test_whatever_is_raised_the_tree_is_that_of_the_points_before(rng, error, rules):
    """Who never got in is also known to nobody: what is polished later would tell."""
    records = rng.normal(size=40).tolist()

    def new_engine(linkage):
        hook = Polisher() if rules.polish else None
        return Engine(FunctionLinkage(linkage), rules, n_neighbors=5, hook=hook)

    for at in range(5, 1500, 97):
        linkage = KeepsRaising(at, error)
        engine, calm = new_engine(linkage), new_engine(Raises(-1, error))
        with pytest.raises((LinkageError, KeyboardInterrupt)) as caught:
            engine.insert(records)
        assert caught.value is error or caught.value.__cause__ is error
        linkage.at = -1
        n = engine.n_leaves
        check_links(engine.links)
        check_summaries(engine)
        calm.insert(records[:n])
        assert newick(engine) == newick(calm)
        engine.insert(records[n:])
        calm.insert(records[n:])
        assert newick(engine) == newick(calm)
    assert n > 3


@pytest.mark.parametrize("name", ["score", "score_all", "merge_two"])
def test_an_interrupt_where_a_callback_is_entered_is_not_lost(rng, name):
    """Python handles a signal as a function is entered, before any ``try``; ctypes would print it and go on."""
    records = rng.normal(size=60).tolist()
    engine = Engine(FunctionLinkage(Raises(-1, None)), EXACT)
    engine.insert(records[:20])
    entered, hook = [], sys.unraisablehook

    def interrupt(frame, event, argument):
        if event == "call" and frame.f_code.co_name == name and frame.f_code.co_filename.endswith("records.py"):
            entered.append(name)
            if len(entered) == 7:
                raise KeyboardInterrupt("at the door")

    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt, match="at the door"):
            engine.insert(records[20:])
    finally:
        sys.setprofile(None)
    n = engine.n_leaves
    assert 20 <= n < 60
    check_links(engine.links)
    check_summaries(engine)
    engine.insert(records[n:])
    calm = Engine(FunctionLinkage(Raises(-1, None)), EXACT)
    calm.insert(records)
    assert newick(engine) == newick(calm)
    assert sys.unraisablehook is hook


@pytest.mark.parametrize(
    "linkage",
    [*DENSE, FunctionLinkage(lambda a, b: -abs(np.mean(a) - np.mean(b)))],
    ids=lambda linkage: f"{getattr(linkage, 'name', 'function')}-{getattr(linkage, 'metric', '')}",
)
def test_tidying_changes_nothing_but_numbers(linkage, monkeypatch):
    X = np.random.default_rng(5).normal(size=(300, 3))
    rows, rules = (X[:, 0].tolist()[:80], FAST) if isinstance(linkage, FunctionLinkage) else (X, FAST)
    trees, stats = [], []
    for stops in ([], list(range(10, 300, 7))):
        monkeypatch.setattr("grinch.core.engine.TIDIED_AT", stops)
        engine = engine_of(X, linkage, rules._replace(polish=False, rotate_cap=20, graft_cap=20, restructure_cap=20))
        engine.insert(rows)
        check_links(engine.links)
        engine.remove(np.arange(0, 40, 3))
        engine.tidy()
        engine.insert(rows[:20])
        check_links(engine.links)
        check_summaries(engine)
        trees.append(newick(engine))
        stats.append(engine.stats)
    assert trees[0] == trees[1]
    assert stats[0] == stats[1]


def test_neighbours_in_the_tree_are_neighbours_in_memory():
    engine = engine_of(np.zeros((1, 3)), linkage_of("average"), FAST)
    engine.insert(np.random.default_rng(6).normal(size=(500, 3)))

    def steps():
        internal = engine.links.nodes()[1]
        return np.abs(internal - engine.links.table[internal, 0])[internal != engine.links.head[0]].mean()

    before = steps()
    engine.tidy()
    assert steps() < before / 3


def test_digests_are_those_of_the_engine():
    """Trees that change make another engine: stores do not do its operations again."""
    digests = json.loads((Path(__file__).parents[2] / "benchmarks" / "digests.json").read_text())
    assert digests["engine"] == ENGINE
