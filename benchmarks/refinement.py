"""Purity before and after refining, beside HAC, on the labelled sets of both halves (see sets.py).

    GRINCH_DATA=folder python benchmarks/refinement.py            both halves
    python benchmarks/refinement.py --half choosing --orders 5    one of them, with other numbers of orders

Average linkage under cosine; random orders of arrival, 20 of sets below 3,000 points and 5 of the others; seconds of
processor time. Writes benchmarks/refinement.json, set by set.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import sets
from grinch import HAC, Grinch
from grinch.datasets import arrival
from grinch.metrics import dendrogram_purity
from written import write_figures

HALVES = {"choosing": sets.CHOOSING, "reporting": sets.REPORTING}
OUT = Path(__file__).parent / "refinement.json"


def orders_of(n_points: int) -> int:
    return 20 if n_points < 3000 else 5


def hac_purity(name: str) -> float:
    X, y = sets.data(name)
    return float(dendrogram_purity(HAC(linkage="average", metric="cosine").fit(X).tree_, y))


def measured(X: np.ndarray, y: np.ndarray) -> tuple[float, float, float, float]:
    """Purity before and after refining, and the CPU seconds of fitting and of refining."""
    began = time.process_time()
    model = Grinch(metric="cosine").fit(X)
    fitting = time.process_time() - began
    before = dendrogram_purity(model.tree_, y)
    began = time.process_time()
    model.refine()
    return before, dendrogram_purity(model.tree_, y), fitting, time.process_time() - began


def row(name: str, orders: int, hac: float) -> dict[str, Any]:
    X, y = sets.data(name)
    before, after, fitting, refining = np.array(
        [measured(X[rows], y[rows]) for rows in (arrival(y, "random", seed) for seed in range(orders))]
    ).T
    return {
        "points": len(y),
        "orders": orders,
        "HAC": hac,
        "default": {"purity": before.mean(), "deviation": before.std(), "seconds": fitting.mean()},
        "refined": {"purity": after.mean(), "deviation": after.std(), "seconds": refining.mean()},
    }


def line(name: str, found: dict[str, Any]) -> str:
    before, after = found["default"], found["refined"]
    return (
        f"{name:28s} {found['points']:6d} {found['orders']:3d}  HAC {found['HAC']:.3f}"
        f"  default {before['purity']:.3f} ± {before['deviation']:.3f} ({before['seconds']:.2f} s)"
        f"  refined {after['purity']:.3f} ± {after['deviation']:.3f} (+{after['seconds']:.2f} s)"
        f"  {after['purity'] - before['purity']:+.3f} {after['purity'] - found['HAC']:+.3f}"
    )


def summary(results: dict[str, dict[str, Any]]) -> str:
    worst = min((found["refined"]["purity"] - found["default"]["purity"], name) for name, found in results.items())
    gains = [found["refined"]["purity"] - found["HAC"] for found in results.values() if found["HAC"] < 0.9]
    ahead = sum(gain >= 0.02 for gain in gains)
    return f"worst against the default: {worst[1]} {worst[0]:+.3f}; .02 above HAC on {ahead} of {len(gains)} below .9"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=list(HALVES), help="only this half")
    parser.add_argument("--orders", type=int, help="as many random orders of every set")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    X, y = sets.data("glass")
    measured(X, y)  # compiled now, and not while it is measured
    known: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for half in [options.half] if options.half else HALVES:
        results: dict[str, Any] = {}
        for name in HALVES[half]:
            hac = known.get(half, {}).get(name, {}).get("HAC") or hac_purity(name)
            results[name] = row(name, options.orders or orders_of(len(sets.data(name)[1])), hac)
            print(line(name, results[name]), flush=True)
            known[half] = {**known.get(half, {}), **results}
            write_figures(options.out, known)
        print(half, "|", summary(results), flush=True)


if __name__ == "__main__":
    main()
