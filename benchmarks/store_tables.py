"""The figures of docs/store.md, from store.json and kills.json; fill.py puts them into the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def read(name: str) -> Any:
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def figures() -> str:
    """What a store costs, as far as it was measured, and how often a writer was killed."""
    measured, kills = read("store.json"), read("kills.json")
    lines = [line for name, write in LINES.items() if name in measured for line in write(measured[name])]
    lines.append(
        f"- **Kills**: {kills['kills']:,} of a writer at random moments, {len(kills['failures']):,} of them with"
        f" anything lost, half done or different from a store that was never killed (`benchmarks/kills.py`)."
    )
    table = rates(measured["rates"]) + "\n" if "rates" in measured else ""
    return table + "\n".join(lines) + "\n"


def rates(found: dict[str, Any]) -> str:
    rows = [
        f"| {size} | {row['estimator, points a second']:,.0f} | {row['store, points a second']:,.0f}"
        f" | {100 * row['ratio']:.0f} % |"
        for size, row in found.items()
        if isinstance(row, dict)
    ]
    header = f"| up to {found['points']:,} points of 64 features | estimator, points/s | store, points/s | |"
    return "\n".join([header, "|---|---:|---:|---:|", *rows]) + "\n"


def reopening(found: dict[str, Any]) -> list[str]:
    opened, read_only = (min(each["open, ms"] for each in found[name]) for name in ("as closed", "as a reader"))
    cold = found["as closed, not in the cache of the system"]["open, ms"]
    behind = found["with 10 inserts of 100 points since the snapshot"]["open, ms"]
    return [
        f"- **Opening** {found['points']:,} points: {opened:.0f} ms ({read_only:.0f} ms to read; {cold:.0f} ms when"
        f" nothing is in the system's cache; {behind:,.0f} ms with 10 inserts of 100 points since the last snapshot)."
    ]


def sizes(found: dict[str, Any]) -> list[str]:
    numbered, named = found["numbered"], found["ids of 12 characters"]
    parts = ", ".join(f"{name} {count:.0f}" for name, count in numbered.items() if name != "in all")
    return [
        f"- **On disk**: {numbered['in all']:,.0f} bytes a point ({parts}), {named['in all']:,.0f} with ids of 12"
        " characters; 64 numbers in float32 are 256 of them."
    ]


def stalls(found: dict[str, Any]) -> list[str]:
    aside, otherwise = found["beside a snapshot"], found["otherwise"]
    return [
        f"- **The longest stall** of single inserts at {found['points']:,} points: {aside['slowest, ms']:.0f} ms beside"
        f" a snapshot (median {aside['median, ms']:.1f} ms), {otherwise['slowest, ms']:.0f} ms otherwise (median"
        f" {otherwise['median, ms']:.1f} ms)."
    ]


def following(found: dict[str, Any]) -> list[str]:
    rows = [
        f"{title}: {row['matching, ms']:.1f} ms for {row['clusters']:,} clusters and {row['changes a commit']:.0f}"
        f" changes (read by `changes` in {row['store.changes, ms']:.1f} ms; the whole commit"
        f" {row['whole commit, ms']:.0f} ms)"
        for title, row in found.items()
        if isinstance(row, dict)
    ]
    return [
        f"- **Matching ids and noting changes**, per commit of 100 at {found['points']:,} points: {'; '.join(rows)}."
    ]


LINES: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "reopen": reopening,
    "bytes": sizes,
    "stall": stalls,
    "changes": following,
}
PARTS = {"store": figures}
