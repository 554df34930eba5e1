"""A summary of the changes of clusters from one version to a later one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from grinch.cuts.tracking import Change


class ChangeSummary(NamedTuple):
    """The changes that remain when those that cancel each other are left out."""

    changes: list[Change]
    """At most one of each kind for a cluster; "exchanged" is a cluster of the same size with some other points."""
    before: dict[int, int]
    """The number of points before, of each cluster that existed then and changed since."""
    sizes: dict[int, int]
    """The number of points now, of each cluster that changed."""
    passing: int
    """The number of clusters that were born and dissolved in between."""
    exemplars: dict[int, tuple[int | str, ...]]
    """A few points of each cluster that changed, also of those that are gone."""


def told_once(found: Sequence[Change]) -> list[Change]:
    """Return the changes of one version and one cut without what others of them say.

    What was split off was not born and did not shrink the rest, too; what was absorbed did not dissolve, and made the
    other one grow; a cluster that was born did not absorb those it was born of. So every cluster begins once, as born
    or split off, and ends once, as dissolved or absorbed.
    """
    born = {change.cluster for change in found if change.kind == "born"}
    found = [change for change in found if change.kind != "merged" or change.cluster not in born]
    within = {kind: {c.cluster: c for c in found if c.kind == kind} for kind in ("split", "merged")}
    begun, ended = ({other for c in own.values() for other in c.others} for own in within.values())
    told = []
    for change in found:
        same = within["merged" if change.kind == "grew" else "split"].get(change.cluster)
        if change.kind in ("grew", "shrank") and same is not None:
            others = tuple(other for other in change.others if other not in same.others)
            change = replace(change, others=others, count=change.count - same.count)
        is_said = change.cluster in {"born": begun, "dissolved": ended}.get(change.kind, ())
        if not is_said and (change.count > 0 or change.kind not in ("grew", "shrank")):
            told.append(change)
    return told


def summarize_changes(found: Sequence[Change]) -> ChangeSummary:
    """Summarize changes, which are in order and of one cut."""
    by_cluster: dict[int, list[Change]] = {}
    for change in found:
        by_cluster.setdefault(change.cluster, []).append(change)
    history, changes = History(by_cluster), list[Change]()
    for cluster, own in sorted(by_cluster.items()):
        changes += history.summary(cluster)
        renamed = [change for change in own if change.kind == "renamed"]
        if renamed and cluster not in history.dissolved:
            changes.append(replace(renamed[-1], size=own[-1].size))
    passing = len(history.born.keys() & history.dissolved.keys())
    exemplars = {
        cluster: next((change.exemplars for change in reversed(own) if change.exemplars), ())
        for cluster, own in by_cluster.items()
    }
    return ChangeSummary(changes, history.before, history.sizes, passing, exemplars)


class History:
    """The history of each cluster that changed."""

    def __init__(self, by_cluster: dict[int, list[Change]]):
        self.by_cluster = by_cluster
        # That were not there before, and that are not there now; clusters of an automatic cut can come back.
        self.born = {cluster: _last(own, "born") for cluster, own in by_cluster.items() if own[0].kind == "born"}
        self.dissolved = {
            cluster: _last(own, "dissolved") for cluster, own in by_cluster.items() if not _exists_after(own)
        }
        self.sizes = {cluster: own[-1].size for cluster, own in by_cluster.items() if cluster not in self.dissolved}
        self.before = {cluster: _size_before(own) for cluster, own in by_cluster.items() if cluster not in self.born}
        # By cluster that still exists, the clusters that were split off from it, and those that it absorbed.
        self.parts = self._gathered("split", self.born, self.dissolved.keys() | self.born.keys())
        self.absorbed = self._gathered("merged", self.dissolved, self.dissolved.keys() | self.born.keys())
        self.reported = {other for others in (*self.parts.values(), *self.absorbed.values()) for other in others}

    def _gathered(self, kind: str, known: dict[int, Change], excluded: Set[int]) -> dict[int, list[int]]:
        """Return, by cluster, those that are linked to it by changes of a kind, also by way of others."""
        links = {
            other: cluster
            for cluster, own in self.by_cluster.items()
            for change in own
            if change.kind == kind
            for other in change.others
            if other in known
        }
        gathered: dict[int, list[int]] = {}
        for cluster in known.keys() - (self.born.keys() & self.dissolved.keys()):
            at, seen = cluster, {cluster}
            while at in links and links[at] not in seen:
                at = links[at]
                seen.add(at)
            if at != cluster and at not in excluded:
                gathered.setdefault(at, []).append(cluster)
        return gathered

    def summary(self, cluster: int) -> list[Change]:
        """Return the changes of a cluster from the first version to the last."""
        is_new, is_gone, last = cluster in self.born, cluster in self.dissolved, self.by_cluster[cluster][-1]
        if is_new and is_gone:
            return []
        if is_gone:
            ended = replace(self.dissolved[cluster], others=self._heirs(cluster), count=self.before[cluster])
            return [] if cluster in self.reported else [ended]
        changes = _joined(last, "split", self.parts.get(cluster), self.sizes)
        changes += _joined(last, "merged", self.absorbed.get(cluster), self.before)
        if changes or cluster in self.reported:
            return changes
        if not is_new:
            return self._moved(cluster)
        born = self.born[cluster]
        others = tuple(other for other in born.others if other in self.before or other not in self.by_cluster)
        return [replace(last, kind="born", others=others, count=self.sizes[cluster], exemplars=born.exemplars)]

    def _moved(self, cluster: int) -> list[Change]:
        """Return that points came to a cluster, or left it."""
        own = self.by_cluster[cluster]
        came, left = ([change for change in own if change.kind == kind] for kind in ("grew", "shrank"))
        count = self.sizes[cluster] - self.before[cluster]
        if not (came or left or count):
            return []
        kind = "grew" if count > 0 else "shrank" if count else "exchanged"
        count = abs(count) or sum(change.count for change in came or left)
        return [replace(own[-1], kind=kind, others=(), count=count, exemplars=(came or left or own)[-1].exemplars)]

    def _heirs(self, cluster: int) -> tuple[int, ...]:
        """Return the clusters that exist now and got points of a dissolved one."""
        heirs: dict[int, None] = {}
        waiting, seen = [*self.dissolved[cluster].others], {cluster}
        while waiting:
            at = waiting.pop(0)
            if at in seen:
                continue
            seen.add(at)
            if at in self.dissolved:
                waiting += self.dissolved[at].others
            else:
                heirs[at] = None
        return tuple(heirs)


def _last(own: list[Change], kind: str) -> Change:
    return next(change for change in reversed(own) if change.kind == kind)


def _exists_after(own: list[Change]) -> bool:
    """Return whether a cluster exists after the last of its changes."""
    return next((change.kind for change in reversed(own) if change.kind in ("born", "dissolved")), "") != "dissolved"


def _joined(last: Change, kind: str, others: list[int] | None, sizes: Mapping[int, int]) -> list[Change]:
    """Return the change that a cluster was split into others, or absorbed them; the largest come first."""
    if not others:
        return []
    ordered = sorted(others, key=lambda other: (-sizes[other], other))
    return [replace(last, kind=kind, others=tuple(ordered), count=sum(sizes[other] for other in ordered))]


def _size_before(own: list[Change]) -> int:
    """Return the number of points of a cluster before the first of its changes."""
    first = [change for change in own if change.version == own[0].version]
    dissolved = [change.count for change in first if change.kind == "dissolved"]
    if dissolved:
        return dissolved[0]
    came = sum(change.count for change in first if change.kind == "grew")
    left = sum(change.count for change in first if change.kind == "shrank")
    return first[-1].size - came + left
