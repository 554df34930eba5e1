"""The figures of docs/development/sparse.md, from benchmarks/sparse.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tables import seconds, share, size, table
from written import read

FILE = Path(__file__).parent / "sparse.json"
SETS = {"intents": "questions", "docstrings": "docstrings", "corpus": "made of 400,000 words"}
SYSTEMS = {
    "sparse": "**grinch**",
    "sparse, whole means": "grinch, whole means",
    "dense": "grinch on dense rows",
    "SVD-100, dense": "SVD to 100 columns, then grinch",
    "SVD-100, Birch": "SVD to 100 columns, then BIRCH",
    "BisectingKMeans": "BisectingKMeans",
}


def _section(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = read(FILE.name).get(name, {}) if FILE.exists() else {}
    return found


def systems() -> str:
    """Each system on each set."""
    parts = []
    for section, title in SETS.items():
        rows = _section(section)
        if not rows:
            continue
        some = next(iter(rows.values()))
        head = f"{title}: {some['points']:,} × {some['columns']:,}, {size(some['csr'])}"
        cells = [
            [
                SYSTEMS[name],
                seconds(row["cpu_seconds"]),
                size(row["memory"]),
                share(row["purity"]) if "purity" in row else "–",
                share(row["ari"]),
            ]
            for name, row in rows.items()
        ]
        parts.append(table([head, "CPU", "memory besides the rows", "purity", "ARI at the true number"], cells))
    return "\n".join(parts) or "*Not measured yet: python benchmarks/sparse.py.*\n"


def synthetic() -> str:
    rows = _section("synthetic")
    if not rows:
        return "*Not measured yet: python benchmarks/sparse.py synthetic.*\n"
    some = next(iter(rows.values()))
    cells = [
        [
            seed,
            *(f"{seconds(row[kind]['cpu_seconds'])}, {share(row[kind]['purity'])}" for kind in ("sparse", "dense")),
            f"{row['ratio']:.0f} times",
        ]
        for seed, row in rows.items()
    ]
    head = f"the paper's synthetic data, {some['points']:,} × {some['columns']:,}, exact mode, by seed"
    return table([head, "sparse: CPU, purity", "dense", "faster"], cells)


def _by_setting(section: str, title: str, columns: dict[str, Callable[[Mapping[str, float]], str]]) -> str:
    parts = []
    for name, rows in _section(section).items():
        settings = {key: row for key, row in rows.items() if isinstance(row, Mapping)}
        head = f"{name}, {rows['points']:,} × {rows['columns']:,}: {title}"
        cells = [[_number(key), *(show(row) for show in columns.values())] for key, row in settings.items()]
        parts.append(table([head, *columns], cells))
    return "\n".join(parts) or f"*Not measured yet: python benchmarks/sparse.py {section}.*\n"


def _number(key: str) -> str:
    return f"{int(key):,}" if key.isdigit() else key


def columns() -> str:
    shown: dict[str, Callable[[Mapping[str, float]], str]] = {
        "purity": lambda row: share(row["purity"]),
        "recall of 25": lambda row: share(row["recall"]),
        "CPU of a query": lambda row: f"{row['microseconds']:.0f} µs",
        "CPU of the fit": lambda row: seconds(row["cpu_seconds"]),
    }
    return _by_setting("columns", "points looked at, at most", shown)


def entries() -> str:
    shown: dict[str, Callable[[Mapping[str, float]], str]] = {
        "purity": lambda row: share(row["purity"]),
        "entries of means": lambda row: f"{row['entries of means']:.1f}",
        "CPU of the fit": lambda row: seconds(row["cpu_seconds"]),
    }
    return _by_setting("entries", "entries kept of a mean", shown)


def memory() -> str:
    rows = _section("memory")
    if not rows:
        return "*Not measured yet: python benchmarks/sparse.py memory.*\n"
    cells = [
        [
            f"{SETS[name]}, {row['points']:,} × {row['columns']:,}",
            size(row["csr"]),
            *(size(row[part]) for part in ("rows", "means", "index")),
            f"{sum(row[part] for part in ('rows', 'means', 'index')) / row['csr']:.1f}",
            f"{size(row['nodes'])} ({row['nodes'] / row['points']:.0f} bytes a point)",
            size(row["most"]),
        ]
        for name, row in rows.items()
    ]
    head = ["", "CSR", "rows", "means", "index", "these three, in CSR", "all else by node", "the process, at most"]
    return table(head, cells)


PARTS = {
    "sparse-memory": memory,
    "sparse-systems": systems,
    "sparse-synthetic": synthetic,
    "sparse-columns": columns,
    "sparse-entries": entries,
}
