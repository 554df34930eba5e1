"""Swaps that bring neighbours together, where the linkage does not object.

Neighbours alone can be wrong. A group of near-duplicates has too few members to fill their lists of neighbours, so they
name points of other groups, and swaps would lead them into these. The linkage knows that they are far away.
"""

from __future__ import annotations

from grinch._compile import entry, jitable
from grinch._types import as_id
from grinch.core.state import State
from grinch.refine.neighbor_cost import Counted, may_swap, number_leaves, swap_gain, swap_with_aunt
from grinch.refine.neighbor_graph import Graph
from grinch.summaries.arrays import STALE
from grinch.summaries.upkeep import refresh, sibling_score, similarity
from grinch.tree.links import ROOT, left, parent, right, sibling

# A node may come to an aunt that is this many times as far away as the sibling it leaves.
FARTHER = 2.0


@entry
def sweep_with_approval(state: State, graph: Graph, counted: Counted, ceiling: float) -> tuple[int, int]:
    """One sweep, children before parents; returns how many swaps were made and what they gain.

    ``ceiling`` is the score of two identical points.
    """
    refresh(state, as_id(state.head[ROOT]))
    made, gain = 0, 0
    for i in range(number_leaves(state, counted) - 1, -1, -1):
        v = as_id(counted.queue[i])
        if not may_swap(state, counted, v):
            continue
        b, c = left(state, v), right(state, v)
        with_b, with_c = swap_gain(state, graph, counted, b), swap_gain(state, graph, counted, c)
        if with_c > with_b:
            b, c, with_b, with_c = c, b, with_c, with_b
        if with_b > 0 and not is_approved(state, counted, b, ceiling):
            b, c, with_b = c, b, with_c
            if with_b > 0 and not is_approved(state, counted, b, ceiling):
                continue
        if with_b > 0:
            swap_with_aunt(state, counted, c)
            renew(state, v)
            made += 1
            gain += with_b
    return made, gain


@jitable
def is_approved(state: State, counted: Counted, b: int, ceiling: float) -> bool:
    """Whether b's aunt is not much farther from b than its sibling, and the pairs outweigh that it is farther."""
    v, c = parent(state, b), sibling(state, b)
    a, sizes = sibling(state, v), counted.sizes
    gap, gap_now = ceiling - similarity(state, b, a), ceiling - sibling_score(state, v)
    if gap > FARTHER * gap_now:
        return False
    return gap * counted.pairs[v] * sizes[a] <= gap_now * counted.aunt_pairs[b] * sizes[c]


@jitable
def renew(state: State, v: int) -> None:
    """A child of v was exchanged with v's sibling: no other node has other leaves than before."""
    p = parent(state, v)
    state.sibling_scores[v] = state.sibling_scores[p] = float("nan")
    state.stale[v] = STALE
    refresh(state, v)
