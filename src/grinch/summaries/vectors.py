"""Summaries of vectors: means and moments, for the formulas and for compiled linkages."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._types import Floats, Slots
from grinch.errors import LinkageError
from grinch.linkage.base import VectorLinkage
from grinch.linkage.vector import COUNT, LENGTH
from grinch.summaries.arrays import CUSTOM, GrowingArrays, new_arrays
from grinch.summaries.callbacks import FORMULA, LEAVES_AROUND

# Shorter vectors have no squared length in float32.
SHORTEST = 1e-18


def dense_rows(rows: Any) -> npt.NDArray[Any]:
    return np.asarray(rows.toarray() if scipy.sparse.issparse(rows) else rows)


class VectorSummaries(GrowingArrays):
    """The summaries of all nodes under a linkage on vectors, growing with the tree.

    ``is_undoable``: the linkage may fail in the middle of an insert.
    """

    _by_node: ClassVar[dict[str, float]] = {"means": 0, "moments": 0, **GrowingArrays._by_node}

    def __init__(self, linkage: VectorLinkage, n_features: int):
        super().__init__(new_arrays(n_features, CUSTOM if linkage.is_custom else linkage.formula))
        self.linkage, self.n_features, self.is_undoable = linkage, n_features, linkage.is_custom
        self.origin: Floats | None = None
        self.longest = 0.0
        self.is_whole = True
        self._find_formula()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._find_formula()

    def _find_formula(self) -> None:
        """Where the user's own function is differs from process to process."""
        calls = np.zeros(LEAVES_AROUND + 1, np.int64)
        if self.linkage.is_custom:
            calls[FORMULA] = self.linkage.formula.address
        self.arrays = self.arrays._replace(calls=calls)

    def failure(self) -> BaseException:
        """Why compiled code gave up."""
        return LinkageError("returned nan, which is no score", *self.arrays.blamed.tolist())

    def heard(self) -> AbstractContextManager[None]:
        """Compiled code calls nothing in Python."""
        return nullcontext()

    def write(self, at: int, rows: Any) -> None:
        """Put points into the leaf slots from ``at`` on, in the form the linkage works on."""
        self.arrays.gone[at : at + rows.shape[0]] = 0
        if self.linkage.is_euclidean and self.origin is None:
            self.origin = dense_rows(rows[:1])[0].astype(np.float64)
        # In pieces, so that a large input is never copied whole.
        for start in range(0, rows.shape[0], 4096):
            piece = dense_rows(rows[start : start + 4096])
            target = self.arrays.means[at + start : at + start + len(piece)]
            moments = self.arrays.moments[at + start : at + start + len(piece)]
            wide = piece.astype(np.float64)
            if self.origin is not None:
                wide -= self.origin
            lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
            if not self.linkage.is_spherical:
                # Too short for float32 to square: they count as zero vectors.
                wide[lengths < SHORTEST] = 0.0
                lengths[lengths < SHORTEST] = 0.0
            else:
                wide /= np.where(lengths > 0, lengths, 1.0)[:, None]
                lengths = np.where(lengths > 0, 1.0, 0.0)
            target[...] = wide
            self.is_whole = self.is_whole and bool((wide == np.rint(wide)).all())
            moments[...] = 0.0
            moments[:, COUNT] = 1.0
            moments[:, LENGTH] = lengths
            self.longest = max(self.longest, float(lengths.max(initial=0.0)))

    def lengths(self, leaves: Any) -> Floats:
        return self.arrays.moments[leaves, LENGTH]

    def drop(self, leaves: Slots) -> None:
        """Nothing to free: a slot stays until the tree is compacted."""
