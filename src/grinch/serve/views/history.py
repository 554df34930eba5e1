"""Changes of clusters, and the times of versions."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import TYPE_CHECKING, Any

from grinch.cuts.tracking import Change
from grinch.serve.backend import sampled
from grinch.serve.views.icicle import title
from grinch.store.change_summary import summarize_changes

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer

# Clusters that are listed, and changes that are summed up for that.
MAX_LISTED, MAX_SUMMED = 500, 50_000
MAX_VERSIONS = 200


def changes(viewer: Viewer, since: int | None, day: str | None, cut: str | None) -> dict[str, Any]:
    """Return the net changes of clusters since a version, or the beginning of a day; those of most points first."""
    scene, backend = viewer.scene, viewer.backend
    times = backend.read(lambda view: view.times())
    if day is not None:
        begin = _start_of(day)
        since = max((version for version, at in times.items() if at < begin), default=0)
    start = min(max(since or 0, 0), scene.version)
    # Changes are known of tracked cuts only; also of a store whose points are all gone.
    tracked = cut[4:] if cut and cut.startswith("cut:") else next(iter(scene.look.cuts), "default")
    latest: list[Change] = []
    is_all = True
    if backend.has_versions:
        latest, is_all = backend.read(lambda view: view.latest_changes(start, tracked, MAX_SUMMED, scene.version))
    net, named = summarize_changes(latest[::-1]).changes, scene.look.names.get(tracked, {})
    net.sort(key=lambda change: (change.cluster not in named, -max(change.count, 1), -change.version))
    chosen = scene.cut(f"cut:{tracked}") if scene.n and scene.look.cuts else None
    nodes = {} if chosen is None else dict(zip(chosen.clusters.tolist(), chosen.nodes.tolist(), strict=True))

    def as_dict(change: Change) -> dict[str, Any]:
        v = nodes.get(change.cluster)
        return {
            "version": change.version,
            "time": times.get(change.version),
            "kind": change.kind,
            "cluster": change.cluster,
            "others": list(change.others),
            "count": change.count,
            "title": f"cluster {change.cluster}" if v is None else title(viewer, scene, v, chosen),
            **({"node": None, "start": None} if v is None else scene.spot(v)),
            "size": change.size,
        }

    return {
        "version": scene.version,
        "since": start,
        "new_points": int(scene.fresh_before(start)[-1]) if scene.n else 0,
        "counts": dict(Counter(change.kind for change in net)),
        "changes": [as_dict(change) for change in net[:MAX_LISTED]],
        "truncated": not is_all or len(net) > MAX_LISTED,
    }


def versions(viewer: Viewer, max_count: int | None = None) -> dict[str, Any]:
    """Return the times of up to ``max_count`` versions, evenly spread, and of the last."""
    known = viewer.backend.read(lambda view: view.times())
    times = sorted((version, at) for version, at in known.items() if version <= viewer.version)
    shown = [times[i] for i in sampled(len(times), max_count or MAX_VERSIONS).tolist()]
    if times and shown[-1] != times[-1]:
        shown.append(times[-1])
    return {"versions": [{"version": version, "time": at} for version, at in shown]}


def _start_of(day: str) -> float:
    try:
        return datetime.datetime.fromisoformat(day).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"day must be a date such as 2026-11-15; got {day!r:.60}") from None
