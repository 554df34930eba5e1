"""The tables of docs/experiments.md, from benchmarks/experiments/NAME.json; fill.py puts them into the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import written

HERE = Path(__file__).parent
FOLDER = HERE / "experiments"
IMAGES = HERE.parent / "docs" / "images" / "experiments"
# The paper's order of the four sets that are shown beside its own.
BESIDE_PAPER = ("covtype", "tiny_imagenet", "speaker_digits", "speaker")

# Why there is no figure.
NOT_RUN = "not run"
COLUMN_OF = {"NMI with all": "Grinch", "NMI of static HAC": "static HAC"}
REASONS = ("more than", "out of memory", NOT_RUN)

Row = dict[str, Any]


def read(name: str) -> Any:
    return written.read(f"{FOLDER.name}/{name}.json")


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines) + "\n"


def _cell(value: object) -> str:
    """Text as it is, numbers from a thousand on with commas, and no zeros before points.

    >>> _cell(20000), _cell("0.812 ± 0.004"), _cell(0.5), _cell("10.5"), _cell("")
    ('20,000', '.812 ± .004', '.5', '10.5', '–')
    """
    text = f"{value:,}" if isinstance(value, int | float) else str(value)
    words = [word.replace("0.", ".", 1) if word.lstrip("(-+").startswith("0.") else word for word in text.split(" ")]
    return " ".join(words) or "–"


def whole(name: str, but: Sequence[str] = ()) -> str:
    """A result as it is, without some of its columns; sets of Table 3 that were not run are listed elsewhere."""
    result = read(name)
    columns = [column for column in result["columns"] if column not in but]
    rows = [row for row in result["rows"] if row.get("F1") != NOT_RUN]
    return markdown(columns, ([row.get(column, "") for column in columns] for row in rows)) + notes(name)


def notes(name: str) -> str:
    return "\n" + "\n".join(f"- {remark}" for remark in read(name)["remarks"]) + "\n"


def of_data(name: str, data: str, but: Sequence[str]) -> str:
    """The rows of one data set."""
    result = read(name)
    columns = [column for column in result["columns"] if column not in ("data", "points", *but)]
    rows = [row for row in result["rows"] if row["data"] == data]
    return markdown(columns, ([row.get(column, "") for column in columns] for row in rows))


def table2_beside_paper() -> str:
    by_data = _by_data(read("table2")["rows"])
    there = [name for name in BESIDE_PAPER if name in by_data]
    header = ["system"]
    for name in there:
        papers = (
            next(row["paper"] for row in by_data[name].values() if row["paper"]).partition("(")[2].removesuffix(")")
        )
        header += [name, f"*paper: {papers}*"]
    cells = []
    for system in by_data[there[0]]:
        line = [system]
        for name in there:
            row = by_data[name][system]
            line += [row["ours"], _italic(row["paper"].partition(" (")[0])]
        cells.append(line)
    return markdown(header, cells)


def _italic(text: str) -> str:
    return f"*{_cell(text)}*" if text else ""


def table2_others() -> str:
    by_data = _by_data(read("table2")["rows"])
    return _by_system({name: rows for name, rows in by_data.items() if name not in BESIDE_PAPER}, "ours")


def table2_seconds() -> str:
    return _by_system(_by_data(read("table2")["rows"]), "CPU seconds")


def _by_data(rows: Iterable[Row]) -> dict[str, dict[str, Row]]:
    """By data set and system; without sets that no system was run on."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["data"], {})[row["system"]] = row
    return {name: of for name, of in found.items() if any(row["purities"] for row in of.values())}


def _by_system(by_data: dict[str, dict[str, Row]], column: str) -> str:
    """A line for each system, a column for each data set."""
    header = ["system", *(f"{name}, {next(iter(rows.values()))['points']:,}" for name, rows in by_data.items())]
    systems = next(iter(by_data.values()))
    return markdown(header, ([system, *(rows[system][column] for rows in by_data.values())] for system in systems))


def table4_others() -> str:
    result = read("table4")
    columns = [column for column in result["columns"] if not column.startswith("paper")]
    rows = [row for row in result["rows"] if row["data"] != "speaker_digits" and any(row["purities"].values())]
    return markdown(columns, ([row[column] for column in columns] for row in rows))


