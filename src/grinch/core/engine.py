"""The engine: search, then attach, then the moves, point by point."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np

from grinch._checks import count_rows
from grinch._interrupts import uninterrupted
from grinch._types import Advance, Floats, Ids, Slots
from grinch.core.arrival_neighbors import ArrivalNeighbors, KnownNeighbors
from grinch.core.moves import insert_all, place_all, remove_all, score_pairs, score_siblings
from grinch.core.rules import NO_MOVES, Rules, rules_from_state, rules_to_state
from grinch.core.view import AT_ONCE, SPARE, EngineView, Nearest, Places
from grinch.errors import LinkageError, SavedModelError
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.neighbors import make_search, search_of_state
from grinch.neighbors.exact import BATCH, Search
from grinch.saving.state import MANY, item, require
from grinch.saving.state import State as Saved
from grinch.summaries import RecordSummaries, SparseSummaries, Summaries, VectorSummaries
from grinch.summaries.arrays import COUNTERS, LARGE, STALE, State
from grinch.summaries.callbacks import LinkageFailed
from grinch.summaries.sparse import PART
from grinch.tree import Tree
from grinch.tree import links as topology
from grinch.tree.checks import links_from_state, links_to_state, validate_links
from grinch.tree.links import NONE, Links

# The number of the engine: raised whenever benchmarks/digests.json is rewritten, for then the same points can give
# another tree. Stores write it down with every operation, and do again only those of the same engine.
ENGINE = 2
# There is room for at least this many questions to a linkage at a time. The moves ask about candidates and the way up
# to a cap; how little room would do has not been looked into.
MIN_ROOM = 2**18
# Points removed at a time: enough for the search to keep its threads busy.
GROUP = 16 * BATCH
# A group of more leaves than this hardly changes when the point beside it is removed, and looks for no neighbours.
STEADY = 128
# Numbers of points at which nodes are numbered again: a quarter apart, once a tree no longer fits into a cache.
TIDIED_AT = [int(2**12 * 1.25**i) for i in range(60)]


def make_summaries(
    linkage: VectorLinkage | Linkage, n_features: int, check: bool = False, is_sparse: bool = False
) -> Summaries:
    """Return the summaries under a linkage; ``n_features`` is the length of vectors."""
    if isinstance(linkage, VectorLinkage):
        # A search by products of dense vectors would not find the neighbours by Tanimoto's coefficient.
        if is_sparse or linkage.leaf_metric == "tanimoto":
            return SparseSummaries(linkage, n_features)
        return VectorSummaries(linkage, n_features)
    return RecordSummaries(linkage, check)


def summaries_from_state(
    state: Any, linkage: VectorLinkage | Linkage, links: Links | None = None, most_entries: int = topology.NO_LIMIT
) -> Summaries:
    """Return the summaries of a state under the linkage that they were made for; ``links`` is their tree, if any."""
    if not isinstance(linkage, VectorLinkage):
        return RecordSummaries.from_state(state, linkage)
    if item(state, "part") == PART:
        if links is None:
            raise SavedModelError("sparse vectors have no tree")
        return SparseSummaries.from_state(state, linkage, links, most_entries)
    return VectorSummaries.from_state(state, linkage)


class TreeHook(Protocol):
    """Changes a tree as it grows, at certain numbers of points, by the neighbours of its points: not the paper's."""

    neighbors: KnownNeighbors

    def stops(self, first: int, stop: int) -> list[int]:
        """Return the numbers of points between two at which :meth:`run` is to be called."""

    def run(self, engine: Engine) -> None:
        """Change the tree of an engine."""


