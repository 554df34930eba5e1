"""The map: all points on a plane, and values of all points, in the order of the tree's leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from grinch._types import Counts, Floats, Ids
from grinch.neighbors import nearest_among
from grinch.serve.views.icicle import pack_arrays
from grinch.serve.views.scene import Scene
from grinch.tree.layout import N_NEIGHBORS, Plane, filled, lay_out, spread_over

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer

# Larger coordinates cannot be told apart in 32 bits.
MAX_COORDINATE = 1e30
# Of more points, a sample is laid out, and the others beside it; likewise while no more than this share is new.
MAX_POINTS, MAX_SHARE_NEW = 100_000, 1 / 3
ROWS_PER_CHUNK = 65_536
NO_LABEL = 65_535


def methods(viewer: Viewer, scene: Scene) -> list[str]:
    """Return the methods by which points can be put on a plane, the default first."""
    columns = [] if viewer.fields.x is None else ["columns"]
    has_vectors = scene.n > 0 and viewer.backend.n_features is not None
    is_connected = has_vectors or (0 < scene.n <= MAX_POINTS and viewer.backend.has_neighbors)
    return [*columns, *(["neighbors"] if is_connected else []), *(["pca"] if has_vectors else [])]


def make_map(viewer: Viewer, scene: Scene, method: str) -> bytes:
    """Return all points on a plane, from left to right in the tree."""
    positions = scene.look.positions[scene.order]
    if method == "columns":
        names = str(viewer.fields.x), str(viewer.fields.y)
        payloads = viewer.backend.payloads(positions)
        plane = np.array([[_coordinate(payload, name) for name in names] for payload in payloads], np.float32)
    elif method == "neighbors":
        plane = filled(_by_neighbors(viewer, scene, positions))
    else:
        plane = _pca(viewer, scene, positions)
    x, y, aspect = quantized(plane)
    header = {"version": scene.version, "method": method, "n": scene.n, "aspect": aspect}
    return pack_arrays(header, {"x": x, "y": y})


def of_points(scene: Scene, what: str, since: int | None) -> bytes:
    """Return a value of every point, from left to right in the tree: its label, arrival, or whether it is new."""
    if what == "label" and scene.codes is not None:
        codes = scene.codes[scene.order]
        values = np.where((codes < 0) | (codes >= NO_LABEL), NO_LABEL, codes)
    elif what == "time":
        values = np.rint(scene.arrival[scene.order] * 65_534)
    elif what == "fresh":
        values = scene.look.arrived[scene.order] > (since or 0)
    else:
        raise ValueError(f"what must be label (where labels are known), time or fresh; got {what!r:.60}")
    return pack_arrays({"version": scene.version, "what": what, "n": scene.n}, {"value": values.astype(np.uint16)})


def principal_axes(rows: npt.NDArray[np.float32]) -> tuple[Floats, Floats]:
    """Return the mean of some rows, and the two directions in which they vary most.

    >>> mean, axes = principal_axes(np.array([[0, 0, 0], [2, 0, 0.1], [4, 0, 0]], np.float32))
    >>> bool(abs(axes[0, 0]) > 0.99)
    True
    """
    mean = rows.mean(axis=0, dtype=np.float64)
    centered = rows - mean.astype(np.float32)
    _, vectors = np.linalg.eigh((centered.T @ centered).astype(np.float64))
    axes = vectors[:, ::-1][:, :2]
    # The sign of an axis means nothing; it stays the same from one version to the next.
    return mean, axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)


def quantized(plane: Plane) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16], float]:
    """Return both coordinates in 16 bits, and the ratio of width to height.

    A few points far out do not shrink the rest to a dot: they are drawn at the border.

    >>> x, y, aspect = quantized(np.array([[0, 0], [1, 1], [4, 2]], np.float32))
    >>> x.tolist(), y.tolist(), aspect
    ([0, 16384, 65535], [0, 32768, 65535], 2.0)
    """
    if not len(plane):
        return np.empty(0, np.uint16), np.empty(0, np.uint16), 1.0
    finite = np.nan_to_num(plane)
    low, high = finite.min(axis=0), finite.max(axis=0)
    if len(plane) >= 1_000:
        inner = np.quantile(finite, [0.001, 0.999], axis=0)
        margin = 0.25 * (inner[1] - inner[0])
        low, high = np.maximum(low, inner[0] - margin), np.minimum(high, inner[1] + margin)
    width = np.where(high > low, high - low, 1)
    scaled = np.clip(np.rint((finite - low) / width * 65535), 0, 65535).astype(np.uint16)
    return scaled[:, 0].copy(), scaled[:, 1].copy(), float(np.clip(width[0] / width[1], 0.2, 5))


def _pca(viewer: Viewer, scene: Scene, positions: Counts) -> Plane:
    sample = viewer.sample(scene)
    assert sample.rows is not None
    # The axes of the first version stay, so that the map does not turn as points come.
    if viewer.axes is None or len(viewer.axes[0]) != sample.rows.shape[1] or scene.n > 2 * viewer.axes[2]:
        viewer.axes = (*principal_axes(sample.rows), scene.n)
    mean, axes, _ = viewer.axes
    plane = np.zeros((scene.n, 2), np.float32)
    for start in range(0, scene.n, ROWS_PER_CHUNK):
        rows = sample.comparable(viewer.backend.rows(positions[start : start + ROWS_PER_CHUNK]))
        at = slice(start, start + len(rows)), slice(axes.shape[1])
        plane[at] = (rows - mean.astype(np.float32)) @ axes.astype(np.float32)
    return plane


def _by_neighbors(viewer: Viewer, scene: Scene, positions: Counts) -> Plane:
    """Return points laid out by their neighbours; those that were shown before stay where they were."""
    start = None
    if viewer.laid_out is not None:
        plane, is_known = _places_of(positions, *viewer.laid_out)
        if is_known.any():
            start = spread_over(plane[is_known], np.flatnonzero(is_known).astype(np.int32), scene.gaps, scene.n)
        if start is not None and is_known.mean() >= 1 - MAX_SHARE_NEW:
            return _remembered(viewer, positions, start)
    near = _known_neighbors(viewer, positions) if scene.n <= MAX_POINTS else None
    if near is None:
        sample = viewer.sample(scene)
        assert sample.rows is not None
        near, places = nearest_among(sample.rows, min(N_NEIGHBORS, len(sample.rows) - 1)), sample.places
        some = lay_out(near, None if start is None else start[places])
        return _remembered(viewer, positions, spread_over(some, places.astype(np.int32), scene.gaps, scene.n))
    return _remembered(viewer, positions, lay_out(near, start))


def _known_neighbors(viewer: Viewer, positions: Counts) -> Ids | None:
    """Return the neighbours of the points at these positions, as numbers into them; None if they are not known."""
    found = viewer.backend.neighbors() if viewer.backend.has_neighbors else None
    if found is None:
        return None
    known, near = found
    number = np.full(int(max(known.max(initial=0), positions.max(initial=0))) + 2, -1, np.int32)
    number[positions] = np.arange(len(positions))
    ordered = np.full((len(positions), near.shape[1]), -1, np.int32)
    is_there = number[known] >= 0
    ordered[number[known[is_there]]] = number[np.where(near[is_there] < 0, -1, known[near[is_there]])]
    # Without gaps, which those that were removed leave.
    return np.take_along_axis(ordered, np.argsort(ordered < 0, axis=1, kind="stable"), axis=1)


def _places_of(positions: Counts, known: Counts, plane: Plane) -> tuple[Plane, npt.NDArray[np.bool_]]:
    """Return where points were before, and of which that is known."""
    at = np.minimum(np.searchsorted(known, positions), len(known) - 1)
    return plane[at], known[at] == positions


def _remembered(viewer: Viewer, positions: Counts, plane: Plane) -> Plane:
    order = np.argsort(positions)
    viewer.laid_out = positions[order], plane[order]
    return plane


def _coordinate(payload: Any, name: str) -> float:
    try:
        value = float(payload[name])
    except (TypeError, ValueError, KeyError, OverflowError):
        return 0.0
    return value if abs(value) <= MAX_COORDINATE else 0.0
