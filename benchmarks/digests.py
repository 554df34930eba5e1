"""Digests of trees over data sets, linkages and rules: a change that must not change a tree is held to them.

    python benchmarks/digests.py            compare with benchmarks/digests.json; exit code 1 if a tree differs
    python benchmarks/digests.py --add      add the trees of this processor, with code that gives those of the others
    python benchmarks/digests.py --write    write that file, after a change that is meant to change trees

Another processor may round sums differently, so there are digests for each. Trees that change make another engine:
``--write`` raises its number, which stores keep with every operation.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite.binding import get_host_cpu_name
from numba import njit
from sklearn.datasets import load_digits

from grinch import HAC, Birch, Grinch, MiniBatchHAC, Online, Perch, Rotate, Rules
from grinch.core.engine import ENGINE
from grinch.neighbors import ByKey, ByVector

FILE = Path(__file__).with_suffix(".json")
VECTOR_LINKAGES = [
    *(("average", metric) for metric in ("cosine", "dot", "sqeuclidean")),
    *((name, None) for name in ("cosine", "centroid", "ward")),
]
RULES = {
    "fast": Rules.fast(),
    "exact": Rules.exact(),
    "paper": Rules.paper(),
    "authors": Rules.authors(),
    "fast+pull": Rules.fast(pull=True),
    "fast-light": Rules.fast(light_grafts=False),
    "fast-polish": Rules.fast(polish=False),
    "fast-restructure": Rules.fast(restructure=False),
    "cap 30": Rules.fast(cap=30),
    "caps": Rules.fast(cap={"rotate": 20, "graft": 200, "restructure": 50}),
    "exact single search": Rules.exact(single_search=True),
    "exact elimination": Rules.exact(single_elimination=True),
    "no cap": Rules.fast(cap=float("inf")),
}
# Exact modes take all leaves into account at every step.
N_EXACT, N_EXACT_RECORDS, N_RECORDS = 350, 120, 400

Case = tuple[str, Callable[[], Any]]


def data() -> dict[str, np.ndarray]:
    """Handwritten digits, a mixture of groups of unequal sizes, and a grid full of ties and duplicates."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(60, 16))
    sizes = np.ceil(rng.pareto(1.2, 60) * 12 + 2).astype(int).clip(2, 250)
    groups = [c + 0.45 * rng.normal(size=(s, 16)) for c, s in zip(centres, sizes, strict=True)]
    mixture = np.concatenate(groups).astype(np.float32)
    mixture = mixture[rng.permutation(len(mixture))]
    return {"digits": load_digits().data[:900], "mixture": mixture, "ties": rng.integers(0, 4, (400, 3)).astype(float)}


class Means:
    """Mean vectors and their dot products."""

    def leaf(self, row: Any) -> tuple[Any, int]:
        return np.asarray(row, float), 1

    def merge(self, a: tuple[Any, int], b: tuple[Any, int]) -> tuple[Any, int]:
        n = a[1] + b[1]
        return (a[0] * a[1] + b[0] * b[1]) / n, n

    def score(self, a: tuple[Any, int], b: tuple[Any, int]) -> float:
        return float(a[0] @ b[0])


class BatchedMeans(Means):
    def scores(self, a: tuple[Any, int], others: Any) -> Any:
        return np.stack([b[0] for b in others]) @ a[0]


def mean_gap(a: list[Any], b: list[Any]) -> float:
    return -float(((np.mean(a, axis=0) - np.mean(b, axis=0)) ** 2).sum())