class Engine:
    """A cluster tree under construction.

    Parameters
    ----------
    linkage : VectorLinkage or Linkage
        What similar means.
    rules : Rules
        Which moves are made, and how far they reach.
    search : str, or sources of candidates
        Where to look for neighbours.
    n_neighbors : int
        How many neighbours are found for each point.
    n_features : int
        Length of the vectors (ignored for records).
    check : bool
        Ask a linkage written in Python both ways round, and refuse one that is not symmetric.
    hook : TreeHook, optional
        Changes the tree at certain numbers of points.
    compiled : bool
        False runs the same source interpreted, as a second opinion in tests; the trees are the same.
    is_sparse : bool
        Vectors come as CSR matrices and stay sparse.
    """

    def __init__(
        self,
        linkage: VectorLinkage | Linkage,
        rules: Rules,
        search: Any = "exact",
        n_neighbors: int = 50,
        n_features: int = 0,
        check: bool = False,
        hook: TreeHook | None = None,
        compiled: bool = True,
        is_sparse: bool = False,
    ):
        self.linkage, self.rules, self.hook, self.compiled = linkage, rules, hook, compiled
        self.is_busy = False
        """True while a linkage may be asked; nothing else may use the engine then, least of all the linkage."""
        self.summaries: Summaries = make_summaries(linkage, n_features, check, is_sparse)
        self.summaries.arrays = self.summaries.arrays._replace(lag=rules.lag, most_entries=rules.most_entries)
        if rules.single_search:
            # Candidates, or the way up to a cap.
            self.summaries.most_asked = max(n_neighbors, rules.size_limit, MIN_ROOM)
        self.links = topology.new_links(0, rules.size_limit, self.summaries.is_undoable)
        k = n_neighbors if rules.single_search else 1
        self.search: Search = make_search(search, self.summaries, k, at_once=rules.single_search)
        self.arrivals: ArrivalNeighbors | None = (
            ArrivalNeighbors(self.search.k) if isinstance(self.summaries, RecordSummaries) else None
        )
        """Of records, whose neighbours are expensive to find, those that they had on arrival."""
        self._is_due = (False, False)
        """Whether the hook is to run, and nodes to be put in order, before the next point comes."""
        self._forget_readers()
        self._is_owned = True
        """Whether all arrays can be written to."""

    def __getstate__(self) -> dict[str, Any]:
        readers = ("moves", "_view_slots", "_near")
        state = {name: value for name, value in vars(self).items() if name not in readers}
        return {**state, "links": self.links.unfollowed()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget_readers()
        self._is_owned = False

    def _forget_readers(self) -> None:
        self.moves = topology.MoveLog()
        """The nodes that moved, for followers of the tree."""
        # Held by the view that writes to the slots at the end.
        self._view_slots = threading.Lock()
        self._near: tuple[tuple[int, int], Ids] | None = None

    # What there is ------------------------------------------------------------------------------------------------

    @property
    def n_leaves(self) -> int:
        return self.links.n_leaves

    @property
    def n_slots(self) -> int:
        """The number of leaf slots that were ever used: leaves in the tree and those taken out."""
        return self.links.n_slots

    @property
    def stats(self) -> dict[str, int]:
        return dict(zip(COUNTERS, self.summaries.arrays.counts.tolist(), strict=True))

    def slots(self) -> Slots:
        """Return the slots of the points in the tree, in the order they arrived."""
        return self.links.nodes()[0]

    def has(self, slot: int) -> bool:
        return bool(slot < self.n_slots and self.links.table[slot, topology.SIZE] != NONE)

    def numbered(self, nodes: Ids) -> Slots:
        """Return nodes of the tree under construction by the ids they have in the tree handed out; NONE becomes 0."""
        leaves, internal = self.links.nodes()
        numbers = np.zeros(len(self.links.marks) * 2, np.intp)
        numbers[leaves] = np.arange(len(leaves))
        numbers[internal] = len(leaves) + 1 + np.arange(len(internal))
        return np.where(nodes == NONE, 0, numbers[nodes])

    def tree(self) -> Tree:
        """Return a copy of the tree with the score of every pair of siblings; later points do not change it."""
        self.own_arrays()
        internal = self.links.nodes()[1]
        return self._tree(internal, self._raw_scores(internal))

    def _tree(self, internal: Slots, raw_scores: Floats) -> Tree:
        scores = np.full(len(self.links.table), np.nan)
        scores[internal] = self.summaries.in_units(raw_scores)
        return Tree.from_links(self.links, scores, self.ceiling)

    @property
    def ceiling(self) -> float | None:
        """The score of two identical points, if the linkage has one."""
        found: float | None = getattr(self.linkage, "ceiling", None)
        return found

    def follow(self, follower: topology.TreeFollower, is_current: bool = False) -> None:
        """Write down moves for a follower; ``is_current`` if it knows the tree as it is now."""
        self.own_arrays()
        self.links = self.moves.add(self.links, follower, is_current)

    def lose_moves(self) -> None:
        """Let followers look at the whole tree: nodes have other numbers, arrays or scores."""
        self.links = self.moves.lose(self.links)

    def outdate(self) -> None:
        """Forget all neighbours: points are about to get other slots or other vectors."""
        self._near = None
        self.lose_moves()

    def sibling_scores(self, nodes: Slots) -> Floats:
        """Return the scores of the children of these nodes."""
        return self.summaries.in_units(self._raw_scores(nodes))

    def _raw_scores(self, nodes: Slots) -> Floats:
        """Return the same as the moves compare them."""
        scores = np.empty(len(nodes))
        with self.looking():
            self.run(score_siblings, nodes, scores, is_reading=True)
        return scores

    # Points come --------------------------------------------------------------------------------------------------

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        """Insert points in order. When interrupted, the tree holds those inserted so far and is valid."""
        self.own_arrays()
        start, count = self.n_slots, count_rows(rows)
        self.reserve(start + count)
        with self.busy():
            done = 0
            while done < count:
                taken = self._take(start + done, rows[done:] if done else rows)
                self._insert_all(start + done, start + done + taken, progress)
                done += taken

    def _insert_all(self, start: int, stop: int, progress: Advance | None) -> None:
        try:
            self._insert_written(start, stop, progress)
        except LinkageFailed:
            # A linkage failed in the search of a batch; point by point, all before the one to blame get in.
            with self.explained():
                for x in range(self.n_slots, stop):
                    self._insert_written(x, x + 1, progress)

    def _insert_written(self, start: int, stop: int, progress: Advance | None) -> None:
        for first, candidates in self.search.stream(start, stop):
            self._insert_found(first, candidates)
            if progress is not None:
                progress(len(candidates))

    def _insert_found(self, first: int, candidates: Ids) -> None:
        """Insert points from slot ``first`` on, and run the hook where it is time, whatever the batches."""
        self._run_if_due()
        last = first + len(candidates)
        stops = [] if self.hook is None else self.hook.stops(first, last)
        tidied = [n for n in TIDIED_AT if first < n <= last]
        for lo, hi in pairwise(sorted({first, *stops, *tidied, last})):
            found = candidates[lo - first : hi - first]
            if self.hook is not None:
                self.hook.neighbors.note_scored(self, lo, found)
            if self.arrivals is not None:
                self.arrivals.note(lo, found)
            self.change(insert_all, np.arange(lo, hi), found)
            self._is_due = hi in stops, hi in tidied
            self._run_if_due()

    def _run_if_due(self) -> None:
        """Run the hook and put nodes in order; what an interrupt prevents is made up for before the next point."""
        is_hook_due, is_tidying_due = self._is_due
        if is_hook_due and self.hook is not None:
            self.hook.run(self)
        self._is_due = False, is_tidying_due
        if is_tidying_due:
            self.tidy()
        self._is_due = False, False

    def place(self, rows: Any) -> Places:
        """Return where points would go, without inserting them."""
        self.own_arrays()
        nodes, scores = np.empty((count_rows(rows), 2), np.int32), np.empty(count_rows(rows))
        with self.looking():
            for part, queries, near in self._looked_up(rows, self.n_slots):
                nodes[part, 0] = near[:, 0]
                self.run(place_all, queries, nodes[part], scores[part], is_reading=True)
        return Places(nodes[:, 0], nodes[:, 1], self.summaries.in_units(scores))

    def _looked_up(self, rows: Any, limit: int) -> Iterator[tuple[slice, Slots, Ids]]:
        """Yield, for a few rows at a time, which they are, the slots they are in, and the points nearest to them."""
        # Sources of candidates for records know of no slots but the next ones.
        at = limit if isinstance(self.summaries, RecordSummaries) else self.summaries.capacity - SPARE
        for begin in range(0, count_rows(rows), AT_ONCE):
            piece, part = rows[begin : begin + AT_ONCE], slice(begin, begin + AT_ONCE)
            self.summaries.write(at, piece)
            self.search.write(at, piece)
            queries = np.arange(at, at + count_rows(piece))
            near = self.search.stream(at, at + len(queries), limit=limit)
            yield part, queries, np.concatenate([candidates for _, candidates in near])

    def view(self) -> EngineView | None:
        """Return the tree as it stands and where points would go in it, whatever becomes of the engine.

        None under a linkage on records. To be called by the thread that uses the engine; the view is for any.
        """
        if isinstance(self.summaries, RecordSummaries):
            return None
        self.own_arrays()
        internal = self.links.nodes()[1]
        raw_scores = self._raw_scores(internal)
        return EngineView(self, self._tree(internal, raw_scores), raw_scores, self._view_slots)

    def adopt(self, rows: Any, tree: Tree | None = None) -> None:
        """Begin with points, and with the tree that they have already; leaf i of it is row i.

        Without a tree, the points are there to be found by :meth:`look_up` and nothing else.
        """
        count, done = count_rows(rows), 0
        self.reserve(count)
        if tree is None:
            self.hook = None
        with self.busy(), self.explained():
            while done < count:
                done += self._take(done, rows[done:] if done else rows)
            if self.hook is not None:
                self.hook.neighbors.adopt(self, count)
            if self.arrivals is None or tree is None:
                self.search.catch_up(count)
            else:
                for first, candidates in self.search.stream(0, count):
                    self.arrivals.note(first, candidates)
        if tree is not None:
            links, capacity = tree.links, self.summaries.capacity
            compact, _, _ = links.compacted(capacity, self.summaries.is_undoable)
            compact.head[topology.LIMIT] = self.links.head[topology.LIMIT]
            # An engine counts sizes up to its limit, and a tree to the end.
            np.minimum(
                compact.table[:, topology.SIZE], compact.head[topology.LIMIT] + 1, out=compact.table[:, topology.SIZE]
            )
            self.links = compact
            self.lose_moves()
        self.summaries.forget()

    # Neighbours ---------------------------------------------------------------------------------------------

    def neighbors(self) -> Ids:
        """Return the nearest of all points by slot, best first, padded with NONE; of records, those found on arrival.

        Looked for once, as long as no point comes or goes.
        """
        known = self.known_neighbors()
        if known is not None:
            return known
        if self.arrivals is not None:
            return self.arrivals.among(self.slots(), self.n_slots)
        slots, near = self.slots(), np.full((self.n_slots, self.search.k), NONE, np.int32)
        near[slots] = self._nearest(slots, self.n_slots)
        self.remember_neighbors(near)
        return near

    def look_up(self, rows: Any, limit: int | None = None) -> Nearest:
        """Return the points nearest to rows that are not inserted, among the first ``limit`` slots (all by default)."""
        self.own_arrays()
        limit, count = self.n_slots if limit is None else limit, count_rows(rows)
        found, scores = np.full((count, self.search.k), NONE, np.int32), np.empty(count)
        with self.looking():
            for part, queries, near in self._looked_up(rows, limit):
                found[part] = near
                self.run(score_pairs, queries, near[:, 0].astype(np.intp), scores[part], is_reading=True)
        return Nearest(found, self.summaries.in_units(scores))

    def look_around(self, slots: Slots, limit: int | None = None) -> Nearest:
        """Return the points nearest to points in some slots, among the first ``limit`` slots (all by default)."""
        self.own_arrays()
        limit = self.n_slots if limit is None else limit
        with self.looking():
            found = self._nearest(slots, limit)
        return Nearest(found, self.score_pairs(slots, found[:, 0].astype(np.intp)))

    def score_pairs(self, slots: Slots, others: Slots) -> Floats:
        """Return the scores of points with other points, in the units of the linkage."""
        scores = np.empty(len(slots))
        with self.looking():
            self.run(score_pairs, slots, others, scores, is_reading=True)
        return self.summaries.in_units(scores)

    def _nearest(self, slots: Slots, limit: int) -> Ids:
        found = np.full((len(slots), self.search.k), NONE, np.int32)
        for first, near in self.search.nearest(slots, limit):
            found[first : first + len(near)] = near
        return found

    def known_neighbors(self) -> Ids | None:
        """Return the nearest of all points by slot, if they are known and no point has come or gone since."""
        return None if self._near is None or self._near[0] != self._points_there() else self._near[1]

    def remember_neighbors(self, near: Ids) -> None:
        """Remember the nearest of all points, by slot."""
        self._near = (self._points_there(), near)

    def _points_there(self) -> tuple[int, int]:
        """Return the same as long as no point comes or goes."""
        return self.n_slots, self.n_leaves

    # Points go ----------------------------------------------------------------------------------------------------

    def remove(self, slots: Slots, repair: bool = True, progress: Advance | None = None) -> None:
        """Take leaves out of the tree and repair the places they leave; when interrupted, some are out and some not.

        Without ``repair`` the linkage is asked nothing, and nothing can be raised.
        """
        self.own_arrays()
        with self.busy():
            for begin in range(0, len(slots), GROUP):
                batch = slots[begin : begin + GROUP]
                # Gone first, so that none of them is a candidate in the repair of another's place.
                self.set_gone(batch, True)
                try:
                    self._remove_batch(batch, repair)
                finally:
                    still = np.array([slot for slot in batch.tolist() if self.has(slot)], np.intp)
                    self.set_gone(still, False)
                    self.summaries.drop(np.setdiff1d(batch, still))
                if progress is not None:
                    progress(len(batch))

    def _remove_batch(self, batch: Slots, repair: bool) -> None:
        leaves_a_gap = np.array([repair and self._leaves_a_gap(slot) for slot in batch.tolist()], np.bool_)
        searched, others = batch[leaves_a_gap], batch[~leaves_a_gap]
        if len(others):
            nothing = np.full((len(others), 1), NONE, np.int32)
            self.change(remove_all, others, nothing, self.rules if repair else NO_MOVES)
        with self.explained():
            for first, candidates in self.search.nearest(searched, self.n_slots):
                self.change(remove_all, searched[first : first + len(candidates)], candidates)

    def _leaves_a_gap(self, slot: int) -> bool:
        """Return whether grafts repair the place of this leaf: its sibling is not large, or pull is to guarantee it."""
        p = self.links.table[slot, topology.PARENT]
        return (
            self.rules.graft and p != NONE and bool(self.rules.pull or self.links.table[p, topology.SIZE] - 1 <= STEADY)
        )

    def compact(self, at_once: bool = False) -> Slots | None:
        """Close the gaps that removed points left, once they are more than the points in the tree, or ``at_once``.

        Returns the old slots of the points, by new slot; None if it is not yet time. The work is in proportion to the
        points that were removed since the last time, unless it is asked for.
        """
        gaps = self.n_slots - self.n_leaves
        if gaps <= (0 if at_once else self.n_leaves):
            return None
        self.own_arrays()
        self.outdate()
        capacity = self.n_leaves + SPARE
        with uninterrupted():
            links, leaves, internal = self.links.compacted(capacity, self.summaries.is_undoable)
            self.summaries.compact(leaves, internal, capacity)
            self.links = links
            for follower in self.moves.followers():
                follower.compacted(leaves, internal, capacity)
            self.lose_moves()
            self.search.compacted(leaves)
            if self.arrivals is not None:
                self.arrivals.compacted(leaves)
            if self.hook is not None:
                self.hook.neighbors.compacted(leaves)
        return leaves

    # Changing the tree --------------------------------------------------------------------------------------------

    def change(self, task: Callable[..., int], leaves: Slots, candidates: Ids, rules: Rules | None = None) -> int:
        """Let an entry change the tree, leaf by leaf; whatever is raised, it is as it was before that leaf."""
        topology.end_change(self.links)
        try:
            return int(self.run(task, leaves, candidates, rules=rules))
        except BaseException as raised:
            with uninterrupted():
                error = self._explanation() if isinstance(raised, LinkageFailed) else raised
                if self.links.head[topology.NOTED] > 0:
                    self.links.undo_change()
                    self.summaries.forget()
            raise error from error.__cause__

    def run(
        self, task: Callable[..., Any], *arguments: Any, rules: Rules | None = None, is_reading: bool = False
    ) -> Any:
        """Run an entry on the state there is; one that is reading brings no large node up to date."""
        arrays = self.summaries.arrays._replace(is_reading=is_reading)
        state = State(*self.links, *arrays, rules or self.rules)  # type: ignore[call-arg, arg-type]
        with self.summaries.heard():
            return task(state, *arguments) if self.compiled else task.py_func(state, *arguments)  # type: ignore[attr-defined]

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Mark the engine as busy while a linkage may be asked."""
        before, self.is_busy = self.is_busy, True
        try:
            yield
        finally:
            self.is_busy = before

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Let a reader ask the linkage; what it asks does not count."""
        counts = self.summaries.arrays.counts.copy()
        try:
            with self.busy(), self.explained():
                yield
        finally:
            self.summaries.arrays.counts[:] = counts

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Yield instead of the fact that a linkage failed, raise what it did."""
        try:
            yield
        except LinkageFailed:
            error = self._explanation()
            raise error from error.__cause__

    def _explanation(self) -> BaseException:
        error = self.summaries.failure()
        if isinstance(error, LinkageError):
            error.groups = [self.links.leaves_under(node) for node in error.nodes]
        return error

    def reserve(self, n_leaves: int) -> None:
        """Make room for this many leaves in all."""
        need = n_leaves + SPARE
        if need > self.summaries.capacity:
            capacity = max(need, int(1.5 * self.summaries.capacity)) if self.n_slots else need
            with uninterrupted():
                links = self.links.resized(capacity, self.summaries.is_undoable)
                self.summaries.grow(capacity)
                self.links = links
                for follower in self.moves.followers():
                    follower.grown(capacity)
                self.lose_moves()

    def tidy(self) -> None:
        """Put what is near in the tree near in memory; the tree is the same."""
        with uninterrupted():
            self.lose_moves()
            source = self.links.put_in_preorder()
            self.summaries.reorder(source)
            for follower in self.moves.followers():
                follower.reordered(source)

    def restore(self, links: Links) -> None:
        """Go back to an earlier tree, or on to another one, of the same points."""
        self.summaries.forget()
        self.links = links
        self.lose_moves()

    def own_arrays(self) -> None:
        """Copy arrays that were loaded read-only (joblib's memory maps)."""
        if self._is_owned:
            return
        if not all(array.flags.writeable for array in self.links):
            self.links = self.links.copied()
        self.summaries.own_arrays()
        self._is_owned = True

    def _take(self, at: int, rows: Any) -> int:
        """Let the summaries and the search know of points to come, as many as one frame is good for; how many."""
        while not (taken := self.summaries.take(at, rows)):
            with uninterrupted():
                self.outdate()
                self.summaries.move(at)
                self.search.rewritten()
        self.search.write(at, rows if taken == count_rows(rows) else rows[:taken])
        return taken

    def set_gone(self, slots: Slots, gone: bool) -> None:
        """Let no search find these points, or let it find them again."""
        if len(slots):
            self.summaries.set_gone(slots, gone)
            self.search.changed(slots)

    # In files -----------------------------------------------------------------------------------------------------

    def to_state(self) -> Saved:
        """Return what a file holds of the engine; no array is copied."""
        return {
            "rules": rules_to_state(self.rules),
            "is_due": list(self._is_due),
            "links": links_to_state(self.links),
            "summaries": self.summaries.to_state(self.links),
            "search": self.search.to_state(),
            "found": None if self.arrivals is None else self.arrivals.to_state(),
            "gardener": None if self.hook is None else {"neighbors": self.hook.neighbors.to_state()},
        }

    @classmethod
    def from_state(
        cls, state: Any, linkage: VectorLinkage | Linkage, sources: Sequence[Any], hook: TreeHook | None
    ) -> Self:
        """Return the engine of a state.

        ``linkage`` and ``sources`` of candidates are those that it was made with, ``hook`` that of the state.
        """
        engine = object.__new__(cls)
        engine.linkage, engine.hook, engine.compiled, engine.is_busy = linkage, hook, True, False
        engine.rules = rules_from_state(item(state, "rules"))
        is_due = item(state, "is_due")
        require(isinstance(is_due, list) and [type(flag) for flag in is_due] == [bool, bool], "'is_due' is not flags")
        engine._is_due = (is_due[0], is_due[1])
        is_undoable = not isinstance(linkage, VectorLinkage) or linkage.is_custom
        is_undoable = is_undoable or item(item(state, "summaries"), "part") == "sparse_summaries"
        engine.links = links_from_state(item(state, "links"), is_undoable)
        summaries = summaries_from_state(state["summaries"], linkage, engine.links, engine.rules.most_entries)
        summaries.arrays = summaries.arrays._replace(lag=engine.rules.lag, most_entries=engine.rules.most_entries)
        engine.summaries = summaries
        engine.search = search_of_state(item(state, "search"), summaries, sources)
        engine.arrivals = None if item(state, "found") is None else ArrivalNeighbors.from_state(state["found"])
        engine._forget_readers()
        # Arrays that cannot be written to are copied before the first change.
        engine._is_owned = False
        return engine

    def validate(self, n_neighbors: int) -> None:
        """Refuse a state that compiled code could not use; the work is in proportion to the points."""
        links, summaries, rules, n = self.links, self.summaries, self.rules, self.n_slots
        validate_links(links)
        require(links.limit == rules.size_limit, "sizes are counted up to another limit than the caps")
        require(0 <= links.head[topology.CHANGE] < topology.NO_LIMIT, "changes are not counted")
        is_roomy = len(links.table) == 2 * summaries.capacity and n + SPARE <= summaries.capacity
        require(is_roomy, "there is no room to work in")
        k = n_neighbors if rules.single_search else 1
        require(1 <= self.search.k <= MANY and self.search.k == k, f"{k} neighbours are not looked for")
        most = max(k, rules.size_limit, MIN_ROOM) if rules.single_search else topology.NO_LIMIT
        require(summaries.most_asked == most, "there is no room for questions to the linkage")
        if isinstance(summaries, SparseSummaries):
            summaries.validate(n)
        else:
            summaries.validate()
        leaves, internal = links.nodes()
        require(not summaries.arrays.stale[leaves].any(), "a point is out of date")
        require((summaries.arrays.stale[internal] <= STALE | LARGE).all(), "marks of nodes are none")
        self.search.validate()
        require((self.arrivals is not None) == isinstance(summaries, RecordSummaries), "candidates are kept of vectors")
        if self.arrivals is not None:
            self.arrivals.validate(n, self.search.k)
        # A tree that was handed in (`fit_tree`) is not polished, whatever the rules.
        require(self.hook is None or rules.polish, "the tree is polished, and by the rules it is not")
        if self.hook is not None:
            self.hook.neighbors.validate_known(n, self._is_due[0])
