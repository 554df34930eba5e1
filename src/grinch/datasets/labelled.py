"""What every data set is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Labelled(NamedTuple):
    """Vectors, one row for each point, and their classes: whole numbers or strings, as the source has them."""

    vectors: npt.NDArray[np.float32]
    labels: npt.NDArray[Any]
