"""Results of the defaults: toy sets, overlapping classes, texts, and how far to trust them.

    GRINCH_DATA=folder python benchmarks/defaults.py [toy mixtures texts stability noise number membership cost]

Adjusted Rand index of ``Grinch().fit(X).labels_`` unless said otherwise; seeds 0 to 4 of the toy sets are for
reporting, 100 and 101 were for choosing. Writes benchmarks/defaults.json, a part at a time.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN
from sklearn.datasets import load_digits, make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import sets
from cuts import noise_alone
from grinch import Grinch
from grinch.cuts import cut_best_f1, cut_n_clusters
from grinch.datasets import arrival, gaussian_mixture
from written import write_figures

OUT = Path(__file__).parent / "defaults.json"
TOYS = ("blobs", "aniso", "varied", "moons", "circles", "15 blobs")
SEEDS = range(5)
# Of both halves of benchmarks/sets.py.
STABLE = (
    *("digits", "wine", "orl_faces", "cora 1,879", "intents 5,000"),
    *("coil20", "usps 4,000", "breast_cancer", "iris", "febrl4"),
)

Points = tuple[np.ndarray, np.ndarray]
Found = dict[str, Any]


def toy(name: str, n: int, seed: int) -> Points:
    """The sets of scikit-learn's comparison of clusterers, and 15 blobs in ten dimensions."""
    made: dict[str, Callable[[], Any]] = {
        "blobs": lambda: make_blobs(n, random_state=seed),
        "aniso": lambda: make_blobs(n, random_state=seed),
        "varied": lambda: make_blobs(n, cluster_std=[1.0, 2.5, 0.5], random_state=seed),
        "moons": lambda: make_moons(n, noise=0.05, random_state=seed),
        "circles": lambda: make_circles(n, factor=0.5, noise=0.05, random_state=seed),
        "15 blobs": lambda: make_blobs(n, centers=15, n_features=10, random_state=seed),
    }
    X, y = made[name]()
    return (X @ np.array([[0.6, -0.6], [-0.4, 0.8]]) if name == "aniso" else X), y


def toys() -> Found:
    found: Found = {}
    for name in TOYS:
        for n in (500, 3000):
            rows = []
            for seed in SEEDS:
                X, y = toy(name, n, seed)
                model = Grinch().fit(X)
                hdbscan = noise_alone(HDBSCAN(min_cluster_size=15, copy=True).fit_predict(X))
                best = adjusted_rand_score(y, cut_best_f1(model.tree_, y))
                rows.append([adjusted_rand_score(y, model.labels_), best, adjusted_rand_score(y, hdbscan)])
            found[f"{name} {n:,}"] = dict(zip(("default", "best cut", "HDBSCAN"), _means(rows), strict=True))
    means = _means([list(row.values()) for row in found.values()])
    return {**found, "mean": dict(zip(("default", "best cut", "HDBSCAN"), means, strict=True))}


def mixtures() -> Found:
    found: Found = {}
    X, y = gaussian_mixture(200_000, n_classes=1000, n_features=32)
    for name, some in (("20,000 of 200,000", slice(20_000)), ("200,000", slice(None))):
        found[name] = _scored(X[some], y[some])
    found["20,000"] = _scored(*gaussian_mixture(20_000, n_classes=1000, n_features=32))
    return found


def texts() -> Found:
    from grinch.text import TextVectors

    with gzip.open(
        Path(os.environ["GRINCH_DATA"]) / "clinc150" / "clinc150_text.tsv.gz", "rt", encoding="utf-8"
    ) as file:
        lines = [line for line in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if line[1] != "oos"]
    chosen = [lines[i] for i in np.random.default_rng(0).permutation(len(lines))[:4000]]
    X = TextVectors().fit_transform([text for _, _, text in chosen])
    y = np.unique([intent for _, intent, _ in chosen], return_inverse=True)[1]
    return {"default": _scored(X, y), "cosine": _scored(X, y, metric="cosine")}


def stability() -> Found:
    found: Found = {}
    for name in STABLE:
        X, y = sets.data(name)
        X, rng = np.asarray(X, np.float32), np.random.default_rng(0)
        for way, disturbed in (("1 % left out", _left_out), ("noise of 1e-4", _shaken)):
            labels = []
            for rows, points in disturbed(X, rng):
                labels.append(np.full(len(y), -1))
                labels[-1][rows] = Grinch().fit(points).labels_
            pairs = [(a[(a >= 0) & (b >= 0)], b[(a >= 0) & (b >= 0)]) for a, b in combinations(labels, 2)]
            found.setdefault(name, {})[way] = round(float(np.mean([adjusted_rand_score(*pair) for pair in pairs])), 3)
    return {**found, "mean": round(float(np.mean([list(row.values()) for row in found.values()])), 3)}


