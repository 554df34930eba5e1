"""How far apart groups of points are, by what a picture was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from grinch._types import Floats, Labels
from grinch.plots.commonest import Groups


def by_vectors(vectors: npt.ArrayLike, members: list[Labels], n: int) -> Floats:
    """The distances of the means of groups of points."""
    rows: Any = vectors if hasattr(vectors, "shape") else np.asarray(vectors, np.float64)
    if len(rows.shape) != 2 or rows.shape[0] != n:
        raise ValueError(f"vectors must be of shape ({n}, n_features), a row for each point; got {tuple(rows.shape)}")
    means = np.array([np.asarray(rows[own].mean(axis=0), np.float64).ravel() for own in members])
    return np.asarray(cdist(means, means))


def by_labels(known: Groups, members: list[Labels]) -> Floats:
    """The distances of groups by the shares of labels in them."""
    shares = np.zeros((len(members), len(known.named.names) + 1))  # one more, where -1 points
    for i, own in enumerate(members):
        np.add.at(shares[i], known.named.codes[own], 1 / len(own))
    return np.asarray(cdist(shares, shares))
