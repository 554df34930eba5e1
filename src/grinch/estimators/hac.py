"""Agglomerative clustering of all points at once, under any linkage."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grinch import cuts
from grinch._checks import available_memory, check_flag
from grinch._types import Advance, count_rows
from grinch.baselines.agglomeration import BestFirst, Pool, merge_by_chain
from grinch.errors import LinkageError, unknown_name
from grinch.estimators.base import TreeClusterer
from grinch.linkage.base import VectorLinkage
from grinch.linkage.named import NAMES, linkage_of
from grinch.summaries.vectors import dense_rows
from grinch.tree import Tree

SCIPY_LINKAGES = ("single", "complete", "average", "ward", "centroid")
# They are defined by means, and scipy's heights are the roots of what the compiled formulas give.
OF_MEANS = ("ward", "centroid")
# Merging two nodes that are each other's nearest may bring their union closer to a third.
NOT_REDUCIBLE = ("centroid", "cosine")
# Pairs wait in at most 0.6 n² heap entries, each a score of 8 bytes and a node of 4.
HEAP_BYTES_PER_PAIR = 7.2
# scipy keeps the n²/2 distances of 8 bytes twice.
SCIPY_BYTES_PER_PAIR = 8.0


class HAC(TreeClusterer):
    """Hierarchical agglomerative clustering: merge the two closest groups, again and again, until one is left.

    It sees all points at once and needs memory for all pairs of them, unless ``lean``.

    Parameters
    ----------
    linkage : str, Linkage or callable, default="average"
        ``"single"``, ``"complete"``, ``"average"``, ``"ward"`` or ``"centroid"``, as scipy has them; or any linkage
        that :class:`~grinch.Grinch` takes, such as ``"cosine"`` or a function of two lists of records.
    metric : str, optional
        For scipy's names, a distance that scipy knows (default ``"euclidean"``, the only one for Ward and centroid);
        for ``"average"`` also ``"dot"``.
    lean : bool, default=False
        Use O(n) memory, by chains of nearest neighbours: slower, and the same tree for reducible linkages (single,
        complete, average and Ward are; for one of your own you have to know).
    n_clusters : int, optional
        Cut the tree into this many flat clusters (default: 8, unless ``threshold`` is given).
    threshold : float, optional
        Cut the tree from the top at the first nodes whose children score at least this. Under scipy's names a score is
        minus scipy's height; for average linkage under cosine it is the similarity, 1 minus the height.
    verbose : bool or int, default=False
        Show a progress bar with rate and time left.

    Notes
    -----
    Ctrl-C keeps the merges made so far; what they have not joined yet is joined at the top with score -inf. scipy's
    routines, used for its names, cannot be interrupted.

    See :class:`~grinch.Grinch` for ``tree_``, ``labels_``, ``ids_``, ``clusters_`` and ``stats_``.

    Examples
    --------
    >>> from grinch import HAC
    >>> X = [[0.0], [1.0], [7.0], [9.0]]
    >>> HAC(n_clusters=2).fit_predict(X).tolist()
    [0, 0, 1, 1]
    >>> HAC(linkage="ward").fit(X).tree_.to_scipy()[:, 2].round(2).tolist()
    [1.0, 2.0, 10.61]
    >>> HAC(linkage=lambda a, b: -abs(min(a) - min(b)), n_clusters=2).fit_predict([0.0, 1.0, 7.0, 9.0]).tolist()
    [0, 0, 1, 1]
    """

    def __init__(
        self,
        linkage: Any = "average",
        *,
        metric: str | None = None,
        lean: bool = False,
        n_clusters: int | None = None,
        threshold: float | None = None,
        verbose: bool | int = False,
    ):
        self.linkage = linkage
        self.metric = metric
        self.lean = lean
        self.n_clusters = n_clusters
        self.threshold = threshold
        self.verbose = verbose

    def _checked(self, X: Any, reset: bool) -> Any:
        linkage, metric = self._meant()
        if self.lean and isinstance(self.linkage, str) and self.linkage in NOT_REDUCIBLE:
            raise ValueError(
                f"lean=True needs a linkage that is reducible, such as 'average' or 'ward'; got {self.linkage!r}."
                " Leave lean out, or use Grinch or MiniBatchHAC, which take any"
            )
        check_flag("lean", self.lean)
        cuts.check_cut(self.n_clusters, self.threshold)
        rows = self._checked_records(X, linkage, metric, reset)
        if not self.lean:
            per_pair = SCIPY_BYTES_PER_PAIR if self._is_scipys() else HEAP_BYTES_PER_PAIR
            check_room(count_rows(rows), per_pair, "HAC", "lean=True (slower, O(n) memory), MiniBatchHAC, or Grinch")
        return rows

    def _is_scipys(self) -> bool:
        return isinstance(self.linkage, str) and self.linkage in SCIPY_LINKAGES and self.metric != "dot"

    def _meant(self) -> tuple[Any, str | None]:
        """The linkage and the metric as Grinch names them."""
        if not isinstance(self.linkage, str):
            linkage_of(self.linkage, self.metric)
            return self.linkage, self.metric
        if self.linkage not in NAMES:
            raise unknown_name("linkage", self.linkage, NAMES, " (or a Linkage object, or a function of two lists)")
        metric = self.metric
        if self.linkage in OF_MEANS and metric in (None, "euclidean", "sqeuclidean"):
            return self.linkage, "sqeuclidean"
        if self.linkage in SCIPY_LINKAGES:
            metric = metric or "euclidean"
        linkage_of(self.linkage, metric)
        return self.linkage, metric

    def _new_builder(self, rows: Any) -> HACBuilder:
        linkage, metric = self._meant()
        if self._is_scipys() and not self.lean:
            assert metric is not None
            return HACBuilder(SCIPY, self.linkage, metric)
        return HACBuilder(CHAIN if self.lean else BEST_FIRST, linkage_of(linkage, metric), as_roots=self._is_scipys())


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
        self.stats: dict[str, int] = {"scores": 0, "merges": 0}

    @property
    def n_leaves(self) -> int:
        return 0 if self._tree is None else self._tree.n_leaves

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        progress = progress or (lambda steps: None)
        n = count_rows(rows)
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


def check_room(n: int, bytes_per_pair: float, who: str, instead: str) -> None:
    """Refuse before starting what would not fit into memory."""
    needed, room = int(bytes_per_pair * n * n), available_memory()
    if room is not None and needed > room:
        raise MemoryError(
            f"{who} of {n:,} points needs {needed:,} bytes for all pairs of them, and {room:,} are free. Use {instead}"
        )


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


def _distances(points: npt.NDArray[np.float64], metric: str) -> npt.NDArray[np.float64]:
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
