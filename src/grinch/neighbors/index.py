"""Approximate search on vectors: a usearch HNSW index, built as points arrive.

usearch, because it is maintained, has wheels for every Python we support, adds incrementally, queries in parallel and
can delete. What it does not do is done here:

* adding with several threads is not reproducible, so points are added by one thread, in blocks that end at multiples of
  BLOCK whatever the chunking, and points not yet added are searched exactly: the same tree for any batch size;
* exact duplicates lower the recall of other points, so only the first of them is indexed;
* its distances are approximate and may be rounded, so candidates are scored again by the linkage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._types import Slots
from grinch.errors import missing_extra
from grinch.neighbors import topk
from grinch.neighbors.base import BATCH, Neighbors, batches
from grinch.neighbors.exact import ahead
from grinch.summaries.vectors import VectorSummaries

_METRICS = {"cosine": "cos", "dot": "ip", "sqeuclidean": "l2sq"}
EXTRA = 8


class IndexSearch:
    """About the k nearest earlier points."""

    def __init__(self, summaries: VectorSummaries, k: int, connectivity: int = 16, expansion: int = 100):
        self.summaries, self.k = summaries, k
        self.connectivity, self.expansion = connectivity, max(expansion, k + EXTRA)
        self._clear()

    def _clear(self) -> None:
        self._index: Any = self._new_index()
        self._indexed = 0
        self._first: dict[int, int] = {}
        self._copies: dict[int, list[int]] = {}

    def _new_index(self) -> Any:
        try:
            from usearch.index import Index
        except ImportError:
            raise missing_extra("search='index'", "usearch", "index") from None
        return Index(
            ndim=self.summaries.n_features,
            metric=_METRICS[self.summaries.linkage.leaf_metric],
            dtype="f32",
            connectivity=self.connectivity,
            expansion_add=self.expansion,
            expansion_search=self.expansion,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the index itself, which is built again from the points when it is next needed."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._clear()

    def write(self, at: int, rows: Any) -> None:
        """The summaries have all there is to know."""

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        settled = start if limit is None else limit
        if self._indexed > settled:
            # An interrupted fit left points here that never reached the tree.
            self._clear()
        while self._indexed + BATCH <= settled:
            self._add(self._indexed, self._indexed + BATCH)
        # One worker: queries and additions take turns, ahead of the inserts.
        yield from ahead(lambda lo, hi: self._batch(lo, hi, limit), list(batches(start, stop)), 1)

    def nearest(self, leaves: Slots, limit: int) -> Iterator[Neighbors]:
        while self._indexed + BATCH <= limit:
            self._add(self._indexed, self._indexed + BATCH)

        def task(lo: int, hi: int) -> Neighbors:
            recent = np.broadcast_to(self._recent(limit), (hi - lo, len(self._recent(limit))))
            return Neighbors(lo, self._ranked(leaves[lo:hi], recent))

        yield from ahead(task, list(batches(0, len(leaves))), 1)

    def changed(self, leaves: Slots) -> None:
        for leaf in leaves[leaves < self._indexed].tolist():
            if self.summaries.gone(leaf):
                self._drop(leaf)
            else:
                self._add_one(leaf)

    def compacted(self, leaves: Slots) -> None:
        self._clear()

    def _drop(self, leaf: int) -> None:
        """Take a point out of the index; the next of its exact duplicates stands for the others from then on."""
        name = hash(self.summaries.arrays.means[leaf].tobytes())
        first = self._first.get(name, leaf)
        if leaf in self._copies.get(first, ()):
            self._copies[first].remove(leaf)
            return
        self._index.remove(leaf)
        if first != leaf:
            return
        self._first.pop(name, None)
        copies = self._copies.pop(leaf, [])
        if copies:
            self._first[name] = copies[0]
            self._copies[copies[0]] = copies[1:]
            self._index.add(copies[0], self.summaries.arrays.means[copies[0]], threads=1)

    def _add_one(self, leaf: int) -> None:
        if self._is_fresh(leaf):
            self._index.add(leaf, self.summaries.arrays.means[leaf], threads=1)

    def _batch(self, lo: int, hi: int, limit: int | None) -> Neighbors:
        queries = np.arange(lo, hi)
        recent = self._recent(hi if limit is None else limit)
        recent = np.broadcast_to(recent, (hi - lo, len(recent)))
        if limit is None:
            recent = np.where(recent < queries[:, None], recent, -1).astype(np.int32)
        found = self._ranked(queries, recent)
        if limit is None and hi % BATCH == 0:
            self._add(hi - BATCH, hi)
        return Neighbors(lo, found)

    def _recent(self, end: int) -> npt.NDArray[np.int32]:
        """Points before ``end`` that are not in the index yet."""
        recent = np.arange(self._indexed, end, dtype=np.int32)
        return recent[~self.summaries.gone(slice(self._indexed, end))]

    def _ranked(self, queries: Slots, recent: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        found = np.empty((len(queries), self.k), np.int32)
        proposed = np.hstack([self._ask(queries), recent])
        topk.rank(self.summaries.arrays, queries, proposed, found, np.empty((len(queries), self.k)))
        return found

    def _ask(self, queries: Slots) -> npt.NDArray[np.int32]:
        """Candidates from the index, padded with -1."""
        width = min(self.k + EXTRA, len(self._index))
        if width == 0:
            return np.empty((len(queries), 0), np.int32)
        matches = self._index.search(self.summaries.arrays.means[queries], width)
        keys = np.asarray(matches.keys).reshape(len(queries), -1).astype(np.int32)
        counts = np.asarray(getattr(matches, "counts", [keys.shape[1]])).reshape(-1, 1)
        keys = np.where(np.arange(keys.shape[1]) < counts, keys, -1).astype(np.int32)
        return self._with_copies(keys) if self._copies else keys

    def _with_copies(self, keys: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Beside each point found, its exact duplicates, as many as can matter."""
        rows = [[c for key in row for c in self._copies.get(key, ())][: self.k] for row in keys.tolist()]
        extra = np.full((len(keys), max(map(len, rows))), -1, np.int32)
        for i, row in enumerate(rows):
            extra[i, : len(row)] = row
        return np.hstack([keys, extra])

    def _add(self, lo: int, hi: int) -> None:
        gone = self.summaries.gone(slice(lo, hi))
        fresh = [i for i in range(lo, hi) if not gone[i - lo] and self._is_fresh(i)]
        if fresh:
            self._index.add(np.array(fresh), self.summaries.arrays.means[fresh], threads=1)
        self._indexed = hi

    def _is_fresh(self, i: int) -> bool:
        """Whether no exact duplicate of point i is there already; if one is, i is noted as its copy."""
        row = self.summaries.arrays.means[i]
        first = self._first.setdefault(hash(row.tobytes()), i)
        if first == i or not np.array_equal(self.summaries.arrays.means[first], row):
            return True
        self._copies.setdefault(first, []).append(i)
        return False
