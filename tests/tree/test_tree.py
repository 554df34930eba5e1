"""The cluster tree against sets of leaves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
import treeswift
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from effort import trials
from grinch import Tree
from grinch.tree.links import lca_within
from trees import random_tree


class TreeMachine(RuleBasedStateMachine):
    """Attach, move and swap at random; after each, every invariant holds and clusters are the ones expected."""

    def __init__(self):
        super().__init__()
        self.tree = Tree(capacity=1)
        self.tree.attach()

    def pick(self, data) -> int:
        return data.draw(st.sampled_from(list(self.tree.nodes())))

    def clusters(self) -> set[frozenset[int]]:
        return {frozenset(self.tree.leaves(v).tolist()) for v in self.tree.nodes()}

    @rule(data=st.data())
    def attach(self, data):
        beside = self.pick(data)
        group, before = frozenset(self.tree.leaves(beside).tolist()), self.clusters()
        leaf = self.tree.attach(beside)
        expected = {c | {leaf} if c > group else c for c in before} | {group | {leaf}, frozenset({leaf})}
        assert leaf == self.tree.n_leaves - 1
        assert self.clusters() == expected

    @precondition(lambda self: self.tree.n_leaves > 2)
    @rule(data=st.data())
    def move(self, data):
        v, beside = self.pick(data), self.pick(data)
        moved, target = (frozenset(self.tree.leaves(u).tolist()) for u in (v, beside))
        before = self.clusters()
        try:
            self.tree.move(v, beside)
        except ValueError:
            p = self.tree.parent(v)
            assert moved >= target or p == beside
            assert self.clusters() == before
            return
        without = {c if c <= moved else c - moved for c in before} - {frozenset()}
        kept = target - moved
        expected = {c | moved if c > kept and not c <= moved else c for c in without} | {kept | moved, moved}
        assert self.clusters() == expected

    @precondition(lambda self: self.tree.n_leaves > 2)
    @rule(data=st.data())
    def swap(self, data):
        u, v = self.pick(data), self.pick(data)
        a, b = (frozenset(self.tree.leaves(x).tolist()) for x in (u, v))
        before = self.clusters()
        if a & b:
            with pytest.raises(ValueError, match="disjoint"):
                self.tree.swap(u, v)
            return
        self.tree.swap(u, v)

        def after(c):
            if c > a and not c >= b:
                return (c - a) | b
            if c > b and not c >= a:
                return (c - b) | a
            return c

        assert self.clusters() == {after(c) for c in before}

    @invariant()
    def valid(self):
        self.tree.check()

    @rule(data=st.data())
    def lca_is_the_smallest_common_cluster(self, data):
        u, v = self.pick(data), self.pick(data)
        both = set(self.tree.leaves(u).tolist()) | set(self.tree.leaves(v).tolist())
        found = self.tree.lca(u, v)
        assert set(self.tree.leaves(found).tolist()) == min((c for c in self.clusters() if c >= both), key=len)
        assert lca_within(self.tree.links, u, v, 10**6) == found


TestTreeMachine = TreeMachine.TestCase
TestTreeMachine.settings = settings(max_examples=trials(12, 1000))


def test_empty_and_tiny_trees():
    tree = Tree()
    tree.check()
    assert (tree.n_leaves, tree.root, tree.to_newick(), list(tree.nodes())) == (0, -1, ";", [])
    assert tree.to_scipy().shape == (0, 4)
    assert tree.attach() == 0
    tree.check()
    assert (tree.root, tree.to_newick(), tree.parent(0), tree.children(0), tree.sibling(0)) == (0, "0;", None, (), None)
    assert tree.to_scipy().shape == (0, 4)
    with pytest.raises(ValueError, match="beside must be a node"):
        tree.attach()
    tree.attach(beside=0)
    assert tree.to_scipy().tolist() == [[0, 1, 1, 2]]
    assert tree.leaves().tolist() == [0, 1]


def test_unknown_nodes_are_named():
    tree = random_tree(np.random.default_rng(0), 4)
    with pytest.raises(KeyError, match=r"node 99 is not in this tree; it has 0 to 3 \(leaves\) and 17 to 19"):
        tree.parent(99)


@pytest.mark.parametrize("n", [3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_tree_as_deep_as_it_has_points(n):
    tree = Tree(n)
    tree.attach()
    for _ in range(n - 1):
        tree.attach(beside=tree.root)
    tree.check()
    assert tree.depths().max() == n - 1
    assert tree.size(tree.root) == n
    assert tree.lca(0, n - 1) == tree.root
    assert sum(1 for _ in tree.ancestors(0)) == n - 1
    matrix = tree.to_scipy()
    assert sch.is_valid_linkage(matrix)
    assert sch.fcluster(matrix, 3, "maxclust").max() == 3
    assert len(sch.dendrogram(matrix, no_plot=True, truncate_mode="lastp", p=10)["leaves"]) == 10
    other = treeswift.read_tree_newick(tree.to_newick())
    assert other.num_nodes(internal=False) == n
    assert tree.to_networkx().number_of_nodes() == 2 * n - 1
    assert Tree.from_scipy(matrix).depths().max() == n - 1


def test_heights_are_raised_where_a_merge_scores_better_than_those_below():
    tree = Tree.from_scipy([[0, 1, 4.0, 2], [2, 3, 1.0, 3]])
    heights = tree.heights()
    assert heights[tree.parent(0)] == 4.0
    assert heights[tree.root] == 4.0
    assert tree.scores[tree.root] == -1.0


def test_relabelled_leaves_keep_their_places(rng):
    tree = random_tree(rng, 20)
    order = rng.permutation(20)
    other = tree.relabelled(order)
    other.check()
    expected = {frozenset(order[tree.leaves(v)].tolist()) for v in tree.nodes()}
    assert {frozenset(other.leaves(v).tolist()) for v in other.nodes()} == expected
