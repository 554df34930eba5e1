"""Ids of clusters that stay from one version of a cut to the next, and what changed.

The rule: cluster B after a change is cluster A before it if

1. of all clusters before, A has the most of the points of B that were there before (of equals, the one with the
   smallest id),
2. of all clusters after, B has the most of the points of A that are still there (of equals, the one with the oldest
   point), and
3. B has at least a third of the points of A that are still there.

Then B has the id of A; every other cluster gets an id that was never given. So a cluster that is split continues in its
largest part, one that was merged has the id of the part with the most points, a cluster that falls into more than three
even parts ends, and to remove points gives no cluster another id.

Of an automatic cut, a cluster that dissolved in the last ten cuts comes back: B has the id of such a cluster A instead
if the points that A had, as far as they are there, and those of B share at least three fifths of the larger of the two,
unless B shares as many with the cluster that it is by the rule above, or is much the same as that by the same measure.

``owners`` has, by node, the cluster that all points under the node are in; above the cut it is ABOVE. So where a change
puts a large group under another node, one look at the group says where all its points were before, and if they stay in
the same cluster nothing is written to any of them.

Four kinds of change together say which clusters have other points:

=========  =========================================================================================================
born       a cluster with an id that no cluster had before, new or one that came back; ``count`` is its size,
           ``others`` the clusters that its points were in
dissolved  a cluster that is no more; ``count`` is how many points it had, ``others`` the clusters they went to
grew       ``count`` points came to a cluster that continues; ``others`` are the clusters they were in
shrank     ``count`` points left a cluster that continues; ``others`` are the clusters they went to
=========  =========================================================================================================

A cluster can have grown and shrunk at once; one with none of the four has the same points as before. Two more kinds add
to these:

=========  =========================================================================================================
split      part of a cluster that continues is a cluster of its own now: ``others`` are those that were born of it, and
           ``count`` how many of its points they have
merged     clusters that are no more went into this one, more of each than into any other: ``others`` are these, and
           ``count`` is how many points came from them
=========  =========================================================================================================

``others`` are in the order of how many points they share with the cluster, the most first. A point that came from
nowhere, or was removed, is counted and has no other cluster. Records are in the order of the clusters' ids, and of the
kinds in :data:`KINDS`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from grinch._compile import jitable, kernel
from grinch._types import Counts, Flags, Ids, Labels, Slots, as_id
from grinch.cuts.tracking.dissolved import Dissolved, are_much_the_same
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
    links: Links,
    arrays: Arrays,
    owners: Labels,
    ends: Slots,
    clusters: Slots | None,
    next_id: int,
    dissolved: Dissolved | None = None,
) -> tuple[Pieces, Labels, int]:
    """Give the clusters of these nodes their ids; return where their points were, the ids by node, and the next id.

    Without ``clusters``, the number of the cluster of each node, each is one. ``dissolved`` are those that can come
    back; the ones that dissolve now are added.
    """
    if not len(ends):
        nothing = np.empty(0, np.intp)
        return Pieces(nothing, nothing, np.empty(0, np.int64)), np.empty(0, np.int64), next_id
    clusters = np.arange(len(ends)) if clusters is None else clusters
    pieces, oldest = pieces_of(links, ends, owners), np.full(clusters.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(oldest, clusters, arrays["oldest"][ends])
    is_known = pieces.owners >= 0
    counts = arrays["counts"][pieces.nodes[is_known]].astype(np.int64)
    pairs = summed(pieces.owners[is_known], clusters[pieces.ends[is_known]], counts)
    ids = match(*pairs, oldest)
    if dissolved is not None:
        if not dissolved.is_empty:
            sizes = np.bincount(clusters, arrays["counts"][ends]).astype(np.int64)
            shared = _shared_with_same(*pairs, ids, sizes)
            new, old = dissolved.come_back(links, arrays["oldest"], ends, clusters, sizes, shared)
            ids[new] = old
        is_gone = is_known & ~np.isin(pieces.owners, ids)
        dissolved.add(links, arrays["oldest"], pieces.nodes[is_gone], pieces.owners[is_gone])
    fresh = np.flatnonzero(ids == NO_CLUSTER)
    ids[fresh[np.argsort(oldest[fresh])]] = next_id + np.arange(len(fresh))
    relabel(links, ends, ids[clusters], pieces.nodes, pieces.ends, owners)
    return pieces, ids[clusters], next_id + len(fresh)


def _shared_with_same(old: Labels, new: Slots, counts: Counts, ids: Labels, sizes: Counts) -> Counts:
    """Return, by new cluster, how many of its points the cluster had that it is now; its size if much the same."""
    shared, larger, is_same = np.zeros(len(ids), np.int64), sizes.copy(), ids[new] == old
    known, number = np.unique(old, return_inverse=True)
    left = np.bincount(number, counts, len(known)).astype(np.int64)
    shared[new[is_same]], larger[new[is_same]] = counts[is_same], left[number[is_same]]
    return np.where(are_much_the_same(shared, sizes, larger), sizes, shared)


# What changed --------------------------------------------------------------------------------------------------------

KINDS = ("born", "dissolved", "split", "merged", "grew", "shrank")
# Points that were in no cluster before.
NOWHERE = -1
# The number of points that a change shows.
N_EXEMPLARS = 3


@dataclass(frozen=True)
class Change:
    """A change of a cluster.

    ``version``: the version in which it happened; ``cut``: the name of the cut; ``kind``: one of :data:`KINDS`;
    ``cluster``: its id; ``others``: ids of the other clusters involved; ``size``: the number of its points now;
    ``count``: the number of points that the change is about; ``exemplars``: the positions of a few of them, the
    oldest first.

    >>> Change(3, "news", "split", cluster=7, others=(12,), size=40, count=9, exemplars=(4, 17, 20)).kind
    'split'
    """

    version: int
    cut: str
    kind: str
    cluster: int
    others: tuple[int, ...]
    size: int
    count: int
    exemplars: tuple[int | str, ...] = ()


class Parts(NamedTuple):
    """Moves of points: ``counts[i]`` points of cluster ``old[i]`` are in cluster ``new[i]`` now.

    Both are ids; NOWHERE as the old one for new points. Each pair is there at most once. ``removed``: by old cluster,
    the number of points that were removed.
    """

    old: Labels
    new: Labels
    counts: Counts
    removed: dict[int, int]


class Found(NamedTuple):
    """A change, and the parts it is about; ``removed``: whether removed points are among them."""

    kind: str
    cluster: int
    others: tuple[int, ...]
    size: int
    n_points: int
    parts: tuple[int, ...]
    removed: bool = False


def _of_clusters_that_changed(parts: Parts) -> Slots:
    """Return the parts of clusters that have other points than before, the largest first: mostly few of very many."""
    has_moved = parts.old != parts.new
    removed = np.fromiter(parts.removed, np.int64, len(parts.removed))
    changed = np.unique(np.concatenate([parts.old[has_moved], parts.new[has_moved], removed]))
    some = np.flatnonzero(np.isin(parts.old, changed) | np.isin(parts.new, changed))
    return some[np.lexsort((parts.new[some], parts.old[some], -parts.counts[some]))]


def find_changes(parts: Parts) -> list[Found]:
    """Return the changes that made one set of clusters of another.

    >>> import numpy as np
    >>> parts = Parts(np.array([7, 7, 8]), np.array([7, 9, 9]), np.array([4, 2, 1]), removed={})
    >>> for change in find_changes(parts):
    ...     print(change.kind, change.cluster, change.others, change.size, change.n_points)
    split 7 (9,) 4 2
    shrank 7 (9,) 4 2
    dissolved 8 (9,) 0 1
    born 9 (7, 8) 3 3
    """
    into: dict[int, list[int]] = defaultdict(list)
    out_of: dict[int, list[int]] = defaultdict(list)
    sizes: dict[int, int] = defaultdict(int)
    old, new, counts = parts.old.tolist(), parts.new.tolist(), parts.counts.tolist()
    for i in _of_clusters_that_changed(parts).tolist():
        into[new[i]].append(i)
        sizes[new[i]] += counts[i]
        out_of[old[i]].append(i)
    out_of.pop(NOWHERE, None)
    is_old = {*out_of, *parts.removed}
    found = []

    def tell(kind: str, cluster: int, rows: list[int], others: list[int], removed: int = 0) -> None:
        count = removed + sum([counts[i] for i in rows])
        found.append(Found(kind, cluster, tuple(others), sizes.get(cluster, 0), count, tuple(rows), removed > 0))

    def is_largest_source(i: int) -> bool:
        return next(j for j in into[new[i]] if old[j] != NOWHERE) == i

    for cluster in sorted({*into, *is_old}):
        came = [i for i in into.get(cluster, ()) if old[i] != cluster]
        left = [i for i in out_of.get(cluster, ()) if new[i] != cluster]
        removed, sources = parts.removed.get(cluster, 0), [old[i] for i in came if old[i] != NOWHERE]
        targets = [new[i] for i in left]
        if cluster not in into:
            tell("dissolved", cluster, left, targets, removed)
            continue
        if cluster not in is_old:
            tell("born", cluster, came, sources)
        split = [i for i in left if new[i] not in is_old and is_largest_source(i)]
        if split:
            tell("split", cluster, split, [new[i] for i in split])
        merged = [i for i in came if old[i] != NOWHERE and old[i] not in into and out_of[old[i]][0] == i]
        if (merged and cluster in is_old) or len(merged) > 1:
            tell("merged", cluster, merged, [old[i] for i in merged])
        if came and cluster in is_old:
            tell("grew", cluster, came, sources)
        if left or removed:
            tell("shrank", cluster, left, targets, removed)
    return found


class Moved(NamedTuple):
    """The points of clusters that changed, in groups that moved together.

    By group: the cluster it was in (NOWHERE for new points), the one it is in, how many points it has, and the node
    above them. By point that was removed: the cluster it was in, and its position.
    """

    old: Labels
    new: Labels
    counts: Counts
    nodes: Slots
    removed_from: Labels
    removed: Counts

    def changes(self, links: Links, oldest: Counts, version: int, name: str) -> list[Change]:
        """Return what changed in the cut of this name, with a few points for each; ``oldest`` is by node."""
        if not len(self.old) and not len(self.removed):
            return []
        # The groups of each pair of clusters, those with the oldest points first.
        order = np.lexsort((oldest[self.nodes], self.new, self.old))
        old, new, nodes = self.old[order], self.new[order], self.nodes[order]
        starts = pair_starts(old, new)
        totals = np.add.reduceat(self.counts[order], starts) if len(starts) else self.counts
        clusters, n_removed = np.unique(self.removed_from, return_counts=True)
        removed = dict(zip(clusters.tolist(), n_removed.tolist(), strict=True))
        found = find_changes(Parts(old[starts], new[starts], totals, removed))
        few = [nodes[i : min(i + N_EXEMPLARS, j)].tolist() for i, j in pairwise([*starts.tolist(), len(old)])]
        groups = [
            few[change.parts[0]] if len(change.parts) == 1 else [node for part in change.parts for node in few[part]]
            for change in found
        ]
        changes = []
        for change, exemplars in zip(found, oldest_under(links, oldest, groups, N_EXEMPLARS), strict=True):
            if change.removed:
                gone = np.sort(self.removed[self.removed_from == change.cluster])[:N_EXEMPLARS]
                exemplars = sorted([*exemplars, *gone.tolist()])[:N_EXEMPLARS]
            changes.append(Change(version, name, *change[:5], tuple(exemplars)))
        return changes


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
