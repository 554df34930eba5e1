"""Points that come and go: what a removal costs beside an insert, and what it leaves behind.

By itself: python benchmarks/changes.py (measures 100,000 points, and brings results.json and the page up to date)
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import page
from grinch import Grinch
from grinch.datasets import gaussian_mixture
from grinch.metrics import dendrogram_purity
from written import write_figures

COUNT, SINGLE, ROUNDS = 1_000, 100, 5


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(n: int) -> dict[str, Any]:
    return {"n": n, "rounds": ROUNDS, **costs(n), "purity": purities(20_000)}


def costs(n: int) -> dict[str, float]:
    """Seconds for as many inserts, removals and updates in a tree of n points, by turns in one process; medians."""
    X = gaussian_mixture(n + 3 * ROUNDS * COUNT).vectors
    model = Grinch(metric="cosine").fit(X[:n])
    leaving = iter(np.random.default_rng(0).permutation(n))
    coming = iter(range(n, len(X)))

    def insert(count: int) -> None:
        model.partial_fit(X[[next(coming) for _ in range(count)]])

    def remove(count: int) -> None:
        model.remove([next(leaving) for _ in range(count)])

    def update(count: int) -> None:
        model.update([next(leaving) for _ in range(count)], X[[next(coming) for _ in range(count)]])

    def one_by_one(change: Callable[[int], None]) -> None:
        for _ in range(SINGLE):
            change(1)

    insert(2)
    remove(2)
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, change in (("insert", insert), ("remove", remove), ("update", update)):
            found.setdefault(name, []).append(seconds(partial(change, COUNT)))
            found.setdefault(f"{name}_single", []).append(seconds(partial(one_by_one, change)) / SINGLE)
    return {name: float(np.median(times)) for name, times in found.items()}


def purities(n: int) -> dict[str, float]:
    """Purity before and after a fifth of the points was removed, and of a fresh tree of those that are left."""
    X, y = gaussian_mixture(n)
    model = Grinch(metric="cosine").fit(X)
    before = dendrogram_purity(model.tree_, y)
    model.remove(np.random.default_rng(0).permutation(n)[: n // 5])
    left = model.ids_
    fresh = Grinch(metric="cosine").fit(X[left]).tree_
    return {
        "n": n,
        "before": before,
        "after": dendrogram_purity(model.tree_, y[left]),
        "fresh": dendrogram_purity(fresh, y[left]),
    }


def target(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    ratio = found["remove"] / found["insert"]
    return {f"1,000 removals / 1,000 inserts, n {found['n']:,}": {"value": ratio, "limit": 1.0, "met": ratio <= 1.0}}


def main() -> None:
    path = page.HERE / "results.json"
    results = json.loads(path.read_text())
    results["changes"] = {**measure(100_000), "by_itself": True}
    results["targets"].update(target(results["changes"]))
    write_figures(path, results)
    page.write(results)
    print(json.dumps(results["changes"], indent=1))


if __name__ == "__main__":
    main()
