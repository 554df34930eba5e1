"""The tree against a naive one made of nested Python sets, and its formats against scipy, networkx and treeswift."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
import treeswift
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from grinch import Tree
from grinch.tree.links import SIZE, lca_within, new_links, resize_upward


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


def random_tree(rng, n):
    tree = Tree()
    tree.attach()
    for _ in range(n - 1):
        tree.attach(beside=int(rng.choice(list(tree.nodes()))))
    return tree


@pytest.mark.parametrize("method", ["single", "complete", "average", "ward"])
def test_scipy_round_trip(rng, method):
    matrix = sch.linkage(rng.normal(size=(60, 3)), method)
    tree = Tree.from_scipy(matrix)
    tree.check()
    np.testing.assert_allclose(tree.to_scipy(), matrix)


def test_to_scipy_is_valid_and_monotone(rng):
    for n in (2, 3, 50):
        tree = random_tree(rng, n)
        matrix = tree.to_scipy()
        assert sch.is_valid_linkage(matrix)
        assert sch.is_monotonic(matrix)
        assert sch.fcluster(matrix, 2, "maxclust").max() == 2
        assert sch.cut_tree(matrix, n_clusters=2).max() == 1
        drawn = sch.dendrogram(matrix, no_plot=True)
        assert sorted(drawn["leaves"]) == list(range(n))
        clusters = {frozenset(tree.leaves(v).tolist()) for v in tree.nodes()}
        back = Tree.from_scipy(matrix)
        assert {frozenset(back.leaves(v).tolist()) for v in back.nodes()} == clusters


def test_from_scipy_refuses_what_is_no_linkage_matrix():
    with pytest.raises(ValueError, match=r"shape \(n-1, 4\); got shape \(2, 3\)"):
        Tree.from_scipy(np.zeros((2, 3)))
    for row in ([0, 5, 1.0, 2], [0, 0, 1.0, 2], [0, 2, 1.0, 2], [0, 1, -1.0, 2], [0.2, 0.7, 1.0, 2]):
        with pytest.raises(ValueError, match="clusters that exist, each exactly once, at heights"):
            Tree.from_scipy([row])


def test_newick_is_read_back_by_treeswift(rng):
    tree = random_tree(rng, 40)
    names = [f"it's (point) {i}; a,b" for i in range(40)]
    other = treeswift.read_tree_newick(tree.to_newick(names).replace("''", "’"))
    found = {
        frozenset(leaf.label.strip("'").replace("’", "'") for leaf in node.traverse_leaves())
        for node in other.traverse_preorder()
    }
    assert found == {frozenset(names[i] for i in tree.leaves(v)) for v in tree.nodes()}


def test_newick_branch_lengths_add_up_to_heights(rng):
    tree = Tree.from_scipy(sch.linkage(rng.normal(size=(30, 2)), "average"))
    other = treeswift.read_tree_newick(tree.to_newick())
    depth = {leaf.label: distance for leaf, distance in other.distances_from_root(internal=False)}
    assert depth.keys() == {str(i) for i in range(30)}
    np.testing.assert_allclose(list(depth.values()), tree.heights()[tree.root], rtol=1e-4)


def test_newick_wants_a_name_for_each_leaf():
    tree = random_tree(np.random.default_rng(0), 3)
    with pytest.raises(ValueError, match="each of the 3 leaves; got 2"):
        tree.to_newick(["a", "b"])


def test_networkx_has_the_same_clusters(rng):
    tree = random_tree(rng, 30)
    graph = tree.to_networkx()
    assert nx.is_arborescence(graph)
    for v in tree.nodes():
        under = {u for u in nx.descendants(graph, v) | {v} if graph.out_degree(u) == 0}
        assert under == set(tree.leaves(v).tolist())
        assert graph.nodes[v]["size"] == len(under)


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


def test_a_tree_as_deep_as_it_has_points():
    n = 100_000
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


def test_check_finds_damage():
    def damaged(change):
        tree = random_tree(np.random.default_rng(1), 8)
        change(tree.links)
        with pytest.raises(AssertionError):
            tree.check()

    damaged(lambda links: links.table.__setitem__((0, 0), 1))
    damaged(lambda links: links.table.__setitem__((links.head[0], SIZE), 3))
    damaged(lambda links: links.head.__setitem__(0, 0))
    damaged(lambda links: links.marks.__setitem__(0, 1))
    damaged(lambda links: links.table.__setitem__((links.head[0], 1), links.table[links.head[0], 2]))


def test_sizes_saturate_above_the_limit():
    from grinch.tree.links import ROOT, attach, attach_first
    from grinch.tree.tree import check_links

    links = new_links(50, limit=7)
    attach_first(links, 0)
    for leaf in range(1, 50):
        attach(links, leaf, int(links.head[ROOT]) if leaf % 3 else leaf - 1, 50 + leaf)
        check_links(links)
    assert links.table[links.head[ROOT], SIZE] == 8
    resize_upward(links, int(links.head[ROOT]))
    check_links(links)
