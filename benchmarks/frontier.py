"""Purity against time for every mode, with and without refinement, on the data sets that are there, beside HAC.

    GRINCH_DATA=folder python benchmarks/frontier.py [--orders 5] [--no-hac] [--only digits,usps] [--variants default]

Average linkage under cosine; seconds of processor time, so that other jobs on the machine matter less. Writes a JSON
file and, with --draw, docs/images/frontier.png.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from grinch import HAC, Grinch
from grinch.datasets import arrival, gaussian_mixture, load
from grinch.metrics import dendrogram_purity
from written import write_figures

SAMPLE = 10_000
SAMPLED = {
    "mnist 10,000": "mnist",
    "image features 10,000": "tiny_imagenet",
    "intents 10,000": "clinc150",
    "speakers 10,000": "speaker",
    "speakers and digits 10,000": "speaker_digits",
    "covtype 10,000": "covtype",
    "shuttle 10,000": "shuttle",
}
SMALL = ("glass", "iris", "wine", "breast_cancer", "separated-2")
NAMES = (
    *("digits", "coil20", "orl_faces", "segment", "mixture 5,000", "pendigits", "usps"),
    *SAMPLED,
    "mixture 20,000",
    *SMALL,
)

VARIANTS: dict[str, tuple[dict[str, Any], int]] = {
    "the paper's": ({"mode": "paper"}, 0),
    "the authors'": ({"mode": "authors"}, 0),
    "default": ({}, 0),
    "refined once": ({}, 1),
    "refined thrice": ({}, 3),
}


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name.startswith("mixture"):
        return gaussian_mixture(int(name.split()[1].replace(",", "")))
    found = load(SAMPLED.get(name, name))
    X, y = np.asarray(found.vectors, np.float32), np.asarray(found.labels)
    rows = np.random.default_rng(0).permutation(len(y))[:SAMPLE] if name in SAMPLED else np.arange(len(y))
    return X[rows], y[rows]


def measured(X: np.ndarray, y: np.ndarray, settings: dict[str, Any], passes: int) -> tuple[float, float]:
    start = time.process_time()
    model = Grinch(metric="cosine", **settings).fit(X)
    if passes:
        model.refine(passes)
    seconds = time.process_time() - start
    return dendrogram_purity(model.tree_, y), seconds


def row(name: str, orders: int, with_hac: bool, variants: list[str]) -> dict[str, dict[str, float]]:
    X, y = data(name)
    found: dict[str, dict[str, float]] = {}
    if with_hac:
        start = time.process_time()
        tree = HAC(linkage="average", metric="cosine").fit(X).tree_
        found["HAC"] = {"seconds": time.process_time() - start, "purity": dendrogram_purity(tree, y)}
    for variant in variants:
        settings, passes = VARIANTS[variant]
        trials = []
        for seed in range(orders):
            rows = arrival(y, "random", seed)
            trials.append(measured(X[rows], y[rows], settings, passes))
        purity, seconds = np.array(trials).T
        found[variant] = {"seconds": seconds.mean(), "purity": purity.mean(), "deviation": purity.std()}
    for order in ("sorted", "round-robin") if "refined once" in variants else ():
        rows = arrival(y, order, 0)
        purity_of_order, taken = measured(X[rows], y[rows], {}, 1)
        found[f"refined once, {order}"] = {"seconds": taken, "purity": purity_of_order}
    return found


def draw(results: dict[str, dict[str, dict[str, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    columns = 5
    lines = -(-len(results) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(3.1 * columns, 2.9 * lines), squeeze=False)
    for axis, (name, found) in zip(axes.flat, results.items(), strict=False):
        ours = [found[variant] for variant in VARIANTS if variant in found]
        axis.plot([r["seconds"] for r in ours], [r["purity"] for r in ours], "-", color="0.75", zorder=1)
        for i, (variant, marker) in enumerate(zip(VARIANTS, "v^osD", strict=True)):
            if variant in found:
                point = found[variant]
                axis.plot(point["seconds"], point["purity"], marker, color=f"C{i}", label=variant, zorder=2)
        if "HAC" in found:
            axis.plot(found["HAC"]["seconds"], found["HAC"]["purity"], "k*", markersize=10, label="HAC")
            axis.axhline(found["HAC"]["purity"], color="k", linewidth=0.5, linestyle=":")
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_title(name, fontsize=10)
        axis.tick_params(labelsize=8)
    for axis in axes.flat[len(results) :]:
        axis.axis("off")
    for axis in axes[-1]:
        axis.set_xlabel("seconds of processor time", fontsize=9)
    for line in axes:
        line[0].set_ylabel("dendrogram purity", fontsize=9)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=len(labels), fontsize=9)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument(
        "--only", default=",".join(name.replace(",", "") for name in NAMES), help="names, separated by commas"
    )
    parser.add_argument("--variants", default=",".join(VARIANTS), help="names, separated by commas")
    parser.add_argument("--no-hac", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/frontier.json"))
    parser.add_argument("--draw", type=Path, help="a PNG file for the picture")
    options = parser.parse_args()
    Grinch(metric="cosine").fit(np.ones((3, 1)))
    asked = options.only.split(",")
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in NAMES:
        if name.replace(",", "") in [each.replace(",", "") for each in asked]:
            found = row(name, options.orders, not options.no_hac, options.variants.split(","))
            results[name] = {**results.get(name, {}), **found}
            write_figures(options.out, results)
            figures = (f"{v} {r['purity']:.3f} {r['seconds']:.2f}s" for v, r in results[name].items())
            print(name, "|", " | ".join(figures), flush=True)
    if options.draw:
        draw(results, options.draw)


if __name__ == "__main__":
    main()
