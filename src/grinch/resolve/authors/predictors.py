"""From features to log-odds, with plain arrays: a linear function, or boosted trees. No pickle, no library to run."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from grinch._compile import compiled

Matrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int32]
Arrays = dict[str, npt.NDArray[Any]]


class Predictor(Protocol):
    """From rows of features to log-odds."""

    kind: str
    PARTS: tuple[str, ...]
    n_features: int

    def margins(self, rows: Matrix) -> Matrix: ...

    def scores(self, rows: Matrix, slope: float, intercept: float) -> Matrix:
        """Return the logistic function of slope · margin + intercept."""
        ...

    def arrays(self) -> Arrays:
        """Return all of it, by the names in ``PARTS``: ``PREDICTORS[kind](**arrays)`` makes it again."""
        ...


class Logistic:
    """Logistic regression: a weight for each feature, and an intercept.

    >>> Logistic(np.array([1.0, -2.0]), np.array([0.5])).margins(np.array([[3.0, 1.0]])).tolist()
    [1.5]
    """

    kind = "logistic"
    PARTS = ("weights", "intercept")

    def __init__(self, weights: Matrix, intercept: Matrix):
        self.weights, self.intercept = _numbers("weights", weights), _numbers("intercept", intercept)
        if len(self.intercept) != 1:
            raise ValueError(f"intercept must be one number; got {len(self.intercept)}")
        self.n_features = len(self.weights)

    @classmethod
    def fitted(cls, rows: Matrix, targets: Matrix, directions: npt.NDArray[np.int8]) -> Logistic:
        """Fit on standardised features. ``directions`` are not used: the fit finds them."""
        from sklearn.linear_model import LogisticRegression

        means, scales = rows.mean(axis=0), rows.std(axis=0)
        scales[scales < 1e-9] = 1.0
        both, labels, importance = both_ways((rows - means) / scales, targets)
        found = LogisticRegression(C=0.1, max_iter=300).fit(both, labels, importance)
        line = found.coef_[0] / scales
        return cls(line, found.intercept_ - means @ line)

    def margins(self, rows: Matrix) -> Matrix:
        return rows @ self.weights + self.intercept[0]

    def scores(self, rows: Matrix, slope: float, intercept: float) -> Matrix:
        return logistic(slope * self.margins(rows) + intercept)

    def arrays(self) -> Arrays:
        return {"weights": self.weights, "intercept": self.intercept}


class Nodes(NamedTuple):
    """The nodes of all trees end to end, the roots among them, and the margin that every row begins with."""

    feature: Indices
    cut: Matrix
    left: Indices
    right: Indices
    value: Matrix
    roots: Indices
    base: Matrix


class Trees:
    """Gradient boosted trees, end to end in a few arrays.

    Node ``i`` sends a row to its left child if feature ``feature[i]`` is at most ``cut[i]``, else to its right one;
    a leaf has feature -1 and a value. A row's margin is the sum of its leaves, and the base.
    """

    kind = "boosting"
    PARTS = (*Nodes._fields, "n_features")

    def __init__(self, n_features: Any, **parts: Any):
        checks: dict[str, Any] = dict.fromkeys(("feature", "left", "right", "roots"), _indices)
        self.nodes = Nodes(*(checks.get(name, _numbers)(name, parts[name]) for name in Nodes._fields))
        if np.size(n_features) != 1:
            raise ValueError(f"n_features must be one number; got {np.size(n_features)}")
        self.n_features = int(_indices("n_features", np.ravel(n_features))[0])
        self._check()

    def _check(self) -> None:
        """Check that a walk down from any root ends at a leaf and asks only for features that there are."""
        feature, cut, left, right, value, roots, base = self.nodes
        n = len(feature)
        for name, part in (("cut", cut), ("left", left), ("right", right), ("value", value)):
            if len(part) != n:
                raise ValueError(f"{name} must have one entry for each of {n} nodes; got {len(part)}")
        if ((feature < -1) | (feature >= self.n_features)).any():
            raise ValueError(f"feature must be from -1 (a leaf) to {self.n_features - 1}; got {_span(feature)}")
        if ((roots < 0) | (roots >= n)).any():
            raise ValueError(f"roots must be nodes from 0 to {n - 1}; got {_span(roots)}")
        inner = np.flatnonzero(feature >= 0)
        for name, child in (("left", left[inner]), ("right", right[inner])):
            if ((child <= inner) | (child >= n)).any():
                raise ValueError(f"{name} must be a later node than its parent, up to {n - 1}; got {_span(child)}")
        if len(base) != 1:
            raise ValueError(f"base must be one number; got {len(base)}")

    @classmethod
    def fitted(cls, rows: Matrix, targets: Matrix, directions: npt.NDArray[np.int8]) -> Trees:
        """Fit scikit-learn's gradient boosting, and return its trees as arrays."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        both, labels, importance = both_ways(rows, targets)
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
            raise RuntimeError("this version of scikit-learn stores its trees differently; please report its version")
        return trees

    @classmethod
    def of_sklearn(cls, booster: Any, n_features: int) -> Trees:
        """Return the trees of a fitted HistGradientBoostingClassifier of two classes."""
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
        _walk(rows, self.nodes, found)
        return found

    def scores(self, rows: Matrix, slope: float, intercept: float) -> Matrix:
        found = np.empty(len(rows))
        _walk_to_scores(rows, self.nodes, found, slope, intercept)
        return found

    def arrays(self) -> Arrays:
        return {**self.nodes._asdict(), "n_features": np.array([self.n_features])}


