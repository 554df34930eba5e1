"""The top of the tree rebuilt: its branches stay, and are merged as agglomerative clustering would.

Moves change a tree place by place, so how its large groups are joined depends on the order of arrival for good. The top
is what lies above the branches; there are so few of these that all pairs can be asked about.
"""

from __future__ import annotations

import math

import numpy as np

from grinch._compile import entry, jitable
from grinch._types import Ids, Slots, as_id
from grinch.core.engine import Engine
from grinch.core.state import State
from grinch.summaries.upkeep import mark_new, score_all, settle
from grinch.tree import walks
from grinch.tree.links import LEAVES, NONE, OFFSET, PARENT, ROOT, Links, begin_change, end_change, join, note, parent

# Branches by the root of the number of points: all pairs of them are then 16 per point.
BRANCHES = 4


def rebuild_top(engine: Engine) -> None:
    """Join the large groups again; whatever is raised on the way, the tree is as it was."""
    if engine.n_leaves > 2:
        engine.own_arrays()
        nodes = top_of(engine.links)
        engine.change(join_branches, np.array([(len(nodes) + 1) // 3]), nodes)


def top_of(links: Links) -> Ids:
    """The branches, the nodes above them, and room for a chain of branches: what :func:`join_branches` works on.

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


@entry
def join_branches(state: State, n_branches: Slots, top: Ids) -> int:
    """Merge the branches again, two that like each other best at a time, by chains of nearest neighbours.

    ``top`` is that of :func:`top_of`, and is used up; ``n_branches`` holds one number. Returns how many merges were
    made.
    """
    settle(state)
    begin_change(state)
    n = n_branches[0]
    for i in range(n):
        note(state, as_id(top[i]))
        state.table[top[i], PARENT] = NONE
    chain, left, made, depth = 2 * n - 1, n, 0, 0
    while left > 1:
        # A linkage that is not symmetric may lead a chain past a node that is merged by now.
        while depth > 0 and parent(state, as_id(top[chain + depth - 1])) != NONE:
            depth -= 1
        if depth == 0:
            top[chain], depth = top[0], 1
        a = as_id(top[chain + depth - 1])
        before = as_id(top[chain + depth - 2]) if depth > 1 else NONE
        b = nearest_branch(state, top, left, a, before)
        # Nor need such a chain come to an end by itself.
        if b != before and depth < left:
            top[chain + depth] = b
            depth += 1
            continue
        p = as_id(top[n + made])
        join(state, p, b, a)
        mark_new(state, p)
        made += 1
        depth = depth - 2 if b == before else 0
        left = replace_two(top, left, a, b, p)
    state.head[ROOT] = top[0]
    end_change(state)
    return made


@jitable
def nearest_branch(state: State, top: Ids, left: int, a: int, before: int) -> int:
    """The branch with the largest f(a, branch); of equals the one before a in the chain, or else the first."""
    n = 0
    for i in range(left):
        if top[i] != a:
            state.nodes[n] = top[i]
            n += 1
    score_all(state, a, state.nodes, n)
    best = 0
    for i in range(1, n):
        f, f_best = state.answers[i], state.answers[best]
        if f > f_best or (f == f_best and state.nodes[i] == before):
            best = i
    return as_id(state.nodes[best])


@jitable
def replace_two(nodes: Ids, n: int, a: int, b: int, p: int) -> int:
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
