"""The points on a plane."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from grinch._types import Floats

# UMAP of more points takes too long to wait for.
MOST_FOR_UMAP = 100_000
ROWS_AT_ONCE = 65_536
# Of these many points the axes are found; more change them little.
MOST_FOR_AXES = 200_000


def methods(n: int, has_columns: bool) -> list[str]:
    """The ways to make a map of n points."""
    found = ["columns"] if has_columns else []
    found.append("pca")
    if n <= MOST_FOR_UMAP and n > 3 and find_spec("umap") is not None:
        found.append("umap")
    return found


def principal_axes(rows: npt.NDArray[np.float32]) -> tuple[Floats, Floats]:
    """The mean of some rows, and the two directions in which they vary most.

    >>> mean, axes = principal_axes(np.array([[0, 0, 0], [2, 0, 0.1], [4, 0, 0]], np.float32))
    >>> bool(abs(axes[0, 0]) > 0.99)
    True
    """
    mean = rows.mean(axis=0, dtype=np.float64)
    centered = rows - mean.astype(np.float32)
    covariance = (centered.T @ centered).astype(np.float64)
    _, vectors = np.linalg.eigh(covariance)
    axes = vectors[:, ::-1][:, :2]
    # The sign of an axis means nothing; it stays the same from one version to the next.
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)
    return mean, axes


def project(
    rows_at: Callable[[int, int], npt.NDArray[np.float32]], n: int, mean: Floats, axes: Floats
) -> npt.NDArray[np.float32]:
    """All points on two axes, some at a time."""
    found = np.zeros((n, 2), np.float32)
    for start in range(0, n, ROWS_AT_ONCE):
        piece = rows_at(start, min(start + ROWS_AT_ONCE, n))
        found[start : start + len(piece), : axes.shape[1]] = (piece - mean.astype(np.float32)) @ axes.astype(np.float32)
    return found


def umap_of(rows: npt.NDArray[np.float32], metric: str) -> npt.NDArray[np.float32]:
    """The plane of UMAP; takes seconds to minutes."""
    import warnings

    import umap

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reducer = umap.UMAP(n_neighbors=min(15, len(rows) - 1), metric=metric, random_state=0, n_jobs=1)
        found: npt.NDArray[np.float32] = reducer.fit_transform(rows).astype(np.float32)
    return found


def quantized(plane: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16], float]:
    """Both coordinates in 16 bits, and how much wider than high the plane is.

    A few points far out do not make the rest a dot: what is beyond is on the border.

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
