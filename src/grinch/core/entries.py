"""Where Python enters compiled code.

Each task goes through a batch of leaves or nodes. What a linkage raises ends the batch at that leaf, whose change can
then be undone (:func:`~grinch.tree.links.undo_change`); those before it stay.

All tasks are one compiled function: what they have in common, which is most of it, is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grinch._compile import entry, jitable
from grinch._types import Floats, Ids, Slots, Vectors32, as_id
from grinch.core import moves, removal
from grinch.core.state import State
from grinch.summaries.upkeep import score_all, settle, sibling_score, similarity
from grinch.tree.links import NONE, OFFSET, ROOT, begin_change, end_change

INSERT, REMOVE, REINSERT, PLACE, SCORE_PAIRS, SCORE_SIBLINGS, SCORE_FOUND = range(7)


@entry
def perform(
    task: int, state: State, slots: Slots, others: Slots, nodes: Ids, scores: Floats, near_scores: Vectors32
) -> int:
    """Perform a task, each of which looks at some of the arrays; returns a count."""
    settle(state)
    if task == INSERT:
        return _insert(state, slots, nodes)
    if task == REMOVE:
        return _remove(state, slots, nodes)
    if task == REINSERT:
        return _reinsert(state, slots, nodes)
    if task == PLACE:
        return _place(state, slots, nodes, scores)
    if task == SCORE_PAIRS:
        return _score_pairs(state, slots, others, scores)
    if task == SCORE_SIBLINGS:
        return _score_siblings(state, slots, scores)
    return _score_found(state, slots, nodes, near_scores)


class Task:
    """A task as a function of the state and of the arrays that it looks at."""

    def __init__(self, number: int, *names: str):
        self.number, self.names = number, names

    def __call__(self, state: State, *arrays: Any) -> int:
        return self._performed(perform, state, arrays)

    def py_func(self, state: State, *arrays: Any) -> int:
        """Perform the task interpreted."""
        return self._performed(perform.py_func, state, arrays)  # type: ignore[attr-defined]

    def _performed(self, how: Callable[..., int], state: State, arrays: tuple[Any, ...]) -> int:
        given = {**NOTHING, **dict(zip(self.names, arrays, strict=True))}
        return how(self.number, state, *given.values())


NOTHING: dict[str, Any] = {
    "slots": np.empty(0, np.int64),
    "others": np.empty(0, np.int64),
    "nodes": np.empty((0, 0), np.int32),
    "scores": np.empty(0),
    "near_scores": np.empty((0, 0), np.float32),
}
insert_all = Task(INSERT, "slots", "nodes")
remove_all = Task(REMOVE, "slots", "nodes")
reinsert_all = Task(REINSERT, "slots", "nodes")
place_all = Task(PLACE, "slots", "nodes", "scores")
score_pairs = Task(SCORE_PAIRS, "slots", "others", "scores")
score_siblings = Task(SCORE_SIBLINGS, "slots", "scores")
score_found = Task(SCORE_FOUND, "slots", "nodes", "near_scores")


@jitable
def _insert(state: State, leaves: Slots, candidates: Ids) -> int:
    """Insert leaves; row i of ``candidates`` has the nearest leaves of ``leaves[i]`` and is used up."""
    for i in range(leaves.shape[0]):
        begin_change(state)
        moves.insert(state, leaves[i], state.head[OFFSET] + leaves[i], candidates[i])
    end_change(state)
    return leaves.shape[0]


@jitable
def _remove(state: State, leaves: Slots, candidates: Ids) -> int:
    """Take leaves out and repair the places they leave."""
    for i in range(leaves.shape[0]):
        begin_change(state)
        removal.remove(state, leaves[i], candidates[i])
    end_change(state)
    return leaves.shape[0]


@jitable
def _reinsert(state: State, leaves: Slots, candidates: Ids) -> int:
    """Take each leaf out and insert it again; returns how many have another sibling than before."""
    moved = 0
    for i in range(leaves.shape[0]):
        begin_change(state)
        moved += removal.reinsert(state, leaves[i], candidates[i])
    end_change(state)
    return moved


@jitable
def _place(state: State, leaves: Slots, nodes: Ids, scores: Floats) -> int:
    """Find where leaves would go: ``nodes[i]`` has the nearest of ``leaves[i]`` and gets the sibling it would have.

    ``scores`` gets the similarity of the two.
    """
    for i in range(leaves.shape[0]):
        c = as_id(nodes[i, 0]) if nodes[i, 0] != NONE else state.head[ROOT]
        if state.rules.rotate:
            # Not to the smaller side of what is equal: that asks nodes that only moves bring up to date.
            c = moves.climb(state, leaves[i], c)
        nodes[i, 1] = c
        scores[i] = similarity(state, leaves[i], c)
    return leaves.shape[0]


@jitable
def _score_pairs(state: State, nodes: Slots, others: Slots, scores: Floats) -> int:
    """Score each of these nodes with the other one beside it; -inf where there is none."""
    for i in range(nodes.shape[0]):
        scores[i] = -np.inf if others[i] == NONE else similarity(state, nodes[i], others[i])
    return nodes.shape[0]


@jitable
def _score_siblings(state: State, nodes: Slots, scores: Floats) -> int:
    """Score the children of each of these nodes: all that readers of a tree ask."""
    for i in range(nodes.shape[0]):
        scores[i] = sibling_score(state, nodes[i])
    return nodes.shape[0]


@jitable
def _score_found(state: State, leaves: Slots, near: Ids, scores: Vectors32) -> int:
    """Score the neighbours that leaves found, and put them in order by that."""
    for r in range(leaves.shape[0]):
        n = known_to(near, r)
        score_all(state, leaves[r], near[r], n)
        for i in range(n):
            # The search has put them in order, but not always by this very score.
            put_in_order(near, scores, r, as_id(near[r, i]), float(np.float32(state.answers[i])), i)
    return leaves.shape[0]


@jitable
def known_to(near: Ids, x: int) -> int:
    """How many neighbours x has."""
    n = near.shape[1]
    while n > 0 and near[x, n - 1] == NONE:
        n -= 1
    return n


@jitable
def put_in_order(near: Ids, scores: Vectors32, x: int, leaf: int, f: float, at: int) -> None:
    """Make a leaf a neighbour of x, in column ``at`` or before those that score less; what was in ``at`` is dropped."""
    while at > 0 and scores[x, at - 1] < f:
        near[x, at], scores[x, at] = near[x, at - 1], scores[x, at - 1]
        at -= 1
    near[x, at], scores[x, at] = leaf, f
