"""Summaries of sparse vectors: means as rows of their entries, and moments; never a dense copy.

Leaves are rows one after the other in two arrays, as in a CSR matrix. The rows of internal nodes change in length with
every move, so each has a block of memory of its own.

A file has the rows of all points. The row of an internal node is nearly always what the rows of its children give, to
the last bit, and is made again from them. Rows that are not, of large nodes that lag behind, are written as they are;
those that are out of date are not written at all. The functions for that round in one way on every processor.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._compile import entry, jitable
from grinch._types import Counts, Flags, Floats, Ids, Slots, Vectors32, as_id
from grinch._vectors import Entries
from grinch.linkage.named import COUNT, FORMULAS, LENGTH, VectorLinkage
from grinch.linkage.sparse import N_MOMENTS, SQUARE
from grinch.saving.state import Fields, State, are_within, item, require
from grinch.summaries.arrays import (
    LARGE,
    STALE,
    Arrays,
    GrowingArrays,
    StoredPoints,
    new_arrays,
    new_counts,
    put_row,
    row_of,
    unite_rows,
)
from grinch.summaries.callbacks import LinkageFailed, OwnedBlocks, addresses, float32_at, int32_at, new_block, release
from grinch.summaries.vectors import SHORTEST, compared_bits, is_whole
from grinch.tree.checks import validate_links
from grinch.tree.links import LEFT, NO_LIMIT, NONE, RIGHT, SIZE, Links

# A row is spread out over all columns to meet many others, if there are no more columns than this.
MAX_SPREAD_OUT = 2**24
# The squares of entries of shorter rows are rounded to a few digits, or to 0.
TOO_SHORT = 1e-150
FIELDS = Fields(n_features=int, longest=float, is_whole=bool, longest_row=int)


# What states of sparse vectors call themselves.
PART = "sparse_summaries"
EnlargeEntries = Callable[[npt.NDArray[Any], int], npt.NDArray[Any]]
"""What :func:`enlarged_entries` does."""


def enlarged_entries(old: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    """Return a copy with room for this many numbers."""
    new = np.empty(room, old.dtype)
    new[: len(old)] = old
    return new


def _lengths(values: Floats, of_row: Slots, n_rows: int) -> Floats:
    return np.asarray(np.sqrt(np.bincount(of_row, values * values, n_rows)), np.float64)


def sparse_rows(rows: Any) -> Any:
    return rows if scipy.sparse.issparse(rows) else scipy.sparse.csr_matrix(np.asarray(rows))


def union_scratch(n: int) -> dict[str, Any]:
    """Return scratch space for two rows that are put together into one of up to ``n`` entries, by field of Arrays."""
    return {
        "united_columns": np.empty(n, np.int32),
        "united_values": np.empty(n, np.float32),
        "united_sizes": np.empty(n, np.float32),
    }


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
        arrays = new_arrays(0, linkage.formula)._replace(moments=np.zeros((0, N_MOMENTS)), calls=addresses())
        super().__init__(arrays)
        self.linkage, self.n_features = linkage, n_features
        self.longest, self.is_whole, self.longest_row = 0.0, True, 0
        self.enlarge_entries: EnlargeEntries = enlarged_entries
        """The function by which entries of leaves get more room: in memory, unless a store keeps them in files."""
        self.blocks = OwnedBlocks()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, with the rows of internal nodes in place of their addresses."""
        state = {name: value for name, value in vars(self).items() if name != "blocks"}
        state["arrays"] = self.arrays._replace(spread_out=self.arrays.spread_out[:0])
        return {**state, "internal": self.stored(self._internal())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        stored = state.pop("internal")
        vars(self).update(state)
        self.blocks, starts, internal = OwnedBlocks(), self.arrays.row_starts.copy(), self._internal()
        starts[internal] = 0
        self.arrays = self.arrays._replace(calls=addresses(), row_starts=starts)
        self.blocks.hold(starts, self.capacity)
        self.put_stored(self.arrays, internal, stored, internal - self.capacity)
        self.make_scratch()

    def _internal(self) -> Slots:
        return np.arange(self.capacity, 2 * self.capacity)

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
        found.put_arrays(state, 0, linkage.formula)
        found.arrays = found.arrays._replace(most_entries=most_entries)
        put_rows(found, item(state, "rows"), links)
        return found

    def validate(self, n: int = 0) -> None:
        """Refuse arrays that compiled code could not use; there are ``n`` points."""
        self._validate_arrays()
        require(self.arrays.means.shape == (0, 0), "sparse vectors have dense ones")
        validate_sparse(self, n)

    def failure(self) -> BaseException:
        """Return why compiled code gave up."""
        return MemoryError("no memory is left for summaries of sparse vectors; nothing of the last point was kept")

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

    def end_of(self, count: int) -> int:
        """Return where the entries of the first ``count`` leaves end."""
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
        """Return the values of rows as the linkage works on them; lengths as they come, and squared as formed."""
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
        """Warn of rows too short to be squared, which count as zero vectors."""
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
        release(dropped)

    def make_scratch(self) -> None:
        """Make scratch space for the rows there are: for one over all columns, and for two that are put together."""
        arrays, most = self.arrays, self.arrays.most_entries
        longest = self.n_features if most == NO_LIMIT else 2 * max(most, self.longest_row)
        united = min(longest, self.n_features)
        spread_out = self.n_features if self.n_features <= MAX_SPREAD_OUT else 0
        if len(arrays.united_columns) < united or len(arrays.spread_out) != spread_out:
            self.arrays = arrays._replace(spread_out=np.zeros(spread_out, np.float32), **union_scratch(united))

    def own_arrays(self) -> bool:
        owned = super().own_arrays()
        self.blocks.hold(self.arrays.row_starts, self.capacity)
        return owned

    # What there is ------------------------------------------------------------------------------------------------

    def squares(self, leaves: Any) -> Floats:
        """Return squared lengths."""
        return self.arrays.moments[leaves, SQUARE]

    def leaf_matrix(self, leaves: Slots) -> Any:
        """Return the rows in some slots, as a CSR matrix of their own."""
        arrays = self.arrays
        sizes, starts = arrays.row_sizes[leaves].astype(np.int64), arrays.row_starts[leaves]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        at = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], sizes)
        return scipy.sparse.csr_matrix(
            (arrays.leaf_values[at], arrays.leaf_columns[at], indptr), shape=(len(leaves), self.n_features), copy=False
        )

    def points(self, slots: Slots) -> StoredPoints:
        """Return the points in some slots."""
        return StoredPoints(self.leaf_matrix(slots), self.linkage)

    def leaf_rows(self, count: int) -> Any:
        """Return the points in the first slots, where their distances count."""
        return self.leaf_matrix(np.arange(count)) if self.linkage.is_euclidean else None

    def look(self, count: int) -> Counts | None:
        found = np.zeros(count, np.int64)
        factors = np.random.default_rng(0).integers(1, 2**62, self.n_features) | 1
        for first in range(0, count, PIECE):
            rows = self.leaf_matrix(np.arange(first, min(first + PIECE, count)))
            bits = compared_bits(rows.data, self.linkage, self.longest)
            of_row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
            with np.errstate(over="ignore"):
                np.add.at(found, first + of_row, bits * factors[rows.indices])
        return found

    def frozen(self) -> Self:
        twin = super().frozen()
        twin.blocks = OwnedBlocks()
        return twin

    def stored(self, nodes: Slots) -> StoredEntries:
        """Return copies of the summaries of internal nodes, as they are."""
        return StoredEntries(self.arrays.moments[nodes], self.arrays.row_sizes[nodes], *self.rows_of(nodes))

    def part(self, points: Slots, at: Slots, capacity: int) -> tuple[Arrays, Any]:
        """Return the arrays of a tree of its own: these points are its leaves ``at``, and of others nothing is known.

        Besides, what owns the rows of internal nodes as long as they are used.
        """
        whole = self.arrays
        starts, sizes = np.zeros(2 * capacity, np.int64), np.zeros(2 * capacity, np.int32)
        moments = np.zeros((2 * capacity, N_MOMENTS))
        starts[at], sizes[at], moments[at] = whole.row_starts[points], whole.row_sizes[points], whole.moments[points]
        owner = OwnedBlocks()
        owner.hold(starts, capacity)
        arrays = whole._replace(
            moments=moments,
            row_starts=starts,
            row_sizes=sizes,
            spread_out=np.zeros(0, np.float32),
            **union_scratch(len(whole.united_columns)),
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
            arrays.row_starts[node] = new_block(stored.columns[here], stored.values[here])

    # Rows of internal nodes ---------------------------------------------------------------------------------------

    def rows_of(self, nodes: Slots) -> tuple[Ids, Vectors32]:
        """Return the entries of some nodes, one after the other."""
        total = int(self.arrays.row_sizes[nodes].sum(dtype=np.int64))
        columns, values = np.empty(total, np.int32), np.empty(total, np.float32)
        gather_rows(self.arrays, nodes, columns, values)
        return columns, values


# Rows that are looked at together.
PIECE = 4096
ROWS = Fields(
    leaf_sizes=("<i4", 1),
    leaf_columns=("<i4", 1),
    leaf_values=("<f4", 1),
    is_apart=("|u1", 1),
    apart_sizes=("<i4", 1),
    apart_columns=("<i4", 1),
    apart_values=("<f4", 1),
)


def rows_kept(table: Ids, stale: Flags) -> Flags:
    """Return which internal nodes have a summary that may be read before it is computed again."""
    n = len(table) // 2
    is_outdated = (stale[n:] & STALE != 0) & (stale[n:] & LARGE == 0)
    return ((table[n:, SIZE] != NONE) & ~is_outdated).astype(np.uint8)


def starts_of(sizes: npt.NDArray[Any]) -> Counts:
    """Return where rows of these sizes start, one after the other; last, where they end."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def rows_to_state(summaries: SparseSummaries, links: Links) -> State:
    """Return the rows of the points of a tree, and those of other nodes that do not follow from them."""
    arrays, capacity, n = summaries.arrays, summaries.capacity, links.n_slots
    sizes, end = np.zeros(capacity, np.int32), summaries.end_of(n)
    sizes[:n] = arrays.row_sizes[:n]
    is_apart = np.zeros(capacity, np.uint8)
    # With scratch space of its own, for others may be reading.
    apart_from = arrays._replace(**union_scratch(len(arrays.united_columns)))
    find_apart(apart_from, links.table, rows_kept(links.table, arrays.stale), is_apart)
    apart = capacity + np.flatnonzero(is_apart)
    columns, values = summaries.rows_of(apart)
    return {
        "leaf_sizes": sizes,
        "leaf_columns": arrays.leaf_columns[:end],
        "leaf_values": arrays.leaf_values[:end],
        "is_apart": is_apart,
        "apart_sizes": arrays.row_sizes[apart],
        "apart_columns": columns,
        "apart_values": values,
    }


def put_rows(summaries: SparseSummaries, state: Any, links: Links) -> None:
    """Give summaries that have all else the rows of their nodes."""
    validate_links(links)
    kept = ROWS.read(state)
    arrays, capacity, n = summaries.arrays, summaries.capacity, links.n_slots
    _check_shapes(summaries)
    require(n <= capacity == len(links.marks), "there is no room for rows")
    require(len(kept["leaf_sizes"]) == len(kept["is_apart"]) == capacity, "rows are not there for every node")
    require(are_within(kept["leaf_sizes"], 0, 2**31), "a row has less than no entries")
    require(arrays.stale.shape == (2 * capacity,), "'stale' is not there for every node")
    require(arrays.gone.shape == (capacity,), "points are not marked as gone or not")
    starts, sizes = np.zeros(2 * capacity, np.int64), np.zeros(2 * capacity, np.int32)
    starts[:capacity], sizes[:capacity] = starts_of(kept["leaf_sizes"])[:-1], kept["leaf_sizes"]
    summaries.arrays = arrays._replace(
        calls=addresses(),
        row_starts=starts,
        row_sizes=sizes,
        leaf_columns=kept["leaf_columns"],
        leaf_values=kept["leaf_values"],
    )
    summaries.blocks = OwnedBlocks()
    summaries.blocks.hold(starts, capacity)
    _check_leaves(summaries, n)
    summaries.make_scratch()
    _make_internal(summaries, links, kept)


def _make_internal(summaries: SparseSummaries, links: Links, kept: dict[str, npt.NDArray[Any]]) -> None:
    arrays, is_apart, sizes = summaries.arrays, kept["is_apart"], kept["apart_sizes"]
    require(are_within(is_apart, 0, 2) and int(is_apart.sum()) == len(sizes), "rows apart are not those of nodes")
    _check_sizes(summaries, sizes)
    check_rows(kept["apart_columns"], kept["apart_values"], sizes, summaries.n_features)
    by_node = np.zeros(len(is_apart), np.int32)
    by_node[is_apart != 0] = sizes
    rows = Entries(starts_of(by_node), kept["apart_columns"], kept["apart_values"])
    order, needed = links.preorder(), rows_kept(links.table, arrays.stale)
    try:
        require(make_rows(arrays, links.table, order, needed, is_apart, rows), "a row is missing")
    except LinkageFailed:
        raise MemoryError("no memory is left for summaries of sparse vectors") from None


# Checks ---------------------------------------------------------------------------------------------------------------


def check_rows(columns: Ids, values: npt.NDArray[np.float32], sizes: npt.NDArray[Any], n_features: int) -> None:
    """Raise an error unless rows have columns that are there, in ascending order, and finite values."""
    require(not len(sizes) or sizes.min() >= 0, "a row has less than no entries")
    require(
        int(sizes.sum(dtype=np.int64)) == len(columns) == len(values), "rows do not have as many entries as they say"
    )
    require(are_within(columns, 0, n_features), "an entry of a row is in a column that is not there")
    rises, ends = np.diff(columns) > 0, np.cumsum(sizes, dtype=np.int64)
    rises[ends[(ends > 0) & (ends < len(columns))] - 1] = True
    require(rises.all(), "the columns of a row are not in ascending order")
    require(np.isfinite(values).all(), "a vector is not finite")


def validate_sparse(summaries: SparseSummaries, n: int) -> None:
    """Refuse rows of the first ``n`` points and of internal nodes that compiled code could not use."""
    arrays, capacity = summaries.arrays, summaries.capacity
    _check_shapes(summaries)
    for name in ("row_starts", "row_sizes"):
        require(getattr(arrays, name).shape == (2 * capacity,), f"{name!r} is not there for every node")
    require(np.isfinite(arrays.moments).all(), "a vector is not finite")
    require(np.isfinite(summaries.longest) and summaries.longest >= 0, "the longest vector has no length")
    _check_leaves(summaries, n)
    starts, sizes = arrays.row_starts[capacity:], arrays.row_sizes[capacity:]
    _check_sizes(summaries, sizes)
    require(((starts == 0) == (sizes == 0)).all(), "a row has entries that are nowhere")
    for first in range(0, capacity, PIECE):
        some = np.arange(first, min(first + PIECE, capacity))
        check_rows(*summaries.rows_of(capacity + some), sizes[some], summaries.n_features)


def _check_shapes(summaries: SparseSummaries) -> None:
    """Check what rows are measured by, before there are any."""
    require(0 < summaries.n_features < 2**31, "vectors have no columns")
    require(summaries.arrays.moments.shape == (2 * summaries.capacity, N_MOMENTS), "vectors have no lengths")


def _check_leaves(summaries: SparseSummaries, n: int) -> None:
    arrays = summaries.arrays
    starts, sizes = arrays.row_starts[:n], arrays.row_sizes[:n]
    ends = starts_of(sizes)
    require(np.array_equal(starts, ends[:-1]), "rows do not follow each other")
    require(ends[-1] <= len(arrays.leaf_columns) == len(arrays.leaf_values), "rows have entries that are not there")
    require(summaries.longest_row >= sizes.max(initial=0), "the longest row is none")
    check_rows(arrays.leaf_columns[: ends[-1]], arrays.leaf_values[: ends[-1]], sizes, summaries.n_features)


def _check_sizes(summaries: SparseSummaries, sizes: npt.NDArray[Any]) -> None:
    """Check sizes of internal rows: scratch space is made for no longer ones."""
    require(are_within(sizes, 0, min(summaries.arrays.most_entries, summaries.n_features) + 1), "a row is too long")


# Rows of many nodes at a time -----------------------------------------------------------------------------------------


@entry
def gather_rows(arrays: Arrays, nodes: Slots, columns: Ids, values: Vectors32) -> None:
    """Copy the rows of some nodes, one after the other."""
    at = 0
    for i in range(nodes.shape[0]):
        at_columns, at_values, n = row_of(arrays, as_id(nodes[i]))
        here, there = int32_at(at_columns, n), float32_at(at_values, n)
        for j in range(n):
            columns[at], values[at] = here[j], there[j]
            at += 1


@entry
def find_apart(arrays: Arrays, table: Ids, kept: Flags, is_apart: Flags) -> None:
    """Mark, among the internal rows that are kept, those that the children do not give to the last bit."""
    offset = arrays.gone.shape[0]
    for i in range(kept.shape[0]):
        v = offset + i
        if kept[i]:
            is_apart[i] = not _has_both(table, kept, offset, v) or not _is_united(arrays, table, v)


@entry
def make_rows(arrays: Arrays, table: Ids, order: Ids, kept: Flags, is_apart: Flags, apart: Entries) -> bool:
    """Make the internal rows that are kept, children first; those apart are given, by node.

    False if a child that is needed is not kept.
    """
    offset = arrays.gone.shape[0]
    for i in range(order.shape[0] - 1, -1, -1):
        v = as_id(order[i])
        if v < offset or not kept[v - offset]:
            continue
        if is_apart[v - offset]:
            start = apart.starts[v - offset]
            n = apart.starts[v - offset + 1] - start
            for j in range(n):
                arrays.united_columns[j], arrays.united_values[j] = apart.columns[start + j], apart.values[start + j]
        elif _has_both(table, kept, offset, v):
            n = _unite_children(arrays, table, v)
        else:
            return False
        if not put_row(arrays, v, n):
            raise LinkageFailed
    return True


@jitable
def _has_both(table: Ids, kept: Flags, offset: int, v: int) -> bool:
    """Return whether the rows of both children are known."""
    a, b = table[v, LEFT], table[v, RIGHT]
    return (a < offset or kept[a - offset] != 0) and (b < offset or kept[b - offset] != 0)


@jitable
def _unite_children(arrays: Arrays, table: Ids, v: int) -> int:
    """Make the row of a node from those of its children, as a merge of the two nodes does."""
    a, b = as_id(table[v, LEFT]), as_id(table[v, RIGHT])
    if arrays.moments[a, COUNT] < arrays.moments[b, COUNT]:
        a, b = b, a
    return unite_rows(arrays, a, b)[0]


@jitable
def _is_united(arrays: Arrays, table: Ids, v: int) -> bool:
    """Return whether the row of a node is the one that its children give."""
    n = _unite_children(arrays, table, v)
    at_columns, at_values, size = row_of(arrays, v)
    if n != size:
        return False
    # Values by their bits: 0 is not -0.
    columns, bits, expected = int32_at(at_columns, n), int32_at(at_values, n), arrays.united_values[:n].view(np.int32)
    differ = 0
    for i in range(n):
        differ += columns[i] != arrays.united_columns[i] or bits[i] != expected[i]
    return differ == 0