def open_cells() -> str:
    """Return the data sets that took too long or were not run, by table and system."""
    lines = []
    for path in sorted(FOLDER.glob("*.json")):
        result = read(path.stem)
        found: dict[str, dict[str, list[str]]] = {}
        for row in result["rows"]:
            for reason, columns in _reasons(row, result["columns"]).items():
                # Where a row has several systems, each has a column.
                own = row.get("system") or row.get("method") or row.get("row")
                systems = [own] if own else [COLUMN_OF.get(column, column.removesuffix(" (s)")) for column in columns]
                where = str(row.get("data") or f"{row.get('points', row.get('records', 0)):,}")
                # In table 4 a row has three orders; one that is open in all of them needs no list.
                orders = f" ({', '.join(columns)})" if "random" in row and len(columns) < 3 else ""
                for system in systems:
                    found.setdefault(reason, {}).setdefault(system, []).append(where + orders)
        for reason, by_system in found.items():
            together: dict[str, list[str]] = {}
            for system, wheres in by_system.items():
                together.setdefault(", ".join(wheres), []).append(system)
            lines += [
                f"- **{result['name']}**, {reason}, on {wheres}: {'; '.join(names)}"
                for wheres, names in together.items()
            ]
    return "\n".join(lines or ["Nothing: every cell was measured."]) + "\n"


def _reasons(row: Row, columns: Sequence[str]) -> dict[str, list[str]]:
    """Why there are no figures in which columns."""
    found: dict[str, list[str]] = {}
    for column in columns:
        last = str(row.get(column, "")).rpartition("; ")[2]
        if last.startswith(REASONS):
            found.setdefault(last, []).append(column)
    return found


def about() -> str:
    results = [read(path.stem) for path in sorted(FOLDER.glob("*.json"))]
    told = [result["about"] for result in results if result["about"].get("scale") == "full"]
    if not told:
        raise FileNotFoundError(2, "no results", str(FOLDER / "table2.json"))
    versions = ", ".join(sorted({each["version"] for each in told}))
    return (
        f"grinch {versions}, Python {told[0]['python']}, {told[0]['cores']} cores that other jobs ran on too, seed"
        f" {told[0]['seed']}.\n"
    )


def picture(name: str, what: str) -> str:
    if not (IMAGES / f"{name}.png").exists():
        raise FileNotFoundError(2, "no picture", str(FOLDER / f"{name}.json"))
    return f"![{what}](images/experiments/{name}.png)\n"


PICTURES = {
    "table1": "Purity and time of each row",
    "table2": "All systems on all sets",
    "table3": "F1 of all methods",
    "block-size": "Time against the size of a block",
    "purity-per-point": "Purity after each point",
    "grafts": "Changes due to grafts",
    "table4": "Purity by order of arrival",
    "recovery": "Share of trees that have every component",
    "time": "Time against the number of points",
    "dynhac": "NMI, and milliseconds per insert and removal",
}
PARTS: dict[str, Callable[[], str]] = {
    "experiments-about": about,
    "experiments-open": open_cells,
    "experiments-synthetic": partial(whole, "synthetic"),
    "experiments-table1": partial(whole, "table1"),
    "experiments-table2": table2_beside_paper,
    "experiments-table2-others": table2_others,
    "experiments-table2-seconds": table2_seconds,
    "experiments-table2-notes": partial(notes, "table2"),
    "experiments-table3": partial(whole, "table3"),
    "experiments-table4": partial(of_data, "table4", "speaker_digits", ()),
    "experiments-table4-others": table4_others,
    "experiments-table4-notes": partial(notes, "table4"),
    "experiments-purity-per-point": partial(whole, "purity-per-point"),
    "experiments-grafts": partial(whole, "grafts"),
    "experiments-recovery": partial(whole, "recovery"),
    "experiments-time": partial(whole, "time"),
    "experiments-block-size": partial(whole, "block-size"),
    "experiments-dynhac": partial(whole, "dynhac"),
    **{f"picture-{name}": partial(picture, name, what) for name, what in PICTURES.items()},
}
