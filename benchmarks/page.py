"""docs/benchmarks.md from the results of bench.py, so that the page always says what was measured.

By itself: python benchmarks/page.py (after a run of bench.py)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"

INTRODUCTION = """# Benchmarks

Written by `make bench` (benchmarks/bench.py); everything on this page comes from one run, on {cores} cores, Python
{python}, grinch {version}. The raw figures are in benchmarks/results.json. These machines are noisy: compare within the
page.

The data are mixtures of 1,000 gaussians in 64 dimensions, with standard normal centres, lognormal(0, 1) sizes and noise
of 0.9 to 1.6 (`grinch.datasets.gaussian_mixture`). Every system runs in a process of its own (`grinch compare` does the
same for your data): average linkage under cosine if nothing else is said, PERCH and BIRCH on unit vectors. Grinch,
Rotate and Online are means over three shuffled orders. Best F1 is the pairwise F1 of the best flat clusters that the
tree has, given the labels (for Genie, that of its 1,000 clusters); MB is the peak of the fit beyond the points. Left
out: HAC beyond 20,000 points (all pairs do not fit in memory), PERCH beyond 20,000 (where classes overlap, nodes are
masked up to the root, and an insert takes as long as the tree is deep).
"""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def systems(results: dict[str, Any]) -> Iterable[str]:
    for n, rows in results["systems"].items():
        yield f"## {int(n):,} points\n"
        cells = []
        for name, row in rows.items():
            purity = f"{row['purity']:.3f}" if "purity" in row else ""
            if "purity_deviation" in row:
                purity += f" ± {row['purity_deviation']:.3f}"
            depth = f"{row['depth']:,.0f}" if "depth" in row else ""
            memory = f"{row['memory'] / 1e6:,.0f}" if "memory" in row else ""
            cells.append([name, f"{row['seconds']:.2f}", purity, f"{row['f1']:.3f}", depth, memory])
        yield table(["", "seconds", "dendrogram purity", "best F1", "depth", "MB"], cells)


def routines(results: dict[str, Any]) -> Iterable[str]:
    yield "## Ways to HAC, and PERCH beside plain Python\n"
    yield (
        "Average linkage under cosine, all the same tree. `HAC` uses scipy for scipy's names: it is always there, and"
        " gives the same heights; our heap takes any linkage, our chain O(n) memory.\n"
    )
    yield table(["", "seconds"], [[name, f"{row['seconds']:.1f}"] for name, row in results["hac_routines"].items()])
    perch = results["perch"]
    yield (
        f"PERCH takes {perch['us_compiled']:,.0f} µs an insert for {perch['n']:,} points of the mixture, where the tree"
        f" gets {perch['depth']:,.0f} deep; a straightforward port in Python with numpy (benchmarks/perch_port.py)"
        f" {perch['us_plain']:,.0f} µs: {perch['ratio']:.0f} times as long.\n"
    )


def tree_part(results: dict[str, Any]) -> Iterable[str]:
    yield "## The tree part of an insert\n"
    yield "Microseconds on one core, with the neighbours found beforehand; upkeep is the merging of summaries.\n"
    stages = ("rotate", "graft", "restructure", "upkeep", "rest")
    cells = []
    for n, rows in results["tree_part"].items():
        for name, row in rows.items():
            parts = [f"{row['us_' + stage]:.1f}" for stage in stages]
            counts = [f"{row['scores_per_insert']:.0f}", f"{row['merges_per_insert']:.0f}"]
            cells.append([f"{int(n):,}, {name}", f"{row['us_per_insert']:.1f}", *parts, *counts])
    yield table(["points, settings", "in all", *stages, "scores", "merges"], cells)


def linkages(results: dict[str, Any]) -> Iterable[str]:
    yield "## Linkages of every kind\n"
    cells = [
        [
            name,
            f"{row['n']:,.0f}",
            f"{row['points_per_s']:,.0f}",
            f"{row['points_per_cpu_s']:,.0f}",
            f"{row['scores_per_point']:.0f}",
            f"{row['purity']:.3f}",
        ]
        for name, row in results["linkages"].items()
    ]
    yield table(["", "points", "points / s", "points / CPU s", "scores / point", "purity"], cells)


def changes(results: dict[str, Any]) -> Iterable[str]:
    found = results["changes"]
    yield "## Points that come and go\n"
    yield (
        f"In a tree of {found['n']:,} points, by turns in one process (benchmarks/changes.py); medians of"
        f" {found['rounds']} rounds."
        + (" Measured after the rest of this page, while other jobs ran on the same cores." * ("by_itself" in found))
        + "\n"
    )
    names = {"insert": "inserts", "remove": "removals", "update": "updates (an insert and a removal each)"}
    cells = [
        [title, f"{found[name]:.2f}", f"{found[f'{name}_single'] * 1e3:.1f}", f"{found[name] / found['insert']:.2f}"]
        for name, title in names.items()
    ]
    yield table(["", "1,000 in one call, seconds", "one by one, milliseconds each", "in one call, per insert"], cells)
    purity = found["purity"]
    yield (
        f"A fifth of {purity['n']:,} points removed: purity {purity['before']:.3f} before, {purity['after']:.3f}"
        f" after; a fresh tree of those left has {purity['fresh']:.3f}.\n"
    )


def targets(results: dict[str, Any]) -> Iterable[str]:
    yield "## What was asked for\n"
    cells = [
        [name, f"{row['value']:.3g}", f"{row['limit']:g}", "yes" if row["met"] else "**no**"]
        for name, row in results["targets"].items()
    ]
    yield table(["", "measured", "limit", "met"], cells)
    yield (
        "On few points the whole fit takes more than 1.5 times the search alone, because an exact search among few"
        " points costs less than any tree: at 5,000 points about 14 µs a point on two cores; and polishing the first"
        " 2,048 points takes 0.3 s of every fit. The more points, the more the search dominates. `import grinch` loads"
        " scikit-learn only when an estimator is first used; that alone"
        " takes a second.\n"
    )


def write(results: dict[str, Any]) -> None:
    machine = results["machine"]
    parts = [INTRODUCTION.format(**machine), *([machine["note"] + "\n"] if "note" in machine else [])]
    for section in (systems, routines, tree_part, linkages, changes, targets):
        parts += section(results)
    PAGE.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    write(json.loads((HERE / "results.json").read_text()))
