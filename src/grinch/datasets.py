"""Data made on the spot, with known classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components


class Labelled(NamedTuple):
    """Vectors and their classes."""

    vectors: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]


def gaussian_mixture(n: int, n_classes: int = 1000, n_features: int = 64, random_state: int | None = 0) -> Labelled:
    """A mixture of many unequal gaussians: standard normal centres, lognormal(0, 1) sizes, noise of 0.9 to 1.6.

    >>> X, y = gaussian_mixture(100, n_classes=5, n_features=3)
    >>> X.shape, X.dtype, y.max() < 5
    ((100, 3), dtype('float32'), np.True_)
    """
    rng = np.random.default_rng(random_state)
    centres = rng.standard_normal((n_classes, n_features))
    weights = rng.lognormal(0, 1, n_classes)
    noise = rng.uniform(0.9, 1.6, n_classes)
    labels = rng.choice(n_classes, n, p=weights / weights.sum())
    vectors = centres[labels] + rng.standard_normal((n, n_features)) * noise[labels][:, None]
    return Labelled(vectors.astype(np.float32), labels)


def paper_synthetic(
    n_classes: int = 100, per_class: int = 25, bits: int = 100, share: float = 0.1, random_state: int | None = 0
) -> Labelled:
    """The paper's synthetic data: class k sets bits 100k to 100k + 99 at random, all others are 0; in random order.

    A class is drawn again until shared bits connect all its points: a point without any bit, or with bits that no other
    point has, belongs to no cluster under any linkage of the bits, and the data would not be separated.

    >>> X, y = paper_synthetic(n_classes=3, per_class=4)
    >>> X.shape, bool((X[y == 1][:, :100] == 0).all())
    ((12, 300), True)
    """
    rng = np.random.default_rng(random_state)
    labels = rng.permutation(np.repeat(np.arange(n_classes), per_class))
    vectors = np.zeros((len(labels), n_classes * bits), np.float32)
    for k in range(n_classes):
        own = np.zeros((per_class, bits), np.float32)
        while not own.any(axis=1).all() or connected_components(own @ own.T, return_labels=False) > 1:
            own = (rng.random((per_class, bits)) < share).astype(np.float32)
        vectors[labels == k, k * bits : (k + 1) * bits] = own
    return Labelled(vectors, labels)
