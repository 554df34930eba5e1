"""What nodes are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from grinch.serve.views.scene import Cut, Scene

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer

LONGEST = 120
N_WORDS = 4


def title(viewer: Viewer, scene: Scene, v: int, cut: Cut | None) -> str:
    """The name that a node was given, that of its cluster, its words, its commonest label, or its size."""
    given = viewer.names.at(scene).get(v) or _of_cluster(scene, v, cut)
    if given is not None:
        return given
    with scene.lock:
        if v not in scene.titles:
            scene.titles[v] = _described(viewer, scene, v)
        return scene.titles[v]


def crumb(viewer: Viewer, scene: Scene, v: int, cut: Cut | None) -> dict[str, Any]:
    """A node as a step of the path to another."""
    is_all = v == scene.tree.root and v not in viewer.names.at(scene)
    height = float(scene.heights[v])
    return {
        "node": v,
        "start": int(scene.starts[v]),
        "size": int(scene.sizes[v]),
        "name": "all points" if is_all else title(viewer, scene, v, cut),
        "height": height if np.isfinite(height) else None,
    }


def _of_cluster(scene: Scene, v: int, cut: Cut | None) -> str | None:
    """The name of the cluster that a node is."""
    named = scene.seen.cluster_names.get(cut.name[4:]) if cut is not None and cut.name.startswith("cut:") else None
    if cut is None or not named:
        return None
    i = int(cut.at(scene.starts[[v]])[0])
    return named.get(int(cut.clusters[i])) if i >= 0 and int(cut.nodes[i]) == v else None


def _described(viewer: Viewer, scene: Scene, v: int) -> str:
    size = int(scene.sizes[v])
    if size == 1:
        name, payload = viewer.source.points([int(scene.seen.keys[scene.order[scene.starts[v]]])])[0]
        text = viewer.fields.text_of(payload) or ("a point that was removed" if name is None else str(name))
        return text[:LONGEST]
    words = viewer.sample(scene).keywords(v, N_WORDS)
    if words and v != scene.tree.root:
        return ", ".join(words)
    if scene.codes is not None:
        best, counts = scene.commonest
        if best[v] >= 0 and counts[v] >= size / 2:
            return scene.label_names[best[v]]
    return f"{size:,} points"
