"""Agglomerative clustering with a buffer of limited size (MB-HAC)."""

from __future__ import annotations

from typing import Any

from grinch import cuts
from grinch._checks import check_count
from grinch._types import Advance, count_rows
from grinch.baselines.agglomeration import BestFirst, Pool
from grinch.estimators.base import IncrementalClusterer
from grinch.estimators.hac import HEAP_BYTES_PER_PAIR, check_room
from grinch.linkage.base import Linkage, VectorLinkage
from grinch.linkage.named import linkage_of
from grinch.tree import Tree


class MiniBatchHAC(IncrementalClusterer):
    """HAC on a buffer: when it is full, the best pair in it is merged, and the next record enters.

    With a buffer as large as the data it is HAC. The tree of what has arrived so far is that of merging what is in the
    buffer; points that arrive later go on with the buffer as it was.

    Parameters
    ----------
    linkage : str, Linkage or callable, default="average"
        Any linkage that :class:`~grinch.Grinch` takes.
    metric : str, optional
        As in :class:`~grinch.Grinch`: for ``"average"`` the default is ``"cosine"``.
    buffer_size : int, default=2000
        How many nodes wait to be merged at a time, at least 2.
    n_clusters, threshold, shuffle, random_state, verbose
        As in :class:`~grinch.Grinch`; so are ``tree_``, ``labels_``, ``ids_``, ``clusters_`` and ``stats_``.

    Examples
    --------
    >>> from grinch import MiniBatchHAC
    >>> X = [[1, 0], [0, 1], [5, 0.1], [0.1, 4], [3, 0.2]]
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
        shuffle: bool = False,
        random_state: Any = None,
        verbose: bool | int = False,
    ):
        self.linkage = linkage
        self.metric = metric
        self.buffer_size = buffer_size
        self.n_clusters = n_clusters
        self.threshold = threshold
        self.shuffle = shuffle
        self.random_state = random_state
        self.verbose = verbose

    def _checked(self, X: Any, reset: bool) -> Any:
        linkage_of(self.linkage, self.metric)
        size = check_count("buffer_size", self.buffer_size, 2)
        cuts.check_cut(self.n_clusters, self.threshold)
        rows = self._checked_records(X, self.linkage, self.metric, reset)
        n = count_rows(rows) + (0 if reset else self.n_leaves_)
        check_room(min(size, n), HEAP_BYTES_PER_PAIR, "MiniBatchHAC", "a smaller buffer_size")
        return rows

    def _new_builder(self, rows: Any) -> BufferBuilder:
        linkage = linkage_of(self.linkage, self.metric)
        return BufferBuilder(linkage, rows.shape[1] if isinstance(linkage, VectorLinkage) else 0, self.buffer_size)


class BufferBuilder:
    """A pool of limited size, and the tree of all that went through it."""

    def __init__(self, linkage: VectorLinkage | Linkage, n_features: int, buffer_size: int):
        self._buffer_size = buffer_size
        self._waiting = BestFirst(Pool(linkage, n_features, 0))

    @property
    def n_leaves(self) -> int:
        return self._waiting.pool.n_leaves

    @property
    def stats(self) -> dict[str, int]:
        pool = self._waiting.pool
        return {"scores": pool.n_scores, "merges": pool.n_nodes - pool.n_leaves}

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        """A record that the linkage refuses does not enter; those before it stay."""
        n = count_rows(rows)
        self._waiting.pool.reserve(min(self._buffer_size, self.n_leaves + n))
        for i in range(n):
            if self._waiting.pool.size == self._buffer_size:
                self._waiting.merge_best()
            self._waiting.admit(rows[i : i + 1])
            if progress is not None:
                progress(1)

    def tree(self) -> Tree:
        last = self._waiting.copy()
        while last.pool.size > 1:
            last.merge_best()
        return last.pool.tree()
