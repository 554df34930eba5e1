"""How good a flat clustering is, given labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grinch.classes import class_codes, each_alone


def pairwise_f1(labels: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """F1 of the pairs put together: the harmonic mean of pairwise precision and recall.

    >>> from grinch.metrics import pairwise_f1
    >>> pairwise_f1([0, 0, 1, 1], [5, 5, 5, 7])
    0.4
    """
    true, found = np.asarray(labels), np.asarray(predicted)
    if true.ndim != 1 or true.shape != found.shape:
        raise ValueError(
            f"labels and predicted must be one-dimensional and of one length; got shapes {true.shape} and {found.shape}"
        )
    a, b = each_alone(class_codes(labels, len(true))), each_alone(class_codes(predicted, len(true)))
    _, both = np.unique(a * (int(b.max(initial=0)) + 1) + b, return_counts=True)

    def pairs(counts: npt.NDArray[np.int64]) -> float:
        return float((counts.astype(np.float64) * (counts - 1)).sum() / 2)

    together, in_true, in_found = pairs(both), pairs(np.bincount(a)), pairs(np.bincount(b))
    return 2 * together / (in_true + in_found) if in_true + in_found else 1.0
