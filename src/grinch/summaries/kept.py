"""The points of a tree as its builder keeps them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from grinch._types import Floats, Slots
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.linkage.pairwise import Pairwise
from grinch.summaries.sparse import SparseSummaries
from grinch.summaries.vectors import VectorSummaries, dense_rows


class Kept(NamedTuple):
    """Points, and the linkage that compares them.

    ``rows`` are vectors (dense or sparse), each stored as (x − origin) · scale; or, under a linkage on records, a list
    of what the linkage makes of single records.
    """

    rows: Any
    linkage: VectorLinkage | Linkage
    origin: Floats | None = None
    scale: float = 1.0

    @property
    def is_vectors(self) -> bool:
        return isinstance(self.linkage, VectorLinkage) or is_over_vectors(self.linkage)

    def as_given(self) -> Any:
        """Return the vectors as they were before they were moved and scaled; what rounding made of 0 is 0 again."""
        if self.origin is None and self.scale == 1.0:
            return self.rows
        origin = np.zeros(self.rows.shape[1]) if self.origin is None else self.origin
        rows = self.rows / self.scale + origin
        longest = np.maximum(np.abs(origin), np.abs(rows).max(axis=0, initial=0.0))
        rows[np.abs(rows) <= 4 * np.finfo(np.float32).eps * longest] = 0.0
        return rows

    def taken(self, order: Slots) -> Kept:
        """The same points in another order."""
        return self._replace(rows=[self.rows[i] for i in order] if isinstance(self.rows, list) else self.rows[order])


def is_over_vectors(linkage: object) -> bool:
    """Whether a linkage written in Python is over the pairs of vectors, by a distance that scipy knows."""
    return isinstance(linkage, Pairwise) and isinstance(linkage.distance, str)


def kept_vectors(summaries: VectorSummaries | SparseSummaries, slots: Slots) -> Kept:
    """The vectors in some slots, as they are stored: as long as nothing changes if they are all the first ones."""
    if isinstance(summaries, SparseSummaries):
        return Kept(summaries.leaf_matrix(slots), summaries.linkage)
    n = len(slots)
    is_first = n == 0 or int(slots[-1]) == n - 1
    rows = summaries.arrays.means[:n] if is_first else summaries.arrays.means[slots]
    return Kept(rows, summaries.linkage, summaries.frame.origin, summaries.frame.scale)


def kept_rows(pieces: list[Any], linkage: VectorLinkage | Linkage) -> Kept:
    """Points as they were given, in pieces, for what keeps no summaries of them."""
    if isinstance(linkage, VectorLinkage) or is_over_vectors(linkage):
        if isinstance(linkage, VectorLinkage) and linkage.is_of_roots:
            pieces = [np.sqrt(piece) for piece in pieces]
        is_sparse = [scipy.sparse.issparse(piece) for piece in pieces]
        if pieces and all(is_sparse):
            return Kept(scipy.sparse.vstack(pieces, format="csr"), linkage)
        return Kept(np.concatenate([dense_rows(piece) for piece in pieces]), linkage)
    assert not isinstance(linkage, VectorLinkage)
    return Kept([linkage.leaf(record) for piece in pieces for record in piece], linkage)
