"""The engine: search, then attach, then the moves, point by point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from grinch import moves
from grinch._compile import NO_COUNTS, compile_notice, source_digest
from grinch.builder import Advance, count_rows
from grinch.errors import LinkageError
from grinch.journal import Journal
from grinch.linkage.base import Linkage, VectorLinkage
from grinch.linkage.named import VECTOR_LINKAGES
from grinch.linkage.store import RecordStore, VectorStore, leaves_under
from grinch.linkage.summaries import bond, similarity
from grinch.neighbors import make_search
from grinch.neighbors.base import Search
from grinch.neighbors.scan import ScanSearch
from grinch.settings import EXACT, Rules
from grinch.tally import COUNTERS, Tally, new_tally
from grinch.tree import Tree
from grinch.tree.links import LEAVES, NONE, OFFSET, ROOT, Links, as_arrays, as_lists, grown, new_links

# Leaf slots kept free for points that are looked up but not inserted.
SPARE = 256


# What the engine can be asked to do with a batch of points.
INSERT, PLACE, FILL_BONDS = range(3)


def _entry_point(digest: str) -> Callable[..., None]:
    """The one function through which Python enters the moves; ``digest`` keys its compile cache."""

    def run(tree, sums, rules, tally, task, start, candidates, scores):  # type: ignore[no-untyped-def]
        digest  # noqa: B018
        for row in range(candidates.shape[0]):
            if task == INSERT:
                moves.insert(tree, sums, rules, tally, start + row, candidates[row])
            elif task == PLACE:
                c = candidates[row, 0] if candidates[row, 0] != NONE else tree.head[ROOT]
                if rules.rotate:
                    c = moves.rotate(tree, sums, rules, tally, start + row, c)
                candidates[row, 1] = c
                scores[row] = similarity(tree, sums, tally, start + row, c)
        if task == FILL_BONDS:
            for p in range(tree.head[OFFSET] + 1, tree.head[OFFSET] + tree.head[LEAVES]):
                bond(tree, sums, tally, p)

    return run


run_interpreted = _entry_point("")
run_compiled = njit(cache=True, nogil=True, **NO_COUNTS)(_entry_point(source_digest()))


NO_SCORES = np.empty(0)


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
        self.search: Search = make_search(search, self.store, n_neighbors if rules.single_search else 1, self.tally)

    @property
    def n_leaves(self) -> int:
        return int(self.links.head[LEAVES])

    @property
    def stats(self) -> dict[str, int]:
        return dict(zip(COUNTERS, self.tally.counts.tolist(), strict=True))

    def reserve(self, n_leaves: int) -> None:
        """Make room for this many leaves in all."""
        need = n_leaves + SPARE
        if need > self.store.capacity:
            capacity = max(need, int(1.5 * self.store.capacity)) if self.n_leaves else need
            links = self._in_its_form(grown(as_arrays(self.links), capacity))
            self.store.grow(capacity)
            self.links = links

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        """Insert points in order. When interrupted, the tree holds those inserted so far and is valid."""
        if self.compiled:
            warm_up(self.linkage)  # type: ignore[arg-type]
        self._own_arrays()
        start, count = self.n_leaves, count_rows(rows)
        self.reserve(start + count)
        self._write(start, rows)
        for first, candidates in self.search.stream(start, start + count):
            if not self.compiled:
                self._insert_interpreted(first, candidates)
            elif self.linkage.is_users:  # type: ignore[union-attr]
                self._insert_guarded(first, candidates)
            else:
                self._run(INSERT, first, candidates)
            if progress is not None:
                progress(len(candidates))

    def place(self, rows: Any) -> Places:
        """Where points would go, without inserting them."""
        self._own_arrays()
        n = self.n_leaves
        nodes, scores = np.empty((count_rows(rows), 2), np.int32), np.empty(count_rows(rows))
        for begin in range(0, count_rows(rows), SPARE):
            piece = rows[begin : begin + SPARE]
            self._write(n, piece)
            for first, candidates in self.search.stream(n, n + count_rows(piece), limit=n):
                part = slice(begin + first - n, begin + first - n + len(candidates))
                nodes[part, 0] = candidates[:, 0]
                self._run(PLACE, first, nodes[part], scores[part])
        self._raise_trouble()
        return Places(nodes[:, 0], nodes[:, 1], scores)

    def tree(self) -> Tree:
        """The tree as it stands, with the score of every pair of siblings: a copy that later points do not change."""
        self._own_arrays()
        self._run(FILL_BONDS, 0, np.empty((0, 2), np.int32))
        self._raise_trouble()
        ceiling = getattr(self.linkage, "ceiling", None)
        return Tree.from_links(self.links, np.array(self.store.sums.bonds, dtype=np.float64), ceiling)

    def _in_its_form(self, links: Links) -> Links:
        return links if isinstance(self.store, VectorStore) else as_lists(links)

    def _write(self, at: int, rows: Any) -> None:
        """Let the store and the search know of points to come."""
        self.store.write(at, rows)
        if isinstance(self.search, ScanSearch):
            self.search.write(at, rows)

    def _own_arrays(self) -> None:
        """Copy arrays that were loaded read-only (joblib's memory maps)."""
        if isinstance(self.store, VectorStore) and not self.links.table.flags.writeable:
            self.links = Links(self.links.table.copy(), self.links.head.copy(), self.links.marks.copy())
            self.tally = Tally(self.tally.counts.copy(), self.tally.spent.copy())
            self.store.own_arrays()

    def _run(
        self,
        task: int,
        start: int,
        candidates: npt.NDArray[np.int32],
        scores: npt.NDArray[np.float64] = NO_SCORES,
    ) -> None:
        run = run_compiled if self.compiled else run_interpreted
        run(self.links, self.store.sums, self.rules, self.tally, task, start, candidates, scores)

    def _insert_interpreted(self, start: int, candidates: npt.NDArray[np.int32]) -> None:
        """One point at a time; whatever is raised on the way, the tree is as it was before that point."""
        for row in range(len(candidates)):
            journal = Journal()
            links = journal.watch(self.links)
            try:
                moves.insert(links, self.store.sums, self.rules, self.tally, start + row, candidates[row].tolist())
            except BaseException as error:
                if isinstance(error, LinkageError):
                    error.groups = [list(leaves_under(self.links, node)) for node in error.nodes]
                journal.roll_back()
                self.store.forget_summaries()
                raise

    def _raise_trouble(self) -> None:
        """Report, once, that a compiled linkage of the user's own returned no number."""
        if not isinstance(self.store, VectorStore) or not self.store.sums.trouble[0]:
            return
        error = LinkageError("returned nan, which is no score", *map(int, self.store.sums.trouble[1:]))
        error.groups = [list(leaves_under(self.links, node)) for node in error.nodes]
        self.store.sums.trouble[:] = 0
        raise error

    def _insert_guarded(self, start: int, candidates: npt.NDArray[np.int32]) -> None:
        """A batch under a compiled linkage of the user's own: if it returned no number, undo, and go point by point."""
        assert isinstance(self.store, VectorStore)
        table, head = self.links.table.copy(), self.links.head.copy()
        self._run(INSERT, start, candidates.copy())
        try:
            self._raise_trouble()
        except LinkageError:
            self.links.table[:], self.links.head[:] = table, head
            self.store.forget_summaries()
            if len(candidates) > 1:
                for row in range(len(candidates)):
                    self._insert_guarded(start + row, candidates[row : row + 1])
                # None of these was to blame: it was the search, for a point still to come.
            raise


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
