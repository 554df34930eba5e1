"""Warnings about settings that do not suit the points (``SettingsWarning``), each with what to write instead.

They look at a sample of the points that a tree begins with, and change nothing.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import scipy.sparse

from grinch._types import Floats, Slots
from grinch.errors import SettingsWarning
from grinch.linkage.named import VectorLinkage
from grinch.linkage.pairwise import Pairwise

# Fewer points say nothing about settings.
MIN_POINTS = 20
# Rows, and numbers in them, that are looked at.
MAX_ROWS, MAX_NUMBERS = 1000, 2**20
# Columns and rows are compared by the middle of their values: rare ones (a pixel at the border) are no unit of measure.
MIDDLE = (5, 95)
SPREADS_DIFFER, LENGTHS_DIFFER = 1000.0, 5.0
# Lengths that differ less are equal: rows of unit length in float32 or rounded to a few digits.
SAME_LENGTH = 1.02
FEW_COLUMNS = (2, 3)
PASSED_OVER = ("grinch", "sklearn")
# Spreads below this share of the values of a column are rounding.
ROUNDING = 1e-6

_is_silent: ContextVar[bool] = ContextVar("grinch_advice_is_silent", default=False)


@contextmanager
def no_advice() -> Iterator[None]:
    """Give no advice on fits inside: those that no user asked for."""
    token = _is_silent.set(True)
    try:
        yield
    finally:
        _is_silent.reset(token)


def advise_on_points(rows: Any, linkage: object) -> None:
    """Warn of vectors that a linkage does not suit; records, and fewer than 20 points, are not looked at."""
    is_sparse = scipy.sparse.issparse(rows)
    if _is_silent.get() or not (is_sparse or isinstance(rows, np.ndarray)) or rows.shape[0] < MIN_POINTS:
        return
    sample = rows[_sampled(*rows.shape)]
    if _is_by(linkage, "euclidean", "sqeuclidean"):
        _advise_on_counts(sample) if is_sparse else _advise_on_spreads(np.asarray(sample, np.float64))
    elif _is_by(linkage, "cosine") and rows.shape[1] in FEW_COLUMNS:
        _advise_on_directions(sample)


def advise_on_n_clusters(n_clusters: int | None, n_points: int) -> None:
    """Warn of more clusters than half the points."""
    if n_clusters is not None and n_points >= MIN_POINTS and 2 * n_clusters > n_points:
        _warn(
            f"n_clusters={n_clusters} is more than half of the {n_points} points, so most clusters are single points."
            " Give a smaller number, or leave n_clusters out for the automatic cut"
        )


def advise_on_threshold(threshold: float | None, best: float | None, linkage: object) -> None:
    """Warn of a threshold above the best score there is, or can be; ``best`` is None or not finite if nobody knows."""
    if threshold is None or best is None or not np.isfinite(best) or threshold <= best:
        return
    hint = ""
    if _is_by(linkage, "euclidean", "sqeuclidean"):
        hint = ": a score is minus a distance under this linkage"
    if isinstance(linkage, VectorLinkage) and (linkage.name, linkage.metric) == ("average", "sqeuclidean"):
        hint += ", and a similarity of at most 1 with metric='cosine'"
    _warn(
        f"threshold={threshold:g} is above every score (at most {best:g}), so every point is a cluster of its own. Give"
        f" a lower threshold{hint}"
    )


# What is looked at ----------------------------------------------------------------------------------------------------


def _sampled(n: int, width: int) -> Slots:
    """Return the rows to look at, spread evenly over all."""
    return np.linspace(0, n - 1, min(n, MAX_ROWS, max(MIN_POINTS, MAX_NUMBERS // width)), dtype=np.intp)


def _is_by(linkage: object, *metrics: str) -> bool:
    """Whether a linkage by name compares points by one of these metrics."""
    if isinstance(linkage, VectorLinkage):
        return not linkage.is_custom and linkage.name != "cosine" and linkage.metric in metrics
    return isinstance(linkage, Pairwise) and linkage.distance in metrics


def _lengths(rows: Any) -> Floats:
    """Return the lengths of rows, without those of zero rows."""
    squares = rows.multiply(rows).sum(axis=1) if scipy.sparse.issparse(rows) else np.square(rows).sum(axis=1)
    lengths = np.sqrt(np.asarray(squares, np.float64).ravel())
    return lengths[lengths > 0]


def _differ(values: Floats, ratio: float) -> bool:
    """Whether the middle of some positive values is wider than a ratio."""
    if not len(values):
        return False
    low, high = np.percentile(values, MIDDLE)
    return bool(high > ratio * low)


# Advice on points -----------------------------------------------------------------------------------------------------


def _advise_on_spreads(sample: Floats) -> None:
    # Values that are there: between two of them there may be none, such as a fraction of a pixel's brightness.
    low, high = np.percentile(sample, MIDDLE, axis=0, method="nearest")
    spreads = high - low
    varies = np.flatnonzero(spreads > ROUNDING * np.maximum(np.abs(low), np.abs(high)))
    if not len(varies):
        return
    widest, narrowest = (int(varies[pick(spreads[varies])]) for pick in (np.argmax, np.argmin))
    if spreads[widest] > SPREADS_DIFFER * spreads[narrowest] and _differ(_lengths(sample), SAME_LENGTH):
        _warn(
            f"the columns of X have very different spreads: {spreads[widest]:.3g} in column {widest} and"
            f" {spreads[narrowest]:.3g} in column {narrowest}, which counts for nothing in a Euclidean distance."
            " Standardise X first: sklearn.preprocessing.StandardScaler().fit_transform(X), or grinch cluster --scale"
        )


def _advise_on_counts(sample: Any) -> None:
    are_counts = sample.nnz > 0 and sample.data.min() >= 0 and bool(np.all(sample.data == np.round(sample.data)))
    if are_counts and _differ(_lengths(sample), LENGTHS_DIFFER):
        _warn(
            "the rows of X are counts of very different lengths, and Euclidean distances compare the lengths first."
            " Give metric='cosine' (or metric='hellinger'), which compares shares"
        )


def _advise_on_directions(sample: Any) -> None:
    if _differ(_lengths(sample), SAME_LENGTH):
        _warn(
            f"metric='cosine' compares directions from the origin alone, and X has {sample.shape[1]} columns: points"
            " one behind the other are the same. Leave metric out to compare positions"
        )


def _warn(message: str) -> None:
    """Warn at the line that called grinch, if only by a method of scikit-learn's."""
    if _is_silent.get():
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, SettingsWarning, stacklevel=level)
