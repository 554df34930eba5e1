"""How time grows with the points: Grinch beside HAC."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from grinch import HAC, Grinch
from grinch.datasets import gaussian_mixture
from grinch.experiments.setting import Result, Setting
from grinch.metrics import dendrogram_purity
from grinch.plots import plot_curves

SIZES = {
    "full": [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000],
    "quick": [500, 1_000, 2_000, 4_000, 8_000],
    "tiny": [50, 100],
}
HAC_MOST = 20_000


def run(setting: Setting) -> Result:
    columns = ["points", "Grinch (s)", "HAC (s)", "HAC / Grinch", "Grinch purity", "HAC purity"]
    result = Result("time", "Time against the number of points", columns)
    # Compiled before the clock starts; a tree of 200 points has seen all there is to compile.
    Grinch().fit(gaussian_mixture(200, random_state=setting.seed).vectors)
    curves: dict[str, tuple[list[float], list[float]]] = {"Grinch": ([], []), "HAC": ([], [])}
    for n in SIZES[setting.scale.name]:
        X, y = gaussian_mixture(n, n_classes=max(n // 20, 2), random_state=setting.seed)
        row: dict[str, Any] = dict.fromkeys(columns, "")
        row["points"] = n
        for title, model in {"Grinch": Grinch(), "HAC": HAC(metric="cosine")}.items():
            if title == "HAC" and n > HAC_MOST:
                continue
            setting.say(f"{title}, {n:,} points")
            start = time.perf_counter()
            tree = model.fit(X).tree_
            seconds = time.perf_counter() - start
            curves[title][0].append(float(n))
            curves[title][1].append(seconds)
            row[f"{title} (s)"], row[f"{title} purity"] = round(seconds, 3), round(dendrogram_purity(tree, y), 3)
        if row["HAC (s)"] != "":
            row["HAC / Grinch"] = round(row["HAC (s)"] / row["Grinch (s)"], 1)
        result.rows.append(row)
    result.curves = curves
    if len(curves["HAC"][0]) > 1:
        slopes = {title: float(np.polyfit(np.log(x), np.log(t), 1)[0]) for title, (x, t) in curves.items()}
        result.remarks.append(
            f"Time grows like n^{slopes['Grinch']:.1f} for Grinch and n^{slopes['HAC']:.1f} for HAC (average linkage"
            " under cosine, a mixture of gaussians in 64 dimensions). The paper: orders of magnitude faster than HAC."
        )
    return result


def draw(result: Result) -> Any:
    series: Any = result.curves
    return plot_curves(series, ylabel="seconds", log="xy", title=result.title).figure
