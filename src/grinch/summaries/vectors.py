"""Summaries of vectors: means and moments in arrays, by the formulas and for compiled linkages.

A :class:`Frame` is the origin that stored vectors are measured from and their unit, so that float32 keeps their digits.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._types import Counts, Flags, Floats, Ids, Mask, Slots, Vectors32
from grinch.linkage.base import Linkage
from grinch.linkage.named import AVERAGE_SQEUCLIDEAN, COSINE, COUNT, FORMULAS, LENGTH, VectorLinkage
from grinch.saving.state import Fields, State, are_within, array, item, optional_vector, require
from grinch.summaries.arrays import CUSTOM, Arrays, GrowingArrays, StoredPoints, is_over_vectors, new_arrays
from grinch.summaries.callbacks import FORMULA, N_CALLS
from grinch.tree.links import Links

# Two vectors of this length still have a finite dot product in float32.
LONGEST = 1e18
# Shorter ones have no squared length in float32.
SHORTEST = 1e-18
# The origin moves if it is farther from the middle of the points than this times their median distance from it: then
# float32 has fewer than 16 bits left for that distance.
FAR = 256
# A row that is stored shorter than TINY calls for a larger scale, one longer than BOUND for a smaller one; the longest
# row is not scaled beyond ROOM.
TINY, ROOM, BOUND = 2.0**-48, 2.0**56, 2.0**61
# Scores in the user's units are squares, which have to be numbers.
LARGEST_SCALE = 2.0**455
# Rows kept as they came: all of them up to a number, then every second, every fourth, …
SAMPLE, SAMPLE_NUMBERS = 1024, 2**20
# From this many points on, rows that became equal are looked for.
COMPARED_FROM = 16
# Rows converted at a time, so that a large input is never copied whole.
PIECE = 4096
# Differences below this part of a row's length are taken for rounding, and not missed.
INPUT_ROUNDING = 2.0**-44


FRAME_FIELDS = Fields(moves=bool, scales=bool, scale=float, longest=float, _most=int, _stride=int, _warned=bool)


class Change(NamedTuple):
    """An origin and a scale to go on with; no origin where only the scale changes."""

    origin: Floats | None
    scale: float


class Frame:
    """The origin and the scale of stored vectors: a row x is stored as (x − origin) · scale, rounded to float32.

    float32 has 24 bits. If the origin is far from the points, these are spent on the way there; so where only
    differences count (``moves``), the origin starts at the first row, and moves to the middle of the rows so far if
    most of them turn out to be far from it. If vectors are so short that their squares vanish in float32, they are
    scaled by a power of two, which changes no digit (``scales``).

    The same points in the same order must give the same tree in whatever batches they come. So the origin is looked
    at when the number of rows reaches certain counts, and depends on those rows alone; the scale depends on the rows
    up to the one that calls for it.

    A sample of the rows is kept as they came: the origin is found from it, and they are stored from it when the origin
    moves. It holds all of the first rows, so as long as there are no more than these, a move loses nothing.
    """

    def __init__(self, n_features: int, moves: bool, scales: bool):
        self.moves, self.scales = moves, scales
        self.origin: Floats | None = None
        self.scale = 1.0
        self.longest = 0.0
        """The length of the longest row, in the user's units."""
        self.wanted: Change | None = None
        """What the next row calls for."""
        self.positions: list[int] = []
        self.rows: list[Floats] = []
        self._most = min(SAMPLE, max(32, SAMPLE_NUMBERS // max(n_features, 1)))
        self._stride = 1
        self._warned = False

    def to_state(self, count: int, n_features: int) -> State:
        """Return the frame of the first ``count`` vectors: a fit that was interrupted may have noted others."""
        positions = [position for position in self.positions if position < count]
        rows = np.array(self.rows[: len(positions)], np.float64).reshape(len(positions), n_features)
        return FRAME_FIELDS.take(self) | {
            "origin": self.origin,
            "positions": np.array(positions, np.int64),
            "rows": rows,
        }

    @classmethod
    def from_state(cls, state: Any, n_features: int) -> Self:
        frame = FRAME_FIELDS.new(cls, state)
        frame.origin = optional_vector(state, "origin", n_features)
        rows = array(state, "rows", "<f8", 2)
        frame.positions = array(state, "positions", "<i8", 1).tolist()
        shape = len(frame.positions), n_features
        require(rows.shape == shape, f"vectors kept as they came have shape {rows.shape}, not {shape}")
        frame.rows, frame.wanted = list(rows), None
        return frame

    def validate(self, capacity: int) -> None:
        require(np.isfinite(self.scale) and self.scale > 0 and np.isfinite(self.longest), "vectors have no scale")
        require(self._most >= 1 and self._stride >= 1, "no vectors are kept as they came")
        require(self.origin is None or np.isfinite(self.origin).all(), "vectors have no origin")
        require(are_within(self.positions, 0, max(capacity, 1)), "vectors are kept of points that are not there")
        require((np.diff(np.array(self.positions, np.int64)) > 0).all(), "vectors kept as they came are out of order")

    # Rows come ----------------------------------------------------------------------------------------------------

    def settle(self, count: int) -> None:
        """Forget rows noted beyond this number, which never came."""
        while self.positions and self.positions[-1] >= count:
            self.positions.pop()
            self.rows.pop()
        if count == 0:
            self.origin, self.longest = None, 0.0

    def end_of_piece(self, at: int) -> int:
        """Return where rows that are written together from ``at`` on must end: the next row is looked at first."""
        return min(next_look(at + 2) - 1, at + PIECE) if self.moves else at + PIECE

    def keeps_origin(self, at: int, rows: Floats, gone: Flags) -> bool:
        """Return whether the origin stays as it is for rows that come from position ``at`` on; if not, see ``wanted``.

        They end where :meth:`end_of_piece` says, so only the first of them may be one to look at.
        """
        self.wanted = None
        if not self.moves:
            return True
        if self.origin is None:
            self.origin = rows[0].copy()
        self._note(at, rows[:1])
        if is_look(at + 1):
            middle = better_origin(self._present(gone)[1], self.origin)
            if middle is not None:
                self.wanted = Change(middle, self.scale)
                return False
            self._compare(at + 1, gone)
        self._note(at + 1, rows[1:])
        return True

    def count_scalable(self, lengths: Floats) -> int:
        """Return how many rows of these lengths can be stored before the scale changes; if not all, see ``wanted``."""
        stored = lengths * self.scale
        odd = np.flatnonzero((stored > BOUND) | ((stored > 0) & (stored < TINY)))
        if not self.scales or not len(odd):
            return len(lengths)
        longest = np.maximum(np.maximum.accumulate(lengths), self.longest)
        scales = fitting_scale(self.scale, lengths[odd], longest[odd])
        changing = np.flatnonzero(scales != self.scale)
        if not len(changing):
            return len(lengths)
        self.wanted = Change(None, float(scales[changing[0]]))
        return int(odd[changing[0]])

    def _note(self, at: int, rows: Floats) -> None:
        for i in range(-at % self._stride, len(rows), self._stride):
            if (at + i) % self._stride == 0:  # the stride may have grown
                self.positions.append(at + i)
                self.rows.append(rows[i].copy())
            if len(self.rows) > self._most:
                self._stride *= 2
                self.positions, self.rows = self.positions[::2], self.rows[::2]

    # Looking at the sample ----------------------------------------------------------------------------------------

    def _present(self, gone: Flags) -> tuple[Slots, Floats]:
        """Return positions and rows of the sample, without those that were taken out."""
        positions = np.array(self.positions, np.intp)
        here = np.flatnonzero(gone[positions] == 0)
        return positions[here], np.array([self.rows[i] for i in here])

    def _compare(self, count: int, gone: Flags) -> None:
        """Warn, once, if many rows that differ are stored as the same vector."""
        if count < COMPARED_FROM or count & (count - 1) or self._warned:
            return
        positions, rows = self._present(gone)
        same = positions[_became_equal(rows, self.origin, self.scale)]
        if len(same) < max(2, len(rows) // 8):
            return
        self._warned = True
        named = ", ".join(map(str, same[:5])) + (", …" if len(same) > 5 else "")
        warnings.warn(
            f"{len(same)} of {len(rows)} points looked at differ from others by less than float32 tells apart at their"
            f" distance from the rest, and count as equal to these: points {named} (in order of arrival). Cluster"
            " groups that are this far apart one by one, or scale the columns",
            UserWarning,
            stacklevel=2,
        )

    # Changes ------------------------------------------------------------------------------------------------------

    def move(self, change: Change, lengths: Floats) -> None:
        """Go on with another origin or scale, from which the rows there are have these lengths."""
        self.longest = float(lengths.max(initial=0.0))
        self.scale, self.wanted, self._warned = change.scale, None, False
        if change.origin is not None:
            self.origin = change.origin
            shortest = np.min(lengths, where=lengths > 0, initial=np.inf, keepdims=True)
            self.scale = float(fitting_scale(change.scale, shortest, np.array([self.longest]))[0])

    def kept(self, start: int, stop: int) -> tuple[Slots, Floats]:
        """Return those of the rows between two positions that were kept as they came, counted from the first."""
        lo, hi = np.searchsorted(self.positions, [start, stop])
        return np.array(self.positions[lo:hi], np.intp) - start, np.array(self.rows[lo:hi]).reshape(hi - lo, -1)

    def compacted(self, leaves: Slots) -> None:
        """Keep these rows only, numbered from 0."""
        at = np.searchsorted(leaves, self.positions)
        kept = [i for i, (new, old) in enumerate(zip(at, self.positions, strict=True)) if old in leaves[new : new + 1]]
        self.positions, self.rows = at[kept].tolist(), [self.rows[i] for i in kept]
        if not len(leaves):
            self.scale = 1.0


def better_origin(rows: Floats, origin: Floats) -> Floats | None:
    """Return the middle of some rows, if the origin is so far from it that most of them would lose digits."""
    if len(rows) < 3:
        return None
    middle: Floats = _lower_median(rows)
    gaps = row_lengths(rows - middle)
    if not gaps.any():
        return None
    reach = FAR * float(_lower_median(gaps[gaps > 0]))
    if row_lengths((origin - middle)[None])[0] <= reach:
        return None
    # Of two groups far from each other one has to lose; moving to and fro, both would.
    near = int((row_lengths(rows - origin) <= reach).sum())
    return middle if int((gaps <= reach).sum()) >= 2 * near else None


def is_look(count: int) -> bool:
    """Return whether the origin is looked at when there are this many rows.

    It always is while they are few, then four times until they are twice as many.
    """
    return count >= 3 and next_look(count) == count


def next_look(count: int) -> int:
    """Return the first look at this many rows or more."""
    if count <= 32:
        return max(count, 3)
    apart = 1 << (count.bit_length() - 3)
    return -(-count // apart) * apart


def fitting_scale(scale: float, lengths: Floats, longest: Floats) -> Floats:
    """Return the scale for rows of these lengths, given the longest so far; the present one if it will do."""
    with np.errstate(divide="ignore", over="ignore"):
        most = np.minimum(ROOM / longest, LARGEST_SCALE)
        larger = np.maximum(_power_of_two(np.minimum(most, 1.0 / lengths)), scale)
    is_short = (lengths > 0) & (lengths * scale < TINY)
    return np.where(longest * scale > BOUND, _power_of_two(most), np.where(is_short, larger, scale))


def _power_of_two(values: Floats) -> Floats:
    """Return the largest power of two up to each."""
    return np.ldexp(1.0, np.frexp(values)[1] - 1)


def row_lengths(rows: Floats) -> Floats:
    """Return the length of each row, also of those whose squares vanish in float64."""
    lengths: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    short = np.flatnonzero(lengths < 1e-140)
    if len(short):
        units = np.ldexp(1.0, np.frexp(np.abs(rows[short]).max(axis=1, initial=0.0))[1])
        scaled = rows[short] / units[:, None]
        lengths[short] = np.sqrt(np.einsum("ij,ij->i", scaled, scaled)) * units
    return lengths


def _lower_median(values: Floats) -> Any:
    """Return, of each column a value that is there: so differences from it are as round as the data."""
    middle = (len(values) - 1) // 2
    return np.partition(values, middle, axis=0)[middle]


def _became_equal(rows: Floats, origin: Floats | None, scale: float) -> Mask:
    """Return which rows are stored as an earlier one is, though they differ by more than the input was rounded by."""
    wide = rows if origin is None else rows - origin
    stored = (wide * scale).astype(np.float32) + np.float32(0)  # no -0
    first: dict[bytes, int] = {}
    earlier = np.array([first.setdefault(row.tobytes(), i) for i, row in enumerate(stored)], np.intp)
    sizes = np.maximum(row_lengths(rows), row_lengths(wide))
    return np.asarray(row_lengths(rows - rows[earlier]) > INPUT_ROUNDING * sizes)


FIELDS = Fields(n_features=int, longest=float, is_whole=bool, _unsaid=str)


def dense_rows(rows: Any) -> npt.NDArray[Any]:
    return np.asarray(rows.toarray() if scipy.sparse.issparse(rows) else rows)


def compared_bits(values: Vectors32, linkage: VectorLinkage, longest: float) -> Ids:
    """Return the bits of values as far as a linkage tells them apart; ``longest`` is the length of the longest row."""
    if not linkage.is_euclidean:
        # A product of directions that differ by a 4,096th is 1 in float32; distances are not rounded so.
        values = np.rint(values * (2.0**12 / (longest or 1.0)))
    return np.ascontiguousarray(values + 0.0, np.float32).view(np.int32)


def is_whole(rows: Vectors32) -> bool:
    """Return whether all entries are whole numbers, so that their products are exact up to a size."""
    return bool((rows == np.rint(rows)).all())


def _wide(rows: Any, is_of_roots: bool) -> Floats:
    """Return rows in float64, or their square roots."""
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
        """Look up the address of the user's own function, which differs from process to process."""
        calls = np.zeros(N_CALLS, np.int64)
        if self.linkage.is_custom:
            calls[FORMULA] = self.linkage.formula.address
        self.arrays = self.arrays._replace(calls=calls)

    def to_state(self, links: Links | None = None) -> State:
        """Return what a file holds of the summaries; ``links`` is their tree, if they are those of one."""
        count = self.capacity if links is None else links.n_slots
        found = {"part": "vector_summaries", "formula": self._formula_name(), **FIELDS.take(self)}
        return found | self._take_arrays() | {"frame": self.frame.to_state(count, self.n_features)}

    @classmethod
    def from_state(cls, state: Any, linkage: VectorLinkage) -> Self:
        """Return the summaries of a state under the linkage that they were made for."""
        found = FIELDS.new(cls, state)
        found.linkage, found.is_undoable = linkage, linkage.is_custom
        formula = item(state, "formula")
        require(formula == found._formula_name(), f"it was built by the formula {formula!r:.60}, not {linkage.name!r}")
        found.put_arrays(state, found.n_features, CUSTOM if linkage.is_custom else linkage.formula)
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
            """Return rows as differences from the new origin: exact ones where rows were kept as they came."""
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
        """The point that vectors are measured from, where only differences count."""
        return self.frame.origin

    def place_origin(self) -> None:
        """Set the origin for compiled code, where it asks."""
        if self.linkage.formula == AVERAGE_SQEUCLIDEAN and self.frame.origin is not None:
            origin = (self.frame.origin * self.frame.scale).astype(np.float32)
            if not np.array_equal(origin, self.arrays.origin):
                self.arrays = self.arrays._replace(origin=origin)

    def in_units(self, scores: Floats) -> Floats:
        """Return scores of stored vectors in the user's units."""
        if self.frame.scale == 1.0 or self.linkage.formula == COSINE:
            return scores
        return scores / self.frame.scale / self.frame.scale

    def _centre(self, rows: Floats) -> Floats:
        """Return the same rows, from now on as differences from the origin."""
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
        """Return a warning of vectors from slot ``at`` on that are too short to be squared, and so count as zero."""
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

    def squares(self, leaves: Any) -> Floats:
        """Return squared lengths."""
        return self.lengths(leaves) ** 2

    def leaf_rows(self, count: int) -> Vectors32 | None:
        """Return the points in the first slots, where their distances count."""
        return self.arrays.means[:count] if self.linkage.is_euclidean else None

    def look(self, count: int) -> Counts | None:
        found = np.empty(count, np.int64)
        factors = np.random.default_rng(0).integers(1, 2**62, self.n_features) | 1
        for start in range(0, count, 4096):
            rows = self.arrays.means[start : min(start + 4096, count)]
            bits = compared_bits(rows, self.linkage, self.longest)
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

    def points(self, slots: Slots) -> StoredPoints:
        """Return the points in some slots; not copied if these are the first ones, so valid until something changes."""
        n = len(slots)
        is_first = n == 0 or int(slots[-1]) == n - 1
        rows = self.arrays.means[:n] if is_first else self.arrays.means[slots]
        return StoredPoints(rows, self.linkage, self.frame.origin, self.frame.scale)


def stored_rows(pieces: list[Any], linkage: VectorLinkage | Linkage) -> StoredPoints:
    """Return points as they were given, in pieces, for builders that keep no summaries of them."""
    if isinstance(linkage, VectorLinkage) or is_over_vectors(linkage):
        if isinstance(linkage, VectorLinkage) and linkage.is_of_roots:
            pieces = [np.sqrt(piece) for piece in pieces]
        if pieces and all(scipy.sparse.issparse(piece) for piece in pieces):
            return StoredPoints(scipy.sparse.vstack(pieces, format="csr"), linkage)
        return StoredPoints(np.concatenate([dense_rows(piece) for piece in pieces]), linkage)
    assert not isinstance(linkage, VectorLinkage)
    return StoredPoints([linkage.leaf(record) for piece in pieces for record in piece], linkage)
