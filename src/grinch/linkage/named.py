"""Linkages by name."""

from __future__ import annotations

from typing import Any

from numba.core.dispatcher import Dispatcher

from grinch.errors import unknown_name
from grinch.linkage.base import FunctionLinkage, Linkage, VectorLinkage
from grinch.linkage.compiled import compiled_linkage
from grinch.linkage.pairwise import SCIPY_METRICS, Pairwise
from grinch.linkage.vector import AVERAGE_DOT, AVERAGE_SQEUCLIDEAN, CENTROID, COSINE, TANIMOTO, WARD

# By name, then by metric; the first metric is the default.
VECTOR_LINKAGES: dict[str, dict[str, VectorLinkage]] = {
    "cosine": {"cosine": VectorLinkage("cosine", "cosine", COSINE, "cosine", 1.0)},
    "average": {
        "sqeuclidean": VectorLinkage("average", "sqeuclidean", AVERAGE_SQEUCLIDEAN, "sqeuclidean", 0.0),
        "cosine": VectorLinkage("average", "cosine", AVERAGE_DOT, "dot", 1.0),
        "dot": VectorLinkage("average", "dot", AVERAGE_DOT, "dot", None),
        "hellinger": VectorLinkage("average", "hellinger", AVERAGE_DOT, "dot", 1.0),
    },
    "centroid": {"sqeuclidean": VectorLinkage("centroid", "sqeuclidean", CENTROID, "sqeuclidean", 0.0)},
    "ward": {"sqeuclidean": VectorLinkage("ward", "sqeuclidean", WARD, "sqeuclidean", 0.0)},
    "tanimoto": {"tanimoto": VectorLinkage("tanimoto", "tanimoto", TANIMOTO, "tanimoto", 1.0)},
}

# Linkages over the pairs of a distance that scipy knows: any for single and complete, for average those without a
# closed form.
PAIRWISE_ONLY = tuple(name for name in SCIPY_METRICS if name not in VECTOR_LINKAGES["average"])
NAMES = (*VECTOR_LINKAGES, "single", "complete")


def is_average(linkage: Any) -> bool:
    """Return whether a linkage is average linkage by its name."""
    return isinstance(linkage, str) and linkage == "average"


def metric_in_full(linkage: Any, metric: str | None = None) -> str | None:
    """Return the metric that a linkage given by name has if none is given; any other is returned as it is.

    >>> metric_in_full("average"), metric_in_full("single"), metric_in_full("average", "cosine")
    ('sqeuclidean', 'euclidean', 'cosine')
    """
    if metric is not None or not isinstance(linkage, str) or linkage not in NAMES:
        return metric
    return next(iter(VECTOR_LINKAGES.get(linkage, ("euclidean",))))


def linkage_of(linkage: Any, metric: str | None = None) -> VectorLinkage | Linkage:
    """The linkage meant by a name, a compiled function, a Linkage object, or a plain function of two lists of records.

    >>> linkage_of("average", "sqeuclidean").ceiling
    0.0
    """
    if isinstance(linkage, str):
        return _by_name(linkage, metric)
    if isinstance(linkage, Dispatcher):
        return compiled_linkage(linkage, metric)
    if metric is not None:
        raise ValueError(
            f"metric belongs to a linkage given by name; got metric={metric!r} with a linkage of your own."
            " Leave metric out and use it inside your linkage"
        )
    if isinstance(linkage, VectorLinkage):
        return linkage
    if isinstance(linkage, type):
        raise TypeError(
            f"linkage must be an object, not a class; got {linkage.__name__}. Write {linkage.__name__}(...)"
        )
    if isinstance(linkage, Linkage):
        return linkage
    if callable(linkage):
        return FunctionLinkage(linkage)
    raise TypeError(
        f"linkage must be a name ({', '.join(map(repr, NAMES))}), an object with leaf, merge and score,"
        f" or a function f(a, b) of two lists of records; got {linkage!r}"
    )


def _by_name(name: str, metric: str | None) -> VectorLinkage | Linkage:
    if name not in NAMES:
        raise unknown_name("linkage", name, NAMES, " (or a Linkage object, or a function of two lists)")
    metric, metrics = metric_in_full(name, metric), VECTOR_LINKAGES.get(name, {})
    if name in ("single", "complete") or (name == "average" and metric in PAIRWISE_ONLY):
        if metric not in SCIPY_METRICS:
            raise unknown_name("metric", metric, SCIPY_METRICS, f" for linkage={name!r}")
        return Pairwise(name, distance=metric)
    if metric not in metrics:
        accepted = (*metrics, *PAIRWISE_ONLY) if name == "average" else metrics
        raise unknown_name("metric", metric, accepted, f" for linkage={name!r}")
    return metrics[metric]
