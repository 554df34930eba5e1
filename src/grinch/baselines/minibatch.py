"""MB-HAC: what builds a tree by way of a buffer of limited size."""

from __future__ import annotations

from typing import Any, Self

from grinch._types import Advance, count_rows
from grinch.baselines.agglomeration import BestFirst, Pool
from grinch.baselines.saved_rows import rows_from_state, rows_to_state
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.saving.state import State, item, require, scalar
from grinch.summaries.arrays import StoredPoints
from grinch.summaries.vectors import stored_rows
from grinch.tree import Tree


class BufferBuilder:
    """A pool of limited size, and the tree of all that went through it."""

    def __init__(self, linkage: VectorLinkage | Linkage, n_features: int, buffer_size: int):
        self._buffer_size, self._rows = buffer_size, list[Any]()
        self._waiting = BestFirst(Pool(linkage, n_features, 0))

    def to_state(self) -> State:
        """Return what a file holds of the builder."""
        rows = [rows_to_state(rows) for rows in self._rows]
        return {"buffer_size": int(self._buffer_size), "rows": rows, "waiting": self._waiting.to_state()}

    @classmethod
    def from_state(cls, state: Any, linkage: VectorLinkage | Linkage) -> Self:
        """Return the builder of a state; ``linkage`` is the one that it was made with."""
        builder = object.__new__(cls)
        builder._buffer_size = scalar(state, "buffer_size", int)
        builder._rows = [rows_from_state(rows) for rows in item(state, "rows")]
        builder._waiting = BestFirst.from_state(item(state, "waiting"), linkage)
        return builder

    def validate(self) -> None:
        """Refuse a state that compiled code could not use."""
        require(self._buffer_size >= 2, "there is no buffer")
        self._waiting.validate()
        require(sum(map(count_rows, self._rows)) == self.n_leaves, "records are missing")

    @property
    def n_leaves(self) -> int:
        return self._waiting.pool.n_leaves

    @property
    def stats(self) -> dict[str, int]:
        pool = self._waiting.pool
        return {"scores": pool.n_scores, "merges": pool.n_nodes - pool.n_leaves}

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        """A record that the linkage refuses does not enter; those before it stay."""
        n, before = count_rows(rows), self.n_leaves
        self._waiting.pool.reserve(min(self._buffer_size, before + n))
        try:
            for i in range(n):
                if self._waiting.pool.size == self._buffer_size:
                    self._waiting.merge_best()
                self._waiting.admit(rows[i : i + 1])
                if progress is not None:
                    progress(1)
        finally:
            # A copy: what the user does with the rows later changes nothing here.
            self._rows.append(rows[: self.n_leaves - before].copy())

    def kept(self) -> StoredPoints:
        """The points in the order they came."""
        return stored_rows(self._rows, self._waiting.pool.linkage)

    def tree(self) -> Tree:
        last = self._waiting.copy()
        while last.pool.size > 1:
            last.merge_best()
        return last.pool.tree()
