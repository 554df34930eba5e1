"""Search on sparse vectors by an inverted index: exact, or by the most telling columns alone."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from grinch._types import Ids, Slots
from grinch.neighbors import postings, topk
from grinch.neighbors.exact import EXTRA, ExactSearch
from grinch.saving.state import State, require, scalar
from grinch.summaries.arrays import Arrays
from grinch.summaries.sparse import SparseSummaries
from grinch.tree.links import NO_LIMIT, NONE

# So many points at the end are compared one by one: they are indexed together.
AT_ONCE = 512
# So many at a time are put in order by columns.
PIECE = 2**14
# Of a query, the columns that the fewest points have are used, as long as these are at most so many in all. Measured:
# docs/development/search.md.
MOST_POINTS = 2**14


class SparseSearch(ExactSearch):
    """The k nearest earlier points by an inverted index.

    ``most_points`` is how many points a query may be compared with, counted once for each column they share.
    """

    number = np.float64

    def __init__(self, summaries: SparseSummaries, k: int, jobs: int | None = None, most_points: int = NO_LIMIT):
        super().__init__(summaries, k, jobs)
        self.most_points = most_points
        self.postings = postings.Postings()

    @classmethod
    def from_state(cls, state: Any, summaries: SparseSummaries) -> Self:
        search = super().from_state(state, summaries)
        search.most_points = scalar(state, "most_points", int)
        return search

    def to_state(self) -> State:
        return {**super().to_state(), "part": "sparse_search", "most_points": int(self.most_points)}

    def validate(self) -> None:
        super().validate()
        require(self.most_points >= 1, "nothing is searched")

    def rewritten(self) -> None:
        super().rewritten()
        self.postings = postings.Postings()

    def compacted(self, leaves: Slots) -> None:
        super().compacted(leaves)
        self.postings = postings.Postings()

    def frozen(self, summaries: Any, limit: int) -> Self:
        twin = super().frozen(summaries, limit)
        # Segments never change.
        twin.postings = copy.copy(self.postings)
        return twin

    def _sync(self, start: int, stop: int) -> None:
        super()._sync(start, stop)
        with self._guard.lock:
            indexed = self.postings.end
            if indexed > start:
                # Points that were expected and never came are indexed: others have their slots now.
                self.postings, indexed = postings.Postings(), 0
            if stop - indexed >= AT_ONCE:
                # In pieces, so that what is needed on the way does not grow with the points.
                for first in range(indexed, stop, PIECE):
                    self.postings.append(self.summaries.leaf_matrix(np.arange(first, min(first + PIECE, stop))))

    def _found(self, arrays: Arrays, queries: Slots, limits: Slots) -> Ids:
        """The k nearest of each query among the points before its limit."""
        found = np.empty((len(queries), self.k), np.int32)
        # Among many points, what has nothing in common with a query is none of its neighbours, and is not looked at.
        is_skipping = (limits > self.most_points) & (not self.summaries.linkage.is_euclidean)
        found[is_skipping] = self._nearest_of(arrays, queries[is_skipping], limits[is_skipping], 0.0)
        # Unless nothing has: then some of the first points are, for none is nearer.
        limits, is_alone = limits.copy(), is_skipping & (found[:, 0] == NONE)
        limits[is_alone] = np.minimum(limits[is_alone], np.argmax(self._shift > -np.inf) + self.k + EXTRA)
        rest = ~is_skipping | is_alone
        found[rest] = self._nearest_of(arrays, queries[rest], limits[rest], -np.inf)
        return found

    def _nearest_of(self, arrays: Arrays, queries: Slots, limits: Slots, least: float) -> Ids:
        """The same, of those that are nearer than ``least``."""
        if not len(queries):
            return np.empty((0, self.k), np.int32)
        n, width, segments = len(queries), self.k + EXTRA + 1, self.postings.segments
        values, proposed = np.full((n, width), least), np.full((n, width), -1, np.int32)
        heaps = postings.Heaps(np.empty((1, postings.BLOCK)), self._scale, self._shift, values, proposed, least == 0.0)
        sizes = arrays.row_sizes[queries]
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        asked = postings.Queries(queries, limits, offsets, np.ones(int(offsets[-1]), np.uint8))
        if self.most_points != NO_LIMIT:
            asked = self._with_fewest_points(arrays, asked, segments)
        cursors = np.empty(int(sizes.max(initial=0)), np.int64)
        for segment in segments:
            postings.offer_segment(arrays, asked, segment, cursors, heaps)
        postings.offer_rows(arrays, asked, segments[-1].end if segments else 0, heaps)
        found, scores = np.empty((n, self.k), np.int32), np.empty((n, self.k))
        topk.rank(arrays, queries, proposed, found, scores)
        return found

    def _with_fewest_points(
        self, arrays: Arrays, asked: postings.Queries, segments: list[postings.Segment]
    ) -> postings.Queries:
        """The same queries by the columns that the fewest points have, as long as these are few enough."""
        counts, offsets = np.zeros(len(asked.is_used), np.int64), asked.offsets
        for segment in segments:
            postings.count_points(arrays, asked, segment, counts)
        postings.count_rows(arrays, asked, segments[-1].end if segments else 0, counts)
        of_query = np.repeat(np.arange(len(asked.slots)), np.diff(offsets))
        order = np.lexsort((counts, of_query))
        sums = np.cumsum(counts[order])
        before = np.concatenate([[0], sums])[offsets[:-1]]
        is_few = sums - before[of_query] <= self.most_points
        # The rarest column of a query counts in any case.
        is_few[offsets[:-1][np.diff(offsets) > 0]] = True
        is_used = np.empty(len(counts), np.uint8)
        is_used[order] = is_few
        return asked._replace(is_used=is_used)
