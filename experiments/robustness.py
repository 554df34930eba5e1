"""Table 4: orders of arrival that are hard for an incremental method."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.cells import Cell
from experiments.setting import MIXTURE, Result, Setting, Source, System, describe, figures, shown
from grinch.cli.compare import Panel, draw_panels
from grinch.datasets import ORDERS

# With the paper's figures (round-robin, sorted; ALOI).
SYSTEMS: dict[str, tuple[System, tuple[float, float] | None]] = {
    "Grinch": (System("grinch"), (0.503, 0.457)),
    "Grinch, refined": (System("grinch", settings={"refine_passes": 1}), None),
    "Grinch, paper's mode": (System("grinch", settings={"mode": "paper"}), (0.503, 0.457)),
    "Grinch, authors' mode": (System("grinch", settings={"mode": "authors"}), (0.503, 0.457)),
    "Rotate": (System("rotate"), None),
    "Online": (System("online"), None),
    "MB-HAC (5 per class)": (System("mb-hac"), (0.299, 0.464)),
    "MB-HAC (2 per class)": (System("mb-hac"), (0.171, 0.451)),
    "PERCH": (System("perch"), (0.446, 0.351)),
}
# The paper's buffers of 5,000 and 2,000 hold as many points of each of ALOI's 1,000 classes.
PER_CLASS = {"MB-HAC (5 per class)": 5, "MB-HAC (2 per class)": 2}
NAMES = (
    *("aloi", "speaker_digits", "speaker", "clinc150", "covtype", "usps"),
    *("pendigits", "mnist", "segment", "coil20", "digits"),
)
N_POINTS = {"full": 20_000, "quick": 2_000, "tiny": 120}


def run(setting: Setting) -> Result:
    """Measure purity of all systems in all orders of arrival."""
    columns = ["data", "points", "system", *ORDERS, "paper (round-robin, sorted)"]
    result = Result("table4", "Table 4: robustness against the order of arrival, dendrogram purity", columns)
    names = setting.available(NAMES)[: {"full": None, "quick": 3, "tiny": 0}[setting.scale.name]]
    for name in [*names, MIXTURE]:
        source = setting.source(name, N_POINTS[setting.scale.name])
        n, n_classes, _ = describe(source)
        found = {title: _cells(setting, source, n_classes, title) for title in SYSTEMS}
        purities = {
            title: {order: figures(cells, "purity") for order, cells in by_order.items()}
            for title, by_order in found.items()
        }
        for title, by_order in found.items():
            paper = SYSTEMS[title][1]
            result.rows.append(
                {
                    "data": name,
                    "points": n,
                    "system": title,
                    **{order: shown(cells, "purity") for order, cells in by_order.items()},
                    columns[-1]: "" if paper is None else f"{paper[0]:.3f}, {paper[1]:.3f}",
                    "purities": purities[title],
                }
            )
        result.remarks += verdicts(name, purities)
    result.remarks.append(
        "The paper's figures are of ALOI. Its buffers, of 5,000 and 2,000, hold 5 and 2 points of each class, and so do"
        " these, but at least 20 points in all."
    )
    return result


def _cells(setting: Setting, source: Source, n_classes: int, title: str) -> dict[str, list[Cell]]:
    system, _ = SYSTEMS[title]
    if title in PER_CLASS:
        system = system._replace(settings={"buffer_size": max(20, PER_CLASS[title] * n_classes)})
    return {
        order: setting.trees(f"{source.name}, {title}, {order}", source, system, order, setting.scale.orders)
        for order in ORDERS
    }


def verdicts(name: str, found: dict[str, dict[str, list[float]]]) -> list[str]:
    """Return remarks on where Grinch is below Rotate or Online, and where an order costs it more than 0.05."""
    if not all(values for title in ("Grinch", "Grinch, refined") for values in found[title].values()):
        return []
    grinch = {order: float(np.mean(values)) for order, values in found["Grinch"].items()}
    refined = {order: float(np.mean(values)) for order, values in found["Grinch, refined"].items()}
    said = [
        f"{name}, {order}: Grinch at {grinch[order]:.3f} is below {other} at {np.mean(found[other][order]):.3f}."
        for order in ORDERS
        for other in ("Rotate", "Online")
        if found[other][order] and grinch[order] < np.mean(found[other][order])
    ]
    return said + [
        f"{name}: Grinch loses {grinch['random'] - grinch[order]:.3f} under {order} order; refined, it is at"
        f" {refined[order]:.3f}, and in random order at {refined['random']:.3f}."
        for order in ORDERS
        if grinch["random"] - grinch[order] >= 0.05
    ]


def draw(result: Result) -> Any:
    """Draw the purity of all systems on each set, in each order of arrival."""
    panels = [
        Panel(
            f"{name}, {order}",
            [{"system": row["system"], "purity": row["purities"][order] or row[order]} for row in rows],
            "purity",
            "purity",
        )
        for name, rows in result.rows_by_data().items()
        if any(any(row["purities"].values()) for row in rows)
        for order in ORDERS
    ]
    ours = [title for title in SYSTEMS if title.startswith("Grinch")]
    return draw_panels(panels, len(ORDERS), (5.5, 3), "system", highlight=ours)
