"""The moves of GRINCH: rotate, pull, graft, restructure, and the Insert that uses them.

The names and the order are the paper's (Monath, Kobren et al., KDD 2019). ``f`` is a similarity: higher is closer.
Every departure from the printed pseudocode is marked *Departure* with its reason; ``docs/algorithm.md`` has them all in
one table.

The functions are plain Python that numba compiles. All of them work on one ``state``
(:class:`~grinch.summaries.arrays.State`): the tree, the summaries of its nodes under a linkage, and the rules.

At the end are the entries through which Python comes here. Each goes through a batch of leaves or nodes. What a linkage
raises ends the batch at that leaf, whose change can then be undone (:meth:`~grinch.tree.links.Links.undo_change`);
those before it stay.

All tasks are one compiled function: what they have in common, which is most of it, is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grinch._compile import entry, jitable
from grinch._types import Floats, Ids, Slots, Vectors32, as_id
from grinch.summaries.arrays import (
    CUSTOM,
    GRAFTS,
    GRAFTS_TRIED,
    PULLS,
    RESTRUCTURINGS,
    ROTATIONS,
    SWAPS,
    State,
    arrays_of,
    is_apart,
    leaves_counted,
    mark_new,
    mark_stale,
    score_all,
    settle,
    sibling_score,
    similarity,
)
from grinch.summaries.callbacks import LEAVES_AROUND, LinkageFailed, call
from grinch.tree.links import (
    LEAVES,
    NO_LIMIT,
    NONE,
    OFFSET,
    ROOT,
    USED,
    attach,
    attach_first,
    begin_change,
    detach,
    end_change,
    first_leaf,
    is_leaf,
    is_under,
    lca_within,
    left,
    make_sibling,
    next_leaf,
    parent,
    right,
    sibling,
    size,
    swap,
    take_out,
)

# With growing caps a move reaches nodes of up to a tenth of the points, and of 100 in any case.
REACH_SHARE, SMALLEST_REACH = 10, 100
# Scores that differ by less than this share of them may differ by rounding alone.
SAME = 1e-6


@jitable
def insert(state: State, x: int, p: int, candidates: Ids) -> None:
    """Algorithm *Insert*: put leaf ``x`` beside its nearest neighbour, then let the tree repair itself.

    ``p`` is a free internal node. ``candidates`` are the nearest leaves in the tree, best first, padded with NONE; it
    is used up as scratch space.
    """
    if state.head[LEAVES] == 0:
        attach_first(state, x)
        return
    # Departure: a search that looks in some places only may find nothing; then x starts a branch of its own at the top.
    c = as_id(candidates[0]) if candidates[0] != NONE else state.head[ROOT]
    if state.rules.rotate:
        c = rotate(state, x, c)
    attach(state, x, c, p)
    mark_new(state, p)
    if state.rules.release:
        release(state, x)
    if state.rules.pull:
        pull(state, x)
    graft_upward(state, parent(state, x), candidates)


@jitable
def release(state: State, x: int) -> None:
    """Departure: where a node on the way up from x has doubled, its sibling may like their aunt better by now.

    Points that come in order always enter the same branch, and what is beside it would stay there for good: a chain.
    """
    cap = reach(state, state.rules.restructure_cap)
    v = parent(state, x)
    p = parent(state, v)
    while p != NONE and parent(state, p) != NONE and size(state, v) <= cap:
        leaves = size(state, v)
        if leaves & (leaves - 1) == 0:
            u, aunt = sibling(state, v), sibling(state, p)
            f = similarity(state, u, aunt)
            if better(state, f, max(sibling_score(state, p), sibling_score(state, parent(state, p)))):
                exchange(state, v, aunt)
                p = parent(state, v)
                continue
        v, p = p, parent(state, p)


@jitable
def rotate(state: State, x: int, c: int) -> int:
    """Return where x belongs above its nearest neighbour c: the first loop of *Insert*."""
    c = climb(state, x, c)
    return among_equals(state, x, c) if state.rules.balanced_ties else c


@jitable
def climb(state: State, x: int, c: int) -> int:
    """Return up from c while it prefers its own sibling to x.

    Departure: rotating x with its aunt again and again is the same as this walk, so it is done before x is attached
    and nothing has to be swapped. And by a rule of ours no cap keeps x in a group that it has no place in.
    """
    f, p = similarity(state, x, c), parent(state, c)
    cap = reach(state, state.rules.rotate_cap)
    if state.rules.uncap_unrelated and is_apart(arrays_of(state), x, c, f):
        cap = NO_LIMIT
    while p != NONE and size(state, p) <= cap and better(state, sibling_score(state, p), f):
        state.counts[ROTATIONS] += 1
        c, p = p, parent(state, p)
        f = similarity(state, x, c)
    return c


@jitable
def among_equals(state: State, x: int, c: int) -> int:
    """Return where x belongs if c, its sibling and its ancestors are all as close to x as they are to each other.

    Departure: copies of one point would become a chain, each new one beside the first. x goes to the smaller side of
    all that is equal, so that it becomes a balanced tree.
    """
    p = parent(state, c)
    if p == NONE or not equal(state, similarity(state, x, c), sibling_score(state, p)):
        return c
    f, top = sibling_score(state, p), c
    while p != NONE and equal(state, sibling_score(state, p), f) and equal(state, similarity(state, x, p), f):
        top = p
        p = parent(state, p)
    while top != c and not is_leaf(state, top):
        smaller, larger = left(state, top), right(state, top)
        if leaves_counted(state, smaller) > leaves_counted(state, larger):
            smaller, larger = larger, smaller
        if equal(state, similarity(state, x, smaller), f):
            top = smaller
        elif equal(state, similarity(state, x, larger), f):
            top = larger
        else:
            return c
    return top


@jitable
def better(state: State, f: float, g: float) -> bool:
    """Return whether f is larger than g, and not by rounding alone where ties are to be balanced."""
    return f > g and not (state.rules.balanced_ties and equal(state, f, g))


@jitable
def equal(state: State, f: float, g: float) -> bool:
    """Return whether two scores are the same: up to rounding in float32, unless the linkage is the user's own."""
    return f == g or (state.formula < CUSTOM and abs(f - g) <= SAME * max(abs(f), abs(g)))


