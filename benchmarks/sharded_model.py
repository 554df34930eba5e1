"""Cost of a sharded run: constants from small runs, and from them the hours, bytes and memory of large ones.

CPU time of a point grows with a power of the sample it is searched among (routing, the tree of the sample), by the
least squares of logarithms. For branches (neighbours, trees) it is interpolated between the sizes that were measured,
and beyond them that of the nearest: small trees are polished and cost more. Every shard opens the lists of all pieces
and of all other shards, whose number is what grows with the square of the shards. Clock time: tasks in as many rounds
as the cores need; tree of the sample and upper tree by one of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scale import peak

SIZES, CORES, DIMS = (10**7, 10**8, 10**9), (16, 64, 256, 1024), 64
BRANCHES_PER_SHARD = 4
# How often the stages open lists: for every shard and piece, and for every two shards.
LISTING = {"neighbors": (2, 0), "moves": (1, 1), "trees": (1, 1)}
READS_OF_A_LIST = 50
SINGLE = ("skeleton", "top")


class Asked(NamedTuple):
    """A small run: the share of the points, dimensions, shards, and the size of the sample at 200,000 points."""

    share: float
    dims: int
    shards: int
    sample: int


RUNS = {
    **{f"{share:g}, {dims}": Asked(share, dims, 4, 20_000) for dims in (32, 64) for share in (0.25, 0.5, 1.0)},
    "small sample": Asked(1.0, 64, 4, 5_000),
    "large sample": Asked(1.0, 64, 4, 80_000),
    "one branch": Asked(1.0, 64, 1, 20_000),
    "two shards": Asked(1.0, 64, 2, 20_000),
    "many shards": Asked(1.0, 64, 32, 20_000),
}

Run = Mapping[str, Any]


# Measuring ----------------------------------------------------------------------------------------------------------


class OneProcess:
    """In the place of the workers of a cluster: tasks one after the other, here."""

    def __init__(self) -> None:
        self.stages: dict[str, Any] = {}
        self.measured: dict[str, dict[str, float]] = {}

    def run(self, stage: str, task: Callable[..., Any], tasks: Mapping[str, Any], folder: Path, stamp: str) -> Any:
        from grinch._checks import limited_cores
        from grinch.running import Stage, one_thread

        (folder / stage).mkdir(parents=True, exist_ok=True)
        Path("/proc/self/clear_refs").write_text("5")
        before, cpu = bytes_so_far(), time.process_time()
        with one_thread(), limited_cores(1):
            results = {name: task(*args) for name, args in tasks.items()}
        spent, after = time.process_time() - cpu, bytes_so_far()
        # Rows of routed points are read through a memory map, which the system does not count as reading.
        mapped = sum(result.get("read", 0) for result in results.values()) if stage in ("neighbors", "trees") else 0
        self.measured[stage] = {
            "cpu": spent,
            "tasks": len(tasks),
            "rows": mapped,
            "read": after[0] - before[0],
            "written": after[1] - before[1],
            "peak": peak(),
            "guests": sum(result.get("guests", 0) for result in results.values()),
        }
        self.stages[stage] = Stage(spent, spent, len(tasks), 0, peak())
        return results


def bytes_so_far() -> tuple[int, int]:
    """Return the bytes that this process has read from files and written to them."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["rchar"]), int(lines["wchar"])


def measure(asked: Any, rows: Any, folder: Path) -> dict[str, dict[str, float]]:
    """Return the cost of each stage of a run."""
    from grinch.sharded.pipeline import run_stages

    workers = OneProcess()
    job = asked._job(folder, rows, asked._checked_model())
    run_stages(job, workers)  # type: ignore[arg-type]
    return {**workers.measured, "listing": _reading(job)}


def _reading(job: Any) -> dict[str, float]:
    """Return the cost of opening the list of a piece, and of reading the part of one shard."""
    from grinch.sharded.stages import route

    before, cpu = bytes_so_far()[0], time.process_time()
    for _ in range(READS_OF_A_LIST):
        route.routed(job, 0, 0)
    return {"cpu": time.process_time() - cpu, "read": bytes_so_far()[0] - before}


# Constants ----------------------------------------------------------------------------------------------------------


class Power(NamedTuple):
    """scale · x ** exponent."""

    scale: float
    exponent: float

    def __call__(self, x: float) -> float:
        return self.scale * x**self.exponent


def power_law(points: list[tuple[float, float]]) -> Power:
    """The nearest to (x, y), by the logarithms of both."""
    x, y = np.log(np.array(points)).T
    exponent, start = np.polyfit(x, y, 1)
    return Power(float(np.exp(start)), float(exponent))


def between(points: list[tuple[float, float]], x: float) -> float:
    """Interpolated by the logarithm of x; beyond the ends, as at the ends."""
    at, values = np.array(points, float).T
    return float(np.interp(np.log(x), np.log(at), values))


