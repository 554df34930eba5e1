"""Where stored vectors are measured from, and in what unit, so that float32 keeps their digits."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Self

import numpy as np

from grinch._types import Flags, Floats, Mask, Slots
from grinch.saving.state import Fields, State, are_within, array, optional_vector, require

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
# Rows kept as they came: all of them up to so many, then every second, every fourth, …
SAMPLE, SAMPLE_NUMBERS = 1024, 2**20
# From this many points on, rows that became equal are looked for.
COMPARED_FROM = 16
# Rows converted at a time, so that a large input is never copied whole.
PIECE = 4096
# Differences below this part of a row's length are taken for rounding, and not missed.
INPUT_ROUNDING = 2.0**-44


FIELDS = Fields(moves=bool, scales=bool, scale=float, longest=float, _most=int, _stride=int, _warned=bool)


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
        return FIELDS.take(self) | {"origin": self.origin, "positions": np.array(positions, np.int64), "rows": rows}

    @classmethod
    def from_state(cls, state: Any, n_features: int) -> Self:
        frame = FIELDS.new(cls, state)
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
        """There are this many rows; those noted beyond never came."""
        while self.positions and self.positions[-1] >= count:
            self.positions.pop()
            self.rows.pop()
        if count == 0:
            self.origin, self.longest = None, 0.0

    def end_of_piece(self, at: int) -> int:
        """Rows from ``at`` on may be written together up to here: the next row is looked at first."""
        return min(next_look(at + 2) - 1, at + PIECE) if self.moves else at + PIECE

    def keeps_origin(self, at: int, rows: Floats, gone: Flags) -> bool:
        """Whether the origin stays as it is for rows that come from position ``at`` on; if not, see ``wanted``.

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
        """How many rows, of these lengths, can be stored before the scale has to change; if not all, see ``wanted``."""
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
        """Positions and rows of the sample, without those that were taken out."""
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
        """Those of the rows between two positions that were kept as they came, counted from the first."""
        lo, hi = np.searchsorted(self.positions, [start, stop])
        return np.array(self.positions[lo:hi], np.intp) - start, np.array(self.rows[lo:hi]).reshape(hi - lo, -1)

    def compacted(self, leaves: Slots) -> None:
        """Only these rows are left, counted from 0."""
        at = np.searchsorted(leaves, self.positions)
        kept = [i for i, (new, old) in enumerate(zip(at, self.positions, strict=True)) if old in leaves[new : new + 1]]
        self.positions, self.rows = at[kept].tolist(), [self.rows[i] for i in kept]
        if not len(leaves):
            self.scale = 1.0


def better_origin(rows: Floats, origin: Floats) -> Floats | None:
    """The middle of some rows, if the origin is so far from it that most of them would lose digits."""
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
    """Whether the origin is looked at when there are this many rows: always while they are few, then four times until
    they are twice as many.
    """
    return count >= 3 and next_look(count) == count


def next_look(count: int) -> int:
    """The first look at this many rows or more."""
    if count <= 32:
        return max(count, 3)
    apart = 1 << (count.bit_length() - 3)
    return -(-count // apart) * apart


def fitting_scale(scale: float, lengths: Floats, longest: Floats) -> Floats:
    """The scale for rows of these lengths, where the longest so far is given, too: the one there is if it will do."""
    with np.errstate(divide="ignore", over="ignore"):
        most = np.minimum(ROOM / longest, LARGEST_SCALE)
        larger = np.maximum(_power_of_two(np.minimum(most, 1.0 / lengths)), scale)
    is_short = (lengths > 0) & (lengths * scale < TINY)
    return np.where(longest * scale > BOUND, _power_of_two(most), np.where(is_short, larger, scale))


def _power_of_two(values: Floats) -> Floats:
    """The largest power of two up to each."""
    return np.ldexp(1.0, np.frexp(values)[1] - 1)


def row_lengths(rows: Floats) -> Floats:
    """The length of each row, also of those whose squares vanish in float64."""
    lengths: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    short = np.flatnonzero(lengths < 1e-140)
    if len(short):
        units = np.ldexp(1.0, np.frexp(np.abs(rows[short]).max(axis=1, initial=0.0))[1])
        scaled = rows[short] / units[:, None]
        lengths[short] = np.sqrt(np.einsum("ij,ij->i", scaled, scaled)) * units
    return lengths


def _lower_median(values: Floats) -> Any:
    """Of each column a value that is there: so differences from it are as round as the data."""
    middle = (len(values) - 1) // 2
    return np.partition(values, middle, axis=0)[middle]


def _became_equal(rows: Floats, origin: Floats | None, scale: float) -> Mask:
    """Which rows are stored as an earlier one is, though they differ by more than the input was rounded by."""
    wide = rows if origin is None else rows - origin
    stored = (wide * scale).astype(np.float32) + np.float32(0)  # no -0
    first: dict[bytes, int] = {}
    earlier = np.array([first.setdefault(row.tobytes(), i) for i, row in enumerate(stored)], np.intp)
    sizes = np.maximum(row_lengths(rows), row_lengths(wide))
    return np.asarray(row_lengths(rows - rows[earlier]) > INPUT_ROUNDING * sizes)
