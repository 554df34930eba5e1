"""Linkages on vectors for the oracle: from the rows of the members, in float64, over all pairs where that is meant."""

from __future__ import annotations

import numpy as np
from numba import njit

from core.paper import Similarity
from dense_linkages import DENSE_NAMES, score_by_hand

NAMED = DENSE_NAMES


def brute_force(name: str, metric: str, X: np.ndarray) -> Similarity:
    return lambda a, b: score_by_hand(name, metric, X[sorted(a)], X[sorted(b)])


class NearTies:
    """A similarity that notices when two of its values are compared that float32 may put in another order."""

    def __init__(self, f: Similarity, tolerance: float = 1e-5):
        self.f, self.found = f, False
        noticed = self

        class Score(float):
            def __lt__(self, other):
                noticed.found |= abs(float(self) - float(other)) < tolerance
                return float(self) < float(other)

            def __gt__(self, other):
                return Score.__lt__(other, self)

            def __le__(self, other):
                return not Score.__lt__(other, self)

        self.score = Score

    def __call__(self, a: frozenset[int], b: frozenset[int]) -> float:
        return self.score(self.f(a, b))


@njit
def summed_dot(a, b):
    """Sum of a·b over all pairs. Rounding brings back the sums of small integers, so it is exact and ties are ties."""
    total = 0.0
    for i in range(a.mean.shape[0]):
        total += round(a.mean[i] * a.size) * round(b.mean[i] * b.size)
    return total


def exact_sums(X: np.ndarray) -> Similarity:
    """What summed_dot computes, in integers."""
    rows = X.astype(np.int64)
    return lambda a, b: float(rows[sorted(a)].sum(axis=0) @ rows[sorted(b)].sum(axis=0))
