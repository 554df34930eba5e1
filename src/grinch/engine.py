"""The engine: search, then attach, then the moves, point by point."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from grinch import moves
from grinch._compile import NO_COUNTS, compile_notice, source_digest
from grinch.journal import Journal
from grinch.linkage.base import Linkage, VectorLinkage
from grinch.linkage.named import linkage_of
from grinch.linkage.store import RecordStore, VectorStore
from grinch.linkage.summaries import bond, similarity
from grinch.neighbors import make_search
from grinch.neighbors.base import Search
from grinch.settings import EXACT, Rules
from grinch.tally import COUNTERS, Tally, new_tally
from grinch.tree import Tree
from grinch.tree.links import LEAVES, OFFSET, SIZE, Links, grown, new_links

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
                c = candidates[row, 0]
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
    search : str
        Where to look for neighbours.
    n_neighbors : int
        How many neighbours are found for each point.
    n_features : int
        Length of the vectors (ignored for records).
    compiled : bool
        Run the moves compiled (vectors only) or interpreted; the trees are the same.
    timed : bool
        Measure the time spent in each move.
    """

    def __init__(
        self,
        linkage: VectorLinkage | Linkage,
        rules: Rules,
        search: str = "exact",
        n_neighbors: int = 50,
        n_features: int = 0,
        compiled: bool = True,
        timed: bool = False,
    ):
        self.linkage, self.rules = linkage, rules
        self.tally: Tally = new_tally(timed)
        self.store: VectorStore | RecordStore
        if isinstance(linkage, VectorLinkage):
            self.store = VectorStore(linkage, n_features)
        else:
            self.store, compiled = RecordStore(linkage), False
        self.compiled = compiled
        self.links = new_links(0, rules.size_limit)
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
            links = grown(self.links, capacity)
            self.store.grow(capacity)
            self.links = links

    def insert(self, rows: Any, progress: Callable[[int], None] | None = None) -> None:
        """Insert points in order. When interrupted, the tree holds those inserted so far and is valid."""
        if self.compiled:
            warm_up()
        self._own_arrays()
        start, count = self.n_leaves, count_rows(rows)
        self.reserve(start + count)
        self.store.write(start, rows)
        for first, candidates in self.search.stream(start, start + count):
            if self.compiled:
                self._run(INSERT, first, candidates)
            else:
                self._insert_interpreted(first, candidates)
            if progress is not None:
                progress(len(candidates))

    def place(self, rows: Any) -> Places:
        """Where points would go, without inserting them."""
        self._own_arrays()
        n = self.n_leaves
        nodes, scores = np.empty((count_rows(rows), 2), np.int32), np.empty(count_rows(rows))
        for begin in range(0, count_rows(rows), SPARE):
            piece = rows[begin : begin + SPARE]
            self.store.write(n, piece)
            for first, candidates in self.search.stream(n, n + count_rows(piece), limit=n):
                part = slice(begin + first - n, begin + first - n + len(candidates))
                nodes[part, 0] = candidates[:, 0]
                self._run(PLACE, first, nodes[part], scores[part])
        return Places(nodes[:, 0], nodes[:, 1], scores)

    def tree(self) -> Tree:
        """The tree as it stands, with the score of every pair of siblings: a copy that later points do not change."""
        self._own_arrays()
        self._run(FILL_BONDS, 0, np.empty((0, 2), np.int32))
        ceiling = self.linkage.ceiling if isinstance(self.linkage, VectorLinkage) else None
        return Tree.from_links(self.links, np.array(self.store.sums.bonds, dtype=np.float64), ceiling)

    def _own_arrays(self) -> None:
        """Copy arrays that were loaded read-only (joblib's memory maps)."""
        if not self.links.table.flags.writeable:
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
            links, sums = journal.watch(self.links, self.store.sums)
            try:
                moves.insert(links, sums, self.rules, self.tally, start + row, candidates[row])
            except BaseException:
                journal.roll_back()
                self.store.forget_summaries()
                self.links.table[start + row, SIZE] = -1
                raise


def count_rows(rows: Any) -> int:
    """How many rows an array, a sparse matrix or a list of records has."""
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)


@cache
def warm_up() -> None:
    """Compile everything, or load it from the cache, on two points; once in a process."""
    with compile_notice():
        engine = Engine(linkage_of("average"), EXACT, n_features=1)
        engine.reserve(2)
        engine.store.write(0, np.ones((2, 1), np.float32))
        for first, candidates in engine.search.stream(0, 2):
            engine._run(INSERT, first, candidates)
        engine.tree()
