"""Several systems on the same data, each in a process of its own: what each costs and how good its tree is."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._labels import label_codes
from grinch.compare.processes import Worker
from grinch.errors import unknown_name
from grinch.estimators.registry import SYSTEMS, make_system
from grinch.io.write import harmless, replacing

# What is measured, and how a table calls it.
MEASURES = {
    "purity": "purity",
    "f1": "best F1",
    "seconds": "seconds",
    "memory": "MB",
    "depth": "depth",
}


class Row(NamedTuple):
    """What one method did: a list of figures for each measure, and what went wrong, if something did."""

    method: str
    figures: dict[str, list[float]]
    failure: str = ""
    why: str = ""

    def mean(self, measure: str) -> float | None:
        values = self.figures.get(measure)
        return float(np.mean(values)) if values else None

    def deviation(self, measure: str) -> float | None:
        values = self.figures.get(measure)
        return float(np.std(values)) if values else None


class Method(NamedTuple):
    """A system and settings of one's own, such as ``mb-hac:buffer_size=500``."""

    title: str
    name: str
    settings: dict[str, Any]


def parse_method(text: str) -> Method:
    """A method by its name, with settings after colons.

    >>> parse_method("grinch:cap=100:graft=false").settings
    {'cap': 100, 'graft': False}
    """
    name, *settings = text.strip().split(":")
    if name not in SYSTEMS:
        raise unknown_name("method", name, SYSTEMS)
    found = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"a setting of a method is written name=value, as in grinch:cap=100; got {setting!r}")
        if key in ("linkage", "metric"):
            raise ValueError(f"{key} is the same for all methods that are compared: --{key} {value}")
        try:
            # Python's True, False and None are meant as well as JSON's.
            found[key] = json.loads(value.lower() if value in ("True", "False") else value.replace("None", "null"))
        except (json.JSONDecodeError, RecursionError):
            found[key] = value
    make_system(name, **found)
    return Method(text.strip(), name, found)


def compare(
    vectors: npt.NDArray[Any],
    labels: npt.NDArray[Any] | None,
    methods: Sequence[str],
    *,
    linkage: str = "average",
    metric: str | None = None,
    orders: int = 3,
    seed: int = 0,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> Iterator[Row]:
    """Run each method on several shuffled orders of the same points; a row for each as it is done.

    A method that fails, does not fit in memory or takes too long is reported as such, and the others go on.

    Parameters
    ----------
    vectors, labels
        The points, and their classes (None or nan for those without one), or None.
    methods : sequence of str
        Names of systems, with settings after colons if wanted: ``"grinch"``, ``"mb-hac:buffer_size=500"``.
    linkage, metric
        For all of them; see :func:`~grinch.estimators.registry.make_system`.
    orders, seed
        How many shuffled orders, and the seed of the first.
    time_limit : float, optional
        Seconds for one fit with the measuring of its tree.
    memory_limit : int, optional
        Bytes for a method's process.
    progress : callable, optional
        Told the method and how many orders are done.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> for row in compare(X, y, ["online", "hac"], orders=2):
    ...     print(row.method, len(row.figures["purity"]), row.failure or "done")
    online 2 done
    hac 2 done
    """
    chosen = [parse_method(text) for text in methods]
    if not chosen:
        raise ValueError(f"methods must name at least one of {', '.join(SYSTEMS)}; got none")
    if scipy.sparse.issparse(vectors):
        raise ValueError(
            "vectors must be a dense array to compare methods, most of which make rows dense; got a sparse matrix. Use"
            " vectors.toarray() if it fits in memory, or reduce the columns (sklearn.decomposition.TruncatedSVD)"
        )
    _check_finite(vectors)
    for method in chosen:
        make_system(method.name, linkage=linkage, metric=metric, **method.settings)
    with tempfile.TemporaryDirectory(prefix="grinch-compare-") as folder:
        job = {
            "vectors": str(Path(folder) / "vectors.npy"),
            "labels": None if labels is None else str(Path(folder) / "labels.npy"),
            "linkage": linkage,
            "metric": metric,
            "seeds": list(range(seed, seed + orders)),
            "memory_limit": memory_limit,
        }
        np.save(str(job["vectors"]), np.asarray(vectors))
        if labels is not None:
            np.save(str(job["labels"]), _numbered(labels))
        with Worker(Path(folder)) as worker:
            for method in chosen:
                trial = {**job, "method": method.name, "settings": method.settings}
                found = worker.run(trial, time_limit, partial(progress or _quiet, method.title))
                yield Row(method.title, *found)


def _quiet(title: str, done: int) -> None:
    """No progress."""


def _check_finite(vectors: npt.NDArray[Any]) -> None:
    """Said once, and not by every method."""
    for start in range(0, len(vectors), 4096):
        bad = np.argwhere(~np.isfinite(np.asarray(vectors[start : start + 4096], np.float64)))
        if len(bad):
            row, column = bad[0]
            raise ValueError(
                f"vectors must be finite, but row {start + row}, column {column} is not; drop or fill it in"
            )


def _numbered(labels: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Classes as numbers, nan for points without one: what can be saved without executing code on load."""
    codes = label_codes(labels)
    return np.where(codes < 0, np.nan, codes)


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """A line for each method: mean and deviation of each measure, and what went wrong."""
    with replacing(path) as file:
        writer = csv.writer(file)
        writer.writerow(
            ["method", "orders", *(f"{m}_{kind}" for m in MEASURES for kind in ("mean", "deviation")), "failure"]
        )
        for row in rows:
            cells: list[Any] = [row.method, len(row.figures.get("seconds", []))]
            for measure in MEASURES:
                scale = 1e-6 if measure == "memory" else 1.0
                for value in (row.mean(measure), row.deviation(measure)):
                    cells.append("" if value is None else f"{value * scale:.6g}")
            writer.writerow(harmless([*cells, row.failure]))
