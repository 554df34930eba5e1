"""Arrays by node id and passes over them, against the tree asked node by node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grinch.tree import NONE, Tree
from trees import random_trees


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
