"""Trees in the formats of scipy, Newick and networkx."""

from __future__ import annotations

import random
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
import treeswift
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import make_circles
from sklearn.metrics import adjusted_rand_score

from grinch import Grinch, Tree
from grinch.cuts import cut_n_clusters
from refusals import refused
from trees import groups, random_tree, random_trees


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
        assert groups(Tree.from_scipy(matrix)) == groups(tree)


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
    refused(r"shape \(n-1, 4\); got shape \(2, 3\)", Tree.from_scipy, np.zeros((2, 3)))
    for row in ([0, 5, 1.0, 2], [0, 0, 1.0, 2], [0, 2, 1.0, 2], [0, 1, -1.0, 2], [0.2, 0.7, 1.0, 2]):
        refused("clusters that exist, each exactly once, at heights", Tree.from_scipy, [row])


def test_newick_is_read_back_by_treeswift(rng):
    tree = random_tree(rng, 40)
    names = [f"it's (point) {i}; a,b" for i in range(40)]
    text = tree.to_newick(names).replace("''", "’")
    found = {frozenset(name.strip("'").replace("’", "'") for name in group) for group in groups_of_treeswift(text)}
    assert found == {frozenset(names[i] for i in tree.leaves(v)) for v in tree.internal_nodes().tolist()}


def test_newick_branch_lengths_add_up_to_heights(rng):
    tree = Tree.from_scipy(sch.linkage(rng.normal(size=(30, 2)), "average"))
    other = treeswift.read_tree_newick(tree.to_newick())
    depth = {leaf.label: distance for leaf, distance in other.distances_from_root(internal=False)}
    assert depth.keys() == {str(i) for i in range(30)}
    np.testing.assert_allclose(list(depth.values()), tree.heights()[tree.root], rtol=1e-4)


def test_newick_wants_a_name_for_each_leaf():
    tree = random_tree(np.random.default_rng(0), 3)
    refused("each of the 3 leaves; got 2", tree.to_newick, ["a", "b"])


def test_networkx_has_the_same_clusters(rng):
    tree = random_tree(rng, 30)
    graph = tree.to_networkx()
    assert nx.is_arborescence(graph)
    for v in tree.nodes():
        under = {u for u in nx.descendants(graph, v) | {v} if graph.out_degree(u) == 0}
        assert under == set(tree.leaves(v).tolist())
        assert graph.nodes[v]["size"] == len(under)


def named_groups(tree: Tree) -> set[frozenset[str]]:
    names = tree.names or [str(i) for i in range(tree.n_leaves)]
    return {frozenset(names[i] for i in group) for group in groups(tree)}


def heights_by_group(tree: Tree) -> dict[frozenset[str], float]:
    names, heights = tree.names or [str(i) for i in range(tree.n_leaves)], tree.heights()
    internal = tree.internal_nodes().tolist()
    return {frozenset(names[i] for i in tree.leaves(v).tolist()): float(heights[v]) for v in internal}


def groups_of_treeswift(text: str) -> dict[frozenset[str], float]:
    """By the names under it, how high each node is over its deepest leaf."""
    found, under, high = {}, {}, {}
    for node in treeswift.read_tree_newick(text).traverse_postorder():
        if node.is_leaf():
            under[node], high[node] = frozenset([node.label]), 0.0
            continue
        children = node.child_nodes()
        under[node] = frozenset().union(*(under[child] for child in children))
        high[node] = max(high[child] + (child.edge_length or 0.0) for child in children)
        # Of a node and its only child, the lower one counts.
        found.setdefault(under[node], high[node])
    return found


def random_newick(seed: int, n_leaves: int | None = None) -> str:
    """A tree with any number of children, single ones among them; one with many leaves is deep."""
    rng = random.Random(seed)
    parts = [f"n{i}:{rng.randint(0, 40) / 4}" for i in range(n_leaves or rng.randint(2, 12))]
    while len(parts) > 1:
        if n_leaves:
            parts.insert(rng.randrange(2), parts.pop())
        else:
            rng.shuffle(parts)
        count = rng.randint(1, 4)
        parts = [*parts[count:], f"({','.join(parts[:count])}):{rng.randint(1, 40) / 4}"]
    return f"{parts[0]};"


@given(st.integers(0, 10**6), st.sampled_from([None, None, None, 150]))
@example(seed=0, n_leaves=600)
def test_groups_and_heights_are_those_of_treeswift(seed, n_leaves):
    text = random_newick(seed, n_leaves)
    tree = Tree.from_newick(text)
    tree.check()
    expected, found = groups_of_treeswift(text), heights_by_group(tree)
    for group, height in expected.items():
        if len(group) > 1:
            assert found[group] == pytest.approx(height)


