"""Where a point belongs: to the branch that most of the nearest of all branches' routing points are of.

With the very nearest alone, more points of a cluster go astray: a mixture of 120 classes in four to six branches lost
.018 of purity on average, and with five votes nothing.

A branch has up to :data:`MOST` routing points of its own: those whose arrival numbers have the smallest hashes. Which
they are depends on the points of the branch and on nothing else, so they need not be kept anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_not
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._sparse_rows import scaled, squared_lengths
from grinch._types import Counts, Floats, Mask, Slots, Vectors32, count_rows
from grinch.linkage.base import VectorLinkage
from grinch.sharded.files import joined as stacked

MOST = 2000
# Rows of similarities that are looked at together.
BLOCK = 1024
# How many routing points have a vote.
VOTES = 5


class Sample(NamedTuple):
    """The routing points of a branch: their arrival numbers, and their rows as they are compared.

    ``rows``, dense or CSR, are at unit length where only directions count; ``bias`` is what to take off a product with
    a row.
    """

    numbers: Counts
    rows: Any
    bias: Vectors32

    def without(self, is_gone: Mask) -> Sample:
        return Sample(self.numbers[~is_gone], self.rows[~is_gone], self.bias[~is_gone])


class Joined(NamedTuple):
    """Samples, one after the other, and the number of the sample of each point."""

    of: list[Sample]
    rows: Any
    bias: Vectors32
    owners: Slots


def drawn(numbers: Counts) -> Slots:
    """Which of these points are routing points, by the hash of their numbers.

    >>> drawn(np.arange(3)).tolist()
    [0, 1, 2]
    >>> len(drawn(np.arange(5000)))
    2000
    """
    if len(numbers) <= MOST:
        return np.arange(len(numbers))
    return np.sort(np.argpartition(_hashed(numbers), MOST - 1)[:MOST])


def _hashed(numbers: Counts) -> npt.NDArray[np.uint64]:
    """Numbers that look random, each of another: splitmix64."""
    z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Router:
    """The metric of two points under a linkage, by products of float32 matrices; rows are dense or CSR.

    ``centre`` is where the origin of dense rows is moved to if only differences count, so that little is lost in
    float32.
    """

    def __init__(self, linkage: VectorLinkage):
        self._is_of_roots = linkage.is_of_roots
        self.is_unit = linkage.leaf_metric == "cosine" or linkage.is_spherical
        self._is_distance = linkage.leaf_metric == "sqeuclidean"
        self._centre: Any = None
        self._joined: Joined | None = None

    def sample(self, numbers: Counts, rows: Any) -> Sample:
        """Routing points, ready to be compared."""
        if self._centre is None and isinstance(rows, np.ndarray) and len(rows):
            self._centre = rows.mean(axis=0, dtype=np.float64)
        comparable = self._comparable(rows)
        bias = squared_lengths_of(comparable) / 2 if self._is_distance else np.zeros(len(numbers))
        return Sample(numbers, comparable, np.asarray(bias, np.float32))

    def grown(self, sample: Sample, numbers: Counts, rows: Any) -> Sample:
        """The routing points of a branch to which points came."""
        kept = drawn(np.concatenate([sample.numbers, numbers]))
        came = kept[kept >= len(sample.numbers)] - len(sample.numbers)
        if not len(came):
            return sample
        new, old = self.sample(numbers[came], rows[came]), kept[kept < len(sample.numbers)]
        if not len(old):
            return new
        return Sample(
            np.concatenate([sample.numbers[old], new.numbers]),
            stacked([sample.rows[old], new.rows]),
            np.concatenate([sample.bias[old], new.bias]),
        )

    def owners(self, rows: Any, samples: Sequence[Sample]) -> Slots:
        """For each row, the number of the sample that most of the nearest points are of; of equals, the nearest's."""
        there = [i for i, sample in enumerate(samples) if len(sample.numbers)]
        n = count_rows(rows)
        owners = np.full(n, there[0] if there else 0, np.intp)
        if len(there) < 2:
            return owners
        joined = self._joined_of([samples[i] for i in there])
        for start in range(0, n, BLOCK):
            with np.errstate(over="ignore", invalid="ignore"):
                products = self._comparable(rows[start : start + BLOCK]) @ joined.rows.T
                near = (products.toarray() if scipy.sparse.issparse(products) else products) - joined.bias
            owners[start : start + BLOCK] = np.array(there)[_most_votes(near, joined)]
        return owners

    def _joined_of(self, samples: list[Sample]) -> Joined:
        """All samples as one; the same as before if they are the same."""
        known = self._joined
        if known is None or len(known.of) != len(samples) or any(map(is_not, known.of, samples)):
            known = self._joined = Joined(
                samples,
                stacked([sample.rows for sample in samples]),
                np.concatenate([sample.bias for sample in samples]),
                np.repeat(np.arange(len(samples)), [len(sample.numbers) for sample in samples]),
            )
        return known

    def _comparable(self, rows: Any) -> Any:
        if self._is_distance and isinstance(rows, np.ndarray) and len(rows):
            rows = rows - self._centre
        rows = formed(rows, self._is_of_roots, self.is_unit)
        return rows.astype(np.float32) if scipy.sparse.issparse(rows) else np.ascontiguousarray(rows, np.float32)


def _most_votes(near: Vectors32, joined: Joined) -> Slots:
    """By row, the sample that most of its nearest points are of; ``near`` is used up."""
    n, n_samples = len(near), len(joined.of)
    # A sample of few points can win, too.
    k = min(VOTES, *(len(sample.numbers) for sample in joined.of))
    # The nearest, again and again: for so few, five times as fast as to part a row by its fifth number.
    found = np.empty((n, k), np.intp)
    for i in range(k):
        found[:, i] = near.argmax(axis=1)
        near[np.arange(n), found[:, i]] = -np.inf
    nearest, voters = joined.owners[found[:, 0]], joined.owners[found]
    cells = np.arange(n)[:, None] * n_samples + voters
    votes = np.bincount(cells.ravel(), minlength=n * n_samples).reshape(n, n_samples).astype(np.float64)
    votes[np.arange(n), nearest] += 0.5
    return votes.argmax(axis=1)


def formed(rows: Any, is_of_roots: bool, is_unit: bool) -> Any:
    """Rows as a linkage compares them: the roots of their numbers, at unit length; those of zeros stay.

    >>> formed(np.array([[9.0, 16.0], [0, 0]]), is_of_roots=True, is_unit=True).round(6).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    rows = np.sqrt(rows) if is_of_roots else rows
    if not is_unit:
        return rows
    lengths = np.sqrt(squared_lengths_of(rows))
    factors = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 0)
    return scaled(rows, factors) if scipy.sparse.issparse(rows) else rows * factors[:, None]


def squared_lengths_of(rows: Any) -> Floats:
    """By row, dense or CSR, the sum of its squares."""
    if scipy.sparse.issparse(rows):
        return squared_lengths(rows)
    wide = rows.astype(np.float64, copy=False)
    return np.einsum("ij,ij->i", wide, wide)
