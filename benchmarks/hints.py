"""Quality of the suggested linkage: loss of purity against the best linkage, on the data sets at hand.

    GRINCH_DATA=folder python benchmarks/hints.py     (20 minutes; without a folder, scikit-learn's sets only)

Every set counts as it is read, centred, and with all columns standardised. Writes benchmarks/hints.json, from which
benchmarks/page.py fills the tables of docs/linkages.md and docs/development/linkages.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from grinch import Grinch
from grinch.datasets import Labelled, available, gaussian_mixture, load
from grinch.hints.suggest import Candidate, suggest_linkage
from grinch.metrics import dendrogram_purity
from written import write_figures

POINTS, ORDERS = 3_000, 3
# What the score was chosen on; all others are what it is judged by.
CHOSEN_ON = (
    "digits",
    "orl_faces",
    "mnist",
    "segment",
    "clinc150",
    "speaker",
    "shuttle",
    "iris",
    "breast_cancer",
    "separated-10",
)
JUDGED_BY = ("coil20", "usps", "pendigits", "tiny_imagenet", "covtype", "glass", "wine", "separated-2", "separated-100")
console = Console(width=140, highlight=False)


def data_sets() -> Iterator[tuple[str, Labelled]]:
    for name in available():
        if name in CHOSEN_ON or name in JUDGED_BY:
            n = len(load(name).vectors)
            yield name, load(name, n=min(n, POINTS))
    X, y = gaussian_mixture(5_000)
    yield "mixture", Labelled(X[:POINTS], y[:POINTS])


def scalings(X: npt.NDArray[np.float32]) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    yield "as read", X
    yield "centred", X - X.mean(axis=0)
    deviations = X.std(axis=0)
    yield "standardised", (X - X.mean(axis=0)) / np.where(deviations > 0, deviations, 1)


def purity(candidate: Candidate, X: npt.NDArray[np.float32], y: npt.NDArray[np.generic]) -> float:
    def of_order(seed: int) -> float:
        model = Grinch(candidate.linkage, metric=candidate.metric, shuffle=True, random_state=seed)
        return dendrogram_purity(model.fit(X).tree_, y)

    return float(np.mean([of_order(seed) for seed in range(ORDERS)]))


def row(X: npt.NDArray[np.float32], y: npt.NDArray[np.generic]) -> dict[str, Any]:
    """The linkage suggested for these points, and the purity of each that it chose among."""
    hint = suggest_linkage(X, random_state=1)
    suggested = next(str(c) for c in hint.candidates if (c.linkage, c.metric) == (hint.linkage, hint.metric))
    return {"suggested": suggested, "purity": {str(c): purity(c, X, y) for c in hint.candidates}}


def report(rows: list[dict[str, Any]]) -> Table:
    table = Table("", "scaling", "suggested", "its purity", "best", "its purity", box=None)
    for each in rows:
        purities, suggested = each["purity"], each["suggested"]
        best = max(purities, key=lambda which: purities[which])
        figures = f"{purities[suggested]:.3f}", best, f"{purities[best]:.3f}"
        table.add_row(each["data"], each["scaling"], suggested, *figures)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "hints.json")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, (X, y) in data_sets():
        for scaling, scaled in scalings(X):
            is_chosen_on = name in CHOSEN_ON
            rows.append({"data": name, "scaling": scaling, "is_chosen_on": is_chosen_on, **row(scaled, y)})
        console.print(f"[dim]{name} done[/dim]")
    found = {"points": POINTS, "orders": ORDERS, "rows": rows}
    write_figures(options.out, found)
    console.print(report(rows))


if __name__ == "__main__":
    main()
