"""Linkages by name that take dense rows of any sign."""

from __future__ import annotations

from effort import at_night
from grinch.linkage.named import VECTOR_LINKAGES

# Tanimoto's coefficient is for sparse rows, Hellinger's distance for counts: tests/core/test_sparse.py has them.
DENSE = [
    linkage
    for metrics in VECTOR_LINKAGES.values()
    for linkage in metrics.values()
    if linkage.metric not in ("tanimoto", "hellinger")
]
# Every day the first of each metric, and at night the others.
OF_EACH_METRIC = [
    linkage if linkage.metric not in {other.metric for other in DENSE[:i]} else at_night(linkage)
    for i, linkage in enumerate(DENSE)
]
DENSE_NAMES = [(linkage.name, linkage.metric) for linkage in DENSE]
