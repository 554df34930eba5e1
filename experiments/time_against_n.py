"""How time grows with the points: Grinch beside HAC."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.setting import Result, Setting
from experiments.sources import MIXTURE, System
from grinch.plots import plot_curves

SIZES = {
    "full": [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000],
    "quick": [500, 1_000, 2_000, 4_000, 8_000],
    "tiny": [50, 100],
}
# Beyond this all pairs take gigabytes; the chain of nearest neighbours makes the same tree in little memory.
HAC_PAIRS_MOST = 20_000


def run(setting: Setting) -> Result:
    columns = ["points", "Grinch (s)", "HAC (s)", "HAC / Grinch", "Grinch purity", "HAC purity"]
    result = Result("time", "Processor time against the number of points", columns)
    curves: dict[str, tuple[list[float], list[float]]] = {"Grinch": ([], []), "HAC": ([], [])}
    stopped = ""
    for n in SIZES[setting.scale.name]:
        source = setting.source(MIXTURE)._replace(most=n)
        row: dict[str, Any] = dict.fromkeys(columns, "")
        row["points"] = n
        for title, system in {
            "Grinch": System("grinch"),
            "HAC": System("hac", settings={"lean": n > HAC_PAIRS_MOST}),
        }.items():
            if title == "HAC" and stopped:
                row["HAC (s)"] = stopped
                continue
            cell = setting.tree(f"{title}, {n:,} points", source, system, None)
            if cell.failure:
                row[f"{title} (s)"] = cell.failure
                stopped = cell.failure if title == "HAC" else ""
                continue
            seconds = cell.found["seconds"]
            curves[title][0].append(float(n))
            curves[title][1].append(seconds)
            row[f"{title} (s)"], row[f"{title} purity"] = round(seconds, 3), round(cell.found["purity"], 3)
        if row["Grinch purity"] != "" and row["HAC purity"] != "":
            row["HAC / Grinch"] = round(row["HAC (s)"] / max(row["Grinch (s)"], 1e-3), 1)
        result.rows.append(row)
    result.curves = curves
    if all(len(x) > 1 for x, _ in curves.values()):
        slopes = {
            title: float(np.polyfit(np.log(x), np.log(np.maximum(t, 1e-4)), 1)[0]) for title, (x, t) in curves.items()
        }
        result.remarks.append(
            f"Time grows like n^{slopes['Grinch']:.1f} for Grinch and n^{slopes['HAC']:.1f} for HAC (average linkage"
            " under cosine, a mixture of gaussians in 64 dimensions). The paper: orders of magnitude faster than HAC."
        )
    return result


def draw(result: Result) -> Any:
    series: Any = result.curves
    return plot_curves(series, ylabel="CPU seconds", log="xy", title=result.title).figure
