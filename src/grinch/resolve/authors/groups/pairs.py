"""Groups of records of which only the features of pairs are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._checks import check_count
from grinch._compile import compiled

Matrix = npt.NDArray[np.float64]

AGGREGATES = ("mean", "min", "max")


class PairGroup(NamedTuple):
    """The records of a group, and by record of the block the sum, least and greatest of its features with them."""

    members: npt.NDArray[np.int32]
    sums: npt.NDArray[np.float32]
    least: npt.NDArray[np.float32]
    greatest: npt.NDArray[np.float32]


class PairFeatures:
    """Features of two groups from precomputed features of pairs: mean, min and max over the cross pairs, and sizes.

    A record is its position in the block. A group keeps a row for each record of the block, and rows merge; so the
    features of two groups take as many steps as the second one has members, whatever the size of the first.

    Parameters
    ----------
    features : array of shape (n_records, n_records, n_features)
        The features of every pair, symmetric; the diagonal is not used.
    names : sequence of str, optional
        Names of the features (default: "pair_0", "pair_1", …).

    Examples
    --------
    >>> near = np.array([[0, 3, 1], [3, 0, 2], [1, 2, 0]], float)[:, :, None]
    >>> groups = PairFeatures(near, ["near"])
    >>> first, second, third = map(groups.leaf, range(3))
    >>> groups.names
    ('near_mean', 'near_min', 'near_max', 'smaller', 'larger')
    >>> groups.features(groups.merge(first, second), [third])[0, :3].tolist()
    [1.5, 1.0, 2.0]
    """

    def __init__(self, features: npt.ArrayLike, names: Sequence[str] | None = None):
        self.pairs = np.ascontiguousarray(features, np.float32)
        shape = self.pairs.shape
        if len(shape) != 3 or shape[0] != shape[1]:
            raise ValueError(f"features must have shape (n_records, n_records, n_features); got {shape}")
        if not np.isfinite(self.pairs).all():
            raise ValueError("features must be finite; got NaN or infinity. Replace missing values by a neutral one")
        if not np.array_equal(self.pairs, self.pairs.transpose(1, 0, 2)):
            raise ValueError("features must be symmetric: features[i, j] == features[j, i]; they are not")
        names = [f"pair_{i}" for i in range(shape[2])] if names is None else names
        if len(names) != shape[2]:
            raise ValueError(f"names must have one name for each of the {shape[2]} features; got {len(names)}")
        self.names: tuple[str, ...] = (
            *(f"{name}_{each}" for name in names for each in AGGREGATES),
            "smaller",
            "larger",
        )

    @classmethod
    def of_list(cls, pairs: npt.ArrayLike, features: npt.ArrayLike, n_records: int) -> PairFeatures:
        """From a list of pairs, each once, and the features of each."""
        n_records = check_count("n_records", n_records, 1)
        i, j = np.asarray(pairs, np.int64).T
        values = np.asarray(features, np.float32)
        whole = np.zeros((n_records, n_records, values.shape[1]), np.float32)
        whole[i, j] = whole[j, i] = values
        return cls(whole)

    def leaf(self, record: Any) -> PairGroup:
        if not isinstance(record, (int, np.integer)) or not 0 <= record < len(self.pairs):
            raise ValueError(f"a record must be a position in the block, 0 to {len(self.pairs) - 1}; got {record!r}")
        rows = self.pairs[record]
        return PairGroup(np.array([record], np.int32), rows, rows, rows)

    def merge(self, a: PairGroup, b: PairGroup) -> PairGroup:
        return PairGroup(
            np.concatenate([a.members, b.members]),
            a.sums + b.sums,
            np.minimum(a.least, b.least),
            np.maximum(a.greatest, b.greatest),
        )

    def features(self, a: PairGroup, others: Sequence[PairGroup]) -> Matrix:
        """One row for each of the others, in the order of ``names``."""
        rows = np.empty((len(others), len(self.names)))
        if len(others):
            ends = np.cumsum([len(b.members) for b in others])
            members = np.concatenate([b.members for b in others])
            _aggregate(len(a.members), a.sums, a.least, a.greatest, members, ends, rows)
        return rows


@compiled
def _aggregate(
    size: int,
    sums: npt.NDArray[np.float32],
    least: npt.NDArray[np.float32],
    greatest: npt.NDArray[np.float32],
    members: npt.NDArray[np.int32],
    ends: npt.NDArray[np.int64],
    rows: Matrix,
) -> None:
    n_features = sums.shape[1]
    start = 0
    for i in range(len(ends)):
        n = ends[i] - start
        for f in range(n_features):
            total, low, high = 0.0, np.inf, -np.inf
            for k in range(start, ends[i]):
                total += sums[members[k], f]
                low = min(low, least[members[k], f])
                high = max(high, greatest[members[k], f])
            rows[i, 3 * f] = total / (size * n)
            rows[i, 3 * f + 1] = low
            rows[i, 3 * f + 2] = high
        rows[i, 3 * n_features] = np.log(min(size, n))
        rows[i, 3 * n_features + 1] = np.log(max(size, n))
        start = ends[i]
