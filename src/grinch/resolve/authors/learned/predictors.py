"""What a model computes, as plain arrays: a line, or boosted trees. Neither needs a pickle, or its library, to run."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from numba import njit

Matrix = npt.NDArray[np.float64]
Arrays = dict[str, npt.NDArray[Any]]


class Predictor(Protocol):
    """From rows of features to log-odds."""

    kind: str

    n_features: int

    def margins(self, rows: Matrix) -> Matrix: ...

    def scores(self, rows: Matrix, slope: float, intercept: float) -> Matrix:
        """The logistic function of slope · margin + intercept."""
        ...

    def arrays(self) -> Arrays:
        """All there is to know of it, to be made again by ``PREDICTORS[kind](**arrays)``."""
        ...


class Logistic:
    """Logistic regression: a weight for each feature, and an intercept.

    >>> Logistic(np.array([1.0, -2.0]), np.array([0.5])).margins(np.array([[3.0, 1.0]])).tolist()
    [1.5]
    """

    kind = "logistic"

    def __init__(self, weights: Matrix, intercept: Matrix):
        if weights.ndim != 1 or intercept.shape != (1,):
            raise ValueError(f"weights and intercept have shapes {weights.shape} and {intercept.shape}")
        self.weights, self.intercept = weights.astype(np.float64), intercept.astype(np.float64)
        self.n_features = len(weights)

    @classmethod
    def fitted(cls, rows: Matrix, targets: Matrix, weights: Matrix, directions: npt.NDArray[np.int8]) -> Logistic:
        """Fitted on standardised features. ``directions`` are not used: the fit finds them."""
        from sklearn.linear_model import LogisticRegression

        means, scales = rows.mean(axis=0), rows.std(axis=0)
        scales[scales < 1e-9] = 1.0
        both, labels, importance = both_ways((rows - means) / scales, targets, weights)
        found = LogisticRegression(C=0.1, max_iter=300).fit(both, labels, importance)
        line = found.coef_[0] / scales
        return cls(line, found.intercept_ - means @ line)

    def margins(self, rows: Matrix) -> Matrix:
        return rows @ self.weights + self.intercept[0]

    def scores(self, rows: Matrix, slope: float, intercept: float) -> Matrix:
        return logistic(slope * self.margins(rows) + intercept)

    def arrays(self) -> Arrays:
        return {"weights": self.weights, "intercept": self.intercept}


class Trees:
    """Gradient boosted trees, end to end in a few arrays.

    Node ``i`` sends a row to its left child if feature ``feature[i]`` is at most ``cut[i]``, else to its right one;
    a leaf has feature -1 and a value. A row's margin is the sum of its leaves, and the base.
    """

    kind = "boosting"

    def __init__(
        self, feature: Any, cut: Any, left: Any, right: Any, value: Any, roots: Any, base: Any, n_features: Any
    ):
        self.feature, self.left, self.right, self.roots = (
            np.ascontiguousarray(each, np.int32) for each in (feature, left, right, roots)
        )
        self.cut, self.value, self.base = (np.ascontiguousarray(each, np.float64) for each in (cut, value, base))
        self.n_features = int(np.ravel(n_features)[0])
        self._check()

    def _check(self) -> None:
        """Children come after their parents and features exist, so that every walk ends and stays inside."""
        n, inner = len(self.feature), np.flatnonzero(self.feature >= 0)
        if any(len(each) != n for each in (self.cut, self.left, self.right, self.value)):
            raise ValueError("the arrays of the trees differ in length")
        for child in (self.left[inner], self.right[inner]):
            if (child <= inner).any() or (child >= n).any():
                raise ValueError("a node of the trees has a child that does not come after it")
        if (self.feature >= self.n_features).any() or (self.roots < 0).any() or (self.roots >= n).any():
            raise ValueError("the trees ask for a feature or a root that is not there")
        if self.base.shape != (1,):
            raise ValueError(f"the base of the trees has shape {self.base.shape}, not (1,)")

    @classmethod
    def fitted(cls, rows: Matrix, targets: Matrix, weights: Matrix, directions: npt.NDArray[np.int8]) -> Trees:
        """Fitted by scikit-learn's gradient boosting, then written out as arrays."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        both, labels, importance = both_ways(rows, targets, weights)
        booster = HistGradientBoostingClassifier(
            learning_rate=0.08,
            max_iter=100,
            max_leaf_nodes=12,
            max_bins=63,
            min_samples_leaf=40,
            l2_regularization=5.0,
            monotonic_cst=directions,
            early_stopping=False,
            random_state=0,
        ).fit(both, labels, sample_weight=importance)
        trees = cls.of_sklearn(booster, rows.shape[1])
        sample = rows[:256]
        if not np.allclose(trees.margins(sample), booster.decision_function(sample)):
            raise RuntimeError("this version of scikit-learn writes its trees differently; please report its version")
        return trees

    @classmethod
    def of_sklearn(cls, booster: Any, n_features: int) -> Trees:
        """The trees of a fitted HistGradientBoostingClassifier of two classes."""
        parts = [stage[0].nodes for stage in booster._predictors]
        roots = np.cumsum([0, *map(len, parts)])[:-1]
        nodes, shift = np.concatenate(parts), np.repeat(roots, [len(part) for part in parts])
        is_leaf = nodes["is_leaf"].astype(bool)
        return cls(
            feature=np.where(is_leaf, -1, nodes["feature_idx"]),
            cut=nodes["num_threshold"],
            left=nodes["left"] + shift,
            right=nodes["right"] + shift,
            value=nodes["value"],
            roots=roots,
            base=np.ravel(booster._baseline_prediction),
            n_features=n_features,
        )

    def margins(self, rows: Matrix) -> Matrix:
        found = np.empty(len(rows))
        _walk(rows, self.feature, self.cut, self.left, self.right, self.value, self.roots, self.base, found)
        return found

    def scores(self, rows: Matrix, slope: float, intercept: float) -> Matrix:
        found = np.empty(len(rows))
        _walk_to_scores(
            rows,
            self.feature,
            self.cut,
            self.left,
            self.right,
            self.value,
            self.roots,
            self.base,
            found,
            slope,
            intercept,
        )
        return found

    def arrays(self) -> Arrays:
        names = ("feature", "cut", "left", "right", "value", "roots", "base")
        return {**{name: getattr(self, name) for name in names}, "n_features": np.array([self.n_features])}


