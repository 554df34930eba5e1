"""What of a tree is seen at a zoom level, against plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grinch import Tree
from grinch.tree import blocks as module
from grinch.tree.blocks import SHARE, blocks, commonest, covering, display, nodes_above
from trees import chain, random_tree, random_trees

UNLIMITED = 10**6


def sides(tree: Tree, v: int) -> tuple[int, int]:
    """The children of a node, the larger one first, and the left one of two that are as large."""
    left, right = tree.children(v)
    return (left, right) if tree.size(left) >= tree.size(right) else (right, left)


class PlainBlocks:
    """The blocks again, as their docstring says it, by recursion over sets of places."""

    def __init__(self, tree, x0, x1, least, kept, max_rows):
        self.tree, self.least, self.kept, self.max_rows = tree, max(least, 1), kept, max_rows
        place = {leaf: i for i, leaf in enumerate(display(tree).order.tolist())}
        self.places = {v: {place[leaf] for leaf in tree.leaves(v).tolist()} for v in tree.nodes()}
        self.view = set(range(x0, x1))
        over = [v for v in tree.nodes() if self.view <= self.places[v]]
        self.found: set[tuple[int, int | None, int, int]] = set()
        self.visit(min(over, key=tree.size), None, 0)

    def visit(self, v: int, parent: int | None, row: int) -> None:
        if not self.places[v] & self.view:
            return
        parts, end = self.parts(v)
        is_last = row + 1 >= self.max_rows
        self.found.add((v, parent, row, -1 if is_last else end))
        for part in () if is_last else parts:
            self.visit(part, v, row + 1)

    def parts(self, v: int) -> tuple[list[int], int]:
        """What is seen one row below a node, and the last split of it that counts."""
        smaller, last, end = [], [], -1
        while not self.tree.is_leaf(v):
            big, small = sides(self.tree, v)
            if self.tree.size(v) < 2 * self.least:
                break
            counts = self.tree.size(small) >= self.least
            if counts:
                smaller.append(small)
            if counts or big in self.kept:
                last, end = [big], v
            if big in self.kept or (counts and self.tree.size(small) >= SHARE * self.tree.size(v)):
                break
            v = big
        return smaller + last, end


def as_set(found):
    of = lambda i: None if i < 0 else int(found.nodes[i])  # noqa: E731
    rows = zip(found.nodes.tolist(), found.parents.tolist(), found.rows.tolist(), found.ends.tolist(), strict=True)
    return {(node, of(parent), row, end) for node, parent, row, end in rows}


@st.composite
def views(draw):
    tree = draw(random_trees(30))
    x0 = draw(st.integers(0, tree.n_leaves - 1))
    x1 = draw(st.integers(x0 + 1, tree.n_leaves))
    kept = draw(st.sets(st.sampled_from(list(tree.nodes())), max_size=6))
    return tree, x0, x1, kept


def mask(tree, kept):
    is_kept = np.zeros(tree.n_ids, np.bool_)
    is_kept[list(kept)] = True
    return is_kept


# Places ---------------------------------------------------------------------------------------------------------------


@given(random_trees())
def test_the_points_under_a_node_are_a_range_of_places(tree):
    starts, order = display(tree)
    assert sorted(order.tolist()) == list(range(tree.n_leaves))
    for v in tree.nodes():
        assert set(order[starts[v] : starts[v] + tree.size(v)].tolist()) == set(tree.leaves(v).tolist())


@given(random_trees())
def test_the_larger_child_is_on_the_left(tree):
    starts, _ = display(tree)
    for v in tree.nodes():
        if not tree.is_leaf(v):
            big, small = sides(tree, v)
            assert (starts[big], starts[small]) == (starts[v], starts[v] + tree.size(big))


def test_a_chain_of_20_000():
    tree = chain(20_000)
    starts, order = display(tree)
    assert order.tolist() == list(range(20_000))
    assert not starts[tree.internal_nodes()].any()
    found = blocks(tree, starts, 0, 20_000, least=1, max_rows=64)
    # No split is large enough for a row of its own, so all but the last few points are beside each other.
    assert found.rows.max() < 64
    assert covering(tree, starts, 0, 1) == 0
    assert tree.size(covering(tree, starts, 5, 19_999)) == 19_999
    best, counts = commonest(tree, display(tree), np.zeros(20_000, np.int64), 1)
    np.testing.assert_array_equal(counts[tree.internal_nodes()], tree.sizes()[tree.internal_nodes()])
    assert (best[tree.internal_nodes()] == 0).all()


@given(random_trees(), st.data())
def test_the_lowest_node_over_places(tree, data):
    starts, order = display(tree)
    x0 = data.draw(st.integers(0, tree.n_leaves - 1))
    x1 = data.draw(st.integers(x0 + 1, tree.n_leaves))
    expected = int(order[x0])
    for place in range(x0, x1):
        expected = tree.lca(expected, int(order[place]))
    assert covering(tree, starts, x0, x1) == expected
    assert covering(tree, starts, x0, x0) == order[x0]


# Blocks ---------------------------------------------------------------------------------------------------------------


@given(views(), st.integers(0, 6), st.sampled_from([1, 2, 3, 64]))
def test_blocks_are_those_of_the_plain_rules(view, least, max_rows):
    tree, x0, x1, kept = view
    found = blocks(tree, display(tree).starts, x0, x1, least, mask(tree, kept), max_rows)
    assert len(set(found.nodes.tolist())) == len(found.nodes)
    assert as_set(found) == PlainBlocks(tree, x0, x1, least, kept, max_rows).found


def test_no_more_blocks_than_there_is_room_for(monkeypatch):
    tree = random_tree(np.random.default_rng(3), 200)
    starts = display(tree).starts
    everything = as_set(blocks(tree, starts, 0, 200, least=1))
    monkeypatch.setattr(module, "MAX_BLOCKS", 25)
    found = blocks(tree, starts, 0, 200, least=1)
    assert len(found.nodes) == 25
    # What is there is right; it is only not all of it.
    assert {block[:3] for block in as_set(found)} <= {block[:3] for block in everything}


# The commonest code ---------------------------------------------------------------------------------------------------


@given(random_trees(), st.data())
def test_the_commonest_code_of_every_node(tree, data):
    codes = np.array(data.draw(st.lists(st.integers(-1, 4), min_size=tree.n_leaves, max_size=tree.n_leaves)))
    best, counts = commonest(tree, display(tree), codes, 5)
    for v in tree.nodes():
        tally = Counter(code for code in codes[tree.leaves(v)].tolist() if code >= 0)
        assert counts[v] == max(tally.values(), default=0)
        assert tally[int(best[v])] == counts[v] if tally else best[v] == -1


# Above some leaves ----------------------------------------------------------------------------------------------------


@given(random_trees(), st.data())
def test_the_nodes_above_some_leaves(tree, data):
    leaves = data.draw(st.sets(st.integers(0, tree.n_leaves - 1)))
    nodes, counts = nodes_above(tree, np.array(sorted(leaves), np.int32))
    under = {v: len(leaves & set(tree.leaves(v).tolist())) for v in tree.nodes()}
    assert len(set(nodes.tolist())) == len(nodes)
    assert dict(zip(nodes.tolist(), counts.tolist(), strict=True)) == {v: n for v, n in under.items() if n}
