"""Agglomerative clustering under any linkage: of all points at once, or with a buffer of limited size."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from grinch._checks import check_count, check_flag, check_room_for_pairs, count_rows
from grinch.baselines.agglomeration import HEAP_BYTES_PER_PAIR
from grinch.baselines.hac import BEST_FIRST, CHAIN, OF_MEANS, SCIPY, SCIPY_BYTES_PER_PAIR, BufferBuilder, HACBuilder
from grinch.estimators.tree_clusterer import IncrementalClusterer, Prepared, TreeClusterer
from grinch.linkage.named import VectorLinkage, linkage_of, metric_in_full
from grinch.saving.state import item

SCIPY_LINKAGES = ("single", "complete", "average", "ward", "centroid")
# Merging two nodes that are each other's nearest may bring their union closer to a third.
NOT_REDUCIBLE = ("centroid", "cosine", "tanimoto")
# Metrics of average linkage that scipy does not know.
NOT_SCIPYS = ("dot", "hellinger")


@dataclass(eq=False, repr=False)
class HAC(TreeClusterer):
    """Hierarchical agglomerative clustering: merge the two closest groups repeatedly until one is left.

    It sees all points at once and needs memory for all pairs of them, unless ``lean``.

    Parameters
    ----------
    linkage : str, Linkage or callable, default="average"
        ``"single"``, ``"complete"``, ``"average"``, ``"ward"`` or ``"centroid"``, as scipy has them; or any linkage
        that :class:`~grinch.Grinch` takes, such as ``"cosine"`` or a function of two lists of records.
    metric : str, optional
        For ``"average"``: ``"sqeuclidean"`` (default), ``"cosine"``, ``"dot"``, ``"hellinger"``, or a distance that
        scipy knows; for ``"single"`` and ``"complete"`` a distance that scipy knows (default ``"euclidean"``); Ward and
        centroid are Euclidean.
    lean : bool, default=False
        Use O(n) memory, by chains of nearest neighbours: slower, and the same tree for reducible linkages (single,
        complete, average and Ward are; a linkage of your own may not be).
    n_clusters : int, optional
        Cut the tree into this many flat clusters instead of the automatic cut.
    threshold : float, optional
        Cut the tree from the top at the first nodes whose children score at least this. Under scipy's names a score is
        minus scipy's height; for average linkage under cosine it is the similarity, 1 minus the height.
    cut, layer, min_cluster_size, noise
        As in :class:`~grinch.Grinch`.
    verbose : bool or int, default=False
        Show a progress bar with rate and time left.

    Notes
    -----
    Ctrl-C keeps the merges made so far and joins the remaining groups at the top with score -inf. scipy's routines,
    used for its names, cannot be interrupted.

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

    linkage: Any = "average"
    _: KW_ONLY
    metric: str | None = None
    lean: bool = False
    cut: str = "sizeable"

    def prepare(self, X: Any, reset: bool) -> Prepared:
        """Check the parameters, then X; nothing changes before all of them are accepted."""
        metric = self._resolve_metric()
        linkage = linkage_of(self.linkage, metric)
        if self.lean and isinstance(self.linkage, str) and self.linkage in NOT_REDUCIBLE:
            raise ValueError(
                f"lean=True needs a linkage that is reducible, such as 'average' or 'ward'; got {self.linkage!r}."
                " Leave lean out, or use Grinch or MiniBatchHAC, which take any"
            )
        check_flag("lean", self.lean)
        self._choice()
        rows = self._rows_for(linkage, X, reset)
        if not self.lean:
            per_pair = SCIPY_BYTES_PER_PAIR if self._is_scipys() else HEAP_BYTES_PER_PAIR
            instead = "lean=True (slower, O(n) memory), MiniBatchHAC, or Grinch"
            check_room_for_pairs(count_rows(rows), per_pair, "HAC", instead)

        def new_builder() -> HACBuilder:
            if self._is_scipys() and not self.lean:
                assert metric is not None
                return HACBuilder(SCIPY, self.linkage, metric)
            return HACBuilder(CHAIN if self.lean else BEST_FIRST, linkage, as_roots=self._is_scipys())

        return Prepared(rows, new_builder, linkage)

    @classmethod
    def _builder_from_state(cls, state: Any, parameters: dict[str, Any]) -> HACBuilder:
        begun = cls(linkage=parameters["linkage"], metric=parameters["metric"])
        if item(state, "way") == SCIPY:
            return HACBuilder.from_state(state, begun.linkage)
        return HACBuilder.from_state(state, linkage_of(begun.linkage, begun._resolve_metric()))

    def _is_scipys(self) -> bool:
        return isinstance(self.linkage, str) and self.linkage in SCIPY_LINKAGES and self.metric not in NOT_SCIPYS

    def _resolve_metric(self) -> str | None:
        """Return the metric as Grinch names it."""
        is_of_means = isinstance(self.linkage, str) and self.linkage in OF_MEANS
        if is_of_means and self.metric == "euclidean":
            return "sqeuclidean"
        return metric_in_full(self.linkage, self.metric)


@dataclass(eq=False, repr=False)
class MiniBatchHAC(IncrementalClusterer):
    """HAC on a buffer: when it is full, its best pair is merged and the next record enters.

    With a buffer as large as the data it is HAC. ``tree_`` is made by merging the current contents of the buffer;
    points that arrive later continue with the buffer itself.

    Parameters
    ----------
    linkage : str, Linkage or callable, default="average"
        Any linkage that :class:`~grinch.Grinch` takes.
    metric : str, optional
        As in :class:`~grinch.Grinch`: for ``"average"`` the default is ``"sqeuclidean"``.
    buffer_size : int, default=2000
        The number of nodes in the buffer, at least 2.
    n_clusters, threshold, cut, layer, min_cluster_size, noise, shuffle, random_state, verbose
        As in :class:`~grinch.Grinch`; so are ``tree_``, ``labels_``, ``ids_``, ``clusters_`` and ``stats_``.

    Examples
    --------
    >>> from grinch import MiniBatchHAC
    >>> X = [[1, 0], [0, 9], [2, 0.1], [0.1, 8], [3, 0.2]]
    >>> MiniBatchHAC(buffer_size=3, n_clusters=2).fit_predict(X).tolist()
    [0, 1, 0, 1, 0]
    """

    linkage: Any = "average"
    _: KW_ONLY
    metric: str | None = None
    buffer_size: int = 2000
    cut: str = "sizeable"

    def prepare(self, X: Any, reset: bool) -> Prepared:
        """Check the parameters, then X; nothing changes before all of them are accepted."""
        linkage = linkage_of(self.linkage, self.metric)
        size = check_count("buffer_size", self.buffer_size, 2)
        self._choice()
        rows = self._rows_for(linkage, X, reset)
        n = count_rows(rows) + (0 if reset else self.n_leaves_)
        check_room_for_pairs(min(size, n), HEAP_BYTES_PER_PAIR, "MiniBatchHAC", "a smaller buffer_size")
        n_features = rows.shape[1] if isinstance(linkage, VectorLinkage) else 0
        return Prepared(rows, lambda: BufferBuilder(linkage, n_features, size), linkage)

    @classmethod
    def _builder_from_state(cls, state: Any, parameters: dict[str, Any]) -> BufferBuilder:
        return BufferBuilder.from_state(state, linkage_of(parameters["linkage"], parameters["metric"]))
