"""Table 1: the cost and the gain of each approximation. Each row changes one thing more than the row before it."""

from __future__ import annotations

from typing import Any

from experiments.setting import MOVES, SYNTHETIC, SYNTHETIC_PER_CLASS, Result, Setting, System, describe
from grinch import Rules
from grinch.cli.compare import Panel, draw_panels

# Each row adds its rules to those above; purity, seconds and rotations / grafts / restructurings in the paper, on ALOI
# and on the synthetic data. Pull is ours, and belongs to the first row only, where the theorem holds.
ROWS: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "no approximation": ({}, ("", "")),
    "no pull (as printed)": (
        {"pull": False},
        ("0.533, 85.4 s, 7107 / 2435 / 1088", "1.0, 160.3 s, 2558 / 578 / 203"),
    ),
    "cap 100": ({"cap": 100}, ("0.533, 48.5 s, 6495 / 2157 / 686", "0.993, 164.3 s, 2558 / 578 / 194")),
    "single elimination": (
        {"single_elimination": True},
        ("0.534, 39.0 s, 6574 / 1586 / 533", "0.997, 157.6 s, 2523 / 526 / 184"),
    ),
    "single NN search": (
        {"single_search": True},
        ("0.540, 22.2 s, 6441 / 1516 / 570", "0.993, 83.0 s, 2517 / 415 / 148"),
    ),
    "no restructure": ({"restructure": False}, ("0.538, 14.3 s, 6477 / 1634 / 0", "0.993, 82.3 s, 2476 / 426 / 0")),
    "no graft": ({"graft": False}, ("0.506, 12.7 s, 6747 / 0 / 0", "0.872, 82.1 s, 2259 / 0 / 0")),
    "no rotate": ({"rotate": False}, ("0.442, 14.8 s, 0 / 0 / 0", "0.854, 80.5 s, 0 / 0 / 0")),
}
# Exact mode takes hundreds of microseconds times the points for each point.
N_POINTS = {"full": 5000, "quick": 600, "tiny": 60}
CLASSES = {"full": 100, "quick": 20, "tiny": 3}


def run(setting: Setting) -> Result:
    """Measure purity, processor time and moves of each row."""
    columns = ["data", "row", "purity", "CPU seconds", *MOVES, "paper (purity, seconds, moves)"]
    result = Result("table1", "Table 1: ablation", columns)
    aloi = setting.aloi_like(N_POINTS[setting.scale.name])
    n_classes = CLASSES[setting.scale.name]
    synthetic = setting.source(SYNTHETIC)._replace(most=n_classes * SYNTHETIC_PER_CLASS)
    for column, (source, linkage) in enumerate([(aloi, "average"), (synthetic, "cosine")]):
        rules: dict[str, Any] = {}
        for row, (more, paper) in ROWS.items():
            rules |= more
            system = System("grinch", linkage, {"n_neighbors": 50, "mode": Rules.exact(**rules)})
            cell = setting.tree(f"{source.name}, {row}", source, system, "random", setting.seed)
            result.rows.append(
                {
                    "data": source.name,
                    "row": row,
                    "purity": cell.failure or round(cell.found["purity"], 4),
                    "CPU seconds": cell.found.get("seconds", ""),
                    **{move: cell.found.get(move, "") for move in MOVES},
                    columns[-1]: paper[column],
                }
            )
    result.remarks.append(
        f"{title_of(aloi.name)}: {describe(aloi).n:,} points under average linkage; synthetic: {n_classes} classes"
        " under cosine linkage. Restructurings count those after every graft, whether they changed something or not."
        " The paper's times are of another machine and language."
    )
    return result


def title_of(name: str) -> str:
    """Return the name of a data set, and whether it is there in place of ALOI."""
    return name if name == "aloi" else f"{name} (in place of ALOI)"


def draw(result: Result) -> Any:
    """Draw purity and processor time of each row."""
    panels = [
        Panel(name, rows, measure, measure, measure == "purity")
        for name, rows in result.rows_by_data().items()
        for measure in ("purity", "CPU seconds")
    ]
    return draw_panels(panels, 2, (7, 3.4), method="row")
