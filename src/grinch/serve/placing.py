"""Where a point would go that is not there yet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from grinch.serve.nodes import NodePages
from grinch.serve.scene import Scene

if TYPE_CHECKING:
    from grinch.serve.viewer import Viewer


def place(viewer: Viewer, scene: Scene, vector: Any, like: Any, cut: str | None) -> dict[str, Any]:
    """Where a point would go: a row of numbers, or one like a point that is there."""
    if not scene.n:
        raise ValueError("there are no points yet, so a point can be placed nowhere")
    if vector is None and like is not None:
        key = viewer.key_of(like)
        rows = viewer.source.rows(np.array([key]))
        if rows is None:
            raise ValueError("points that are no vectors cannot be placed from here")
        vector = rows[0].tolist()
    row = np.asarray(_numbers(vector), np.float64)[None]
    version_then, beside, nearest = viewer.source.place(row)
    leaf = viewer.leaf_at(scene, nearest)
    if version_then != scene.version or beside not in scene.tree:
        # The tree has moved on: near the same point.
        beside = int(scene.tree.parents()[leaf]) if leaf is not None else scene.tree.root
    chosen, pages = viewer.cut_of(scene, cut), NodePages(viewer, scene)
    return {
        "version": scene.version,
        "node": beside,
        "start": int(scene.starts[beside]),
        "size": int(scene.sizes[beside]),
        "title": viewer.title(scene, beside, chosen),
        "path": [viewer.crumb(scene, v, chosen) for v in scene.path(beside)],
        "cluster": pages.cluster_at(beside, chosen),
        "neighbours": [] if leaf is None else pages.listed([leaf]),
    }


def _numbers(vector: Any) -> list[float]:
    if isinstance(vector, str):
        try:
            vector = json.loads(vector)
        except (ValueError, RecursionError):
            raise ValueError("vector must be a list of numbers in JSON, such as [0.1, -2, 3]") from None
    is_list = isinstance(vector, list) and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in vector)
    if not is_list:
        raise ValueError("vector must be a list of numbers, such as [0.1, -2, 3]")
    return [float(x) for x in vector]
