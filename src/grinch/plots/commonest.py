"""Which label is the commonest in a group of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._labels import is_missing
from grinch.plots.style import PALE, PALETTE


class Named(NamedTuple):
    """Labels as numbers, the commonest of all first and the empty name last; point i has ``names[codes[i]]``."""

    names: list[str]
    codes: npt.NDArray[np.int64]

    def counts(self, groups: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How often each label (columns) occurs in each group (rows); points of group -1 are left out."""
        inside = groups >= 0
        cells = groups[inside] * len(self.names) + self.codes[inside]
        rows = int(groups.max(initial=-1)) + 1
        return np.bincount(cells, minlength=rows * len(self.names)).reshape(rows, len(self.names))

    def color(self, code: int) -> str:
        return PALE if self.names[code] == "" else PALETTE[code % len(PALETTE)]


def named(parameter: str, labels: Sequence[Any] | npt.NDArray[Any], n: int) -> Named:
    """Labels of any kind, one for each of n points; None and nan become the empty name."""
    if len(labels) != n:
        raise ValueError(f"{parameter} must have one entry for each of the {n} points of the tree; got {len(labels)}")
    texts = ["" if is_missing(label) else str(label) for label in labels]
    names, codes, counts = np.unique(np.array(texts, dtype=str), return_inverse=True, return_counts=True)
    # The empty name comes last, so that in a tie a label wins.
    by_count = np.lexsort([-counts, names == ""])
    rank = np.empty(len(names), np.int64)
    rank[by_count] = np.arange(len(names))
    return Named(names[by_count].tolist(), rank[codes])
