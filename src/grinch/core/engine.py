"""The engine: search, then attach, then the moves, point by point."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from grinch._compile import NO_COUNTS, compile_notice, jitable, source_digest
from grinch._types import Advance, count_rows
from grinch.core import moves
from grinch.core.counters import COUNTERS, Tally, new_tally
from grinch.core.rules import EXACT, NO_MOVES, Rules
from grinch.core.undo import Journal
from grinch.errors import LinkageError
from grinch.linkage.base import Linkage, VectorLinkage
from grinch.linkage.named import VECTOR_LINKAGES
from grinch.neighbors import make_search
from grinch.neighbors.base import BATCH, Search, Slots
from grinch.neighbors.scan import ScanSearch
from grinch.refine import top as crown
from grinch.refine.neighbor_cost import (
    POLISHED_AT,
    POLISHED_UP_TO,
    POLISHING_SWEEPS,
    EarlierNeighbors,
    Neighborhood,
    Swaps,
)
from grinch.summaries.store import RecordStore, VectorStore, leaves_under
from grinch.summaries.upkeep import bond, similarity
from grinch.tree import Tree
from grinch.tree.links import (
    LEAVES,
    NONE,
    OFFSET,
    PARENT,
    ROOT,
    SIZE,
    USED,
    Links,
    as_arrays,
    as_lists,
    compacted,
    copied,
    grown,
    new_links,
    nodes_in,
    shrunk,
    size,
)

# Points removed at a time: enough for the search to keep its threads busy.
GROUP = 16 * BATCH
# A group of more leaves than this hardly changes when the point beside it is removed, and looks for no neighbours.
STEADY = 128
# Leaf slots kept free for points that are looked up but not inserted.
SPARE = 256


# What the engine can be asked to do with a batch of points.
INSERT, REMOVE, REINSERT, REGROW, PLACE, FILL_BONDS = range(6)


@jitable
def change(tree, sums, rules, tally, task, x, candidates):  # type: ignore[no-untyped-def]
    """Let the moves insert, remove or reinsert leaf x; returns whether x has another sibling than before.

    Or build the crown of x branches anew.
    """
    if task == INSERT:
        moves.insert(tree, sums, rules, tally, x, tree.head[OFFSET] + x, candidates)
        return True
    if task == REMOVE:
        moves.remove(tree, sums, rules, tally, x, candidates)
        return True
    if task == REGROW:
        crown.regrow(tree, sums, tally, candidates, x)
        return False
    return moves.reinsert(tree, sums, rules, tally, x, candidates)


def _entry_point(digest: str) -> Callable[..., int]:
    """The one function through which Python enters the moves; ``digest`` keys its compile cache.

    Returns how many points have another sibling than before.
    """

    def run(tree, sums, rules, tally, task, leaves, candidates, scores):  # type: ignore[no-untyped-def]
        digest  # noqa: B018
        moved = 0
        for row in range(candidates.shape[0]):
            x = leaves[row]
            if task == PLACE:
                c = candidates[row, 0] if candidates[row, 0] != NONE else tree.head[ROOT]
                if rules.rotate:
                    c = moves.rotate(tree, sums, rules, tally, x, c)
                candidates[row, 1] = c
                scores[row] = similarity(tree, sums, tally, x, c)
            else:
                moved += change(tree, sums, rules, tally, task, x, candidates[row])
        if task == FILL_BONDS:
            for p in range(tree.head[OFFSET], tree.head[OFFSET] + tree.head[USED]):
                if size(tree, p) != NONE:
                    bond(tree, sums, tally, p)
        return moved

    return run


run_interpreted = _entry_point("")
run_compiled = njit(cache=True, nogil=True, **NO_COUNTS)(_entry_point(source_digest()))


NO_SCORES = np.empty(0)
NO_LEAVES = np.empty(0, np.intp)


class Places(NamedTuple):
    """For points that are looked up: the nearest leaf, the node each would join as a sibling, and the score of that."""

    nearest: npt.NDArray[np.int32]
    sibling: npt.NDArray[np.int32]
    score: npt.NDArray[np.float64]


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
    compiled : bool
        Run the moves compiled (vectors only) or interpreted; the trees are the same.
    timed : bool
        Measure the time spent in each move.
    check : bool
        Ask a linkage written in Python both ways round, and refuse one that is not symmetric.
    """

    def __init__(
        self,
        linkage: VectorLinkage | Linkage,
        rules: Rules,
        search: Any = "exact",
        n_neighbors: int = 50,
        n_features: int = 0,
        compiled: bool = True,
        timed: bool = False,
        check: bool = False,
    ):
        self.linkage, self.rules = linkage, rules
        self.tally: Tally = new_tally(timed)
        self.store: VectorStore | RecordStore
        if isinstance(linkage, VectorLinkage):
            self.store = VectorStore(linkage, n_features)
        else:
            self.store, compiled = RecordStore(linkage, check), False
        self.compiled = compiled
        self.links = self._in_its_form(new_links(0, rules.size_limit))
        self.earlier = EarlierNeighbors()
        self.search: Search = make_search(search, self.store, n_neighbors if rules.single_search else 1, self.tally)

    @property
    def n_leaves(self) -> int:
        return int(self.links.head[LEAVES])

    @property
    def n_slots(self) -> int:
        """How many leaf slots were ever used: leaves in the tree and those taken out."""
        return int(self.links.head[USED])

    def slots(self) -> Slots:
        """The slots of the points in the tree, in the order they arrived."""
        return nodes_in(as_arrays(self.links))[0]

    def has(self, slot: int) -> bool:
        return bool(slot < self.n_slots and self.links.table[slot, SIZE] != NONE)

    def numbered(self, nodes: npt.NDArray[np.int32]) -> Slots:
        """Nodes of the tree under construction by the ids they have in the tree handed out; NONE becomes 0."""
        leaves, internal = nodes_in(as_arrays(self.links))
        numbers = np.zeros(len(self.links.marks) * 2, np.intp)
        numbers[leaves] = np.arange(len(leaves))
        numbers[internal] = len(leaves) + 1 + np.arange(len(internal))
        return np.where(nodes == NONE, 0, numbers[nodes])

    @property
    def stats(self) -> dict[str, int]:
        return dict(zip(COUNTERS, self.tally.counts.tolist(), strict=True))

    def reserve(self, n_leaves: int) -> None:
        """Make room for this many leaves in all."""
        need = n_leaves + SPARE
        if need > self.store.capacity:
            capacity = max(need, int(1.5 * self.store.capacity)) if self.n_slots else need
            links = self._in_its_form(grown(as_arrays(self.links), capacity))
            self.store.grow(capacity)
            self.links = links

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        """Insert points in order. When interrupted, the tree holds those inserted so far and is valid."""
        if self.compiled:
            warm_up(self.linkage)  # type: ignore[arg-type]
        self._own_arrays()
        start, count = self.n_slots, count_rows(rows)
        self.reserve(start + count)
        self._write(start, rows)
        for first, candidates in self.search.stream(start, start + count):
            self._insert_found(first, candidates)
            if progress is not None:
                progress(len(candidates))

    def remove(self, slots: Slots, repair: bool = True, progress: Advance | None = None) -> None:
        """Take leaves out of the tree and repair the places they leave; when interrupted, some are out and some not.

        Without ``repair`` the linkage is asked nothing, and nothing can be raised.
        """
        self._own_arrays()
        for begin in range(0, len(slots), GROUP):
            batch = slots[begin : begin + GROUP]
            # Gone first, so that none of them is a candidate in the repair of another's place.
            self._set_gone(batch, True)
            try:
                leaves_a_gap = np.array([repair and self._leaves_a_gap(slot) for slot in batch.tolist()], np.bool_)
                searched, others = batch[leaves_a_gap], batch[~leaves_a_gap]
                if len(others):
                    rules = self.rules if repair else NO_MOVES
                    self._change(REMOVE, others, np.full((len(others), 1), NONE, np.int32), rules)
                for first, candidates in self.search.nearest(searched, self.n_slots):
                    self._change(REMOVE, searched[first : first + len(candidates)], candidates)
            finally:
                still = np.array([slot for slot in batch.tolist() if self.has(slot)], np.intp)
                self._set_gone(still, False)
                self.store.drop(np.setdiff1d(batch, still))
            if progress is not None:
                progress(len(batch))

    def _leaves_a_gap(self, slot: int) -> bool:
        """Whether grafts should repair the place of this leaf: its sibling is not large, or pull is to guarantee it."""
        table, p = self.links.table, self.links.table[slot, PARENT]
        return self.rules.graft and p != NONE and bool(self.rules.pull or table[p, SIZE] - 1 <= STEADY)

    def reinsert(self, slots: Slots, candidates: npt.NDArray[np.int32]) -> int:
        """Take each of these leaves out and insert it again; returns how many have another sibling than before.

        ``candidates`` has the neighbours of each among all points, as the search names them; it is used up. When
        interrupted, the tree is valid and holds all points.
        """
        self._own_arrays()
        return self._change(REINSERT, slots, candidates)

    def regrow(self) -> None:
        """Build the top of the tree anew; whatever is raised on the way, the tree is as it was."""
        if self.n_leaves > 2:
            self._own_arrays()
            nodes = crown.crown_of(as_arrays(self.links))
            self._change(REGROW, np.array([(len(nodes) + 1) // 3]), nodes[None])

    def polish(self) -> None:
        """Bring neighbours together, as they were found when the points came: swaps until few are left."""
        # In as little room as the tree needs, for it may be the beginning of a large one.
        links = shrunk(as_arrays(self.links), self.n_slots)
        hood = Neighborhood(self.earlier.among(self.slots()), self.n_slots)
        for _ in range(POLISHING_SWEEPS):
            if hood.sweep(links).made == 0:
                break
        self.restore(grown(links, self.store.capacity))

    def sweep(self, hood: Neighborhood) -> Swaps:
        """Swap nodes with their aunts, once through the tree, where that brings neighbours together."""
        self._own_arrays()
        # First, so that an interruption on the way leaves no summary that is not up to date.
        self.store.forget_summaries()
        links = as_arrays(self.links)
        swaps = hood.sweep(links)
        self.links = self._in_its_form(links)
        return swaps

    def snapshot(self) -> Links:
        """A copy of the tree, to go back to."""
        return copied(as_arrays(self.links))

    def restore(self, links: Links) -> None:
        """Go back to the tree of a snapshot; the points are the same."""
        self.store.forget_summaries()
        self.links = self._in_its_form(links)

    def compact(self) -> Slots | None:
        """Close the gaps that removed points left, once they are more than the points in the tree.

        Returns the old slots of the points, by new slot; None if it is not yet time. The work is in proportion to the
        points that were removed since the last time.
        """
        if self.n_slots - self.n_leaves <= self.n_leaves:
            return None
        capacity = self.n_leaves + SPARE
        links, leaves, internal = compacted(as_arrays(self.links), capacity)
        self.links = self._in_its_form(links)
        self.store.compact(leaves, internal, capacity)
        self.search.compacted(leaves)
        self.earlier.compacted(leaves)
        return leaves

    def place(self, rows: Any) -> Places:
        """Where points would go, without inserting them."""
        self._own_arrays()
        n = self.n_slots
        nodes, scores = np.empty((count_rows(rows), 2), np.int32), np.empty(count_rows(rows))
        for begin in range(0, count_rows(rows), SPARE):
            piece = rows[begin : begin + SPARE]
            self._write(n, piece)
            for first, candidates in self.search.stream(n, n + count_rows(piece), limit=n):
                part = slice(begin + first - n, begin + first - n + len(candidates))
                nodes[part, 0] = candidates[:, 0]
                leaves = np.arange(first, first + len(candidates))
                self._run(PLACE, leaves, nodes[part], self.rules, scores[part])
        self._raise_trouble()
        return Places(nodes[:, 0], nodes[:, 1], scores)

    def tree(self) -> Tree:
        """The tree as it stands, with the score of every pair of siblings: a copy that later points do not change."""
        self._own_arrays()
        self._run(FILL_BONDS, NO_LEAVES, np.empty((0, 2), np.int32), self.rules)
        self._raise_trouble()
        ceiling = getattr(self.linkage, "ceiling", None)
        return Tree.from_links(self.links, np.array(self.store.sums.bonds, dtype=np.float64), ceiling)

    def _insert_found(self, first: int, candidates: npt.NDArray[np.int32]) -> None:
        """Insert points from slot ``first`` on, and polish the tree wherever it is time, whatever the batches."""
        if not self.rules.polish or first >= POLISHED_UP_TO:
            self._change(INSERT, np.arange(first, first + len(candidates)), candidates)
            return
        stops = [n for n in POLISHED_AT if first < n < first + len(candidates)]
        for lo, hi in pairwise([first, *stops, first + len(candidates)]):
            found = candidates[lo - first : hi - first]
            self.earlier.note(lo, found)
            self._change(INSERT, np.arange(lo, hi), found)
            if hi in POLISHED_AT and self.earlier.is_complete:
                self.polish()

    def _in_its_form(self, links: Links) -> Links:
        return links if isinstance(self.store, VectorStore) else as_lists(links)

    def _write(self, at: int, rows: Any) -> None:
        """Let the store and the search know of points to come."""
        self.store.write(at, rows)
        if isinstance(self.search, ScanSearch):
            self.search.write(at, rows)

    def _set_gone(self, slots: Slots, gone: bool) -> None:
        if len(slots):
            self.store.set_gone(slots, gone)
            self.search.changed(slots)

    def _own_arrays(self) -> None:
        """Copy arrays that were loaded read-only (joblib's memory maps)."""
        if isinstance(self.store, VectorStore) and not self.links.table.flags.writeable:
            self.links = copied(self.links)
            self.tally = Tally(self.tally.counts.copy(), self.tally.spent.copy())
            self.earlier.near = self.earlier.near.copy()
            self.store.own_arrays()

    def _run(
        self,
        task: int,
        leaves: Slots,
        candidates: npt.NDArray[np.int32],
        rules: Rules,
        scores: npt.NDArray[np.float64] = NO_SCORES,
    ) -> int:
        run = run_compiled if self.compiled else run_interpreted
        return run(self.links, self.store.sums, rules, self.tally, task, leaves, candidates, scores)

    def _change(self, task: int, leaves: Slots, candidates: npt.NDArray[np.int32], rules: Rules | None = None) -> int:
        """Insert, remove or reinsert a batch of leaves; returns how many have another sibling than before."""
        rules = rules or self.rules
        if not self.compiled:
            return self._change_interpreted(task, leaves, candidates, rules)
        if self.linkage.is_users:  # type: ignore[union-attr]
            return self._change_guarded(task, leaves, candidates, rules)
        return self._run(task, leaves, candidates, rules)

    def _change_interpreted(self, task: int, leaves: Slots, candidates: npt.NDArray[np.int32], rules: Rules) -> int:
        """One point at a time; whatever is raised on the way, the tree is as it was before that point."""
        moved = 0
        for x, row in zip(leaves.tolist(), candidates.tolist(), strict=True):
            journal = Journal()
            links = journal.watch(self.links)
            try:
                moved += change(links, self.store.sums, rules, self.tally, task, x, row)
            except BaseException as error:
                if isinstance(error, LinkageError):
                    error.groups = [list(leaves_under(self.links, node)) for node in error.nodes]
                journal.roll_back()
                self.store.forget_summaries()
                raise
        return moved

    def _raise_trouble(self) -> None:
        """Report, once, that a compiled linkage of the user's own returned no number."""
        if not isinstance(self.store, VectorStore) or not self.store.sums.trouble[0]:
            return
        error = LinkageError("returned nan, which is no score", *map(int, self.store.sums.trouble[1:]))
        error.groups = [list(leaves_under(self.links, node)) for node in error.nodes]
        self.store.sums.trouble[:] = 0
        raise error

    def _change_guarded(self, task: int, leaves: Slots, candidates: npt.NDArray[np.int32], rules: Rules) -> int:
        """A batch under a compiled linkage of the user's own: if it returned no number, undo, and go point by point."""
        assert isinstance(self.store, VectorStore)
        table, head = self.links.table.copy(), self.links.head.copy()
        moved = self._run(task, leaves, candidates.copy(), rules)
        try:
            self._raise_trouble()
        except LinkageError:
            self.links.table[:], self.links.head[:] = table, head
            self.store.forget_summaries()
            if len(candidates) > 1:
                for row in range(len(candidates)):
                    self._change_guarded(task, leaves[row : row + 1], candidates[row : row + 1], rules)
                # None of these was to blame: it was the search, for a point still to come.
            raise
        return moved


_warm: set[bool] = set()


def warm_up(linkage: VectorLinkage | None = None) -> None:
    """Compile everything, or load it from the cache, on two points; once in a process for each kind of linkage."""
    linkage = linkage or VECTOR_LINKAGES["average"]["cosine"]
    if linkage.is_users in _warm:
        return
    _warm.add(linkage.is_users)
    with compile_notice():
        engine = Engine(linkage, EXACT, n_features=1)
        engine.insert(np.ones((2, 1), np.float32))
        engine.tree()
