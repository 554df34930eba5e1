"""Speed, memory and quality on the gaussian mixture, in one run, beside what a user would pick instead.

    make bench                     all sizes (about 10 minutes)
    make bench ARGS=--quick        5,000 and 20,000 points (about 2 minutes)

Prints tables, and writes benchmarks/results.json and docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import changes
import linkages
import page
import systems
from grinch import Grinch, __version__
from grinch.core.engine import Engine
from grinch.core.moves import insert_all
from grinch.core.rules import FAST, MODES
from grinch.datasets import Labelled, gaussian_mixture
from grinch.linkage.named import linkage_of
from grinch.metrics import pairwise_f1
from grinch.neighbors import make_search
from stages import STAGES
from written import write_figures

# Beyond this, patience ends.
GENIE_LIMIT = 50_000
console = Console(width=140, highlight=False)


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


# The tree part of an insert -----------------------------------------------------------------------------------------


def tree_part(X: np.ndarray, mode: str, k: int) -> dict[str, float]:
    """Microseconds an insert spends in the tree, on one core, with the neighbours found beforehand."""
    engine = Engine(linkage_of("average", "cosine"), MODES[mode], "exact", k, X.shape[1])
    engine.reserve(len(X))
    engine.summaries.write(0, X)
    batches = list(engine.search.stream(0, len(X)))
    start = time.perf_counter()
    for first, found in batches:
        engine.change(insert_all, np.arange(first, first + len(found)), found)
    seconds = time.perf_counter() - start
    result = {"us_per_insert": seconds / len(X) * 1e6, **stages(X, mode, k)}
    result["us_rest"] = result["us_per_insert"] - sum(
        value for name, value in result.items() if name != "us_per_insert"
    )
    return {**result, **{f"{name}_per_insert": count / len(X) for name, count in engine.stats.items()}}


@cache
def timed_cache() -> str:
    """Return the cache folder of the moves with clocks in them, apart from those without."""
    return tempfile.mkdtemp(prefix="grinch-stages-")


def stages(X: np.ndarray, mode: str, k: int) -> dict[str, float]:
    """Measure the share of each move in that time, in a process of its own (stages.py)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        np.save(path, X)
        command = [sys.executable, str(Path(__file__).parent / "stages.py"), str(path), mode, str(k)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "NUMBA_CACHE_DIR": timed_cache()}
        )
    return {f"us_{name}": value for name, value in json.loads(done.stdout).items()}


# The whole fit, and the search alone ---------------------------------------------------------------------------------


def search_alone(X: np.ndarray, search: str) -> float:
    engine = Engine(linkage_of("average", "cosine"), FAST, search, 25, X.shape[1])
    engine.reserve(len(X))
    engine.summaries.write(0, X)
    finder = make_search(search, engine.summaries, 25)
    return timed(lambda: [None for _ in finder.stream(0, len(X))])[0]


# A peer that hands out no tree -------------------------------------------------------------------------------------


def genie(data: Labelled) -> dict[str, float]:
    import genieclust

    unit = data.vectors / np.linalg.norm(data.vectors, axis=1, keepdims=True)
    seconds, model = timed(lambda: genieclust.Genie(n_clusters=1000).fit(unit))
    return {"seconds": seconds, "f1": pairwise_f1(data.labels, model.labels_)}


# Memory and start-up, each in a process of its own -------------------------------------------------------------------

MEMORY = """
import sys, numpy as np
from grinch import Grinch
Grinch(metric="cosine", search={search!r}).fit(np.ones((600, 2), np.float32))
X = np.load({path!r})
def peak():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM")) * 1024
open("/proc/self/clear_refs", "w").write("5")
before = peak()
Grinch(metric="cosine", search={search!r}).fit(X)
print((peak() - before) / X.nbytes)
"""

START = """
import time
start = time.perf_counter()
import grinch
imported = time.perf_counter() - start
import numpy as np
X = np.random.default_rng(0).normal(size=(2000, 16)).astype(np.float32)
def fit():
    start = time.perf_counter()
    grinch.Grinch(metric="cosine").fit(X).labels_
    return time.perf_counter() - start
print(imported, fit(), fit())
"""


