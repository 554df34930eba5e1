"""What became of clusters from one version to a later one, from the changes in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from grinch.cuts.tracking import Change


class ChangeSummary(NamedTuple):
    """The changes that are left when what came and went in between is taken away."""

    changes: list[Change]
    """At most one of each kind for a cluster; "moved" is a cluster of the same size with some other points."""
    before: dict[int, int]
    """How many points each cluster had that there was then and that changed since."""
    sizes: dict[int, int]
    """How many points each cluster that changed has now."""
    passing: int
    """Clusters that were born and dissolved in between."""


def summarize_changes(found: Sequence[Change]) -> ChangeSummary:
    """Add up changes, which are in order and of one cut."""
    by_cluster: dict[int, list[Change]] = {}
    for change in found:
        by_cluster.setdefault(change.cluster, []).append(change)
    history = History(by_cluster)
    changes: list[Change] = []
    passing = 0
    for cluster, own in sorted(by_cluster.items()):
        if cluster in history.born and cluster in history.dissolved:
            passing += 1
        elif cluster in history.dissolved:
            changes += history.ended(cluster)
        elif cluster in history.born:
            changes += history.began(cluster)
        else:
            changes += history.lived(cluster)
        renamed = [change for change in own if change.kind == "renamed"]
        if renamed and cluster not in history.dissolved:
            changes.append(replace(renamed[-1], size=own[-1].size))
    return ChangeSummary(changes, history.before, history.sizes, passing)


class History:
    """What is known of each cluster that changed."""

    def __init__(self, by_cluster: dict[int, list[Change]]):
        self.by_cluster = by_cluster
        self.born = {cluster: own[0] for cluster, own in by_cluster.items() if own[0].kind == "born"}
        self.dissolved = {
            cluster: change for cluster, own in by_cluster.items() for change in own if change.kind == "dissolved"
        }
        self.sizes = {cluster: own[-1].size for cluster, own in by_cluster.items() if cluster not in self.dissolved}
        self.before = {cluster: _size_before(own) for cluster, own in by_cluster.items() if cluster not in self.born}
        # By cluster, that which it was split off from, or went into.
        self.parent = self._links("split", self.born)
        self.taker = self._links("merged", self.dissolved)
        self.parts = self._gathered(self.parent, [cluster for cluster in self.born if cluster not in self.dissolved])
        self.merged = self._gathered(self.taker, [cluster for cluster in self.dissolved if cluster not in self.born])
        self.told_as_part = {part for parts in self.parts.values() for part in parts}
        self.told_as_merged = {gone for merged in self.merged.values() for gone in merged}

    def _links(self, kind: str, known: dict[int, Change]) -> dict[int, int]:
        links: dict[int, int] = {}
        for cluster, own in self.by_cluster.items():
            for change in own:
                if change.kind == kind:
                    links |= {other: cluster for other in change.others if other in known}
        return links

    def _gathered(self, links: dict[int, int], clusters: list[int]) -> dict[int, list[int]]:
        """By cluster that there was then and is now, those that are linked to it, also by way of others."""
        gathered: dict[int, list[int]] = {}
        for cluster in clusters:
            at, seen = cluster, {cluster}
            while at in links and links[at] not in seen:
                at = links[at]
                seen.add(at)
            if at != cluster and at not in self.dissolved and (links is self.taker or at not in self.born):
                gathered.setdefault(at, []).append(cluster)
        return gathered

    def lived(self, cluster: int) -> list[Change]:
        """Of a cluster that there was then and is now."""
        own, size, parts = self.by_cluster[cluster], self.sizes[cluster], self.parts.get(cluster, [])
        last, told = own[-1], []
        if parts:
            parts = sorted(parts, key=lambda part: (-self.sizes[part], part))
            count = sum(self.sizes[part] for part in parts)
            told.append(replace(last, kind="split", others=tuple(parts), count=count))
        told += self._merged(cluster)
        came = [change for change in own if change.kind == "grew"]
        left = [change for change in own if change.kind == "shrank"]
        if told or not (came or left):
            return told
        count = size - self.before[cluster]
        kind = "grew" if count > 0 else "shrank" if count else "moved"
        count = abs(count) or sum(change.count for change in came)
        some = (came or left)[-1].exemplars
        return [replace(last, kind=kind, others=(), count=count, exemplars=some)]

    def began(self, cluster: int) -> list[Change]:
        """Of a cluster that there was not then and is now."""
        first = self.born[cluster]
        merged = self._merged(cluster)
        if merged or cluster in self.told_as_part:
            return merged
        others = tuple(other for other in first.others if other in self.before or other not in self.by_cluster)
        size = self.sizes[cluster]
        return [
            replace(self.by_cluster[cluster][-1], kind="born", others=others, count=size, exemplars=first.exemplars)
        ]

    def ended(self, cluster: int) -> list[Change]:
        """Of a cluster that there was then and is not now."""
        last = self.dissolved[cluster]
        if cluster in self.told_as_merged:
            return []
        return [replace(last, others=self._where(cluster), count=self.before[cluster])]

    def _merged(self, cluster: int) -> list[Change]:
        gone = self.merged.get(cluster, [])
        if not gone:
            return []
        gone = sorted(gone, key=lambda other: (-self.before[other], other))
        last = self.by_cluster[cluster][-1]
        return [replace(last, kind="merged", others=tuple(gone), count=sum(self.before[other] for other in gone))]

    def _where(self, cluster: int) -> tuple[int, ...]:
        """The clusters there are now that points of a dissolved one went to."""
        found: dict[int, None] = {}
        waiting, seen = [*self.dissolved[cluster].others], {cluster}
        while waiting:
            at = waiting.pop(0)
            if at in seen:
                continue
            seen.add(at)
            if at in self.dissolved:
                waiting += self.dissolved[at].others
            else:
                found[at] = None
        return tuple(found)


def _size_before(own: list[Change]) -> int:
    """How many points a cluster had before the first of its changes."""
    first = [change for change in own if change.version == own[0].version]
    if any(change.kind == "dissolved" for change in first):
        return next(change.count for change in first if change.kind == "dissolved")
    came = sum(change.count for change in first if change.kind == "grew")
    left = sum(change.count for change in first if change.kind == "shrank")
    return first[-1].size - came + left
