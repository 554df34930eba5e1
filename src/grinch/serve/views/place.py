"""Where a point would go that is not there yet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from grinch.serve.sources import Place
from grinch.serve.views.nodes import NodePages
from grinch.serve.views.scene import Cut, Scene
from grinch.summaries.vectors import dense_rows

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer


def place(viewer: Viewer, scene: Scene, vector: Any, like: Any, cut: str | None) -> dict[str, Any]:
    """Where a point would go: a row of numbers, or one like a point that is there."""
    if not scene.n:
        raise ValueError("there are no points yet, so a point can be placed nowhere")
    if vector is None and like is not None:
        key = viewer.key_of(like)
        given = viewer.source.rows(np.array([key]))
        rows = None if given is None else dense_rows(given)
        vector = None if rows is None else rows[0].tolist()
    width = viewer.source.n_features()
    if width is None:
        raise ValueError("a point cannot be placed from here: the points are no vectors")
    numbers = _numbers(vector)
    if len(numbers) != width:
        raise ValueError(f"vector must have {width:,} numbers, as the points have; got {len(numbers):,}")
    found = viewer.source.place(np.asarray(numbers, np.float64)[None])
    leaf, beside = viewer.leaf_at(scene, found.nearest), found.beside
    if found.version != scene.version or beside not in scene.tree:
        # The tree has moved on: near the same point.
        beside = scene.tree.root if leaf is None else max(int(scene.tree.parents()[leaf]), leaf)
    chosen, pages = viewer.cut_of(scene, cut), NodePages(viewer, scene)
    return {
        "version": scene.version,
        "node": beside,
        "start": int(scene.starts[beside]),
        "size": int(scene.sizes[beside]),
        "title": viewer.title(scene, beside, chosen),
        "path": [viewer.crumb(scene, v, chosen) for v in scene.path(beside)],
        "cluster": _cluster(pages, chosen, found, beside, leaf),
        "neighbours": [] if leaf is None else pages.listed([leaf]),
    }


def _cluster(pages: NodePages, cut: Cut, found: Place, beside: int, nearest: int | None) -> dict[str, Any] | None:
    """The cluster that a point would join: as the source says, or in a cut of our own that of its place."""
    joined = found.clusters.get(cut.name.removeprefix("cut:"))
    if joined is not None:
        at = np.flatnonzero(cut.clusters == joined)
        return pages.cluster(int(at[0]), cut) if len(at) else None
    inside = pages.cluster_at(beside, cut)
    # Above the cut it would be a cluster of its own; it belongs with its nearest neighbour.
    return pages.cluster_at(nearest, cut) if inside is None and nearest is not None else inside


def _numbers(vector: Any) -> list[float]:
    if isinstance(vector, str):
        try:
            vector = json.loads(vector)
        except (ValueError, RecursionError):
            raise ValueError("vector must be a list of numbers in JSON, such as [0.1, -2, 3]") from None
    is_list = isinstance(vector, list) and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in vector)
    if not is_list:
        raise ValueError("vector must be a list of numbers, such as [0.1, -2, 3]")
    try:
        return [float(x) for x in vector]
    except OverflowError:
        raise ValueError("vector must have numbers of up to 64 bits; one is too large") from None
