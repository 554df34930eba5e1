"""Where Python enters compiled code: one function per task, compiled when it is first used.

Each goes through a batch of leaves. What a linkage raises ends the batch at that leaf, whose change can then be undone
(:func:`~grinch.tree.links.undo_change`); those before it stay.
"""

from __future__ import annotations

import numpy as np

from grinch._compile import entry
from grinch._types import Floats, Ids, Slots, as_id
from grinch.core import moves, removal
from grinch.core.state import State
from grinch.summaries.upkeep import settle, sibling_score, similarity
from grinch.tree.links import NONE, OFFSET, ROOT, begin_change, end_change


@entry
def insert_all(state: State, leaves: Slots, candidates: Ids) -> int:
    """Insert leaves; row i of ``candidates`` has the nearest leaves of ``leaves[i]`` and is used up."""
    settle(state)
    for i in range(leaves.shape[0]):
        begin_change(state)
        moves.insert(state, leaves[i], state.head[OFFSET] + leaves[i], candidates[i])
    end_change(state)
    return leaves.shape[0]


@entry
def remove_all(state: State, leaves: Slots, candidates: Ids) -> int:
    """Take leaves out and repair the places they leave."""
    settle(state)
    for i in range(leaves.shape[0]):
        begin_change(state)
        removal.remove(state, leaves[i], candidates[i])
    end_change(state)
    return leaves.shape[0]


@entry
def reinsert_all(state: State, leaves: Slots, candidates: Ids) -> int:
    """Take each leaf out and insert it again; how many have another sibling than before."""
    settle(state)
    moved = 0
    for i in range(leaves.shape[0]):
        begin_change(state)
        moved += removal.reinsert(state, leaves[i], candidates[i])
    end_change(state)
    return moved


@entry
def place_all(state: State, leaves: Slots, nodes: Ids, scores: Floats) -> None:
    """Where leaves would go: ``nodes[i]`` has the nearest of ``leaves[i]`` and gets the sibling it would have.

    ``scores`` gets the similarity of the two.
    """
    settle(state)
    for i in range(leaves.shape[0]):
        c = as_id(nodes[i, 0]) if nodes[i, 0] != NONE else state.head[ROOT]
        if state.rules.rotate:
            # Not to the smaller side of what is equal: that asks nodes that only moves bring up to date.
            c = moves.climb(state, leaves[i], c)
        nodes[i, 1] = c
        scores[i] = similarity(state, leaves[i], c)


@entry
def score_pairs(state: State, nodes: Slots, others: Slots, scores: Floats) -> None:
    """The similarity of each of these nodes with the other one beside it; -inf where there is none."""
    settle(state)
    for i in range(nodes.shape[0]):
        scores[i] = -np.inf if others[i] == NONE else similarity(state, nodes[i], others[i])


@entry
def score_siblings(state: State, nodes: Slots, scores: Floats) -> None:
    """The score of the children of each of these nodes: all that readers of a tree ask."""
    settle(state)
    for i in range(nodes.shape[0]):
        scores[i] = sibling_score(state, nodes[i])
