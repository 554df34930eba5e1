"""Random small trees, and what can be said of them by brute force."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from grinch import Tree


@st.composite
def random_trees(draw, max_leaves=19):
    tree = Tree(1)
    tree.attach()
    for _ in range(draw(st.integers(0, max_leaves - 1))):
        tree.attach(beside=draw(st.sampled_from(list(tree.nodes()))))
    return tree


@st.composite
def labelled_trees(draw, max_leaves=19, classes="abcd"):
    tree = draw(random_trees(max_leaves))
    labels = draw(st.lists(st.sampled_from(list(classes)), min_size=tree.n_leaves, max_size=tree.n_leaves))
    return tree, labels


def partitions(tree: Tree, v: int | None = None):
    """All ways to cut a tree into nodes of it."""
    v = tree.root if v is None else v
    yield [v]
    if not tree.is_leaf(v):
        left, right = tree.children(v)
        for a, b in itertools.product(partitions(tree, left), list(partitions(tree, right))):
            yield a + b


def labels_from(tree: Tree, nodes: list[int]) -> np.ndarray:
    labels = np.empty(tree.n_leaves, dtype=int)
    for number, v in enumerate(nodes):
        labels[tree.leaves(v)] = number
    return labels


def random_tree(rng, n):
    tree = Tree()
    tree.attach()
    for _ in range(n - 1):
        tree.attach(beside=int(rng.choice(list(tree.nodes()))))
    return tree


def groups(tree):
    return {frozenset(tree.leaves(v).tolist()) for v in tree.nodes()}


def chain(n: int) -> Tree:
    """Return a tree in which each point is beside all that came before, at ever greater heights."""
    pairs = np.column_stack([np.r_[0, n + np.arange(n - 2)], np.arange(1, n)])
    return Tree.from_merges(pairs, -np.arange(1.0, n), 0.0)
