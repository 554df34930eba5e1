"""Settings under which every system shows what it does on a few points."""

from __future__ import annotations

SMALL = {"mb-hac": {"buffer_size": 20}, "perch-c": {"max_leaves": 30}, "perch-bc": {"max_leaves": 30}}
