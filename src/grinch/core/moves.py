"""The moves of GRINCH: rotate, pull, graft, restructure, and the Insert that uses them.

The names and the order are the paper's (Monath, Kobren et al., KDD 2019). ``f`` is a similarity: higher is closer.
Every departure from the printed pseudocode is marked *Departure* with its reason.

The functions are plain Python. numba compiles this very source for linkages on vectors, and the interpreter runs it
for any other linkage; the two differ only in what ``score`` and ``merge`` mean for ``sums``.

Arguments that all of them share: ``tree`` (:class:`~grinch.tree.links.Links`), ``sums`` (the summaries of the nodes
under a linkage), ``rules`` (:class:`~grinch.core.rules.Rules`), ``tally`` (the counters behind ``stats_``).
"""

from __future__ import annotations

import numpy as np

from grinch._compile import jitable
from grinch.core.counters import (
    GRAFTS,
    GRAFTS_TRIED,
    IN_GRAFT,
    IN_PULL,
    IN_RESTRUCTURE,
    IN_ROTATE,
    PULLS,
    RESTRUCTURINGS,
    ROTATIONS,
    SWAPS,
    start_watch,
    stop_watch,
)
from grinch.summaries.upkeep import ask, bond, leaves_around, mark_new, mark_stale, similarity
from grinch.tree.links import (
    LEAVES,
    LEFT,
    NONE,
    RIGHT,
    ROOT,
    attach,
    attach_first,
    detach,
    first_leaf,
    is_leaf,
    is_under,
    lca_within,
    make_sibling,
    next_leaf,
    parent,
    sibling,
    size,
    swap,
    take_out,
)

# With growing caps a move reaches nodes of up to a tenth of the points, and of 100 in any case.
REACH_SHARE, SMALLEST_REACH = 10, 100