@jitable
def graft_upward(state: State, p: int, candidates: Ids) -> None:
    """Run the second loop of *Insert*: graft from p again and again, up to the root or the cap."""
    while state.rules.graft and p != NONE and size(state, p) <= reach(state, state.rules.graft_cap):
        before = state.counts[GRAFTS]
        # Departure: the printed loop never updates p.
        p = graft(state, p, candidates)
        # A graft that was not made leaves nothing new to pull.
        if state.rules.pull and p != NONE and state.counts[GRAFTS] > before:
            pull(state, p)


@jitable
def graft(state: State, v: int, candidates: Ids) -> int:
    """Algorithm *graft*: find a node that prefers v to its own sibling, and v it, and move it beside v.

    Returns the node to go on from, or NONE when grafting is over for this insert.
    """
    cap = reach(state, state.rules.graft_cap)
    leaf = constrained_nearest(state, v, candidates)
    if leaf == NONE:
        return NONE
    state.counts[GRAFTS_TRIED] += 1
    a = lca_within(state, v, leaf, cap)
    # Departure: `l` in the paper; it may climb, so it is a node and not only a leaf.
    w = leaf
    # Beyond the cap there is no a, and v may be the root.
    while v != a and w != a and size(state, v) <= cap and size(state, w) <= cap and sibling(state, v) != w:
        f_vw = similarity(state, v, w)
        f_v = sibling_score(state, parent(state, v))
        f_w = sibling_score(state, parent(state, w))
        if better(state, f_vw, max(f_v, f_w)):
            # Departure: the paper moves w, however large; but the larger of the two knows its place better.
            if state.rules.light_grafts and size(state, w) > size(state, v):
                v, w = w, v
            return move_beside(state, w, v)
        # Departure: both are judged by the same three numbers, and <= ends on ties where < would not.
        w_stays, v_stays = not better(state, f_vw, f_w), not better(state, f_vw, f_v)
        if state.rules.single_elimination and w_stays and v_stays:
            return NONE
        # Departure: in the paper both climb on; that took half of the time and did not make trees better.
        if state.rules.brief_grafts and w_stays and v_stays:
            return a
        if w_stays:
            w = parent(state, w)
        if v_stays:
            v = parent(state, v)
    # Departure: the paper's text returns the climbed v here; its proof uses the common ancestor.
    return a


