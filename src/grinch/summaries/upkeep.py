"""Upkeep of node summaries: computed when they are asked for, never sooner.

A structural change marks the nodes whose leaves changed; the marks stop at the first node already marked. Two
invariants make that correct:

* a stale node's ancestors are all stale, and
* a stale node's ancestors have no known sibling score (``nan``).

Where summaries may lag (``state.lag``), that holds of small nodes only, up to the size limit of the tree, and marks go
on to the first large one. A large node counts the changes below it and is marked only when they are a certain share of
its leaves; then they count for its parent. So the work above the limit does not grow with the tree. Large nodes are
brought up to date by moves and never by readers (``state.is_reading``), so that looking at a tree changes nothing in
what becomes of it. Small nodes may be: their summaries follow from the tree alone, whenever they are computed.

``state`` is a tree (:class:`~grinch.tree.links.Links`) together with summaries
(:class:`~grinch.summaries.arrays.Arrays`). ``score``, ``score_all`` and ``merge`` are the only places that know what
kind of linkage there is.
"""

from __future__ import annotations

import numpy as np

from grinch._compile import jitable
from grinch._types import Ids, as_id
from grinch.linkage.named import AVERAGE_SQEUCLIDEAN, SPREAD, formula_score, merge_rows
from grinch.linkage.sparse import SQUARE
from grinch.summaries.arrays import CUSTOM, LARGE, MERGES, PYTHON, SCORES, STALE, Arrays, State, arrays_of
from grinch.summaries.callbacks import FORMULA, MERGE, SCORE, SCORE_ALL, LinkageFailed, call, call_float
from grinch.summaries.sparse_rows import merge_sparse_rows, score_sparse_row, score_sparse_rows
from grinch.tree.links import LIMIT, NONE, ROOT, left, parent, right, size, write_down

# Products below this part of the squared length are 0 but for rounding in float32.
RIGHT_ANGLE = 1e-6


@jitable
def is_sparse(arrays: Arrays) -> bool:
    return arrays.row_sizes.shape[0] > 0


@jitable
def vector_score(state: Arrays, u: int, v: int) -> float:
    """f(u, v) for two rows of vectors: by a formula, or by a compiled function of the user's own."""
    if is_sparse(state):
        return score_sparse_row(state, u, v)
    if state.formula != CUSTOM:
        return formula_score(state.formula, state.means, state.moments, u, v)
    rows = as_id(state.means[u].ctypes.data), as_id(state.moments[u].ctypes.data)
    others = as_id(state.means[v].ctypes.data), as_id(state.moments[v].ctypes.data)
    value = call_float(state.calls[FORMULA], (rows[0], rows[1], others[0], others[1], state.means.shape[1]))
    if np.isnan(value):
        state.blamed[0], state.blamed[1] = u, v
        raise LinkageFailed
    return value


@jitable
def score(state: Arrays, u: int, v: int) -> float:
    """f(u, v) from two fresh summaries."""
    if state.formula != PYTHON:
        return vector_score(state, u, v)
    state.answers[0] = np.nan
    call(state.calls[SCORE], (u, v))
    if np.isnan(state.answers[0]):
        raise LinkageFailed
    return state.answers[0]


@jitable
def is_apart(state: Arrays, u: int, v: int, f: float) -> bool:
    """Return whether u and v, whose score is f, have nothing in common: their product is 0.

    Under a similarity from 0 on, f is 0 then. Under mean squared distance it is that of the same lengths at a right
    angle; of dense vectors that is asked as seen from zero, and as far as rounding lets anyone tell.
    """
    if state.formula != AVERAGE_SQEUCLIDEAN:
        return f == 0.0
    if is_sparse(state):
        # As the formula of sparse rows has it, which is compiled only where there are some.
        squares = state.moments[u, SQUARE] + state.moments[v, SQUARE]
        return f == -(squares + state.moments[u, SPREAD] + state.moments[v, SPREAD])
    product, square_u, square_v = 0.0, 0.0, 0.0
    for i in range(state.origin.shape[0]):
        origin = np.float64(state.origin[i])
        a, b = origin + state.means[u, i], origin + state.means[v, i]
        product += a * b
        square_u += a * a
        square_v += b * b
    return state.origin.shape[0] > 0 and abs(product) <= RIGHT_ANGLE * max(square_u, square_v)


@jitable
def merge(state: Arrays, p: int, left: int, right: int) -> None:
    """Make p's summary from its children's."""
    state.counts[MERGES] += 1
    if is_sparse(state):
        if not merge_sparse_rows(state, p, left, right):
            raise LinkageFailed
    elif state.formula != PYTHON:
        merge_rows(state.formula, state.means, state.moments, p, left, right)
    else:
        state.reply[0] = 0
        call(state.calls[MERGE], (p, left, right))
        if state.reply[0] == 0:
            raise LinkageFailed


