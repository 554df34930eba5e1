"""The first figure on grafts: dendrogram purity after each point, for Grinch and Rotate."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.ablation import title_of
from experiments.setting import Result, Setting
from experiments.sources import Source, System, describe, digest, in_order
from grinch.estimators.registry import make_system
from grinch.metrics import RunningPurity
from grinch.plots import plot_curves

SYSTEMS = {
    "Grinch": System("grinch"),
    "Grinch, paper's mode": System("grinch", settings={"mode": "paper"}),
    "Rotate": System("rotate"),
}
MOST = 5000


def run(setting: Setting) -> Result:
    result = Result("purity-per-point", "Dendrogram purity per point", ["points", *SYSTEMS])
    source = setting.aloi_like(MOST)
    for title, system in SYSTEMS.items():
        cell = setting.measure(title, purity_per_point, source, system, setting.seed, data=digest(source))
        if cell.failure:
            result.remarks.append(f"{title}: {cell.failure}")
            return result
        result.curves[title] = (cell.found["points"], cell.found["purity"])
    points = result.curves["Grinch"][0]
    for share in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0):
        i = max(int(share * len(points)) - 1, 0)
        row = {system: round(values[i], 4) for system, (_, values) in result.curves.items()}
        result.rows.append({"points": int(points[i]), **row})
    apart = np.array(result.curves["Grinch"][1]) - np.array(result.curves["Rotate"][1])
    later = apart[len(apart) // 5 :]
    result.remarks.append(
        f"On {title_of(source.name)}, {describe(source).n:,} points. Grinch ends {apart[-1]:+.3f} from Rotate"
        f" (paper, ALOI: about +0.03), and is above it after {100 * np.mean(later > 0):.0f} % of the points"
        " past the first fifth."
    )
    return result


def purity_per_point(source: Source, system: System, seed: int) -> dict[str, list[float]]:
    X, y = in_order(source, "random", seed)
    running, model = RunningPurity(y), make_system(system.method, metric=system.metric, **system.settings)
    for i in range(len(y)):
        running.update(model.partial_fit(X[i : i + 1]).tree_)
    return {
        "points": [float(n) for n, _ in running.history],
        "purity": [round(float(purity), 6) for _, purity in running.history],
    }


def draw(result: Result) -> Any:
    series: Any = result.curves
    return plot_curves(series, ylabel="dendrogram purity", title=result.title).figure
