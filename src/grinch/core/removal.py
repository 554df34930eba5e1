"""Points leave, and find their places again: the moves for that, which the paper does not have."""

from __future__ import annotations

from grinch._compile import jitable
from grinch._types import Ids
from grinch.core.moves import choose_sibling, graft_upward, insert, pull, reach, restructure
from grinch.core.state import State
from grinch.summaries.upkeep import mark_stale
from grinch.tree.links import NONE, parent, sibling, take_out


@jitable
def remove(state: State, x: int, candidates: Ids) -> int:
    """Take leaf x out, and let the place it leaves repair itself as where a graft took a node away.

    ``candidates`` are the leaves nearest to x, as for *Insert*. Returns the internal node that is free now, or NONE.
    """
    z = NONE if parent(state, x) == NONE else sibling(state, x)
    p = take_out(state, x)
    if z == NONE or parent(state, z) == NONE:
        return p
    mark_stale(state, parent(state, z))
    if state.rules.restructure and state.rules.pull:
        # All the way up, for the guarantee that pull stands for.
        restructure(state, z, NONE)
    elif state.rules.restructure:
        # Only z has another sibling; to ask the nodes above it as well took longer than an insert.
        choose_sibling(state, z, NONE, reach(state, state.rules.restructure_cap))
    if state.rules.pull:
        pull(state, z)
    graft_upward(state, z, candidates)
    return p


@jitable
def reinsert(state: State, x: int, candidates: Ids) -> bool:
    """Take leaf x out and insert it again, beside the nearest of all leaves; returns whether it has another sibling."""
    if parent(state, x) == NONE:
        return False
    z = sibling(state, x)
    p = take_out(state, x)
    mark_stale(state, parent(state, z))
    insert(state, x, p, candidates)
    return sibling(state, x) != z
