"""The summaries of nodes in arrays, and their upkeep: computed when they are asked for, never sooner.

Rows are by node: leaves at the front, internal nodes from the capacity on. A structural change marks the nodes whose
leaves changed; the marks stop at the first node already marked. Two invariants make that correct:

* a stale node's ancestors are all stale, and
* a stale node's ancestors have no known sibling score (``nan``).

Where summaries may lag (``state.lag``), that holds of small nodes only, up to the size limit of the tree, and marks go
on to the first large one. A large node counts the changes below it and is marked only when they are a certain share of
its leaves; then they count for its parent. So the work above the limit does not grow with the tree. Large nodes are
brought up to date by moves and never by readers (``state.is_reading``), so that looking at a tree changes nothing in
what becomes of it. Small nodes may be: their summaries follow from the tree alone, whenever they are computed.

``score``, ``score_all`` and ``merge`` are the only places that know what kind of linkage there is. Functions marked
``outlined`` are compiled apart, when there are sparse vectors: dense ones are used without them.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, get_type_hints

import numpy as np
import numpy.typing as npt
from numba import typeof, types

from grinch._by_reference import by_reference, narrowing
from grinch._checks import count_rows
from grinch._compile import jitable
from grinch._interrupts import uninterrupted
from grinch._types import Counts, Flags, Floats, Ids, Slots, Vectors32, as_id
from grinch._vectors import product_of
from grinch.errors import LinkageError
from grinch.linkage import named
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.linkage.pairwise import Pairwise
from grinch.linkage.sparse import SQUARE, formula_of_product, keep_largest, merge_moments, product_with, unite
from grinch.saving.state import Fields, are_within, item, require, scalar
from grinch.saving.state import State as Saved
from grinch.summaries import callbacks
from grinch.summaries.callbacks import LinkageFailed, outlined
from grinch.tree.links import LIMIT, NO_LIMIT, NONE, ROOT, Links, left, parent, reorder_rows, right, size, write_down

if TYPE_CHECKING:
    from grinch.core.rules import Rules


# What an engine counts: ``stats_``.
COUNTERS = ("rotations", "pulls", "grafts_tried", "grafts", "restructurings", "swaps", "scores", "merges")
ROTATIONS, PULLS, GRAFTS_TRIED, GRAFTS, RESTRUCTURINGS, SWAPS, SCORES, MERGES = range(len(COUNTERS))


def new_counts() -> Counts:
    return np.zeros(len(COUNTERS), np.int64)


# What is known of a summary: it is out of date; it is one of a large node, and was computed as such.
STALE, LARGE = 1, 2
# Numbers of formulas besides the named ones: a compiled function of the user's own, and a linkage written in Python.
CUSTOM, PYTHON = len(named.FORMULAS), len(named.FORMULAS) + 1

NO_ORIGIN: Vectors32 = np.zeros(0, np.float32)
# By the types of the fields below.
_DTYPES: dict[Any, Any] = {Ids: np.int32, Counts: np.int64, Flags: np.uint8, Floats: float, Vectors32: np.float32}

Enlarge = Callable[[npt.NDArray[Any], int, int, float], npt.NDArray[Any]]
"""What :func:`enlarged` does."""


@by_reference
class Arrays(NamedTuple):
    """The summaries as compiled code sees them.

    ``means`` (float32) and ``moments`` (count, spread, length) are the summaries of vectors; those of records are
    Python objects elsewhere. Means of sparse vectors are rows of ``row_sizes`` entries: those of leaves from
    ``row_starts`` on in ``leaf_columns`` and ``leaf_values`` (from -1 - ``row_starts`` on in ``query_columns`` and
    ``query_values`` if they are only looked up), those of internal nodes in a block of memory at that address
    (:mod:`grinch.summaries.callbacks`); all of these are empty where vectors are dense.
    ``sibling_scores[p]`` is the score of p's children, nan where it is not known;
    ``stale`` marks summaries that are out of date; ``gone`` marks leaves that were taken out, which no search finds.
    ``counted`` and ``changes`` are for large nodes, whose summaries may lag behind: how many leaves they are of, and
    how many changes there were below since; one for every ``lag`` leaves is too many (0: no summary lags).
    ``nodes`` and ``answers`` are scratch space for questions to the linkage, ``counts`` counts them; ``spread_out``,
    ``united_columns``, ``united_values`` and ``united_sizes`` are scratch space for sparse rows, of which no mean has
    more than ``most_entries``. ``formula`` is the
    number of a formula, ``calls`` has the addresses of what is no formula, ``reply`` what a callback said, and
    ``blamed`` the two nodes for which a compiled function gave no number. ``is_reading`` tells compiled code that a
    reader asks, for whom large nodes stay as they are. ``origin`` is where dense vectors are measured from, as they are
    stored, where it counts whether vectors have nothing in common; it is empty elsewhere.
    """

    means: Vectors32
    moments: Floats
    row_starts: Counts
    row_sizes: Ids
    leaf_columns: Ids
    leaf_values: Vectors32
    query_columns: Ids
    query_values: Vectors32
    spread_out: Vectors32
    united_columns: Ids
    united_values: Vectors32
    united_sizes: Vectors32
    sibling_scores: Floats
    stale: Flags
    counted: Ids
    changes: Ids
    gone: Flags
    nodes: Ids
    answers: Floats
    counts: Counts
    calls: Counts
    reply: Counts
    blamed: Counts
    formula: int
    lag: int
    most_entries: int
    is_reading: bool = False
    origin: Vectors32 = NO_ORIGIN


if TYPE_CHECKING:

    class State(Arrays):
        """A tree, the summaries of its nodes, and the rules."""

        table: Ids
        head: Counts
        marks: Flags
        log: Ids
        moved: Ids
        rules: Rules

else:
    # Functions on either of the two work on a state as well.
    State = by_reference(namedtuple("State", (*Links._fields, *Arrays._fields, "rules")))

arrays_of: Callable[[State], Arrays] = narrowing(Arrays)


def new_arrays(n_features: int, formula: int) -> Arrays:
    """Return arrays without room for any node."""
    empty: dict[str, Any] = {
        name: np.zeros(0, _DTYPES[kind]) for name, kind in get_type_hints(Arrays).items() if kind in _DTYPES
    }
    empty |= {"means": np.zeros((0, n_features), np.float32), "moments": np.zeros((0, 3)), "counts": new_counts()}
    empty |= {"calls": np.zeros(callbacks.N_CALLS, np.int64), "reply": np.zeros(1, np.int64), "blamed": np.full(2, -1)}
    return Arrays(**empty, formula=formula, lag=0, most_entries=NO_LIMIT)


# The arrays that a file holds; the others are room to work in, and addresses.
SAVED = Fields(
    **{
        name: (part.dtype.str, part.ndim)
        for name, part in new_arrays(0, 0)._asdict().items()
        if name in ("means", "moments", "sibling_scores", "stale", "counted", "changes", "gone", "counts")
    }
)


class StoredPoints(NamedTuple):
    """Points as the builder of a tree stores them, and the linkage that compares them.

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

    def taken(self, order: Slots) -> StoredPoints:
        """Return the same points in another order."""
        return self._replace(rows=[self.rows[i] for i in order] if isinstance(self.rows, list) else self.rows[order])


