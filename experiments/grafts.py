"""The figures on grafts: purity after each point, and how much the grafts of each insert change it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.ablation import title_of
from experiments.setting import Result, Setting, Source, System, describe, in_order
from grinch import Grinch
from grinch.estimators.registry import make_system
from grinch.metrics import RunningPurity, dendrogram_purity
from grinch.plots import plot_curves

SYSTEMS = {
    "Grinch": System("grinch"),
    "Grinch, paper's mode": System("grinch", settings={"mode": "paper"}),
    "Grinch, authors' mode": System("grinch", settings={"mode": "authors"}),
    "Rotate": System("rotate"),
}
# Whose grafts are looked at one by one.
GRAFTING = ("Grinch", "Grinch, paper's mode")
N_POINTS = {"full": 5000, "quick": 600, "tiny": 150}


def run_curve(setting: Setting) -> Result:
    """Measure dendrogram purity after each point, for Grinch and Rotate."""
    result = Result("purity-per-point", "Dendrogram purity per point", ["points", *SYSTEMS])
    source = setting.aloi_like(N_POINTS["full"])
    n, _, digest = describe(source)
    cells = {
        title: setting.measure(title, purity_per_point, source, system, setting.seed, data=digest)
        for title, system in SYSTEMS.items()
    }
    for title, cell in cells.items():
        if cell.failure:
            result.remarks.append(f"{title}: {cell.failure}")
            return result
        result.curves[title] = (cell.found["points"], cell.found["purity"])
    points = result.curves["Grinch"][0]
    for i in _places(len(points), (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)):
        row = {system: round(values[i], 4) for system, (_, values) in result.curves.items()}
        result.rows.append({"points": int(points[i]), **row})
    apart = np.array(result.curves["Grinch"][1]) - np.array(result.curves["Rotate"][1])
    later = apart[len(apart) // 5 :]
    result.remarks.append(
        f"On {title_of(source.name)}, {n:,} points. Grinch ends {apart[-1]:+.3f} from Rotate"
        f" (paper, ALOI: about +0.03), and is above it after {100 * np.mean(later > 0):.0f} % of the points"
        " past the first fifth."
    )
    return result


def _places(n: int, shares: tuple[float, ...]) -> list[int]:
    return [max(int(share * n) - 1, 0) for share in shares]


def purity_per_point(source: Source, system: System, seed: int) -> dict[str, list[float]]:
    """Return the numbers of points, and the purity after each."""
    X, y = in_order(source, "random", seed)
    running, model = RunningPurity(y), make_system(system.method, metric=system.metric, **system.settings)
    for i in range(len(y)):
        running.update(model.partial_fit(X[i : i + 1]).tree_)
    points, purity = zip(*running.history, strict=True)
    return {"points": list(map(float, points)), "purity": [round(float(value), 6) for value in purity]}


def draw_curve(result: Result) -> Any:
    """Draw purity against points."""
    series: Any = result.curves
    return plot_curves(series, ylabel="dendrogram purity", title=result.title).figure


def run_changes(setting: Setting) -> Result:
    """Measure how much the grafts of each insert change the purity, at once and in sum."""
    result = Result("grafts", "Change in purity due to grafts", ["points"])
    source = setting.aloi_like(N_POINTS[setting.scale.name])
    n, _, digest = describe(source)
    cells = {
        title: setting.measure(title, changes_by_grafts, source, SYSTEMS[title].settings, setting.seed, data=digest)
        for title in GRAFTING
    }
    result.remarks = [f"{title}: {cell.failure}" for title, cell in cells.items() if cell.failure]
    if result.remarks:
        return result
    rows: dict[int, dict[str, float]] = {}
    for title, cell in cells.items():
        changes = np.array(cell.found["changes"])
        summed = np.cumsum(changes)
        result.columns += [f"{title}: largest", f"{title}: sum"]
        result.curves[title] = (list(map(float, range(2, len(changes) + 2))), summed.tolist())
        for i in _places(len(changes), (0.25, 0.5, 0.75, 1.0)):
            row = rows.setdefault(i, {"points": int(result.curves[title][0][i])})
            row[f"{title}: largest"] = round(float(np.abs(changes[: i + 1]).max()), 4)
            row[f"{title}: sum"] = round(float(summed[i]), 4)
        worse, late = (changes < 0).sum() / max((changes != 0).sum(), 1), np.abs(changes[len(changes) // 2 :]).max()
        result.remarks.append(
            f"{title}: in sum {summed[-1]:+.3f} (paper, ALOI: below +0.005, with trees that end 0.03 apart); the grafts"
            f" of {(changes != 0).sum():,} inserts change purity, {100 * worse:.0f} % of them for the worse; none in"
            f" the second half by more than {late:.4f} (paper: about 0.001)."
        )
    result.rows = list(rows.values())
    result.remarks.append(f"On {title_of(source.name)}, {n:,} points.")
    return result


def changes_by_grafts(source: Source, settings: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Return the purity after each point's grafts minus that before them."""
    X, y = in_order(source, "random", seed)
    model = Grinch(metric="cosine", **settings)
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


def draw_changes(result: Result) -> Any:
    """Draw the changes in sum."""
    series: Any = result.curves
    return plot_curves(series, ylabel="change in dendrogram purity, in sum", title=result.title).figure