def in_new_process(program: str, **environment: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return [float(word) for word in done.stdout.split()]


def start_up() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        _, cold, second = in_new_process(START, NUMBA_CACHE_DIR=cache)
        imported, warm, warm_second = in_new_process(START, NUMBA_CACHE_DIR=cache)
    return {"import_s": imported, "cold_compile_s": cold - second, "warm_first_fit_extra_s": warm - warm_second}


def memory(X: np.ndarray, search: str) -> float:
    """Peak memory of a fit, over what was there before it, in multiples of the input's bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        np.save(path, X)
        return in_new_process(MEMORY.format(path=str(path), search=search))[0]


# The run ------------------------------------------------------------------------------------------------------------


def measure(sizes: list[int]) -> dict[str, Any]:
    Grinch(metric="cosine").fit(np.ones((3, 1)))
    results: dict[str, Any] = {"systems": {}, "tree_part": {}, "search": {}, "memory": {}}
    for n in sizes:
        data = gaussian_mixture(n)
        rows = results["systems"][n] = systems.measure(data)
        if n <= GENIE_LIMIT:
            rows["Genie (genieclust)"] = genie(data)
        results["search"][n] = {name: search_alone(data.vectors, name) for name in ("exact", "index")}
        results["memory"][n] = {name: memory(data.vectors, name) for name in ("exact", "index")}
        parts = {
            "the paper's settings, k 25": ("paper", 25),
            "the paper's settings, k 50": ("paper", 50),
            "fast": ("fast", 25),
        }
        results["tree_part"][n] = {name: tree_part(data.vectors, *which) for name, which in parts.items()}
        console.print(f"[dim]{n:,} points done[/dim]")
    results["hac_routines"] = systems.hac_routines(5_000 if max(sizes) < 50_000 else 20_000)
    results["perch"] = systems.perch_against_port(2_000)
    results["linkages"] = linkages.measure()
    results["changes"] = changes.measure(max(sizes))
    results["start_up"] = start_up()
    results["targets"] = targets(results, sizes)
    results["machine"] = {
        "version": __version__,
        "python": platform.python_version(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
    }
    return results


def targets(results: dict[str, Any], sizes: list[int]) -> dict[str, dict[str, Any]]:
    """Each figure that was asked for: the limit, what was measured, whether it is met."""
    largest = max(sizes)
    by_size, start = results["systems"], results["start_up"]

    def target(value: float, limit: float, most: bool = True) -> dict[str, Any]:
        return {"value": value, "limit": limit, "met": bool(value <= limit if most else value >= limit)}

    found = {
        f"tree part of an insert, the paper's caps, k 25, n {largest:,} (us)": target(
            results["tree_part"][largest]["the paper's settings, k 25"]["us_per_insert"], 40
        ),
        f"tree part of an insert, the paper's caps, k 50, n {largest:,} (us)": target(
            results["tree_part"][largest]["the paper's settings, k 50"]["us_per_insert"], 40
        ),
    }
    for n in sizes:
        ratio = by_size[n]["grinch"]["seconds"] / results["search"][n]["exact"]
        found[f"whole fit / search alone, n {n:,}"] = target(ratio, 1.5)
    for n in sizes:
        if "HAC" in by_size[n]:
            gap = by_size[n]["grinch"]["purity"] - by_size[n]["HAC"]["purity"]
            found[f"purity less HAC's, n {n:,}"] = target(gap, -0.02, most=False)
    if {50_000, 100_000} <= set(sizes):
        growth = by_size[100_000]["grinch, index"]["seconds"] / by_size[50_000]["grinch, index"]["seconds"]
        found["growth with the index, 100,000 / 50,000"] = target(growth, 2.4)
    found[f"memory / input, n {largest:,}"] = target(results["memory"][largest]["exact"], 3.0)
    if {20_000, 100_000} <= set(sizes):
        share = by_size[100_000]["grinch"]["seconds"] / by_size[20_000]["HAC"]["seconds"]
        found["seconds of grinch at 100,000 / of HAC at 20,000"] = target(share, 1.0)
    found["PERCH: plain Python / compiled, time per insert"] = target(results["perch"]["ratio"], 10.0, most=False)
    kinds = results["linkages"]
    ratio = kinds["cosine, built in"]["points_per_s"] / kinds["cosine, compiled by the user"]["points_per_s"]
    found["a user's compiled cosine / the built-in one"] = target(ratio, 1.3)
    learned = kinds["logistic regression"]["points_per_cpu_s"]
    found["inserts per CPU second, logistic regression"] = target(learned, 300, most=False)
    found.update(changes.target(results["changes"]))
    found["import grinch (s)"] = target(start["import_s"], 0.3)
    found["first fit, warm cache, less a second (s)"] = target(start["warm_first_fit_extra_s"], 0.7)
    found["cold compile (s)"] = target(start["cold_compile_s"], 15.0)
    return found


def show(results: dict[str, Any]) -> None:
    for n, rows in results["systems"].items():
        table = Table(title=f"{int(n):,} points", title_justify="left")
        for column in ("", "seconds", "dendrogram purity", "best F1", "depth", "MB"):
            table.add_column(column, justify="right" if column else "left")
        for name, row in rows.items():
            memory_mb = row["memory"] / 1e6 if "memory" in row else None
            cells = [row["seconds"], row.get("purity"), row["f1"], row.get("depth"), memory_mb]
            formats = ("{:.2f}", "{:.3f}", "{:.3f}", "{:.0f}", "{:,.0f}")
            shown = ["" if c is None else f.format(c) for c, f in zip(cells, formats, strict=True)]
            if "purity_deviation" in row:
                shown[1] += f" ± {row['purity_deviation']:.3f}"
            table.add_row(name, *shown)
        console.print(table)
    table = Table(title="The tree part of an insert, microseconds on one core", title_justify="left")
    parts = ("us_per_insert", *(f"us_{name}" for name in STAGES), "us_rest", "scores_per_insert", "merges_per_insert")
    for column in ("points", "settings", *parts):
        table.add_column(column.removesuffix("_per_insert").removeprefix("us_").replace("us", "in all"))
    for n, rows in results["tree_part"].items():
        for name, row in rows.items():
            table.add_row(f"{int(n):,}", name, *(f"{row[part]:.1f}" for part in parts))
    console.print(table)
    table = Table(title="Points per second under linkages of every kind", title_justify="left")
    for column in ("", "points", "points / s", "points / CPU s", "scores / point", "purity"):
        table.add_column(column, justify="right" if column else "left")
    for name, row in results["linkages"].items():
        cells = [row["n"], row["points_per_s"], row["points_per_cpu_s"], row["scores_per_point"]]
        table.add_row(name, *(f"{cell:,.0f}" for cell in cells), f"{row['purity']:.3f}")
    console.print(table)
    found = results["changes"]
    console.print(
        f"1,000 inserts, removals, updates in {found['n']:,} points:"
        f" {found['insert']:.2f}, {found['remove']:.2f}, {found['update']:.2f} s"
    )
    table = Table(title="Targets", title_justify="left")
    for column in ("", "measured", "limit", ""):
        table.add_column(column)
    for name, row in results["targets"].items():
        verdict = "met" if row["met"] else "[bold red]missed[/bold red]"
        table.add_row(name, f"{row['value']:.3g}", f"{row['limit']:g}", verdict)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="5,000 and 20,000 points only")
    parser.add_argument("--out", type=Path, help="where the figures go, as JSON")
    options = parser.parse_args()
    name = "results-quick.json" if options.quick else "results.json"
    options.out = options.out or Path(__file__).parent / name
    results = measure([5_000, 20_000] if options.quick else [5_000, 20_000, 50_000, 100_000])
    write_figures(options.out, results)
    show(results)
    console.print(f"\nWritten to {options.out}")
    if not options.quick:
        page.write(json.loads(options.out.read_text()))
        console.print(f"Written to {page.PAGE}")


if __name__ == "__main__":
    main()
