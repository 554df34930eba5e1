"""Points that leave, change and move: removal, update and refinement."""

from __future__ import annotations

import contextlib
import copy
import random

import numpy as np
import pytest

from effort import at_night, trials
from engines import Raises, check_against_recomputation, check_engine, engine_in
from grinch import Grinch, Rules
from grinch.core.engine import Engine
from grinch.core.moves import reinsert_all
from grinch.core.rules import EXACT, FAST, ONLINE, PAPER, ROTATE
from grinch.datasets import arrival as in_order
from grinch.datasets import gaussian_mixture
from grinch.errors import LinkageError
from grinch.linkage.base import FunctionLinkage
from grinch.linkage.named import linkage_of
from grinch.metrics import dendrogram_purity
from grinch.refine import passes
from grinch.refine.neighbor_cost import MUTUAL, NAMED, ONE_SIDED
from grinch.refine.passes import Refiner
from grinch.tree.checks import check_links
from refusals import refused
from separation import KINDS, SeparatingLinkage, arrival, missed_components


def newick(engine):
    return engine.tree().to_newick()


def test_shuffled_points_are_removed_by_their_rows(rng):
    centres = 10 * np.eye(4)
    y = np.repeat([0, 1, 2, 3], 20)
    model = Grinch(shuffle=True, random_state=0, n_clusters=4).fit(centres[y] + rng.normal(size=(80, 4)))
    model.remove(range(20, 40))
    assert model.ids_ == [*range(20), *range(40, 80)]
    assert dendrogram_purity(model.tree_, np.delete(y, range(20, 40))) == 1.0


def test_names_come_free_again_and_lists_are_asked_for():
    model = Grinch(n_clusters=1).fit(np.eye(3), ids=["a", "b", "c"])
    for ids, message in (
        (["d"], "ids must name points in the tree; 'd' is not there"),
        (["a", "a"], "ids must name each point once; 'a' is there twice"),
        ("a", "ids must be a list of ids; got 'a'. Put a single id into a list"),
        ([["a"]], r"ids must name points in the tree; \['a'\] is not there"),
    ):
        for change in (model.remove, lambda ids: model.update(ids, np.eye(3)[:1])):
            refused(message, change, ids)
    refused("X must have a row for each of the 2 ids; got 1", model.update, ["a", "b"], np.eye(3)[:1])
    refused("X must be finite", model.update, ["a"], [[np.nan, 0, 0]])
    assert model.ids_ == ["a", "b", "c"]
    model.remove(["b"]).partial_fit(np.eye(3)[1:2], ids=["b"])
    assert model.ids_ == ["a", "c", "b"]


def test_an_emptied_tree_accepts_points_again(blobs):
    X, _ = blobs
    fresh = Grinch().fit(X).tree_.to_newick(names=range(300))
    for names in (None, [f"p{i}" for i in range(300)]):
        model = Grinch().fit(X, ids=names)
        model.remove(model.ids_)
        assert model.tree_.n_leaves == 0
        assert model.ids_ == []
        assert len(model.labels_) == 0
        assert model.predict(X[:3]).tolist() == [-1, -1, -1]
        # With ids or without: nothing is left to agree with.
        model.partial_fit(X)
        assert model.ids_ == list(range(300, 600))
        assert model.tree_.to_newick(names=range(300)) == fresh


@pytest.mark.parametrize("linkage", ["average", at_night("ward"), at_night("cosine")])
def test_removing_asks_a_linkage_about_as_much_as_inserting(linkage):
    X, _ = gaussian_mixture(1650, n_classes=20)
    model = Grinch(linkage=linkage).fit(X[:1500])
    scores = [model.stats_["scores"]]
    for change in (lambda: model.partial_fit(X[1500:]), lambda: model.remove(range(0, 1500, 10))):
        change()
        scores.append(model.stats_["scores"])
    inserting, removing = np.diff(scores)
    assert 0 < removing < 1.2 * inserting


