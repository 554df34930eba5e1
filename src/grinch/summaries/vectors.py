"""Summaries of vectors: means and moments, for the formulas and for compiled linkages."""

from __future__ import annotations

import copy
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._types import Counts, Floats, Slots, Vectors32
from grinch.errors import LinkageError
from grinch.linkage.base import VectorLinkage
from grinch.linkage.vector import AVERAGE_SQEUCLIDEAN, COSINE, COUNT, FORMULAS, LENGTH
from grinch.saving.state import Fields, State, item, require
from grinch.summaries.arrays import CUSTOM, Arrays, GrowingArrays, new_arrays
from grinch.summaries.callbacks import FORMULA, N_CALLS
from grinch.summaries.frame import BOUND, PIECE, SHORTEST, Frame, row_lengths
from grinch.tree.links import USED, Links

FIELDS = Fields(n_features=int, longest=float, is_whole=bool, _unsaid=str)


def dense_rows(rows: Any) -> npt.NDArray[Any]:
    return np.asarray(rows.toarray() if scipy.sparse.issparse(rows) else rows)


def is_whole(rows: Vectors32) -> bool:
    """Return whether all entries are whole numbers, so that their products are exact up to a size."""
    return bool((rows == np.rint(rows)).all())


def _wide(rows: Any, is_of_roots: bool) -> Floats:
    """Rows in float64, or their square roots."""
    wide = dense_rows(rows).astype(np.float64)
    return np.sqrt(wide) if is_of_roots else wide


class StoredMeans(NamedTuple):
    """Copies of the summaries of some nodes."""

    means: Vectors32
    moments: Floats


