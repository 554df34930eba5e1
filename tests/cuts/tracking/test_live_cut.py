"""A cut found from the root down that follows its tree, against the cut of the whole tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import trials
from grinch import Tree, cuts
from grinch.cuts import Choice
from grinch.cuts.tracking import GrowingTree, LiveCut
from grinch.tree.links import MoveLog, swap
from trees import random_trees


class Grown:
    """Whatever builds a tree: here it is there already, with its scores."""

    def __init__(self, tree, ceiling=None):
        self.links, self.moves, self.ceiling = tree.links, MoveLog(), ceiling
        self.scores = np.zeros(tree.n_ids)

    def sibling_scores(self, nodes):
        return self.scores[nodes]

    def follow(self, follower, is_current=False):
        self.links = self.moves.add(self.links, follower, is_current)

    def tree(self):
        return Tree.from_links(self.links, self.scores, self.ceiling)

    def growing(self):
        return GrowingTree(self, np.arange(len(self.links.table) // 2), NotImplemented)


def choice(k, min_size=None):
    """The cut by height, or by sizeable splits with at least this many points on both sides."""
    return Choice(n_clusters=k, cut="height" if min_size is None else "sizeable", min_cluster_size=min_size or 1)


def assert_follows(live, grown, k, min_size=None):
    """Go on with a cut, or begin with one; it is the same as that of the whole tree."""
    tree, how = grown.growing(), choice(k, min_size)
    assert LiveCut.can_follow(tree, how)
    if live is None or not live.is_like(tree, how):
        live = LiveCut(tree, how)
    slots = tree.slots()
    live.update(tree, how, slots)
    whole = grown.tree()
    expected = cuts.cut_n_clusters(whole, k) if min_size is None else cuts.cut_sizeable(whole, k, min_size)
    np.testing.assert_array_equal(live.labels(slots), expected)
    return live


@given(random_trees(), st.data(), st.sampled_from([None, 0.5, 1.0]))
def test_any_tree_with_ties(tree, data, ceiling):
    grown, live = Grown(tree, ceiling), None
    values = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 0.75, 1.0])
    grown.scores = np.array(data.draw(st.lists(values, min_size=tree.n_ids, max_size=tree.n_ids)))
    ways = st.none() if ceiling is None else st.sampled_from([None, 1, 1, 2])
    for k, min_size in data.draw(st.lists(st.tuples(st.integers(1, 25), ways), min_size=1, max_size=12)):
        live = assert_follows(live, grown, k, min_size)


@given(random_trees(), st.data())
@settings(max_examples=trials(15, 1000))
def test_swaps_are_followed(tree, data):
    ceiling, min_size = data.draw(st.sampled_from([(None, None), (0.0, None), (0.0, 1), (0.0, 2)]))
    grown, live = Grown(tree, ceiling), None
    # Scores by the leaves below, so that they change with them.
    leaf_values = np.array(data.draw(st.lists(st.integers(0, 3), min_size=tree.n_leaves, max_size=tree.n_leaves)))
    for _ in range(6):
        now = Tree()
        now.links = grown.links
        for v in now.internal_nodes().tolist():
            grown.scores[v] = -float(leaf_values[now.leaves(v)].sum())
        live = assert_follows(live, grown, data.draw(st.integers(1, 6)), min_size)
        pairs = [(u, v) for u in now.nodes() for v in now.nodes() if now.lca(u, v) not in (u, v)]
        if pairs:
            swap(grown.links, *data.draw(st.sampled_from(pairs)))


@pytest.mark.parametrize("to_the_left", [True, False])
def test_a_deep_tree_of_equal_scores(to_the_left):
    """Each split halves what is left between two ranks; they are spread again when nothing is left."""
    tree, n = Tree(), 400
    last = tree.attach()
    for _ in range(n - 1):
        last = tree.attach(beside=tree.root if to_the_left else last)
    for k in (1, 2, 63, 64, 65, 200, n, n + 5):
        assert_follows(None, Grown(tree), k)


def test_other_scores_are_looked_at_again():
    tree = Tree()
    last = tree.attach()
    for _ in range(9):
        last = tree.attach(beside=last)
    grown = Grown(tree)
    grown.scores = np.linspace(0, 1, tree.n_ids)
    live = assert_follows(None, grown, 3)
    grown.scores = grown.scores[::-1].copy()
    grown.links = grown.moves.lose(grown.links)
    assert assert_follows(live, grown, 3) is live


def test_without_a_ceiling_sizeable_splits_are_not_followed():
    assert not LiveCut.can_follow(Grown(Tree()).growing(), choice(3, 1))
    assert not LiveCut.can_follow(Grown(Tree(), 1.0).growing(), Choice(threshold=0.5))
