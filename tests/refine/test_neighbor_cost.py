"""The graph of neighbours, the cost of a tree by it, and swaps with and without the linkage's approval."""

from __future__ import annotations

import numpy as np
import pytest

from effort import at_night, trials
from grinch import Grinch
from grinch.core.engine import Engine
from grinch.core.rules import FAST
from grinch.datasets import arrival
from grinch.linkage.base import FunctionLinkage
from grinch.linkage.named import linkage_of
from grinch.metrics import dendrogram_purity
from grinch.refine import neighbor_cost, passes
from grinch.refine.neighbor_cost import FARTHER, MIN_PART, MUTUAL, ONE_SIDED, NeighborCost, graph_of
from grinch.refine.passes import score_of_identical, sweep
from grinch.tree.checks import check_links
from grinch.tree.links import LEFT, NONE, OFFSET, PARENT, RIGHT, sibling, swap


def rough_engine(rng, n=120, n_features=4, linkage="average", metric=None, compiled=True):
    """A tree that leaves much to do."""
    engine = Engine(
        linkage_of(linkage, metric),
        FAST._replace(graft=False),
        n_neighbors=10,
        n_features=n_features,
        compiled=compiled,
    )
    engine.insert(rng.normal(size=(n, n_features)))
    return engine


def neighbors_of(engine, k):
    return np.vstack([found for _, found in engine.search.nearest(engine.slots(), engine.n_slots)])[:, :k]


def leaf_sets(links):
    return {int(v): set(links.leaves_under(int(v))) for v in np.concatenate(links.nodes())}


def weight_between(graph, some, others):
    return sum(
        int(weight)
        for (i, j), weight in zip(graph.ends.tolist(), graph.weights.tolist(), strict=True)
        if (i in some and j in others) or (j in some and i in others)
    )


def cost_by_hand(links, graph):
    """The sum over all pairs of their weight times the leaves under their lowest common ancestor."""
    under = leaf_sets(links)
    pairs = zip(graph.ends.tolist(), graph.weights.tolist(), strict=True)
    return sum(weight * min(len(s) for s in under.values() if i in s and j in s) for (i, j), weight in pairs)


def check_counts(cost, links):
    """Everything that is counted, against the leaves under the nodes."""
    counted, under, table = cost._counted, leaf_sets(links), links.table
    for v in links.nodes()[1].tolist():
        b, c = int(table[v, LEFT]), int(table[v, RIGHT])
        assert counted.sizes[v] == len(under[v])
        assert counted.pairs[v] == weight_between(cost.graph, under[b], under[c])
        for child, aunt in ((b, c), (c, b)):
            if child >= links.head[OFFSET]:
                for grandchild in (int(table[child, LEFT]), int(table[child, RIGHT])):
                    assert counted.aunt_pairs[grandchild] == weight_between(cost.graph, under[grandchild], under[aunt])


def test_the_graph_has_every_pair_once(rng):
    near = np.array([rng.permutation([j for j in range(30) if j != i])[:6] for i in range(30)], np.int32)
    near[rng.random(30) < 0.2, 4:] = NONE
    graph = graph_of(near)
    named = [{int(j) for j in row if j != NONE} for row in near]
    pairs = {frozenset((i, j)) for i, row in enumerate(named) for j in row}
    assert len(graph.ends) == len(pairs)
    assert {frozenset(ends) for ends in graph.ends.tolist()} == pairs
    for (i, j), weight in zip(graph.ends.tolist(), graph.weights.tolist(), strict=True):
        assert weight == (MUTUAL if i in named[j] and j in named[i] else ONE_SIDED)
    assert graph.least == pytest.approx(MIN_PART * 2 * graph.weights.sum() / 30)
    assert len(graph_of(np.full((4, 3), NONE, np.int32)).ends) == 0


@pytest.mark.parametrize("least_part", [at_night(0.0), MIN_PART, at_night(0.1)])
def test_every_sweep_counts_what_it_changes_and_lowers_the_cost_by_what_it_says(rng, least_part):
    engine = rough_engine(rng)
    graph = graph_of(neighbors_of(engine, 6), least_part=least_part)
    cost, links = NeighborCost(graph, engine.summaries.capacity), engine.links
    made = []
    for _ in range(12):
        twin, before = links.copied(), cost_by_hand(links, graph)
        afresh = NeighborCost(graph, engine.summaries.capacity).sweep(twin)
        made.append(cost.sweep(links))
        check_links(links)
        assert made[-1] == afresh, "what was counted on the way is what counting everything gives"
        np.testing.assert_array_equal(links.table, twin.table)
        after = cost_by_hand(links, graph)
        assert before > after if made[-1] else before == after
        assert cost.cost(links) == pytest.approx(after / graph.weights.sum())
        check_counts(cost, links)
    assert made[0] > 0


def possible_swaps(links):
    """By (b, c): swap c and its aunt, so that b comes to the aunt."""
    table, offset = links.table, links.offset
    for v in links.nodes()[1].tolist():
        if table[v, PARENT] != NONE and v >= offset:
            b, c = int(table[v, LEFT]), int(table[v, RIGHT])
            yield from ((b, c), (c, b))


