"""Where to look: a search finds, for each arriving point, the nearest points that came before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

# Points searched for at a time: large enough for a fast matrix product, small enough for a lively progress bar.
BATCH = 256


class Neighbors(NamedTuple):
    """Candidates of the points ``start, start + 1, …``: node ids, best first, padded with -1."""

    start: int
    candidates: npt.NDArray[np.int32]


class Search(Protocol):
    """A strategy to find the nearest earlier points of each point in a range."""

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        """Neighbours of points start to stop, in order; each among the points before it, or before ``limit``."""
        ...


def batches(start: int, stop: int, size: int = BATCH) -> Iterator[tuple[int, int]]:
    """Cut a range where positions are multiples of ``size``, whatever the range: the same cuts for any chunking."""
    while start < stop:
        end = min(stop, (start // size + 1) * size)
        yield start, end
        start = end
