"""Dependence of the default tree on the order of arrival: random, and sorted by class, without refinement.

    GRINCH_DATA=folder python benchmarks/arrival.py                        both halves of benchmarks/sets.py
    GRINCH_DATA=folder python benchmarks/arrival.py --choosing             only the half that settings are chosen on
    GRINCH_DATA=folder python benchmarks/arrival.py --as before            the package at hand is what was before
    python benchmarks/arrival.py --table                                   what was measured, as a table

Dendrogram purity and CPU seconds, the mean of three orders, go to benchmarks/arrival.json, set by set.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import sets
from written import write_figures

OUT = Path(__file__).parent / "arrival.json"
ORDERS = ("random", "sorted")
SEEDS = 3


def measure(name: str) -> dict[str, Any]:
    from grinch import Grinch
    from grinch.datasets import arrival
    from grinch.metrics import dendrogram_purity

    X, y = sets.data(name)
    result: dict[str, Any] = {}
    for order in ORDERS:
        purity, seconds = [], []
        for seed in range(SEEDS):
            rows = arrival(y, order, seed)
            began = time.process_time()
            model = Grinch(metric="cosine").fit(X[rows])
            seconds.append(time.process_time() - began)
            purity.append(float(dendrogram_purity(model.tree_, y[rows])))
        result[order] = {
            "purity": round(float(np.mean(purity)), 4),
            "deviation": round(float(np.std(purity)), 4),
            "cpu_seconds": round(float(np.mean(seconds)), 3),
        }
    return result


def table(found: dict[str, Any]) -> str:
    """Purity in random order and sorted by class, before and after; and what a fit in random order costs."""
    lines = [
        "| data | before: random | sorted | now: random | sorted | CPU seconds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for half in (sets.CHOOSING, sets.REPORTING):
        kept = [found[name] for name in half if {"before", "now"} <= found.get(name, {}).keys()]
        for name in half:
            if name in found and {"before", "now"} <= found[name].keys():
                lines.append(_line(name, [found[name]]))
        if kept:
            lines.append(_line("**mean**", kept))
    return "\n".join(lines)


def _line(name: str, rows: list[dict[str, Any]]) -> str:
    def mean(version: str, order: str, figure: str) -> float:
        return float(np.mean([row[version][order][figure] for row in rows]))

    purity = [mean(version, order, "purity") for version in ("before", "now") for order in ORDERS]
    seconds = [mean(version, "random", "cpu_seconds") for version in ("before", "now")]
    cells = [f"{value:.3f}".removeprefix("0") for value in purity]
    return f"| {name} | {' | '.join(cells)} | {seconds[0]:.2f} / {seconds[1]:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--as", dest="version", choices=("before", "now"), default="now")
    parser.add_argument("--choosing", action="store_true")
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if not asked.table:
        measure("digits")  # compiles
        for name in sets.CHOOSING if asked.choosing else (*sets.CHOOSING, *sets.REPORTING):
            result = measure(name)
            found = json.loads(OUT.read_text()) if OUT.exists() else {}
            found.setdefault(name, {})[asked.version] = result
            write_figures(OUT, found)
            print(name, result, flush=True)
    print(table(json.loads(OUT.read_text())))


if __name__ == "__main__":
    main()
