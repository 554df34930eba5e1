"""Agglomerative clustering with a buffer of limited size (MB-HAC)."""

from __future__ import annotations

from typing import Any

from grinch._checks import check_count, check_room_for_pairs, count_rows
from grinch.baselines.agglomeration import HEAP_BYTES_PER_PAIR
from grinch.baselines.hac import BufferBuilder
from grinch.estimators.base import IncrementalClusterer, Prepared
from grinch.linkage.named import VectorLinkage, linkage_of


class MiniBatchHAC(IncrementalClusterer):
    """HAC on a buffer: when it is full, the best pair in it is merged, and the next record enters.

    With a buffer as large as the data it is HAC. The tree of what has arrived so far is that of merging what is in the
    buffer; points that arrive later go on with the buffer as it was.

    Parameters
    ----------
    linkage : str, Linkage or callable, default="average"
        Any linkage that :class:`~grinch.Grinch` takes.
    metric : str, optional
        As in :class:`~grinch.Grinch`: for ``"average"`` the default is ``"sqeuclidean"``.
    buffer_size : int, default=2000
        How many nodes wait to be merged at a time, at least 2.
    n_clusters, threshold, cut, layer, min_cluster_size, noise, shuffle, random_state, verbose
        As in :class:`~grinch.Grinch`; so are ``tree_``, ``labels_``, ``ids_``, ``clusters_`` and ``stats_``.

    Examples
    --------
    >>> from grinch import MiniBatchHAC
    >>> X = [[1, 0], [0, 9], [2, 0.1], [0.1, 8], [3, 0.2]]
    >>> MiniBatchHAC(buffer_size=3, n_clusters=2).fit_predict(X).tolist()
    [0, 1, 0, 1, 0]
    """

    def __init__(
        self,
        linkage: Any = "average",
        *,
        metric: str | None = None,
        buffer_size: int = 2000,
        n_clusters: int | None = None,
        threshold: float | None = None,
        cut: str = "sizeable",
        layer: str | int = "auto",
        min_cluster_size: int = 1,
        noise: bool = False,
        shuffle: bool = False,
        random_state: Any = None,
        verbose: bool | int = False,
    ):
        self.linkage = linkage
        self.metric = metric
        self.buffer_size = buffer_size
        self.n_clusters = n_clusters
        self.threshold = threshold
        self.cut = cut
        self.layer = layer
        self.min_cluster_size = min_cluster_size
        self.noise = noise
        self.shuffle = shuffle
        self.random_state = random_state
        self.verbose = verbose

    def _validate(self, X: Any, reset: bool) -> Prepared:
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