@compiled
def _walk(rows: Matrix, nodes: Nodes, found: Matrix) -> None:
    for i in range(rows.shape[0]):
        total = nodes.base[0]
        for root in nodes.roots:
            node = root
            while nodes.feature[node] >= 0:
                is_left = rows[i, nodes.feature[node]] <= nodes.cut[node]
                node = nodes.left[node] if is_left else nodes.right[node]
            total += nodes.value[node]
        found[i] = total


@compiled
def _walk_to_scores(rows: Matrix, nodes: Nodes, found: Matrix, slope: float, intercept: float) -> None:
    _walk(rows, nodes, found)
    for i in range(len(found)):
        found[i] = 1.0 / (1.0 + np.exp(-(slope * found[i] + intercept)))


def logistic(margins: Matrix) -> Matrix:
    """Return the probabilities of log-odds.

    >>> logistic(np.array([0.0, -1000.0, 1000.0])).tolist()
    [0.5, 0.0, 1.0]
    """
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * margins))


def both_ways(rows: Matrix, targets: Matrix) -> tuple[Matrix, npt.NDArray[np.int64], Matrix]:
    """Return rows as positives and as negatives, weighted as in cross-entropy by their targets from 0 to 1."""
    yes, no = np.flatnonzero(targets > 0), np.flatnonzero(targets < 1)
    labels = np.repeat([1, 0], [len(yes), len(no)])
    importance = np.concatenate([targets[yes], 1 - targets[no]])
    return np.concatenate([rows[yes], rows[no]]), labels, importance


def _numbers(name: str, values: Any) -> Matrix:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError(f"{name} must be a list of finite numbers; got {_kind_of(array)}")
    return np.ascontiguousarray(array, np.float64)


def _indices(name: str, values: Any) -> Indices:
    array = np.asarray(values)
    limits = np.iinfo(np.int32)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array > limits.max).any() or (array < limits.min).any():
        raise ValueError(f"{name} must be a list of whole numbers; got {_kind_of(array)}")
    return np.ascontiguousarray(array, np.int32)


def _kind_of(array: npt.NDArray[Any]) -> str:
    odd = array[~np.isfinite(array)] if array.dtype.kind == "f" else array[:0]
    return f"an array of {array.dtype} of shape {array.shape}" + (f" with {odd.flat[0]}" if odd.size else "")


def _span(values: Indices) -> str:
    return f"{values.min()} to {values.max()}"


PREDICTORS: dict[str, Any] = {"logistic": Logistic, "boosting": Trees}
