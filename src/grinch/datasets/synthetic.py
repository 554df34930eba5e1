"""Generated data with known classes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grinch._checks import check_name
from grinch.datasets.readers import Labelled

KINDS = ("cliques", "chains")


def gaussian_mixture(n: int, n_classes: int = 1000, n_features: int = 64, random_state: int | None = 0) -> Labelled:
    """Draw a mixture of many unequal Gaussians: standard normal centres, lognormal(0, 1) sizes, noise of 0.9 to 1.6.

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
    n_classes: int = 100,
    per_class: int = 25,
    bits: int = 100,
    share: float = 0.1,
    random_state: int | None = 0,
    sparse: bool = False,
) -> Labelled:
    """Draw the paper's synthetic data in random order: class k sets bits 100k to 100k + 99 at random, no others.

    ``sparse``: as a CSR matrix.

    A class is drawn again until shared bits connect all its points: a point without any bit, or with bits that no other
    point has, belongs to no cluster under any linkage of the bits, and the data would not be separated.

    >>> X, y = paper_synthetic(n_classes=3, per_class=4)
    >>> X.shape, bool((X[y == 1][:, :100] == 0).all())
    ((12, 300), True)
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    rng = np.random.default_rng(random_state)
    labels = rng.permutation(np.repeat(np.arange(n_classes), per_class))
    rows, columns = [], []
    for k in range(n_classes):
        own = np.zeros((per_class, bits), np.float32)
        while not own.any(axis=1).all() or connected_components(own @ own.T, return_labels=False) > 1:
            own = (rng.random((per_class, bits)) < share).astype(np.float32)
        members, set_bits = np.nonzero(own)
        rows.append(np.flatnonzero(labels == k)[members])
        columns.append(k * bits + set_bits)
    places = np.concatenate(rows), np.concatenate(columns)
    vectors = csr_matrix((np.ones(len(places[0]), np.float32), places), shape=(len(labels), n_classes * bits))
    return Labelled(vectors if sparse else vectors.toarray(), labels)


def separated(
    kind: str = "cliques", n_classes: int = 50, per_class: int = 25, n_features: int = 10, random_state: int | None = 0
) -> Labelled:
    """Draw classes that HAC under Euclidean linkages finds as nodes, in random order.

    ``cliques`` are balls of diameter 2, at least 4 apart: every point is closer to all of its own class than to any
    other point. HAC finds them under single, complete, average and centroid linkage. Complete linkage separates them
    as the paper's Definition 1 asks, so that Theorem 1 holds for the exact mode.

    ``chains`` are paths: each point is less than 1 from the next, the ends of a chain of m points are at least
    (m - 1) / 2 apart, and chains are at least 2 apart. HAC finds them under single linkage; linkages that look at
    whole groups, such as average and complete, break long chains. At least 2 features.

    Single linkage is not what Definition 1 asks: it scores a neighbour and a stranger, as one group, like the neighbour
    alone. On chains the exact mode may therefore miss some; it misses none under a linkage that first asks whether the
    union of two groups is connected by steps below 1.

    >>> X, y = separated("chains", n_classes=3, per_class=20, n_features=2)
    >>> chain = X[y == 0]
    >>> X.shape, bool(np.ptp(chain[:, 0]) >= 9.5), bool(np.diff(np.sort(chain[:, 0])).max() < 1)
    ((60, 2), True, True)
    """
    check_name("kind", kind, KINDS)
    least = {"n_classes": (n_classes, 1), "per_class": (per_class, 1), "n_features": (n_features, 1)}
    if kind == "chains":
        least["n_features"] = (n_features, 2)  # one to run along, one to keep apart
    for name, (value, bound) in least.items():
        if value < bound:
            raise ValueError(f"{name} must be at least {bound} for kind={kind!r}; got {value!r}")
    rng = np.random.default_rng(random_state)
    labels = rng.permutation(np.repeat(np.arange(n_classes), per_class))
    make = _balls if kind == "cliques" else _paths
    vectors = np.empty((len(labels), n_features), np.float32)
    vectors[np.argsort(labels, kind="stable")] = make(n_classes, per_class, n_features, rng)
    return Labelled(vectors, labels)


def _balls(n_classes: int, per_class: int, n_features: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw points in balls of radius 1 around corners of a grid of width 6, class by class."""
    points = rng.standard_normal((n_classes * per_class, n_features))
    radii = rng.random(len(points)) ** (1 / n_features)
    points *= (radii / np.maximum(np.linalg.norm(points, axis=1), 1e-300))[:, None]
    return points + 6 * np.repeat(_corners(n_classes, n_features, rng), per_class, axis=0)


def _paths(n_classes: int, per_class: int, n_features: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw points that walk along the first axis, each path on a grid line of its own, class by class."""
    lines = np.repeat(_corners(n_classes, n_features - 1, rng), per_class, axis=0)
    walks = np.cumsum(rng.uniform(0.5, 0.9, (n_classes, per_class)), axis=1) + rng.uniform(0, 5, (n_classes, 1))
    # A step is shorter than √(0.9² + 0.4²) < 1: the jitter is at most 0.2 long.
    jitter = rng.uniform(-0.2, 0.2, lines.shape) / np.sqrt(lines.shape[1])
    return np.column_stack([walks.ravel(), 3 * lines + jitter])


def _corners(n: int, n_features: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw different points with whole coordinates, so that any two are at least 1 apart."""
    side = int(np.ceil((4 * n) ** (1 / n_features)))
    corners = np.empty((0, n_features), np.int64)
    while len(corners) < n:
        corners = np.unique(rng.integers(0, side, (2 * n + 4, n_features)), axis=0)
    return rng.permutation(corners)[:n]
