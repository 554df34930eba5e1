"""Table 2: all systems on the large data sets, mean and deviation over shuffled orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.cells import Cell
from experiments.setting import MAX_HAC_PAIRS, MIXTURE, Result, Setting, System, describe, figures, shown
from grinch import Rules
from grinch.cli.compare import Panel, draw_panels

# Our Rotate has the wider caps of our default mode. Without grafts, the paper's and the authors' mode are the same.
PAPERS_ROTATE = {"mode": Rules.paper(graft=False, restructure=False), "n_neighbors": 1}
# Title, system, and the row of the paper's table that it belongs to.
METHODS: dict[str, tuple[System, str]] = {
    "Grinch (average)": (System("grinch"), "Grinch (average)"),
    "Grinch (cosine)": (System("grinch", "cosine"), "Grinch (cosine)"),
    "Grinch (squared distance)": (System("grinch", metric="sqeuclidean"), "Grinch (average)"),
    "Grinch (average), refined": (System("grinch", settings={"refine_passes": 1}), ""),
    "Grinch (average), paper's mode": (System("grinch", settings={"mode": "paper"}), "Grinch (average)"),
    "Grinch (squared distance), paper's mode": (
        System("grinch", settings={"mode": "paper"}, metric="sqeuclidean"),
        "Grinch (average)",
    ),
    "Grinch (cosine), paper's mode": (System("grinch", "cosine", {"mode": "paper"}), "Grinch (cosine)"),
    "Grinch (average), authors' mode": (System("grinch", settings={"mode": "authors"}), "Grinch (average)"),
    "Grinch (cosine), authors' mode": (System("grinch", "cosine", {"mode": "authors"}), "Grinch (cosine)"),
    "Rotate (average)": (System("rotate"), "Rotate (average)"),
    "Rotate (cosine)": (System("rotate", "cosine"), "Rotate (cosine)"),
    "Rotate (average), paper's mode": (System("grinch", settings=PAPERS_ROTATE), "Rotate (average)"),
    "Rotate (squared distance), paper's mode": (
        System("grinch", settings=PAPERS_ROTATE, metric="sqeuclidean"),
        "Rotate (average)",
    ),
    "Rotate (cosine), paper's mode": (System("grinch", "cosine", PAPERS_ROTATE), "Rotate (cosine)"),
    "Online": (System("online"), "Online"),
    "MB-HAC": (System("mb-hac"), "MB-HAC"),
    "HAC": (System("hac"), "HAC"),
    "HAC (squared distance)": (System("hac", metric="sqeuclidean"), "HAC"),
    "PERCH": (System("perch"), "PERCH"),
    "PERCH-BC": (System("perch-bc"), "PERCH-BC"),
    "SCC": (System("scc"), ""),
    "Affinity": (System("affinity"), ""),
    "Reciprocal nearest neighbours": (System("rnn"), ""),
}
# Fewer orders than of the others: one of what looks at all points at once and has none, and of what takes long.
ORDERS = {**dict.fromkeys(("hac", "scc", "affinity", "rnn", "perch-bc"), 1), "perch": 2}
# So many points of a set that HAC has room for.
POINTS = {"mnist": 20_000, MIXTURE: 20_000}
# The paper's figures, in the order of these columns.
COLUMNS = ("CovType", "ILSVRC12 (50k)", "ALOI", "Speaker")
PAPER: dict[str, tuple[str, str, str, str]] = {
    "Grinch (average)": ("0.43 ± 0.00", "0.557 ± 0.003", "0.504 ± 0.002", "0.480 ± 0.003"),
    "Grinch (cosine)": ("0.43 ± 0.00", "0.544 ± 0.005", "0.499 ± 0.003", "0.478 ± 0.003"),
    "Rotate (average)": ("0.43 ± 0.01", "0.545 ± 0.004", "0.476 ± 0.004", "0.407 ± 0.003"),
    "Rotate (cosine)": ("0.44 ± 0.01", "0.513 ± 0.007", "0.472 ± 0.003", "0.406 ± 0.003"),
    "Online": ("0.44 ± 0.01", "0.527 ± 0.00", "0.435 ± 0.004", "0.317 ± 0.002"),
    "PERCH": ("0.45 ± 0.00", "0.53 ± 0.003", "0.44 ± 0.004", "0.37 ± 0.002"),
    "PERCH-BC": ("0.45 ± 0.00", "0.36 ± 0.005", "0.37 ± 0.008", "0.09 ± 0.001"),
    "MB-HAC": ("0.44 ± 0.01", "0.43 ± 0.005", "0.30 ± 0.002", "0.01 ± 0.002"),
    "HAC": ("", "0.54", "", "0.55"),
}
# Our data set, and the column it stands for.
STANDS_FOR = {
    "covtype": "CovType",
    "tiny_imagenet": "ILSVRC12 (50k)",
    "ilsvrc12": "ILSVRC12 (50k)",
    "aloi": "ALOI",
    "speaker_digits": "ALOI",
    "speaker": "Speaker",
}
OTHERS = ("digits", "pendigits", "usps", "clinc150", "shuttle", "mnist")


def run(setting: Setting) -> Result:
    """Measure purity and processor time of all systems on all sets that are there."""
    columns = ["data", "points", "system", "ours", "CPU seconds", "paper"]
    result = Result("table2", "Table 2: large data sets, dendrogram purity", columns)
    names = setting.available(list(STANDS_FOR))
    # Without any of the paper's sets, the largest there are; every machine has the digits and a mixture.
    names += setting.available(OTHERS) if setting.scale.name == "full" else [] if names else ["digits"]
    for name in ["digits"] if setting.scale.name == "tiny" else [*names, MIXTURE]:
        source = setting.source(name, POINTS.get(name))
        n = describe(source).n
        ours: dict[str, list[Cell]] = {}
        for title in METHODS:
            system, row = _system(title, n)
            orders = min(setting.scale.orders, ORDERS.get(system.method, setting.scale.orders))
            ours[title] = setting.trees(f"{name}, {title}", source, system, "random", orders)
            seconds = figures(ours[title], "seconds")
            result.rows.append(
                {
                    "data": name,
                    "points": n,
                    "system": title,
                    "ours": shown(ours[title], "purity"),
                    "CPU seconds": round(float(np.median(seconds)), 2) if seconds else "",
                    "paper": papers_figure(name, row),
                    "purities": figures(ours[title], "purity"),
                }
            )
        result.remarks += verdicts(name, {title: figures(cells, "purity") for title, cells in ours.items()})
    result.remarks.append(
        "Seconds are the median of the orders. HAC, SCC, Affinity and reciprocal nearest neighbours have no orders and"
        " are run once, PERCH-BC in one order, PERCH in two. Average linkage is the mean cosine; with squared distance,"
        " it is the mean of negative squared distances, as the authors' program computes it. MB-HAC has a buffer of"
        " 2,000, or of a tenth of the points. Rotate has the caps of our default mode; in the paper's mode, the"
        " paper's cap of 100. A figure of the paper stands beside ours where the data"
        " are the paper's, or come nearest to them; compare them in order, not in size."
    )
    return result


def _system(title: str, n: int) -> tuple[System, str]:
    system, row = METHODS[title]
    if system.method == "mb-hac":
        system = system._replace(settings={"buffer_size": min(2000, max(20, n // 10))})
    if system.method == "hac":
        system = system._replace(settings={"lean": n > MAX_HAC_PAIRS})
    return system, row


def papers_figure(name: str, row: str) -> str:
    """Return the paper's figure for a system on the data that ours stand for, with the name of the paper's data."""
    column = STANDS_FOR.get(name)
    if column is None or row not in PAPER:
        return ""
    figure = PAPER[row][COLUMNS.index(column)]
    return figure and f"{figure} ({column})"


def verdicts(name: str, ours: dict[str, list[float]]) -> list[str]:
    """Return remarks on where Grinch's mean purity is below that of Rotate or Online."""
    found = []
    for linkage in ("average", "cosine"):
        for mode, rotates in (("", ""), (", paper's mode", ", paper's mode"), (", authors' mode", ", paper's mode")):
            grinch = f"Grinch ({linkage}){mode}"
            for other in (f"Rotate ({linkage}){rotates}", *(["Online"] if linkage == "average" else [])):
                values, others = ours.get(grinch), ours.get(other)
                if values and others and (mean := np.mean(values)) < (best := np.mean(others)):
                    found.append(f"{name}: {grinch} at {mean:.3f} is below {other} at {best:.3f}.")
    return found


def draw(result: Result) -> Any:
    """Draw the purity of all systems on each set."""
    panels = [
        Panel(
            f"{name}, {rows[0]['points']:,} points",
            [{**row, "purity": row["purities"] or row["ours"]} for row in rows],
            "purity",
            "dendrogram purity",
        )
        for name, rows in result.rows_by_data().items()
        if any(row["purities"] for row in rows)
    ]
    ours = [title for title in METHODS if title.startswith("Grinch")]
    return draw_panels(panels, min(2, len(panels)), (7.5, 4.2), "system", highlight=ours)