def is_over_vectors(linkage: object) -> bool:
    """Return whether a linkage written in Python is over the pairs of vectors, by a distance that scipy knows."""
    return isinstance(linkage, Pairwise) and isinstance(linkage.distance, str)


class GrowingArrays:
    """Summaries in arrays that grow with the tree: the base of those of vectors and of records."""

    # Which arrays have a row for each node, and what a new row holds.
    _by_node: ClassVar[dict[str, float]] = {"sibling_scores": np.nan, "stale": 0, "counted": 0, "changes": 0}

    def __init__(self, arrays: Arrays):
        self.arrays, self.capacity = arrays, 0
        self.most_asked = NO_LIMIT
        """The most questions that are put to the linkage at a time."""
        self.enlarge: Enlarge = enlarged
        """The function by which an array gets more rows: in memory, unless a store keeps them in files."""

    def failure(self) -> BaseException:
        """Return why compiled code gave up."""
        return LinkageError("returned nan, which is no score", *self.arrays.blamed.tolist())

    def heard(self) -> AbstractContextManager[None]:
        """Keep what is raised in callbacks while compiled code runs; without callbacks, that is nothing."""
        return nullcontext()

    def drop(self, leaves: Slots) -> None:
        """Let go of what is kept of leaves that were taken out; in arrays, a slot stays until the tree is compacted."""

    def in_units(self, scores: Floats) -> Floats:
        """Return scores of stored points in the user's units."""
        return scores

    def look(self, count: int) -> Counts | None:
        """Return a number for each of the first points, the same for those that the linkage can hardly tell apart.

        None where points are not compared.
        """
        return None

    def lengths(self, leaves: Any) -> Floats:
        return self.arrays.moments[leaves, named.LENGTH]

    def grow(self, capacity: int) -> None:
        """Make room for this many leaves."""
        arrays = {name: getattr(self.arrays, name) for name in self._by_node}
        larger = {name: self.enlarge(old, self.capacity, capacity, self._by_node[name]) for name, old in arrays.items()}
        gone = np.concatenate([self.arrays.gone, np.zeros(capacity - self.capacity, np.uint8)])
        self._replace(larger, gone, capacity)

    def compact(self, leaves: Slots, internal: Slots, capacity: int) -> None:
        """Keep these leaves and internal nodes only, under the numbers they have in the compacted tree."""
        arrays = {name: getattr(self.arrays, name) for name in self._by_node}
        fewer = {name: _kept(old, leaves, internal, capacity, self._by_node[name]) for name, old in arrays.items()}
        self._replace(fewer, np.zeros(capacity, np.uint8), capacity)

    def reorder(self, source: Ids) -> None:
        """Give internal nodes new numbers; ``source`` says which row each of their rows was, from 0 on."""
        for name in self._by_node:
            reorder_rows(getattr(self.arrays, name)[self.capacity :], source)

    def _replace(self, by_node: dict[str, npt.NDArray[Any]], gone: Flags, capacity: int) -> None:
        asked = min(capacity, self.most_asked)
        nodes, answers = np.zeros(asked, np.int32), np.zeros(asked)
        self.arrays = self.arrays._replace(**by_node, gone=gone, nodes=nodes, answers=answers)  # type: ignore[arg-type]
        self.capacity = capacity

    def take(self, at: int, rows: Any) -> int:
        """Put points to come into the leaf slots from ``at`` on; how many that were. If none, they have to move."""
        raise NotImplementedError

    def move(self, count: int) -> None:
        """Change how the first ``count`` points are stored, as the next one calls for."""

    def take_all(self, at: int, rows: Any, moved: Callable[[], None] = lambda: None) -> None:
        """Put all these points into the leaf slots from ``at`` on; ``moved`` is called when those there have moved."""
        done = 0
        while done < count_rows(rows):
            taken = self.take(at + done, rows[done:] if done else rows)
            if not taken:
                with uninterrupted():
                    self.move(at + done)
                    moved()
            done += taken

    def gone(self, leaves: Any) -> npt.NDArray[np.bool_]:
        """Return which of these leaves were taken out, so that no search finds them."""
        return self.arrays.gone[leaves] == 1

    def set_gone(self, leaves: Slots, gone: bool) -> None:
        self.arrays.gone[leaves] = gone

    def own_arrays(self) -> bool:
        """Copy arrays that were loaded read-only; whether there were any. joblib locks large ones and leaves others."""
        arrays = {name: value for name, value in self.arrays._asdict().items() if isinstance(value, np.ndarray)}
        copies = {name: value.copy() for name, value in arrays.items() if not value.flags.writeable}
        if copies:
            self.arrays = self.arrays._replace(**copies)  # type: ignore[arg-type]
        return bool(copies)

    def frozen(self) -> Self:
        """Return a twin that has the points of this moment, whatever becomes of them here.

        The vector of a point stays in its slot of the arrays, so the twin has only a copy of who is gone. Its internal
        nodes are not to be used.
        """
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        own = {name: getattr(self.arrays, name).copy() for name in ("gone", "counts", "blamed")}
        twin.arrays = self.arrays._replace(**own)
        return twin

    def forget(self) -> None:
        """Make every internal summary be computed again when it is next asked for."""
        self.arrays.stale[self.capacity :] = STALE
        self.arrays.sibling_scores[:] = np.nan

    # In files -----------------------------------------------------------------------------------------------------

    def _take_arrays(self) -> Saved:
        return {"capacity": int(self.capacity), "most_asked": int(self.most_asked), "arrays": SAVED.take(self.arrays)}

    def put_arrays(self, state: Any, n_features: int, formula: int) -> None:
        """Take the arrays of a state over, with room to work in."""
        self.capacity, self.most_asked = scalar(state, "capacity", int), scalar(state, "most_asked", int)
        found = SAVED.read(item(state, "arrays"))
        require(found["means"].shape[1] == n_features, f"vectors do not have {n_features} columns")
        require(0 <= self.capacity <= len(found["stale"]), f"there cannot be room for {self.capacity} leaves")
        self.enlarge, asked = enlarged, max(0, min(self.capacity, self.most_asked))
        room: dict[str, Any] = {"nodes": np.zeros(asked, np.int32), "answers": np.zeros(asked)}
        self.arrays = new_arrays(0, formula)._replace(**found, **room)

    def _validate_arrays(self) -> None:
        arrays, capacity = self.arrays, self.capacity
        for name in ("sibling_scores", "stale", "counted", "changes"):
            require(getattr(arrays, name).shape == (2 * capacity,), f"{name!r} is not there for every node")
        require(arrays.gone.shape == (capacity,) and are_within(arrays.gone, 0, 2), "points are neither gone nor not")
        require(arrays.counts.shape == (len(COUNTERS),), "the counters are others")
        asked = min(capacity, self.most_asked)
        require(len(arrays.nodes) == len(arrays.answers) == asked, "there is no room for scores")


