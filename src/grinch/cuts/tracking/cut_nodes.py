"""Cuts of a tree by height: at a threshold, or each cluster at a level of its own.

``marks`` has 1 for the nodes that are split: those above the cut, and no others. Only the region that changed is looked
at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._compile import jitable, kernel
from grinch._types import Counts, Flags, Floats, Ids, Labels, Mask, Slots
from grinch.cuts.n_cluster_cut import Ends, Splits, find_ends, find_sizeable_ends, new_ends, raise_splits
from grinch.cuts.tracking.follower import Arrays, Region, all_internal
from grinch.cuts.tracking.identity import ABOVE
from grinch.tree.links import LEAVES, NONE, OFFSET, PARENT, ROOT, Links, is_leaf, left, parent, right

# Where between its own node and the one above a cluster should end.
HALFWAY = 0.5


class Local(NamedTuple):
    """What a cut by levels needs beside the marks: ``levels``, ``exempt``, and ``below``, which is scratch space.

    ``levels`` has, by node, the sum over its points of the height at which the cluster of each should end. ``exempt``
    has 1 for nodes that are not as their level says, and are left alone.
    """

    levels: Floats
    exempt: Flags
    below: Flags


def cut_by_height(
    links: Links,
    region: Region,
    arrays: Arrays,
    marks: Flags,
    owners: Labels,
    threshold: float,
    local: Local | None = None,
) -> Slots:
    """Return the clusters in the region that changed: by a threshold on scores, or each by the levels of its points.

    Nodes of the region have to have their owners already (:func:`~grinch.cuts.tracking.identity.raise_owners`).
    """
    n = int(links.head[LEAVES])
    if n == 0:
        return np.empty(0, np.intp)
    stack, found = np.empty(n + 1, np.intp), np.empty(n, np.intp)
    is_local = local is not None
    local = local or Local(np.empty(0), np.empty(0, np.uint8), np.empty(0, np.uint8))
    scale = Scale(arrays["scores"], arrays["counts"], local.levels, local.exempt, -threshold, is_local)
    region_marks = InRegion(region.met, region.now, arrays["oldest"], region.oldest_before, local.below)
    count = _cut(links, region.nodes, region_marks, scale, marks, owners, stack, found)
    return found[:count]


class Scale(NamedTuple):
    """How high a node may be: its height is minus its score, its limit the mean level of its points, or one number."""

    scores: Floats
    counts: Ids
    levels: Floats
    exempt: Flags
    limit: float
    is_local: bool


class InRegion(NamedTuple):
    """Which nodes are in the region, which of them are the same as before, and scratch space."""

    met: Ids
    now: int
    oldest: Counts
    oldest_before: Counts
    below: Flags


@jitable
def _is_high(scale: Scale, v: int) -> bool:
    """Return whether a node is above its limit."""
    limit = scale.levels[v] / scale.counts[v] if scale.is_local else scale.limit
    return -scale.scores[v] > limit


@jitable
def _wants_split(scale: Scale, v: int) -> bool:
    return _is_high(scale, v) and not (scale.is_local and scale.exempt[v] == 1)


@kernel
def _cut(
    tree: Links, nodes: Slots, region: InRegion, scale: Scale, marks: Flags, owners: Labels, stack: Slots, found: Slots
) -> int:
    if scale.is_local:
        _look_below(tree, nodes, region, scale, marks)
    _split_down(tree, nodes, region, scale, marks, stack)
    if scale.is_local:
        _join_up(tree, nodes, scale, marks)
    if is_leaf(tree, tree.head[ROOT]):
        found[0] = tree.head[ROOT]
        return 1
    return _collect(tree, nodes, region, marks, owners, stack, found)


@jitable
def _look_below(tree: Links, nodes: Slots, region: InRegion, scale: Scale, marks: Flags) -> None:
    """Forget the marks of nodes that are not the same any more; ``below``: whether a split node is at or below one."""
    for i in range(nodes.shape[0]):
        v = nodes[i]
        if region.oldest[v] == region.oldest_before[i]:
            region.below[v] = marks[v]
            continue
        marks[v] = scale.exempt[v] = 0
        region.below[v] = 0
        for child in (left(tree, v), right(tree, v)):
            if not is_leaf(tree, child):
                is_in = region.met[child] == region.now
                region.below[v] |= region.below[child] if is_in else marks[child]


@jitable
def _split_down(tree: Links, nodes: Slots, region: InRegion, scale: Scale, marks: Flags, stack: Slots) -> None:
    """Decide from the top which nodes of the region are split, and which of the others come above the cut."""
    for i in range(nodes.shape[0] - 1, -1, -1):
        v = nodes[i]
        p = parent(tree, v)
        if p != NONE and marks[p] == 0:
            marks[v] = 0
        elif scale.is_local and region.below[v] == 1:
            marks[v] = 1
        else:
            marks[v] = 1 if _wants_split(scale, v) else 0
        for child in (left(tree, v), right(tree, v)):
            if is_leaf(tree, child) or region.met[child] == region.now:
                continue
            if marks[v] == 0 and marks[child] == 1:
                _unmark(tree, marks, child, stack)
            elif marks[v] == 1 and marks[child] == 0:
                _split_further(tree, scale, marks, child, stack)


@jitable
def _unmark(tree: Links, marks: Flags, v: int, stack: Slots) -> None:
    """What is split at or below v came into a cluster."""
    stack[0], n = v, 1
    while n > 0:
        n -= 1
        v = stack[n]
        marks[v] = 0
        for child in (left(tree, v), right(tree, v)):
            if not is_leaf(tree, child) and marks[child] == 1:
                stack[n] = child
                n += 1


@jitable
def _split_further(tree: Links, scale: Scale, marks: Flags, v: int, stack: Slots) -> None:
    """Node v was in a cluster, or is one; if it is too high it is split, and so on below it."""
    stack[0], n = v, 1
    while n > 0:
        n -= 1
        v = stack[n]
        if not is_leaf(tree, v) and marks[v] == 0 and _wants_split(scale, v):
            marks[v] = 1
            stack[n], stack[n + 1] = left(tree, v), right(tree, v)
            n += 2


@jitable
def _join_up(tree: Links, nodes: Slots, scale: Scale, marks: Flags) -> None:
    """Two clusters side by side become one where their node is low enough."""
    for i in range(nodes.shape[0]):
        v = nodes[i]
        is_high = _is_high(scale, v)
        if marks[v] == 1 and not is_high and scale.exempt[v] == 0:
            a, b = left(tree, v), right(tree, v)
            if (is_leaf(tree, a) or marks[a] == 0) and (is_leaf(tree, b) or marks[b] == 0):
                marks[v] = 0
        if is_high == (marks[v] == 1):
            scale.exempt[v] = 0


@jitable
def _collect(
    tree: Links, nodes: Slots, region: InRegion, marks: Flags, owners: Labels, stack: Slots, found: Slots
) -> int:
    """Find the clusters of the region, those at its lower edge among them."""
    n_found = 0
    for i in range(nodes.shape[0] - 1, -1, -1):
        v = nodes[i]
        p = parent(tree, v)
        if p != NONE and marks[p] == 0:
            continue
        n = 0
        if marks[v] == 0:
            found[n_found] = v
            n_found += 1
            continue
        for child in (left(tree, v), right(tree, v)):
            if is_leaf(tree, child) or region.met[child] != region.now:
                stack[n] = child
                n += 1
        while n > 0:
            n -= 1
            u = stack[n]
            if is_leaf(tree, u) or marks[u] == 0:
                found[n_found] = u
                n_found += 1
            elif owners[u] != ABOVE:
                # It was in a cluster before, and is split now.
                stack[n], stack[n + 1] = left(tree, u), right(tree, u)
                n += 2
    return n_found


# Levels -------------------------------------------------------------------------------------------------------------


def raise_levels(links: Links, region: Region, arrays: Arrays, local: Local) -> None:
    """Sum up the levels of points. A point without one (nan) gets the mean of the smallest group that has any."""
    _raise_levels(links, region.nodes, region.met, region.now, arrays["counts"], local.levels)


@kernel
def _raise_levels(tree: Links, nodes: Slots, met: Ids, now: int, counts: Ids, levels: Floats) -> None:
    """Sums over nodes without any level are nan, until their points have got one from above."""
    for i in range(nodes.shape[0]):
        v = nodes[i]
        known, total = 0, 0.0
        for child in (left(tree, v), right(tree, v)):
            # A mean for now, so that it can be handed down.
            if not np.isnan(levels[child]):
                known += counts[child]
                is_mean = not is_leaf(tree, child) and met[child] == now
                total += levels[child] * counts[child] if is_mean else levels[child]
        levels[v] = total / known if known > 0 else np.nan
    for i in range(nodes.shape[0] - 1, -1, -1):
        v = nodes[i]
        for child in (left(tree, v), right(tree, v)):
            if np.isnan(levels[child]):
                levels[child] = levels[v]
    for i in range(nodes.shape[0]):
        v = nodes[i]
        levels[v] = levels[left(tree, v)] + levels[right(tree, v)]


def choose_levels(links: Links, ends: Slots, arrays: Arrays) -> Floats:
    """Return, by cluster, the height at which it should end: halfway between those of its node and the node above.

    Where the node above is not higher, as far above its own node as is common in this cut. A single point has no
    height: its level is the common one, but below the node above.
    """
    above, heights = links.table[ends, PARENT], -arrays["scores"]
    is_single = ends < links.head[OFFSET]
    lower = np.where(is_single, np.nan, heights[ends])
    upper = np.where(above == NONE, np.nan, heights[above])
    for bound in (lower, upper):
        bound[~np.isfinite(bound)] = np.nan
    half = (upper - lower) * HALFWAY
    margin = _median(half[half > 0], np.ones(int((half > 0).sum())))
    if np.isnan(margin):
        inner = heights[all_internal(links)]
        inner = inner[np.isfinite(inner)]
        margin = (float(np.ptp(inner)) if len(inner) else 0.0) / 20 or 1e-6
    levels = lower + np.where(half > 0, half, margin)
    known = np.isfinite(levels)
    common = _median(levels[known], arrays["counts"][ends[known]].astype(np.float64))
    levels = np.where(known, levels, np.fmin(common, upper - margin))
    return np.nan_to_num(levels, nan=0.0)


def _median(values: Floats, weights: Floats) -> float:
    """Return the weighted median; nan of nothing."""
    if not len(values):
        return float("nan")
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def exempt_others(links: Links, ends: Slots, arrays: Arrays, marks: Flags, local: Local) -> None:
    """Let the nodes of the cut that are not as their levels say be left alone."""
    nodes = np.concatenate([np.flatnonzero(marks), ends[ends >= links.head[OFFSET]]])
    is_high = -arrays["scores"][nodes] > local.levels[nodes] / arrays["counts"][nodes]
    local.exempt[:] = 0
    local.exempt[nodes] = is_high != (marks[nodes] == 1)


# A cut of the whole tree ----------------------------------------------------------------------------------------------


def mark_whole(links: Links, is_split: Mask, marks: Flags) -> Slots:
    """Mark the nodes that a cut of the whole tree splits; return those that it leaves whole."""
    marks[:] = 0
    if links.head[LEAVES] == 0:
        return np.empty(0, np.intp)
    found, root = np.empty(int(links.head[LEAVES]), np.intp), int(links.head[ROOT])
    nodes = all_internal(links)
    marks[nodes] = is_split[nodes]
    return found[: _ends_of(links, nodes, marks, found)] if len(nodes) else np.array([root])


def other_ends(links: Links, marks: Flags, some: Slots) -> Slots:
    """Return the nodes that a cut leaves whole, by the marks of those above it; without some of them."""
    n, is_known = int(links.head[LEAVES]), np.zeros(len(links.table), np.uint8)
    found, is_known[some] = np.empty(n, np.intp), 1
    return found[: _fill_others(links, marks, is_known, np.empty(n + 1, np.intp), found) if n else 0]


@kernel
def _fill_others(tree: Links, marks: Flags, is_known: Flags, stack: Slots, found: Slots) -> int:
    stack[0], n, count = tree.head[ROOT], 1, 0
    while n > 0:
        n -= 1
        v = stack[n]
        if not is_leaf(tree, v) and marks[v] == 1:
            stack[n], stack[n + 1] = right(tree, v), left(tree, v)
            n += 2
        elif is_known[v] == 0:
            found[count] = v
            count += 1
    return count


@kernel
def _ends_of(tree: Links, nodes: Slots, marks: Flags, found: Slots) -> int:
    """Find the clusters by the marks of all nodes, and unmark those below the cut."""
    n = 0
    if marks[tree.head[ROOT]] == 0:
        found[0] = tree.head[ROOT]
        n = 1
    for i in range(nodes.shape[0] - 1, -1, -1):
        v = nodes[i]
        p = parent(tree, v)
        if p != NONE and marks[p] == 0:
            marks[v] = 0
        if marks[v] == 1:
            for child in (left(tree, v), right(tree, v)):
                if is_leaf(tree, child) or marks[child] == 0:
                    found[n] = child
                    n += 1
    return n


class CutNodes(NamedTuple):
    """The nodes that a cut leaves whole, the number of the cluster of each, and how many clusters there are."""

    ends: Slots
    clusters: Slots
    n_clusters: int


def cut_into(links: Links, region: Region, counts: Ids, keys: Floats, ceiling: float | None, n_clusters: int) -> Slots:
    """Return the nodes that the cut by height leaves whole; ``keys`` are by node."""
    _raise_keys(links, region.scores, np.inf if ceiling is None else float(ceiling), region.nodes, keys)
    ends = new_ends(int(links.head[LEAVES]), len(links.table))
    return ends.nodes[: _find_ends(links, keys, counts, n_clusters, ends) if len(ends.nodes) else 0].astype(np.intp)


def cut_sizeable(
    links: Links, region: Region, arrays: Arrays, splits: Splits, ceiling: float | None, n_clusters: int, min_size: int
) -> CutNodes:
    """Return the nodes that the cut by sizeable splits leaves whole.

    Without a ceiling, heights count from the best score in the tree: one change changes all keys, and the scores of all
    nodes are needed.
    """
    highest = np.inf if ceiling is None else float(ceiling)
    nodes, scores, base = region.nodes, region.scores, -highest
    if ceiling is None:
        nodes = all_internal(links)
        scores = arrays["scores"][nodes]
        raise_splits(links, scores, highest, 0.0, min_size, nodes, splits)
        base = float(np.min(splits.lows[nodes], initial=np.inf, where=np.isfinite(splits.lows[nodes])))
        base = base if np.isfinite(base) else 0.0
    raise_splits(links, scores, highest, base, min_size, nodes, splits)
    ends = new_ends(int(links.head[LEAVES]), len(links.table))
    n, n_ends = find_sizeable_ends(links, splits, n_clusters, ends) if len(ends.nodes) else (0, 0)
    return CutNodes(ends.nodes[:n_ends].astype(np.intp), ends.clusters[:n_ends].astype(np.intp), n)


@kernel
def _raise_keys(tree: Links, scores: Floats, ceiling: float, nodes: Slots, keys: Floats) -> None:
    """Fill in the keys of these nodes, which come children first and have these scores."""
    for i in range(nodes.shape[0]):
        v = nodes[i]
        below = max(keys[left(tree, v)], keys[right(tree, v)])
        keys[v] = max(-min(scores[i], ceiling), below)


@kernel
def _find_ends(tree: Links, keys: Floats, counts: Ids, n_clusters: int, ends: Ends) -> int:
    return find_ends(tree, keys, keys, counts, -np.inf, n_clusters, ends)[1]
