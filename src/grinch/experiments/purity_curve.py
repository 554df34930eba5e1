"""The first figure on grafts: dendrogram purity after each point, for Grinch and Rotate."""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch import Grinch, Rotate
from grinch.experiments.ablation import title_of
from grinch.experiments.setting import Result, Setting
from grinch.metrics import RunningPurity
from grinch.plots import plot_curves


def run(setting: Setting) -> Result:
    result = Result("purity-per-point", "Dendrogram purity per point", ["points", "Grinch", "Rotate"])
    name, data = setting.aloi_like(5000)
    order = np.random.default_rng(setting.seed).permutation(len(data.labels))
    X, y = data.vectors[order], data.labels[order]
    for title, model in {"Grinch": Grinch(), "Rotate": Rotate()}.items():
        setting.say(title)
        running = RunningPurity(y)
        for i in range(len(y)):
            running.update(model.partial_fit(X[i : i + 1]).tree_)
        counted = [float(n) for n, _ in running.history]
        result.curves[title] = (counted, [float(purity) for _, purity in running.history])
    points = result.curves["Grinch"][0]
    for share in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0):
        i = max(int(share * len(points)) - 1, 0)
        row = {system: round(values[i], 4) for system, (_, values) in result.curves.items()}
        result.rows.append({"points": int(points[i]), **row})
    apart = np.array(result.curves["Grinch"][1]) - np.array(result.curves["Rotate"][1])
    later = apart[len(apart) // 5 :]
    result.remarks.append(
        f"On {title_of(name)}, {len(y):,} points. Grinch ends {apart[-1]:+.3f} from Rotate (paper, ALOI: about +0.03),"
        f" and is above it after {100 * np.mean(later > 0):.0f} % of the points past the first fifth."
    )
    return result


def draw(result: Result) -> Any:
    series: Any = result.curves
    return plot_curves(series, ylabel="dendrogram purity", title=result.title).figure