def enlarged(old: npt.NDArray[Any], old_capacity: int, capacity: int, fill: float) -> npt.NDArray[Any]:
    """Copy leaf rows to the front and internal rows to the new offset; what is new holds ``fill``."""
    new = np.zeros((2 * capacity, *old.shape[1:]), old.dtype)
    if fill != 0:
        new[...] = fill
    new[:old_capacity] = old[:old_capacity]
    new[capacity : capacity + old_capacity] = old[old_capacity:]
    return new


def _kept(old: npt.NDArray[Any], leaves: Slots, internal: Slots, capacity: int, fill: float) -> npt.NDArray[Any]:
    """Return rows of these leaves at the front; those of these internal nodes after the first from ``capacity`` on."""
    new = np.full((2 * capacity, *old.shape[1:]), fill, old.dtype)
    new[: len(leaves)] = old[leaves]
    new[capacity + 1 : capacity + 1 + len(internal)] = old[internal]
    return new


# Sparse rows ----------------------------------------------------------------------------------------------------------


_ARRAYS = typeof(new_arrays(0, 0))


@jitable
def row_of(state: Arrays, v: int) -> tuple[int, int, int]:
    """Return a node's sparse row: the addresses of its columns and of their values, and how many there are."""
    start, n = as_id(state.row_starts[v]), as_id(state.row_sizes[v])
    if v >= state.gone.shape[0]:
        return start, start + 4 * n, n
    if start < 0:
        at = 4 * (-1 - start)
        return as_id(state.query_columns.ctypes.data) + at, as_id(state.query_values.ctypes.data) + at, n
    at = 4 * start
    return as_id(state.leaf_columns.ctypes.data) + at, as_id(state.leaf_values.ctypes.data) + at, n


