"""The clusters of a cut as a list: filtered by a text, in some order, a page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from grinch.serve.views.icicle import given_name, title
from grinch.serve.views.scene import Scene

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer

ORDERS = ("size", "new", "name")


def clusters(
    viewer: Viewer, scene: Scene, cut: str | None, q: str, order: str, offset: int, limit: int, since: int | None
) -> dict[str, Any]:
    """Return some of the clusters of a cut: those with a given name first, then by size, mean arrival, or name."""
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}; got {order!r:.60}")
    if not scene.n:
        return {"version": scene.version, "total": 0, "largest": 0, "clusters": []}
    chosen = viewer.cut_of(scene, cut)
    nodes, sizes, shown = chosen.nodes.tolist(), chosen.sizes, np.arange(len(chosen))
    titles: list[str] | None = None
    # Names are waited for only where it depends on them what is listed.
    has_words = bool(q) or order == "name" or viewer.has_words(scene)
    if q or order == "name":
        titles = [title(viewer, scene, v, chosen).lower() for v in nodes]
        shown = shown[[q.lower() in name for name in titles]] if q else shown
    keys: Any = -sizes[shown]
    if order == "name":
        assert titles is not None
        # The place of each name in the alphabet.
        keys = np.unique(np.array([titles[i] for i in shown.tolist()], dtype=object), return_inverse=True)[1]
    elif order == "new":
        keys = -scene.mean_arrival(chosen.nodes[shown])
    is_plain = np.array([given_name(scene, nodes[i], chosen) is None for i in shown.tolist()], np.bool_)
    page = shown[np.lexsort((keys, is_plain))][offset : offset + limit].tolist()
    fresh = scene.fresh(chosen.nodes[page], since).tolist()
    listed = [
        {
            "cluster": int(chosen.clusters[i]),
            **scene.spot(nodes[i]),
            "color": int(chosen.colors[i]),
            "name": title(viewer, scene, nodes[i], chosen, has_words),
            "is_named": given_name(scene, nodes[i], chosen) is not None,
            "fresh": count,
        }
        for i, count in zip(page, fresh, strict=True)
    ]
    largest = int(sizes.max(initial=0))
    return {"version": scene.version, "total": len(shown), "largest": largest, "clusters": listed}
