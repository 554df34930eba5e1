"""A learned linkage: a model over features of two groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


class Learned:
    """The output of a model on features of two groups.

    Parameters
    ----------
    model : object
        A fitted model with ``decision_function``, ``predict_proba`` (the last class counts) or ``predict``; or any
        function from a matrix of features to a vector of scores. Linear models are evaluated as a plain product, and
        LightGBM's by the bare booster: on few rows the wrappers cost many times the prediction.
    groups : object with ``leaf`` and ``merge``
        Makes the summaries of groups: a Linkage, or any object with those two methods.
    features : callable
        ``features(a, others)`` of a summary and a list of summaries: a matrix with one row for each of the others.

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
        """Return one call of the model for all of them."""
        return np.asarray(self._predict(np.asarray(self.features(a, others), np.float64)), np.float64)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_predict"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._predict = predictor(self.model)


def predictor(model: Any) -> Callable[[Matrix], Any]:
    """Return the fastest way to get one score per row from a model."""
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