@jitable
def sparse_product(state: Arrays, u: int, v: int) -> float:
    """Return the product of the rows of two nodes."""
    columns, values, n = row_of(state, u)
    others, other_values, m = row_of(state, v)
    return product_of(
        callbacks.int32_at(columns, n),
        callbacks.float32_at(values, n),
        callbacks.int32_at(others, m),
        callbacks.float32_at(other_values, m),
    )


@outlined(callbacks.SPARSE_SCORE, types.float64(_ARRAYS, types.int64, types.int64))
def score_sparse_row(state: Arrays, u: int, v: int) -> float:
    """Return f(u, v) for two sparse rows."""
    return formula_of_product(state.formula, sparse_product(state, u, v), state.moments, u, v)


@outlined(callbacks.SPARSE_SCORE_ALL, types.int64(_ARRAYS, types.int64, types.int32[::1], types.int64))
def score_sparse_rows(state: Arrays, v: int, nodes: Ids, n: int) -> int:
    """Score v with the first n of ``nodes``; where there is room, v is spread out over all columns first."""
    at_columns, at_values, size = row_of(state, v)
    columns, values = callbacks.int32_at(at_columns, size), callbacks.float32_at(at_values, size)
    has_room = state.spread_out.shape[0] > 0
    if has_room:
        for i in range(size):
            state.spread_out[columns[i]] = values[i]
    for i in range(n):
        node = as_id(nodes[i])
        if has_room:
            others, other_values, m = row_of(state, node)
            product = product_with(
                state.spread_out, callbacks.int32_at(others, m), callbacks.float32_at(other_values, m)
            )
        else:
            product = sparse_product(state, v, node)
        state.answers[i] = formula_of_product(state.formula, product, state.moments, v, node)
    if has_room:
        for i in range(size):
            state.spread_out[columns[i]] = 0
    return n


