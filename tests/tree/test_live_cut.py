"""A cut found from the root down, and kept as the tree changes, against the cut of the whole tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import trials
from grinch import Tree, cuts
from grinch.tree.links import MOVED, swap
from grinch.tree.live_cut import Asked, LiveCut
from trees import random_trees


def assert_follows(cut, links, scores, ceiling, k, min_size=None):
    """The cut by height, or by sizeable splits with at least so many points on both sides."""
    cut.update(links, Asked(k, min_size is None, min_size or 1), lambda nodes: scores[nodes])
    whole = Tree.from_links(links, scores, ceiling)
    expected = cuts.cut_n_clusters(whole, k) if min_size is None else cuts.cut_sizeable(whole, k, min_size)
    np.testing.assert_array_equal(cut.labels(), expected)
    assert cut.n_clusters == expected.max() + 1


@given(random_trees(), st.data(), st.sampled_from([None, 0.5, 1.0]))
def test_any_tree_with_ties(tree, data, ceiling):
    values = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 0.75, 1.0])
    scores = np.array(data.draw(st.lists(values, min_size=tree.n_ids, max_size=tree.n_ids)))
    cut = LiveCut(tree.offset, ceiling)
    links = tree.links._replace(moved=cut.moved)
    ways = st.none() if ceiling is None else st.sampled_from([None, 1, 1, 2])
    for k, min_size in data.draw(st.lists(st.tuples(st.integers(1, 25), ways), min_size=1, max_size=4)):
        assert_follows(cut, links, scores, ceiling, k, min_size)


@given(random_trees(), st.data())
@settings(max_examples=trials(15, 1000))
def test_swaps_are_followed(tree, data):
    ceiling, min_size = data.draw(st.sampled_from([(None, None), (0.0, None), (0.0, 1), (0.0, 2)]))
    cut = LiveCut(tree.offset, ceiling)
    links = tree.links._replace(moved=cut.moved)
    # Scores by the leaves below, so that they change with them.
    leaf_values = np.array(data.draw(st.lists(st.integers(0, 3), min_size=tree.n_leaves, max_size=tree.n_leaves)))

    def scores():
        now = Tree()
        now.links = links
        found = np.full(now.n_ids, np.nan)
        for v in now.internal_nodes().tolist():
            found[v] = -float(leaf_values[now.leaves(v)].sum())
        return found

    for _ in range(4):
        assert_follows(cut, links, scores(), ceiling, data.draw(st.integers(1, 6)), min_size)
        now = Tree()
        now.links = links
        pairs = [(u, v) for u in now.nodes() for v in now.nodes() if now.lca(u, v) not in (u, v)]
        if pairs:
            swap(links, *data.draw(st.sampled_from(pairs)))


@pytest.mark.parametrize("to_the_left", [True, False])
def test_a_deep_tree_of_equal_scores(to_the_left):
    """Each split halves what is left between two ranks; they are spread again when nothing is left."""
    tree, n = Tree(), 400
    last = tree.attach()
    for _ in range(n - 1):
        last = tree.attach(beside=tree.root if to_the_left else last)
    for k in (1, 2, 63, 64, 65, 200, n, n + 5):
        cut = LiveCut(tree.offset)
        links = tree.links._replace(moved=cut.moved)
        assert_follows(cut, links, np.zeros(tree.n_ids), None, k)


def test_what_does_not_fit_is_looked_at_again():
    tree = Tree()
    last = tree.attach()
    for _ in range(9):
        last = tree.attach(beside=last)
    cut = LiveCut(tree.offset)
    links, scores = tree.links._replace(moved=cut.moved), np.linspace(0, 1, tree.n_ids)
    assert_follows(cut, links, scores, None, 3)
    links.head[MOVED] = len(cut.moved) + 1
    assert_follows(cut, links, scores[::-1].copy(), None, 3)


def test_labels_of_nodes_and_another_order():
    tree = Tree.from_merges(np.array([[0, 1], [2, 3], [4, 5]]), np.array([0.9, 0.8, 0.1]))
    cut = LiveCut(tree.offset)
    links = tree.links._replace(moved=cut.moved)
    cut.update(links, Asked(2, is_by_height=True), lambda nodes: tree.scores[nodes])
    nodes = np.array([0, 3, tree.parent(0), tree.root, -1], np.int32)
    assert cut.labels_of(nodes).tolist() == [0, 1, 0, -1, -1]
    cut.number_along(np.array([3, 0, 1, 2]))
    assert cut.labels().tolist() == [1, 1, 0, 0]
