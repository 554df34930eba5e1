"""Upkeep of node summaries: computed when they are asked for, never sooner.

A structural change marks the nodes whose leaves changed; the marks stop at the first node already marked. Two
invariants make that correct:

* a stale node's ancestors are all stale, and
* a stale node's ancestors have no cached bond (``nan``).

``sums`` is whatever a linkage keeps per node. ``score``, ``score_many``, ``merge`` and ``leaves_around`` are the only
operations that depend on its type; compiled linkages overload them, all others have them as methods.
"""

from __future__ import annotations

import numpy as np

from grinch._compile import jitable
from grinch.core.counters import IN_UPKEEP, MERGES, SCORES, start_watch, stop_watch
from grinch.tree.links import LEFT, NONE, RIGHT, parent


def score(sums, u, v):
    """f(u, v) from two fresh summaries."""
    return sums.score(u, v)


def score_many(sums, v, nodes, n):
    """f(v, node) for the first n of ``nodes``, into ``sums.answers``."""
    sums.score_many(v, nodes, n)


def merge(sums, p, left, right):
    """Make p's summary from its children's."""
    sums.merge(p, left, right)


def leaves_around(tree, sums, v):
    """Put the leaves worth asking about v into ``sums.nodes``, and say how many there are; here: all of them."""
    return sums.leaves_around(tree, v)


@jitable
def mark_stale(tree, sums, v):
    """The leaves under v changed: forget what was known of v and its ancestors."""
    while v != NONE:
        sums.bonds[v] = np.nan
        if sums.stale[v]:
            break
        sums.stale[v] = 1
        v = parent(tree, v)


@jitable
def mark_new(tree, sums, p):
    """Internal node p came into this place: a mark from an earlier one must not end the walk to its ancestors."""
    sums.stale[p] = 0
    mark_stale(tree, sums, p)


@jitable
def refresh(tree, sums, tally, v):
    """Bring v's summary up to date: merge its stale descendants bottom-up, walking by parent pointers."""
    if not sums.stale[v]:
        return
    began = start_watch(tally)
    node = v
    while True:
        left, right = tree.table[node, LEFT], tree.table[node, RIGHT]
        if sums.stale[left]:
            node = left
        elif sums.stale[right]:
            node = right
        else:
            merge(sums, node, left, right)
            tally.counts[MERGES] += 1
            sums.stale[node] = 0
            if node == v:
                break
            node = parent(tree, node)
    stop_watch(tally, IN_UPKEEP, began)


@jitable
def similarity(tree, sums, tally, u, v):
    """f(u, v), with both summaries up to date."""
    if sums.stale[u]:
        refresh(tree, sums, tally, u)
    if sums.stale[v]:
        refresh(tree, sums, tally, v)
    tally.counts[SCORES] += 1
    return score(sums, u, v)


@jitable
def ask(tree, sums, tally, v, nodes, n):
    """f(v, node) for the first n of ``nodes``, into ``sums.answers``, in one call where the linkage can."""
    if n == 0:
        return
    refresh(tree, sums, tally, v)
    for i in range(n):
        if sums.stale[nodes[i]]:
            refresh(tree, sums, tally, nodes[i])
    tally.counts[SCORES] += n
    score_many(sums, v, nodes, n)


@jitable
def bond(tree, sums, tally, p):
    """F of p's two children: the score of siblings, asked for once and then remembered."""
    known = sums.bonds[p]
    if np.isnan(known):
        known = similarity(tree, sums, tally, tree.table[p, LEFT], tree.table[p, RIGHT])
        sums.bonds[p] = known
    return known
