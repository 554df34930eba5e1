"""All systems at one size, each in a process of its own: seconds, memory, purity, the best F1 of a cut, depth."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from grinch import HAC, Perch
from grinch.compare.methods import compare
from grinch.datasets import Labelled, gaussian_mixture
from grinch.linkage.named import linkage_of
from grinch.metrics import dendrogram_purity
from perch_port import PerchPort

ORDERS = 3
# Title, method, linkage, orders, and the most points: beyond them memory (HAC) or patience (the others) ends.
SYSTEMS = [
    ("grinch", "grinch", "average", ORDERS, 10**6),
    ("grinch, cosine linkage", "grinch", "cosine", ORDERS, 10**6),
    ("grinch, refined once", "grinch:refine_passes=1", "average", ORDERS, 10**6),
    ("grinch, the paper's settings", "grinch:mode=paper", "average", ORDERS, 10**6),
    ("grinch, index", "grinch:search=index", "average", 1, 10**6),
    ("Rotate", "rotate", "average", ORDERS, 10**6),
    ("Online", "online", "average", ORDERS, 10**6),
    ("MB-HAC, 2,000", "mb-hac", "average", 1, 10**6),
    ("PERCH", "perch", "average", 1, 10**6),
    ("PERCH-BC, 5,000", "perch-bc", "average", 1, 10**6),
    ("HAC", "hac", "average", 1, 20_000),
    ("HAC, cosine linkage", "hac", "cosine", 1, 20_000),
    ("BIRCH", "birch", "average", 1, 50_000),
    ("SCC", "scc", "average", 1, 10**6),
    ("Affinity", "affinity", "average", 1, 10**6),
    ("Reciprocal nearest neighbours", "rnn", "average", 1, 10**6),
]


def measure(data: Labelled) -> dict[str, dict[str, float]]:
    rows = {}
    for title, method, linkage, orders, most in SYSTEMS:
        if len(data.labels) > most:
            continue
        (row,) = compare(
            data.vectors, data.labels, [method], linkage=linkage, metric="cosine", orders=orders, time_limit=900
        )
        if row.failure:
            continue
        rows[title] = {name: float(np.mean(values)) for name, values in row.figures.items()}
        if orders > 1:
            rows[title]["purity_deviation"] = float(np.std(row.figures["purity"]))
    return rows


def timed_purity(model: Any, data: Labelled) -> dict[str, float]:
    start = time.perf_counter()
    tree = model.fit(data.vectors).tree_
    return {"seconds": time.perf_counter() - start, "purity": dendrogram_purity(tree, data.labels)}


def hac_routines(n: int) -> dict[str, dict[str, float]]:
    """The ways to the same tree of average linkage under cosine: what HAC was chosen by."""
    import fastcluster
    from scipy.spatial.distance import pdist

    data = gaussian_mixture(n)
    found = {
        "scipy": timed_purity(HAC(metric="cosine"), data),
        "our heap": timed_purity(HAC(linkage=linkage_of("average", "cosine")), data),
        "our chain, O(n) memory": timed_purity(HAC(metric="cosine", lean=True), data),
    }
    start = time.perf_counter()
    fastcluster.linkage(pdist(data.vectors.astype(np.float64), "cosine").clip(0), "average", preserve_input=False)
    found["fastcluster"] = {"seconds": time.perf_counter() - start}
    return found


def perch_against_port(n: int) -> dict[str, float]:
    """Microseconds per insert of PERCH, compiled and in plain Python, on the same points."""
    X = gaussian_mixture(n).vectors.astype(np.float64)
    Perch().fit(X[:10])
    start = time.perf_counter()
    model = Perch().fit(X)
    compiled = (time.perf_counter() - start) / n * 1e6
    port = PerchPort()
    start = time.perf_counter()
    for x in X:
        port.insert(x)
    plain = (time.perf_counter() - start) / n * 1e6
    return {
        "n": n,
        "us_compiled": compiled,
        "us_plain": plain,
        "ratio": plain / compiled,
        "depth": float(model.tree_.depths().max()),
        "rotations_compiled": model.stats_["rotations"],
        "rotations_plain": port.rotations,
    }
