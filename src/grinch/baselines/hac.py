"""Builders of HAC, on all points at once, and of MB-HAC, on a buffer of limited size."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from grinch._checks import count_rows
from grinch._types import Advance, Floats
from grinch.baselines.agglomeration import BestFirst, Pool, merge_by_chain, rows_from_state, rows_to_state
from grinch.baselines.distance_rows import DistanceRows, undefined
from grinch.errors import LinkageError
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage, linkage_of
from grinch.linkage.pairwise import Pairwise
from grinch.saving.state import State, item, require, scalar
from grinch.summaries.arrays import StoredPoints
from grinch.summaries.vectors import dense_rows, stored_rows
from grinch.tree import Tree

# Defined by means, and scipy's heights are the roots of what the compiled formulas give.
OF_MEANS = ("ward", "centroid")
# scipy keeps the n²/2 distances of 8 bytes twice.
SCIPY_BYTES_PER_PAIR = 8.0
# Ways to build the tree.
SCIPY, BEST_FIRST, CHAIN = "scipy", "best first", "chain"


class HACBuilder:
    """A tree of all points at once.

    With ``as_roots``, scores under Ward's formula become scipy's distances.
    """

    WAYS: ClassVar[tuple[str, ...]] = (SCIPY, BEST_FIRST, CHAIN)

    def __init__(self, way: str, linkage: Any, metric: str = "", as_roots: bool = False):
        self._way, self._linkage, self._metric = way, linkage, metric
        self._as_roots = as_roots and isinstance(linkage, VectorLinkage) and linkage.name in OF_MEANS
        self._tree: Tree | None = None
        self._rows: list[Any] = []
        self.stats: dict[str, int] = {"scores": 0, "merges": 0}

    def to_state(self) -> State:
        """Return what a file holds of the builder."""
        return {
            "way": self._way,
            "metric": self._metric,
            "as_roots": bool(self._as_roots),
            "tree": None if self._tree is None else self._tree.to_state(),
            "rows": [rows_to_state(rows) for rows in self._rows],
            "stats": {name: int(count) for name, count in self.stats.items()},
        }

    @classmethod
    def from_state(cls, state: Any, linkage: str | VectorLinkage | Linkage) -> Self:
        """Return the builder of a state; ``linkage`` is the one that it was made with."""
        builder = cls(scalar(state, "way", str), linkage, scalar(state, "metric", str))
        builder._as_roots = scalar(state, "as_roots", bool)
        builder._tree = None if item(state, "tree") is None else Tree.from_state(state["tree"])
        builder._rows = [rows_from_state(rows) for rows in item(state, "rows")]
        builder.stats = {name: scalar(item(state, "stats"), name, int) for name in ("scores", "merges")}
        return builder

    def validate(self) -> None:
        """Refuse a state whose tree is not one of its points."""
        require(self._way in self.WAYS, "there is no such way to build a tree")
        n = sum(map(count_rows, self._rows))
        require((self._tree is None) == (n == 0), "there are points without a tree")
        if self._tree is not None:
            self._tree.validate()
            require(self._tree.n_leaves == n, "the tree is not of the points")

    @property
    def n_leaves(self) -> int:
        return 0 if self._tree is None else self._tree.n_leaves

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        progress = progress or (lambda steps: None)
        n = count_rows(rows)
        # A copy: what the user does with the rows later changes nothing here.
        self._rows = [rows.copy()]
        if self._way == SCIPY:
            self._keep(_by_scipy(rows, self._linkage, self._metric), n * (n - 1) // 2)
            progress(n)
            return
        pool = self._pool(rows, n)
        try:
            if isinstance(pool, DistanceRows):
                merge_by_chain(pool, progress)
            else:
                (_merge_best_first if self._way == BEST_FIRST else _merge_by_chain)(pool, rows, progress)
        except KeyboardInterrupt:
            if pool.n_leaves == n:
                self._keep(pool.tree(), pool.n_scores)
            raise
        except LinkageError as error:
            error.outcome = "Nothing was fitted"
            raise
        self._keep(pool.tree(), pool.n_scores)

    def _pool(self, rows: Any, n: int) -> Pool | DistanceRows:
        if self._way == CHAIN and isinstance(self._linkage, Pairwise) and isinstance(self._linkage.distance, str):
            return DistanceRows(dense_rows(rows).astype(np.float64), self._linkage)
        return Pool(self._linkage, rows.shape[1] if isinstance(self._linkage, VectorLinkage) else 0, n)

    def _keep(self, tree: Tree, n_scores: int) -> None:
        if self._as_roots:
            tree = tree.rescored(lambda scores: -np.sqrt(np.maximum(-2.0 * scores, 0.0)), 0.0)
        self._tree, self.stats = tree, {"scores": n_scores, "merges": tree.n_leaves - 1}

    def tree(self) -> Tree:
        assert self._tree is not None
        return self._tree

    def kept(self) -> StoredPoints:
        """Return the points in the order they came."""
        return stored_rows(self._rows, linkage_of(self._linkage, self._metric or None))


def _merge_best_first(pool: Pool, rows: Any, progress: Advance) -> None:
    waiting, n = BestFirst(pool), count_rows(rows)
    for i, slot in enumerate(pool.write(rows)):
        waiting.enter(slot)
        # Entering the pool and merging in it cost as much as there are nodes in it; in all, n of these steps.
        progress(i / n)
    while pool.size > 1:
        waiting.merge_best()
        progress(pool.size / n)


def _merge_by_chain(pool: Pool, rows: Any, progress: Advance) -> None:
    for slot in pool.write(rows):
        pool.enter(slot, scored=False)
    merge_by_chain(pool, progress)


def _by_scipy(rows: Any, name: str, metric: str) -> Tree:
    from scipy.cluster.hierarchy import linkage

    points = dense_rows(rows).astype(np.float64)
    n = len(points)
    if n < 2:
        return Tree.from_merges(np.empty((n - 1, 2), np.int64), np.empty(n - 1))
    matrix = linkage(points if name in OF_MEANS else _distances(points, metric), name)
    # Scores as Grinch has them: the mean similarity under cosine, minus a distance otherwise.
    ceiling = 1.0 if (name, metric) == ("average", "cosine") else 0.0
    return Tree.from_merges(matrix[:, :2].astype(np.int64), ceiling - matrix[:, 2], ceiling)


def _distances(points: Floats, metric: str) -> Floats:
    from scipy.spatial.distance import pdist

    with np.errstate(invalid="ignore", divide="ignore"):
        distances = pdist(points, metric)
    if metric == "cosine":
        # A zero vector has no direction: its similarity is 0, as in Grinch; and rounding may make a distance negative.
        distances = np.maximum(np.nan_to_num(distances, copy=False, nan=1.0), 0.0, out=distances)
    if np.isnan(distances).any():
        raise undefined(metric)
    return np.asarray(distances)


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
        """Insert records; one that the linkage refuses is left out, and those before it stay."""
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
        """Return the points in the order they came."""
        return stored_rows(self._rows, self._waiting.pool.linkage)

    def tree(self) -> Tree:
        last = self._waiting.copy()
        while last.pool.size > 1:
            last.merge_best()
        return last.pool.tree()