def _left_out(X: np.ndarray, rng: np.random.Generator) -> Iterator[Points]:
    for _ in range(10):
        rows = np.sort(rng.permutation(len(X))[max(len(X) // 100, 1) :])
        yield rows, X[rows]


def _shaken(X: np.ndarray, rng: np.random.Generator) -> Iterator[Points]:
    for _ in range(10):
        yield np.arange(len(X)), (X + rng.normal(size=X.shape) * 1e-4 * X.std()).astype(np.float32)


def noise() -> Found:
    """Of 200 points spread over the box of ten blobs of 100, how many have -1, and how many of the blobs' points."""
    found: Found = {}
    for deviation in (0.2, 0.3, 0.4, 0.5):
        rows = []
        for seed in SEEDS:
            X, _ = make_blobs(1000, centers=10, cluster_std=deviation, random_state=seed)
            rng = np.random.default_rng(seed)
            points = np.concatenate([X, rng.uniform(X.min(axis=0), X.max(axis=0), (200, 2))])
            order = rng.permutation(1200)
            is_between = order >= 1000
            labels = Grinch(noise=True).fit(points[order]).labels_
            other = HDBSCAN(copy=True).fit_predict(points[order])
            rows.append([int((one[mask] < 0).sum()) for one in (labels, other) for mask in (is_between, ~is_between)])
        names = ("between", "of blobs", "HDBSCAN between", "HDBSCAN of blobs")
        found[f"deviation {deviation}"] = dict(zip(names, _means(rows), strict=True))
    return found


def number() -> Found:
    """``n_clusters`` as there are classes, by sizeable splits and strictly by height; after single inserts, seconds."""
    found: Found = {}
    for name in (*sets.CHOOSING[:5], *sets.REPORTING[:5]):
        X, y = sets.data(name)
        order = arrival(y, "random", 0)
        k = len(np.unique(y))
        model = Grinch(n_clusters=k).fit(X[order])
        scores = [adjusted_rand_score(y[order], labels) for labels in (model.labels_, cut_n_clusters(model.tree_, k))]
        found[name] = dict(zip(("sizeable", "height"), np.round(scores, 3).tolist(), strict=True))
    found["mean"] = dict(
        zip(("sizeable", "height"), _means([list(row.values()) for row in found.values()]), strict=True)
    )
    X, _ = gaussian_mixture(101_000, n_classes=500, n_features=32)
    model = Grinch(n_clusters=150).fit(X[:100_000])
    seconds = []
    for i in range(100_000, 100_300):
        model.partial_fit(X[i : i + 1])
        start = time.perf_counter()
        _ = model.labels_
        seconds.append(time.perf_counter() - start)
    found["labels_ after an insert, 100,000 points, ms"] = {
        "p50": round(1000 * float(np.median(seconds)), 3),
        "p99": round(1000 * float(np.quantile(seconds, 0.99)), 3),
    }
    return found


def membership() -> Found:
    X = load_digits().data
    model = Grinch().fit(X)
    shares = model.membership(X)
    agree = float((shares.argmax(axis=1) == model.predict(X)).mean())
    nearest = float((model.transform(X).argmin(axis=1) == model.predict(X)).mean())
    return {"digits: agrees with predict": round(agree, 4), "digits: nearest centre agrees": round(nearest, 4)}


def cost() -> Found:
    """Seconds of the processor for the automatic cut of 100,000 points, after a warm one."""
    found: Found = {}
    for n_features in (32, 128):
        X, _ = gaussian_mixture(100_000, n_classes=500, n_features=n_features)
        _ = Grinch().fit(X[:2000]).labels_
        model = Grinch().fit(X)
        start = time.process_time()
        _ = model.labels_
        found[f"100,000 x {n_features}"] = round(time.process_time() - start, 3)
    return found


def _scored(X: Any, y: np.ndarray, **settings: Any) -> Found:
    model = Grinch(**settings).fit(X)
    ari = round(float(adjusted_rand_score(y, model.labels_)), 3)
    return {"ari": ari, "clusters": model.n_clusters_, "classes": len(np.unique(y))}


def _means(rows: list[Any]) -> list[float]:
    return np.mean(rows, axis=0).round(3).tolist()


PARTS: dict[str, Callable[[], Found]] = {
    "toy": toys,
    "mixtures": mixtures,
    "texts": texts,
    "stability": stability,
    "noise": noise,
    "number": number,
    "membership": membership,
    "cost": cost,
}


def main() -> None:
    results = json.loads(OUT.read_text()) if OUT.exists() else {}
    for name in sys.argv[1:] or PARTS:
        results[name] = PARTS[name]()
        write_figures(OUT, results)
        print(name, json.dumps(results[name]), flush=True)


if __name__ == "__main__":
    main()