@njit
def compiled_gap(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(a.mean.shape[0]):
        step = a.mean[i] - b.mean[i]
        total += step * step
    return -total * np.sqrt(a.size * b.size / (a.size + b.size))


def vector_cases(name: str, X: np.ndarray) -> Iterator[Case]:
    for linkage, metric in VECTOR_LINKAGES:
        for title, rules in RULES.items():
            model = Grinch(linkage, metric=metric, mode=rules)
            yield f"{name} {linkage} {metric} {title}", partial(model.fit, X[:N_EXACT] if "exact" in title else X)
    few = X[:N_RECORDS]
    yield f"{name} rotate", partial(Rotate(metric="cosine").fit, X)
    yield f"{name} online", partial(Online(metric="cosine").fit, X)
    yield f"{name} hac", partial(HAC(linkage="cosine").fit, few)
    yield f"{name} mbhac", partial(MiniBatchHAC(metric="cosine", buffer_size=60).fit, few)
    yield f"{name} perch", partial(Perch().fit, few)
    yield f"{name} birch", partial(Birch().fit, few)


def record_cases(name: str, X: np.ndarray) -> Iterator[Case]:
    searches: dict[str, Any] = {
        "": "auto",
        " vectors": ByVector(np.stack, 20),
        " keys": ByKey(lambda row: [int(row[0]), int(row[1])]),
    }
    others: tuple[tuple[Any, ...], ...] = (
        ("compiled", compiled_gap, "sqeuclidean"),
        ("single", "single", None),
        ("complete", "complete", None),
    )
    for mode in ("fast", "exact", "paper", "authors"):
        rows = X[: N_EXACT_RECORDS if mode == "exact" else N_RECORDS]
        for title, linkage in (("object", Means()), ("batched", BatchedMeans()), ("function", mean_gap)):
            for how, search in searches.items():
                yield f"{name} {title} {mode}{how}", partial(Grinch(linkage, mode=mode, search=search).fit, list(rows))
        for title, linkage, metric in others:
            yield f"{name} {title} {mode}", partial(Grinch(linkage, metric=metric, mode=mode).fit, rows)


def life_cases(name: str, X: np.ndarray) -> Iterator[Case]:
    """Points that come in pieces, leave and change; and refinement."""

    def life(linkage: str, metric: str) -> Grinch:
        model = Grinch(linkage, metric=metric).fit(X[:300])
        for i in range(300, 380, 7):
            model.partial_fit(X[i : i + 7])
        model.remove(list(range(10, 200, 3))).update([0, 1, 2], X[5:8])
        return model.partial_fit(X[100:200])

    def record_life() -> Grinch:
        model = Grinch(BatchedMeans(), search=ByVector(np.stack, 20)).fit(list(X[:150]))
        model.remove(list(range(10, 100, 3))).update([0, 1], list(X[5:7]))
        return model.partial_fit(list(X[150:200])).refine()

    def refined(linkage: str, metric: str, mode: str, rows: np.ndarray, passes: int) -> Grinch:
        return Grinch(linkage, metric=metric, mode=mode).fit(rows).refine(passes)

    for linkage, metric in (("average", "cosine"), ("ward", "sqeuclidean")):
        yield f"{name} {linkage} life", partial(life, linkage, metric)
        yield f"{name} {linkage} refined", partial(refined, linkage, metric, "fast", X, 2)
        yield f"{name} {linkage} refined exact", partial(refined, linkage, metric, "exact", X[:200], 1)
    yield f"{name} batched life", record_life


def digests() -> dict[str, str]:
    found = {}
    for name, X in data().items():
        for cases in (vector_cases, record_cases, life_cases):
            for title, case in cases(name, X):
                newick = case().tree_.to_newick(lengths=False)
                found[title] = hashlib.sha256(newick.encode()).hexdigest()[:16]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--add", action="store_true")
    action.add_argument("--write", action="store_true")
    options = parser.parse_args()
    processor, written = get_host_cpu_name(), json.loads(FILE.read_text())
    if options.add or options.write:
        others = {} if options.write else written["trees"]
        engine = written["engine"] + options.write
        FILE.write_text(json.dumps({"engine": engine, "trees": {**others, processor: digests()}}, indent=1) + "\n")
        if engine != ENGINE:
            print(f"now set ENGINE = {engine} in src/grinch/core/engine.py")
        return 0
    if processor not in written["trees"]:
        print(f"not compared: written on {', '.join(written['trees'])}, this is {processor}")
        return 0
    expected, found = written["trees"][processor], digests()
    changed = [name for name, digest in expected.items() if found.get(name) != digest]
    print(f"{len(found)} trees, {len(changed)} differ", *changed, sep="\n")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
