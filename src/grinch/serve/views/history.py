"""Changes of clusters, and the times of versions."""

from __future__ import annotations

import datetime
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from grinch.serve.backend import sampled
from grinch.store.digest import Event

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer

MAX_EVENTS = 50
MAX_VERSIONS = 200


def changes(viewer: Viewer, since: int | None, day: str | None, cut: str | None) -> dict[str, Any]:
    """Return the news since a version, or the beginning of a day, the most important first."""
    scene, backend = viewer.scene, viewer.backend
    times = backend.read(lambda view: view.times())
    if day is not None:
        begin = _start_of(day)
        since = max((version for version, at in times.items() if at < begin), default=0)
    start = min(max(since or 0, 0), scene.version)
    # Changes are known of tracked cuts only; also of a store whose points are all gone.
    tracked = cut[4:] if cut and cut.startswith("cut:") else next(iter(scene.look.cuts), "default")
    digest = backend.read(lambda view: view.digest(start, MAX_EVENTS, tracked, until=scene.version))
    chosen = scene.cut(f"cut:{tracked}") if scene.n and scene.look.cuts else None
    nodes = {} if chosen is None else dict(zip(chosen.clusters.tolist(), chosen.nodes.tolist(), strict=True))

    def as_dict(event: Event) -> dict[str, Any]:
        v = nodes.get(event.cluster)
        spot = {"node": None, "start": None} if v is None else scene.spot(v)
        return {**asdict(event), "others": list(event.others), **spot, "size": event.size}

    return {
        "version": scene.version,
        "since": start,
        "new_points": digest.n_new,
        "changes": [as_dict(event) for event in digest.events],
        "rest": digest.rest,
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
