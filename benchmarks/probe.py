"""Measurements of one version of grinch, as JSON; run by before.py with the sources of either version on PYTHONPATH.

Only what both versions have is used, so this file runs on both.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np

from grinch import Grinch
from grinch.neighbors import ByVector

N_BUILT_IN, N_OBJECT, N_FUNCTION, N_RECORDS = 20_000, 4_000, 1_000, 1_000


def mixture(n: int) -> np.ndarray:
    """Unit vectors around 20 times fewer centres."""
    rng = np.random.default_rng(0)
    centres, classes = rng.normal(size=(n // 20, 64)), rng.integers(0, n // 20, n)
    X = centres[classes] + rng.normal(size=(n, 64))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


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


class Means:
    """Mean vectors and their dot products, one or many at a time."""

    def leaf(self, row: Any) -> tuple[Any, int]:
        return row, 1

    def merge(self, a: tuple[Any, int], b: tuple[Any, int]) -> tuple[Any, int]:
        n = a[1] + b[1]
        return (a[0] * a[1] + b[0] * b[1]) / n, n

    def score(self, a: tuple[Any, int], b: tuple[Any, int]) -> float:
        return float(a[0] @ b[0])

    def scores(self, a: tuple[Any, int], others: Sequence[tuple[Any, int]]) -> Any:
        return np.array([b[0] for b in others]) @ a[0]


class TimedMeans(Means):
    """The same, with a clock around each method."""

    def __init__(self) -> None:
        self.inside = 0.0

    def merge(self, a: Any, b: Any) -> Any:
        began = time.perf_counter()
        result = super().merge(a, b)
        self.inside += time.perf_counter() - began
        return result

    def score(self, a: Any, b: Any) -> float:
        began = time.perf_counter()
        result = super().score(a, b)
        self.inside += time.perf_counter() - began
        return result

    def scores(self, a: Any, others: Any) -> Any:
        began = time.perf_counter()
        result = super().scores(a, others)
        self.inside += time.perf_counter() - began
        return result


def seconds(model: Grinch, points: Any) -> float:
    began = time.perf_counter()
    model.fit(points)
    return time.perf_counter() - began


def linkages() -> dict[str, float]:
    """Points per second of one cosine in four ways; and how long inserts take against the methods of a linkage."""
    X, near = mixture(N_BUILT_IN), ByVector(np.stack, n=25)
    few, rows = list(mixture(N_OBJECT)), list(mixture(N_OBJECT))[:N_FUNCTION]
    for linkage in ("cosine", compiled_cosine):
        Grinch(linkage=linkage).fit(X[:3000])
    for linkage in (Means(), plain_cosine):
        Grinch(linkage=linkage, search=near).fit(few[:200])
    timed, inside = TimedMeans(), []
    for _ in range(3):
        timed.inside = 0.0
        Grinch(linkage=timed, search=near).fit(few)
        inside.append(timed.inside)
    whole = [seconds(Grinch(linkage=Means(), search=near), few) for _ in range(3)]
    return {
        "built_in": N_BUILT_IN / seconds(Grinch(linkage="cosine"), X),
        "compiled": N_BUILT_IN / seconds(Grinch(linkage=compiled_cosine), X),
        "object": N_OBJECT / float(np.median(whole)),
        "function": N_FUNCTION / seconds(Grinch(linkage=plain_cosine, search=near), rows),
        "insert_us": float(np.median(whole)) / N_OBJECT * 1e6,
        "inside_us": float(np.median(inside)) / N_OBJECT * 1e6,
        "insert_over_inside": float(np.median(whole) / np.median(inside)),
    }


def coreference() -> dict[str, float]:
    """Seconds for the records of one name, by the model of made-up names."""
    try:
        from grinch.resolve.authors import blocks, cluster_block, make_records, train
    except ImportError:
        from grinch.coref import blocks, cluster_block, make_records, train  # type: ignore[import-not-found,no-redef]
    model = train(blocks(make_records(60, 6, 1, 15.0)), rounds=1)
    records = make_records(2 * N_RECORDS // 15 + 1, 1, 2, 15.0)[:N_RECORDS]
    cluster_block(records[:100], model)
    took = []
    for _ in range(3):
        began = time.perf_counter()
        cluster_block(records, model)
        took.append(time.perf_counter() - began)
    return {"seconds_per_1000_records": float(np.median(took)) * 1000 / len(records)}


if __name__ == "__main__":
    print(json.dumps({"linkages": linkages, "coreference": coreference}[sys.argv[1]]()))
