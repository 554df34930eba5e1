"""Agglomerative clustering of all points at once, under any linkage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch import cuts
from grinch.baselines.agglomeration import BestFirst, Pool, merge_by_chain
from grinch.builder import Advance, count_rows
from grinch.clusterer import TreeClusterer
from grinch.errors import LinkageError, unknown_name
from grinch.linkage.base import Linkage, VectorLinkage
from grinch.linkage.named import NAMES, linkage_of
from grinch.linkage.store import dense_rows
from grinch.tree import Tree
from grinch.validation import available_memory

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
        minus scipy's height, but for cosine it is the similarity: 1 minus the height.
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
            name = self.linkage
            return HACBuilder(lambda rows, progress: _by_scipy(rows, name, metric))
        found = linkage_of(linkage, metric)
        tree_of = _by_chain if self.lean else _best_first
        root_of_means = self._is_scipys() and self.linkage in OF_MEANS
        return HACBuilder(lambda rows, progress: tree_of(rows, found, progress), root_of_means)


class HACBuilder:
    """A tree of all points at once."""

    def __init__(self, tree_of: Callable[[Any, Advance], tuple[Tree, int]], roots: bool = False):
        self._tree_of, self._roots = tree_of, roots
        self._tree: Tree | None = None
        self.stats: dict[str, int] = {"scores": 0, "merges": 0}

    @property
    def n_leaves(self) -> int:
        return 0 if self._tree is None else self._tree.n_leaves

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        try:
            tree, n_scores = self._tree_of(rows, progress or (lambda steps: None))
        except Interrupted as interrupt:
            self._keep(interrupt.tree, interrupt.n_scores)
            raise KeyboardInterrupt from None
        except LinkageError as error:
            error.outcome = "Nothing was fitted"
            raise
        self._keep(tree, n_scores)

    def _keep(self, tree: Tree, n_scores: int) -> None:
        if self._roots:
            # Ward's formula as a distance, the way scipy has it.
            tree = tree.rescored(lambda scores: -np.sqrt(np.maximum(-2.0 * scores, 0.0)), 0.0)
        self._tree, self.stats = tree, {"scores": n_scores, "merges": tree.n_leaves - 1}

    def tree(self) -> Tree:
        assert self._tree is not None
        return self._tree


class Interrupted(Exception):
    """Ctrl-C, with the tree as far as it got."""

    def __init__(self, pool: Pool):
        self.tree, self.n_scores = pool.tree(), pool.n_scores


def check_room(n: int, bytes_per_pair: float, who: str, instead: str) -> None:
    """Refuse before starting what would not fit into memory."""
    needed, room = int(bytes_per_pair * n * n), available_memory()
    if room is not None and needed > room:
        raise MemoryError(
            f"{who} of {n:,} points needs {needed:,} bytes for all pairs of them, and {room:,} are free. Use {instead}"
        )


def _new_pool(rows: Any, linkage: VectorLinkage | Linkage) -> tuple[Pool, list[int]]:
    n = count_rows(rows)
    pool = Pool(linkage, rows.shape[1] if isinstance(linkage, VectorLinkage) else 0, n)
    return pool, pool.write(rows)


def _best_first(rows: Any, linkage: VectorLinkage | Linkage, progress: Advance) -> tuple[Tree, int]:
    pool, slots = _new_pool(rows, linkage)
    waiting, n = BestFirst(pool), len(slots)
    for i, slot in enumerate(slots):
        waiting.enter(slot)
        # Entering the pool and merging in it cost as much as there are nodes in it; in all, n of these steps.
        progress(i / n)
    try:
        while pool.size > 1:
            waiting.merge_best()
            progress(pool.size / n)
    except KeyboardInterrupt:
        raise Interrupted(pool) from None
    return pool.tree(), pool.n_scores


def _by_chain(rows: Any, linkage: VectorLinkage | Linkage, progress: Advance) -> tuple[Tree, int]:
    pool, slots = _new_pool(rows, linkage)
    for slot in slots:
        pool.enter(slot, scored=False)
    try:
        merge_by_chain(pool, progress)
    except KeyboardInterrupt:
        raise Interrupted(pool) from None
    return pool.tree(), pool.n_scores


def _by_scipy(rows: Any, name: str, metric: str) -> tuple[Tree, int]:
    from scipy.cluster.hierarchy import linkage

    points = dense_rows(rows).astype(np.float64)
    n = len(points)
    if n < 2:
        return Tree.from_merges(np.empty((n - 1, 2), np.int64), np.empty(n - 1)), 0
    if name in OF_MEANS:
        matrix = linkage(points, name)
    else:
        matrix = linkage(_distances(points, metric), name)
    return _tree_of_matrix(matrix, 1.0 if metric == "cosine" else 0.0), n * (n - 1) // 2


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


def _tree_of_matrix(matrix: npt.NDArray[np.float64], ceiling: float) -> Tree:
    """The tree of a scipy matrix, with scores that count down from the ceiling."""
    return Tree.from_merges(matrix[:, :2].astype(np.int64), ceiling - matrix[:, 2], ceiling)
