"""What an estimator holds once it is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grinch import cuts
from grinch.engine import Engine
from grinch.tree import Tree


class Fitted:
    """An engine and what was last read off it: the tree and a cut, each made when it is first asked for."""

    def __init__(self, engine: Engine, order: npt.NDArray[np.int64] | None = None):
        self.engine, self._order = engine, order
        # Of the points inserted, and perhaps of some that were not, if that was interrupted; None: their positions.
        self.ids: list[Any] | None = None
        self.begun_with: dict[str, Any] = {}
        self._tree: Tree | None = None
        self._labels: npt.NDArray[np.int64] | None = None
        self._cut: tuple[int | None, float | None] | None = None

    def known_ids(self) -> list[Any] | None:
        """The ids of the points in the tree; None if they have none."""
        if self.ids is None:
            return None
        return self.ids[: self.engine.n_leaves] if self._order is None else [self.ids[i] for i in sorted(self._made())]

    def settle_order(self) -> None:
        """After an interrupted fit in shuffled order: count the rows that made it from 0, and forget the others."""
        if self._order is not None and len(self._order) > self.engine.n_leaves:
            self.ids, self._order, self._tree = self.known_ids(), self._row_of_leaf(), None

    def name_of(self, leaf: int) -> Any:
        """The id of a leaf of the engine, inserted or about to be."""
        row = leaf if self._order is None or leaf >= len(self._order) else int(self._order[leaf])
        return row if self.ids is None else self.ids[row]

    def tree(self) -> Tree:
        if self._tree is None or self._tree.n_leaves != self.engine.n_leaves:
            tree = self.engine.tree()
            self._tree = tree if self._order is None else tree.relabelled(self._row_of_leaf())
            self._tree.names = self.known_ids()
            self._cut = None
        return self._tree

    def node_labels(self, n_clusters: int | None, threshold: float | None) -> npt.NDArray[np.int64]:
        """Flat clusters by node id, -1 above the cut."""
        tree, cut = self.tree(), (n_clusters, threshold)
        if self._labels is None or self._cut != cut:
            self._labels, self._cut = cuts.node_labels(tree, cuts.splits(tree, n_clusters, threshold)), cut
        return self._labels

    def public_ids(self, nodes: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Node ids of the engine as ids of the tree handed out."""
        n, offset = self.engine.n_leaves, self.engine.store.capacity
        ids = np.where(nodes < offset, nodes, nodes - offset + n).astype(np.int64)
        return np.concatenate([self._row_of_leaf(), np.arange(n, 2 * n)])[ids]

    def _row_of_leaf(self) -> npt.NDArray[np.int64]:
        """By leaf of the engine, the row it came from: as fit shuffled them, and after that as they came."""
        made = self._made()
        # Not all of them if fit was interrupted; then the rows that made it are counted from 0.
        return np.argsort(np.argsort(made))

    def _made(self) -> npt.NDArray[np.int64]:
        """By leaf of the engine, the row as it was given."""
        rows = np.arange(self.engine.n_leaves)
        if self._order is not None:
            shuffled = self._order[: len(rows)]
            rows[: len(shuffled)] = shuffled
        return rows
