"""The figures of docs/sharded.md and docs/development/sharded.md, from benchmarks/sharded.json and to_store.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from tables import hours, seconds, share, size, table
from written import read

FILE = Path(__file__).parent / "sharded.json"
WHO = {"plain": "`Grinch`, one process", "1": "one worker", "2": "two workers"}
STAGES = {
    "sample": "sample",
    "skeleton": "tree of the sample",
    "route": "routing",
    "neighbors": "neighbours elsewhere",
    "moves": "moves",
    "trees": "trees of branches",
    "top": "upper tree",
}

Section = Mapping[str, Any]


def of_section(name: str) -> Callable[[Callable[[Section], str]], Callable[[], str]]:
    """Give a function a section of the file; where there is none, the page says so."""

    def made(function: Callable[[Section], str]) -> Callable[[], str]:
        @wraps(function)
        def filled() -> str:
            section = read(FILE.name).get(name)
            return function(section) if section else f"*Not measured yet: python benchmarks/sharded.py {name}.*\n"

        return filled

    return made


@of_section("million")
def million(found: Section) -> str:
    rows = {name: found[name] for name in WHO if name in found}
    any_of = next(iter(rows.values()))
    cells = [
        [WHO[name], seconds(row["seconds"]), share(row["purity"]), size(row["memory"])] for name, row in rows.items()
    ]
    head = f"{any_of['points']:,} × {any_of['dims']}"
    return table([head, "fit", "purity", "memory of a process, at most"], cells) + _speed_up(rows)


def _speed_up(rows: Section) -> str:
    if not {"1", "2"} <= set(rows):
        return ""
    one, two = rows["1"], rows["2"]
    same = "the same" if one["tree"] == two["tree"] else "**not the same**"
    by_stage = ", ".join(
        f"{STAGES[name]} {seconds(stage['seconds'])} ({seconds(one['stages'][name]['seconds'])} with one)"
        for name, stage in two["stages"].items()
    )
    return (
        f"\nTwo workers are {one['seconds'] / two['seconds']:.2f} times as fast as one, and build {same} tree. By"
        f" stage, with two: {by_stage}. The rest is starting the workers and writing the array to the folder.\n"
    )


@of_section("ten-million")
def ten_million(found: Section) -> str:
    cells = [
        [
            STAGES[name],
            f"{stage['tasks']:,}",
            seconds(stage["seconds"]),
            size(stage["read"]),
            size(stage["written"]),
            size(stage["peak_memory"]),
        ]
        for name, stage in found["stages"].items()
    ]
    head = f"{found['points']:,} × {found['dims']}, Parquet"
    text = table([head, "tasks", "clock", "rows read", "written", "memory of a worker, so far"], cells)
    return text + (
        f"\nIn all {seconds(found['seconds'])}; purity {share(found['purity'])} ({share(found['sampled purity'])} from"
        f" sampled pairs); {found['branches']:,} branches, the largest of {found['largest branch']:,} points;"
        f" {found['moved']:.1%} of the points moved. The files have {size(found['files'])}, and the folder of the run"
        f" {size(found['folder'])} at the end. `tree_` is put together in {seconds(found['seconds of tree_'])}.\n"
    )


@of_section("sets")
def sets(found: Section) -> str:
    cells = [
        [
            f"{name}, {row['points']:,} × {row['dims']}",
            share(row["whole"]),
            *(f"{share(row[n])} ({row[f'{n}, moved']:.0%})" for n in ("2", "5", "20")),
        ]
        for name, row in found.items()
    ]
    return table(["", "one tree", "2 shards", "5 shards", "20 shards"], cells)


@of_section("model")
def model(found: Section) -> str:
    if "table" not in found:
        return "*Not all runs of the model are there: python benchmarks/sharded.py model.*\n"
    most = max(run["points"] for run in found["runs"].values())
    about = f"A cost model, not a measurement: constants are from runs of up to {most:,} points.\n\n"
    cells = []
    for row in found["table"]:
        for cores, time in row["hours"].items():
            is_first = cores == next(iter(row["hours"]))
            moved = row["bytes"] + row["bytes_of_lists"]
            cells.append(
                [
                    f"{row['points']:,}" if is_first else "",
                    f"{int(cores):,}",
                    hours(time),
                    size(moved) if is_first else "",
                    f"{size(moved / time / 3600)}/s",
                    size(row["memory"]) if is_first else "",
                ]
            )
    head = ["points × 64", "cores", "time", "bytes moved", "the folder must deliver", "memory of a worker"]
    return about + table(head, cells)


@of_section("model")
def bottleneck(found: Section) -> str:
    if "table" not in found:
        return ""
    cells = [
        [
            f"{row['points']:,}",
            f"{row['shards']:,}",
            f"{row['sample']:,}",
            hours(sum(row["cpu"].values()) / 3600),
            seconds(row["cpu"]["skeleton"]),
            seconds(row["cpu"]["top"]),
            f"{row['cores_of_balance']:,.0f}",
            f"{row['openings']:,}",
            f"{row['cpu']['lists'] / sum(row['cpu'].values()):.0%}",
        ]
        for row in found["table"]
    ]
    single = ["tree of the sample", "upper tree", "cores at which these are half"]
    return table(["points", "shards", "sample", "CPU in all", *single, "lists opened", "of the CPU"], cells)


@of_section("model")
def constants(found: Section) -> str:
    if "constants" not in found:
        return "*Not all runs of the model are there: python benchmarks/sharded.py model.*\n"
    runs, known = found["runs"], found["constants"]
    shown = {name: run for name, run in runs.items() if name[0] in "01"}
    cells = []
    for stage, title in STAGES.items():
        per_point = (run["stages"][stage]["cpu"] / run["points"] * 1e6 for run in shown.values())
        cells.append([title, *(f"{value:.1f}" for value in per_point), f"{known['bytes_per_point'][stage]:,.0f}"])
    head = [f"{run['points'] // 1000:,}k × {run['dims']}" for run in shown.values()]
    listing = known["listing"]
    laws = ", ".join(f"{STAGES[name]} {known[name][1]:+.2f}" for name in ("skeleton", "route"))
    sizes = ", ".join(f"{cpu * 1e6:.0f} µs at {points:,.0f}" for points, cpu in known["trees"])
    return table(["µs of CPU a point", *head, "bytes a point, × 64"], cells) + (
        f"\nExponents, by the size of the sample: {laws}. Trees, by the points of a branch: {sizes}. Opening a"
        f" list: {listing['cpu_per_opening'] * 1e3:.2f} ms of CPU and {listing['bytes_per_opening'] / 1e3:.1f} KB.\n"
    )


def to_store() -> str:
    rows = read("to_store.json")
    cells = []
    for n, found in rows.items():
        made, used = found["adopt"], found["insert"]
        once, first, one = (f"{1e3 * used[name]:,.0f} ms" for name in ("open", "first insert", "insert 1"))
        cells.append(
            [
                f"{int(n):,}",
                seconds(made["seconds"]),
                size(made["memory"]),
                f"{made['bytes a point']:,.0f}",
                once,
                f"{one} (the first {first})",
                seconds(used["insert 1,000"]),
                size(used["memory"]),
            ]
        )
    head = ["points × 32", "to make it", "memory to make it", "bytes a point on disk", "to open it"]
    return table([*head, "insert of 1", "insert of 1,000", "memory to use it"], cells)


PARTS: dict[str, Callable[[], str]] = {
    "to-store": to_store,
    "sharded-million": million,
    "sharded-ten-million": ten_million,
    "sharded-sets": sets,
    "sharded-model": model,
    "sharded-bottleneck": bottleneck,
    "sharded-constants": constants,
}
