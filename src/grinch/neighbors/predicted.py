"""What cells keep of their members, from the vectors: for files, which hold only how far off that is.

Rounds in one way on every processor; see :mod:`grinch.summaries.predicted`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch._compile import compiled
from grinch._types import Floats, Ids, Vectors32
from grinch.linkage.vector import LENGTH


@compiled
def predict_members(
    means: Vectors32,
    moments: Floats,
    is_cosine: bool,
    centres: Vectors32,
    cell_of: Ids,
    ids: Ids,
    codes: Any,
    scales: Vectors32,
    shifts: Vectors32,
) -> None:
    """Codes, scales and shifts of members as :class:`~grinch.neighbors.cell_kernels.Cells` has them."""
    step = np.empty(means.shape[1], np.float32)
    for i in range(ids.shape[0]):
        x, c = ids[i], cell_of[i]
        length = moments[x, LENGTH]
        factor = np.float32(1.0)
        if is_cosine:
            factor = np.float32(1.0 / length) if length > 0.0 else np.float32(0.0)
        largest, total = np.float32(0.0), 0.0
        for j in range(step.shape[0]):
            row = np.float32(means[x, j] * factor)
            step[j] = np.float32(row - centres[c, j])
            largest = max(largest, abs(step[j]))
            total += np.float64(step[j]) * np.float64(step[j])
        scale = np.float32(largest / np.float32(127.0))
        for j in range(step.shape[0]):
            codes[i, j] = np.int8(np.rint(np.float32(step[j] / scale))) if scale > 0.0 else np.int8(0)
        scales[i], shifts[i] = scale, np.float32(-0.5) * np.float32(total)
