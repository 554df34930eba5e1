"""The tree that users hold: structure, changes, and arrays by node."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
import treeswift
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from effort import trials
from grinch.tree import NONE, Tree
from grinch.tree.links import lca_within
from refusals import refused
from trees import random_tree, random_trees


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
            refused("disjoint", self.tree.swap, u, v)
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
    refused("beside must be a node", tree.attach)
    tree.attach(beside=0)
    assert tree.to_scipy().tolist() == [[0, 1, 1, 2]]
    assert tree.leaves().tolist() == [0, 1]


def test_unknown_nodes_are_named():
    tree = random_tree(np.random.default_rng(0), 4)
    refused(r"node 99 is not in this tree; it has 0 to 3 \(leaves\) and 17 to 19", tree.parent, 99, error=KeyError)


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


def under(tree, v):
    """v and all nodes below it."""
    found, waiting = [], [v]
    while waiting:
        found.append(waiting.pop())
        waiting += tree.children(found[-1])
    return found


@given(random_trees())
def test_arrays_say_what_the_tree_says_of_each_node(tree):
    parents, pairs, sizes = tree.parents(), tree.child_pairs(), tree.sizes()
    assert len(parents) == len(pairs) == len(sizes) == tree.n_ids
    for v in tree.nodes():
        assert parents[v] == (NONE if v == tree.root else tree.parent(v))
        assert tuple(pairs[v].tolist()) == (tree.children(v) or (NONE, NONE))
        assert sizes[v] == len(tree.leaves(v))
    assert tree.internal_nodes().tolist() == [v for v in tree.nodes() if not tree.is_leaf(v)]


@given(random_trees(), st.integers(0, 10**6))
def test_passes_are_sums_and_maxima_over_all_that_is_below(tree, seed):
    values = np.random.default_rng(seed).integers(-9, 10, tree.n_ids)
    before = values.copy()
    sums, greatest = tree.sum_upward(values), tree.max_upward(values.astype(float))
    for v in tree.nodes():
        assert sums[v] == values[under(tree, v)].sum()
        assert greatest[v] == values[under(tree, v)].max()
    assert (values == before).all()


@given(random_trees(), st.integers(0, 10**6))
def test_subtrees_are_what_is_left_when_nodes_are_split_from_the_top(tree, seed):
    is_split = np.random.default_rng(seed).random(tree.n_ids) < 0.7
    is_split[: tree.offset] = False
    expected, waiting, number = np.full(tree.n_ids, NONE), [tree.root], 0
    while waiting:
        v = waiting.pop()
        if is_split[v]:
            waiting += reversed(tree.children(v))
        else:
            expected[under(tree, v)] = number
            number += 1
    nodes = tree.preorder()
    assert tree.number_subtrees(is_split)[nodes].tolist() == expected[nodes].tolist()


def test_arrays_of_a_tree_cannot_be_written_to():
    tree = Tree.from_scipy([[0, 1, 1.0, 2]])
    for array in (tree.parents(), tree.child_pairs(), tree.sizes()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_arrays_of_an_empty_tree():
    tree = Tree()
    assert tree.internal_nodes().tolist() == []
    nothing = np.zeros(tree.n_ids)
    assert tree.sum_upward(nothing).tolist() == tree.max_upward(nothing).tolist() == nothing.tolist()
    assert (tree.number_subtrees(nothing > 0) == NONE).all()


@given(random_trees(), st.data())
def test_common_ancestors_of_any_two_nodes(tree, data):
    nodes = st.sampled_from(list(tree.nodes()))
    pairs = np.array(data.draw(st.lists(st.tuples(nodes, nodes), max_size=9)), int).reshape(-1, 2)
    assert tree.common_ancestors(*pairs.T).tolist() == [tree.lca(u, v) for u, v in pairs.tolist()]
