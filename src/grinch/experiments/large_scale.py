"""Table 2: all systems on the large data sets, mean and deviation over shuffled orders."""

from __future__ import annotations

from typing import Any

from grinch.compare.methods import Row, compare
from grinch.datasets import gaussian_mixture
from grinch.experiments.setting import Result, Setting, mean_and_deviation
from grinch.plots import plot_comparison

# Rows of the table: title, method, linkage.
METHODS = [
    ("Grinch (average)", "grinch", "average"),
    ("Grinch (cosine)", "grinch", "cosine"),
    ("Grinch (average), refined", "grinch:refine_passes=1", "average"),
    ("Rotate (average)", "rotate", "average"),
    ("Rotate (cosine)", "rotate", "cosine"),
    ("Online", "online", "average"),
    ("PERCH", "perch", "average"),
    ("PERCH-BC", "perch-bc", "average"),
    ("MB-HAC", "mb-hac", "average"),
    ("HAC", "hac", "average"),
]
# Our data set, and the column of the paper it stands for, with the paper's figures in the order of METHODS.
PAPER: dict[str, tuple[str, list[float | None]]] = {
    "covtype": ("CovType", [0.43, 0.43, None, 0.43, 0.44, 0.44, 0.45, 0.45, 0.44, None]),
    "tiny_imagenet": ("ILSVRC12 (50k)", [0.557, 0.544, None, 0.545, 0.513, 0.527, 0.53, 0.36, 0.43, 0.54]),
    "ilsvrc12": ("ILSVRC12 (50k)", [0.557, 0.544, None, 0.545, 0.513, 0.527, 0.53, 0.36, 0.43, 0.54]),
    "aloi": ("ALOI", [0.504, 0.499, None, 0.476, 0.472, 0.435, 0.44, 0.37, 0.30, None]),
    "speaker_digits": ("ALOI", [0.504, 0.499, None, 0.476, 0.472, 0.435, 0.44, 0.37, 0.30, None]),
    "speaker": ("Speaker", [0.480, 0.478, None, 0.407, 0.406, 0.317, 0.37, 0.09, 0.01, 0.55]),
}
OTHERS = ("mnist", "clinc150", "shuttle", "usps", "pendigits", "digits")


def run(setting: Setting) -> Result:
    result = Result(
        "table2",
        "Table 2: large data sets, dendrogram purity",
        ["data", "points", "system", "ours", "seconds", "paper"],
    )
    names = setting.available(list(PAPER))
    # Without any of the paper's sets, the largest there are; every machine has the digits and a mixture.
    names += setting.available(OTHERS) if setting.scale.name == "full" else [] if names else ["digits"]
    if setting.scale.name == "tiny":
        names = ["digits"]
    for name in names if setting.scale.name == "tiny" else [*names, "gaussian mixture"]:
        if name == "gaussian mixture":
            n = setting.at_most(20_000)
            data = gaussian_mixture(n, n_classes=max(n // 20, 2), random_state=setting.seed)
        else:
            data = setting.load(name)
        column, figures = PAPER.get(name, ("", [None for _ in METHODS]))
        ours: dict[str, Row] = {}
        for (title, method, linkage), paper in zip(METHODS, figures, strict=True):
            setting.say(f"{name}: {title}")
            (row,) = compare(
                data.vectors,
                data.labels,
                [f"mb-hac:buffer_size={min(2000, max(20, len(data.labels) // 10))}" if method == "mb-hac" else method],
                linkage=linkage,
                orders=1 if method == "hac" else setting.scale.orders,
                seed=setting.seed,
                time_limit=setting.scale.time_limit,
            )
            ours[title] = row
            purities, seconds = row.figures.get("purity", []), row.mean("seconds")
            result.rows.append(
                {
                    "data": name,
                    "points": len(data.labels),
                    "system": title,
                    "ours": mean_and_deviation(purities) or row.failure,
                    "seconds": "" if seconds is None else round(seconds, 2),
                    "paper": "" if paper is None else f"{paper} ({column})",
                    "purities": purities,
                }
            )
        result.remarks += _verdicts(name, ours)
    result.remarks.append(
        "HAC has no orders: it is run once. MB-HAC has a buffer of 2,000, or of a tenth of the points. A figure"
        " of the paper stands beside ours where the data are the paper's, or come nearest to them; compare them in"
        " order, not in size."
    )
    return result


def _verdicts(name: str, ours: dict[str, Row]) -> list[str]:
    """Where Grinch's mean purity is below that of Rotate or Online."""
    found = []
    for linkage in ("average", "cosine"):
        best = ours[f"Grinch ({linkage})"].mean("purity")
        others = [f"Rotate ({linkage})", *(["Online"] if linkage == "average" else [])]
        for other in others:
            mean = ours[other].mean("purity")
            if best is not None and mean is not None and best < mean:
                found.append(f"{name}: Grinch ({linkage}) at {best:.3f} is below {other} at {mean:.3f}.")
    return found


def draw(result: Result) -> Any:
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["data"] for row in result.rows))
    columns = min(2, len(names))
    lines = -(-len(names) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(7.5 * columns, 3.9 * lines), layout="constrained", squeeze=False
    )
    for ax in axes.flat[len(names) :]:
        ax.set_visible(False)
    for ax, name in zip(axes.flat, names, strict=False):
        rows = [{**row, "purity": row["purities"] or row["ours"]} for row in result.rows if row["data"] == name]
        ours = [title for title, *_ in METHODS if title.startswith("Grinch")]
        title = f"{name}, {rows[0]['points']:,} points"
        plot_comparison(rows, "purity", method="system", highlight=ours, xlabel="dendrogram purity", title=title, ax=ax)
    return figure
