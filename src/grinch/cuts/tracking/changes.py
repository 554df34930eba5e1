"""Changes of clusters from one version to the next.

Four kinds of change together say which clusters have other points:

=========  =========================================================================================================
born       a cluster with an id that was never given before; ``count`` is its size, ``others`` the clusters that its
           points were in
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

from grinch._compile import kernel
from grinch._types import Counts, Labels, Slots
from grinch.cuts.tracking.identity import pair_starts
from grinch.tree.links import NONE, Links, is_leaf, left, right

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
