"""What every data set is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt


class Labelled(NamedTuple):
    """Vectors (float32, dense or CSR), one row for each point, and their classes.

    Classes are whole numbers or strings, as the source has them.
    """

    vectors: Any
    labels: npt.NDArray[Any]