@jitable
def reach(tree, rules, cap):
    """How many leaves a node may have for a move to look at it: the cap, or with growing caps less in a small tree."""
    if rules.growing_caps:
        return min(cap, max(SMALLEST_REACH, tree.head[LEAVES] // REACH_SHARE))
    return cap


@jitable
def insert(tree, sums, rules, tally, x, p, candidates):
    """Algorithm *Insert*: put leaf ``x`` beside its nearest neighbour, then let the tree repair itself.

    ``p`` is a free internal node. ``candidates`` are the nearest leaves in the tree, best first, padded with NONE; it
    is used up as scratch space.
    """
    if tree.head[LEAVES] == 0:
        attach_first(tree, x)
        return
    # A search that looks in some places only may have found nothing; then x starts a branch of its own at the top.
    c = candidates[0] if candidates[0] != NONE else tree.head[ROOT]
    if rules.rotate:
        began = start_watch(tally)
        c = rotate(tree, sums, rules, tally, x, c)
        stop_watch(tally, IN_ROTATE, began)
    attach(tree, x, c, p)
    mark_new(tree, sums, p)

    if rules.pull:
        pull(tree, sums, rules, tally, x)
    graft_upward(tree, sums, rules, tally, parent(tree, x), candidates)


@jitable
def graft_upward(tree, sums, rules, tally, p, candidates):
    """The second loop of *Insert*: graft from p again and again, up to the root or the cap."""
    while rules.graft and p != NONE and size(tree, p) <= reach(tree, rules, rules.graft_cap):
        began = start_watch(tally)
        grafts_before = tally.counts[GRAFTS]
        # Departure: the printed loop never updates p.
        p = graft(tree, sums, rules, tally, p, candidates)
        stop_watch(tally, IN_GRAFT, began)
        # A graft that was not made leaves nothing new to pull.
        if rules.pull and p != NONE and tally.counts[GRAFTS] > grafts_before:
            pull(tree, sums, rules, tally, p)


@jitable
def remove(tree, sums, rules, tally, x, candidates):
    """Take leaf x out, and let the place it leaves repair itself as where a graft took a node away.

    ``candidates`` are the leaves nearest to x, as for *Insert*. Returns the internal node that is free now, or NONE.
    """
    z = NONE if parent(tree, x) == NONE else sibling(tree, x)
    p = take_out(tree, x)
    if z == NONE or parent(tree, z) == NONE:
        return p
    mark_stale(tree, sums, parent(tree, z))
    if rules.restructure:
        began = start_watch(tally)
        if rules.pull:
            # All the way up, for the guarantee that pull stands for.
            restructure(tree, sums, rules, tally, z, NONE)
        else:
            # Only z has another sibling; to ask the nodes above it as well took longer than an insert.
            choose_sibling(tree, sums, tally, z, NONE, reach(tree, rules, rules.restructure_cap))
        stop_watch(tally, IN_RESTRUCTURE, began)
    if rules.pull:
        pull(tree, sums, rules, tally, z)
    graft_upward(tree, sums, rules, tally, z, candidates)
    return p


@jitable
def reinsert(tree, sums, rules, tally, x, candidates):
    """Take leaf x out and insert it again, beside the nearest of all leaves; returns whether it has another sibling."""
    if parent(tree, x) == NONE:
        return False
    z = sibling(tree, x)
    p = take_out(tree, x)
    mark_stale(tree, sums, parent(tree, z))
    insert(tree, sums, rules, tally, x, p, candidates)
    return sibling(tree, x) != z


@jitable
def rotate(tree, sums, rules, tally, x, c):
    """Where x belongs above its nearest neighbour c: the first loop of *Insert*.

    Rotating x with its aunt again and again is the same as walking up from c while c prefers its own sibling to x,
    so the walk is done before x is attached and nothing has to be swapped.
    """
    cap = reach(tree, rules, rules.rotate_cap)
    p = parent(tree, c)
    while p != NONE and size(tree, p) <= cap:
        if not similarity(tree, sums, tally, x, c) < bond(tree, sums, tally, p):
            break
        tally.counts[ROTATIONS] += 1
        c = p
        p = parent(tree, c)
    return c


@jitable
def pull(tree, sums, rules, tally, v):
    """Departure: not in the paper; it closes the gap in the proof of Theorem 1.

    v and sib(v) may be connected while sib(v) alone is not. From v upwards: while a child c of sib(v) likes v better
    than its own sibling d, swap d and v, so that c and v become siblings.
    """
    began = start_watch(tally)
    cap = reach(tree, rules, rules.rotate_cap)
    p = parent(tree, v)
    while p != NONE and size(tree, p) <= cap:
        s = sibling(tree, v)
        while not is_leaf(tree, s):
            c, d = tree.table[s, LEFT], tree.table[s, RIGHT]
            sums.nodes[0], sums.nodes[1] = c, d
            ask(tree, sums, tally, v, sums.nodes, 2)
            f_c, f_d = sums.answers[0], sums.answers[1]
            if f_d > f_c:
                c, d, f_c = d, c, f_d
            if not f_c > bond(tree, sums, tally, s):
                break
            exchange(tree, sums, tally, d, v)
            tally.counts[PULLS] += 1
            s = c
        v = parent(tree, v)
        p = parent(tree, v)
    stop_watch(tally, IN_PULL, began)


@jitable
def graft(tree, sums, rules, tally, v, candidates):
    """Algorithm *graft*: find a node that prefers v to its own sibling, and v it, and move it beside v.

    Returns the node to go on from, or NONE when grafting is over for this insert.
    """
    cap = reach(tree, rules, rules.graft_cap)
    leaf = constrained_nearest(tree, sums, rules, tally, v, candidates)
    if leaf == NONE:
        return NONE
    tally.counts[GRAFTS_TRIED] += 1
    a = lca_within(tree, v, leaf, cap)
    # Departure: `l` in the paper; it may climb, so it is a node and not only a leaf.
    w = leaf
    while v != a and w != a and sibling(tree, v) != w:
        if size(tree, v) > cap or size(tree, w) > cap:
            return NONE
        f_vw = similarity(tree, sums, tally, v, w)
        f_v = bond(tree, sums, tally, parent(tree, v))
        f_w = bond(tree, sums, tally, parent(tree, w))
        if f_vw > max(f_v, f_w):
            tally.counts[GRAFTS] += 1
            # Departure: the paper moves w, however large; but the larger of the two knows its place better.
            if rules.light_grafts and size(tree, w) > size(tree, v):
                return move_beside(tree, sums, rules, tally, v, w)
            return move_beside(tree, sums, rules, tally, w, v)
        # Departure: both are judged by the same three numbers, and <= ends on ties where < would not.
        w_stays, v_stays = f_vw <= f_w, f_vw <= f_v
        if rules.single_elimination and w_stays and v_stays:
            return NONE
        if w_stays:
            w = parent(tree, w)
        if v_stays:
            v = parent(tree, v)
    # Departure: the paper's text returns the climbed v here; its proof uses the common ancestor.
    return a


@jitable
def move_beside(tree, sums, rules, tally, w, v):
    """The merge of *graft*: w leaves its place for one beside v; what it left behind is restructured."""
    z = sibling(tree, w)
    p = detach(tree, w)
    mark_stale(tree, sums, parent(tree, z))
    make_sibling(tree, w, v, p)
    mark_new(tree, sums, p)
    if rules.restructure:
        began = start_watch(tally)
        # The old common ancestor may be the node that was contracted, so it is looked up afresh.
        restructure(tree, sums, rules, tally, z, lca_within(tree, z, v, reach(tree, rules, rules.restructure_cap)))
        stop_watch(tally, IN_RESTRUCTURE, began)
    return p


@jitable
def restructure(tree, sums, rules, tally, z, r):
    """Algorithm *restruct*: from z up to r, give each node the sibling it likes best among its ancestors' siblings.

    Departure: z is the old sibling of the node that moved (the printed sib(v) would have nothing to do).
    ``r`` is NONE when the common ancestor lies above the cap; then the cap ends the walk.
    """
    tally.counts[RESTRUCTURINGS] += 1
    cap = reach(tree, rules, rules.restructure_cap)
    while z != r and parent(tree, z) != NONE and size(tree, z) <= cap:
        choose_sibling(tree, sums, tally, z, r, cap)
        z = parent(tree, z)


@jitable
def choose_sibling(tree, sums, tally, z, r, cap):
    """A step of *restruct*: give z the sibling it likes best, of its own and those of its ancestors below r."""
    best, f_best = sibling(tree, z), bond(tree, sums, tally, parent(tree, z))
    n, a = 0, parent(tree, z)
    while a != r and parent(tree, a) != NONE and size(tree, a) <= cap:
        sums.nodes[n] = sibling(tree, a)
        n += 1
        a = parent(tree, a)
    ask(tree, sums, tally, z, sums.nodes, n)
    for i in range(n):
        if sums.answers[i] > f_best:
            best, f_best = sums.nodes[i], sums.answers[i]
    if best != sibling(tree, z):
        exchange(tree, sums, tally, sibling(tree, z), best)
        tally.counts[SWAPS] += 1


@jitable
def exchange(tree, sums, tally, u, v):
    """Swap two disjoint subtrees and mark what they leave and enter."""
    swap(tree, u, v)
    mark_stale(tree, sums, parent(tree, u))
    mark_stale(tree, sums, parent(tree, v))


@jitable
def constrained_nearest(tree, sums, rules, tally, v, candidates):
    """constrNN: the leaf outside lvs(v) with the largest f(v, leaf), or NONE. Ties go to the earliest candidate."""
    if rules.single_search:
        n = drop_leaves_under(tree, v, candidates)
        return best_of(tree, sums, tally, v, candidates, n)
    n = leaves_outside(tree, sums, v)
    return best_of(tree, sums, tally, v, sums.nodes, n)


@jitable
def drop_leaves_under(tree, v, candidates):
    """Drop the candidates under v, for they stay under every v to come; returns how many are left."""
    kept = 0
    for i in range(len(candidates)):
        leaf = candidates[i]
        if leaf == NONE:
            break
        if not is_under(tree, leaf, v):
            candidates[kept] = leaf
            kept += 1
    if kept < len(candidates):
        candidates[kept] = NONE
    return kept


@jitable
def leaves_outside(tree, sums, v):
    """Put the leaves worth asking about that are not under v into ``sums.nodes``; returns how many there are."""
    leaf = first_leaf(tree, v)
    while leaf != NONE:
        tree.marks[leaf] = 1
        leaf = next_leaf(tree, leaf, v)
    n = leaves_around(tree, sums, v)
    kept = 0
    for i in range(n):
        if not tree.marks[sums.nodes[i]]:
            sums.nodes[kept] = sums.nodes[i]
            kept += 1
    leaf = first_leaf(tree, v)
    while leaf != NONE:
        tree.marks[leaf] = 0
        leaf = next_leaf(tree, leaf, v)
    return kept


@jitable
def best_of(tree, sums, tally, v, nodes, n):
    """The node with the largest f(v, node), the first of equals; NONE if there is none."""
    ask(tree, sums, tally, v, nodes, n)
    best, f_best = NONE, -np.inf
    for i in range(n):
        if best == NONE or sums.answers[i] > f_best:
            best, f_best = nodes[i], sums.answers[i]
    return best