@jitable
def move_beside(state: State, w: int, v: int) -> int:
    """Return the merge of *graft*: w leaves its place for one beside v; what it left behind is restructured."""
    state.counts[GRAFTS] += 1
    z = sibling(state, w)
    p = detach(state, w)
    mark_stale(state, parent(state, z))
    make_sibling(state, w, v, p)
    mark_new(state, p)
    if state.rules.restructure:
        # The old common ancestor may be the node that was contracted, so it is looked up again.
        restructure(state, z, lca_within(state, z, v, reach(state, state.rules.restructure_cap)))
    return p


@jitable
def restructure(state: State, z: int, r: int) -> None:
    """Algorithm *restruct*: from z up to r, give each node the sibling it likes best among its ancestors' siblings.

    Departure: z is the old sibling of the node that moved (the printed sib(v) would have nothing to do).
    ``r`` is NONE when the common ancestor lies above the cap; then the cap ends the walk.
    """
    state.counts[RESTRUCTURINGS] += 1
    cap = reach(state, state.rules.restructure_cap)
    while z != r and parent(state, z) != NONE and size(state, z) <= cap:
        choose_sibling(state, z, r, cap)
        z = parent(state, z)


@jitable
def choose_sibling(state: State, z: int, r: int, cap: int) -> None:
    """Make a step of *restruct*: give z the sibling it likes best, of its own and those of its ancestors below r."""
    best, f_best = sibling(state, z), sibling_score(state, parent(state, z))
    n, a = 0, parent(state, z)
    while a != r and parent(state, a) != NONE and size(state, a) <= cap:
        state.nodes[n] = sibling(state, a)
        n += 1
        a = parent(state, a)
    score_all(state, z, state.nodes, n)
    for i in range(n):
        if better(state, state.answers[i], f_best):
            best, f_best = as_id(state.nodes[i]), state.answers[i]
    if best != sibling(state, z):
        state.counts[SWAPS] += 1
        exchange(state, sibling(state, z), best)


@jitable
def pull(state: State, v: int) -> None:
    """Departure: not in the paper; it closes the gap in the proof of Theorem 1.

    v and sib(v) may be connected while sib(v) alone is not. From v upwards: while a child c of sib(v) likes v better
    than its own sibling d, swap d and v, so that c and v become siblings.
    """
    cap = reach(state, state.rules.rotate_cap)
    p = parent(state, v)
    while p != NONE and size(state, p) <= cap:
        s = sibling(state, v)
        while not is_leaf(state, s):
            c, d = left(state, s), right(state, s)
            state.nodes[0], state.nodes[1] = c, d
            score_all(state, v, state.nodes, 2)
            f_c, f_d = state.answers[0], state.answers[1]
            if f_d > f_c:
                c, d, f_c = d, c, f_d
            if not f_c > sibling_score(state, s):
                break
            state.counts[PULLS] += 1
            exchange(state, d, v)
            s = c
        v = parent(state, v)
        p = parent(state, v)


@jitable
def exchange(state: State, u: int, v: int) -> None:
    """Swap two disjoint subtrees and mark what they leave and enter."""
    swap(state, u, v)
    mark_stale(state, parent(state, u))
    mark_stale(state, parent(state, v))


# Where to look ------------------------------------------------------------------------------------------------------


