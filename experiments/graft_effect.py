"""The second figure on grafts: how much each insert's grafts change the purity, at once and in sum."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from experiments.ablation import title_of
from experiments.setting import Result, Setting
from experiments.sources import Source, describe, digest, in_order
from grinch import Grinch
from grinch.metrics import dendrogram_purity
from grinch.plots import plot_curves

MOST = {"full": 5000, "quick": 600, "tiny": 150}


def run(setting: Setting) -> Result:
    result = Result("grafts", "Change in purity due to grafts", ["points", "largest change", "sum of changes"])
    source = setting.aloi_like(MOST[setting.scale.name])
    cell = setting.measure("changes", changes_by_grafts, source, setting.seed, data=digest(source))
    if cell.failure:
        result.remarks.append(cell.failure)
        return result
    changes = cell.found["changes"]
    points = list(map(float, range(2, len(changes) + 2)))
    summed = np.cumsum(changes)
    result.curves = {"at once": (points, list(map(float, changes))), "in sum": (points, summed.tolist())}
    for share in (0.25, 0.5, 0.75, 1.0):
        i = max(int(share * len(changes)) - 1, 0)
        largest = float(np.abs(changes[: i + 1]).max())
        result.rows.append(
            {
                "points": int(points[i]),
                "largest change": round(largest, 4),
                "sum of changes": round(float(summed[i]), 4),
            }
        )
    late = np.abs(changes[len(changes) // 2 :]).max()
    result.remarks.append(
        f"On {title_of(source.name)}, {describe(source).n:,} points. In the second half no insert's grafts change"
        f" purity by more than {late:.4f} (paper, ALOI: about 0.001); in sum {summed[-1]:+.3f}."
    )
    return result


def changes_by_grafts(source: Source, seed: int) -> dict[str, list[float]]:
    """The purity after each point's grafts minus that before them."""
    X, y = in_order(source, "random", seed)
    model = Grinch(metric="cosine")
    changes: list[float] = []
    model.partial_fit(X[:1])
    for i in range(1, len(y)):
        # A copy takes the point in without grafts: what Rotate would do to this very tree.
        twin = pickle.loads(pickle.dumps(model))
        engine = twin.engine()
        engine.rules = engine.rules._replace(graft=False)
        engine.insert(X[i : i + 1])
        model.partial_fit(X[i : i + 1])
        before, after = (dendrogram_purity(tree, y[: i + 1]) for tree in (engine.tree(), model.tree_))
        changes.append(0.0 if np.isnan(before) else round(after - before, 8))
    return {"changes": changes}


def draw(result: Result) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(13, 4.2), layout="constrained")
    for ax, (title, curve) in zip(axes, result.curves.items(), strict=True):
        plot_curves({title: curve}, ylabel="change in dendrogram purity", title=f"Change due to grafts, {title}", ax=ax)
    return figure
