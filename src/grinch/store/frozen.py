"""A store as it was at one version, for readers beside a writer: nothing of it changes."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from grinch._types import Counts, Labels, Mask
from grinch.store.inputs import RowCheck
from grinch.store.queries import AboutCut, Placed
from grinch.tree import NONE, Tree

if TYPE_CHECKING:
    from grinch.store.contents import Contents


class Frozen:
    """The contents of a store at the moment this is made (``queries.State``).

    It has a copy of the tree and the labels of each cut; points are found and placed by the engine's own view.
    Without one, of linkages written in Python, nothing can be placed (``can_place``).
    """

    def __init__(self, contents: Contents):
        self.version, self.n_points, self.n_given = contents.version, contents.n_points, contents.n_given
        self.n_rows, self.row_of, self.settings = contents.n_rows, contents.shared_row_of(), contents.settings
        self.cut_names = list(contents.cut_names)
        self._row_check, self._verify_points = contents.row_check(), contents.verify_points
        self._positions = contents.positions()
        self._engine = contents.engine_view()
        # By leaf of the engine's tree, the leaf of the tree that is handed out.
        self._leaves = contents.leaves()
        self._tree = contents.tree() if self._engine is None else self._handed_out(self._engine.tree)
        self._cuts = {
            name: (contents.about_cut(name), contents.labels(name) if self.n_points else np.empty(0, np.int64))
            for name in self.cut_names
        }
        self._owners: dict[str, Labels] = {}

    @property
    def can_place(self) -> bool:
        return self._engine is not None or not self.n_points

    def positions(self) -> Counts:
        return self._positions

    def has(self, positions: Counts) -> Mask:
        at = np.searchsorted(self._positions, positions)
        return np.append(self._positions, -1)[at] == positions

    def tree(self) -> Tree:
        return copy.copy(self._tree)

    def labels(self, cut: str) -> Labels:
        return self._cuts[cut][1].copy()

    def about_cut(self, cut: str) -> AboutCut:
        return self._cuts[cut][0]

    def row_check(self) -> RowCheck:
        return self._row_check

    def place(self, rows: Any) -> Placed:
        nearest, beside, _ = self._places(rows)
        return Placed(beside, np.where(nearest == NONE, -1, np.append(self._positions, -1)[nearest]))

    def predict(self, cut: str, rows: Any) -> Labels:
        nearest, beside, scores = self._places(rows)
        owners, threshold = self._owners_by_node(cut), self.about_cut(cut).parameters["threshold"]
        found = owners[beside]
        if threshold is None:
            near = np.where(nearest == NONE, -1, owners[nearest])
            return np.where(found < 0, near, found)
        parents = self._tree.parents()[beside]
        is_whole = (found >= 0) & ((parents < 0) | (owners[parents] < 0))
        return np.where(is_whole & (scores < threshold), -1, found)

    def _places(self, rows: Any) -> tuple[Counts, Counts, Any]:
        """Return the nearest leaf, the node beside which each row would go, and the score of the two."""
        assert self._engine is not None
        places = self._engine.place(self._row_check.as_inserted(rows))
        self._verify_points(self._engine.slots[places.nearest[places.nearest != NONE]])
        return self._public(places.nearest), self._public(places.sibling), places.score

    def _public(self, nodes: Any) -> Counts:
        is_leaf = (nodes >= 0) & (nodes < self.n_points)
        return np.where(is_leaf, self._leaves[np.where(is_leaf, nodes, 0)], nodes)

    def _handed_out(self, tree: Tree) -> Tree:
        is_in_order = bool((self._leaves == np.arange(len(self._leaves))).all())
        tree = copy.copy(tree) if is_in_order else tree.relabelled(self._leaves)
        is_plain = bool((self._positions == np.arange(len(self._positions))).all())
        tree.names = None if is_plain else self._positions.tolist()
        return tree

    def _owners_by_node(self, cut: str) -> Labels:
        """Return the cluster of each node, -1 above the clusters."""
        if cut not in self._owners:
            labels, below = self._cuts[cut][1], np.full(self._tree.n_ids, -np.inf)
            below[: len(labels)] = labels
            highest = self._tree.max_upward(below)
            below[: len(labels)] = -labels
            # A node is in a cluster if all of its leaves are.
            self._owners[cut] = np.where(highest == -self._tree.max_upward(below), highest, -1).astype(np.int64)
        return self._owners[cut]
