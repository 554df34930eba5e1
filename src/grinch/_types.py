"""Types and the little that goes with them, shared by all rooms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Advance = Callable[[float], None]


def count_rows(rows: Any) -> int:
    """How many rows an array, a sparse matrix or a list of records has."""
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)
