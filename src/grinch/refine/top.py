"""The top of the tree built anew: its branches stay, and are merged as agglomerative clustering would.

Moves change a tree place by place, so how its large groups are joined depends on the order of arrival for good. The
crown is what lies above the branches; there are so few of these that all pairs can be asked about.

As in :mod:`grinch.core.moves`, the functions on ``tree`` and ``sums`` are plain Python that numba compiles too.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from grinch._compile import jitable
from grinch.summaries.upkeep import ask, mark_new
from grinch.tree import walks
from grinch.tree.links import LEAVES, LEFT, LIMIT, NONE, OFFSET, PARENT, RIGHT, ROOT, SIZE, Links, parent, size

# Branches by the root of the number of points: all pairs of them are then 16 per point.
BRANCHES = 4


def crown_of(links: Links) -> npt.NDArray[np.int32]:
    """The branches, the nodes above them, and room for a chain of branches: what :func:`regrow` works on.

    Branches are the nodes with at most so many leaves, and their parents have more; as few as make 4 √n of them.
    """
    n, offset = int(links.head[LEAVES]), int(links.head[OFFSET])
    preorder, sizes = walks.no_nodes(2 * n - 1), np.zeros(len(links.table), np.int64)
    walks.fill_preorder(links.table, int(links.head[ROOT]), offset, preorder)
    walks.fill_sizes(links.table, preorder, offset, sizes)
    own, above = sizes[preorder[1:]], sizes[links.table[preorder[1:], PARENT]]
    # A node is a branch for all limits from its own size on, up to that of its parent.
    n_branches = np.cumsum(np.bincount(own, minlength=n + 1) - np.bincount(above, minlength=n + 1))
    limit = 1 + int(np.argmax(n_branches[1:] <= BRANCHES * math.sqrt(n)))
    branches = preorder[1:][(own <= limit) & (above > limit)]
    return np.concatenate([branches, preorder[sizes[preorder] > limit], np.full(len(branches), NONE, np.int32)])


@jitable
def regrow(tree, sums, tally, crown, n):
    """Merge the n branches again, two that like each other best at a time, by chains of nearest neighbours.

    ``crown`` is that of :func:`crown_of`, and is used up.
    """
    for i in range(n):
        tree.table[crown[i], PARENT] = NONE
    chain, left, made, depth = 2 * n - 1, n, 0, 0
    while left > 1:
        # A linkage that is not symmetric may lead a chain past a node that is merged by now.
        while depth > 0 and parent(tree, crown[chain + depth - 1]) != NONE:
            depth -= 1
        if depth == 0:
            crown[chain], depth = crown[0], 1
        a = crown[chain + depth - 1]
        before = crown[chain + depth - 2] if depth > 1 else NONE
        b = nearest_branch(tree, sums, tally, crown, left, a, before)
        # Nor need such a chain come to an end by itself.
        if b != before and depth < left:
            crown[chain + depth] = b
            depth += 1
            continue
        p = crown[n + made]
        join(tree, sums, p, b, a)
        made += 1
        depth = depth - 2 if b == before else 0
        left = replace_two(crown, left, a, b, p)
    tree.head[ROOT] = crown[0]


@jitable
def nearest_branch(tree, sums, tally, crown, left, a, before):
    """The branch with the largest f(a, branch); of equals the one before a in the chain, or else the first."""
    n = 0
    for i in range(left):
        if crown[i] != a:
            sums.nodes[n] = crown[i]
            n += 1
    ask(tree, sums, tally, a, sums.nodes, n)
    best = 0
    for i in range(1, n):
        f, f_best = sums.answers[i], sums.answers[best]
        if f > f_best or (f == f_best and sums.nodes[i] == before):
            best = i
    return sums.nodes[best]


@jitable
def join(tree, sums, p, left, right):
    """Make p the parent of two nodes that have none."""
    tree.table[p, PARENT] = NONE
    tree.table[p, LEFT], tree.table[p, RIGHT] = left, right
    tree.table[left, PARENT] = tree.table[right, PARENT] = p
    tree.table[p, SIZE] = min(size(tree, left) + size(tree, right), tree.head[LIMIT] + 1)
    mark_new(tree, sums, p)


@jitable
def replace_two(nodes, n, a, b, p):
    """Of the first n nodes, let p stand for a and b; returns how many there are now."""
    kept = 0
    for i in range(n):
        if nodes[i] == a:
            nodes[kept] = p
            kept += 1
        elif nodes[i] != b:
            nodes[kept] = nodes[i]
            kept += 1
    return kept
