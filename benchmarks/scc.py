"""SCC, Affinity clustering and reciprocal nearest neighbours beside Grinch: purity on the real arity, processor time.

    GRINCH_DATA=folder python benchmarks/scc.py [--only digits,usps]

Similarities are cosines. The systems see all points at once, so there are no orders; Grinch, and Grinch refined once,
are means of random orders. Writes benchmarks/scc.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from fill import fill_pages
from grinch import SCC, Grinch
from grinch.datasets import Labelled, arrival, available
from grinch.metrics import dendrogram_purity
from paper_modes import data
from written import write_figures

FILE = Path(__file__).with_suffix(".json")
# Title, name, and points of a sample, if there are more.
SETS = [
    ("digits", "digits", 10_000),
    ("pendigits", "pendigits", 20_000),
    ("usps", "usps", 20_000),
    ("mnist", "mnist", 10_000),
    ("intents", "clinc150", 30_000),
    ("covtype", "covtype", 20_000),
    ("mixture", "", 20_000),
    ("images", "tiny_imagenet", 20_000),
    ("speakers", "speaker", 20_000),
]
SYSTEMS: dict[str, dict[str, Any]] = {
    "scc": {},
    "scc, coarser": {"thresholds": np.geomspace(1, 1e-4, 100)},
    "affinity": {"rule": "affinity"},
    "rnn": {"rule": "rnn"},
}
ORDERS = 3


def measured(X: np.ndarray, y: np.ndarray, settings: dict[str, Any]) -> dict[str, float]:
    began = time.process_time()
    tree = SCC(metric="cosine", **settings).fit(X).tree_
    seconds = round(time.process_time() - began, 2)
    purity, binary = (float(dendrogram_purity(tree, y, ties=ties)) for ties in ("join", "split"))
    return {"purity": round(purity, 4), "purity of the binary tree": round(binary, 4), "seconds": seconds}


def grown(points: Labelled) -> dict[str, dict[str, float]]:
    """Purity and seconds of Grinch by default and refined once."""
    found = []
    for seed in range(ORDERS):
        rows = arrival(points.labels, "random", seed)
        X, y = points.vectors[rows], points.labels[rows]
        began = time.process_time()
        model = Grinch(metric="cosine").fit(X)
        fitted = time.process_time()
        default = dendrogram_purity(model.tree_, y)
        refining = time.process_time()
        model.refine()
        refined = time.process_time()
        found.append([default, fitted - began, dendrogram_purity(model.tree_, y), fitted - began + refined - refining])
    means = np.mean(found, axis=0)
    titles = {"default": means[:2], "refined": means[2:]}
    return {
        title: {"purity": round(float(purity), 4), "seconds": round(float(seconds), 2)}
        for title, (purity, seconds) in titles.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(title for title, *_ in SETS), help="names, separated by commas")
    asked = parser.parse_args().only.split(",")
    results: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    for title, name, n in SETS:
        if title in asked and (not name or name in available()):
            X, y = data(name, n)
            SCC(metric="cosine").fit(X[:300])
            Grinch(metric="cosine").fit(X[:300]).refine()
            systems = {system: measured(X, y, settings) for system, settings in SYSTEMS.items()}
            results[title] = {"points": len(y), "systems": systems | grown(Labelled(X, y))}
            print(title, {system: found["purity"] for system, found in systems.items()}, flush=True)
    write_figures(FILE, {title: results[title] for title, *_ in SETS if title in results})
    fill_pages()


if __name__ == "__main__":
    main()
