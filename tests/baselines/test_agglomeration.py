"""A pool of nodes that wait to be merged."""

from __future__ import annotations

import numpy as np

from grinch.baselines.agglomeration import BestFirst, Pool
from grinch.linkage.named import linkage_of


def test_a_pool_reuses_its_slots():
    pool = Pool(linkage_of("average", "sqeuclidean"), 1, 4)
    waiting = BestFirst(pool)
    for value in range(200):
        if pool.size == 4:
            waiting.merge_best()
        waiting.admit(np.array([[float(value**2)]]))
    assert pool.summaries.capacity == 5
    assert pool.size == 4
    pool.tree().check()
