"""Several linkages at once: a weighted sum, each on its own part of a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._checks import check_name
from grinch.errors import unknown_name
from grinch.linkage import base
from grinch.linkage.base import Linkage, saved_as
from grinch.linkage.named import VECTOR_LINKAGES, metric_in_full
from grinch.saving.json_values import saved_tuple

Scores = npt.NDArray[np.float64]


class Part(NamedTuple):
    """One linkage of a weighted sum: its weight, the linkage, and the part of a record it gets (None: all of it)."""

    weight: float
    linkage: Linkage
    of: Callable[[Any], Any] | None = None


@saved_as("weighted_sum")
class WeightedSum:
    """A weighted sum of linkages, each on its own group of features.

    Parameters
    ----------
    parts : sequence of (weight, linkage) or (weight, linkage, of)
        ``of(record)`` is the part of a record that the linkage gets (default: all of it).

    Examples
    --------
    >>> from grinch import Grinch
    >>> from grinch.linkage import Pairwise, VectorMeans, WeightedSum
    >>> both = WeightedSum([
    ...     (1.0, VectorMeans("cosine"), lambda r: r["vector"]),
    ...     (0.1, Pairwise("average", distance=lambda x, y: abs(x - y)), lambda r: r["year"]),
    ... ])
    >>> records = [{"vector": [1, 0], "year": 1}, {"vector": [1, 0.1], "year": 90}, {"vector": [0.9, 0], "year": 2}]
    >>> Grinch(linkage=both, n_clusters=2).fit_predict(records).tolist()
    [0, 1, 0]
    """

    def __init__(self, parts: Sequence[tuple[Any, ...]]):
        if not all(isinstance(part, tuple) and len(part) in (2, 3) for part in parts):
            raise TypeError(f"parts must be a list of (weight, linkage) or (weight, linkage, of); got {parts!r}")
        self.parts = [Part(*part) for part in parts]
        if not self.parts:
            raise ValueError("parts must hold at least one (weight, linkage); got none")
        for part in self.parts:
            if not isinstance(part.weight, (int, float, np.number)) or not np.isfinite(part.weight):
                raise ValueError(f"parts must have finite numbers as weights; got {part.weight!r}")
            if not isinstance(part.linkage, Linkage):
                raise TypeError(f"parts must hold linkages with leaf, merge and score; got {part.linkage!r}")

    def leaf(self, record: Any) -> list[Any]:
        return [part.linkage.leaf(record if part.of is None else part.of(record)) for part in self.parts]

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [part.linkage.merge(x, y) for part, x, y in zip(self.parts, a, b, strict=True)]

    def score(self, a: list[Any], b: list[Any]) -> float:
        return sum(part.weight * part.linkage.score(x, y) for part, x, y in zip(self.parts, a, b, strict=True))

    def scores(self, a: list[Any], others: Sequence[list[Any]]) -> Scores:
        total = np.zeros(len(others))
        for i, part in enumerate(self.parts):
            total += part.weight * base.scores_of(part.linkage, a[i], [b[i] for b in others])
        return total

    def to_state(self) -> list[Any]:
        return [
            [
                float(part.weight),
                base.part_to_state(part.linkage),
                None if part.of is None else base.function_to_state(part.of),
            ]
            for part in self.parts
        ]

    @classmethod
    def from_state(cls, state: Any) -> Self:
        return cls(
            [
                (weight, base.part_from_state(linkage), *(() if of is None else (base.function_from_state(of),)))
                for weight, linkage, of in state
            ]
        )


@saved_tuple("means")
class Means(NamedTuple):
    """The mean of a group's vectors (dense or sparse row), their number and their spread."""

    mean: Any
    n: int
    spread: float


@saved_as("vector_means")
class VectorMeans:
    """The named linkages on vectors as Python objects, on dense or sparse rows, to be parts of others.

    The formulas are those of :mod:`grinch.linkage.named`; by name, Grinch runs them compiled.

    >>> from scipy.sparse import csr_matrix
    >>> ward = VectorMeans("ward")
    >>> a, b = (ward.leaf(csr_matrix([row])) for row in ([0, 3], [4, 0]))
    >>> ward.score(a, b)
    -12.5
    """

    def __init__(self, name: str, metric: str | None = None):
        check_name("name", name, VECTOR_LINKAGES)
        if metric is not None and metric not in VECTOR_LINKAGES[name]:
            raise unknown_name("metric", metric, VECTOR_LINKAGES[name], f" for {name!r}")
        self.name, self.metric = name, metric_in_full(name, metric)

    def leaf(self, record: Any) -> Means:
        if scipy.sparse.issparse(record):
            vector: Any = scipy.sparse.csr_matrix(record, dtype=np.float64)
        else:
            vector = np.asarray(record, np.float64).ravel()
        if self.metric == "hellinger":
            vector = np.sqrt(vector)
        if self.name == "average" and self.metric in ("cosine", "hellinger"):
            length = np.sqrt(_dot(vector, vector))
            vector = vector / length if length > 0 else vector
        return Means(vector, 1, 0.0)

    def merge(self, a: Means, b: Means) -> Means:
        share = b.n / (a.n + b.n)
        gap = _squared_distance(a.mean, b.mean)
        spread = (1 - share) * a.spread + share * b.spread + share * (1 - share) * gap
        return Means(a.mean * (1 - share) + b.mean * share, a.n + b.n, spread)

    def score(self, a: Means, b: Means) -> float:
        if self.name == "cosine":
            lengths = np.sqrt(_dot(a.mean, a.mean) * _dot(b.mean, b.mean))
            return _dot(a.mean, b.mean) / lengths if lengths > 0 else 0.0
        if self.name == "average" and self.metric in ("cosine", "dot", "hellinger"):
            return _dot(a.mean, b.mean)
        if self.name == "tanimoto":
            product = _dot(a.mean, b.mean)
            union = _dot(a.mean, a.mean) + _dot(b.mean, b.mean) - product
            return product / union if union > 0 else 0.0
        gap = _squared_distance(a.mean, b.mean)
        if self.name == "average":
            return -(gap + a.spread + b.spread)
        if self.name == "centroid":
            return -gap
        return -gap * a.n * b.n / (a.n + b.n)

    def to_state(self) -> list[Any]:
        return [self.name, self.metric]

    @classmethod
    def from_state(cls, state: Any) -> Self:
        return cls(*state)


def _dot(a: Any, b: Any) -> float:
    if scipy.sparse.issparse(a):
        return float(a.multiply(b).sum())
    return float(a @ b)


def _squared_distance(a: Any, b: Any) -> float:
    step = a - b
    return _dot(step, step)
