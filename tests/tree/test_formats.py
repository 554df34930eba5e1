"""Trees in the formats of scipy, Newick and networkx."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
import treeswift
from sklearn.datasets import make_circles
from sklearn.metrics import adjusted_rand_score

from grinch import Grinch, Tree
from grinch.cuts import cut_n_clusters
from trees import random_tree


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


def test_where_heights_are_raised_maxclust_disagrees_and_what_is_recommended_agrees():
    X, y = make_circles(60, noise=0.02, factor=0.3, random_state=0)
    model = Grinch("ward", n_clusters=2).fit(X)
    matrix = model.tree_.to_scipy()
    assert adjusted_rand_score(y, model.labels_) == 1
    assert adjusted_rand_score(y, sch.fcluster(matrix, 2, "maxclust")) == 0
    for k in (2, 3, 5):
        ours = model.set_params(n_clusters=k).labels_
        assert np.array_equal(cut_n_clusters(model.tree_, k), ours)
        assert adjusted_rand_score(sch.cut_tree(matrix, n_clusters=k).ravel(), ours) == 1
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    line = next(line for line in readme.splitlines() if "tree_.to_scipy()" in line)
    for text in (Tree.to_scipy.__doc__, line):
        assert "maxclust" in text
        assert "n_clusters=" in text


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
