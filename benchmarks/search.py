"""Searches against each other: CPU per point, and the purity of the tree that grows from what they find.

    GRINCH_DATA=folder python benchmarks/search.py            (an hour; without a folder, no real sets)
    python benchmarks/search.py --only mixture --sizes 20000 --dimensions 16 64 --searches exact cells

A mixture of 1,000 classes of very unequal sizes, and samples of real sets. Every search finds the 25 neighbours of each
point among those before it, in the order of arrival; its candidates then go to the engine in the default mode.
usearch and faiss are measured where they are installed (``pip install 'grinch[bench]'``). Writes
benchmarks/search.json, line by line, so that a run can be stopped; a line that is there is not measured again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from grinch.core.engine import Engine
from grinch.core.rules import FAST
from grinch.datasets import Labelled, available, load
from grinch.linkage.named import VECTOR_LINKAGES
from grinch.metrics import dendrogram_purity
from grinch.neighbors.cells import CellSearch
from grinch.neighbors.exact import BATCH, ExactSearch, Neighbors, batches, ranked
from grinch.summaries.vectors import VectorSummaries
from written import write_figures

K, EXTRA = 25, 16
OUT = Path(__file__).with_suffix(".json")
LINKAGE = VECTOR_LINKAGES["average"]["cosine"]
# The settings of the cells were chosen on these and on the mixture of up to 100,000 points.
REAL = ("speaker", "mnist", "shuttle", "covtype", "usps", "tiny_imagenet", "clinc150", "pendigits")
REAL_POINTS, REAL_ORDERS = 10_000, 3
# What they are judged by: sets that are large enough for the default to search by cells; one order each.
LARGE = {"speaker": 30_000, "tiny_imagenet": 50_000, "mnist": 50_000, "shuttle": 50_000}
# Beyond, a search takes longer than anybody would wait; in points times dimensions.
MOST = {"exact": 100_000 * 768, "usearch": 100_000 * 384}
console = Console(width=140, highlight=False)


def mixture(n: int, n_features: int, seed: int = 0) -> Labelled:
    """1,000 classes, their sizes from a Pareto distribution, noise of 1.3."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((1000, n_features)).astype(np.float32)
    weights = rng.pareto(1.5, 1000) + 1
    labels = rng.choice(1000, n, p=weights / weights.sum())
    vectors = np.float32(1.3) * rng.standard_normal((n, n_features), dtype=np.float32)
    for start in range(0, n, 50_000):
        vectors[start : start + 50_000] += centres[labels[start : start + 50_000]]
    return Labelled(vectors, labels)


# Searches by libraries ------------------------------------------------------------------------------------------------


