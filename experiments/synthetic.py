"""The paper's synthetic data: separated under cosine linkage, so Grinch must be perfect."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.setting import Result, Setting, end_at_one, figures, shown
from experiments.sources import SYNTHETIC, SYNTHETIC_PER_CLASS, System
from grinch.plots import plot_comparison

# With the paper's figure.
SYSTEMS: dict[str, tuple[System, float]] = {
    "Grinch": (System("grinch", "cosine", {"mode": "exact"}), 1.0),
    "Rotate": (System("rotate", "cosine"), 0.872),
    "Online": (System("online", "cosine"), 0.854),
}
# Classes are orthogonal: fewer of them change the time and not the purity.
CLASSES = {"full": 100, "quick": 40, "tiny": 5}


def run(setting: Setting) -> Result:
    result = Result("synthetic", "Synthetic data: dendrogram purity", ["system", "ours", "every seed", "paper"])
    n_classes = CLASSES[setting.scale.name]
    seeds = range(setting.seed, setting.seed + max(setting.scale.orders, 2))
    cells = {
        title: [
            setting.tree(
                f"{title}, seed {seed}",
                setting.source(SYNTHETIC)._replace(most=n_classes * SYNTHETIC_PER_CLASS, seed=seed),
                system,
                None,
            )
            for seed in seeds
        ]
        for title, (system, _) in SYSTEMS.items()
    }
    purities = {title: figures(found, "purity") for title, found in cells.items()}
    for title, (_, paper) in SYSTEMS.items():
        every = ", ".join(f"{p:.3f}" for p in purities[title])
        result.rows.append(
            {"system": title, "ours": shown(cells[title], "purity"), "every seed": every, "paper": paper}
        )
    means = [np.mean(found) if found else np.nan for found in purities.values()]
    result.remarks.append(
        f"{n_classes} classes of 25 points; Grinch in exact mode. "
        + (
            "Grinch is perfect on every seed"
            if purities["Grinch"] == [1.0 for _ in seeds]
            else "Grinch is NOT perfect on every seed"
        )
        + (
            ", above Rotate, and Rotate above Online."
            if means[0] > means[1] > means[2]
            else "; the order is not the paper's."
        )
    )
    result.curves = {title: (list(map(float, seeds)), found) for title, found in purities.items()}
    return result


def draw(result: Result) -> Any:
    rows = [{"method": title, "purity": found} for title, (_, found) in result.curves.items()]
    ax = plot_comparison(rows, "purity", highlight=("Grinch",), xlabel="dendrogram purity", title=result.title)
    end_at_one(ax)
    return ax.figure
