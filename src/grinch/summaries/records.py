"""Summaries of records of any kind: Python objects, scored by the methods of a linkage written in Python.

In a file, the list of members of a node, which is what a plain function is given, is not written again for every node
above: a list that is that of the two children, one after the other, is put together from them. Groups of
:class:`~grinch.linkage.Pairwise` refer to the groups they were made of, and so they are written.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np

from grinch._checks import available_memory
from grinch._types import Counts, Flags, Floats, Ids, Slots
from grinch.errors import LinkageError, NotSavable, SavedModelError
from grinch.linkage.base import Linkage
from grinch.linkage.pairwise import GroupsIn, GroupsOut, Pairwise
from grinch.linkage.rules import WithRules
from grinch.linkage.weighted import WeightedSum
from grinch.saving.json_values import Decoder, Encoder, json_bytes
from grinch.saving.state import USUAL_MEMORY, Fields, State, array, item, require
from grinch.summaries.arrays import LARGE, PYTHON, STALE, GrowingArrays, StoredPoints, is_over_vectors, new_arrays
from grinch.summaries.callbacks import LEAVES_AROUND, MERGE, SCORE, SCORE_ALL, Callbacks
from grinch.tree.links import LEFT, RIGHT, Links, fill_preorder, no_nodes

FIELDS = Fields(check=bool)

Around = Callable[[list[int]], Iterable[int]]


class RecordSummaries(GrowingArrays):
    """The summaries of all nodes under a linkage written in Python, growing with the tree.

    With ``check``, every score is asked for both ways round.
    """

    is_undoable = True

    def __init__(self, linkage: Linkage, check: bool = False):
        super().__init__(new_arrays(0, PYTHON))
        self.linkage, self.check = linkage, check
        self.items: list[Any] = []
        self._around: Around | None = None
        self._batched = None if check else getattr(linkage, "scores", None)
        self._make_callbacks()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_callbacks"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_callbacks()

    def to_state(self, links: Links | None = None) -> State:
        """Return what a file holds of the summaries; ``links`` is their tree, if they are those of one."""
        items = items_to_state(self.items, self.arrays.stale, self.linkage, links)
        return {"part": "record_summaries", **FIELDS.take(self), **self._take_arrays(), "items": items}

    @classmethod
    def from_state(cls, state: Any, linkage: Linkage) -> Self:
        """Return the summaries of a state under the linkage that they were made for."""
        found = FIELDS.new(cls, state)
        found.linkage = linkage
        found.put_arrays(state, 0, PYTHON)
        found.items = items_from_state(item(state, "items"), linkage, found.capacity)
        found._around = None
        found._batched = None if found.check else getattr(linkage, "scores", None)
        found._make_callbacks()
        return found

    def validate(self) -> None:
        """Refuse arrays that compiled code could not use."""
        self._validate_arrays()
        require(len(self.items) == 2 * self.capacity, "summaries are not there for every node")
        is_empty = self.arrays.means.shape == (0, 0) and self.arrays.moments.shape == (0, 3)
        require(is_empty, "records have vectors")

    def look_around(self, around: Around) -> None:
        """Let this say which leaves are worth asking about a node, instead of all of them."""
        self._around = around
        self._make_callbacks()

    def failure(self) -> BaseException:
        """Return why compiled code gave up."""
        error, self._callbacks.error = self._callbacks.error, None
        return KeyboardInterrupt() if error is None else error

    def heard(self) -> AbstractContextManager[None]:
        return self._callbacks.heard()

    # Asking the linkage -------------------------------------------------------------------------------------------

    def score(self, u: int, v: int) -> float:
        """Return f(u, v), with everything that can be wrong with it explained."""
        number = self._number(u, v)
        if self.check:
            other = self._number(v, u)
            if not math.isclose(number, other, rel_tol=1e-9, abs_tol=1e-12):
                raise LinkageError(f"is not symmetric: f(a, b) is {number!r} and f(b, a) is {other!r}", u, v)
        return number

    def _number(self, u: int, v: int) -> float:
        try:
            value = self.linkage.score(self.items[u], self.items[v])
        except Exception as error:
            raise LinkageError(f"raised {type(error).__name__}: {error}", u, v) from error
        if type(value) is not float:
            try:
                value = float(value)
            except Exception:  # whatever its __float__ raises
                raise LinkageError(f"must return a number; it returned {value!r:.80}", u, v) from None
        if value != value:
            raise LinkageError("returned nan, which is no score", u, v)
        return value

    def scores(self, v: int, nodes: Sequence[int]) -> Floats:
        """Return f(v, node) for each node, in one call if the linkage has ``scores``."""
        if self._batched is None or len(nodes) < 2:
            return np.array([self.score(v, node) for node in nodes])
        try:
            values = self._batched(self.items[v], [self.items[node] for node in nodes])
        except Exception as error:
            raise LinkageError(f"raised {type(error).__name__}: {error}", v, nodes[0]) from error
        try:
            found = np.array(values, np.float64)  # a copy, for the linkage may use the same array again
        except Exception:
            found = np.empty(0)
        if found.shape != (len(nodes),):
            raise LinkageError(
                f"must return {len(nodes)} numbers from scores(); it returned {values!r:.80}", v, nodes[0]
            )
        if np.isnan(found).any():
            raise LinkageError("returned nan, which is no score", v, nodes[int(np.argmax(np.isnan(found)))])
        return found

    def merge(self, p: int, left: int, right: int) -> None:
        try:
            self.items[p] = self.linkage.merge(self.items[left], self.items[right])
        except Exception as error:
            raise LinkageError(f"raised {type(error).__name__} in merge(): {error}", left, right) from error

    def _make_callbacks(self) -> None:
        """Make what compiled code calls, for the lists and arrays there are."""
        nodes, answers, reply = self.arrays.nodes, self.arrays.answers, self.arrays.reply
        ask = self.score if self.check else self._number

        def score(u: int, v: int) -> None:
            """Answers in ``answers[0]``, which stays nan where this fails."""
            try:
                answers[0] = ask(u, v)
            except BaseException as error:
                self._fail(error)

        def score_all(v: int, n: int) -> None:
            """Answers in ``answers``; the reply of this and those below stays 0 where they fail."""
            try:
                answers[:n] = self.scores(v, nodes[:n].tolist())
                reply[0] = 1
            except BaseException as error:
                self._fail(error)

        def merge_two(p: int, left: int, right: int) -> None:
            try:
                self.merge(p, left, right)
                reply[0] = 1
            except BaseException as error:
                self._fail(error)

        def leaves_around(n: int) -> None:
            """Replies one more than how many leaves are worth asking about the first n of ``nodes``."""
            assert self._around is not None
            try:
                found = sorted(set(self._around(nodes[:n].tolist())))
                nodes[: len(found)] = found
                reply[0] = 1 + len(found)
            except BaseException as error:
                self._fail(error)

        functions: dict[int, Callable[..., None]] = {SCORE: score, SCORE_ALL: score_all, MERGE: merge_two}
        if self._around is not None:
            functions[LEAVES_AROUND] = leaves_around
        self._callbacks = Callbacks(functions)
        self.arrays = self.arrays._replace(calls=self._callbacks.addresses())

    def _fail(self, error: BaseException) -> None:
        """Keep what was raised, for the engine to raise again; the first one counts."""
        self._callbacks.error = self._callbacks.error or error

    # Keeping them -------------------------------------------------------------------------------------------------

    def grow(self, capacity: int) -> None:
        """Make room for this many leaves."""
        old, room = self.capacity, capacity - self.capacity
        self.items = self.items[:old] + [None] * room + self.items[old:] + [None] * room
        super().grow(capacity)
        self._make_callbacks()

    def compact(self, leaves: Slots, internal: Slots, capacity: int) -> None:
        """Keep these leaves and internal nodes only, under the numbers they have in the compacted tree."""
        old, self.items = self.items, [None] * (2 * capacity)
        self.items[: len(leaves)] = [old[v] for v in leaves]
        self.items[capacity + 1 : capacity + 1 + len(internal)] = [old[v] for v in internal]
        super().compact(leaves, internal, capacity)
        self._make_callbacks()

    def reorder(self, source: Ids) -> None:
        """Give internal nodes new numbers; ``source`` says which row each of their rows was, from 0 on."""
        super().reorder(source)
        # In place, for the callbacks know this list.
        self.items[self.capacity :] = [self.items[self.capacity + row] for row in source.tolist()]

    def own_arrays(self) -> bool:
        """Copy arrays that were loaded read-only; whether there were any."""
        copied = super().own_arrays()
        if copied:
            self._make_callbacks()
        return copied

    def write(self, at: int, rows: Any) -> None:
        """Summarise records in the leaf slots from ``at`` on; if the linkage refuses one, none of them counts."""
        self.arrays.gone[at : at + len(rows)] = 0
        for i, record in enumerate(rows):
            try:
                self.items[at + i] = self.linkage.leaf(record)
            except Exception as error:
                raise LinkageError(f"raised {type(error).__name__} in leaf(): {error}", at + i, None) from error

    def take(self, at: int, rows: Any) -> int:
        """Summarise records to come; all of them, for nothing depends on those before."""
        self.write(at, rows)
        return len(rows)

    def points(self, slots: Slots) -> StoredPoints:
        """Return what the linkage makes of the records in some slots: vectors as the rows of a matrix."""
        rows: Any = [self.items[slot] for slot in slots.tolist()]
        if is_over_vectors(self.linkage):
            rows = np.concatenate([group.block for group in rows]) if rows else np.empty((0, 0))
        return StoredPoints(rows, self.linkage)

    def leaf_rows(self, count: int) -> Floats | None:
        """Return the points in the first slots, zero for those gone; None unless the linkage is over distances."""
        return self.linkage.rows(self.items[:count]) if isinstance(self.linkage, Pairwise) else None

    def drop(self, leaves: Slots) -> None:
        """Let go of the records of leaves that were taken out."""
        for leaf in leaves.tolist():
            self.items[leaf] = None


# How the summary of a node is written: not at all, for it is computed when it is next asked for; as a value; as the
# members of the two children.
NOTHING, VALUE, JOINED = 0, 1, 2


def items_to_state(items: list[Any], stale: Flags, linkage: Any, links: Links | None) -> State:
    """Return all summaries that are up to date; ``links`` is the tree, if they are those of one."""
    capacity = len(items) // 2
    n = capacity if links is None else links.n_slots
    how = np.zeros((2, n), np.uint8)
    joined = np.zeros((0, 3), np.int64)
    if links is None:
        how[0] = [item is not None for item in items[:n]]
        how[1] = [item is not None for item in items[capacity : capacity + n]]
    else:
        leaves, internal = links.nodes()
        how[0, leaves] = VALUE
        marks = stale[internal]
        how[1, internal - capacity] = np.where((marks & STALE != 0) & (marks & LARGE == 0), NOTHING, VALUE)
        joined = _joined(items, links, how)
    groups = GroupsOut()
    encoder, written = Encoder(groups.reference), []
    for side, first in enumerate((0, capacity)):
        for node in np.flatnonzero(how[side] == VALUE).tolist():
            try:
                written.append(encoder.encode(items[first + node]))
            except NotSavable as error:
                which = f"record {node} (in order of arrival)" if side == 0 else "a group of records"
                raise NotSavable(f"what the linkage keeps of {which} cannot be written to a file: {error}") from None
    return {
        "how": how,
        "joined": joined,
        "values": json_bytes(written),
        "groups": groups.to_state(),
        "measured": [pairwise.measured_to_state() for pairwise in pairwise_in(linkage)],
    }


def items_from_state(state: Any, linkage: Any, capacity: int) -> list[Any]:
    """Return the summaries by node; what ``linkage`` had measured becomes known to it."""
    how = array(state, "how", "|u1", 2)
    values, n = json.loads(array(state, "values", "|u1", 1).tobytes()), how.shape[1]
    if len(how) != 2 or n > capacity or (how > JOINED).any() or not isinstance(values, list):
        raise SavedModelError(f"summaries of {n} records do not fit into room for {capacity}")
    groups = GroupsIn(item(state, "groups"))
    decoder, items = Decoder(groups.at), [None] * (2 * capacity)
    places = [first + i for first, side in ((0, how[0]), (capacity, how[1])) for i in np.flatnonzero(side == VALUE)]
    if len(places) != len(values):
        raise SavedModelError(f"{len(values)} summaries are there for {len(places)} nodes")
    for place, value in zip(places, values, strict=True):
        items[place] = decoder.decode(value)
    _join(items, array(state, "joined", "<i8", 2), how, capacity)
    measured, pairs = item(state, "measured"), pairwise_in(linkage)
    if not isinstance(measured, list) or len(measured) != len(pairs):
        raise SavedModelError("the linkage is not made of the same parts as the one that was saved")
    for pairwise, each in zip(pairs, measured, strict=True):
        pairwise.remember_measured(each)
    return items


# Lists of members -----------------------------------------------------------------------------------------------------


def _joined(items: list[Any], links: Links, how: Any) -> Counts:
    """Return nodes whose members are those of their children, with these; leaf i is 2i, internal node i is 2i + 1."""
    offset, n_leaves = links.offset, links.n_leaves
    if n_leaves < 2:
        return np.zeros((0, 3), np.int64)
    preorder = no_nodes(2 * n_leaves - 1)
    fill_preorder(links.table, links.root, offset, preorder)
    found, sides = [], links.table[:, [LEFT, RIGHT]].tolist()

    def number(node: int) -> int:
        return 2 * node if node < offset else 2 * (node - offset) + 1

    for node in preorder[::-1].tolist():
        if node < offset or how[1, node - offset] == NOTHING or type(items[node]) is not list:
            continue
        left, right = sides[node]
        if any(how[int(child >= offset), child - offset * (child >= offset)] == NOTHING for child in (left, right)):
            continue
        if _is_union(items[node], items[left], items[right]):
            how[1, node - offset] = JOINED
            found.append((number(node), number(left), number(right)))
    return np.array(found, np.int64).reshape(-1, 3)


def _is_union(whole: list[Any], a: Any, b: Any) -> bool:
    if type(a) is not list or type(b) is not list or len(a) + len(b) != len(whole):
        return False
    return all(map(operator.is_, whole, a)) and all(map(operator.is_, whole[len(a) :], b))


def _join(items: list[Any], joined: Counts, how: Any, capacity: int) -> None:
    if joined.shape[1:] != (3,) or len(joined) != int((how == JOINED).sum()):
        raise SavedModelError("the members of some groups are missing")
    if len(joined) and not (joined.min() >= 0 and joined.max() < 2 * how.shape[1]):
        raise SavedModelError("members are those of a node that is not there")
    room, used = (available_memory() or USUAL_MEMORY) // 8, 0
    for node, left, right in (joined // 2 + joined % 2 * capacity).tolist():
        a, b = items[left], items[right]
        if type(a) is not list or type(b) is not list or items[node] is not None:
            raise SavedModelError("members are those of a node that has none")
        used += len(a) + len(b)
        if used > room:
            raise SavedModelError(f"the lists of members would take more than the {8 * room:,} bytes that are free")
        items[node] = a + b
    if any(items[capacity + i] is None for i in np.flatnonzero(how[1] == JOINED).tolist()) or (how[0] == JOINED).any():
        raise SavedModelError("the members of a group are missing")


def pairwise_in(linkage: Any) -> list[Pairwise]:
    """Return the pairwise linkages in one of ours, which remember what they measured."""
    if isinstance(linkage, Pairwise):
        return [linkage]
    if isinstance(linkage, WithRules):
        return pairwise_in(linkage.linkage)
    if isinstance(linkage, WeightedSum):
        return [each for part in linkage.parts for each in pairwise_in(part.linkage)]
    return []
