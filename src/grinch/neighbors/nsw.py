"""Approximate search under any linkage: the paper's navigable small world (Malkov et al., 2014).

Points are nodes of a graph. A query starts from the last point and from points that are drawn, and goes on to the
neighbours of the best it has met, as long as there are better ones. A point that arrives is linked to the nearest that
it found. So f of two leaves is all that is ever asked, and rarely: not of vectors, and not of all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from grinch._by_reference import by_reference
from grinch._compile import entry, jitable
from grinch._interrupts import uninterrupted
from grinch._types import Counts, Ids, Slots, as_id
from grinch._vectors import keep_best
from grinch.neighbors.exact import BATCH, Neighbors, VectorSearch, batches
from grinch.saving.state import MANY, Fields, State, array, require, scalar
from grinch.summaries import RecordSummaries
from grinch.summaries.arrays import Arrays, score_leaves
from grinch.summaries.callbacks import LinkageFailed
from grinch.tree.links import NONE

# Measured: docs/development/search.md.
LINKS = 16
BEAM = 40
STARTS = 32
# Links into a point beyond this many are not followed at once: copies of one point are all linked to the same few.
INTO = 32
# Points that are gone are taken out when there is more than one for so many others: that takes a look at all links.
GONE_SHARE = 1000
# A generator of Lehmer's, by Fishman and Moore.
PRIME, FACTOR = 2**31 - 1, 742_938_285


@by_reference
class Graph(NamedTuple):
    """The links of all points; NONE where there is none.

    ``near[x]`` has the points that x was linked to on arrival, best first. The links into a point are a list: ``first``
    is the latest, ``after`` the one before that. Link j of point x is called x times their number plus j.
    """

    near: Ids
    first: Ids
    after: Ids


@by_reference
class Walk(NamedTuple):
    """Room to work in, and settings.

    ``seen`` has for each point the number of the query that met it last, or one more if its neighbours were looked at;
    ``clock`` is the number of this query, ``asked`` are points to be scored, ``best`` and ``scores`` the best so far.
    """

    seen: Counts
    clock: Counts
    asked: Ids
    best: Ids
    scores: Any
    starts: int
    seed: int
    exact_up_to: int
    into: int


# Looking ------------------------------------------------------------------------------------------------------------


@entry
def look_up(
    arrays: Arrays, graph: Graph, walk: Walk, queries: Slots, limits: Slots, found: Ids, is_entering: bool
) -> None:
    """Find the nearest of each query before its limit; one that ``is_entering`` is linked to them."""
    for r in range(queries.shape[0]):
        filled = walk_to(arrays, graph, walk, as_id(queries[r]), as_id(limits[r]))
        for j in range(found.shape[1]):
            found[r, j] = walk.best[j] if j < filled else NONE
        if is_entering:
            for j in range(graph.near.shape[1]):
                graph.near[queries[r], j] = walk.best[j] if j < filled else NONE
            link(graph, as_id(queries[r]))


@jitable
def walk_to(arrays: Arrays, graph: Graph, walk: Walk, x: int, limit: int) -> int:
    """Put the points nearest to x before a limit into ``walk.best``, best first; returns how many."""
    walk.clock[0] += 2
    now, n = walk.clock[0], as_id(0)
    if x < limit:
        walk.seen[x] = now
    if limit <= walk.exact_up_to:
        for y in range(limit):
            n = note(arrays, walk, y, limit, n)
        return ask(arrays, walk, x, n, 0)
    if x < limit:
        n = note_around(arrays, graph, walk, x, limit, n)
    draw = (limit + walk.seed) % PRIME
    for i in range(min(walk.starts, limit)):
        draw = draw * FACTOR % PRIME
        start = limit - 1 if i == 0 else draw % limit
        # The next that is still there.
        for _ in range(limit):
            if not arrays.gone[start]:
                break
            start = (start + 1) % limit
        n = note(arrays, walk, start, limit, n)
    filled, at = ask(arrays, walk, x, n, 0), as_id(0)
    while at < filled:
        if walk.seen[walk.best[at]] == now:
            walk.seen[walk.best[at]] = now + 1
            filled = ask(arrays, walk, x, note_around(arrays, graph, walk, as_id(walk.best[at]), limit, 0), filled)
            at = as_id(0)
        else:
            at += 1
    return filled


@jitable
def note_around(arrays: Arrays, graph: Graph, walk: Walk, x: int, limit: int, n: int) -> int:
    """Note the points that x has links with, as far as there is room."""
    links = as_id(graph.near.shape[1])
    for j in range(links):
        n = note(arrays, walk, as_id(graph.near[x, j]), limit, n)
    e = as_id(graph.first[x])
    stop = n + walk.into
    while e != NONE and n < stop:
        y = e // links
        n = note(arrays, walk, y, limit, n)
        e = as_id(graph.after[y, e % links])
    return n


@jitable
def note(arrays: Arrays, walk: Walk, y: int, limit: int, n: int) -> int:
    """Note y as one to ask about, if it is there, before the limit, and not seen yet; returns how many are noted."""
    if y == NONE or y >= limit or arrays.gone[y] or walk.seen[y] >= walk.clock[0]:
        return n
    walk.seen[y], walk.asked[n] = walk.clock[0], y
    return n + 1


@jitable
def ask(arrays: Arrays, walk: Walk, x: int, n: int, filled: int) -> int:
    """Score the first n that are noted, and keep the best; returns how many these are."""
    score_leaves(arrays, x, walk.asked, n)
    for i in range(n):
        filled = keep_best(arrays.answers[i], as_id(walk.asked[i]), walk.scores, walk.best, filled, walk.best.shape[0])
    return filled


@jitable
def link(graph: Graph, x: int) -> None:
    """Enter the links of x, the last point, into the lists of those it is linked to."""
    links = as_id(graph.near.shape[1])
    for j in range(links):
        y = as_id(graph.near[x, j])
        if y != NONE:
            graph.after[x, j], graph.first[y] = graph.first[y], x * links + j


@entry
def link_all(graph: Graph, heirs: Ids) -> None:
    """Enter the links of all points; what would be linked to one that is gone is linked to its heir.

    ``heirs[x]`` is x, unless it is gone: then NONE, and here the nearest that x was linked to; or if it was the oldest
    of all, the first that was linked to x.
    """
    links = as_id(graph.near.shape[1])
    for x in range(graph.near.shape[0]):
        is_gone = heirs[x] == NONE
        for j in range(links):
            y = as_id(graph.near[x, j])
            graph.near[x, j] = NONE
            while y != NONE and y != x and heirs[y] != y:
                if heirs[y] == NONE:
                    heirs[y] = x
                y = as_id(heirs[y])
            is_new = y != x
            for i in range(j):
                is_new = is_new and graph.near[x, i] != y
            if is_new:
                graph.near[x, j] = y
                if is_gone and heirs[x] == NONE:
                    heirs[x] = y
        if is_gone:
            for j in range(links):
                graph.near[x, j] = NONE
        link(graph, x)


# The search ---------------------------------------------------------------------------------------------------------


FIELDS = Fields(exact_up_to=int, beam=int, starts=int, seed=int, into=int, entered=int)


class NswSearch(VectorSearch):
    """About the k nearest earlier points, under any linkage.

    Parameters
    ----------
    summaries : Summaries
        The points.
    k : int
        How many are found.
    exact_up_to : int
        Up to this many points, a query is compared with all.
    links : int
        How many points a new one is linked to.
    beam : int
        How many of the best are looked around.
    starts : int
        How many points a query starts from.
    seed : int
        What the starts are drawn from, beside the number of points.
    into : int
        How many of the links into a point are followed at once.
    """

    def __init__(
        self,
        summaries: Any,
        k: int,
        exact_up_to: int = 0,
        links: int = LINKS,
        beam: int = BEAM,
        starts: int = STARTS,
        seed: int = 0,
        into: int = INTO,
    ):
        self.summaries, self.k = summaries, k
        self.exact_up_to, self.beam, self.starts, self.seed = exact_up_to, beam, starts, seed
        self.into = into
        self._begin(np.empty((0, links), np.int32), np.empty(0, np.int64))

    def _begin(self, near: Ids, gone: Slots) -> None:
        """Begin with the points that have these links, without those that are gone."""
        n, self._gone = len(near), gone[:0]
        heirs = np.arange(n, dtype=np.int32)
        heirs[gone] = NONE
        self.entered, self._graph = n, Graph(near.copy(), np.full(n, NONE, np.int32), np.full_like(near, NONE))
        link_all(self._graph, heirs)
        self._walk = self._new_walk(n)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_state, (self.to_state(), self.summaries)

    @classmethod
    def from_state(cls, state: Any, summaries: Any) -> Self:
        """Return the search of a state on the points there are summaries of."""
        search = FIELDS.new(cls, state)
        search.summaries, search.k = summaries, scalar(state, "k", int)
        near, gone = array(state, "near", "<i4", 2), array(state, "gone", "<i8", 1)
        n, links = near.shape
        require(n == search.entered <= summaries.capacity and 1 <= links <= MANY, "links are not those of the points")
        require(((near >= NONE) & (near < np.arange(n)[:, None])).all(), "a point was linked to a later one")
        require(((gone >= 0) & (gone < n)).all(), "a point that is gone was never there")
        sizes = search.beam, search.starts, search.into
        require(all(1 <= size <= MANY for size in sizes), "nothing is looked at")
        require(0 <= search.exact_up_to <= MANY and 0 <= search.seed < PRIME, "nothing is looked at")
        search._begin(near, gone[:0])
        search._gone = gone
        return search

    def to_state(self) -> State:
        links = {"near": self._graph.near[: self.entered], "gone": self._gone}
        return {"part": "nsw_search", "k": int(self.k), **FIELDS.take(self), **links}

    def arriving(self, start: int, stop: int) -> Iterator[Neighbors]:
        self._settle(start)
        # Records one by one: a linkage of the user's own may raise.
        for lo, hi in batches(start, stop, 1 if isinstance(self.summaries, RecordSummaries) else BATCH):
            yield Neighbors(lo, self._enter(lo, hi))

    def nearest(self, leaves: Slots, limit: int) -> Iterator[Neighbors]:
        for lo, hi in batches(0, len(leaves)):
            yield Neighbors(lo, self._found(self.summaries.arrays, leaves[lo:hi], np.full(hi - lo, limit), self._walk))

    def find(self, arrays: Arrays, slots: Slots, limit: int) -> Ids:
        if not isinstance(self.summaries, RecordSummaries):
            # Another thread may be at work in the same arrays.
            arrays = arrays._replace(answers=np.empty(len(arrays.answers)), spread_out=arrays.spread_out[:0])
        return self._found(arrays, slots, np.full(len(slots), limit), self._new_walk(limit))

    def frozen(self, summaries: Any, limit: int) -> Self:
        self._settle(limit)
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), summaries=summaries)
        # Of links, only those of later points are written.
        twin._graph = self._graph._replace(first=self._graph.first[:limit].copy())
        return twin

    def catch_up(self, count: int) -> None:
        self._settle(count)

    def changed(self, leaves: Slots) -> None:
        self._gone = np.union1d(np.setdiff1d(self._gone, leaves), leaves[self.summaries.gone(leaves)])

    def compacted(self, leaves: Slots) -> None:
        with uninterrupted():
            self._begin(self._graph.near[: self.entered], self._gone)
            numbers = np.full(self.entered + 1, NONE, np.int32)  # one more, where NONE points
            numbers[leaves] = np.arange(len(leaves))
            self._begin(numbers[self._graph.near[leaves]], leaves[:0])

    def _settle(self, count: int) -> None:
        """Let the graph be of the first ``count`` points; an interrupted fit may have left others here."""
        if self.entered > count or GONE_SHARE * len(self._gone) > self.entered:
            with uninterrupted():
                self._begin(self._graph.near[: min(self.entered, count)], self._gone)
        for lo, hi in batches(self.entered, count):
            self._enter(lo, hi)

    def _make_room(self, stop: int) -> None:
        """Make room for some more points."""
        n = len(self._graph.first)
        if stop > n:
            pads = [(0, stop + stop // 2 - n), (0, 0)]
            parts = [np.pad(part, pads[: part.ndim], constant_values=NONE) for part in self._graph]
            self._graph, self._walk = Graph(*parts), self._new_walk(len(parts[0]))

    def _enter(self, lo: int, hi: int) -> Ids:
        """Find the neighbours of points that come next, each among those before it, and link them."""
        self._make_room(hi)
        points = np.arange(lo, hi)
        found = self._found(self.summaries.arrays, points, points, self._walk, is_entering=True)
        self.entered = hi
        return found

    def _found(self, arrays: Arrays, queries: Slots, limits: Slots, walk: Walk, is_entering: bool = False) -> Ids:
        found = np.empty((len(queries), self.k), np.int32)
        try:
            with self.summaries.heard():
                look_up(arrays, self._graph, walk, queries, limits, found, is_entering)
        except LinkageFailed:
            if not isinstance(self.summaries, RecordSummaries):
                raise
            error = self.summaries.failure()
            raise error from error.__cause__
        return found

    def _new_walk(self, n_points: int) -> Walk:
        links = self._graph.near.shape[1]
        width = max(self.k, links, self.beam)
        return Walk(
            seen=np.zeros(n_points, np.int64),
            clock=np.zeros(1, np.int64),
            # All that a point has links with, and where it starts.
            asked=np.empty(max(links + self.into + self.starts, self.exact_up_to), np.int32),
            best=np.empty(width, np.int32),
            scores=np.empty(width),
            starts=self.starts,
            seed=self.seed,
            exact_up_to=self.exact_up_to,
            into=self.into,
        )
