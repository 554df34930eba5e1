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

from grinch.errors import missing_extra
from grinch.linkage.store import VectorStore
from grinch.neighbors import topk
from grinch.neighbors.base import BATCH, Neighbors, batches
from grinch.neighbors.exact import ahead

_METRICS = {"cosine": "cos", "dot": "ip", "sqeuclidean": "l2sq"}
EXTRA = 8


class IndexSearch:
    """About the k nearest earlier points."""

    def __init__(self, store: VectorStore, k: int, connectivity: int = 16, expansion: int = 100):
        self.store, self.k = store, k
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
            ndim=self.store.n_features,
            metric=_METRICS[self.store.linkage.leaf_metric],
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

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        settled = start if limit is None else limit
        if self._indexed > settled:
            # An interrupted fit left points here that never reached the tree.
            self._clear()
        while self._indexed + BATCH <= settled:
            self._add(self._indexed, self._indexed + BATCH)
        # One worker: queries and additions take turns, ahead of the inserts.
        yield from ahead(lambda lo, hi: self._batch(lo, hi, limit), list(batches(start, stop)), 1)

    def _batch(self, lo: int, hi: int, limit: int | None) -> Neighbors:
        queries = np.arange(lo, hi)
        end = hi if limit is None else limit
        recent = np.broadcast_to(np.arange(self._indexed, end, dtype=np.int32), (hi - lo, end - self._indexed))
        if limit is None:
            recent = np.where(recent < queries[:, None], recent, -1).astype(np.int32)
        proposed = np.hstack([self._ask(lo, hi), recent])
        found = np.empty((hi - lo, self.k), np.int32)
        topk.rank(self.store.sums, queries, proposed, found, np.empty((hi - lo, self.k)))
        if limit is None and hi % BATCH == 0:
            self._add(hi - BATCH, hi)
        return Neighbors(lo, found)

    def _ask(self, lo: int, hi: int) -> npt.NDArray[np.int32]:
        """Candidates from the index for points lo to hi, padded with -1."""
        width = min(self.k + EXTRA, len(self._first))
        if width == 0:
            return np.empty((hi - lo, 0), np.int32)
        matches = self._index.search(self.store.sums.means[lo:hi], width)
        keys = np.asarray(matches.keys).reshape(hi - lo, -1).astype(np.int32)
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
        rows = self.store.sums.means[lo:hi]
        fresh = []
        for i in range(lo, hi):
            first = self._first.setdefault(hash(rows[i - lo].tobytes()), i)
            if first != i and np.array_equal(self.store.sums.means[first], rows[i - lo]):
                self._copies.setdefault(first, []).append(i)
            else:
                fresh.append(i)
        if fresh:
            self._index.add(np.array(fresh), self.store.sums.means[fresh], threads=1)
        self._indexed = hi