@jitable
def reach(state: State, cap: int) -> int:
    """Return how many leaves a node may have for a move to look at it: the cap.

    Departure: with growing caps, less in a small tree, where a cap that suits a large one covers everything.
    """
    if state.rules.growing_caps:
        return min(cap, max(SMALLEST_REACH, state.head[LEAVES] // REACH_SHARE))
    return cap


@jitable
def constrained_nearest(state: State, v: int, candidates: Ids) -> int:
    """Return constrNN, the leaf outside lvs(v) with the largest f(v, leaf), or NONE; of equals, the first candidate."""
    if state.rules.single_search:
        return best_of(state, v, candidates, drop_leaves_under(state, v, candidates))
    return best_of(state, v, state.nodes, leaves_outside(state, v))


@jitable
def best_of(state: State, v: int, nodes: Ids, n: int) -> int:
    """Return the node with the largest f(v, node), the first of equals; NONE if there is none."""
    score_all(state, v, nodes, n)
    best, f_best = NONE, -np.inf
    for i in range(n):
        if best == NONE or state.answers[i] > f_best:
            best, f_best = as_id(nodes[i]), state.answers[i]
    return best


@jitable
def drop_leaves_under(state: State, v: int, candidates: Ids) -> int:
    """Drop the candidates under v, for they stay under every v to come; returns how many are left."""
    kept = 0
    for i in range(len(candidates)):
        leaf = as_id(candidates[i])
        if leaf == NONE:
            break
        if not is_under(state, leaf, v):
            candidates[kept] = leaf
            kept += 1
    if kept < len(candidates):
        candidates[kept] = NONE
    return kept


@jitable
def leaves_outside(state: State, v: int) -> int:
    """Put the leaves worth asking about that are not under v into ``state.nodes``; returns how many there are."""
    n, leaf = 0, first_leaf(state, v)
    while leaf != NONE:
        state.marks[leaf] = 1
        state.nodes[n] = leaf
        n += 1
        leaf = next_leaf(state, leaf, v)
    n = leaves_around(state, n)
    kept = 0
    for i in range(n):
        if not state.marks[state.nodes[i]]:
            state.nodes[kept] = state.nodes[i]
            kept += 1
    leaf = first_leaf(state, v)
    while leaf != NONE:
        state.marks[leaf] = 0
        leaf = next_leaf(state, leaf, v)
    if n < 0:
        raise LinkageFailed
    return kept


@jitable
def leaves_around(state: State, n: int) -> int:
    """Put the leaves worth asking about the n leaves in ``state.nodes`` there: all, or those that a search names.

    Returns how many there are; -1 if the search failed.
    """
    found = state.head[USED]
    if state.calls[LEAVES_AROUND] == 0:
        for i in range(found):
            state.nodes[i] = i
    else:
        state.reply[0] = 0
        call(state.calls[LEAVES_AROUND], (n,))
        found = state.reply[0] - 1
    kept = min(found, 0)
    for i in range(found):
        if size(state, as_id(state.nodes[i])) != NONE:
            state.nodes[kept] = state.nodes[i]
            kept += 1
    return kept


# Points leave, which the paper does not have --------------------------------------------------------------------------


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


# Entries: batches of leaves or nodes ----------------------------------------------------------------------------------


INSERT, REMOVE, REINSERT, PLACE, SCORE_PAIRS, SCORE_SIBLINGS, SCORE_FOUND = range(7)


@entry
def perform(
    task: int, state: State, slots: Slots, others: Slots, nodes: Ids, scores: Floats, near_scores: Vectors32
) -> int:
    """Perform a task, each of which looks at some of the arrays; returns a count."""
    settle(state)
    if task <= REINSERT:
        return _change(task, state, slots, nodes)
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
def _change(task: int, state: State, leaves: Slots, candidates: Ids) -> int:
    """Insert leaves, take them out, or take them out and insert them again; returns how many have another sibling.

    Row i of ``candidates`` has the nearest leaves of ``leaves[i]`` and is used up.
    """
    moved = 0
    for i in range(leaves.shape[0]):
        begin_change(state)
        if task == INSERT:
            insert(state, leaves[i], state.head[OFFSET] + leaves[i], candidates[i])
        elif task == REMOVE:
            remove(state, leaves[i], candidates[i])
        else:
            moved += reinsert(state, leaves[i], candidates[i])
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
            c = climb(state, leaves[i], c)
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
    """Return how many neighbours x has."""
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
