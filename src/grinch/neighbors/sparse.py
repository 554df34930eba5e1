"""Search on sparse vectors by an inverted index: exact, or by the most telling columns alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch._types import Counts, Flags, Floats, Ids, Slots
from grinch.neighbors import postings, topk
from grinch.neighbors.exact import EXTRA, ExactSearch
from grinch.summaries.arrays import Arrays
from grinch.summaries.sparse import SparseSummaries
from grinch.tree.links import NO_LIMIT

# So many points at the end are compared one by one: they are indexed together.
AT_ONCE = 512
# Of a query, the columns that the fewest points have are used, as long as these are at most so many in all. Measured:
# docs/development/search.md.
MOST_POINTS = 2**18


class SparseSearch(ExactSearch):
    """The k nearest earlier points by an inverted index.

    ``most_points`` is how many points a query may be compared with, counted once for each column they share.
    """

    number = np.float64

    def __init__(self, summaries: SparseSummaries, k: int, jobs: int | None = None, most_points: int = NO_LIMIT):
        super().__init__(summaries, k, jobs)
        self.most_points = most_points
        self.postings = postings.Postings()

    def rewritten(self) -> None:
        super().rewritten()
        self.postings = postings.Postings()

    def compacted(self, leaves: Slots) -> None:
        super().compacted(leaves)
        self.postings = postings.Postings()

    def _sync(self, start: int, stop: int) -> None:
        super()._sync(start, stop)
        with self._guard.lock:
            indexed = self.postings.end
            if indexed > start:
                # Points that were expected and never came are indexed: others have their slots now.
                self.postings, indexed = postings.Postings(), 0
            whole = stop // AT_ONCE * AT_ONCE
            if whole > indexed:
                self.postings.append(self.summaries.leaf_matrix(np.arange(indexed, whole)))

    def _found(self, arrays: Arrays, queries: Slots, limits: Slots) -> Ids:
        """The k nearest of each query among the points before its limit."""
        n, width = len(queries), self.k + EXTRA + 1
        values, proposed = np.full((n, width), -np.inf), np.full((n, width), -1, np.int32)
        scale, shift, segments = self._scale, self._shift, self.postings.segments
        sizes = arrays.row_sizes[queries]
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        # What is found depends on the points and the limit alone, not on when the index was made.
        indexed = np.minimum(limits // AT_ONCE * AT_ONCE, segments[-1].end if segments else 0)
        is_used = self._used(arrays, queries, indexed, segments, offsets)
        cursors, products = np.empty(int(sizes.max(initial=0)), np.int64), np.empty((1, postings.BLOCK))
        for first, end, *lists in segments:
            heaps = (products, scale, shift, values, proposed)
            postings.offer_segment(arrays, queries, indexed, first, end, *lists, offsets, is_used, cursors, *heaps)
        postings.offer_rows(arrays, queries, indexed, limits, products, scale, shift, values, proposed)
        found, scores = np.empty((n, self.k), np.int32), np.empty((n, self.k))
        topk.rank(arrays, queries, proposed, found, scores)
        return found

    def _used(
        self, arrays: Arrays, queries: Slots, limits: Slots, segments: list[postings.Segment], offsets: Counts
    ) -> Flags:
        """Which columns of the queries are used: all, or those that the fewest points have."""
        is_used = np.ones(int(offsets[-1]), np.uint8)
        if self.most_points == NO_LIMIT or not segments:
            return is_used
        counts = np.zeros(len(is_used), np.int64)
        for segment in segments:
            postings.count_points(arrays, queries, limits, segment.starts, segment.slots, offsets, counts)
        of_query = np.repeat(np.arange(len(queries)), np.diff(offsets))
        order = np.lexsort((counts, of_query))
        sums = np.cumsum(counts[order])
        before = np.concatenate([[0], sums])[offsets[:-1]]
        # The rarest column of a query is used in any case.
        is_first = np.zeros(len(is_used), np.bool_)
        is_first[offsets[:-1][np.diff(offsets) > 0]] = True
        is_used[order] = (sums - before[of_query] <= self.most_points) | is_first
        return is_used
