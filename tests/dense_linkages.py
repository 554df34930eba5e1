"""Linkages by name that take dense rows of any sign, and their scores by definition."""

from __future__ import annotations

import numpy as np

from effort import at_night
from grinch.linkage.named import VECTOR_LINKAGES
from grinch.summaries import VectorSummaries

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


def score_by_hand(name, metric, a, b):
    """Return the score of two groups of rows, over all pairs of them where that is meant, in float64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    if name == "cosine":
        a, b = a.sum(axis=0, keepdims=True), b.sum(axis=0, keepdims=True)
    if "cosine" in (name, metric):
        a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (a, b))
    if name == "cosine" or metric in ("cosine", "dot"):
        return (a @ b.T).mean()
    if name == "average":
        return -((a[:, None] - b) ** 2).sum(axis=2).mean()
    if name == "centroid":
        return -((a.mean(axis=0) - b.mean(axis=0)) ** 2).sum()
    # Ward: the increase of the sum of squares about the mean.
    together, *apart = (((rows - rows.mean(axis=0)) ** 2).sum() for rows in (np.vstack([a, b]), a, b))
    return sum(apart) - together


def summaries_of(X, linkage=VECTOR_LINKAGES["average"]["cosine"]):
    """Return the summaries of rows, without a tree."""
    summaries = VectorSummaries(linkage, X.shape[1])
    summaries.grow(len(X))
    summaries.take(0, X)
    return summaries
