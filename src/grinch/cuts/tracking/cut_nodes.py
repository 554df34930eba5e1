"""The nodes that a cut leaves whole, found again after a change of a part of the tree.

By height, at a threshold or with a level for each cluster: ``marks`` has 1 for the nodes that are split, those above
the cut, and only the region that changed is visited. Into a number of clusters: by the keys of
:mod:`grinch.cuts.n_cluster_cut`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._compile import jitable, kernel
from grinch._types import Counts, Flags, Floats, Ids, Labels, Numbers, Slots
from grinch.cuts.n_cluster_cut import Splits, find_ends, new_ends, raise_splits
from grinch.cuts.tracking.follower import Arrays, Region, all_internal
from grinch.cuts.tracking.identity import ABOVE
from grinch.tree.links import NONE, PARENT, ROOT, Links, is_leaf, left, parent, right

# The level of a cluster, between the height of its own node (0) and that of the node above (1).
HALFWAY = 0.5


class Local(NamedTuple):
    """By node, the sum of the levels of its points, and 1 for nodes that are not as their level says, and stay so."""

    levels: Floats
    exempt: Flags


class Work(NamedTuple):
    """A cut by height and the region that it is made again in.

    By node: ``marks``, 1 for those above the cut; ``owners``, the cluster that all points under it were in; ``scores``
    and ``counts``. The limit of a node is ``limit`` or, if ``is_local``, the mean level of its points: see
    :class:`Local`. ``nodes`` are those of the region, children first, and ``met`` is ``now`` for them; they are the
    same as before where ``oldest`` equals ``oldest_before``. ``below`` and ``stack`` are scratch space, and ``found``
    takes the clusters.
    """

    marks: Flags
    owners: Labels
    scores: Floats
    counts: Ids
    limit: float
    is_local: bool
    levels: Floats
    exempt: Flags
    nodes: Slots
    met: Ids
    now: int
    oldest: Counts
    oldest_before: Counts
    below: Flags
    stack: Slots
    found: Slots


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
    n = links.n_leaves
    if n == 0:
        return np.empty(0, np.intp)
    is_local, (levels, exempt) = local is not None, local or Local(np.empty(0), np.empty(0, np.uint8))
    around = region.nodes, region.met, region.now, arrays["oldest"], region.oldest_before
    # Memory costs nothing where it is not written to.
    scratch = np.zeros(len(marks) if is_local else 0, np.uint8), np.empty(n + 1, np.intp), np.empty(n, np.intp)
    scores, counts = arrays["scores"], arrays["counts"]
    work = Work(marks, owners, scores, counts, -threshold, is_local, levels, exempt, *around, *scratch)
    return work.found[: _cut(links, work)]


@jitable
def _is_high(work: Work, v: int) -> bool:
    """Return whether the height of a node, minus its score, is above its limit."""
    limit = work.levels[v] / work.counts[v] if work.is_local else work.limit
    return -work.scores[v] > limit


@jitable
def _wants_split(work: Work, v: int) -> bool:
    return _is_high(work, v) and not (work.is_local and work.exempt[v] == 1)


@jitable
def _is_split(tree: Links, marks: Flags, v: int) -> bool:
    return not is_leaf(tree, v) and marks[v] == 1


@kernel
def _cut(tree: Links, work: Work) -> int:
    if work.is_local:
        _look_below(tree, work)
    _split_down(tree, work)
    if work.is_local:
        _join_up(tree, work)
    if is_leaf(tree, tree.head[ROOT]):
        work.found[0] = tree.head[ROOT]
        return 1
    return _collect(tree, work)


@jitable
def _look_below(tree: Links, work: Work) -> None:
    """Clear the marks of nodes that are not the same any more; ``below``: whether a split node is at or below one."""
    for i in range(work.nodes.shape[0]):
        v = work.nodes[i]
        if work.oldest[v] == work.oldest_before[i]:
            work.below[v] = work.marks[v]
            continue
        work.marks[v] = work.exempt[v] = work.below[v] = 0
        for child in (left(tree, v), right(tree, v)):
            if not is_leaf(tree, child):
                is_in = work.met[child] == work.now
                work.below[v] |= work.below[child] if is_in else work.marks[child]


@jitable
def _split_down(tree: Links, work: Work) -> None:
    """Decide from the top which nodes of the region are split, and which of the others come above the cut."""
    marks = work.marks
    for i in range(work.nodes.shape[0] - 1, -1, -1):
        v = work.nodes[i]
        p = parent(tree, v)
        if p != NONE and marks[p] == 0:
            marks[v] = 0
        elif work.is_local and work.below[v] == 1:
            marks[v] = 1
        else:
            marks[v] = 1 if _wants_split(work, v) else 0
        for child in (left(tree, v), right(tree, v)):
            if is_leaf(tree, child) or work.met[child] == work.now:
                continue
            if marks[v] == 0 and marks[child] == 1:
                _unmark(tree, marks, child, work.stack)
            elif marks[v] == 1 and marks[child] == 0:
                _split_further(tree, work, child)


@jitable
def _unmark(tree: Links, marks: Flags, v: int, stack: Slots) -> None:
    """Unmark what is split at or below v, which came into a cluster."""
    stack[0], n = v, 1
    while n > 0:
        n -= 1
        v = stack[n]
        marks[v] = 0
        for child in (left(tree, v), right(tree, v)):
            if _is_split(tree, marks, child):
                stack[n] = child
                n += 1


@jitable
def _split_further(tree: Links, work: Work, v: int) -> None:
    """Split node v, which was in a cluster or is one, if it is too high, and so on below it."""
    stack, n = work.stack, 1
    stack[0] = v
    while n > 0:
        n -= 1
        v = stack[n]
        if not is_leaf(tree, v) and work.marks[v] == 0 and _wants_split(work, v):
            work.marks[v] = 1
            stack[n], stack[n + 1] = left(tree, v), right(tree, v)
            n += 2


@jitable
def _join_up(tree: Links, work: Work) -> None:
    """Make two clusters side by side one where their node is low enough."""
    marks, exempt = work.marks, work.exempt
    for i in range(work.nodes.shape[0]):
        v = work.nodes[i]
        is_high = _is_high(work, v)
        has_parts = _is_split(tree, marks, left(tree, v)) or _is_split(tree, marks, right(tree, v))
        if marks[v] == 1 and not is_high and exempt[v] == 0 and not has_parts:
            marks[v] = 0
        if is_high == (marks[v] == 1):
            exempt[v] = 0


@jitable
def _collect(tree: Links, work: Work) -> int:
    """Find the clusters of the region, those at its lower edge among them."""
    stack, found, n_found = work.stack, work.found, 0
    for i in range(work.nodes.shape[0] - 1, -1, -1):
        v = work.nodes[i]
        p = parent(tree, v)
        if p != NONE and work.marks[p] == 0:
            continue
        n = 0
        if work.marks[v] == 0:
            found[n_found] = v
            n_found += 1
            continue
        for child in (left(tree, v), right(tree, v)):
            if is_leaf(tree, child) or work.met[child] != work.now:
                stack[n] = child
                n += 1
        while n > 0:
            n -= 1
            u = stack[n]
            if not _is_split(tree, work.marks, u):
                found[n_found] = u
                n_found += 1
            elif work.owners[u] != ABOVE:
                # It was in a cluster before, and is split now.
                stack[n], stack[n + 1] = left(tree, u), right(tree, u)
                n += 2
    return n_found


# Levels -------------------------------------------------------------------------------------------------------------


def raise_levels(links: Links, region: Region, arrays: Arrays, levels: Floats) -> None:
    """Sum up the levels of points. A point without one (nan) gets the mean of the smallest group that has any."""
    _raise_levels(links, region.nodes, region.met, region.now, arrays["counts"], levels)


@kernel
def _raise_levels(tree: Links, nodes: Slots, met: Ids, now: int, counts: Ids, levels: Floats) -> None:
    """Sum up; sums over nodes without any level are nan, until their points have got one from above."""
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
    is_single = ends < links.offset
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
    """Exempt the nodes of the cut that are not as their levels say."""
    nodes = np.concatenate([np.flatnonzero(marks), ends[ends >= links.offset]])
    is_high = -arrays["scores"][nodes] > local.levels[nodes] / arrays["counts"][nodes]
    local.exempt[:] = 0
    local.exempt[nodes] = is_high != (marks[nodes] == 1)


# A cut that was made ------------------------------------------------------------------------------------------------


@kernel
def raise_parts(tree: Links, nodes: Slots, parts: Labels, unknown: int) -> None:
    """Fill in the part that all known points under these nodes are in, children first; ABOVE where there are several.

    Points that are ``unknown`` are in the part that they stand in.
    """
    for i in range(nodes.shape[0]):
        a, b = parts[left(tree, nodes[i])], parts[right(tree, nodes[i])]
        parts[nodes[i]] = a if a == b or b == unknown else b if a == unknown else ABOVE


@kernel
def split_high(tree: Links, nodes: Slots, scores: Floats, counts: Ids, levels: Floats, marks: Flags) -> None:
    """Split these nodes, and what is below them, where they are higher than their levels."""
    for i in range(nodes.shape[0]):
        top = nodes[i]
        v = top
        while not is_leaf(tree, v) and -scores[v] > levels[v] / counts[v]:
            # One side after the other, down the left and up again: nothing is allocated.
            marks[v] = 1
            v = left(tree, v)
        while v != top:
            p = parent(tree, v)
            if right(tree, p) == v:
                v = p
                continue
            v = right(tree, p)
            while not is_leaf(tree, v) and -scores[v] > levels[v] / counts[v]:
                marks[v] = 1
                v = left(tree, v)


# A cut of the whole tree --------------------------------------------------------------------------------------------


def whole_nodes(links: Links, marks: Flags, others: Slots | None = None) -> Slots:
    """Return the nodes that a cut leaves whole, by the marks of those above it; without some others."""
    n, is_known = links.n_leaves, np.zeros(len(links.table), np.uint8)
    if others is not None:
        is_known[others] = 1
    found = np.empty(n, np.intp)
    return found[: _fill_whole(links, marks, is_known, np.empty(n + 1, np.intp), found) if n else 0]


@kernel
def _fill_whole(tree: Links, marks: Flags, is_known: Flags, stack: Slots, found: Slots) -> int:
    """Fill in the nodes in the order of their parents, which are visited from above and from the left."""
    root, n, count = tree.head[ROOT], 0, 0
    if _is_split(tree, marks, root):
        stack[0], n = root, 1
    elif is_known[root] == 0:
        found[0], count = root, 1
    while n > 0:
        n -= 1
        v = stack[n]
        for child in (left(tree, v), right(tree, v)):
            if not _is_split(tree, marks, child) and is_known[child] == 0:
                found[count] = child
                count += 1
        for child in (right(tree, v), left(tree, v)):
            if _is_split(tree, marks, child):
                stack[n] = child
                n += 1
    return count


# Into a number of clusters ------------------------------------------------------------------------------------------


def cut_by_key(links: Links, region: Region, counts: Ids, keys: Floats, ceiling: float | None, k: int) -> Slots:
    """Return the nodes that the cut by height into ``k`` clusters leaves whole; ``keys`` are by node."""
    _raise_keys(links, region.scores, np.inf if ceiling is None else float(ceiling), region.nodes, keys)
    return _ends(links, keys, keys, counts, -np.inf, k)[0]


def cut_sizeable(
    links: Links, region: Region, arrays: Arrays, splits: Splits, ceiling: float | None, n_clusters: int, min_size: int
) -> tuple[Slots, Slots, int]:
    """Return the nodes that the cut by sizeable splits leaves whole, the cluster of each, and the number of clusters.

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
    return _ends(links, splits.keys, splits.best, splits.counts, 0.0, n_clusters)


def _ends(links: Links, keys: Floats, best: Floats, counts: Numbers, least: float, k: int) -> tuple[Slots, Slots, int]:
    """Return the nodes that a cut into ``k`` clusters leaves whole, the cluster of each, and the number of clusters."""
    ends = new_ends(links.n_leaves, len(links.table))
    n, n_ends = find_ends(links, keys, best, counts, least, k, ends) if len(ends.nodes) else (0, 0)
    return ends.nodes[:n_ends].astype(np.intp), ends.clusters[:n_ends].astype(np.intp), n


@kernel
def _raise_keys(tree: Links, scores: Floats, ceiling: float, nodes: Slots, keys: Floats) -> None:
    """Fill in the keys of these nodes, which come children first and have these scores."""
    for i in range(nodes.shape[0]):
        v = nodes[i]
        below = max(keys[left(tree, v)], keys[right(tree, v)])
        keys[v] = max(-min(scores[i], ceiling), below)
