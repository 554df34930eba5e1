"""The arrays that summaries are kept in, by node: leaves at the front, internal nodes from the capacity on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from grinch._by_reference import by_reference, narrowing
from grinch._types import Counts, Flags, Floats, Ids, Slots, Vectors32
from grinch.linkage.named import FORMULAS
from grinch.saving.state import Fields, are_within, item, require, scalar
from grinch.saving.state import State as Saved
from grinch.summaries.callbacks import N_CALLS
from grinch.tree.links import NO_LIMIT, Links, reorder_rows

if TYPE_CHECKING:
    from grinch.core.rules import Rules

# What an engine counts: ``stats_``.
COUNTERS = (
    "rotations",
    "pulls",
    "grafts_tried",
    "grafts",
    "restructurings",
    "swaps",
    "scores",
    "merges",
)
ROTATIONS, PULLS, GRAFTS_TRIED, GRAFTS, RESTRUCTURINGS, SWAPS, SCORES, MERGES = range(len(COUNTERS))


def new_counts() -> Counts:
    return np.zeros(len(COUNTERS), np.int64)


# What is known of a summary: it is out of date; it is one of a large node, and was computed as such.
STALE, LARGE = 1, 2
# Numbers of formulas besides the named ones: a compiled function of the user's own, and a linkage written in Python.
CUSTOM, PYTHON = len(FORMULAS), len(FORMULAS) + 1

NO_ORIGIN: Vectors32 = np.zeros(0, np.float32)

# The arrays that a file holds; the others are room to work in, and addresses.
SAVED = Fields(
    means=("<f4", 2),
    moments=("<f8", 2),
    sibling_scores=("<f8", 1),
    stale=("|u1", 1),
    counted=("<i4", 1),
    changes=("<i4", 1),
    gone=("|u1", 1),
    counts=("<i8", 1),
)

Enlarge = Callable[[npt.NDArray[Any], int, int, float], npt.NDArray[Any]]
"""What :func:`enlarged` does."""


@by_reference
class Arrays(NamedTuple):
    """What compiled code sees of the summaries.

    ``means`` (float32) and ``moments`` (count, spread, length) are the summaries of vectors; those of records are
    Python objects elsewhere. Means of sparse vectors are rows of ``row_sizes`` entries: those of leaves from
    ``row_starts`` on in ``leaf_columns`` and ``leaf_values`` (from -1 - ``row_starts`` on in ``query_columns`` and
    ``query_values`` if they are only looked up), those of internal nodes in a block of memory at that address
    (:mod:`grinch.summaries.sparse_rows`); all of these are empty where vectors are dense.
    ``sibling_scores[p]`` is the score of p's children, nan where nobody asked yet;
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


@by_reference
class State(NamedTuple):
    """A tree, the summaries of its nodes, and the rules.

    The fields of :class:`~grinch.tree.links.Links` come first, then those of
    :class:`~grinch.summaries.arrays.Arrays`, so that functions on either of them work on a state as well.
    """

    table: Ids
    head: Counts
    marks: Flags
    log: Ids
    moved: Ids
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
    is_reading: bool
    origin: Vectors32
    rules: Rules


assert State._fields == (*Links._fields, *Arrays._fields, "rules")

arrays_of: Callable[[State], Arrays] = narrowing(Arrays)


def new_arrays(n_features: int, formula: int) -> Arrays:
    """Arrays without room for any node."""
    return Arrays(
        means=np.zeros((0, n_features), np.float32),
        moments=np.zeros((0, 3)),
        row_starts=np.zeros(0, np.int64),
        row_sizes=np.zeros(0, np.int32),
        leaf_columns=np.zeros(0, np.int32),
        leaf_values=np.zeros(0, np.float32),
        query_columns=np.zeros(0, np.int32),
        query_values=np.zeros(0, np.float32),
        spread_out=np.zeros(0, np.float32),
        united_columns=np.zeros(0, np.int32),
        united_values=np.zeros(0, np.float32),
        united_sizes=np.zeros(0, np.float32),
        sibling_scores=np.zeros(0),
        stale=np.zeros(0, np.uint8),
        counted=np.zeros(0, np.int32),
        changes=np.zeros(0, np.int32),
        gone=np.zeros(0, np.uint8),
        nodes=np.zeros(0, np.int32),
        answers=np.zeros(0),
        counts=new_counts(),
        calls=np.zeros(N_CALLS, np.int64),
        reply=np.zeros(1, np.int64),
        blamed=np.full(2, -1),
        formula=formula,
        lag=0,
        most_entries=NO_LIMIT,
    )


class GrowingArrays:
    """What the summaries of vectors and of records share: arrays that grow with the tree."""

    # Which arrays have a row for each node, and what a new row holds.
    _by_node: ClassVar[dict[str, float]] = {"sibling_scores": np.nan, "stale": 0, "counted": 0, "changes": 0}

    def __init__(self, arrays: Arrays):
        self.arrays, self.capacity = arrays, 0
        self.most_asked = NO_LIMIT
        """At most so many questions are put to the linkage at a time."""
        self.enlarge: Enlarge = enlarged
        """How an array gets more rows: in memory, unless somebody has another place for large ones."""

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
        """Internal nodes have new numbers: which row each of their rows was, from 0 on."""
        for name in self._by_node:
            reorder_rows(getattr(self.arrays, name)[self.capacity :], source)

    def _replace(self, by_node: dict[str, npt.NDArray[Any]], gone: Flags, capacity: int) -> None:
        asked = min(capacity, self.most_asked)
        nodes, answers = np.zeros(asked, np.int32), np.zeros(asked)
        self.arrays = self.arrays._replace(**by_node, gone=gone, nodes=nodes, answers=answers)  # type: ignore[arg-type]
        self.capacity = capacity

    def gone(self, leaves: Any) -> npt.NDArray[np.bool_]:
        """Which of these leaves were taken out, so that no search finds them."""
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

    def _put_arrays(self, state: Any, n_features: int, formula: int) -> None:
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
    """Rows of these leaves at the front; those of these internal nodes after the first from ``capacity`` on."""
    new = np.full((2 * capacity, *old.shape[1:]), fill, old.dtype)
    new[: len(leaves)] = old[leaves]
    new[capacity + 1 : capacity + 1 + len(internal)] = old[internal]
    return new
