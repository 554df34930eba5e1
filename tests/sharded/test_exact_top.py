"""Theorem 1 across shards: components whose points are scattered over branches are nodes of the whole tree."""

from __future__ import annotations

import random

import numpy as np
import pytest

from effort import trials
from grinch.core.engine import Engine
from grinch.core.rules import EXACT
from grinch.sharded.compose import compose_merges, merges_of, subtree
from grinch.sharded.stages.top import BranchNodes, join_exactly
from separation import KINDS, SeparatingLinkage, arrival, missed_components


def whole_tree(parts, linkage, order):
    """The tree of all points, from a tree for each part of them."""
    place = {point: i for i, point in enumerate(order)}
    trees = []
    for part in parts:
        engine = Engine(linkage, EXACT)
        engine.insert(part)
        trees.append(engine.tree())
    forest = [BranchNodes(merges_of(tree), part, linkage) for tree, part in zip(trees, parts, strict=True)]
    top, tops = join_exactly(forest, linkage, EXACT)
    pieces, numbers = [], []
    for branch, node in tops:
        tree = merges_of(trees[branch]).tree()
        piece, leaves = subtree(tree, node + (node >= tree.n_leaves))
        pieces.append(piece)
        numbers.append(np.array([place[parts[branch][leaf]] for leaf in leaves]))
    return compose_merges(top, pieces, numbers).tree()


@pytest.mark.parametrize("n_branches", [2, 3, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_components_split_over_branches_are_nodes_of_the_whole(kind, n_branches):
    rng = random.Random(f"{kind} {n_branches}")
    for trial in range(trials(12, 400)):
        graph = KINDS[kind](rng, 12)
        order = arrival(rng, graph, hubs_last=kind == "stars" or trial % 2 == 0)
        parts = [[] for _ in range(n_branches)]
        for point in order:
            rng.choice(parts).append(point)
        linkage = SeparatingLinkage(graph, trial)
        tree = whole_tree([part for part in parts if part], linkage, order)
        assert missed_components(tree, graph, order) == [], (kind, n_branches, trial)


def test_without_opening_components_are_lost():
    """The check can fail: joined by their roots, branches keep parts of a cluster apart."""
    rng, lost = random.Random(0), 0
    for trial in range(20):
        graph = KINDS["stars"](rng, 12)
        order = arrival(rng, graph, hubs_last=True)
        linkage = SeparatingLinkage(graph, trial)
        trees = []
        for part in (order[::2], order[1::2]):
            engine = Engine(linkage, EXACT)
            engine.insert(part)
            trees.append(merges_of(engine.tree()))
        pair = type(trees[0])(np.array([[0, 1]]), np.array([0.0]))
        evens, odds = np.arange(0, len(order), 2), np.arange(1, len(order), 2)
        lost += bool(missed_components(compose_merges(pair, trees, [evens, odds]).tree(), graph, order))
    assert lost
