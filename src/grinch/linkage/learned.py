"""A learned linkage: a model over features of two groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.linkage.base import FunctionLinkage, Linkage, Similarity

Matrix = npt.NDArray[np.float64]


class Learned:
    """The output of a model on features of two groups.

    Parameters
    ----------
    model : object
        Fitted, with ``decision_function``, ``predict_proba`` (the last class counts) or ``predict``; or any function
        from a matrix of features to a vector of scores. Linear models are evaluated as the product they are, and
        LightGBM's by its bare booster: on few rows the wrappers cost many times the prediction.
    groups : object with ``leaf`` and ``merge``
        What is kept of a group: a Linkage, or anything with those two methods.
    features : callable
        ``features(a, others)`` of a summary and a list of summaries: a matrix, one row for each of the others.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from grinch import Grinch
    >>> from grinch.linkage import Learned
    >>> class Ages:
    ...     def leaf(self, age): return (age, age)
    ...     def merge(self, a, b): return (min(a[0], b[0]), max(a[1], b[1]))
    >>> def span(a, others):
    ...     return np.array([[max(a[1], b[1]) - min(a[0], b[0])] for b in others], float)
    >>> model = LogisticRegression().fit([[1], [2], [3], [20], [30]], [1, 1, 1, 0, 0])
    >>> Grinch(linkage=Learned(model, Ages(), span), threshold=0).fit_predict([3, 40, 5, 42, 4]).tolist()
    [0, 1, 0, 1, 0]
    """

    def __init__(self, model: Any, groups: Any, features: Callable[[Any, Sequence[Any]], Any]):
        self.model, self.groups, self.features = model, groups, features
        self._predict = predictor(model)

    def leaf(self, record: Any) -> Any:
        return self.groups.leaf(record)

    def merge(self, a: Any, b: Any) -> Any:
        return self.groups.merge(a, b)

    def score(self, a: Any, b: Any) -> float:
        return float(self.scores(a, [b])[0])

    def scores(self, a: Any, others: Sequence[Any]) -> Matrix:
        """One call of the model for all of them."""
        return np.asarray(self._predict(np.asarray(self.features(a, others), np.float64)), np.float64)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_predict"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._predict = predictor(self.model)


def predictor(model: Any) -> Callable[[Matrix], Any]:
    """The cheapest way to ask a model for one score a row."""
    coefficients = getattr(model, "coef_", None)
    if coefficients is not None and np.size(coefficients) == np.shape(coefficients)[-1]:
        weights, intercept = np.ravel(coefficients), float(np.ravel(getattr(model, "intercept_", 0.0))[0])
        return lambda rows: rows @ weights + intercept
    booster = getattr(model, "booster_", None)
    if booster is not None:
        return lambda rows: booster.predict(rows)
    if hasattr(model, "decision_function"):
        return lambda rows: np.ravel(model.decision_function(rows))
    if hasattr(model, "predict_proba"):
        return lambda rows: model.predict_proba(rows)[:, -1]
    if hasattr(model, "predict"):
        return lambda rows: np.ravel(model.predict(rows))
    if callable(model):
        return lambda rows: np.ravel(model(rows))
    raise TypeError(
        "model must be a function of a matrix, or have decision_function, predict_proba or predict;"
        f" got {type(model).__name__}"
    )


class WithRules:
    """Must-link and cannot-link rules on top of a linkage.

    Parameters
    ----------
    linkage : Linkage
        What decides where no rule does.
    must : sequence of callables
        Each takes a record to a value or None. Two groups that share a value belong together (the same ORCID).
    cannot_share : sequence of callables
        Two groups that share a value must not be together (two authors of one paper).
    cannot_differ : sequence of callables
        Two groups with different values must not be together (two ORCIDs).
    weight : float, default=1e6
        What a rule adds to the score, or takes from it. A cannot-link outweighs a must-link.

    Examples
    --------
    >>> from grinch import Grinch
    >>> from grinch.linkage import Pairwise, WithRules
    >>> near = Pairwise("average", distance=lambda x, y: abs(x["year"] - y["year"]))
    >>> rules = WithRules(near, must=[lambda r: r.get("orcid")])
    >>> papers = [{"year": 1990, "orcid": "a"}, {"year": 1991}, {"year": 2020, "orcid": "a"}, {"year": 2021}]
    >>> model = Grinch(linkage=rules, mode="exact", threshold=1000).fit(papers)
    >>> model.labels_.tolist()
    [0, 1, 0, 2]
    """

    def __init__(
        self,
        linkage: Linkage | Similarity,
        must: Sequence[Callable[[Any], Any]] = (),
        cannot_share: Sequence[Callable[[Any], Any]] = (),
        cannot_differ: Sequence[Callable[[Any], Any]] = (),
        weight: float = 1e6,
    ):
        if not isinstance(linkage, Linkage):
            if not callable(linkage):
                raise TypeError(f"linkage must be an object with leaf, merge and score, or a function; got {linkage!r}")
            linkage = FunctionLinkage(linkage)
        for name, keys in (("must", must), ("cannot_share", cannot_share), ("cannot_differ", cannot_differ)):
            if callable(keys) or not all(map(callable, keys)):
                raise TypeError(f"{name} must be a list of functions of a record; got {keys!r}")
        self.linkage, self.must, self.cannot_share, self.cannot_differ = linkage, must, cannot_share, cannot_differ
        self.weight = weight

    def leaf(self, record: Any) -> tuple[Any, ...]:
        def values(keys: Sequence[Callable[[Any], Any]]) -> list[frozenset[Any]]:
            found = (key(record) for key in keys)
            return [frozenset() if value is None else frozenset([value]) for value in found]

        return (self.linkage.leaf(record), *map(values, (self.must, self.cannot_share, self.cannot_differ)))

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        unions = ([x | y for x, y in zip(u, v, strict=True)] for u, v in zip(a[1:], b[1:], strict=True))
        return (self.linkage.merge(a[0], b[0]), *unions)

    def score(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> float:
        return self.linkage.score(a[0], b[0]) + self._ruled(a, b)

    def scores(self, a: tuple[Any, ...], others: Sequence[tuple[Any, ...]]) -> Matrix:
        below = [b[0] for b in others]
        if hasattr(self.linkage, "scores"):
            values = np.asarray(self.linkage.scores(a[0], below), np.float64)
        else:
            values = np.array([self.linkage.score(a[0], b) for b in below])
        return values + np.array([self._ruled(a, b) for b in others])

    def _ruled(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> float:
        must, share, differ = (list(zip(u, v, strict=True)) for u, v in zip(a[1:], b[1:], strict=True))
        if any(x & y for x, y in share) or any(x and y and not (x & y) for x, y in differ):
            return -self.weight
        return self.weight if any(x & y for x, y in must) else 0.0
