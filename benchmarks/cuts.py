"""Flat clusters with nothing to choose, beside HDBSCAN, EVoC and PLSCAN, and the best cut that labels could choose.

    GRINCH_DATA=folder python benchmarks/cuts.py [--half choosing] [--orders 5] [--only "digits;cora 1,879"]
        [--methods HDBSCAN,EVoC]

Adjusted Rand index, all methods with their defaults on the same points. Points that the others leave out count as
clusters of their own, to their advantage. Writes benchmarks/cuts.json, a set at a time; settings were chosen on one
half of the sets (benchmarks/sets.py), and the other half is for reporting.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

import sets
from grinch import Grinch
from grinch.cuts import cut_best_f1
from grinch.datasets import arrival
from written import write_figures

OUT = Path(__file__).parent / "cuts.json"
Found = dict[str, float]


def grinch(X: np.ndarray, y: np.ndarray, passes: int) -> Found:
    start = time.process_time()
    model = Grinch(refine_passes=passes).fit(X)
    fitted = time.process_time()
    labels = model.labels_
    seconds = time.process_time() - fitted
    return {
        "ari": adjusted_rand_score(y, labels),
        "clusters": float(labels.max() + 1),
        "best layer": max(adjusted_rand_score(y, layer) for layer in model.layers_),
        "best cut": adjusted_rand_score(y, cut_best_f1(model.tree_, y)),
        "fit seconds": fitted - start,
        "cut seconds": seconds,
    }


def noise_alone(labels: np.ndarray) -> np.ndarray:
    """Each point without a cluster as a cluster of its own."""
    is_noise = labels < 0
    return np.where(is_noise, labels.max() + np.cumsum(is_noise), labels)


def hdbscan(X: np.ndarray, y: np.ndarray) -> Found:
    from sklearn.cluster import HDBSCAN

    labels = HDBSCAN(copy=True).fit_predict(X)
    return {"ari": adjusted_rand_score(y, noise_alone(labels)), "clusters": float(labels.max() + 1)}


def evoc(X: np.ndarray, y: np.ndarray) -> Found:
    from evoc import EVoC

    model = EVoC(random_state=0)
    labels = model.fit_predict(np.ascontiguousarray(X, np.float32))
    layers = [adjusted_rand_score(y, noise_alone(layer)) for layer in getattr(model, "cluster_layers_", [labels])]
    found = {"ari": adjusted_rand_score(y, noise_alone(labels)), "clusters": float(labels.max() + 1)}
    return {**found, "best layer": max(layers)}


def plscan(X: np.ndarray, y: np.ndarray) -> Found:
    from fast_plscan import PLSCAN

    labels = PLSCAN().fit_predict(np.ascontiguousarray(X, np.float32))
    return {"ari": adjusted_rand_score(y, noise_alone(labels)), "clusters": float(labels.max() + 1)}


METHODS: dict[str, tuple[Callable[..., Found], bool]] = {
    "default": (lambda X, y: grinch(X, y, 0), True),
    "refined": (lambda X, y: grinch(X, y, 1), True),
    "HDBSCAN": (hdbscan, False),
    "EVoC": (evoc, False),
    "PLSCAN": (plscan, False),
}


def measured(name: str, orders: int, methods: list[str]) -> dict[str, Any]:
    """These methods on one set; those that depend on the order of arrival are means over several."""
    X, y = sets.data(name)
    result: dict[str, Any] = {"points": len(y), "classes": len(np.unique(y))}
    for method in methods:
        run, depends = METHODS[method]
        if depends:
            result["orders"] = orders
        found = []
        for seed in range(orders if depends else 1):
            rows = arrival(y, "random", seed)
            try:
                found.append(run(X[rows], y[rows]))
            except Exception as error:  # EVoC cannot take every set
                result[method] = {"failed": f"{type(error).__name__}: {error}"}
                break
        else:
            result[method] = {key: round(float(np.mean([one[key] for one in found])), 4) for key in found[0]}
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=["choosing", "reporting"], default=None)
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--methods", default=",".join(METHODS))
    arguments = parser.parse_args()
    halves = {"choosing": sets.CHOOSING, "reporting": sets.REPORTING}
    names = [name for half, some in halves.items() if arguments.half in (None, half) for name in some]
    names = [name for name in names if name in arguments.only.split(";")] if arguments.only else names
    results = json.loads(OUT.read_text()) if OUT.exists() else {}
    for name in names:
        found = measured(name, arguments.orders, arguments.methods.split(","))
        results[name] = {**results.get(name, {}), **found}
        write_figures(OUT, results)
        print(name, {method: results[name].get(method, {}).get("ari", "failed") for method in METHODS}, flush=True)


if __name__ == "__main__":
    main()
