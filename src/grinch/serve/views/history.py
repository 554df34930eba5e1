"""What happened to the clusters, and when."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import TYPE_CHECKING, Any

from grinch.cuts.tracking import Change
from grinch.serve.sources import sampled
from grinch.store.change_summary import summarize_changes

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer

# Clusters that are listed, of those to which most happened; changes that are added up for that.
MOST_CHANGES, MOST_ADDED_UP = 500, 50_000
MOST_VERSIONS = 200


def changes(viewer: Viewer, since: int | None, day: str | None, cut: str | None) -> dict[str, Any]:
    """What became of clusters since a version, or since the beginning of a day; what happened to many points first."""
    scene = viewer.scene
    times = viewer.source.times()
    if day is not None:
        begin = _start_of(day)
        since = max((version for version, at in times.items() if at < begin), default=0)
    since = min(max(since or 0, 0), scene.version)
    # Only of cuts that are followed is it known what happened; also of a store whose points are all gone.
    followed = cut if cut and cut.startswith("cut:") else f"cut:{next(iter(scene.seen.cuts), 'default')}"
    found: list[Change] = []
    is_all = True
    if viewer.source.has_versions:
        found, is_all = viewer.source.changes(since, followed[4:], MOST_ADDED_UP, scene.version)
    net, named = summarize_changes(found[::-1]).changes, scene.seen.cluster_names.get(followed[4:], {})
    net.sort(key=lambda change: (change.cluster not in named, -max(change.count, 1), -change.version))
    chosen = scene.cut(followed) if scene.n and scene.seen.cuts else None
    at = {} if chosen is None else dict(zip(chosen.clusters.tolist(), range(len(chosen)), strict=True))

    def as_dict(change: Any) -> dict[str, Any]:
        i = at.get(change.cluster)
        v = None if i is None or chosen is None else int(chosen.nodes[i])
        return {
            "version": change.version,
            "time": times.get(change.version),
            "kind": change.kind,
            "cluster": change.cluster,
            "others": list(change.others),
            "size": change.size,
            "count": change.count,
            "title": f"cluster {change.cluster}" if v is None else viewer.title(scene, v, chosen),
            "node": v,
            "start": None if v is None else int(scene.starts[v]),
        }

    new = int(scene.fresh_before(since)[-1]) if scene.n else 0
    return {
        "version": scene.version,
        "since": since,
        "new_points": new,
        "counts": dict(Counter(change.kind for change in net)),
        "changes": [as_dict(change) for change in net[:MOST_CHANGES]],
        "truncated": not is_all or len(net) > MOST_CHANGES,
    }


def versions(viewer: Viewer) -> dict[str, Any]:
    """When versions were made, thinned out."""
    times = sorted((v, at) for v, at in viewer.source.times().items() if v <= viewer.version)
    kept = [times[i] for i in sampled(len(times), MOST_VERSIONS).tolist()] if times else []
    if times and kept[-1] != times[-1]:
        kept.append(times[-1])
    return {"versions": [{"version": version, "time": at} for version, at in kept]}


def _start_of(day: str) -> float:
    try:
        return datetime.datetime.fromisoformat(day).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"day must be a date such as 2026-11-15; got {day!r:.60}") from None
