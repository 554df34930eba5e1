"""What an estimator holds once it is fitted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._types import Counts, Labels, Slots
from grinch.cuts.automatic import AutomaticCut
from grinch.cuts.choice import Choice
from grinch.cuts.tracking import GrowingTree, LiveCut
from grinch.estimators.builder import Builder, HavingPoints, Removing
from grinch.estimators.points import PointIds
from grinch.refine.passes import Refinement
from grinch.saving.state import State, item, require
from grinch.tree import Tree


class Fit:
    """A builder, the ids of its points, and what was last read off it: a tree and a cut, made when first asked for.

    Slots of the builder are in the order of insertion, leaves of the tree handed out in the order of positions.
    ``parameters`` are those that the tree is built by.
    """

    def __init__(self, builder: Builder, parameters: dict[str, Any]):
        self.builder, self.parameters = builder, parameters
        self.ids = PointIds()
        self.refinements: list[Any] = []
        self.checked: Any = None
        """The parameters that were last accepted."""
        # Asked once, for the question takes longer than what is done with the answer, for every point.
        self._removing = builder if isinstance(builder, Removing) else None
        self._tree: Tree | None = None
        self._labels: npt.NDArray[np.int64] | None = None
        self._cut: Hashable = None
        self._automatic: AutomaticCut | None = None
        self._live: LiveCut | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_live": None}

    def to_state(self) -> State:
        """Return what a file holds of the fit, but for the parameters."""
        return {
            "builder": self.builder.to_state(),
            "ids": self.ids.to_state(),
            "refinements": [asdict(each) for each in self.refinements],
        }

    @classmethod
    def from_state(cls, state: Any, builder: Builder, parameters: dict[str, Any]) -> Fit:
        fit = cls(builder, parameters)
        fit.ids = PointIds.from_state(item(state, "ids"))
        fit.refinements = [Refinement(**each) for each in item(state, "refinements")]
        return fit

    def validate(self, n_features: int | None) -> None:
        """Refuse ids that are not those of the points, and vectors that are not as long as they should be."""
        summaries = getattr(self.builder, "summaries", None)
        width = getattr(summaries, "n_features", n_features)
        require(width == n_features, "vectors are not as long as they should be")
        self.ids.validate(self.builder.n_leaves if self._removing is None else self._removing.n_slots)
        there = self.ids.positions[self._slots()]
        require(len(np.unique(there)) == len(there), "two points have the same position")

    # Points come and go -------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """The builder has changed: forget the tree, and points that were expected and never came."""
        self._tree = None
        self.ids.cut_off(self.builder.n_leaves if self._removing is None else self._removing.n_slots)

    def removed(self, slots: Slots) -> None:
        """These slots were emptied, or some of them if that was interrupted."""
        self._tree = None
        self.ids.forget(np.array([slot for slot in slots.tolist() if not self._has(slot)], np.intp))

    def slot_of(self) -> Mapping[Hashable, int]:
        """The slot of each point in the tree, by id."""
        return self.ids.slot_of(self._has, self._slots)

    def is_named(self) -> bool | None:
        """Whether the points in the tree have names of the user's; None if there are none."""
        return None if self.builder.n_leaves == 0 else self.ids.names is not None

    def point_ids(self) -> list[Any]:
        """The ids of the points in the tree, in the order of its leaves."""
        return self.ids.in_order(self._slots())

    def positions(self) -> Counts:
        """The positions of the points in the tree, in the order of its leaves."""
        return self.ids.positions[self.ids.sorted(self._slots())]

    def _has(self, slot: int) -> bool:
        return self._removing is None or self._removing.has(slot)

    def _slots(self) -> Slots:
        return np.arange(self.builder.n_leaves) if self._removing is None else self._removing.slots()

    # What was found -----------------------------------------------------------------------------------------------

    def tree(self) -> Tree:
        if self._tree is None:
            tree, positions = self.builder.tree(), self.ids.positions[self._slots()]
            is_plain = bool((positions == np.arange(len(positions))).all())
            tree = tree if self.ids.is_in_order else tree.relabelled(self.leaves())
            tree.names = None if is_plain and self.ids.names is None else self.point_ids()
            self._tree, self._cut, self._automatic = tree, None, None
        return self._tree

    def automatic(self, find: Callable[[Fit], AutomaticCut]) -> AutomaticCut:
        """The automatic cut of the tree as it stands, as ``find`` finds it, once."""
        self.tree()
        if self._automatic is None:
            self._automatic = find(self)
        return self._automatic

    @property
    def has_automatic(self) -> bool:
        """Whether the automatic cut is known already."""
        return self._tree is not None and self._automatic is not None

    @property
    def n_leaves(self) -> int:
        return self.builder.n_leaves

    @property
    def stats(self) -> dict[str, int]:
        return self.builder.stats

    @property
    def points(self) -> npt.NDArray[Any] | None:
        """The points in the order of the tree's leaves, of a builder that has them."""
        return self.by_row(self.builder.points()) if isinstance(self.builder, HavingPoints) else None

    def node_labels(self, cut: Hashable, find: Callable[[Tree], Labels]) -> npt.NDArray[np.int64]:
        """Flat clusters by node id, -1 above the cut; ``cut`` names what ``find`` finds, so that it is done once."""
        tree = self.tree()
        if self._labels is None or self._cut != cut:
            self._labels, self._cut = find(tree), cut
        return self._labels

    def live_cut(self, tree: GrowingTree, choice: Choice) -> LiveCut:
        """Return the cut that follows the builder's tree, by its slots and nodes."""
        # Whatever is raised, all of it is done again the next time.
        live, self._live = self._live, None
        if live is None or not live.is_like(tree, choice):
            live = LiveCut(tree, choice)
        in_order = np.arange(self.ids.n_slots) if self.ids.is_in_order else self.ids.sorted(self._slots())
        live.update(tree, choice, in_order)
        self._live = live
        return live

    def labels(self, cut: LiveCut) -> npt.NDArray[np.int64]:
        """Return the clusters of a cut by point."""
        is_plain = self.ids.is_in_order and self.builder.n_leaves == self.ids.n_slots
        return cut.labels(slice(self.ids.n_slots) if is_plain else self.ids.sorted(self._slots()))

    def public_ids(self, nodes: Slots) -> Counts:
        """Node ids of the builder's tree as ids of the tree handed out."""
        n = self.builder.n_leaves
        return np.concatenate([self.leaves(), np.arange(n, 2 * n)])[nodes]

    def by_row(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What is known of each point in the order they were inserted, in the order of the tree's leaves."""
        ordered = np.empty_like(values)
        ordered[self.leaves()] = values
        return ordered

    def leaves(self) -> Counts:
        """By leaf of the builder's tree, the leaf of the tree handed out."""
        if self.ids.is_in_order:
            return np.arange(self.n_leaves)
        return np.argsort(np.argsort(self.ids.positions[self._slots()], kind="stable"))
