"""Bayesian hierarchical clustering (Heller and Ghahramani, 2005) as a linkage.

The score of two groups is the log-odds of the hypothesis that all their points come from one cluster, against the
alternative that they are divided as the tree below divides them. Cutting at ``threshold=0`` is the cut that the paper
defines: merges less likely than one half are undone.

With d_i, p(D_i | T_i) of a tree T_i kept in its summary, and T_k the merge of T_i and T_j of n points in all:

    d_k         =  α Γ(n) + d_i d_j                      π_k = α Γ(n) / d_k
    p(D_k|T_k)  =  π_k p(D_k|H1) + (1 − π_k) p(D_i|T_i) p(D_j|T_j)
    score       =  log [ π_k p(D_k|H1) ]  −  log [ (1 − π_k) p(D_i|T_i) p(D_j|T_j) ]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, gammaln

from grinch._checks import check_positive
from grinch.linkage.base import Unnamed, only_entry, saved_as
from grinch.saving.json_values import saved_tuple

Vector = npt.NDArray[np.float64]


class Family(Protocol):
    """A likelihood with a conjugate prior: sufficient statistics that add up, and their marginal likelihood."""

    def statistics(self, record: Any) -> Vector:
        """Return sufficient statistics of one record; those of a group are their sum."""

    def log_marginal(self, statistics: Vector, n: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return log p(D | H1) from summed statistics (groups x statistics) and numbers of points."""


@saved_tuple("evidence")
class Evidence(NamedTuple):
    """The summary of a group: statistics, number of points, log d and log p(D | T)."""

    statistics: Vector
    n: int
    log_d: float
    log_tree: float


class BetaBernoulli:
    """Binary features, independent, each with a Beta(a, b) prior."""

    def __init__(self, a: float = 1.0, b: float = 1.0):
        self.a, self.b = check_positive("a", a), check_positive("b", b)

    def statistics(self, record: Any) -> Vector:
        values = np.asarray(record, np.float64).ravel()
        if not np.isin(values, (0.0, 1.0)).all():
            raise ValueError("BetaBernoulli is for binary features, 0 or 1; got other values. Binarize them first")
        return values

    def log_marginal(self, statistics: Vector, n: npt.ArrayLike) -> npt.NDArray[np.float64]:
        ones = np.atleast_2d(statistics)
        zeros = np.reshape(np.asarray(n, np.float64), (-1, 1)) - ones
        return np.asarray((betaln(self.a + ones, self.b + zeros) - betaln(self.a, self.b)).sum(axis=1))


class NormalGamma:
    """Real features, independent normals of unknown mean and precision, each with a normal-gamma prior.

    Parameters
    ----------
    mean, strength : float
        The prior mean, and how many points it counts as.
    shape, rate : float
        The gamma prior of the precision; ``rate / shape`` is about the variance expected inside a cluster.
    """

    def __init__(self, mean: float = 0.0, strength: float = 0.1, shape: float = 2.0, rate: float = 2.0):
        if not math.isfinite(mean):
            raise ValueError(f"mean must be a finite number; got {mean!r}")
        self.mean, self.strength = mean, check_positive("strength", strength)
        self.shape, self.rate = check_positive("shape", shape), check_positive("rate", rate)

    def statistics(self, record: Any) -> Vector:
        values = np.asarray(record, np.float64).ravel()
        return np.concatenate([values, values**2])

    def log_marginal(self, statistics: Vector, n: npt.ArrayLike) -> npt.NDArray[np.float64]:
        sums, squares = np.split(np.atleast_2d(statistics), 2, axis=1)
        count = np.reshape(np.asarray(n, np.float64), (-1, 1))
        average = sums / count
        spread = np.maximum(squares - sums * average, 0.0)
        strength, shape = self.strength + count, self.shape + count / 2
        shift = self.strength * count * (average - self.mean) ** 2 / (2 * strength)
        rate = self.rate + spread / 2 + shift
        terms = (
            gammaln(shape)
            - math.lgamma(self.shape)
            + self.shape * math.log(self.rate)
            - shape * np.log(rate)
            + 0.5 * (math.log(self.strength) - np.log(strength))
            - count / 2 * math.log(2 * math.pi)
        )
        return np.asarray(terms.sum(axis=1))


# By the name in a file: the class, and the numbers that it is made of.
FAMILIES: dict[str, tuple[type, tuple[str, ...]]] = {
    "beta_bernoulli": (BetaBernoulli, ("a", "b")),
    "normal_gamma": (NormalGamma, ("mean", "strength", "shape", "rate")),
}


@saved_as("bayesian")
class Bayesian:
    """The log-odds of a merge under a Bayesian model of a cluster.

    Parameters
    ----------
    family : BetaBernoulli, NormalGamma or any Family
        The model of a cluster.
    alpha : float, default=1.0
        The concentration of the Dirichlet process; larger for more clusters.

    Examples
    --------
    >>> from grinch import Grinch
    >>> from grinch.linkage import Bayesian, BetaBernoulli
    >>> rows = [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]] * 6
    >>> Grinch(linkage=Bayesian(BetaBernoulli(0.5, 0.5)), threshold=0.0).fit_predict(rows).tolist()
    [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    """

    def __init__(self, family: Family, alpha: float = 1.0):
        alpha = check_positive("alpha", alpha)
        if not hasattr(family, "statistics") or not hasattr(family, "log_marginal"):
            raise TypeError(
                "family must be BetaBernoulli(), NormalGamma(), or an object with statistics and log_marginal;"
                f" got {family!r}"
            )
        self.family, self.alpha = family, alpha

    def leaf(self, record: Any) -> Evidence:
        statistics = self.family.statistics(record)
        return Evidence(statistics, 1, math.log(self.alpha), float(self.family.log_marginal(statistics, 1)[0]))

    def merge(self, a: Evidence, b: Evidence) -> Evidence:
        together, apart, log_d = self._hypotheses(a, [b])
        log_tree = float(np.logaddexp(together[0], apart[0]))
        return Evidence(a.statistics + b.statistics, a.n + b.n, float(log_d[0]), log_tree)

    def score(self, a: Evidence, b: Evidence) -> float:
        together, apart, _ = self._hypotheses(a, [b])
        return float(together[0] - apart[0])

    def scores(self, a: Evidence, others: Sequence[Evidence]) -> Vector:
        together, apart, _ = self._hypotheses(a, others)
        return together - apart

    def _hypotheses(self, a: Evidence, others: Sequence[Evidence]) -> tuple[Vector, Vector, Vector]:
        """Return log π p(D|H1), log (1 − π) p(D_i|T_i) p(D_j|T_j) and log d, for a with each of the others."""
        n = np.array([a.n + b.n for b in others])
        one_cluster = math.log(self.alpha) + gammaln(n)
        divided = np.array([a.log_d + b.log_d for b in others])
        log_d = np.logaddexp(one_cluster, divided)
        marginal = self.family.log_marginal(np.stack([a.statistics + b.statistics for b in others]), n)
        trees = np.array([a.log_tree + b.log_tree for b in others])
        return one_cluster - log_d + marginal, divided - log_d + trees, log_d

    def to_state(self) -> dict[str, Any]:
        for name, (kind, fields) in FAMILIES.items():
            if type(self.family) is kind:
                numbers = {field: float(getattr(self.family, field)) for field in fields}
                return {"family": {name: numbers}, "alpha": float(self.alpha)}
        raise Unnamed

    @classmethod
    def from_state(cls, state: Any) -> Self:
        name, numbers = only_entry(state["family"])
        return cls(FAMILIES[name][0](**numbers), state["alpha"])