@jitable
def unite_rows(state: Arrays, left: int, right: int) -> tuple[int, float, float]:
    """Write the mean of two rows, the second of no more leaves, to ``united_columns`` and ``united_values``.

    Returns the number of its entries, the product of the two, and the squares of what was dropped from it.
    """
    total = state.moments[left, named.COUNT] + state.moments[right, named.COUNT]
    share = state.moments[right, named.COUNT] / total if total > 0.0 else 0.0
    columns, values, n = row_of(state, left)
    others, other_values, m = row_of(state, right)
    n, product = unite(
        callbacks.int32_at(columns, n),
        callbacks.float32_at(values, n),
        callbacks.int32_at(others, m),
        callbacks.float32_at(other_values, m),
        share,
        state.united_columns,
        state.united_values,
    )
    n, dropped = keep_largest(state.united_columns, state.united_values, n, state.most_entries, state.united_sizes)
    return n, product, dropped


@outlined(callbacks.SPARSE_MERGE, types.boolean(_ARRAYS, types.int64, types.int64, types.int64))
def merge_sparse_rows(state: Arrays, p: int, left: int, right: int) -> bool:
    """Make p's row from its children's, in short if it is too long; returns whether there was memory for it."""
    if state.moments[left, named.COUNT] < state.moments[right, named.COUNT]:
        left, right = right, left
    n, product, dropped = unite_rows(state, left, right)
    merge_moments(state.moments, p, left, right, product, np.sqrt(dropped))
    return put_row(state, p, n)


@jitable
def put_row(state: Arrays, p: int, n: int) -> bool:
    """Make the first n united entries the row of internal node p, in the block it has if that is of the same size.

    Returns whether there was memory for it.
    """
    if state.row_sizes[p] != n:
        if state.row_starts[p] != 0:
            callbacks.call(state.calls[callbacks.RELEASE], (as_id(state.row_starts[p]),))
        state.row_starts[p], state.row_sizes[p] = 0, 0
        if n > 0:
            address = callbacks.call_int(state.calls[callbacks.ALLOCATE], (8 * n,))
            if address == 0:
                return False
            state.row_starts[p], state.row_sizes[p] = address, n
    at_columns, at_values, size = row_of(state, p)
    columns, values = callbacks.int32_at(at_columns, size), callbacks.float32_at(at_values, size)
    for i in range(size):
        columns[i] = state.united_columns[i]
    for i in range(size):
        values[i] = state.united_values[i]
    return True