@njit(cache=True, nogil=True)
def _walk(rows, feature, cut, left, right, value, roots, base, found):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        total = base[0]
        for root in roots:
            node = root
            while feature[node] >= 0:
                node = left[node] if rows[i, feature[node]] <= cut[node] else right[node]
            total += value[node]
        found[i] = total


@njit(cache=True, nogil=True)
def _walk_to_scores(  # type: ignore[no-untyped-def]
    rows, feature, cut, left, right, value, roots, base, found, slope, intercept
):
    _walk(rows, feature, cut, left, right, value, roots, base, found)
    for i in range(len(found)):
        found[i] = 1.0 / (1.0 + np.exp(-(slope * found[i] + intercept)))


def logistic(margins: Matrix) -> Matrix:
    """From log-odds to probabilities.

    >>> logistic(np.array([0.0, -1000.0, 1000.0])).tolist()
    [0.5, 0.0, 1.0]
    """
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * margins))


def both_ways(rows: Matrix, targets: Matrix, weights: Matrix) -> tuple[Matrix, npt.NDArray[np.int64], Matrix]:
    """A row whose target lies between 0 and 1 counts as both, in proportion: what cross-entropy means by it."""
    yes, no = np.flatnonzero(targets > 0), np.flatnonzero(targets < 1)
    labels = np.repeat([1, 0], [len(yes), len(no)])
    importance = np.concatenate([weights[yes] * targets[yes], weights[no] * (1 - targets[no])])
    return np.concatenate([rows[yes], rows[no]]), labels, importance


PREDICTORS: dict[str, Any] = {"logistic": Logistic, "boosting": Trees}