def line(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Start and slope; a slope is never below 0."""
    x, y = np.array(points, float).T
    slope = max(float(np.polyfit(x, y, 1)[0]), 0.0)
    return float((y - slope * x).mean()), slope


def branch_size(run: Run) -> float:
    return run["points"] / (run["shards"] * (BRANCHES_PER_SHARD if run["shards"] > 1 else 1))


def openings(stage: str, n_shards: int, n_pieces: int) -> int:
    """Return the number of lists that a stage opens."""
    by_piece, by_shard = LISTING.get(stage, (0, 0))
    return n_shards * (by_piece * n_pieces + by_shard * n_shards)


def constants(runs: Mapping[str, Run]) -> dict[str, Any]:
    """All that the model knows."""
    wide = {name: run for name, run in runs.items() if run["dims"] == DIMS}
    full, listing = runs[f"1, {DIMS}"], _listing(runs)

    def per_point(run: Run, stage: str) -> float:
        found = run["stages"][stage]
        lists = openings(stage, run["shards"], run["stages"]["route"]["tasks"]) * listing["cpu_per_opening"]
        return max(found["cpu"] - lists, 0.1 * found["cpu"]) / run["points"]

    samples = [runs[name] for name in ("small sample", f"1, {DIMS}", "large sample")]
    branches = [run for name, run in wide.items() if name not in ("small sample", "large sample")]
    several = [run for run in branches if run["shards"] > 1]
    return {
        "listing": listing,
        "sample": per_point(full, "sample"),
        "skeleton": power_law([(r["sample"], r["stages"]["skeleton"]["cpu"] / r["sample"]) for r in samples]),
        "route": power_law([(r["sample"], per_point(r, "route")) for r in samples]),
        "neighbors": sorted((branch_size(r), per_point(r, "neighbors")) for r in several),
        "moves": per_point(full, "moves"),
        "trees": sorted((branch_size(r), per_point(r, "trees")) for r in branches),
        "top": full["stages"]["top"]["cpu"] / (full["shards"] * BRANCHES_PER_SHARD),
        "bytes_per_point": _bytes_per_point(full),
        "memory": {
            "sample": line([(r["sample"], _peak(r, ("skeleton", "route"))) for r in samples]),
            "shard": line([(r["points"] / r["shards"], _peak(r, tuple(LISTING))) for r in several]),
        },
    }


def _listing(runs: Mapping[str, Run]) -> dict[str, float]:
    """Return the cost of opening a list: bytes by the difference that many shards make, CPU seconds as measured."""
    few, many = runs[f"1, {DIMS}"], runs["many shards"]
    opened, read = (
        [sum(amount(run, stage) for stage in LISTING) for run in (few, many)]
        for amount in (
            lambda run, stage: openings(stage, run["shards"], run["stages"]["route"]["tasks"]),
            lambda run, stage: run["stages"][stage]["read"],
        )
    )
    return {
        "bytes_per_opening": max(read[1] - read[0], 0) / (opened[1] - opened[0]),
        "cpu_per_opening": many["stages"]["listing"]["cpu"] / READS_OF_A_LIST,
    }


def _peak(run: Run, stages: tuple[str, ...]) -> float:
    return max(float(run["stages"][stage]["peak"]) for stage in stages)


def _bytes_per_point(run: Run) -> dict[str, float]:
    """Return the bytes read and written in each stage."""
    stages = {name: stage for name, stage in run["stages"].items() if name != "listing"}
    return {name: (stage["rows"] + stage["read"] + stage["written"]) / run["points"] for name, stage in stages.items()}


# The model ----------------------------------------------------------------------------------------------------------


def seconds_by_stage(known: Mapping[str, Any], n: int, n_shards: int, n_pieces: int, sample: int) -> dict[str, float]:
    """CPU seconds of all tasks of each stage."""
    branch = n / (n_shards * BRANCHES_PER_SHARD)
    opened = sum(openings(stage, n_shards, n_pieces) for stage in LISTING)
    return {
        "sample": n * known["sample"],
        "skeleton": sample * Power(*known["skeleton"])(sample),
        "route": n * Power(*known["route"])(sample),
        "neighbors": n * between(known["neighbors"], branch),
        "moves": n * known["moves"],
        "lists": opened * known["listing"]["cpu_per_opening"],
        "trees": n * between(known["trees"], branch),
        "top": n_shards * BRANCHES_PER_SHARD * known["top"],
    }


def clock(cpu: Mapping[str, float], cores: int, n_pieces: int, n_shards: int) -> float:
    """Seconds by the clock on as many cores."""
    total = 0.0
    for stage, seconds in cpu.items():
        tasks = 1 if stage in SINGLE else n_pieces if stage in ("sample", "route") else n_shards
        total += seconds / tasks * math.ceil(tasks / cores)
    return total


def row(known: Mapping[str, Any], n: int) -> dict[str, Any]:
    """Return the cost of n points."""
    from grinch.io.rows import rows_per_piece
    from grinch.sharded.job import choose_n_shards, choose_sample_size

    n_shards = choose_n_shards("auto", n)
    sample, n_pieces = choose_sample_size("auto", n, n_shards), math.ceil(n / rows_per_piece(DIMS))
    cpu = seconds_by_stage(known, n, n_shards, n_pieces, sample)
    opened = sum(openings(stage, n_shards, n_pieces) for stage in LISTING)
    single = sum(cpu[stage] for stage in SINGLE)
    shared = sum(cpu.values()) - single
    of_sample, of_shard = (
        start + slope * x for (start, slope), x in zip(known["memory"].values(), (sample, n / n_shards), strict=True)
    )
    return {
        "points": n,
        "shards": n_shards,
        "sample": sample,
        "cpu": cpu,
        "single": single,
        "cores_of_balance": shared / single,
        "hours": {str(cores): clock(cpu, cores, n_pieces, n_shards) / 3600 for cores in CORES},
        "bytes": n * sum(known["bytes_per_point"].values()),
        "openings": opened,
        "bytes_of_lists": opened * known["listing"]["bytes_per_opening"],
        "memory": max(of_sample, of_shard),
    }


def conclusions(runs: Mapping[str, Run]) -> dict[str, Any]:
    """Constants and the table, once all runs are there."""
    if not set(RUNS) <= set(runs):
        return {}
    known = constants(runs)
    return {"constants": known, "table": [row(known, n) for n in SIZES]}