def test_in_the_end_no_swap_is_left_that_pays_and_has_enough_pairs(rng):
    engine = rough_engine(rng, trials(40, 60))
    graph = graph_of(neighbors_of(engine, 5), least_part=0.02)
    links = engine.links
    NeighborCost(graph, engine.summaries.capacity).sweep(links, most=100)
    total = cost_by_hand(links, graph)
    for b, c in list(possible_swaps(links)):
        under = leaf_sets(links)
        aunt = int(sibling(links, int(links.table[b, PARENT])))
        twin = links.copied()
        swap(twin, c, aunt)
        least = graph.least * min(len(under[b]), len(under[aunt]))
        assert cost_by_hand(twin, graph) >= total or weight_between(graph, under[b], under[aunt]) < least


@pytest.mark.parametrize("compiled", [True, False])
def test_no_swap_is_made_that_the_linkage_objects_to(rng, compiled, monkeypatch):
    """Every swap is looked at: what the two that come together score, and what is parted."""
    engine = rough_engine(rng, 60, metric="cosine", compiled=compiled)
    graph, seen = graph_of(neighbors_of(engine, 6), least_part=0.0), []
    rows = engine.summaries.arrays.means

    def gap(some, others):
        return 1.0 - float(rows[sorted(some)].mean(axis=0).astype(float) @ rows[sorted(others)].mean(axis=0))

    if not compiled:
        original = neighbor_cost.swap_with_aunt

        def noted(state, counted, c):
            under = leaf_sets(engine.links)
            v, b = int(state.table[c, PARENT]), int(sibling(state, c))
            a = int(sibling(state, v))
            seen.append((gap(under[a], under[b]), gap(under[b], under[c])))
            original(state, counted, c)

        monkeypatch.setattr(neighbor_cost, "swap_with_aunt", noted)
    cost, made = NeighborCost(graph, engine.summaries.capacity), 0
    for _ in range(30):
        swaps = sweep(engine, cost, score_of_identical(engine))
        check_links(engine.links)
        check_counts(cost, engine.links)
        made += swaps
        if not swaps:
            break
    assert made > 0
    assert compiled or len(seen) == made
    assert all(now <= FARTHER * before + 1e-5 for now, before in seen)
    # A summary that is not stale is that of its leaves, whatever was swapped.
    for v, members in leaf_sets(engine.links).items():
        if not engine.summaries.arrays.stale[v]:
            np.testing.assert_allclose(rows[v], rows[sorted(members)].mean(axis=0), atol=1e-5)


def test_compiled_or_not_the_swaps_are_the_same(rng):
    X, trees = rng.normal(size=(80, 3)), []
    for compiled in (True, False):
        engine = Engine(linkage_of("average"), FAST, n_neighbors=10, n_features=3, compiled=compiled)
        engine.insert(X)
        passes.Refiner(engine, float("inf"), True, None).refine(1, "all")
        trees.append(engine.tree().to_newick())
    assert trees[0] == trees[1]


def test_the_score_of_identical_points_is_known_or_the_highest_there_is(rng):
    assert score_of_identical(rough_engine(rng, metric="cosine")) == 1.0
    assert score_of_identical(rough_engine(rng, linkage="ward")) == 0.0
    engine = Engine(FunctionLinkage(lambda a, b: 3.0 - abs(sum(a) / len(a) - sum(b) / len(b))), FAST, n_neighbors=5)
    engine.insert(rng.normal(size=30).tolist())
    assert score_of_identical(engine) == pytest.approx(np.nanmax(engine.tree().scores))


def near_duplicates(rng, n_features=24):
    """One thing in eight spellings of twenty copies each, and sixty that are there twice, around it.

    A copy names copies of its own spelling only; the sixty have nobody to name but some spelling of the one.
    """
    common = rng.normal(size=n_features)
    spellings = common + 0.3 * rng.normal(size=(8, n_features))
    others = common + rng.normal(size=(60, n_features))
    X = np.vstack([np.repeat(spellings, 20, axis=0), np.repeat(others, 2, axis=0)])
    y = np.concatenate([np.zeros(160, int), 1 + np.repeat(np.arange(60), 2)])
    return X + 0.05 * rng.normal(size=X.shape), y


@pytest.mark.parametrize("seed", [0, at_night(1)])
def test_near_duplicates_are_not_harmed(seed):
    """Swaps by the ten nearest alone, one-sided pairs and all, cost .02 and .09 of purity here."""
    X, y = near_duplicates(np.random.default_rng(seed))
    before, after = [], []
    for order in range(4):
        rows = arrival(y, "random", order)
        model = Grinch().fit(X[rows])
        before.append(dendrogram_purity(model.tree_, y[rows]))
        after.append(dendrogram_purity(model.refine().tree_, y[rows]))
    assert np.mean(after) > np.mean(before) - 0.005
