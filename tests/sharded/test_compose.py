"""Trees put together of trees, against walks by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grinch import Tree
from grinch.sharded.compose import compose_merges, merges_of, subtree, without


def random_tree(rng, n):
    """Any two nodes that have no parent are joined, until there is one."""
    nodes, pairs = list(range(n)), []
    for k in range(n - 1):
        chosen = sorted(rng.choice(len(nodes), 2, replace=False))[::-1]
        pairs.append([nodes.pop(i) for i in chosen])
        nodes.append(n + k)
    return Tree.from_merges(np.array(pairs, np.int64).reshape(-1, 2), rng.random(n - 1), ceiling=1.0)


def groups(tree, names):
    """The sets of names under all nodes, each with its score."""
    scores = tree.scores
    return {
        frozenset(names[leaf] for leaf in tree.leaves(v).tolist()): None if tree.is_leaf(v) else float(scores[v])
        for v in tree.nodes()
    }


@given(st.integers(0, 2**32), st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_every_group_of_a_part_and_of_the_top_is_a_group_of_the_whole(seed, sizes):
    rng = np.random.default_rng(seed)
    parts, top = [random_tree(rng, size) for size in sizes], random_tree(rng, len(sizes))
    numbers = np.split(rng.permutation(sum(sizes)), np.cumsum(sizes)[:-1])
    whole = compose_merges(merges_of(top), [merges_of(part) for part in parts], numbers).tree()
    expected = {}
    for part, names in zip(parts, numbers, strict=True):
        expected |= groups(part, names.tolist())
    for v in top.nodes():
        if not top.is_leaf(v):
            inside = frozenset(n for leaf in top.leaves(v).tolist() for n in numbers[leaf].tolist())
            expected[inside] = float(top.scores[v])
    assert groups(whole, list(range(sum(sizes)))) == expected


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_a_subtree_has_the_groups_below_its_node(seed, n):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n)
    node = int(rng.choice(tree.preorder()))
    merges, leaves = subtree(tree, node)
    below = {group: score for group, score in groups(tree, range(n)).items() if group <= set(leaves.tolist())}
    assert groups(merges.tree(), leaves.tolist()) == below


@given(st.integers(0, 2**32), st.integers(1, 10), st.data())
def test_leaves_without_points_leave_no_trace(seed, n, data):
    tree = random_tree(np.random.default_rng(seed), n)
    is_empty = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    if is_empty.all():
        is_empty[0] = False
    kept = np.flatnonzero(~is_empty).tolist()
    left = without(merges_of(tree), is_empty)
    expected = {group & set(kept) for group in groups(tree, range(n))} - {frozenset()}
    assert set(groups(left.tree(), kept)) == expected
