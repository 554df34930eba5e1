"""Summaries of sparse vectors: means as rows of their entries, and moments; never a dense copy.

Leaves are rows one after the other in two arrays, as in a CSR matrix. The rows of internal nodes change in length with
every move, so each has a block of memory of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._types import Counts, Floats, Ids, Slots, Vectors32
from grinch.linkage.base import VectorLinkage
from grinch.linkage.sparse import N_MOMENTS, SQUARE
from grinch.linkage.vector import COUNT, FORMULAS, LENGTH
from grinch.saving.state import Fields, State, item, require
from grinch.summaries import memory
from grinch.summaries.arrays import Arrays, GrowingArrays, new_arrays
from grinch.summaries.counters import new_counts
from grinch.summaries.frame import SHORTEST
from grinch.summaries.saved_sparse import PIECE, put_rows, rows_to_state, validate_sparse
from grinch.summaries.sparse_rows import gather_rows
from grinch.summaries.vectors import is_whole
from grinch.tree.links import NO_LIMIT, Links

# A row is spread out over all columns to meet many others, if there are no more columns than this.
MOST_SPREAD_OUT = 2**24
# The squares of entries of shorter rows are rounded to a few digits, or to 0.
TOO_SHORT = 1e-150
FIELDS = Fields(n_features=int, longest=float, is_whole=bool, longest_row=int)


# What states of sparse vectors call themselves.
PART = "sparse_summaries"
EnlargeEntries = Callable[[npt.NDArray[Any], int], npt.NDArray[Any]]
"""What :func:`enlarged_entries` does."""


def enlarged_entries(old: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    """The same numbers, with room for so many."""
    new = np.empty(room, old.dtype)
    new[: len(old)] = old
    return new


def _lengths(values: Floats, of_row: Slots, n_rows: int) -> Floats:
    return np.asarray(np.sqrt(np.bincount(of_row, values * values, n_rows)), np.float64)


def sparse_rows(rows: Any) -> Any:
    return rows if scipy.sparse.issparse(rows) else scipy.sparse.csr_matrix(np.asarray(rows))


class StoredEntries(NamedTuple):
    """Copies of the summaries of some nodes: the entries of their rows, one after the other."""

    moments: Floats
    sizes: Ids
    columns: Ids
    values: Vectors32


class SparseSummaries(GrowingArrays):
    """The summaries of all nodes under a linkage on sparse vectors, growing with the tree.

    Rows come as CSR matrices with columns in ascending order, each once.
    """

    _by_node: ClassVar[dict[str, float]] = {"moments": 0, "row_starts": 0, "row_sizes": 0, **GrowingArrays._by_node}
    # Memory may run out in the middle of an insert.
    is_undoable = True
    origin = None
    scale = 1.0

    def __init__(self, linkage: VectorLinkage, n_features: int):
        arrays = new_arrays(0, linkage.formula)._replace(moments=np.zeros((0, N_MOMENTS)), calls=memory.addresses())
        super().__init__(arrays)
        self.linkage, self.n_features = linkage, n_features
        self.longest, self.is_whole, self.longest_row = 0.0, True, 0
        self.enlarge_entries: EnlargeEntries = enlarged_entries
        """How the entries of leaves get more room: in memory, unless somebody has another place for them."""
        self.blocks = memory.OwnedBlocks()

    def __getstate__(self) -> dict[str, Any]:
        """Addresses mean nothing elsewhere: the rows of internal nodes come along instead."""
        state = {name: value for name, value in vars(self).items() if name != "blocks"}
        columns, values = self.internal_rows()
        state["arrays"] = self.arrays._replace(spread_out=self.arrays.spread_out[:0])
        return {**state, "internal": (columns, values)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        columns, values = state.pop("internal")
        vars(self).update(state)
        self.blocks = memory.OwnedBlocks()
        self.arrays = self.arrays._replace(calls=memory.addresses(), row_starts=self.arrays.row_starts.copy())
        self.put_internal_rows(columns, values)
        self.make_scratch()

    def to_state(self, links: Links) -> State:
        """Return what a file holds of the summaries of a tree."""
        found = {"part": PART, "formula": FORMULAS[self.arrays.formula], **FIELDS.take(self), **self._take_arrays()}
        return found | {"rows": rows_to_state(self, links)}

    @classmethod
    def from_state(cls, state: Any, linkage: VectorLinkage, links: Links, most_entries: int) -> Self:
        """Return the summaries of a tree under the linkage that they were made for."""
        found, formula = FIELDS.new(cls, state), item(state, "formula")
        is_right = not linkage.is_custom and formula == FORMULAS[linkage.formula]
        require(is_right, f"it was built by the formula {formula!r:.60}, not {linkage.name!r}")
        found.linkage, found.enlarge_entries = linkage, enlarged_entries
        found._put_arrays(state, 0, linkage.formula)
        found.arrays = found.arrays._replace(most_entries=most_entries)
        put_rows(found, item(state, "rows"), links)
        return found

    def validate(self, n: int = 0) -> None:
        """Refuse arrays that compiled code could not use; there are ``n`` points."""
        self._validate_arrays()
        require(self.arrays.means.shape == (0, 0), "sparse vectors have dense ones")
        validate_sparse(self, n)

    def failure(self) -> BaseException:
        """Why compiled code gave up."""
        return MemoryError("no memory is left for summaries of sparse vectors; nothing of the last point was kept")

    def heard(self) -> AbstractContextManager[None]:
        """Compiled code calls nothing in Python."""
        return nullcontext()

    # Points come --------------------------------------------------------------------------------------------------

    def take(self, at: int, rows: Any) -> int:
        """Put points to come into the leaf slots from ``at`` on; how many."""
        rows = sparse_rows(rows)
        if rows.shape[1] > self.n_features:
            self.n_features = rows.shape[1]
        arrays, start = self.arrays, self.end_of(at)
        sizes = np.diff(rows.indptr)
        self._make_room(start + int(sizes.sum()))
        _, lengths = self._put(at, rows, start, self.arrays.leaf_columns, self.arrays.leaf_values)
        self.longest = max(self.longest, float(lengths.max(initial=0.0)))
        self.is_whole = self.is_whole and is_whole(self.arrays.leaf_values[start : start + int(sizes.sum())])
        arrays.gone[at : at + len(sizes)] = 0
        self.longest_row = max(self.longest_row, int(sizes.max(initial=0)))
        self.make_scratch()
        self._warn_of_lost(at, lengths)
        return len(sizes)

    def write(self, at: int, rows: Any) -> None:
        """Put points that are looked up into the leaf slots from ``at`` on: their entries are apart from all others."""
        rows = sparse_rows(rows)
        n = int(rows.indptr[-1] - rows.indptr[0])
        self.arrays = self.arrays._replace(query_columns=np.empty(n, np.int32), query_values=np.empty(n, np.float32))
        starts, _ = self._put(at, rows, 0, self.arrays.query_columns, self.arrays.query_values)
        self.arrays.row_starts[at : at + len(starts)] = -1 - starts
        self.arrays.gone[at : at + len(starts)] = 0

    def move(self, count: int) -> None:
        raise AssertionError("sparse vectors stay as they are")

    def in_units(self, scores: Floats) -> Floats:
        """Scores of stored vectors in the user's units: they are stored as they are."""
        return scores

    def end_of(self, count: int) -> int:
        """Where the entries of the first ``count`` leaves end."""
        return int(self.arrays.row_starts[count - 1] + self.arrays.row_sizes[count - 1]) if count else 0

    def _make_room(self, n: int) -> None:
        old = len(self.arrays.leaf_columns)
        if n > old:
            room = max(n, old + old // 4)
            self.arrays = self.arrays._replace(
                leaf_columns=self.enlarge_entries(self.arrays.leaf_columns, room),
                leaf_values=self.enlarge_entries(self.arrays.leaf_values, room),
            )

    def _put(self, at: int, rows: Any, start: int, columns: Ids, values: Vectors32) -> tuple[Counts, Floats]:
        """Put rows in the form the linkage works on; where each starts, and how long each is."""
        arrays, n = self.arrays, rows.shape[0]
        starts = start + (rows.indptr[:-1] - rows.indptr[0]).astype(np.int64)
        lengths, squares = np.empty(n), np.empty(n)
        for first in range(0, n, PIECE):
            piece = rows[first : first + PIECE]
            part = slice(first, first + PIECE)
            wide, lengths[part], squares[part] = self._formed(piece)
            here = slice(int(starts[first]), int(starts[first]) + len(wide))
            columns[here], values[here] = piece.indices, wide
        arrays.row_starts[at : at + n], arrays.row_sizes[at : at + n] = starts, np.diff(rows.indptr)
        moments = arrays.moments[at : at + n]
        moments[...] = 0.0
        moments[:, COUNT] = 1.0
        moments[:, SQUARE], moments[:, LENGTH] = squares, np.sqrt(squares)
        return starts, lengths

    def _formed(self, piece: Any) -> tuple[Floats, Floats, Floats]:
        """The values of rows as the linkage works on them; lengths as they come, and squared as formed."""
        wide = piece.data.astype(np.float64)
        if self.linkage.is_of_roots:
            wide = np.sqrt(wide)
        of_row = np.repeat(np.arange(piece.shape[0]), np.diff(piece.indptr))
        lengths = _lengths(wide, of_row, piece.shape[0])
        if self.linkage.is_spherical:
            is_lost = lengths < TOO_SHORT
            if is_lost.any():
                # Their squares are 0: as parts of their largest entry they are not.
                largest = np.ones(piece.shape[0])
                largest[is_lost] = 0.0
                np.maximum.at(largest, of_row[is_lost[of_row]], np.abs(wide[is_lost[of_row]]))
                largest[largest == 0.0] = 1.0
                wide = wide / largest[of_row]
                lengths = _lengths(wide, of_row, piece.shape[0])
            unit = np.divide(wide, lengths[of_row], out=np.zeros(len(wide)), where=lengths[of_row] > 0)
            return unit, lengths, (lengths > 0).astype(np.float64)
        # As they are stored: the length of a row has to be that of its entries to the last digit.
        stored = wide.astype(np.float32).astype(np.float64)
        squares: Any = np.bincount(of_row, stored * stored, piece.shape[0])
        return stored, lengths, squares

    def _warn_of_lost(self, at: int, lengths: Floats) -> None:
        """Rows too short to be squared count as zero vectors."""
        is_lost = (lengths > 0) & (lengths < SHORTEST)
        if not self.linkage.is_spherical and is_lost.any():
            first = int(np.argmax(is_lost))
            warnings.warn(
                f"{is_lost.sum()} sparse points are too short for float32 to square and count as zero vectors: point"
                f" {at + first} (in order of arrival) is {lengths[first]:g} long. Scale the data",
                UserWarning,
                stacklevel=3,
            )

    # Room ---------------------------------------------------------------------------------------------------------

    def grow(self, capacity: int) -> None:
        super().grow(capacity)
        self.blocks.hold(self.arrays.row_starts, capacity)

    def compact(self, leaves: Slots, internal: Slots, capacity: int) -> None:
        """Keep these leaves and internal nodes only, under the numbers they have in the compacted tree."""
        rows, dropped = self.leaf_matrix(leaves), self.arrays.row_starts.copy()
        dropped[: self.capacity], dropped[internal] = 0, 0
        super().compact(leaves, internal, capacity)
        starts = rows.indptr[:-1].astype(np.int64)
        self.arrays.row_starts[: len(leaves)] = starts
        self.arrays = self.arrays._replace(leaf_columns=rows.indices.astype(np.int32), leaf_values=rows.data)
        self.blocks.hold(self.arrays.row_starts, capacity)
        # Only now: if memory had run out on the way, they would still be in use.
        memory.release(dropped)

    def make_scratch(self) -> None:
        """Scratch space for the rows there are: for one over all columns, and for two that are put together."""
        arrays, most = self.arrays, self.arrays.most_entries
        longest = self.n_features if most == NO_LIMIT else 2 * max(most, self.longest_row)
        united = min(longest, self.n_features)
        spread_out = self.n_features if self.n_features <= MOST_SPREAD_OUT else 0
        if len(arrays.united_columns) < united or len(arrays.spread_out) != spread_out:
            self.arrays = arrays._replace(
                spread_out=np.zeros(spread_out, np.float32),
                united_columns=np.empty(united, np.int32),
                united_values=np.empty(united, np.float32),
                united_sizes=np.empty(united, np.float32),
            )

    def own_arrays(self) -> bool:
        owned = super().own_arrays()
        self.blocks.hold(self.arrays.row_starts, self.capacity)
        return owned

    # What there is ------------------------------------------------------------------------------------------------

    def lengths(self, leaves: Any) -> Floats:
        return self.arrays.moments[leaves, LENGTH]

    def squares(self, leaves: Any) -> Floats:
        """Squared lengths."""
        return self.arrays.moments[leaves, SQUARE]

    def leaf_matrix(self, leaves: Slots) -> Any:
        """The rows in some slots, as a CSR matrix of their own."""
        arrays = self.arrays
        sizes, starts = arrays.row_sizes[leaves].astype(np.int64), arrays.row_starts[leaves]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        at = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], sizes)
        return scipy.sparse.csr_matrix(
            (arrays.leaf_values[at], arrays.leaf_columns[at], indptr), shape=(len(leaves), self.n_features), copy=False
        )

    def leaf_rows(self, count: int) -> Any:
        """The points in the first slots, where their distances count."""
        return self.leaf_matrix(np.arange(count)) if self.linkage.is_euclidean else None

    def look(self, count: int) -> Counts | None:
        """A number for each of the first points, the same for those that the linkage can hardly tell apart."""
        found = np.zeros(count, np.int64)
        factors = np.random.default_rng(0).integers(1, 2**62, self.n_features) | 1
        for first in range(0, count, PIECE):
            rows = self.leaf_matrix(np.arange(first, min(first + PIECE, count)))
            values = rows.data
            if not self.linkage.is_euclidean:
                # A product of directions that differ by a 4,096th is 1 in float32; distances are not rounded so.
                values = np.rint(values * (2.0**12 / (self.longest or 1.0)))
            bits = np.ascontiguousarray(values + 0.0, np.float32).view(np.int32)
            of_row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
            with np.errstate(over="ignore"):
                np.add.at(found, first + of_row, bits * factors[rows.indices])
        return found

    def frozen(self) -> Self:
        twin = super().frozen()
        twin.blocks = memory.OwnedBlocks()
        return twin

    def stored(self, nodes: Slots) -> StoredEntries:
        """Return copies of the summaries of internal nodes, as they are."""
        return StoredEntries(self.arrays.moments[nodes], self.arrays.row_sizes[nodes], *self.rows_of(nodes))

    def part(self, points: Slots, at: Slots, capacity: int) -> tuple[Arrays, Any]:
        """Return the arrays of a tree of its own: these points are its leaves ``at``, and of others nothing is known.

        Besides, what owns the rows of internal nodes as long as they are used.
        """
        whole, united = self.arrays, len(self.arrays.united_columns)
        starts, sizes = np.zeros(2 * capacity, np.int64), np.zeros(2 * capacity, np.int32)
        moments = np.zeros((2 * capacity, N_MOMENTS))
        starts[at], sizes[at], moments[at] = whole.row_starts[points], whole.row_sizes[points], whole.moments[points]
        owner = memory.OwnedBlocks()
        owner.hold(starts, capacity)
        arrays = whole._replace(
            moments=moments,
            row_starts=starts,
            row_sizes=sizes,
            spread_out=np.zeros(0, np.float32),
            united_columns=np.empty(united, np.int32),
            united_values=np.empty(united, np.float32),
            united_sizes=np.empty(united, np.float32),
            counted=np.zeros(0, np.int32),
            changes=np.zeros(0, np.int32),
            counts=new_counts(),
            lag=0,
        )
        return arrays, owner

    @staticmethod
    def put_stored(arrays: Arrays, at: Slots, stored: StoredEntries, which: Slots) -> None:
        """Make some of the stored summaries those of the nodes ``at`` of a :meth:`part`."""
        ends = np.cumsum(stored.sizes, dtype=np.int64)
        arrays.moments[at], arrays.row_sizes[at] = stored.moments[which], stored.sizes[which]
        for node, i in zip(at.tolist(), which.tolist(), strict=True):
            here = slice(int(ends[i] - stored.sizes[i]), int(ends[i]))
            arrays.row_starts[node] = memory.new_block(stored.columns[here], stored.values[here])

    def drop(self, leaves: Slots) -> None:
        """Nothing to free: a slot stays until the tree is compacted."""

    # Rows of internal nodes ---------------------------------------------------------------------------------------

    def rows_of(self, nodes: Slots) -> tuple[Ids, Vectors32]:
        """The entries of some nodes, one after the other."""
        total = int(self.arrays.row_sizes[nodes].sum(dtype=np.int64))
        columns, values = np.empty(total, np.int32), np.empty(total, np.float32)
        gather_rows(self.arrays, nodes, columns, values)
        return columns, values

    def internal_rows(self) -> tuple[Ids, Vectors32]:
        """The entries of all internal nodes, one after the other."""
        return self.rows_of(np.arange(self.capacity, 2 * self.capacity))

    def put_internal_rows(self, columns: Ids, values: Vectors32) -> None:
        """Take over what :meth:`internal_rows` says, by ``row_sizes``."""
        starts, sizes = self.arrays.row_starts[self.capacity :], self.arrays.row_sizes[self.capacity :]
        starts[:] = 0
        self.blocks.hold(self.arrays.row_starts, self.capacity)
        ends = np.cumsum(sizes, dtype=np.int64)
        for i in np.flatnonzero(sizes).tolist():
            here = slice(int(ends[i] - sizes[i]), int(ends[i]))
            starts[i] = memory.new_block(columns[here], values[here])
