"""Linkages by name, and compiled linkages on vectors, all O(d) by their closed forms.

A group is summarised by the mean m of its vectors, their number n, their spread s (mean squared distance to m) and the
length of m. Means, not sums: in float32 a sum of a million vectors loses the next one, a mean does not. Every formula
below is then free of cancellation:

    mean over all pairs of a·b          =  m_A · m_B
    mean over all pairs of |a − b|²     =  |m_A − m_B|² + s_A + s_B
    cosine of the summed vectors        =  m_A · m_B / (|m_A| |m_B|)
    Tanimoto coefficient of the means   =  m_A · m_B / (|m_A|² + |m_B|² − m_A · m_B)

The functions take a table of means and one of moments (n, s, length) and the rows of two groups in them.

A linkage of the user's own runs inside the compiled engine like these. A function that numba compiled cannot be inlined
into an engine that was compiled earlier, and compiling the engine for each would take seconds in every process. So it
is handed over as an address: the engine is compiled (and cached) once for all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import carray, cfunc, jit, types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

from grinch._bounds import CHECKS
from grinch._checks import check_name
from grinch._compile import jitable, kernel
from grinch._types import Floats, Vectors32
from grinch.errors import unknown_name
from grinch.linkage.base import FunctionLinkage, Linkage, Unnamed, saved_as
from grinch.linkage.pairwise import SCIPY_METRICS, Pairwise

FORMULAS = ("cosine", "average_dot", "average_sqeuclidean", "centroid", "ward", "tanimoto")
COSINE, AVERAGE_DOT, AVERAGE_SQEUCLIDEAN, CENTROID, WARD, TANIMOTO = range(len(FORMULAS))

# Columns of moments.
COUNT, SPREAD, LENGTH = 0, 1, 2


@kernel
def dot(a: Vectors32, b: Vectors32) -> float:
    total = np.float32(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return np.float64(total)


@kernel
def squared_distance(a: Vectors32, b: Vectors32) -> float:
    total = np.float32(0)
    for i in range(a.shape[0]):
        step = a[i] - b[i]
        total += step * step
    return np.float64(total)


@kernel
def _step_toward(out: Vectors32, a: Vectors32, b: Vectors32, share: np.float32) -> None:
    """Write a + share (b - a) to ``out``; equal vectors stay as they are to the last bit."""
    for i in range(a.shape[0]):
        out[i] = a[i] + share * (b[i] - a[i])


@jitable
def formula_score(formula: int, means: Vectors32, moments: Floats, u: int, v: int) -> float:
    """Return the score of nodes u and v by the formula of this number."""
    a, b = means[u], means[v]
    if formula == COSINE:
        lengths = moments[u, LENGTH] * moments[v, LENGTH]
        return dot(a, b) / lengths if lengths > 0.0 else 0.0
    if formula == AVERAGE_DOT:
        return dot(a, b)
    if formula == TANIMOTO:
        product = dot(a, b)
        union = moments[u, LENGTH] ** 2 + moments[v, LENGTH] ** 2 - product
        return product / union if union > 0.0 else 0.0
    gap = squared_distance(a, b)
    if formula == AVERAGE_SQEUCLIDEAN:
        return -(gap + moments[u, SPREAD] + moments[v, SPREAD])
    if formula == CENTROID:
        return -gap
    # What is left is Ward's.
    n_u, n_v = moments[u, COUNT], moments[v, COUNT]
    return -gap * n_u * n_v / (n_u + n_v)


@jitable
def merge_rows(formula: int, means: Vectors32, moments: Floats, p: int, left: int, right: int) -> None:
    """Make row p of the rows of the two groups that it is the union of, as far as the formula looks at it."""
    if moments[left, COUNT] < moments[right, COUNT]:
        left, right = right, left
    n_l, n_r = moments[left, COUNT], moments[right, COUNT]
    share = n_r / (n_l + n_r)
    _step_toward(means[p], means[left], means[right], np.float32(share))
    moments[p, COUNT] = n_l + n_r
    if formula == AVERAGE_DOT:
        return
    gap = squared_distance(means[left], means[right])
    within = (1.0 - share) * moments[left, SPREAD] + share * moments[right, SPREAD]
    moments[p, SPREAD] = within + share * (1.0 - share) * gap
    moments[p, LENGTH] = math.sqrt(dot(means[p], means[p]))


@kernel
def score_others(formula: int, means: Vectors32, moments: Floats, scores: Floats) -> None:
    """Score row 0 with each of the rows after it."""
    for i in range(scores.shape[0]):
        scores[i] = formula_score(formula, means, moments, 0, i + 1)


@saved_as("vector")
@dataclass(frozen=True)
class VectorLinkage:
    """A linkage on vectors with a closed form, compiled.

    ``formula`` is its number in :mod:`grinch.linkage.named`, or a compiled function of the user's own;
    ``leaf_metric`` is what it amounts to for two points (up to order); ``ceiling`` is the score of two identical
    points, if there is one.
    """

    name: str
    metric: str
    formula: Any
    leaf_metric: str
    ceiling: float | None

    @property
    def is_custom(self) -> bool:
        """Not one of ours: it may return anything, and sees the vectors as they are."""
        return not isinstance(self.formula, int)

    @property
    def is_spherical(self) -> bool:
        """Only directions count, so rows are brought to unit length."""
        return self.name == "average" and self.metric in ("cosine", "hellinger") and not self.is_custom

    @property
    def is_of_roots(self) -> bool:
        """Shares of a whole are compared, by their square roots."""
        return self.metric == "hellinger" and not self.is_custom

    @property
    def is_euclidean(self) -> bool:
        """Only differences count, so the origin may be moved to where rounding is smallest."""
        return self.leaf_metric == "sqeuclidean" and not self.is_custom

    def to_state(self) -> list[str]:
        if VECTOR_LINKAGES.get(self.name, {}).get(self.metric) != self:
            raise Unnamed
        return [self.name, self.metric]

    @classmethod
    def from_state(cls, state: Any) -> VectorLinkage:
        return VECTOR_LINKAGES[state[0]][state[1]]


LEAF_METRICS = ("cosine", "dot", "sqeuclidean")


class VectorGroup(NamedTuple):
    """A group of vectors as a compiled linkage sees it.

    ``mean`` of the vectors (float32), their number ``size``, their ``spread`` (mean squared distance to the mean) and
    the ``length`` of the mean.
    """

    mean: npt.NDArray[np.float32]
    size: float
    spread: float
    length: float


_GROUP = types.NamedTuple((types.float32[::1], types.float64, types.float64, types.float64), VectorGroup)
_ROW = (types.CPointer(types.float32), types.CPointer(types.float64))
# As it is called: mean and moments of two groups, and the number of columns.
_BY_ADDRESS = types.float64(*_ROW, *_ROW, types.int64)


class Formula:
    """A compiled function of two groups, with the address of a version that takes rows of a table."""

    def __init__(self, function: Dispatcher):
        self.function = function
        # Division by zero gives inf or nan, which the engine notices, and not an exception, which it could not.
        compiled = jit(**{**function.targetoptions, "error_model": "numpy", **CHECKS})(function.py_func)
        try:
            compiled.compile(types.float64(_GROUP, _GROUP))

            @cfunc(_BY_ADDRESS, error_model="numpy", **CHECKS)
            def of_rows(mean_a, moments_a, mean_b, moments_b, n):  # type: ignore[no-untyped-def]
                a = VectorGroup(carray(mean_a, n), moments_a[0], moments_a[1], moments_a[2])
                b = VectorGroup(carray(mean_b, n), moments_b[0], moments_b[1], moments_b[2])
                return compiled(a, b)

        except NumbaError as error:
            raise TypeError(
                f"linkage {function.py_func.__name__!r} must compile as f(a, b) of two VectorGroup(mean, size, spread,"
                f" length) returning a float; numba says: {error}"
            ) from None
        self._of_rows = of_rows

    @property
    def address(self) -> int:
        return int(self._of_rows.address)

    def __reduce__(self) -> tuple[Any, ...]:
        return Formula, (self.function,)


@lru_cache(maxsize=64)
def compiled_linkage(function: Dispatcher, metric: str | None = None) -> VectorLinkage:
    """Return a linkage on vectors from a ``numba.njit`` function of two groups.

    ``metric`` says by what the candidates of a point are found among the leaves; they are then ranked by the function.

    >>> import numpy as np
    >>> from numba import njit
    >>> from grinch import Grinch
    >>> @njit
    ... def mean_dot(a, b):
    ...     return np.dot(a.mean, b.mean)
    >>> Grinch(linkage=mean_dot, metric="dot", n_clusters=2).fit_predict([[1.0, 0], [0, 1], [2, 0.1]]).tolist()
    [0, 1, 0]
    """
    metric = metric or "cosine"
    check_name("metric", metric, LEAF_METRICS, " for a compiled linkage")
    return VectorLinkage(function.py_func.__name__, metric, Formula(function), metric, None)


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
    """Return the linkage of a name, a compiled function, a Linkage object, or a function of two lists of records.

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
    check_name("linkage", name, NAMES, " (or a Linkage object, or a function of two lists)")
    metric, metrics = metric_in_full(name, metric), VECTOR_LINKAGES.get(name, {})
    if name in ("single", "complete") or (name == "average" and metric in PAIRWISE_ONLY):
        check_name("metric", metric, SCIPY_METRICS, f" for linkage={name!r}")
        return Pairwise(name, distance=metric)
    if metric not in metrics:
        accepted = (*metrics, *PAIRWISE_ONLY) if name == "average" else metrics
        raise unknown_name("metric", metric, accepted, f" for linkage={name!r}")
    return metrics[metric]