class VectorSummaries(GrowingArrays):
    """The summaries of all nodes under a linkage on vectors, growing with the tree.

    ``is_undoable``: the linkage may fail in the middle of an insert.
    """

    _by_node: ClassVar[dict[str, float]] = {"means": 0, "moments": 0, **GrowingArrays._by_node}

    def __init__(self, linkage: VectorLinkage, n_features: int):
        super().__init__(new_arrays(n_features, CUSTOM if linkage.is_custom else linkage.formula))
        self.linkage, self.n_features, self.is_undoable = linkage, n_features, linkage.is_custom
        is_ours = not (linkage.is_custom or linkage.is_spherical)
        self.frame = Frame(n_features, moves=linkage.is_euclidean, scales=is_ours)
        self.longest = 0.0
        self.is_whole = True
        self._unsaid = ""
        self._find_formula()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._find_formula()
        self.place_origin()

    def _find_formula(self) -> None:
        """Where the user's own function is differs from process to process."""
        calls = np.zeros(N_CALLS, np.int64)
        if self.linkage.is_custom:
            calls[FORMULA] = self.linkage.formula.address
        self.arrays = self.arrays._replace(calls=calls)

    def to_state(self, links: Links | None = None) -> State:
        """Return what a file holds of the summaries; ``links`` is their tree, if they are those of one."""
        count = self.capacity if links is None else int(links.head[USED])
        found = {"part": "vector_summaries", "formula": self._formula_name(), **FIELDS.take(self)}
        return found | self._take_arrays() | {"frame": self.frame.to_state(count, self.n_features)}

    @classmethod
    def from_state(cls, state: Any, linkage: VectorLinkage) -> Self:
        """Return the summaries of a state under the linkage that they were made for."""
        found = FIELDS.new(cls, state)
        found.linkage, found.is_undoable = linkage, linkage.is_custom
        formula = item(state, "formula")
        require(formula == found._formula_name(), f"it was built by the formula {formula!r:.60}, not {linkage.name!r}")
        found._put_arrays(state, found.n_features, CUSTOM if linkage.is_custom else linkage.formula)
        found.frame = Frame.from_state(item(state, "frame"), found.n_features)
        found._find_formula()
        found.place_origin()
        return found

    def validate(self) -> None:
        """Refuse arrays that compiled code could not use."""
        self._validate_arrays()
        arrays = self.arrays
        require(arrays.means.shape == (2 * self.capacity, self.n_features), "vectors are not there for every node")
        require(arrays.moments.shape == (2 * self.capacity, 3), "vectors have no lengths")
        require(np.isfinite(arrays.means).all() and np.isfinite(arrays.moments).all(), "a vector is not finite")
        require(np.isfinite(self.longest) and self.longest >= 0, "the longest vector has no length")
        self.frame.validate(self.capacity)

    def _formula_name(self) -> str:
        return "custom" if self.linkage.is_custom else FORMULAS[self.linkage.formula]

    def failure(self) -> BaseException:
        """Why compiled code gave up."""
        return LinkageError("returned nan, which is no score", *self.arrays.blamed.tolist())

    def heard(self) -> AbstractContextManager[None]:
        """Compiled code calls nothing in Python."""
        return nullcontext()

    # Points come --------------------------------------------------------------------------------------------------

    def take(self, at: int, rows: Any) -> int:
        """Put points to come into the leaf slots from ``at`` on, as far as one frame reaches; how many that were.

        If none, call :meth:`move` and try again.
        """
        done, n, frame = 0, int(rows.shape[0]), self.frame
        frame.settle(at)
        while done < n:
            stop = min(n, frame.end_of_piece(at + done) - at)
            piece = _wide(rows[done:stop], self.linkage.is_of_roots)
            if not frame.keeps_origin(at + done, piece, self.arrays.gone):
                break
            self.place_origin()
            lengths = row_lengths(self._centre(piece))
            fitting = frame.count_scalable(lengths)
            if fitting:
                lengths = lengths[:fitting]
                self._put(at + done, piece[:fitting], lengths)
                self._note_stored(at + done, fitting)
                frame.longest = max(frame.longest, float(lengths.max()))
                self.arrays.gone[at + done : at + done + fitting] = 0
                self._warn(self._lost(at + done, lengths))
            done += fitting
            if fitting < len(piece):
                break
        return done

    def write(self, at: int, rows: Any) -> None:
        """Put points that are looked up into the leaf slots from ``at`` on; all that is known of the others stays."""
        n = int(rows.shape[0])
        for start in range(0, n, PIECE):
            piece = _wide(rows[start : start + PIECE], self.linkage.is_of_roots)
            lengths = row_lengths(self._centre(piece))
            self._put(at + start, piece, lengths)
        self.arrays.gone[at : at + n] = 0

    def move(self, count: int) -> None:
        """Change the frame as the row after the first ``count`` calls for: write these again, forget what is merged."""
        change, frame = self.frame.wanted, self.frame
        assert change is not None
        before, scale = self.arrays, frame.scale
        shift = 0.0 if change.origin is None else frame.origin - change.origin  # type: ignore[operator]
        starts = range(0, count, PIECE)

        def differences(start: int) -> Floats:
            """Rows as differences from the new origin: of those that were kept as they came, or of what is stored."""
            wide: Floats = before.means[start : min(start + PIECE, count)].astype(np.float64) / scale + shift
            if change.origin is not None:
                at, rows = frame.kept(start, start + len(wide))
                wide[at] = rows - change.origin
            return wide

        lengths = np.concatenate([row_lengths(differences(start)) for start in starts]) if count else np.zeros(0)
        # Into other arrays, for views go on with these.
        means, moments = (self.enlarge(old[:0], 0, self.capacity, 0) for old in (before.means, before.moments))
        self.arrays = before._replace(means=means, moments=moments)
        frame.move(change, lengths)
        self.place_origin()
        self.longest, self.is_whole = 0.0, True
        for start in starts:
            self._put(start, differences(start), lengths[start : start + PIECE])
            self._note_stored(start, len(lengths[start : start + PIECE]))
        self.forget()
        self._unsaid = self._lost(0, lengths)

    @property
    def origin(self) -> Floats | None:
        """Where vectors are measured from, where only differences count."""
        return self.frame.origin

    def place_origin(self) -> None:
        """Tell compiled code where vectors are measured from, where it asks."""
        if self.linkage.formula == AVERAGE_SQEUCLIDEAN and self.frame.origin is not None:
            origin = (self.frame.origin * self.frame.scale).astype(np.float32)
            if not np.array_equal(origin, self.arrays.origin):
                self.arrays = self.arrays._replace(origin=origin)

    def in_units(self, scores: Floats) -> Floats:
        """Scores of stored vectors in the user's units."""
        if self.frame.scale == 1.0 or self.linkage.formula == COSINE:
            return scores
        return scores / self.frame.scale / self.frame.scale

    def _centre(self, rows: Floats) -> Floats:
        """The same rows, from now on as differences from the origin."""
        if self.frame.origin is not None:
            rows -= self.frame.origin
        return rows

    def _put(self, at: int, wide: Floats, lengths: Floats) -> None:
        """Put vectors of these lengths in the form the linkage works on; ``wide`` is used up."""
        if self.linkage.is_spherical:
            wide /= np.where(lengths > 0, lengths, 1.0)[:, None]
            lengths = np.where(lengths > 0, 1.0, 0.0)
        else:
            if self.frame.scale != 1.0:
                wide *= self.frame.scale
                lengths = lengths * self.frame.scale
                # Only a point that is looked up, or was removed, may be longer: to all others it is as far as can be.
                too_long = lengths > BOUND
                wide[too_long] *= (BOUND / lengths[too_long])[:, None]
                lengths[too_long] = BOUND
            # Too short for float32 to square: they count as zero vectors.
            wide[lengths < SHORTEST] = 0.0
            lengths = np.where(lengths < SHORTEST, 0.0, lengths)
        self.arrays.means[at : at + len(wide)] = wide
        moments = self.arrays.moments[at : at + len(wide)]
        moments[...] = 0.0
        moments[:, COUNT] = 1.0
        moments[:, LENGTH] = lengths

    def _note_stored(self, at: int, count: int) -> None:
        """Note what searches need to know of all points, now that these are among them."""
        rows = slice(at, at + count)
        self.is_whole = self.is_whole and is_whole(self.arrays.means[rows])
        self.longest = max(self.longest, float(self.lengths(rows).max(initial=0.0)))

    def _lost(self, at: int, lengths: Floats) -> str:
        """Which of the vectors from slot ``at`` on are too short to be squared, and so count as zero: a warning."""
        is_lost = (lengths > 0) & (lengths * self.frame.scale < SHORTEST)
        if self.linkage.is_spherical or not is_lost.any():
            return ""
        first = int(np.argmax(is_lost))
        return (
            f"{is_lost.sum()} points count as zero vectors, too short for float32 to square beside the others: point"
            f" {at + first} (in order of arrival) is {lengths[first]:g} long. Scale the data, or drop the shortest or"
            " the longest"
        )

    def _warn(self, message: str) -> None:
        """Say it after all is in order: a warning may be made an error."""
        message, self._unsaid = message or self._unsaid, ""
        if message:
            warnings.warn(message, UserWarning, stacklevel=3)

    def compact(self, leaves: Slots, internal: Slots, capacity: int) -> None:
        """Keep these leaves and internal nodes only, under the numbers they have in the compacted tree."""
        super().compact(leaves, internal, capacity)
        self.frame.compacted(leaves)

    def lengths(self, leaves: Any) -> Floats:
        return self.arrays.moments[leaves, LENGTH]

    def squares(self, leaves: Any) -> Floats:
        """Squared lengths."""
        return self.lengths(leaves) ** 2

    def leaf_rows(self, count: int) -> Vectors32 | None:
        """The points in the first slots, where their distances count."""
        return self.arrays.means[:count] if self.linkage.is_euclidean else None

    def look(self, count: int) -> Counts | None:
        """A number for each of the first points, the same for those that the linkage can hardly tell apart."""
        found = np.empty(count, np.int64)
        factors = np.random.default_rng(0).integers(1, 2**62, self.n_features) | 1
        for start in range(0, count, 4096):
            rows = self.arrays.means[start : min(start + 4096, count)]
            if not self.linkage.is_euclidean:
                # A product of directions that differ by a 4,096th is 1 in float32; distances are not rounded so.
                rows = np.rint(rows * (2.0**12 / (self.longest or 1.0)))
            bits = np.ascontiguousarray(rows + 0.0, np.float32).view(np.int32)
            with np.errstate(over="ignore"):
                found[start : start + len(rows)] = (bits * factors).sum(axis=1)
        return found

    def frozen(self) -> Self:
        twin = super().frozen()
        twin.frame = copy.copy(self.frame)
        return twin

    def stored(self, nodes: Slots) -> StoredMeans:
        """Return copies of the summaries of internal nodes, as they are."""
        return StoredMeans(self.arrays.means[nodes], self.arrays.moments[nodes])

    def part(self, points: Slots, at: Slots, capacity: int) -> tuple[Arrays, Any]:
        """Return the arrays of a tree of its own: these points are its leaves ``at``, and of others nothing is known.

        Besides, whatever has to be there as long as they are used.
        """
        arrays = new_arrays(self.n_features, self.arrays.formula)
        means, moments = np.zeros((2 * capacity, self.n_features), np.float32), np.zeros((2 * capacity, 3))
        means[at], moments[at] = self.arrays.means[points], self.arrays.moments[points]
        calls, origin = self.arrays.calls, self.arrays.origin
        return arrays._replace(means=means, moments=moments, calls=calls, origin=origin), None

    @staticmethod
    def put_stored(arrays: Arrays, at: Slots, stored: StoredMeans, which: Slots) -> None:
        """Make some of the stored summaries those of the nodes ``at`` of a :meth:`part`."""
        arrays.means[at], arrays.moments[at] = stored.means[which], stored.moments[which]

    def drop(self, leaves: Slots) -> None:
        """Nothing to free: a slot stays until the tree is compacted."""
