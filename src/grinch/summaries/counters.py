"""What an engine did, in numbers: the counters behind ``stats_``."""

from __future__ import annotations

import numpy as np

from grinch._types import Counts

COUNTERS = (
    "rotations",
    "pulls",
    "grafts_tried",
    "grafts",
    "restructurings",
    "swaps",
    "scores",
    "merges",
)
ROTATIONS, PULLS, GRAFTS_TRIED, GRAFTS, RESTRUCTURINGS, SWAPS, SCORES, MERGES = range(len(COUNTERS))


def new_counts() -> Counts:
    return np.zeros(len(COUNTERS), np.int64)
