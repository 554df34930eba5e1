"""Rows of a table in another order, in place: for tables too large to have a copy of."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._compile import jitable, kernel
from grinch._types import Flags, Ids

Bytes = npt.NDArray[np.uint8]


def reorder_rows(rows: npt.NDArray[Any], source: Ids) -> None:
    """Let row i be what row ``source[i]`` was; ``source`` has every row once, and ``rows`` are in one piece.

    >>> table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> reorder_rows(table, np.array([2, 0, 1], np.int32))
    >>> table.tolist()
    [[5.0, 6.0], [1.0, 2.0], [3.0, 4.0]]
    """
    if len(rows):
        # As bytes, so that one compiled function serves all types.
        raw = rows.reshape(len(rows), -1).view(np.uint8)
        _reorder(raw, source, np.zeros(len(rows), np.uint8), np.empty(raw.shape[1], np.uint8))


@jitable
def _copy(row: Bytes, target: Bytes) -> None:
    for i in range(len(row)):
        target[i] = row[i]


@kernel
def _reorder(rows: Bytes, source: Ids, is_done: Flags, spare: Bytes) -> None:
    """Round by round: each row takes the next one's place, the last that of the first, which waits in ``spare``."""
    for start in range(rows.shape[0]):
        if is_done[start] or source[start] == start:
            continue
        _copy(rows[start], spare)
        i = start
        while True:
            is_done[i] = 1
            j = source[i]
            if j == start:
                _copy(spare, rows[i])
                break
            _copy(rows[j], rows[i])
            i = j