# Upkeep ---------------------------------------------------------------------------------------------------------------


# Products below this part of the squared length are 0 but for rounding in float32.
RIGHT_ANGLE = 1e-6


@jitable
def is_sparse(arrays: Arrays) -> bool:
    return arrays.row_sizes.shape[0] > 0


@jitable
def vector_score(state: Arrays, u: int, v: int) -> float:
    """Return f(u, v) for two rows of vectors: by a formula, or by a compiled function of the user's own."""
    if is_sparse(state):
        return score_sparse_row(state, u, v)
    if state.formula != CUSTOM:
        return named.formula_score(state.formula, state.means, state.moments, u, v)
    rows = as_id(state.means[u].ctypes.data), as_id(state.moments[u].ctypes.data)
    others = as_id(state.means[v].ctypes.data), as_id(state.moments[v].ctypes.data)
    value = callbacks.call_float(
        state.calls[callbacks.FORMULA], (rows[0], rows[1], others[0], others[1], state.means.shape[1])
    )
    if np.isnan(value):
        state.blamed[0], state.blamed[1] = u, v
        raise LinkageFailed
    return value


@jitable
def score(state: Arrays, u: int, v: int) -> float:
    """Return f(u, v) from two fresh summaries."""
    if state.formula != PYTHON:
        return vector_score(state, u, v)
    state.answers[0] = np.nan
    callbacks.call(state.calls[callbacks.SCORE], (u, v))
    if np.isnan(state.answers[0]):
        raise LinkageFailed
    return state.answers[0]


@jitable
def is_apart(state: Arrays, u: int, v: int, f: float) -> bool:
    """Return whether u and v, whose score is f, have nothing in common: their product is 0.

    Under a similarity from 0 on, f is 0 then. Under mean squared distance it is that of the same lengths at a right
    angle; of dense vectors that is asked as seen from zero, and as far as rounding lets anyone tell.
    """
    if state.formula != named.AVERAGE_SQEUCLIDEAN:
        return f == 0.0
    if is_sparse(state):
        # As the formula of sparse rows has it, which is compiled only where there are some.
        squares = state.moments[u, SQUARE] + state.moments[v, SQUARE]
        return f == -(squares + state.moments[u, named.SPREAD] + state.moments[v, named.SPREAD])
    product, square_u, square_v = 0.0, 0.0, 0.0
    for i in range(state.origin.shape[0]):
        origin = np.float64(state.origin[i])
        a, b = origin + state.means[u, i], origin + state.means[v, i]
        product += a * b
        square_u += a * a
        square_v += b * b
    return state.origin.shape[0] > 0 and abs(product) <= RIGHT_ANGLE * max(square_u, square_v)


@jitable
def merge(state: Arrays, p: int, left: int, right: int) -> None:
    """Make p's summary from its children's."""
    state.counts[MERGES] += 1
    if is_sparse(state):
        if not merge_sparse_rows(state, p, left, right):
            raise LinkageFailed
    elif state.formula != PYTHON:
        named.merge_rows(state.formula, state.means, state.moments, p, left, right)
    else:
        state.reply[0] = 0
        callbacks.call(state.calls[callbacks.MERGE], (p, left, right))
        if state.reply[0] == 0:
            raise LinkageFailed


@jitable
def is_large(state: State, v: int) -> bool:
    """Return whether v's summary may lag behind."""
    return state.lag > 0 and size(state, v) > state.head[LIMIT]


@jitable
def mark_stale(state: State, v: int) -> None:
    """Forget what was known of v and its ancestors, or count that they changed: the leaves under v are others."""
    while v != NONE and not is_large(state, v):
        state.sibling_scores[v] = np.nan
        # Where changes are counted above, a mark that reading may have removed must not end the walk.
        if state.lag == 0 and state.stale[v]:
            return
        state.stale[v] = STALE
        v = parent(state, v)
    if v != NONE:
        count_change(state, v)


