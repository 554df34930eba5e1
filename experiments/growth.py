"""Growth of time with the number of points, and with the records of a name: Grinch and HAC."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.cells import NOT_RUN, Cell
from experiments.keys import COREFERENCE
from experiments.setting import MAX_HAC_PAIRS, MIXTURE, Result, Setting, System, failure_of
from grinch.metrics import pairwise_scores
from grinch.plots import plot_curves
from grinch.resolve.authors.block_clustering import cluster_block
from grinch.resolve.authors.model import Model
from grinch.resolve.authors.record import blocks
from grinch.resolve.authors.synthetic import make_records
from grinch.resolve.authors.training import train

METHODS = {"Grinch": "grinch", "HAC": "hac"}
POINTS = {
    "full": [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000],
    "quick": [500, 1_000, 2_000, 4_000, 8_000],
    "tiny": [50, 100],
}
RECORDS = {"full": [250, 500, 1000, 1500, 2000, 3000], "quick": [250, 500, 1000], "tiny": [30, 60]}
RECORDS_PER_AUTHOR = 15.0


def run_points(setting: Setting) -> Result:
    """Measure processor time and purity on mixtures of growing size."""

    def measure(title: str, n: int) -> Cell:
        settings = {"lean": n > MAX_HAC_PAIRS} if title == "HAC" else {}
        source, system = setting.source(MIXTURE)._replace(most=n), System(METHODS[title], settings=settings)
        return setting.tree(f"{title}, {n:,} points", source, system, None)

    result = Result("time", "Processor time against the number of points", [])
    slopes = _measure(result, "points", POINTS[setting.scale.name], "purity", measure)
    if slopes:
        result.remarks.append(
            f"Time grows like n^{slopes['Grinch']:.1f} for Grinch and n^{slopes['HAC']:.1f} for HAC (average linkage"
            " under cosine, a mixture of gaussians in 64 dimensions). The paper: orders of magnitude faster than HAC."
        )
    return result


def run_records(setting: Setting) -> Result:
    """Measure processor time and F1 on generated records, as no set at hand has names of all sizes."""
    is_tiny = setting.scale.name == "tiny"

    def measure(title: str, n: int) -> Cell:
        arguments = (n, METHODS[title], setting.seed, is_tiny)
        return setting.measure(f"{title}, {n:,} records", clustered_block, *arguments, rooms=COREFERENCE)

    result = Result("block-size", "Time against the size of a block, under a learned linkage", [])
    slopes = _measure(result, "records", RECORDS[setting.scale.name], "F1", measure)
    if slopes:
        result.remarks.append(
            f"CPU time grows like n^{slopes['Grinch']:.1f} for Grinch and n^{slopes['HAC']:.1f} for HAC: one asks for"
            " the scores of some candidates, the other for those of all pairs. Made-up records; boosted trees."
        )
    return result


def _measure(
    result: Result, what: str, sizes: list[int], quality: str, measure: Callable[[str, int], Cell]
) -> dict[str, float]:
    """Fill the table and the curves of a result, and return the exponents of the time, if there are enough sizes."""
    result.columns = [what, "Grinch (s)", "HAC (s)", "HAC / Grinch", f"Grinch {quality}", f"HAC {quality}"]
    result.curves = {title: ([], []) for title in METHODS}
    failures: dict[str, str] = {}
    for n in sizes:
        row: dict[str, Any] = {**dict.fromkeys(result.columns, ""), what: n}
        for title, (x, seconds) in result.curves.items():
            # After a size that takes too long, larger ones would, too.
            cell = measure(title, n) if title not in failures else Cell({}, failure=failures[title])
            if cell.failure:
                row[f"{title} (s)"] = failure_of(cell)
                if cell.failure != NOT_RUN:
                    failures[title] = cell.failure
                continue
            x.append(float(n))
            seconds.append(cell.found["seconds"])
            row[f"{title} (s)"] = round(cell.found["seconds"], 3)
            row[f"{title} {quality}"] = round(cell.found[quality], 3)
        if row.get("Grinch (s)") and isinstance(row["HAC (s)"], float):
            row["HAC / Grinch"] = round(row["HAC (s)"] / max(row["Grinch (s)"], 1e-3), 1)
        result.rows.append(row)
    if any(len(x) < 2 for x, _ in result.curves.values()):
        return {}
    logarithms = {title: (np.log(x), np.log(np.maximum(t, 1e-4))) for title, (x, t) in result.curves.items()}
    return {title: float(np.polyfit(x, t, 1)[0]) for title, (x, t) in logarithms.items()}


@lru_cache(maxsize=1)
def trained(seed: int, is_tiny: bool) -> Model:
    """Return a model that is trained on generated records."""
    labelled = blocks(make_records(24 if is_tiny else 160, 4 if is_tiny else 8, seed + 1, RECORDS_PER_AUTHOR))
    return train(labelled, rounds=1 if is_tiny else 3)


def clustered_block(n: int, method: str, seed: int, is_tiny: bool) -> dict[str, float]:
    """Return processor time and F1 on one name with n records."""
    records = make_records(int(2 * n / RECORDS_PER_AUTHOR) + 1, 1, seed + 2, RECORDS_PER_AUTHOR)[:n]
    model = trained(seed, is_tiny)
    began = time.process_time()
    found = cluster_block(records, model, method).authors
    seconds = time.process_time() - began
    authors = [str(record.author) for record in records]
    return {"seconds": seconds, "F1": pairwise_scores(authors, list(found.values())).f1}


def draw(result: Result) -> Any:
    """Draw processor time against size, both on logarithmic axes."""
    series: Any = result.curves
    return plot_curves(series, xlabel=result.columns[0], ylabel="CPU seconds", log="xy", title=result.title).figure