class Library:
    """A search by an index of a library: points enter in blocks, those since are compared, all are ranked by us."""

    longest = 0.0

    def __init__(self, summaries: VectorSummaries, k: int):
        self.summaries, self.k, self.entered = summaries, k, 0

    def stream(self, start: int, stop: int) -> Iterator[Neighbors]:
        for lo, hi in batches(start, stop):
            queries = np.arange(lo, hi)
            recent = np.broadcast_to(np.arange(self.entered, hi, dtype=np.int32), (hi - lo, hi - self.entered))
            recent = np.where(recent < queries[:, None], recent, -1).astype(np.int32)
            proposed = np.hstack([self.ask(self.summaries.arrays.means[lo:hi]), recent])
            found = ranked(self.summaries.arrays, queries, proposed, self.k)
            if hi % BATCH == 0:
                started = time.thread_time()
                self.add(self.entered, hi)
                self.entered, self.longest = hi, max(self.longest, time.thread_time() - started)
            yield Neighbors(lo, found)

    def ask(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
        raise NotImplementedError

    def add(self, lo: int, hi: int) -> None:
        raise NotImplementedError


class Usearch(Library):
    """A graph of neighbours (HNSW), filled by one thread so that it is the same every time."""

    def __init__(self, summaries: VectorSummaries, k: int):
        from usearch.index import Index

        super().__init__(summaries, k)
        self.index = Index(
            ndim=summaries.n_features,
            metric="ip",
            dtype="f32",
            connectivity=16,
            expansion_add=100,
            expansion_search=100,
        )

    def ask(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
        if len(self.index) == 0:
            return np.empty((len(rows), 0), np.int32)
        keys = np.asarray(self.index.search(rows, self.k + EXTRA, threads=1).keys)
        return keys.reshape(len(rows), -1).astype(np.int32)

    def add(self, lo: int, hi: int) -> None:
        self.index.add(np.arange(lo, hi), self.summaries.arrays.means[lo:hi], threads=1)


class Faiss(Library):
    """An inverted file whose cells are trained again on all points whenever there are four times as many."""

    probes = 16

    def __init__(self, summaries: VectorSummaries, k: int):
        import faiss

        faiss.omp_set_num_threads(1)
        super().__init__(summaries, k)
        self.faiss, self.trained_at = faiss, 256
        self.index: Any = faiss.IndexFlatIP(summaries.n_features)

    def ask(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
        return self.index.search(rows, self.k + EXTRA)[1].astype(np.int32)

    def add(self, lo: int, hi: int) -> None:
        points = self.summaries.arrays.means[:hi]
        if hi >= 4 * self.trained_at:
            self.trained_at = hi
            n_cells = max(1, round(2 * hi**0.5))
            product = self.faiss.METRIC_INNER_PRODUCT
            quantizer = self.faiss.IndexFlatIP(points.shape[1])
            self.index = self.faiss.IndexIVFFlat(quantizer, points.shape[1], n_cells, product)
            self.index.cp.min_points_per_centroid = 1
            self.index.train(points)
            self.index.nprobe = self.probes
            lo = 0
        self.index.add(points[lo:hi])


class TimedCells(CellSearch):
    """Ours, with a look at the clock."""

    longest = 0.0

    def _enter_block(self, lo: int, hi: int, pool: Executor | None = None) -> None:
        started = time.thread_time()
        super()._enter_block(lo, hi, pool)
        self.longest = max(self.longest, time.thread_time() - started)


SEARCHES: dict[str, Callable[[VectorSummaries, int], Any]] = {
    "exact": ExactSearch,
    "cells": TimedCells,
    "usearch": Usearch,
    "faiss": Faiss,
}
# What else the cells could be; measured on the mixture of SETTINGS_ON.
SETTINGS: dict[str, dict[str, int]] = {
    "as they are": {},
    "room for 128": {"room": 128},
    "room for 512": {"room": 512},
    "4 probes": {"probes": 4},
    "16 probes": {"probes": 16},
    "no exchange": {"around": 1},
    "exchange among 16": {"around": 16},
}
SETTINGS_ON = (100_000, 64)


def cells_with(changes: dict[str, int]) -> Callable[[VectorSummaries, int], TimedCells]:
    return lambda summaries, k: TimedCells(summaries, k, **changes)


# Measuring ------------------------------------------------------------------------------------------------------------


class Found:
    """A search that has all its answers already."""

    k = K

    def __init__(self, candidates: npt.NDArray[np.int32]):
        self.candidates = candidates

    def write(self, at: int, rows: Any) -> None:
        pass

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        for lo, hi in batches(start, stop):
            yield Neighbors(lo, self.candidates[lo:hi])


def measure(data: Labelled, make: Callable[[VectorSummaries, int], Any]) -> dict[str, float]:
    """CPU microseconds per point, over all and at the end; the longest that points took to enter; recall; the tree."""
    n, n_features = data.vectors.shape
    summaries = VectorSummaries(LINKAGE, n_features)
    summaries.grow(n)
    summaries.write(0, data.vectors)
    search = make(summaries, K)
    candidates, marks = np.empty((n, K), np.int32), [(0, time.process_time())]
    for start, found in search.stream(0, n):
        candidates[start : start + len(found)] = found
        marks.append((start + len(found), time.process_time()))
    at, clock = np.array(marks).T
    late = np.searchsorted(at, 0.9 * n)
    longest = getattr(search, "longest", 0.0)
    recall = recall_at_end(summaries, candidates)
    del search, summaries
    engine = Engine(LINKAGE, FAST, n_neighbors=K, n_features=n_features)
    engine.search = Found(candidates)  # type: ignore[assignment]
    started = time.process_time()
    engine.insert(data.vectors)
    tree_part = time.process_time() - started
    return {
        "search_us": (clock[-1] - clock[0]) / n * 1e6,
        "search_us_at_end": (clock[-1] - clock[late]) / (n - at[late]) * 1e6,
        "longest_entry_ms": longest * 1e3,
        "recall": recall,
        "tree_us": tree_part / n * 1e6,
        "purity": dendrogram_purity(engine.tree(), data.labels),
    }


def recall_at_end(summaries: VectorSummaries, candidates: npt.NDArray[np.int32]) -> float:
    """The share of the true neighbours of the last 1,000 points that were found."""
    n = len(candidates)
    parts = ExactSearch(summaries, K).stream(n - 1000, n)
    true = np.concatenate([part.candidates for part in parts])
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(true, candidates[-1000:], strict=True)]))


def noted(results: dict[str, Any], key: str, run: Callable[[], dict[str, float]]) -> None:
    """Measure what is not in the file yet, and write it."""
    if key not in results:
        results[key] = run()
        write_figures(OUT, results)
    console.print(key, {name: round(value, 4) for name, value in results[key].items()})


def on_real_set(name: str, n: int, search: str, orders: int) -> dict[str, float]:
    runs = [measure(load(name, n=n, random_state=order), SEARCHES[search]) for order in range(orders)]
    return {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["mixture", "settings", "real", "large"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[16, 64, 384, 768])
    parser.add_argument("--searches", nargs="+", default=list(SEARCHES), choices=list(SEARCHES))
    options = parser.parse_args()
    names = [name for name in options.searches if name not in ("usearch", "faiss") or find_spec(name)]
    results: dict[str, Any] = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
    for name in names:
        measure(mixture(5000, 8), SEARCHES[name])  # compiled, loaded
    if options.only in (None, "mixture"):
        for n_features in options.dimensions:
            for n in options.sizes:
                data = mixture(n, n_features)
                for name in names:
                    if n * n_features <= MOST.get(name, n * n_features):
                        key = f"mixture, {n}, {n_features}, {name}"
                        noted(results, key, partial(measure, data, SEARCHES[name]))
    if options.only in (None, "settings"):
        data = mixture(*SETTINGS_ON)
        for setting, changes in SETTINGS.items():
            noted(results, f"settings, {setting}", partial(measure, data, cells_with(changes)))
    if options.only in (None, "real"):
        for real in REAL:
            for name in names if real in available() else ():
                noted(
                    results,
                    f"{real}, {REAL_POINTS}, {name}",
                    partial(on_real_set, real, REAL_POINTS, name, REAL_ORDERS),
                )
    if options.only in (None, "large"):
        for real, n in LARGE.items():
            for name in [name for name in names if name in ("exact", "cells")] if real in available() else ():
                noted(results, f"{real}, {n}, {name}", partial(on_real_set, real, n, name, 1))


if __name__ == "__main__":
    main()
