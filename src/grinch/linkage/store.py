"""The summaries of all nodes under a linkage, growing with the tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch.linkage.base import Linkage, VectorLinkage
from grinch.linkage.vector import COUNT, LENGTH, VectorSummaries


def _regrown(old: npt.NDArray[Any], old_capacity: int, capacity: int, fill: float) -> npt.NDArray[Any]:
    """Copy leaf rows to the front and internal rows to the new offset; what is new holds ``fill``."""
    new = np.zeros((2 * capacity, *old.shape[1:]), old.dtype)
    if fill != 0:
        new[...] = fill
    new[:old_capacity] = old[:old_capacity]
    new[capacity : capacity + old_capacity] = old[old_capacity:]
    return new


def _dense(rows: Any) -> npt.NDArray[Any]:
    return np.asarray(rows.toarray() if scipy.sparse.issparse(rows) else rows)


class VectorStore:
    """Means and moments of vectors for the compiled linkages."""

    def __init__(self, linkage: VectorLinkage, n_features: int):
        self.linkage, self.n_features, self.capacity = linkage, n_features, 0
        self.origin: npt.NDArray[np.float64] | None = None
        self.longest = 0.0
        self.sums = VectorSummaries(
            means=np.zeros((0, n_features), np.float32),
            moments=np.zeros((0, 3)),
            bonds=np.zeros(0),
            stale=np.zeros(0, np.uint8),
            formula=linkage.formula,
        )

    def grow(self, capacity: int) -> None:
        old, s = self.capacity, self.sums
        self.sums = VectorSummaries(
            means=_regrown(s.means, old, capacity, 0),
            moments=_regrown(s.moments, old, capacity, 0),
            bonds=_regrown(s.bonds, old, capacity, np.nan),
            stale=_regrown(s.stale, old, capacity, 0),
            formula=s.formula,
        )
        self.capacity = capacity

    def write(self, at: int, rows: Any) -> None:
        """Put points into the leaf slots from ``at`` on, in the form the linkage works on."""
        if self.linkage.is_euclidean and self.origin is None:
            self.origin = _dense(rows[:1])[0].astype(np.float64)
        # In pieces, so that a large input is never copied whole.
        for start in range(0, rows.shape[0], 4096):
            piece = _dense(rows[start : start + 4096])
            target = self.sums.means[at + start : at + start + len(piece)]
            moments = self.sums.moments[at + start : at + start + len(piece)]
            wide = piece.astype(np.float64)
            if self.origin is not None:
                wide -= self.origin
            lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
            if self.linkage.is_spherical:
                wide /= np.where(lengths > 0, lengths, 1.0)[:, None]
                lengths = np.where(lengths > 0, 1.0, 0.0)
            target[...] = wide
            moments[...] = 0.0
            moments[:, COUNT] = 1.0
            moments[:, LENGTH] = lengths
            self.longest = max(self.longest, float(lengths.max(initial=0.0)))

    def lengths(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        return self.sums.moments[start:stop, LENGTH]

    def own_arrays(self) -> None:
        """Copy arrays that were loaded read-only."""
        s = self.sums
        self.sums = VectorSummaries(s.means.copy(), s.moments.copy(), s.bonds.copy(), s.stale.copy(), s.formula)

    def forget_summaries(self) -> None:
        """Make every internal summary be computed anew when it is next asked for."""
        self.sums.stale[self.capacity :] = 1
        self.sums.bonds[:] = np.nan


class ObjectSummaries:
    """Summaries of any kind: Python objects in lists, scored by the methods of a linkage."""

    def __init__(self, linkage: Linkage, items: Any, bonds: Any, stale: Any):
        self.linkage, self.items, self.bonds, self.stale = linkage, items, bonds, stale

    def score(self, u: int, v: int) -> float:
        return float(self.linkage.score(self.items[u], self.items[v]))

    def merge(self, p: int, left: int, right: int) -> None:
        self.items[p] = self.linkage.merge(self.items[left], self.items[right])


class RecordStore:
    """Summaries of records of any kind, by a linkage written in Python."""

    def __init__(self, linkage: Linkage):
        self.linkage, self.capacity = linkage, 0
        self.sums = ObjectSummaries(linkage, [], [], [])

    def grow(self, capacity: int) -> None:
        old, room = self.capacity, capacity - self.capacity

        def regrown(values: list[Any], fill: Any) -> list[Any]:
            return values[:old] + [fill] * room + values[old:] + [fill] * room

        s = self.sums
        self.sums = ObjectSummaries(
            self.linkage, regrown(s.items, None), regrown(s.bonds, float("nan")), regrown(s.stale, 0)
        )
        self.capacity = capacity

    def write(self, at: int, rows: Any) -> None:
        for i, record in enumerate(rows):
            self.sums.items[at + i] = self.linkage.leaf(record)

    def own_arrays(self) -> None:
        """Lists are always ours."""

    def forget_summaries(self) -> None:
        """Nothing to do: every write to the lists is undone one by one."""
