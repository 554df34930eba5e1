"""Ids of clusters that stay from one version of a cut to the next.

The rule: cluster B after a change is cluster A before it if

1. of all clusters before, A has the most of the points of B that were there before (of equals, the one with the
   smallest id),
2. of all clusters after, B has the most of the points of A that are still there (of equals, the one with the oldest
   point), and
3. B has at least a third of the points of A that are still there.

Then B has the id of A; every other cluster gets an id that was never given. So a cluster that is split continues in its
largest part, one that was merged has the id of the part with the most points, a cluster that falls into more than three
even parts ends, and to remove points gives no cluster another id.

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
from grinch.tree.links import NONE, PARENT, Links, is_leaf, left, parent, right

# A cluster continues only in one that has at least this share of its points: one over this number.
MIN_SHARE = 3
NO_CLUSTER = -1


def match(old: Labels, new: Slots, counts: Counts, oldest: Counts) -> Labels:
    """Return the id that each new cluster keeps, or -1.

    Parameters
    ----------
    old, new, counts : arrays of the same length
        How many points went from cluster ``old[i]`` (an id) to cluster ``new[i]`` (a number from 0 on). Each pair of
        the two at most once; all points that are still there, of every old cluster that is named.
    oldest : array
        By new cluster, the position of its oldest point.

    Returns
    -------
    array
        By new cluster, an id of ``old``, none of them twice; or -1.

    Examples
    --------
    Cluster 7 falls into parts of 4 and 2 points, and cluster 8 of 1 point joins the smaller part:

    >>> match(np.array([7, 7, 8]), np.array([0, 1, 1]), np.array([4, 2, 1]), oldest=np.array([0, 3])).tolist()
    [7, -1]
    """
    kept = np.full(len(oldest), NO_CLUSTER, np.int64)
    if not len(old):
        return kept
    best_new = _first_of_each(old, np.lexsort((oldest[new], -counts, old)))
    best_old = _first_of_each(new, np.lexsort((old, -counts, new)))
    ids, number = np.unique(old, return_inverse=True)
    left = np.zeros(len(ids), np.int64)
    np.add.at(left, number, counts)
    both = np.intersect1d(best_new, best_old)
    both = both[MIN_SHARE * counts[both] >= left[number[both]]]
    kept[new[both]] = old[both]
    return kept


def _first_of_each(groups: Labels, order: Slots) -> Slots:
    """Return the first of each group in this order, in which groups are in one piece."""
    return order[np.append(True, groups[order][1:] != groups[order][:-1])]


def pair_starts(old: Labels, new: Labels) -> Slots:
    """Return the positions at which each pair of an old and a new cluster begins, of pairs in order."""
    return np.flatnonzero(np.append(len(old) > 0, (old[1:] != old[:-1]) | (new[1:] != new[:-1]))[: len(old)])


def summed(old: Labels, new: Slots, counts: Counts) -> tuple[Labels, Slots, Counts]:
    """Return each pair of an old and a new cluster once, with the sum of its counts."""
    order = np.lexsort((new, old))
    old, new = old[order], new[order]
    starts = pair_starts(old, new)
    return old[starts], new[starts], np.add.reduceat(counts[order], starts) if len(starts) else counts


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
    """Fill in the cluster that all points under these nodes were in, children first; ABOVE where there are several."""
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
    n = links.n_leaves
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
    """Give clusters their ids, by their pieces, and mark what is above them as ABOVE."""
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
