"""The paper's mode, its authors' mode and the default beside Rotate: purity and processor time of each order.

    GRINCH_DATA=folder python benchmarks/paper_modes.py [--only usps,covtype]

Average linkage under cosine, random orders of arrival. Writes benchmarks/paper_modes.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from fill import fill_pages
from grinch import Grinch, Rules
from grinch.datasets import Labelled, arrival, available, gaussian_mixture, load
from grinch.metrics import dendrogram_purity
from written import write_figures

FILE = Path(__file__).with_suffix(".json")
# Title, name, points (of a sample, if there are more), and orders.
SETS = [
    ("pendigits", "pendigits", 10_992, 3),
    ("usps", "usps", 11_000, 2),
    ("mnist", "mnist", 10_000, 2),
    ("covtype", "covtype", 20_000, 3),
    ("mixture", "", 20_000, 1),
    ("speakers", "speaker", 30_000, 1),
    ("images", "tiny_imagenet", 50_000, 1),
]
SYSTEMS: dict[str, dict[str, Any]] = {
    "Rotate": {"mode": Rules.paper(graft=False, restructure=False), "n_neighbors": 1},
    "authors": {"mode": "authors"},
    "paper": {"mode": "paper"},
    "default": {},
}


def data(name: str, n: int) -> Labelled:
    if not name:
        return gaussian_mixture(n)
    found = load(name)
    rows = np.arange(len(found.labels))
    if len(rows) > n:
        rows = np.random.default_rng(0).permutation(rows)[:n]
    return Labelled(np.asarray(found.vectors, np.float32)[rows], np.asarray(found.labels)[rows])


def measured(points: Labelled, settings: dict[str, Any], orders: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"purity": [], "seconds": []}
    Grinch(metric="cosine", **settings).fit(points.vectors[:300])
    for seed in range(orders):
        rows = arrival(points.labels, "random", seed)
        began = time.process_time()
        tree = Grinch(metric="cosine", **settings).fit(points.vectors[rows]).tree_
        found["seconds"].append(round(time.process_time() - began, 2))
        found["purity"].append(round(float(dendrogram_purity(tree, points.labels[rows])), 4))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(title for title, *_ in SETS), help="names, separated by commas")
    asked = parser.parse_args().only.split(",")
    results: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    for title, name, n, orders in SETS:
        if title in asked and (not name or name in available()):
            points = data(name, n)
            by_system = {system: measured(points, settings, orders) for system, settings in SYSTEMS.items()}
            results[title] = {"points": len(points.labels), "systems": by_system}
            print(title, {system: np.mean(found["purity"]).round(3) for system, found in by_system.items()}, flush=True)
    results = {title: results[title] for title, *_ in SETS if title in results}
    write_figures(FILE, results)
    fill_pages()


if __name__ == "__main__":
    main()
