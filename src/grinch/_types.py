"""Types that all rooms share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Advance = Callable[[float], None]

Ids = npt.NDArray[np.int32]
"""Nodes of a tree, as they are stored."""
Slots = npt.NDArray[np.intp]
"""Leaf slots of a tree, as Python chooses among them."""
Floats = npt.NDArray[np.float64]
Vectors32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int64]
"""Numbers of clusters or classes; -1 for none."""
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[Any]
"""Numbers of any kind."""
Objects = npt.NDArray[np.object_]

as_id: Callable[[Any], int] = np.int64  # type: ignore[assignment]
"""A node id as int64, whatever it is stored as, so that nothing is compiled twice."""
