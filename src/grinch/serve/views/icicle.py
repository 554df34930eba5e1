"""The icicle: the blocks that are in view, and the clusters of a cut, on their way to the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from grinch._types import Ids
from grinch.serve.views.arrays import pack_arrays
from grinch.serve.views.scene import Cut, Scene

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer

# A split counts if its smaller side is at least this wide on the screen.
LEAST_PIXELS = 3.0
# Blocks narrower than this have no room for a name.
NAMED_PIXELS = 36.0
MOST_NAMES = 150
MOST_ROWS, MOST_PIXELS = 64, 8_000
LISTED_CLUSTERS = 200

# Flags of a block.
MORE, TOP, POINT, NAMED, WITHIN = 1, 2, 4, 8, 16


def view(
    viewer: Viewer,
    scene: Scene,
    x0: float = 0.0,
    x1: float | None = None,
    width: float = 1200.0,
    rows: int = 24,
    cut: str | None = None,
    color: str = "cluster",
    since: int | None = None,
) -> bytes:
    """The blocks between two places, as they are seen at a width in pixels."""
    if not scene.n:
        return pack_arrays({"version": scene.version, "n": 0, "x0": 0, "x1": 0, "path": [], "names": {}, "rows": 0}, {})
    begin = int(np.clip(np.floor(x0), 0, scene.n - 1))
    end = int(np.clip(np.ceil(scene.n if x1 is None else x1), begin + 1, scene.n))
    pixels = float(np.clip(width, 1, MOST_PIXELS))
    per_pixel = ((scene.n if x1 is None else x1) - x0) / pixels
    chosen = viewer.cut_of(scene, cut)
    given = viewer.names.at(scene)
    least = int(np.ceil(LEAST_PIXELS * max(per_pixel, 0)))
    found = scene.blocks(begin, end, least, chosen, int(np.clip(rows, 1, MOST_ROWS)), given)
    nodes = found.nodes
    clusters = scene.clusters_of(nodes, chosen)
    colors, values = _colors(viewer, scene, nodes, clusters, chosen, color, since)
    titles = _titles(viewer, scene, found.nodes, clusters, chosen, per_pixel)
    flags = np.where((scene.sizes[nodes] > 1) & (found.ends < 0), MORE, 0)
    flags |= np.where(np.isin(nodes, chosen.nodes), TOP, 0) | np.where(scene.sizes[nodes] == 1, POINT, 0)
    flags |= np.where(clusters >= 0, WITHIN, 0) | np.where(np.isin(nodes, list(given)), NAMED, 0)
    first = int(nodes[0])
    header = {
        "version": scene.version,
        "n": scene.n,
        "x0": begin,
        "x1": end,
        "path": [viewer.crumb(scene, v, chosen) for v in scene.path(first)],
        "names": titles,
        "rows": int(found.rows.max()) + 1,
        "since": since,
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "node": nodes,
        "parent": found.parents,
        "row": found.rows.astype(np.uint16),
        "start": scene.starts[nodes],
        "size": scene.sizes[nodes],
        "split": found.ends,
        "color": colors.astype(np.int32),
        "value": values.astype(np.float32),
        "height": scene.heights[nodes].astype(np.float32),
        "fresh": scene.fresh(nodes, since),
        "flags": flags.astype(np.uint8),
    }
    return pack_arrays(header, arrays)


def _colors(
    viewer: Viewer, scene: Scene, nodes: Ids, clusters: npt.NDArray[Any], cut: Cut, color: str, since: int | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    slots = np.append(cut.slots.astype(np.int32), -1)[clusters]
    sizes = scene.sizes[nodes]
    if color in ("label", "purity") and scene.codes is not None:
        best, counts = scene.commonest
        return best[nodes], counts[nodes] / sizes
    if color == "time":
        return slots, scene.mean_arrival(nodes)
    if color == "fresh":
        return slots, scene.fresh(nodes, since or 0) / sizes
    if color != "cluster":
        raise ValueError(f"color must be one of {', '.join(viewer.about()['colors'])}; got {color!r:.60}")
    return slots, np.ones(len(nodes))


def _titles(
    viewer: Viewer, scene: Scene, nodes: Ids, clusters: npt.NDArray[Any], cut: Cut, per_pixel: float
) -> dict[str, str]:
    """What to write into blocks that are wide enough, the widest first."""
    wide = np.flatnonzero(scene.sizes[nodes] >= NAMED_PIXELS * per_pixel)
    wide = wide[np.argsort(-scene.sizes[nodes[wide]], kind="stable")][:MOST_NAMES]
    return {str(v): viewer.title(scene, v, cut) for v in nodes[wide].tolist()}


def clusters(viewer: Viewer, scene: Scene, cut: str | None) -> bytes:
    """The clusters of a cut, from left to right, and the largest by name."""
    found = viewer.cut_of(scene, cut) if scene.n else None
    if found is None:
        return pack_arrays({"version": scene.version, "cut": cut, "title": "", "clusters": 0, "list": []}, {})
    largest = np.argsort(-found.sizes, kind="stable")[:LISTED_CLUSTERS].tolist()
    sample = viewer.sample(scene)
    listed = [
        {
            "cluster": int(found.clusters[i]),
            "node": int(found.nodes[i]),
            "start": int(found.starts[i]),
            "size": int(found.sizes[i]),
            "slot": int(found.slots[i]),
            "name": viewer.title(scene, int(found.nodes[i]), found),
            "keywords": sample.keywords(int(found.nodes[i])),
        }
        for i in largest
    ]
    header = {
        "version": scene.version,
        "cut": found.name,
        "title": cut_title(found),
        "clusters": len(found),
        "list": listed,
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "start": found.starts,
        "size": found.sizes,
        "node": found.nodes,
        "cluster": found.clusters.astype(np.int32),
        "slot": found.slots,
    }
    return pack_arrays(header, arrays)


def cut_title(cut: Cut) -> str:
    """What a cut is called on the screen."""
    if cut.name.startswith("layer:"):
        return layer_title(cut.name)
    return f"{len(cut):,} clusters" if cut.name.startswith("k:") else cut.name[4:]


def layer_title(name: str) -> str:
    """Layers count from 1 for people."""
    return f"layer {int(name[6:]) + 1}"
