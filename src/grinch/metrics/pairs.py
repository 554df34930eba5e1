"""Measures of a flat clustering, given labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._types import Labels
from grinch.tree.lca import class_codes, each_alone


class Scores(NamedTuple):
    """Precision, recall, and their harmonic mean."""

    precision: float
    recall: float
    f1: float


def pairwise_scores(labels: npt.ArrayLike, predicted: npt.ArrayLike) -> Scores:
    """Return precision, recall and F1 of the pairs put together.

    Parameters
    ----------
    labels : array-like of shape (n_points,)
        The true class of each point. A point without one (None or nan) is a class of its own, so
        that putting it with others costs precision.
    predicted : array-like of shape (n_points,)
        The cluster of each point. A point without one (None or nan) is a cluster of its own; -1 is a cluster like
        any other.

    Returns
    -------
    Scores
        ``precision``, ``recall`` and ``f1``. Without pairs to judge, precision or recall is 1.

    Examples
    --------
    >>> from grinch.metrics import pairwise_scores
    >>> pairwise_scores([0, 0, 1, 1], [5, 5, 5, 7])
    Scores(precision=0.3333333333333333, recall=0.5, f1=0.4)
    """
    true, found = (each_alone(codes) for codes in _codes(labels, predicted))
    together = _n_pairs(_shared(true, found)[2])
    in_true, in_found = _n_pairs(np.bincount(true)), _n_pairs(np.bincount(found))
    return Scores(
        together / in_found if in_found else 1.0,
        together / in_true if in_true else 1.0,
        2 * together / (in_true + in_found) if in_true + in_found else 1.0,
    )


def pairwise_f1(labels: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return F1 of the pairs put together: see :func:`pairwise_scores`.

    >>> from grinch.metrics import pairwise_f1
    >>> pairwise_f1([0, 0, 1, 1], [5, 5, 5, 7])
    0.4
    """
    return pairwise_scores(labels, predicted).f1


def bcubed(labels: npt.ArrayLike, predicted: npt.ArrayLike) -> Scores:
    """Return B-cubed: the mean over points of the share of their cluster that is of their class, and the reverse.

    Points without a true class (None or nan) are left out; a point without a cluster is a cluster of its own.
    ``nan`` if no point is left.

    >>> from grinch.metrics import bcubed
    >>> bcubed([0, 0, 1, 1], [5, 5, 5, 7])
    Scores(precision=0.6666666666666666, recall=0.75, f1=0.7058823529411765)
    """
    true, found = _labelled(labels, predicted)
    if not len(true):
        return Scores(np.nan, np.nan, np.nan)
    by_class, by_cluster, both = _shared(true, found)
    squared = both.astype(np.float64) ** 2
    precision = float((squared / np.bincount(found)[by_cluster]).sum() / len(true))
    recall = float((squared / np.bincount(true)[by_class]).sum() / len(true))
    return Scores(precision, recall, 2 * precision * recall / (precision + recall))


def adjusted_rand(labels: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return the adjusted Rand index of scikit-learn, over the points that have a true class.

    >>> from grinch.metrics import adjusted_rand
    >>> adjusted_rand(["a", "a", "b", None], [1, 1, 0, 0])
    1.0
    """
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(*_labelled(labels, predicted)))


def normalized_mutual_information(labels: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return scikit-learn's normalised mutual information (arithmetic mean), over the points that have a true class.

    >>> from grinch.metrics import normalized_mutual_information
    >>> normalized_mutual_information(["a", "a", "b", None], [1, 1, 0, 0])
    1.0
    """
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(*_labelled(labels, predicted)))


def _codes(labels: npt.ArrayLike, predicted: npt.ArrayLike) -> tuple[Labels, Labels]:
    """Return both as numbers, -1 where there is none."""
    one, two = np.shape(np.asarray(labels)), np.shape(np.asarray(predicted))
    if len(one) != 1 or one != two:
        raise ValueError(f"labels and predicted must be one-dimensional and of one length; got shapes {one} and {two}")
    return class_codes(labels, one[0]), class_codes(predicted, one[0])


def _labelled(labels: npt.ArrayLike, predicted: npt.ArrayLike) -> tuple[Labels, Labels]:
    """Return both for the points that have a true class, where each point without a cluster is one of its own."""
    true, found = _codes(labels, predicted)
    is_known = true >= 0
    return true[is_known], each_alone(found[is_known])


def _shared(true: Labels, found: Labels) -> tuple[Labels, Labels, Labels]:
    """Return class, cluster and number of points, for each class and cluster that share any."""
    n_found = int(found.max(initial=0)) + 1
    both, counts = np.unique(true * n_found + found, return_counts=True)
    return both // n_found, both % n_found, counts


def _n_pairs(counts: Labels) -> float:
    return float((counts.astype(np.float64) * (counts - 1)).sum() / 2)