@jitable
def count_change(state: State, v: int) -> None:
    """Count a change under the large node v; where there were many, mark it and go on to its parent."""
    changes = as_id(1)
    while v != NONE:
        state.sibling_scores[v] = np.nan
        if not state.stale[v] & LARGE:
            # Large from now on, and to be read at any time.
            state.stale[v] = STALE
            refresh(state, v)
        else:
            changes += state.changes[v]
            state.changes[v] = changes
            if changes * state.lag <= state.counted[v]:
                return
            state.changes[v] = 0
            state.stale[v] = STALE | LARGE
        v = parent(state, v)


@jitable
def settle(state: State) -> None:
    """Compute the summaries of large nodes after all were forgotten: readers need them."""
    root = state.head[ROOT]
    if root != NONE and is_large(state, root) and not state.stale[root] & LARGE:
        refresh(state, root)


@jitable
def mark_new(state: State, p: int) -> None:
    """Mark internal node p, new in its place: a mark from an earlier place must not end the walk to its ancestors."""
    state.stale[p] = 0
    mark_stale(state, p)


@jitable
def refresh(state: State, v: int) -> None:
    """Bring v's summary up to date: merge its stale descendants bottom-up, walking by parent pointers."""
    if not state.stale[v] & STALE:
        return
    node = v
    while True:
        a, b = left(state, node), right(state, node)
        if state.stale[a] & STALE:
            node = a
        elif state.stale[b] & STALE:
            node = b
        else:
            merge(arrays_of(state), node, a, b)
            state.stale[node] = 0
            if is_large(state, node):
                state.stale[node] = LARGE
                state.counted[node] = leaves_counted(state, a) + leaves_counted(state, b)
                state.changes[node] = 0
                # What is known of its score changes only now, long after the leaves did.
                write_down(state, node)
            if node == v:
                break
            node = parent(state, node)


@jitable
def is_left_alone(state: State, v: int) -> bool:
    """Return whether v stays as it is, because a reader asks about a large node."""
    return state.is_reading and is_large(state, v)


@jitable
def make_ready(state: State, v: int) -> None:
    """Prepare v for being scored."""
    if not is_left_alone(state, v):
        refresh(state, v)


@jitable
def leaves_counted(state: State, v: int) -> int:
    """Return how many leaves v's summary is of."""
    return as_id(state.counted[v]) if is_large(state, v) else size(state, v)


@jitable
def similarity(state: State, u: int, v: int) -> float:
    """Return f(u, v), with both summaries up to date (a reader's: as they are)."""
    make_ready(state, u)
    make_ready(state, v)
    state.counts[SCORES] += 1
    return score(arrays_of(state), u, v)


@jitable
def score_all(state: State, v: int, nodes: Ids, n: int) -> None:
    """Write f(v, node) for the first n of ``nodes`` to ``state.answers``, in one call where the linkage can."""
    if n == 0:
        return
    refresh(state, v)
    for i in range(n):
        refresh(state, as_id(nodes[i]))
    score_leaves(arrays_of(state), v, nodes, n)


@jitable
def score_leaves(arrays: Arrays, v: int, nodes: Ids, n: int) -> None:
    """Write the same for nodes that are up to date, as leaves always are."""
    arrays.counts[SCORES] += n
    if is_sparse(arrays):
        score_sparse_rows(arrays, v, nodes, n)
        return
    if arrays.formula != PYTHON:
        for i in range(n):
            arrays.answers[i] = vector_score(arrays, v, as_id(nodes[i]))
        return
    for i in range(n):
        arrays.nodes[i] = nodes[i]
    arrays.reply[0] = 0
    callbacks.call(arrays.calls[callbacks.SCORE_ALL], (v, n))
    if arrays.reply[0] == 0:
        raise LinkageFailed


@jitable
def sibling_score(state: State, p: int) -> float:
    """Return f of p's two children: asked for once and then remembered."""
    known = state.sibling_scores[p]
    if np.isnan(known):
        known = similarity(state, left(state, p), right(state, p))
        if not is_left_alone(state, p):
            state.sibling_scores[p] = known
    return known
