"""HAC: what builds a tree of all points at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch._types import Advance, Floats, count_rows
from grinch.baselines.agglomeration import BestFirst, Pool, merge_by_chain
from grinch.errors import LinkageError
from grinch.linkage.base import VectorLinkage
from grinch.linkage.named import linkage_of
from grinch.summaries.kept import Kept, kept_rows
from grinch.summaries.vectors import dense_rows
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

    def __init__(self, way: str, linkage: Any, metric: str = "", as_roots: bool = False):
        self._way, self._linkage, self._metric = way, linkage, metric
        self._as_roots = as_roots and isinstance(linkage, VectorLinkage) and linkage.name in OF_MEANS
        self._tree: Tree | None = None
        self._rows: list[Any] = []
        self.stats: dict[str, int] = {"scores": 0, "merges": 0}

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
        pool = Pool(self._linkage, rows.shape[1] if isinstance(self._linkage, VectorLinkage) else 0, n)
        try:
            (_merge_best_first if self._way == BEST_FIRST else _merge_by_chain)(pool, rows, progress)
        except KeyboardInterrupt:
            if pool.n_leaves == n:
                self._keep(pool.tree(), pool.n_scores)
            raise
        except LinkageError as error:
            error.outcome = "Nothing was fitted"
            raise
        self._keep(pool.tree(), pool.n_scores)

    def _keep(self, tree: Tree, n_scores: int) -> None:
        if self._as_roots:
            tree = tree.rescored(lambda scores: -np.sqrt(np.maximum(-2.0 * scores, 0.0)), 0.0)
        self._tree, self.stats = tree, {"scores": n_scores, "merges": tree.n_leaves - 1}

    def tree(self) -> Tree:
        assert self._tree is not None
        return self._tree

    def kept(self) -> Kept:
        """The points in the order they came."""
        return kept_rows(self._rows, linkage_of(self._linkage, self._metric or None))


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
        raise ValueError(
            f"metric={metric!r} is not defined for some rows of X (scipy gives nan), perhaps constant or zero ones;"
            " drop those rows or use another metric"
        )
    return np.asarray(distances)
