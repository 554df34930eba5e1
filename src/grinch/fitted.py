"""What an estimator holds once it is fitted."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch import cuts
from grinch.builder import Builder
from grinch.cuts.flat import Mask
from grinch.tree import Tree


class Fitted:
    """A builder and what was last read off it: the tree and a cut, each made when it is first asked for."""

    def __init__(self, builder: Builder, order: npt.NDArray[np.int64] | None = None):
        self.builder, self._order = builder, order
        # Of the points inserted, and perhaps of some that were not, if that was interrupted; None: their positions.
        self.ids: list[Any] | None = None
        self.begun_with: dict[str, Any] = {}
        self._tree: Tree | None = None
        self._labels: npt.NDArray[np.int64] | None = None
        self._cut: Hashable = None

    def known_ids(self) -> list[Any] | None:
        """The ids of the points in the tree; None if they have none."""
        if self.ids is None:
            return None
        return self.ids[: self.builder.n_leaves] if self._order is None else [self.ids[i] for i in sorted(self._made())]

    def settle_order(self) -> None:
        """After an interrupted fit in shuffled order: count the rows that made it from 0, and forget the others."""
        if self._order is not None and len(self._order) > self.builder.n_leaves:
            self.ids, self._order, self._tree = self.known_ids(), self._row_of_leaf(), None

    def name_of(self, leaf: int) -> Any:
        """The id of a leaf of the builder, inserted or about to be."""
        row = leaf if self._order is None or leaf >= len(self._order) else int(self._order[leaf])
        return row if self.ids is None else self.ids[row]

    def tree(self) -> Tree:
        if self._tree is None or self._tree.n_leaves != self.builder.n_leaves:
            tree = self.builder.tree()
            self._tree = tree if self._order is None else tree.relabelled(self._row_of_leaf())
            self._tree.names = self.known_ids()
            self._cut = None
        return self._tree

    def node_labels(self, cut: Hashable, splits: Callable[[Tree], Mask]) -> npt.NDArray[np.int64]:
        """Flat clusters by node id, -1 above the cut; ``cut`` names what ``splits`` does, so that it is done once."""
        tree = self.tree()
        if self._labels is None or self._cut != cut:
            self._labels, self._cut = cuts.node_labels(tree, splits(tree)), cut
        return self._labels

    def public_ids(self, nodes: npt.NDArray[np.int32], offset: int) -> npt.NDArray[np.int64]:
        """Node ids of the builder, whose internal nodes start at ``offset``, as ids of the tree handed out."""
        n = self.builder.n_leaves
        ids = np.where(nodes < offset, nodes, nodes - offset + n).astype(np.int64)
        return np.concatenate([self._row_of_leaf(), np.arange(n, 2 * n)])[ids]

    def by_row(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What is known of each point in the order they were inserted, in the order of the tree's leaves."""
        if self._order is None:
            return values
        ordered = np.empty_like(values)
        ordered[self._row_of_leaf()] = values
        return ordered

    def _row_of_leaf(self) -> npt.NDArray[np.int64]:
        """By leaf of the builder, the row it came from: as fit shuffled them, and after that as they came."""
        made = self._made()
        # Not all of them if fit was interrupted; then the rows that made it are counted from 0.
        return np.argsort(np.argsort(made))

    def _made(self) -> npt.NDArray[np.int64]:
        """By leaf of the builder, the row as it was given."""
        rows = np.arange(self.builder.n_leaves)
        if self._order is not None:
            shuffled = self._order[: len(rows)]
            rows[: len(shuffled)] = shuffled
        return rows
