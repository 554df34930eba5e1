"""Search for the nearest points that came before each arriving point: the protocol, and exact search on vectors.

Products of matrices propose candidates, batches ahead of the inserts in threads of their own. A matrix product rounds
differently for different shapes, and then near-ties would fall differently for different batch sizes. So the product
only proposes: each query keeps a few more candidates than it needs, they are scored again by the linkage's own kernel,
and ties go to the point that arrived first. Where rounding could have hidden a candidate, every point is scored.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from grinch._checks import cores
from grinch._compile import entry, jitable
from grinch._types import Floats, Ids, Slots, Vectors32, as_id
from grinch._vectors import keep_best, offer_block
from grinch.linkage.named import LENGTH
from grinch.saving.state import MANY, State, require, scalar
from grinch.summaries.arrays import Arrays, vector_score
from grinch.summaries.vectors import is_whole
from grinch.tree.links import NONE

# Points searched for at a time: large enough for a fast matrix product, small enough for a lively progress bar.
BATCH = 256


class Neighbors(NamedTuple):
    """Candidates of the points ``start, start + 1, …``: node ids, best first, padded with -1."""

    start: int
    candidates: Ids


class Search:
    """A way to find the nearest earlier points of each point in a range, or those of any points among all.

    What is gone from the summaries is never found. ``k`` is how many are found. The summaries know all points, so
    most searches ignore what changes.
    """

    k: int

    def write(self, at: int, rows: Any) -> None:
        """Take note of points to come, from slot ``at`` on, as they were given."""

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        """Yield the neighbours of points start to stop, in order; each among the points before it, or ``limit``."""
        raise NotImplementedError

    def nearest(self, leaves: Slots, limit: int) -> Iterator[Neighbors]:
        """Yield the neighbours of points among all others before ``limit``; ``start`` counts along ``leaves``."""
        raise NotImplementedError

    def catch_up(self, count: int) -> None:
        """Find the first ``count`` points from now on, which were written and for which no stream was asked."""

    def changed(self, leaves: Slots) -> None:
        """Take note that these points are gone from the summaries, or back in them."""

    def rewritten(self) -> None:
        """Take note that all points have other vectors than before, in the same slots."""

    def compacted(self, leaves: Slots) -> None:
        """Take note that only these points are left, numbered from 0."""

    def to_state(self) -> State:
        """Return what a file holds of the search."""
        raise NotImplementedError

    def validate(self) -> None:
        """Raise an error for a state that compiled code could not use."""
        require(1 <= self.k <= MANY, f"{self.k} neighbours cannot be looked for")


class VectorSearch(Search):
    """A search on vectors, which finds the neighbours of points that are only looked up, too."""

    summaries: Any

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        if limit is not None:
            yield Neighbors(start, self.find(self.summaries.arrays, np.arange(start, stop), limit))
        else:
            yield from self.arriving(start, stop)

    def arriving(self, start: int, stop: int) -> Iterator[Neighbors]:
        """Yield the neighbours of points start to stop, each among the points before it."""
        raise NotImplementedError

    def find(self, arrays: Arrays, slots: Slots, limit: int) -> Ids:
        """Return the neighbours of what was written to slots of ``arrays``, among the points before ``limit``.

        The slots are behind all points, one after the other.
        """
        raise NotImplementedError

    def frozen(self, summaries: Any, limit: int) -> VectorSearch:
        """Return a search whose :meth:`find` goes on as this one does now, whatever is written or taken out here.

        ``summaries`` is a frozen twin of those that this one searches; ``limit`` is how many points there are.
        """
        raise NotImplementedError


class Guard:
    """Has a lock, and can be saved and copied: the copy's lock is open.

    Say ``with guard.lock``: no Ctrl-C comes between taking a lock and the ``with`` that gives it back.
    """

    def __init__(self) -> None:
        self.lock = Lock()

    def __reduce__(self) -> tuple[type[Guard], tuple[()]]:
        return Guard, ()


def batches(start: int, stop: int, size: int = BATCH) -> Iterator[tuple[int, int]]:
    """Cut a range where positions are multiples of ``size``, whatever the range: the same cuts for any chunking."""
    while start < stop:
        end = min(stop, (start // size + 1) * size)
        yield start, end
        start = end


# A block of products (BATCH x BLOCK float32) stays in the second-level cache while it is looked through.
BLOCK = 4096
EXTRA = 16
# Up to this many points are looked up without limiting the threads of BLAS first.
FEW_QUERIES = 4
# Batches found ahead of the inserts, per job: enough that neither waits for the other.
AHEAD = 6


@cache
def _blas() -> ThreadpoolController:
    """Return the loaded BLAS libraries; finding them takes longer than the search for a point, so it is done once."""
    return ThreadpoolController()


class ExactSearch(VectorSearch):
    """The k nearest earlier points under the leaf-level form of a vector linkage."""

    number: Any = np.float32
    """What products are computed in."""

    def __init__(self, summaries: Any, k: int, jobs: int | None = None):
        self.summaries, self.k = summaries, k
        self.jobs = jobs or cores()
        self.full_scans = 0
        # Held while the factors change.
        self._guard = Guard()
        self._synced = 0
        self._scale = np.ones(0, self.number)
        self._shift = np.zeros(0, self.number)

    @classmethod
    def from_state(cls, state: Any, summaries: Any) -> Self:
        """Return the search of a state on the points there are summaries of."""
        search = cls(summaries, scalar(state, "k", int))
        search.full_scans = scalar(state, "full_scans", int)
        return search

    def to_state(self) -> State:
        return {"part": "exact_search", "k": int(self.k), "full_scans": int(self.full_scans)}

    def arriving(self, start: int, stop: int) -> Iterator[Neighbors]:
        self._sync(start, stop)
        if 0 < stop - start <= FEW_QUERIES:
            yield self._batch(start, stop)
            return
        # Each batch is one task on one core; BLAS threads of its own would only be in the way.
        with _blas().limit(limits=1, user_api="blas"):
            yield from ahead(self._batch, list(batches(start, stop)), self.jobs)

    def nearest(self, leaves: Slots, limit: int) -> Iterator[Neighbors]:
        self._sync(limit, limit)

        def task(lo: int, hi: int) -> Neighbors:
            return Neighbors(lo, self._found(self.summaries.arrays, leaves[lo:hi], np.full(hi - lo, limit)))

        with _blas().limit(limits=1, user_api="blas"):
            yield from ahead(task, list(batches(0, len(leaves))), self.jobs)

    def find(self, arrays: Arrays, slots: Slots, limit: int) -> Ids:
        if self._synced < limit:
            self._sync(limit, limit)
        # BLAS keeps its threads: how many it has is one setting for all, and a stream may have changed it meanwhile.
        return self._found(arrays, slots, np.full(len(slots), limit))

    def frozen(self, summaries: Any, limit: int) -> Self:
        if self._synced < limit:
            self._sync(limit, limit)
        twin = copy.copy(self)
        twin.summaries, twin._synced = summaries, limit
        twin._scale, twin._shift = self._scale[:limit].copy(), self._shift[:limit].copy()
        return twin

    def changed(self, leaves: Slots) -> None:
        self._sync(self._synced, self._synced)
        with self._guard.lock:
            self._set_factors(leaves[leaves < self._synced])

    def rewritten(self) -> None:
        self._synced = 0

    def compacted(self, leaves: Slots) -> None:
        self._synced = 0

    def _sync(self, start: int, stop: int) -> None:
        """Bring the factors of the products up to date with the summaries; points from ``start`` on are new."""
        with self._guard.lock:
            self._make_room(stop)
            self._set_factors(slice(min(start, self._synced), stop))
            self._synced = stop

    def _make_room(self, stop: int) -> None:
        """Make room for some more points, not for all there is room for: another search may go on from here."""
        if len(self._scale) < stop or not self._scale.flags.writeable:
            room = max(min(stop + stop // 2, self.summaries.capacity) - len(self._scale), 0)
            self._scale = np.concatenate([self._scale, np.ones(room, self.number)])
            self._shift = np.concatenate([self._shift, np.zeros(room, self.number)])

    def _set_factors(self, leaves: Any) -> None:
        lengths = self.summaries.lengths(leaves)
        shift: Any = 0.0
        if self.summaries.linkage.leaf_metric == "cosine":
            with np.errstate(divide="ignore"):
                self._scale[leaves] = np.where(lengths > 0, 1.0 / lengths, 0.0)
        elif self.summaries.linkage.leaf_metric == "sqeuclidean":
            shift = -0.5 * self.summaries.squares(leaves)
        # What is gone is behind everything else, and is never offered.
        self._shift[leaves] = np.where(self.summaries.gone(leaves), -np.inf, shift)

    def _slack(self, own: Floats, lowest: npt.NDArray[np.float32], are_whole: bool) -> npt.NDArray[np.float64]:
        """Return how far a product may be off by rounding, for each query; -1 where it is exact.

        ``own`` is how long each query is, ``lowest`` the worst value that each query kept; ``are_whole``: there are
        only whole numbers in the queries and the points.
        """
        unit = 8.0 * np.sqrt(self.summaries.n_features) * np.finfo(np.float32).eps
        longest = self.summaries.longest
        if self.summaries.linkage.leaf_metric == "cosine":
            # A product of whole numbers is 0 or it is not: a tie at 0 is a tie.
            return np.where(are_whole & (lowest == 0) & (own * longest < 2**24), -1.0, unit * own)
        if self.summaries.linkage.leaf_metric == "sqeuclidean":
            # The value is x·l - |l|²/2, so what could displace the worst is no farther from x than this.
            kept = np.where(np.isfinite(lowest), lowest, 0.0).astype(np.float64)
            reach = own + np.sqrt(np.maximum(own**2 - 2.0 * kept, 0.0))
            size = reach**2
        else:
            size = own * longest
        # Whole numbers are multiplied and added without rounding, up to 2^24 (a half is as good as a whole).
        is_exact = (size * 4 < 2**24) if are_whole else np.zeros(len(own), np.bool_)
        return np.where(is_exact, -1.0, unit * size)

    def _batch(self, lo: int, hi: int) -> Neighbors:
        queries = np.arange(lo, hi)
        return Neighbors(lo, self._found(self.summaries.arrays, queries, queries))

    def _found(self, arrays: Arrays, queries: Slots, limits: Slots) -> Ids:
        """Return the k nearest of each query among the points before its limit."""
        n, points, rows = len(queries), arrays.means, arrays.means[queries]
        scale, shift = self._scale, self._shift
        # One more than is asked for: among all points a query finds itself, and that does not count.
        width = self.k + EXTRA + 1
        values = np.full((n, width), -np.inf, np.float32)
        proposed = np.full((n, width), -1, np.int32)
        last = int(limits.max())
        products = np.empty((n, min(BLOCK, max(last, 1))), np.float32)
        for first in range(0, last, BLOCK):
            end = min(first + BLOCK, last)
            block = products[:, : end - first]
            # BLAS pads rows with whatever is in memory, and numpy would warn of numbers that are in no result.
            with np.errstate(invalid="ignore"):
                np.matmul(rows, points[first:end].T, out=block)
            offer_block(block, first, limits, scale, shift, values, proposed)
        found = np.empty((n, self.k), np.int32)
        scores = np.empty((n, self.k))
        are_whole = self.summaries.is_whole and is_whole(rows)
        slack = self._slack(arrays.moments[queries, LENGTH], values[:, 0], are_whole)
        self.full_scans += settle(arrays, queries, limits, values, proposed, slack, found, scores)
        return found


def ahead(task: Callable[[int, int], Neighbors], ranges: list[tuple[int, int]], jobs: int) -> Iterator[Neighbors]:
    """Run ``task`` on each range, in order, by ``jobs`` threads, some ranges ahead of what is asked for."""
    if len(ranges) < 2 or cores() == 1:
        yield from (task(lo, hi) for lo, hi in ranges)
        return
    under_way: deque[Future[Neighbors]] = deque()
    waiting = iter(ranges)
    with ThreadPoolExecutor(jobs, thread_name_prefix="grinch-search") as pool:
        try:
            for lo, hi in waiting:
                under_way.append(pool.submit(task, lo, hi))
                if len(under_way) > AHEAD * jobs:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()


@jitable
def _rank(arrays: Arrays, x: int, names: Ids, found: Ids, scores: Floats) -> int:
    """Score the named candidates of x, but for x itself, and keep the best; returns how many were kept."""
    filled = 0
    for i in range(names.shape[0]):
        name = as_id(names[i])
        if name != NONE and name != x:
            filled = keep_best(vector_score(arrays, x, name), name, scores, found, filled, found.shape[0])
    return filled


def ranked(arrays: Arrays, queries: Slots, proposed: Ids, k: int) -> Ids:
    """Return the k best of the proposed candidates of each query by the linkage, padded with NONE."""
    n, found = len(queries), np.empty((len(queries), k), np.int32)
    exact = np.zeros((n, 1), np.float32), proposed, np.full(n, -1.0)
    settle(arrays, queries, queries, *exact, found, np.empty((n, k)))
    return found


@entry
def settle(
    arrays: Arrays,
    queries: Slots,
    limits: Slots,
    values: Vectors32,
    proposed: Ids,
    slack: Floats,
    found: Ids,
    scores: Floats,
) -> int:
    """Rank what is proposed, but score every point where rounding may have hidden a candidate; return how often.

    ``slack[r]`` is how far a product of query r may be off; negative if it is exact, ties included.
    """
    k, scans = found.shape[1], 0
    for r in range(queries.shape[0]):
        heap, lowest = values[r], values[r, 0]
        certain = 0
        for i in range(heap.shape[0]):
            certain += heap[i] > lowest + 2.0 * slack[r] and proposed[r, i] != queries[r]
        if lowest > -np.inf and slack[r] >= 0.0 and certain < k:
            scans += 1
            filled = 0
            for j in range(limits[r]):
                if j == queries[r] or arrays.gone[j]:
                    continue
                filled = keep_best(vector_score(arrays, queries[r], j), j, scores[r], found[r], filled, k)
        else:
            filled = _rank(arrays, queries[r], proposed[r], found[r], scores[r])
        found[r, filled:] = NONE
    return scans
