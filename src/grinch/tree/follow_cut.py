"""Cuts of a tree that is being followed: which nodes are the clusters, and from which clusters their points came.

``owners`` has, by node, the cluster that all points under the node are in; above the cut it is ABOVE. So where a change
puts a large group under another node, one look at the group says where all its points were before, and if they stay in
the same cluster nothing is written to any of them.

``marks`` has 1 for the nodes that are split: those above the cut, and no others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._compile import jitable, kernel
from grinch._types import Counts, Flags, Floats, Ids, Labels, Mask, Slots, as_id
from grinch.tree.ends import Ends, Splits, find_ends, new_ends, raise_splits
from grinch.tree.follow import Follower, Region
from grinch.tree.links import LEAVES, NONE, OFFSET, PARENT, ROOT, Links, is_leaf, left, parent, right
from grinch.tree.live_cut import all_internal

# Owners: of nodes above the cut, whose points are in several clusters; and of points that are new.
ABOVE, NEW = -1, -2
# Where between its own node and the one above a cluster should end.
HALFWAY = 0.5


class Pieces(NamedTuple):
    """Parts of new clusters whose points were all in one cluster before.

    ``nodes``: the node of each; ``ends``: the number of the new cluster it is in; ``owners``: the cluster before.
    """

    nodes: Slots
    ends: Slots
    owners: Labels


class Local(NamedTuple):
    """What a cut by levels needs beside the marks: ``levels``, ``exempt``, and ``below``, which is scratch space.

    ``levels`` has, by node, the sum over its points of the height at which the cluster of each should end. ``exempt``
    has 1 for nodes that are not as their level says, and are left alone.
    """

    levels: Floats
    exempt: Flags
    below: Flags


# Which nodes are clusters -------------------------------------------------------------------------------------------


def cut_into(links: Links, nodes: Slots, follower: Follower, keys: Floats, ceiling: float, n_clusters: int) -> Slots:
    """The clusters of the cut into a number of them, after a change of these nodes."""
    _raise_keys(links, follower.arrays["scores"][nodes], ceiling, nodes, keys)
    ends, counts = new_ends(int(links.head[LEAVES]), len(links.table)), follower.arrays["counts"]
    return ends.nodes[: _find_ends(links, keys, counts, n_clusters, ends) if len(ends.nodes) else 0].astype(np.intp)


def cut_sizeable(
    links: Links, nodes: Slots, follower: Follower, splits: Splits, ceiling: float | None, n_clusters: int
) -> tuple[Slots, Slots]:
    """Return the nodes that the cut by sizeable splits leaves whole after a change of these nodes; and their clusters.

    Without a ceiling, heights count from the best score in the tree: one change changes all keys.
    """
    scores, highest = follower.arrays["scores"], np.inf if ceiling is None else float(ceiling)
    base = -highest
    if ceiling is None:
        nodes = all_internal(links)
        raise_splits(links, scores[nodes], highest, 0.0, 1, nodes, splits)
        base = float(np.min(splits.lows[nodes], initial=np.inf, where=np.isfinite(splits.lows[nodes])))
        base = base if np.isfinite(base) else 0.0
    raise_splits(links, scores[nodes], highest, base, 1, nodes, splits)
    ends = new_ends(int(links.head[LEAVES]), len(links.table))
    n = _find_sizeable(links, splits, n_clusters, ends) if len(ends.nodes) else 0
    return ends.nodes[:n].astype(np.intp), ends.clusters[:n].astype(np.intp)


def cut_by_height(
    links: Links,
    region: Region,
    follower: Follower,
    marks: Flags,
    owners: Labels,
    threshold: float,
    local: Local | None = None,
) -> Slots:
    """The clusters in the region that changed: by a threshold on scores, or each by the levels of its points.

    Nodes of the region have to have their owners already (:func:`raise_owners`).
    """
    n = int(links.head[LEAVES])
    if n == 0:
        return np.empty(0, np.intp)
    arrays, stack, found = follower.arrays, np.empty(n + 1, np.intp), np.empty(n, np.intp)
    is_local = local is not None
    local = local or Local(np.empty(0), np.empty(0, np.uint8), np.empty(0, np.uint8))
    scale = Scale(arrays["scores"], arrays["counts"], local.levels, local.exempt, -threshold, is_local)
    region_marks = InRegion(follower.met, follower.now, arrays["oldest"], region.oldest_before, local.below)
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


@kernel
def _raise_keys(tree: Links, scores: Floats, ceiling: float, nodes: Slots, keys: Floats) -> None:
    """The keys of these nodes, which come children first and have these scores."""
    for i in range(nodes.shape[0]):
        v = nodes[i]
        below = max(keys[left(tree, v)], keys[right(tree, v)])
        keys[v] = max(-min(scores[i], ceiling), below)


@kernel
def _find_ends(tree: Links, keys: Floats, counts: Ids, n_clusters: int, ends: Ends) -> int:
    return find_ends(tree, keys, keys, counts, -np.inf, n_clusters, ends)[1]


@kernel
def _find_sizeable(tree: Links, splits: Splits, n_clusters: int, ends: Ends) -> int:
    return find_ends(tree, splits.keys, splits.best, splits.counts, 0.0, n_clusters, ends)[1]


@jitable
def _is_high(scale: Scale, v: int) -> bool:
    """Whether a node is above its limit."""
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
    """The clusters of the region, those at its lower edge among them."""
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


def raise_levels(links: Links, nodes: Slots, follower: Follower, local: Local) -> None:
    """Sum up the levels of points. A point without one (nan) gets the mean of the smallest group that has any."""
    _raise_levels(links, nodes, follower.met, follower.now, follower.arrays["counts"], local.levels)


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


def choose_levels(links: Links, ends: Slots, follower: Follower) -> Floats:
    """By cluster, the height at which it should end: halfway between that of its node and that of the node above.

    Where the node above is not higher, as far above its own node as is common in this cut. A single point has no
    height: its level is the common one, but below the node above.
    """
    above, heights = links.table[ends, PARENT], -follower.arrays["scores"]
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
    common = _median(levels[known], follower.arrays["counts"][ends[known]].astype(np.float64))
    levels = np.where(known, levels, np.fmin(common, upper - margin))
    return np.nan_to_num(levels, nan=0.0)


def _median(values: Floats, weights: Floats) -> float:
    """The weighted median; nan of nothing."""
    if not len(values):
        return float("nan")
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def exempt_others(links: Links, ends: Slots, follower: Follower, marks: Flags, local: Local) -> None:
    """Let the nodes of the cut that are not as their levels say be left alone."""
    nodes = np.concatenate([np.flatnonzero(marks), ends[ends >= links.head[OFFSET]]])
    is_high = -follower.arrays["scores"][nodes] > local.levels[nodes] / follower.arrays["counts"][nodes]
    local.exempt[:] = 0
    local.exempt[nodes] = is_high != (marks[nodes] == 1)


# Where the points came from -----------------------------------------------------------------------------------------


@kernel
def raise_owners(tree: Links, nodes: Slots, owners: Labels) -> None:
    """Of these nodes, which come children first, the cluster that all points were in; ABOVE where there are several."""
    for i in range(nodes.shape[0]):
        a, b = owners[left(tree, nodes[i])], owners[right(tree, nodes[i])]
        owners[nodes[i]] = a if a == b else ABOVE


def without_same(links: Links, ends: Slots, follower: Follower, owners: Labels, was_above: Flags | None) -> Slots:
    """Those of the clusters that may have changed: the others were clusters before, and nothing moved in them.

    ``was_above`` has, for the nodes of the region, whether they were above the cut before; without it there is none.
    """
    above = links.table[ends, PARENT]
    is_same = (owners[above] == ABOVE) | (above == NONE)
    if was_above is not None:
        met, now = follower.met, follower.now
        is_same &= (met[above] != now) | (above == NONE)
        is_same |= (met[above] == now) & (above != NONE) & (was_above[above] == 1)
        is_same &= met[ends] != now
    return ends[~is_same | (owners[ends] < 0)]


def without_same_clusters(
    links: Links, ends: Slots, clusters: Slots, owners: Labels, lost: Labels
) -> tuple[Slots, Slots]:
    """Return the ends of the clusters that may have changed, and their clusters, numbered from 0 again.

    A cluster is the same if all its points were in one cluster before that has no others, and is not among ``lost``,
    those that points were removed from.
    """
    of_ends, n = owners[ends], int(clusters.max(initial=-1)) + 1
    lowest, highest = np.full(n, np.iinfo(np.int64).max), np.full(n, NEW)
    np.minimum.at(lowest, clusters, of_ends)
    np.maximum.at(highest, clusters, of_ends)
    is_changed = (lowest < 0) | (lowest != highest)
    again, counts = np.unique(lowest[~is_changed], return_counts=True)
    within = pieces_of(links, ends[of_ends < 0], owners).owners
    touched = np.concatenate([lost, within, of_ends[is_changed[clusters]], again[counts > 1]])
    is_changed |= np.isin(lowest, touched)
    some = is_changed[clusters]
    return ends[some], (np.cumsum(is_changed) - 1)[clusters[some]]


def owners_above(links: Links, nodes: Ids, owners: Labels) -> Labels:
    """The owners of the parents of these nodes; ABOVE for the root."""
    above = links.table[nodes, PARENT]
    return np.where(above == NONE, ABOVE, owners[above])


def pieces_of(links: Links, ends: Slots, owners: Labels) -> Pieces:
    """The parts of these clusters by where their points were before."""
    n = int(links.head[LEAVES])
    nodes, numbers = np.empty(n, np.intp), np.empty(n, np.intp)
    count = _fill_pieces(links, ends, owners, np.empty(n + 1, np.intp), nodes, numbers)
    nodes = nodes[:count].copy()
    return Pieces(nodes, numbers[:count].copy(), owners[nodes])


@kernel
def _fill_pieces(tree: Links, ends: Slots, owners: Labels, stack: Slots, nodes: Slots, numbers: Slots) -> int:
    count = 0
    for i in range(ends.shape[0]):
        stack[0], n = ends[i], 1
        while n > 0:
            n -= 1
            v = stack[n]
            if owners[v] == ABOVE:
                stack[n], stack[n + 1] = right(tree, v), left(tree, v)
                n += 2
            else:
                nodes[count], numbers[count] = v, i
                count += 1
    return count


@kernel
def relabel(tree: Links, ends: Slots, ids: Labels, nodes: Slots, numbers: Slots, owners: Labels) -> None:
    """Give clusters their ids, by their pieces, and say of what is above them that it is."""
    for i in range(nodes.shape[0]):
        v, end = nodes[i], ends[numbers[i]]
        new = ids[numbers[i]]
        if owners[v] != new:
            _fill_under(tree, owners, v, new)
        while v != end:
            v = parent(tree, v)
            if owners[v] == new:
                break
            owners[v] = new
    for i in range(ends.shape[0]):
        v = parent(tree, ends[i])
        while v != NONE and owners[v] != ABOVE:
            owners[v] = ABOVE
            v = parent(tree, v)


@jitable
def _fill_under(tree: Links, owners: Labels, top: int, new: int) -> None:
    v = as_id(top)
    while True:
        owners[v] = new
        if not is_leaf(tree, v):
            v = left(tree, v)
            continue
        while v != top and right(tree, parent(tree, v)) == v:
            v = parent(tree, v)
        if v == top:
            return
        v = right(tree, parent(tree, v))


def oldest_under(links: Links, follower: Follower, groups: list[list[int]], most: int) -> list[list[int]]:
    """The positions of the few oldest points under the nodes of each group, from the oldest on."""
    oldest, rows = follower.arrays["oldest"], np.full((len(groups), most), NONE)
    for row, nodes in enumerate(groups):
        # Each node has at least one point, so no more of them matter than points are looked for.
        nodes = nodes if len(nodes) < 2 else sorted(nodes, key=oldest.item)[:most]
        rows[row, : len(nodes)] = nodes
    _descend_to_oldest(links, oldest, rows)
    return [[p for p in row if p != NONE] for row in np.where(rows == NONE, NONE, oldest[rows]).tolist()]


@kernel
def _descend_to_oldest(tree: Links, oldest: Counts, rows: Slots) -> None:
    """Replace nodes by leaves: the side with the oldest point takes the place of its node, the other one after it."""
    most = rows.shape[1]
    for g in range(rows.shape[0]):
        row = rows[g]
        for i in range(most):
            while row[i] != NONE and not is_leaf(tree, row[i]):
                a, b = left(tree, row[i]), right(tree, row[i])
                if oldest[b] < oldest[a]:
                    a, b = b, a
                row[i] = a
                at = i + 1
                while at < most and row[at] != NONE and oldest[row[at]] < oldest[b]:
                    at += 1
                for j in range(most - 1, at, -1):
                    row[j] = row[j - 1]
                if at < most:
                    row[at] = b


# A cut of the whole tree ----------------------------------------------------------------------------------------------


def from_whole(links: Links, is_split: Mask, numbers: Slots, marks: Flags) -> Slots:
    """Mark the nodes that a cut of the whole tree splits; returns its clusters.

    ``numbers`` has, by node, the id in the tree handed out, by which ``is_split`` is.
    """
    marks[:] = 0
    if links.head[LEAVES] == 0:
        return np.empty(0, np.intp)
    found, root = np.empty(int(links.head[LEAVES]), np.intp), int(links.head[ROOT])
    nodes = all_internal(links)
    marks[nodes] = is_split[numbers[nodes]]
    return found[: _ends_of(links, nodes, marks, found)] if len(nodes) else np.array([root])


def other_ends(links: Links, marks: Flags, some: Slots) -> Slots:
    """Return the nodes that a cut leaves whole, by the marks of those above it; but for some of them."""
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
    """The clusters by marks of all nodes, of which those below the cut are taken away."""
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