@jitable
def is_large(state: State, v: int) -> bool:
    """Whether v's summary may lag behind."""
    return state.lag > 0 and size(state, v) > state.head[LIMIT]


@jitable
def mark_stale(state: State, v: int) -> None:
    """The leaves under v changed: forget what was known of v and its ancestors, or count that they changed."""
    while v != NONE and not is_large(state, v):
        state.sibling_scores[v] = np.nan
        # Where changes are counted above, a mark that reading may have removed must not end the walk.
        if state.lag == 0 and state.stale[v]:
            return
        state.stale[v] = STALE
        v = parent(state, v)
    if v != NONE:
        count_change(state, v)


@jitable
def count_change(state: State, v: int) -> None:
    """The leaves under the large node v changed: mark it if they did so often, and then go on to its parent."""
    changes = as_id(1)
    while v != NONE:
        state.sibling_scores[v] = np.nan
        if not state.stale[v] & LARGE:
            # Large from now on, and to be read at any time.
            state.stale[v] = STALE
            refresh(state, v)
        else:
            changes += state.changes[v]
            state.changes[v] = changes
            if changes * state.lag <= state.counted[v]:
                return
            state.changes[v] = 0
            state.stale[v] = STALE | LARGE
        v = parent(state, v)


@jitable
def settle(state: State) -> None:
    """After all summaries were forgotten: compute those of large nodes, which must be there to be read."""
    root = state.head[ROOT]
    if root != NONE and is_large(state, root) and not state.stale[root] & LARGE:
        refresh(state, root)


@jitable
def mark_new(state: State, p: int) -> None:
    """Internal node p came into this place: a mark from an earlier one must not end the walk to its ancestors."""
    state.stale[p] = 0
    mark_stale(state, p)


@jitable
def refresh(state: State, v: int) -> None:
    """Bring v's summary up to date: merge its stale descendants bottom-up, walking by parent pointers."""
    if not state.stale[v] & STALE:
        return
    node = v
    while True:
        a, b = left(state, node), right(state, node)
        if state.stale[a] & STALE:
            node = a
        elif state.stale[b] & STALE:
            node = b
        else:
            merge(arrays_of(state), node, a, b)
            state.stale[node] = 0
            if is_large(state, node):
                state.stale[node] = LARGE
                state.counted[node] = leaves_counted(state, a) + leaves_counted(state, b)
                state.changes[node] = 0
                # What is known of its score changes only now, long after the leaves did.
                write_down(state, node)
            if node == v:
                break
            node = parent(state, node)


@jitable
def is_left_alone(state: State, v: int) -> bool:
    """Return whether v stays as it is, because a reader asks about a large node."""
    return state.is_reading and is_large(state, v)


@jitable
def make_ready(state: State, v: int) -> None:
    """Prepare v for being scored."""
    if not is_left_alone(state, v):
        refresh(state, v)


@jitable
def leaves_counted(state: State, v: int) -> int:
    """How many leaves v's summary is of."""
    return as_id(state.counted[v]) if is_large(state, v) else size(state, v)


@jitable
def similarity(state: State, u: int, v: int) -> float:
    """Return f(u, v), with both summaries up to date (a reader's: as they are)."""
    make_ready(state, u)
    make_ready(state, v)
    state.counts[SCORES] += 1
    return score(arrays_of(state), u, v)


@jitable
def score_all(state: State, v: int, nodes: Ids, n: int) -> None:
    """f(v, node) for the first n of ``nodes``, into ``state.answers``, in one call where the linkage can."""
    if n == 0:
        return
    refresh(state, v)
    for i in range(n):
        refresh(state, as_id(nodes[i]))
    state.counts[SCORES] += n
    arrays = arrays_of(state)
    if is_sparse(arrays):
        score_sparse_rows(arrays, v, nodes, n)
        return
    if state.formula != PYTHON:
        for i in range(n):
            state.answers[i] = vector_score(arrays, v, as_id(nodes[i]))
        return
    for i in range(n):
        state.nodes[i] = nodes[i]
    state.reply[0] = 0
    call(state.calls[SCORE_ALL], (v, n))
    if state.reply[0] == 0:
        raise LinkageFailed
    for i in range(n):
        if np.isnan(state.answers[i]):
            state.blamed[0], state.blamed[1] = v, state.nodes[i]
            raise LinkageFailed


@jitable
def sibling_score(state: State, p: int) -> float:
    """Return f of p's two children: asked for once and then remembered."""
    known = state.sibling_scores[p]
    if np.isnan(known):
        known = similarity(state, left(state, p), right(state, p))
        if not is_left_alone(state, p):
            state.sibling_scores[p] = known
    return known
