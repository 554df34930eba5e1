"""PERCH beside its authors' program and beside Online: purity on the same points in the same order, and time.

    GRINCH_DATA=folder python benchmarks/perch.py [--authors CHECKOUT] [--only beside,time]

With a checkout of https://github.com/iesl/xcluster, its Python program is measured too, with and without its rotations
for balance. Writes benchmarks/perch.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fill import fill_pages
from grinch import Online, Perch, Tree
from grinch.datasets import Labelled, arrival, available, gaussian_mixture, load
from grinch.metrics import dendrogram_purity
from written import write_figures

FILE = Path(__file__).with_suffix(".json")
# Title, name, points, and classes of the mixture.
BESIDE_AUTHORS = [
    ("digits", "digits", 1_797, 0),
    ("pendigits", "pendigits", 2_000, 0),
    ("usps", "usps", 1_500, 0),
    ("mixture", "", 2_000, 100),
]
# Of their Scala, which always balances; it was run elsewhere.
SCALA = {"digits": 0.671}
BESIDE_ONLINE = [
    ("digits", "digits", 1_797, 0),
    ("segment", "segment", 2_310, 0),
    ("pendigits", "pendigits", 10_992, 0),
    ("usps", "usps", 11_000, 0),
    ("mnist", "mnist", 10_000, 0),
    ("covtype", "covtype", 10_000, 0),
    ("speakers", "speaker", 10_000, 0),
    ("mixture", "", 10_000, 500),
]
SEPARATED = ("separated-2", "separated-10", "separated-100")
ORDERS = 3
N_TIMED = 50_000

OURS: dict[str, dict[str, Any]] = {"PERCH": {}, "PERCH-B": {"balance": True}}
TIMED: dict[str, dict[str, Any]] = {**OURS, "PERCH-BC": {"balance": True, "max_leaves": 5_000}}


def data(name: str, n: int, n_classes: int, seed: int) -> Labelled:
    """The first points of a random order."""
    found = load(name) if name else gaussian_mixture(n, n_classes=n_classes)
    X, y = np.asarray(found.vectors, np.float32), np.asarray(found.labels)
    rows = arrival(y, "random", seed)[:n]
    return Labelled(X[rows], y[rows])


def there(sets: list[tuple[str, str, int, int]]) -> Iterator[tuple[str, str, int, int]]:
    names = available()
    return (each for each in sets if not each[1] or each[1] in names)


def purity(points: Labelled, model: Any) -> float:
    return round(float(dendrogram_purity(model.fit(points.vectors).tree_, points.labels)), 4)


def beside_authors(checkout: Path | None) -> dict[str, Any]:
    results = {}
    for title, name, n, n_classes in there(BESIDE_AUTHORS):
        points = data(name, n, n_classes, 0)
        row = {"Online": purity(points, Online())}
        row |= {system: purity(points, Perch(**settings)) for system, settings in OURS.items()}
        if checkout is not None:
            for system, balance in (("authors", False), ("authors, balanced", True)):
                tree = authors_tree(checkout, points.vectors, balance)
                row[system] = round(float(dendrogram_purity(tree, points.labels)), 4)
        if title in SCALA:
            row["authors' Scala, balanced"] = SCALA[title]
        results[title] = {"points": len(points.labels), "purity": row}
        print(title, row, flush=True)
    return results


def authors_tree(checkout: Path, X: np.ndarray, balance: bool) -> Tree:
    """The tree of the authors' Python program."""
    sys.path.insert(0, str(checkout / "src" / "python"))
    PNode: Any = importlib.import_module("xcluster.models.PNode").PNode
    balanced = PNode.recursive_rotate_if_unbalanced
    if not balance:
        PNode.recursive_rotate_if_unbalanced = lambda node, collapsibles=None: None
    # Its nodes of equal distance have names drawn at random.
    random.seed(0)
    try:
        root = PNode()
        for i, x in enumerate(X.astype(np.float64)):
            root = root.insert((x, "", i))
    finally:
        PNode.recursive_rotate_if_unbalanced = balanced
        sys.path.pop(0)
    return as_tree(root, len(X))


def as_tree(root: Any, n: int) -> Tree:
    downwards, numbers = [root], dict[int, int]()
    merges: list[list[int]] = []
    for node in downwards:
        downwards += node.children
    for node in reversed(downwards):
        if node.children:
            merges.append([numbers[id(child)] for child in node.children])
            numbers[id(node)] = n + len(merges) - 1
        else:
            numbers[id(node)] = node.pts[0][2]
    return Tree.from_merges(np.array(merges), -np.arange(len(merges), dtype=float))


def beside_online() -> dict[str, Any]:
    results = {}
    for title, name, n, n_classes in there(BESIDE_ONLINE):
        row: dict[str, list[float]] = {"Online": [], **{system: [] for system in OURS}}
        for seed in range(ORDERS):
            points = data(name, n, n_classes, seed)
            row["Online"].append(purity(points, Online()))
            for system, settings in OURS.items():
                row[system].append(purity(points, Perch(**settings)))
        results[title] = {"points": len(points.labels), "purity": row}
        print(title, {system: round(float(np.mean(found)), 3) for system, found in row.items()}, flush=True)
    return results


def separated() -> dict[str, float]:
    """The lowest purity of the orders."""
    names = [name for name in SEPARATED if name in available()]
    return {name: min(purity(data(name, 10**6, 0, seed), Perch()) for seed in range(ORDERS)) for name in names}


def timed() -> dict[str, Any]:
    points = gaussian_mixture(N_TIMED)
    results = {}
    for system, settings in TIMED.items():
        Perch(**settings).fit(points.vectors[:300])
        began = time.process_time()
        tree = Perch(**settings).fit(points.vectors).tree_
        seconds = time.process_time() - began
        results[system] = {"seconds": round(seconds, 1), "purity": round(dendrogram_purity(tree, points.labels), 4)}
        print(system, results[system], flush=True)
    return {"points": N_TIMED, "features": points.vectors.shape[1], "systems": results}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--authors", type=Path, help="a checkout of iesl/xcluster")
    parser.add_argument("--only", default="authors,online,separated,time", help="parts, separated by commas")
    options = parser.parse_args()
    parts = {
        "authors": lambda: beside_authors(options.authors),
        "online": beside_online,
        "separated": separated,
        "time": timed,
    }
    results: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    for part in options.only.split(","):
        results[part] = parts[part]()
        write_figures(FILE, results)
    fill_pages()


if __name__ == "__main__":
    main()
