"""Refinement: points are inserted again with neighbours from the whole set, and neighbours are brought together.

A pass reinserts points one by one by the moves of the engine, which frees the tree of the order of arrival; then nodes
swap places with their aunts as long as that brings neighbours together (:mod:`grinch.refine.neighbor_cost`) and the
linkage does not object. Last, the tree is joined again by neighbours, where it and the one before the pass agree with
them (:mod:`grinch.refine.agreement`). A pass that raises the cost of the tree is undone.

Neighbours alone can be wrong. A group of near-duplicates has too few members to fill their lists of neighbours, so they
name points of other groups, and swaps would lead them into these. The linkage knows that they are far away.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from grinch._types import Advance, Slots
from grinch.core.engine import Engine
from grinch.core.moves import reinsert_all
from grinch.neighbors.exact import BATCH
from grinch.refine import neighbor_cost
from grinch.refine.agreement import agreed_tree, apartness
from grinch.refine.neighbor_cost import NeighborCost
from grinch.tree.links import NONE, PARENT, SIZE
from grinch.tree.tree import Tree

POINTS = ("all", "unsettled")
# Points whose neighbours are found at a time: enough for the search to keep its threads busy.
GROUP = 16 * BATCH
# A pass that lowers the cost by less than this part of it is the last.
MIN_GAIN = 1e-3
# A tree that was joined again may keep distant points less apart than that before the pass by this part.
LESS_APART = 0.01
# Pairs by which that is seen: this many for each point, and no more than that.
PAIRS_EACH, MOST_PAIRS = 10, 100_000


@dataclass(frozen=True)
class Refinement:
    """The result of a refinement: what it did, and its gain by two scores that need no labels.

    ``cost`` is the mean number of points under the common ancestor of two neighbours, where those that name each other
    count ten times (lower is better); ``linkage`` is the mean linkage of siblings.
    """

    passes: int
    reinserted: int
    moved: int
    """Points that have another sibling than before they were taken out."""
    swaps: int
    seconds: float
    cost_before: float
    cost_after: float
    linkage_before: float
    linkage_after: float
    ended: str
    """By "passes" (all were made), "settled" (the last changed little), or "budget"."""


class Refiner:
    """One refinement of the tree of an engine."""

    def __init__(self, engine: Engine, deadline: float, swaps: bool, progress: Advance | None):
        self.engine, self.deadline, self.with_swaps, self.progress = engine, deadline, swaps, progress
        # Found before, by a reader perhaps: only those that this would look for itself count.
        self.found = engine.known_neighbors()
        self.near = np.full((engine.n_slots, engine.search.k), NONE, np.int32)
        self.is_known = np.zeros(engine.n_slots, np.bool_)
        self.reinserted = self.moved = self.swaps = 0

    def refine(self, passes: int, points: str) -> Refinement:
        """Make up to this many passes; the caller marks the engine as busy."""
        began, engine = time.perf_counter(), self.engine
        linkage_before = mean_linkage(engine)
        cost_before = cost = float("nan")
        made, ended = 0, "passes"
        for made in range(1, passes + 1):
            before, tree_before = engine.links.copied(), engine.tree()
            self._reinsert(self._chosen(points))
            near = neighbor_cost.without_far(
                np.ascontiguousarray(self.near[:, : neighbor_cost.NAMED]), engine.summaries.leaf_rows(engine.n_slots)
            )
            near = neighbor_cost.duplicates_in_order(near, engine.summaries.look(engine.n_slots), engine.links)
            cost_of = NeighborCost(neighbor_cost.graph_of(near), engine.summaries.capacity)
            if self.with_swaps:
                self._swap(cost_of)
                self._join_again(tree_before)
            # Of the same neighbours, for more of them are known after the first pass.
            was, cost = cost_of.cost(before), cost_of.cost(engine.links)
            cost_before = was if made == 1 else cost_before
            if self.with_swaps and cost > was:
                engine.restore(before)
                cost = was
            if time.perf_counter() >= self.deadline:
                ended = "budget"
                break
            if not was - cost > MIN_GAIN * was:
                ended = "settled"
                break
        # Of records, a copy of the engine could not find them again.
        if engine.arrivals is None and self.is_known[engine.slots()].all():
            engine.remember_neighbors(self.near)
        return Refinement(
            passes=made,
            reinserted=self.reinserted,
            moved=self.moved,
            swaps=self.swaps,
            seconds=time.perf_counter() - began,
            cost_before=cost_before,
            cost_after=cost,
            linkage_before=linkage_before,
            linkage_after=mean_linkage(engine),
            ended=ended,
        )

    def _chosen(self, points: str) -> Slots:
        """Return all points in a random order that is always the same, or the unsettled ones, highest first.

        Points that came sorted by class would find their classes one by one again. Unsettled points have no leaf as
        their sibling.
        """
        slots = self.engine.slots()
        if points == "all":
            return np.random.default_rng(0).permutation(slots)
        table = self.engine.links.table
        sizes = table[table[slots, PARENT], SIZE]
        unsettled = np.argsort(-sizes, kind="stable")
        return slots[unsettled[sizes[unsettled] > 2]]

    def _reinsert(self, slots: Slots) -> None:
        for begin in range(0, len(slots), GROUP):
            group = slots[begin : begin + GROUP]
            for first, rows in self._neighbors(group):
                batch = group[first : first + len(rows)]
                self.moved += self.engine.change(reinsert_all, batch, rows)
                self.reinserted += len(batch)
                if self.progress is not None:
                    self.progress(len(batch))
                if time.perf_counter() >= self.deadline:
                    return

    def _neighbors(self, group: Slots) -> list[tuple[int, npt.NDArray[np.int32]]]:
        """Return the neighbours of these points among all, in batches; looked for once, since they do not change."""
        new = group[~self.is_known[group]]
        if self.found is not None:
            self.near[new] = self.found[new]
        else:
            for first, found in self.engine.search.nearest(new, self.engine.n_slots):
                self.near[new[first : first + len(found)]] = found
        self.is_known[new] = True
        return [(lo, self.near[group[lo : lo + BATCH]]) for lo in range(0, len(group), BATCH)]

    def _swap(self, cost_of: NeighborCost) -> None:
        self.engine.tidy()
        ceiling = score_of_identical(self.engine)
        for _ in range(neighbor_cost.MAX_SWEEPS):
            made = sweep(self.engine, cost_of, ceiling)
            self.swaps += made
            # To the end: late sweeps gain little each, and much together.
            if made == 0 or time.perf_counter() >= self.deadline:
                break
        # Those of nodes that kept their leaves are sums of other parts by now.
        self.engine.summaries.forget()

    def _join_again(self, before: Tree) -> None:
        """Replace the tree by one on which it and the one before agree with the neighbours, if all are known.

        Not where that brings distant points together: then a large group has drawn small ones in.
        """
        engine, slots = self.engine, self.engine.slots()
        if not self.is_known[slots].all() or time.perf_counter() >= self.deadline:
            return
        number = np.full(engine.n_slots + 1, NONE, np.int32)  # one more, where NONE points
        number[slots] = np.arange(len(slots))
        tree = agreed_tree(number[self.near[slots]], (before, engine.tree()))
        one, step = np.random.default_rng(0).integers(0, len(slots), (2, min(PAIRS_EACH * len(slots), MOST_PAIRS)))
        other = (one + 1 + step % (len(slots) - 1)) % len(slots)
        scores, pairs = engine.score_pairs(slots[one], slots[other]), np.stack([one, other], axis=1).astype(np.int32)
        distances = (scores.max() if engine.ceiling is None else engine.ceiling) - scores
        if apartness(tree, pairs, distances) >= (1 - LESS_APART) * apartness(before, pairs, distances):
            engine.restore(engine.links.arranged_as(tree.links))


def sweep(engine: Engine, cost: NeighborCost, ceiling: float) -> int:
    """Swap nodes with their aunts, once through the tree, where that brings neighbours together and the linkage agrees.

    Returns how many swaps were made. ``ceiling`` is the score of two identical points; whatever is raised on the way,
    the tree is valid.
    """
    try:
        with engine.explained():
            return cost.swept(engine.links, lambda *counted: engine.run(neighbor_cost.sweep_tree, *counted, 1, ceiling))
    except BaseException:
        engine.summaries.forget()
        raise


def score_of_identical(engine: Engine) -> float:
    """Return the score of two identical points as the engine computes it; if unknown, the highest of all siblings."""
    ceiling = getattr(engine.linkage, "ceiling", None)
    if ceiling is None:
        ceiling = np.nanmax(engine.tree().scores)
    return float(ceiling / engine.summaries.in_units(np.ones(1))[0])


def mean_linkage(engine: Engine) -> float:
    """Return the mean linkage of all pairs of siblings; nan if there are none."""
    scores = engine.tree().scores
    return float(scores[~np.isnan(scores)].mean()) if engine.n_leaves > 1 else float("nan")
