"""docs/benchmarks.md from the results of bench.py, so that the page always says what was measured.

By itself: python benchmarks/page.py (after a run of bench.py); it also fills in the figures of the other pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fill import code_note, fill_pages
from tables import table
from written import code_of

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"

INTRODUCTION = """# Benchmarks

Speed, memory and quality of grinch beside the alternatives. `make bench` measures all of it in one run and writes this
page; the raw figures are in [benchmarks/results.json](../benchmarks/results.json). This run: {cores} cores, Python
{python}, grinch {version}. To compare the systems on your own data: `grinch compare FILE --label COLUMN`.

- **Version.** The tables of systems are of 0.1.0 as it was released; since then the default mode and the search
  changed, and "grinch, index" was an index of usearch. Newer figures: [settings](settings.md#quality-and-time),
  [scale](development/scale.md).
- **Data.** Mixtures of 1,000 Gaussians in 64 dimensions with unequal sizes and noise
  (`grinch.datasets.gaussian_mixture`).
- **Systems.** Each runs in its own process, with average linkage under cosine unless the row says otherwise (PERCH and
  BIRCH: Euclidean distance of unit vectors). Grinch, Rotate and Online are means over three shuffled orders.
- **Dendrogram purity.** For two points of one class, take the smallest group of the tree that contains both: the mean
  share of their class in that group, over all such pairs.
- **Best F1.** The pairwise F1 of the best flat clusters in the tree, given the labels (Genie: of its 1,000 clusters).
- **MB.** Peak memory of the fit, besides the points.
- **Not run.** HAC beyond 20,000 points: all pairs do not fit in memory.
"""


def systems(results: dict[str, Any]) -> Iterable[str]:
    if "perch" in results.get("measured_later", ()):
        yield (
            "PERCH, SCC, Affinity and reciprocal nearest neighbours were measured after the rest, on a busy machine:"
            " their seconds are too high.\n"
        )
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
    yield "## HAC and PERCH: our implementations\n"
    yield (
        "Four implementations of HAC with the same tree (20,000 points, average linkage under cosine). `HAC` calls"
        " scipy for the linkages that scipy knows, uses the heap for any other, and the chain with `lean=True`.\n"
    )
    yield table(["", "seconds"], [[name, f"{row['seconds']:.1f}"] for name, row in results["hac_routines"].items()])
    perch = results["perch"]
    yield (
        f"`Perch` takes {perch['us_compiled']:,.0f} µs per insert on {perch['n']:,} points of the mixture (a tree"
        f" {perch['depth']:,.0f} levels deep). A direct port in Python with numpy (benchmarks/perch_port.py) takes"
        f" {perch['us_plain']:,.0f} µs, {perch['ratio']:.0f} times as long.\n"
    )


def linkages(results: dict[str, Any]) -> Iterable[str]:
    yield "## Your own linkage\n"
    yield (
        "The cosine linkage built in, as a function compiled by numba, as a Linkage object in Python, and as a plain"
        " Python function; and a logistic regression over features of two groups."
        + " Measured after the rest of this page." * ("linkages" in results.get("measured_later", ()))
        + "\n"
    )
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
        f"Inserts, removals and updates in a tree of {found['n']:,} points (benchmarks/changes.py); medians of"
        f" {found['rounds']} rounds."
        + " Measured after the rest of this page, on a machine with other jobs." * ("by_itself" in found)
        + "\n"
    )
    names = {"insert": "inserts", "remove": "removals", "update": "updates (one insert and one removal each)"}
    cells = [
        [title, f"{found[name]:.2f}", f"{found[f'{name}_single'] * 1e3:.1f}", f"{found[name] / found['insert']:.2f}"]
        for name, title in names.items()
    ]
    yield table(["", "1,000 in one call, seconds", "one by one, milliseconds each", "relative to inserts"], cells)
    purity = found["purity"]
    yield (
        f"Removing a fifth of {purity['n']:,} points takes purity from {purity['before']:.3f} to"
        f" {purity['after']:.3f}; a new tree of the remaining points has {purity['fresh']:.3f}.\n"
    )


def start_up(results: dict[str, Any]) -> Iterable[str]:
    found = results["start_up"]
    yield "## Starting up\n"
    if "start_up" in results.get("measured_later", ()):
        yield "Measured after the rest of this page.\n"
    yield table(
        ["", "seconds"],
        [
            ["`import grinch`", f"{found['import_s']:.2f}"],
            ["compiling, once after installing", f"{found['cold_compile_s']:.0f}"],
            ["first fit of a process, beyond a second one", f"{found['warm_first_fit_extra_s']:.1f}"],
        ],
    )


def text(results: dict[str, Any]) -> str:
    machine = results["machine"]
    parts = [INTRODUCTION.format(**machine), *([machine["note"] + "\n"] if "note" in machine else [])]
    for section in (systems, routines, linkages, changes, start_up):
        parts += section(results)
    parts.append(code_note(code_of(["results.json"])))
    return "\n".join(parts)


def write(results: dict[str, Any]) -> None:
    PAGE.write_text(text(results), encoding="utf-8")
    fill_pages()


if __name__ == "__main__":
    write(json.loads((HERE / "results.json").read_text()))
