"""How time grows with the records of a name: Grinch beside HAC, under a learned linkage."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.setting import Result, Setting
from grinch.metrics import pairwise_scores
from grinch.plots import plot_curves
from grinch.resolve.authors.block_clustering import cluster_block
from grinch.resolve.authors.model import Model
from grinch.resolve.authors.record import blocks
from grinch.resolve.authors.synthetic import make_records
from grinch.resolve.authors.training import train

SIZES = {"full": [250, 500, 1000, 1500, 2000, 3000], "quick": [250, 500, 1000], "tiny": [30, 60]}
METHODS = {"Grinch": "grinch", "HAC": "hac"}
PER_AUTHOR = 15.0


def run(setting: Setting) -> Result:
    """Made-up records, for no set at hand has names of all sizes."""
    columns = ["records", "Grinch (s)", "HAC (s)", "HAC / Grinch", "Grinch F1", "HAC F1"]
    result = Result("block-size", "Time against the size of a block, under a learned linkage", columns)
    is_tiny = setting.scale.name == "tiny"
    curves: dict[str, tuple[list[float], list[float]]] = {title: ([], []) for title in METHODS}
    for n in SIZES[setting.scale.name]:
        row: dict[str, Any] = dict.fromkeys(columns, "")
        row["records"] = n
        for title, method in METHODS.items():
            cell = setting.measure(f"{title}, {n:,} records", clustered_block, n, method, setting.seed, is_tiny)
            if cell.failure:
                row[f"{title} (s)"] = cell.failure
                continue
            seconds = cell.found["seconds"]
            curves[title][0].append(float(n))
            curves[title][1].append(seconds)
            row[f"{title} (s)"], row[f"{title} F1"] = round(seconds, 3), round(cell.found["F1"], 3)
        if row["Grinch F1"] != "" and row["HAC F1"] != "":
            row["HAC / Grinch"] = round(row["HAC (s)"] / max(row["Grinch (s)"], 1e-3), 1)
        result.rows.append(row)
    result.curves = curves
    if all(len(x) > 1 for x, _ in curves.values()):
        slopes = {
            title: float(np.polyfit(np.log(x), np.log(np.maximum(t, 1e-4)), 1)[0]) for title, (x, t) in curves.items()
        }
        result.remarks.append(
            f"CPU time grows like n^{slopes['Grinch']:.1f} for Grinch and n^{slopes['HAC']:.1f} for HAC: one asks for"
            " the scores of some candidates, the other for those of all pairs. Made-up records; boosted trees."
        )
    return result


@lru_cache(maxsize=1)
def trained(seed: int, is_tiny: bool) -> Model:
    labelled = blocks(make_records(24 if is_tiny else 160, 4 if is_tiny else 8, seed + 1, PER_AUTHOR))
    return train(labelled, rounds=1 if is_tiny else 3)


def clustered_block(n: int, method: str, seed: int, is_tiny: bool) -> dict[str, float]:
    """Processor time and F1 on one name with n records."""
    records = make_records(int(2 * n / PER_AUTHOR) + 1, 1, seed + 2, PER_AUTHOR)[:n]
    model = trained(seed, is_tiny)
    began = time.process_time()
    found = cluster_block(records, model, method).authors
    seconds = time.process_time() - began
    authors = [str(record.author) for record in records]
    return {"seconds": seconds, "F1": pairwise_scores(authors, list(found.values())).f1}


def draw(result: Result) -> Any:
    series: Any = result.curves
    return plot_curves(series, xlabel="records", ylabel="CPU seconds", log="xy", title=result.title).figure
