"""The map: all points on a plane, and something of each of them, in the order of the tree's leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch.serve.views import projection
from grinch.serve.views.arrays import pack_arrays
from grinch.serve.views.scene import Scene

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer


# Beyond it nothing can be told apart in 32 bits.
LARGEST = 1e30


def make_map(viewer: Viewer, scene: Scene, method: str) -> bytes:
    """All points on a plane, from left to right in the tree."""
    keys = scene.seen.keys[scene.order]
    if method == "columns":
        assert viewer.fields.x is not None
        assert viewer.fields.y is not None
        names = viewer.fields.x, viewer.fields.y
        found = [[_coordinate(payload, name) for name in names] for payload in viewer.source.payloads(keys)]
        plane = np.array(found, np.float32)
    elif method == "umap":
        rows = viewer.source.rows(keys)
        assert rows is not None
        shown = viewer.sample(scene).comparable(rows) if scipy.sparse.issparse(rows) else np.asarray(rows, np.float32)
        plane = projection.umap_of(shown, viewer.source.metric())
    else:
        plane = _pca(viewer, scene, keys)
    x, y, aspect = projection.quantized(plane)
    header = {"version": scene.version, "method": method, "n": scene.n, "aspect": aspect}
    return pack_arrays(header, {"x": x, "y": y})


def _pca(viewer: Viewer, scene: Scene, keys: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    sample = viewer.sample(scene)
    assert sample.rows is not None
    # The axes of the first version stay, so that the map does not turn as points come.
    axes = viewer.axes
    if axes is None or len(axes[0]) != sample.rows.shape[1] or scene.n > 2 * axes[2]:
        viewer.axes = axes = (*projection.principal_axes(sample.rows), scene.n)

    def rows_at(start: int, stop: int) -> npt.NDArray[np.float32]:
        return sample.comparable(viewer.source.rows(keys[start:stop]))

    return projection.project(rows_at, scene.n, axes[0], axes[1])


def of_points(scene: Scene, what: str, since: int | None) -> bytes:
    """Something of every point, from left to right in the tree."""
    if what == "label" and scene.codes is not None:
        codes = scene.codes[scene.order]
        values = np.where((codes < 0) | (codes > 65534), 65535, codes)
    elif what == "time":
        values = np.rint(scene.arrival[scene.order] * 65534)
    elif what == "fresh":
        values = (scene.seen.arrived[scene.order] > (since or 0)).astype(np.uint16)
    else:
        raise ValueError(f"what must be label (where labels are known), time or fresh; got {what!r:.60}")
    return pack_arrays({"version": scene.version, "what": what, "n": scene.n}, {"value": values.astype(np.uint16)})


def _coordinate(payload: Any, name: str) -> float:
    try:
        found = float(payload[name])
    except (TypeError, ValueError, KeyError, OverflowError):
        return 0.0
    return found if abs(found) <= LARGEST else 0.0