@pytest.mark.parametrize("linkage", [at_night("average"), "ward", at_night("cosine")])
def test_what_is_left_is_as_pure_as_a_fresh_tree(linkage):
    n = trials(1000, 2000)
    X, y = gaussian_mixture(n, n_classes=n // 40)
    whole, gaps = Grinch(linkage=linkage).fit(X), []
    for seed in (0, 1):
        model = copy.deepcopy(whole).remove(np.random.default_rng(seed).permutation(n)[: n // 5])
        left = model.ids_
        fresh = Grinch(linkage=linkage).fit(X[left])
        gaps.append(dendrogram_purity(fresh.tree_, y[left]) - dendrogram_purity(model.tree_, y[left]))
    # Two orders of the same points differ by as much.
    assert np.mean(gaps) < 0.05


def test_neighbours_are_looked_for_where_a_small_group_is_left_alone(rng, monkeypatch):
    """A large group on its axis, a pair on another, and a point beside the large group that is like neither."""
    group = np.array([10.0, 0, 0]) + 0.1 * rng.normal(size=(150, 3))
    X = np.vstack([group, [[0, 10.0, 0], [0, 10.1, 0], [6.0, 0, 8.0]]])
    for pull, looked_for in ((False, [151]), (True, [152, 151])):
        model = Grinch(mode=Rules.fast(pull=pull, cap=float("inf"), light_grafts=False, polish=False)).fit(X)
        tree = model.tree_
        assert tree.size(tree.sibling(152)) == 150
        assert tree.sibling(151) == 150
        search, asked = engine_in(model).search, []
        nearest = search.nearest

        def noted(leaves, limit, nearest=nearest, asked=asked):
            asked.extend(leaves.tolist())
            return nearest(leaves, limit)

        monkeypatch.setattr(search, "nearest", noted)
        model.remove([152]).remove([151])
        assert asked == looked_for
        assert sorted(model.tree_.leaves().tolist()) == list(range(151))
        check_links(engine_in(model).links)


def test_slots_are_used_again(rng):
    """A window that slides over a stream keeps its size."""
    model = Grinch().fit(rng.normal(size=(200, 4)))
    for _ in range(30):
        model.partial_fit(rng.normal(size=(100, 4)))
        model.remove(model.ids_[:100])
    engine = engine_in(model)
    assert engine.n_leaves == 200
    assert engine.n_slots <= 600
    assert engine.summaries.capacity <= 1500
    assert model.ids_ == list(range(3000, 3200))
    check_engine(engine)


@pytest.mark.parametrize("search", ["exact", "index"])
@pytest.mark.parametrize(("linkage", "metric"), [("average", "cosine"), ("ward", None)])
def test_search_finds_what_is_there_and_nothing_else(rng, search, linkage, metric):
    X = np.repeat(rng.normal(size=(300, 5)), 3, axis=0).astype(np.float32)[rng.permutation(900)]
    model = Grinch(linkage=linkage, metric=metric, search=search, n_neighbors=10).fit(X)
    gone = rng.permutation(900)[:400]
    model.remove(gone)
    engine = engine_in(model)
    slots = engine.slots()
    assert sorted(slots.tolist()) == sorted(set(range(900)) - set(gone.tolist()))
    rows = engine.summaries.arrays.means[slots].astype(np.float64)
    near = rows @ rows.T if metric == "cosine" else -((rows[:, None] - rows) ** 2).sum(axis=2)
    np.fill_diagonal(near, -np.inf)
    best = -np.sort(-near, axis=1)[:, :10]
    hits = 0
    for first, found in engine.search.nearest(slots, engine.n_slots):
        assert not np.isin(found, gone).any()
        for i, row in enumerate(found, start=first):
            hits += np.isclose(near[i, np.searchsorted(slots, row)], best[i], atol=1e-5).sum()
    assert hits == best.size if search == "exact" else hits > 0.9 * best.size


def test_candidates_by_key_and_by_vector_follow(rng):
    from grinch.neighbors import ByKey, ByVector

    words = [f"{a}{b}{c}" for a in "abcd" for b in "xyz" for c in "uvw"]

    def alike(a, b):
        return float(np.mean([[sum(p == q for p, q in zip(s, t, strict=True)) for t in b] for s in a]))

    by_letters = ByVector(lambda words: [[ord(c) for c in word] for word in words], 5, "sqeuclidean")
    for search in (ByKey(lambda word: word[0]), by_letters, [ByKey(lambda word: word[1]), by_letters]):
        for mode in ("fast", "exact"):
            model, parts = (Grinch(linkage=alike, search=search, mode=mode, n_clusters=4) for _ in range(2))
            model.fit(words, ids=words)
            for start in range(0, 36, 7):
                parts.partial_fit(words[start : start + 7], ids=words[start : start + 7])
            assert parts.tree_.to_newick() == model.tree_.to_newick()
            assert parts.predict(["axu", "dzz"]).tolist() == model.predict(["axu", "dzz"]).tolist()
            model.remove(words[::2]).remove(words[1:8:2])
            left = [word for word in words if word not in words[::2] + words[1:8:2]]
            assert model.ids_ == left
            model.update([left[0]], ["dzw"]).partial_fit(["axu"], ids=["again"])
            assert model.ids_ == [*left, "again"]
            model.tree_.check()
            check_links(engine_in(model).links)


@pytest.mark.parametrize("error", [ZeroDivisionError("in a linkage"), KeyboardInterrupt()])
def test_whatever_is_raised_points_are_in_or_out(rng, error):
    linkage = Raises(-1, error)
    records = rng.normal(size=30).tolist()
    names = [f"r{i}" for i in range(30)]
    for at in range(1, 400, 37):
        model = Grinch(linkage=linkage, mode="exact").fit(records, ids=names)
        engine = engine_in(model)
        for change in (lambda m=model: m.remove(names[5:10]), lambda m=model: m.update(names[20:23], [9.0, 8.0, 7.0])):
            before = model.ids_
            linkage.calls, linkage.at = 0, at
            with contextlib.suppress(ValueError, KeyboardInterrupt):
                change()
            linkage.at = -1
            assert set(model.ids_) <= set(before)
            assert set(before) - set(model.ids_) <= set(names[5:10])
            model.tree_.check()
            check_engine(engine)
        model.partial_fit([3.0], ids=["new"])
        assert model.ids_[-1] == "new"


def test_a_compiled_linkage_that_fails_in_a_removal_takes_nothing_away(rng):
    from numba import njit

    @njit
    def breaks(a, b):
        return np.nan if a.mean[0] < -50 or b.mean[0] < -50 else -abs(a.mean[0] - b.mean[0])

    X = rng.normal(size=(40, 1)).astype(np.float32)
    model = Grinch(linkage=breaks, metric="sqeuclidean").fit(X, ids=range(40))
    refused("returned nan", model.update, [3], [[-100.0]])
    assert model.ids_ == list(range(40))
    model.tree_.check()
    model.remove([3]).tree_.check()


@pytest.mark.parametrize("kind", KINDS)
def test_the_theorem_after_removal_and_reinsertion(kind):
    """Components of what is there are nodes: after whole components left, and after points came back."""
    rng = random.Random(f"{kind} again")
    missed = 0
    for trial in range(trials(20, 200)):
        graph = KINDS[kind](rng, 12)
        order = arrival(rng, graph, hubs_last=trial % 2 == 0)
        engine = Engine(SeparatingLinkage(graph, trial), EXACT)
        engine.insert(order)
        out = rng.sample(range(12), 4)
        engine.remove(np.array(out))
        engine.insert([order[i] for i in out])
        now = [order[i] for i in range(12) if i not in out] + [order[i] for i in out]
        missed += bool(missed_components(engine.tree(), graph, now))
    assert missed == 0


# Refinement ---------------------------------------------------------------------------------------------------------


def neighbor_cost(tree, near):
    """The weighted mean number of points under the common ancestor of two neighbours, by asking the tree."""
    named = [{int(j) for j in row if j >= 0} for row in near]
    pairs = {frozenset((i, j)) for i, row in enumerate(named) for j in row}
    sizes, weights = [], []
    for i, j in map(tuple, pairs):
        sizes.append(tree.size(tree.lca(i, j)))
        weights.append(MUTUAL if i in named[j] and j in named[i] else ONE_SIDED)
    return np.average(sizes, weights=weights)


def test_the_cost_reported_is_that_of_the_tree(blobs):
    X, _ = blobs
    model = Grinch().fit(X)
    engine = engine_in(model)
    near = np.vstack([found for _, found in engine.search.nearest(engine.slots(), 300)])[:, :NAMED]
    before = neighbor_cost(model.tree_, near)
    report = model.refine(2).refinements_[-1]
    assert report.cost_before == pytest.approx(before)
    assert report.cost_after == pytest.approx(neighbor_cost(model.tree_, near))
    assert report.cost_after < report.cost_before
    assert report.linkage_after == pytest.approx(np.nanmean(model.tree_.scores))
    assert report.reinserted == 300 * report.passes
    check_engine(engine)


def test_refinement_costs_no_purity_and_makes_up_for_the_order_of_arrival():
    X, y = gaussian_mixture(1500, n_classes=40, n_features=24)
    refined = {}
    for order in ("random", "sorted", "round-robin"):
        rows = in_order(y, order)
        model = Grinch().fit(X[rows])
        before = dendrogram_purity(model.tree_, y[rows])
        refined[order] = dendrogram_purity(model.refine().tree_, y[rows])
        assert refined[order] > before - 0.01
    assert min(refined.values()) > refined["random"] - 0.02


# Polishing ------------------------------------------------------------------------------------------------------


def test_a_small_tree_is_polished_as_it_grows(rng):
    X = rng.permutation(rng.normal(size=(330, 6)) + 3 * np.repeat(np.eye(6), 55, axis=0))
    plain = Grinch(mode=Rules.fast(polish=False)).fit(X)
    assert Grinch().fit(X).tree_.to_newick() != plain.tree_.to_newick()
    for rules in (ROTATE, ONLINE, EXACT, PAPER, Rules.fast(graft=False)):
        assert not rules.polish


def test_the_least_settled_points_first_within_a_budget(rng):
    X = rng.normal(size=(3000, 8))
    model = Grinch().fit(X).refine(points="unsettled")
    assert 0 < model.refinements_[-1].reinserted < 3000
    model.refine(5, points="unsettled", budget_seconds=1e-9)
    assert model.refinements_[-1].ended == "budget"
    assert model.refinements_[-1].reinserted == 256
    model.tree_.check()


def test_refinement_is_refused_in_words():
    model = Grinch().fit(np.eye(4))
    refused("passes must be a whole number of at least 1; got 0", model.refine, 0)
    refused("points must be one of 'all', 'unsettled'; got 'some'", model.refine, points="some")
    refused("budget_seconds must be a number above 0, or None for no limit; got -1", model.refine, budget_seconds=-1)
    assert Grinch().fit(np.eye(2)).refine().refinements_ == []


@pytest.mark.parametrize("where", ["reinsert", "sweep"])
def test_interrupted_refinement_leaves_a_valid_tree(rng, monkeypatch, where):
    X = rng.normal(size=(1500, 5))
    model = Grinch().fit(X, ids=[f"p{i}" for i in range(1500)])
    engine, calls = engine_in(model), []
    owner, name = (engine, "change") if where == "reinsert" else (passes, "sweep")
    original = getattr(owner, name)

    def stop(*arguments):
        result = original(*arguments)
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, name, stop)
    before = model.tree_.to_newick()
    with pytest.raises(KeyboardInterrupt):
        model.refine()
    monkeypatch.undo()
    assert model.tree_.to_newick() != before
    model.tree_.check()
    assert model.ids_ == [f"p{i}" for i in range(1500)]
    check_engine(engine)


@pytest.mark.parametrize("error", [ZeroDivisionError("in a linkage"), KeyboardInterrupt()])
def test_a_linkage_that_raises_in_a_refinement(rng, error):
    linkage = Raises(-1, error)
    for at in range(1, 3000, 331):
        engine = Engine(FunctionLinkage(linkage), FAST, n_neighbors=5)
        engine.insert(rng.normal(size=30).tolist())
        linkage.calls, linkage.at = 0, at
        with contextlib.suppress(LinkageError, KeyboardInterrupt):
            Refiner(engine, float("inf"), True, None).refine(2, "all")
        linkage.at = -1
        assert engine.n_leaves == 30
        check_engine(engine)
        engine.tree().check()


def test_no_drift_in_many_thousands_of_operations(rng):
    X = rng.normal(size=(1000, 8)).astype(np.float32) + 3.0
    for linkage in ("average", "ward"):
        engine = Engine(linkage_of(linkage), FAST, n_neighbors=10, n_features=8)
        engine.insert(X)
        slots = engine.slots()
        near = np.vstack([found for _, found in engine.search.nearest(slots, 1000)])
        for _ in range(trials(20, 50)):
            order = rng.permutation(1000)
            engine.change(reinsert_all, slots[order], near[order])
        engine.tree()
        check_against_recomputation(engine, tolerance=1e-5)


def test_passes_of_refinement_follow_a_fit(blobs):
    X, _ = blobs
    refined = Grinch(refine_passes=1).fit(X)
    assert len(refined.refinements_) == 1
    assert refined.tree_.to_newick() == Grinch().fit(X).refine().tree_.to_newick()
    assert Grinch(refine_passes=3).fit(X).refinements_[0].passes <= 3
