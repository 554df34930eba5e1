"""How many shards, and how large a sample: by the data alone, so that any number of workers builds the same tree."""

from __future__ import annotations

import math
from typing import Any

from grinch._checks import check_count
from grinch.sharded.stages.skeleton import BRANCHES_PER_SHARD

# A shard of so many points is built in seconds, so that workers are busy until the end and little is lost with one.
POINTS_PER_SHARD = 125_000
# Every shard is asked about points of every other: beyond this many, shards become larger instead.
MOST_SHARDS = 1_024
# The sample grows with the root of the number of points, 100,000 for a million: one worker builds its tree, and all
# workers keep it. docs/development/sharded.md has what it takes, and what it is good for.
LEAST_SAMPLE, SAMPLE_PER_ROOT, MOST_SAMPLE = 20_000, 100, 400_000
# A branch has so many in any case.
SAMPLE_PER_BRANCH = 64


def choose_n_shards(given: Any, n_points: int) -> int:
    """The number of shards asked for, or one that suits the data.

    >>> choose_n_shards("auto", 1_000_000), choose_n_shards("auto", 10**9), choose_n_shards(5, 1_000_000)
    (8, 1024, 5)
    """
    if isinstance(given, str) and given == "auto":
        return max(min(-(-n_points // POINTS_PER_SHARD), MOST_SHARDS), 1)
    return min(check_count("n_shards", given, 1, " or 'auto'"), max(n_points // 2, 1))


def choose_sample_size(given: Any, n_points: int, n_shards: int) -> int:
    """The size of the sample asked for, or one that suits the number of points.

    >>> [choose_sample_size("auto", n, choose_n_shards("auto", n)) for n in (10**5, 10**6, 10**7, 10**8)]
    [31600, 100000, 316200, 400000]
    """
    if isinstance(given, str) and given == "auto":
        by_points = min(max(LEAST_SAMPLE, SAMPLE_PER_ROOT * math.isqrt(n_points)), MOST_SAMPLE)
        return min(n_points, max(by_points, SAMPLE_PER_BRANCH * BRANCHES_PER_SHARD * n_shards))
    return min(check_count("sample_size", given, 2, " or 'auto'"), n_points)