@given(random_trees(), st.data())
def test_reads_what_was_written(tree, data):
    n = tree.n_leaves
    names = data.draw(st.lists(st.text(min_size=1, max_size=8), min_size=n, max_size=n, unique=True))
    again = Tree.from_newick(tree.to_newick(names))
    assert named_groups(again) == {frozenset(names[i] for i in group) for group in groups(tree)}
    if n > 1:
        numbered = Tree.from_newick(tree.to_newick())
        assert numbered.names is None
        assert groups(numbered) == groups(tree)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("('a b','it''s');", ["a b", "it's"]),
        ('("a,b","(c)");', ["a,b", "(c)"]),
        ("('a_b',a_b);", ["a_b", "a b"]),
        ("([&R]a[a comment, with (signs);],b)[x];", ["a", "b"]),
        (" [&U]\n( a ,\tb )root : 0.5 ;\n", ["a", "b"]),
        ("('[no comment]',b);", ["[no comment]", "b"]),
        ("(ä:1,日本:1);", ["ä", "日本"]),
        ("(a,b)", ["a", "b"]),
        ("(a,b);(c,d,e);", ["a", "b"]),
    ],
)
def test_names(text, names):
    assert Tree.from_newick(text).names == names


def test_leaves_called_by_numbers_are_these():
    tree = Tree.from_newick("((2:1,0:1):1,1:2);")
    assert tree.names is None
    assert groups(tree) == {frozenset([0, 1, 2]), frozenset([0, 2]), frozenset([0]), frozenset([1]), frozenset([2])}
    assert Tree.from_newick("((2,0),3);").names == ["2", "0", "3"]


def test_a_single_leaf():
    tree = Tree.from_newick("alone;")
    assert (tree.n_leaves, tree.names) == (1, ["alone"])
    assert Tree.from_newick("(((alone:1):2):3);").n_leaves == 1


@pytest.mark.parametrize(
    ("text", "heights"),
    [
        # Several children are one above the other at the same height, and a single child is left out.
        ("(a:2,b:2,c:1);", {"ab": 2.0, "abc": 2.0}),
        ("(((a:1,b:1):2):3,c:6);", {"ab": 1.0, "abc": 6.0}),
        # Without lengths, a node is one higher than the highest below it; where some are missing, they are nothing.
        ("(((a,b),c),(d,e));", {"ab": 1.0, "abc": 2.0, "de": 1.0, "abcde": 3.0}),
        ("((a,b):1,c:2);", {"ab": 0.0, "abc": 2.0}),
        ("(c:2,(a,b):1);", {"ab": 0.0, "abc": 2.0}),
        ("(a:-1,b:0.5);", {"ab": 0.5}),
    ],
)
def test_heights_of_unusual_trees(text, heights):
    assert heights_by_group(Tree.from_newick(text)) == {frozenset(group): height for group, height in heights.items()}


@pytest.mark.parametrize(("n", "side"), [(50_000, "left"), (20_000, "right")])
def test_a_tree_as_deep_as_it_has_leaves(n, side):
    """Points 0 to k come together at height k."""
    if side == "left":
        text = "(" * (n - 1) + "0:1" + "".join(f",{k}:{k}):1" for k in range(1, n)) + ";"
    else:
        text = "".join(f"({k}:{k}," for k in range(n - 1, 0, -1)) + "0:1" + "):1" * (n - 1) + ";"
    k = np.arange(1, n)
    expected = np.column_stack([np.r_[k[0], n + k[:-1] - 1], np.r_[0, k[1:]], k, k + 1])
    expected[:, :2].sort(axis=1)
    tree = Tree.from_newick(text)
    np.testing.assert_array_equal(tree.to_scipy(), expected)
    np.testing.assert_array_equal(Tree.from_newick(tree.to_newick()).to_scipy(), expected)


def test_a_leaf_within_many_brackets_is_one_leaf():
    text = "(" * 50_000 + "a" + ")" * 50_000 + ";"
    assert Tree.from_newick(text).names == ["a"]
    assert Tree.from_newick(text.replace("a", "a,b")).names == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        (";", "it ends too early"),
        ("[only a comment]", "it ends too early"),
        ("((a,b);", "it ends too early"),
        ("(a,b));", r"'\)' outside of all brackets"),
        ("a,b;", "',' outside of all brackets"),
        ("(a,);", r"'\)' after ','"),
        ("(,a);", r"',' after '\('"),
        ("();", r"'\)' after '\('"),
        ("(a b,c);", "'b' after 'a'"),
        ("(a,b)(c,d);", r"'\(' after '\)'"),
        ("a(b,c);", r"'\(' after 'a'"),
        ("(a:x,b);", "'x' is no length"),
        ("(a:nan,b:1);", "'nan' is no length"),
        ("(a:1e999,b:1);", "'1e999' is no length"),
        ("(a:'1',b:1);", "is no length"),
        ("(a:,b:1);", "',' after ':', where a length must be"),
        ("(a:1,b:1):;", "';' after ':', where a length must be"),
        ("(a::1,b);", "':' after ':', where a length must be"),
        ("(a:1:2,b);", "two lengths"),
        ("(:1,b);", "a length without a node"),
        ("('a,b);", "is not closed"),
        ("(a,b)'c;", "is not closed"),
        ("(a[,b);", "is not closed"),
        ("(a],b);", "']' after 'a'"),
        ("(a,b)c d;", "'d' after 'c'"),
    ],
)
def test_what_is_wrong_is_said(text, why):
    with pytest.raises(ValueError, match="text must be a tree in Newick") as error:
        Tree.from_newick(text)
    assert error.match(why)
