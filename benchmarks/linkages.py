"""Points per second under linkages of every kind: the same cosine in four ways, and a learned one.

Called by bench.py; by itself: python benchmarks/linkages.py
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from sklearn.linear_model import LogisticRegression

from grinch import Grinch
from grinch.datasets import gaussian_mixture
from grinch.linkage import Learned, VectorMeans
from grinch.metrics import dendrogram_purity
from grinch.neighbors import ByVector

N_COMPILED, N_OBJECT, N_FUNCTION, N_LEARNED = 20_000, 3_000, 1_000, 20_000


@numba.njit(fastmath=True)
def compiled_cosine(a, b):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for i in range(a.mean.shape[0]):
        total += a.mean[i] * b.mean[i]
    lengths = a.length * b.length
    return total / lengths if lengths > 0 else 0.0


def plain_cosine(a: list[Any], b: list[Any]) -> float:
    u, v = np.sum(a, axis=0), np.sum(b, axis=0)
    return float(u @ v / np.sqrt((u @ u) * (v @ v)))


class Mentions:
    """The summary of a group under the learned linkage: mean, number, length of the mean."""

    def leaf(self, vector: Any) -> tuple[Any, int, float]:
        return vector, 1, 1.0

    def merge(self, a: tuple[Any, int, float], b: tuple[Any, int, float]) -> tuple[Any, int, float]:
        n = a[1] + b[1]
        mean = (a[0] * a[1] + b[0] * b[1]) / n
        return mean, n, float(np.sqrt(mean @ mean))


def features(a: tuple[Any, int, float], others: Sequence[tuple[Any, int, float]]) -> np.ndarray:
    """Mean and centroid cosine, and the two sizes."""
    rows = np.empty((len(others), 4))
    rows[:, 0] = np.array([b[0] for b in others]) @ a[0]
    rows[:, 1] = rows[:, 0] / np.maximum(np.array([b[2] for b in others]) * a[2], 1e-12)
    rows[:, 2] = np.log([b[1] for b in others])
    rows[:, 3] = np.log(a[1])
    return rows


def taught(vectors: np.ndarray, labels: np.ndarray) -> LogisticRegression:
    """Learned from pairs of single points: half of them at random, half of one class."""
    groups, rng = Mentions(), np.random.default_rng(0)
    left, right = rng.integers(0, len(labels), (2, 5_000))
    mates = [(i, j) for c in np.unique(labels)[:300] for i, j in [rng.choice(np.flatnonzero(labels == c), 2)]]
    pairs = [*zip(left, right, strict=True), *mates * 10]
    rows = np.vstack([features(groups.leaf(vectors[i]), [groups.leaf(vectors[j])]) for i, j in pairs])
    return LogisticRegression().fit(rows, [labels[i] == labels[j] for i, j in pairs])


def rate(model: Grinch, points: Any, labels: np.ndarray) -> dict[str, float]:
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(points)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        "n": len(labels),
        "points_per_s": len(labels) / seconds,
        "points_per_cpu_s": len(labels) / cpu,
        "scores_per_point": model.stats_["scores"] / len(labels),
        "purity": dendrogram_purity(model.tree_, labels),
    }


def measure() -> dict[str, dict[str, float]]:
    X, y = gaussian_mixture(N_COMPILED)
    unit = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float64)
    near = ByVector(np.stack, n=25)
    Grinch(linkage=compiled_cosine).fit(X[:100])
    rows = {"cosine, built in": rate(Grinch(linkage="cosine"), X, y)}
    rows["cosine, compiled by the user"] = rate(Grinch(linkage=compiled_cosine), X, y)
    n = N_OBJECT
    rows["cosine, a Linkage object"] = rate(Grinch(linkage=VectorMeans("cosine"), search=near), list(unit[:n]), y[:n])
    n = N_FUNCTION
    rows["cosine, a plain function"] = rate(Grinch(linkage=plain_cosine, search=near), list(unit[:n]), y[:n])
    n = N_LEARNED
    learned = Learned(taught(unit, y), Mentions(), features)
    rows["logistic regression"] = rate(Grinch(linkage=learned, search=near), list(unit[:n]), y[:n])
    return rows


if __name__ == "__main__":
    for name, row in measure().items():
        print(f"{name:30}", {key: round(value, 3) for key, value in row.items()})
