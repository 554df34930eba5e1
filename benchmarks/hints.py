"""What the hint which linkage to take is worth: purity given away against the best linkage, on the data sets at hand.

    GRINCH_DATA=folder python benchmarks/hints.py     (minutes; without a folder, scikit-learn's sets only)

Every set counts as it is read, centred, and with all columns standardised.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from grinch import Grinch
from grinch.datasets import Labelled, available, gaussian_mixture, load
from grinch.hints.suggest import Candidate, suggest_linkage
from grinch.metrics import dendrogram_purity

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


def main() -> None:
    table = Table("", "scaling", "suggested", "its purity", "best", "its purity", box=None)
    losses: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for name, (X, y) in data_sets():
        for scaling, scaled in scalings(X):
            hint = suggest_linkage(scaled, random_state=1)
            purities = {str(c): purity(c, scaled, y) for c in hint.candidates}
            best = max(purities, key=lambda which: purities[which])
            taken = next(str(c) for c in hint.candidates if (c.linkage, c.metric) == (hint.linkage, hint.metric))
            table.add_row(name, scaling, taken, f"{purities[taken]:.3f}", best, f"{purities[best]:.3f}")
            lost = {which: purities[best] - purities[which] for which in purities}
            losses[name in CHOSEN_ON].append({"the hint": lost[taken], **lost})
        console.print(f"[dim]{name} done[/dim]")
    console.print(table)
    for is_chosen_on, rows in losses.items():
        console.print("\nLoss on the sets it was chosen on" if is_chosen_on else "\nLoss on the other sets")
        for which in rows[0] if rows else []:
            lost_by = [row[which] for row in rows]
            small = np.mean([loss <= 0.01 for loss in lost_by])
            console.print(
                f"  {which:22} {np.mean(lost_by):.3f}, at worst {max(lost_by):.3f}; at most .01 in {small:.0%}"
            )


if __name__ == "__main__":
    main()
