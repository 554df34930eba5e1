"""From which clusters the points of a cut came, and the ids that its clusters get.

``owners`` has, by node, the cluster that all points under the node are in; above the cut it is ABOVE. So where a change
puts a large group under another node, one look at the group says where all its points were before, and if they stay in
the same cluster nothing is written to any of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._compile import jitable, kernel
from grinch._types import Counts, Flags, Ids, Labels, Slots, as_id
from grinch.cuts.tracking.follower import Arrays, Region
from grinch.cuts.tracking.ids import NO_CLUSTER, match, summed
from grinch.tree.links import LEAVES, NONE, PARENT, Links, is_leaf, left, parent, right

# Owners: of nodes above the cut, whose points are in several clusters; and of points that are new.
ABOVE, NEW = -1, -2


class Pieces(NamedTuple):
    """Parts of new clusters whose points were all in one cluster before.

    ``nodes``: the node of each; ``ends``: the number of the new cluster it is in; ``owners``: the cluster before.
    """

    nodes: Slots
    ends: Slots
    owners: Labels


@kernel
def raise_owners(tree: Links, nodes: Slots, owners: Labels) -> None:
    """Find the cluster that all points under these nodes were in, children first; ABOVE where there are several."""
    for i in range(nodes.shape[0]):
        a, b = owners[left(tree, nodes[i])], owners[right(tree, nodes[i])]
        owners[nodes[i]] = a if a == b else ABOVE


def without_same(links: Links, ends: Slots, region: Region, owners: Labels, was_above: Flags) -> Slots:
    """Return the clusters that may have changed: the others were clusters before, and nothing moved in them.

    ``was_above`` has, for the nodes of the region, whether they were above the cut before.
    """
    above = links.table[ends, PARENT]
    is_met = (region.met[above] == region.now) & (above != NONE)
    is_same = np.where(is_met, was_above[above] == 1, (owners[above] == ABOVE) | (above == NONE))
    is_same &= region.met[ends] != region.now
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
    """Return the owners of the parents of these nodes; ABOVE for the root."""
    above = links.table[nodes, PARENT]
    return np.where(above == NONE, ABOVE, owners[above])


def pieces_of(links: Links, ends: Slots, owners: Labels) -> Pieces:
    """Return the parts of these clusters by where their points were before."""
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


def settle(
    links: Links, arrays: Arrays, owners: Labels, ends: Slots, clusters: Slots | None, next_id: int
) -> tuple[Pieces, Labels, int]:
    """Give the clusters of these nodes their ids; return where their points were, the ids by node, and the next id.

    Without ``clusters``, the number of the cluster of each node, each is one.
    """
    if not len(ends):
        nothing = np.empty(0, np.intp)
        return Pieces(nothing, nothing, np.empty(0, np.int64)), np.empty(0, np.int64), next_id
    clusters = np.arange(len(ends)) if clusters is None else clusters
    pieces, oldest = pieces_of(links, ends, owners), np.full(clusters.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(oldest, clusters, arrays["oldest"][ends])
    is_known = pieces.owners >= 0
    counts = arrays["counts"][pieces.nodes[is_known]].astype(np.int64)
    ids = match(*summed(pieces.owners[is_known], clusters[pieces.ends[is_known]], counts), oldest)
    fresh = np.flatnonzero(ids == NO_CLUSTER)
    ids[fresh[np.argsort(oldest[fresh])]] = next_id + np.arange(len(fresh))
    relabel(links, ends, ids[clusters], pieces.nodes, pieces.ends, owners)
    return pieces, ids[clusters], next_id + len(fresh)


def oldest_under(links: Links, oldest: Counts, groups: list[list[int]], most: int) -> list[list[int]]:
    """Return the positions of the few oldest points under the nodes of each group, from the oldest on."""
    rows = np.full((len(groups), most), NONE)
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
