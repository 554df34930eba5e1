"""Named cuts of one growing tree from version to version: clusters with ids that stay, and what changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch._types import Counts, Labels, Slots
from grinch.cuts.choice import Choice
from grinch.cuts.tracking.changes import Change
from grinch.cuts.tracking.cut import TrackedCut
from grinch.cuts.tracking.follower import Arrays, Follower
from grinch.cuts.tracking.growing_tree import GrowingTree
from grinch.cuts.tracking.versions import add_versions, changed_nodes, update_versions
from grinch.tree.links import OFFSET

FORMAT = 2


class Tracker:
    """All named cuts of one tree.

    Points have no names: positions say who is who. After every change of the tree :meth:`commit` has to be called
    before anything else is asked. A tree that has never had points is None. ``to_state`` and ``from_state`` are for
    what outlives the process; a tracker that goes on from a state gives the same ids as one that was not interrupted.
    """

    def __init__(self, arrays: Arrays | None = None) -> None:
        self.version = 0
        self._cuts: dict[str, TrackedCut] = {}
        self._follower = Follower(arrays)
        if arrays is None:
            self._follower.add("scores", np.float64)
        add_versions(self._follower)
        self._next_number = 0
        # Of cuts that were dropped, the next id: it is not given again if a cut of this name comes back.
        self._retired: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        """The names of the cuts, in the order they were added."""
        return list(self._cuts)

    def __getitem__(self, name: str) -> TrackedCut:
        if name not in self._cuts:
            raise KeyError(f"there is no cut called {name!r}; there are {', '.join(map(repr, self._cuts)) or 'none'}")
        return self._cuts[name]

    def add(self, name: str, how: Choice, tree: GrowingTree | None) -> None:
        """Track one more cut; the work is that of making it."""
        if name in self._cuts:
            raise ValueError(f"there is a cut called {name!r} already; drop it first, or choose another name")
        if tree is not None:
            self._check_current(tree)
        cut = TrackedCut(name, how, self._next_number, self._follower)
        cut.next_id = self._retired.pop(name, 0)
        self._next_number += 1
        self._cuts[name] = cut
        if tree is not None:
            cut.begin(tree)

    def drop(self, name: str) -> None:
        """Track a cut no longer. Should one of this name be added again, its ids go on from here."""
        self._retired[name] = self[name].next_id
        self._cuts.pop(name).leave()

    def commit(self, tree: GrowingTree | None, version: int) -> list[Change]:
        """Follow the tree to where it is after a change; return what happened to the clusters of all cuts."""
        self.version = version
        if tree is None:
            return []
        self._join(tree)
        return self._update(tree)

    def _update(self, tree: GrowingTree) -> list[Change]:
        region, arrays = self._follower.update(tree), self._follower.arrays
        if region.is_empty:
            return []
        arrays["scores"][region.nodes] = region.scores
        update_versions(tree.links, arrays, region, self.version)
        return [change for cut in self._cuts.values() for change in cut.update(tree, region, self.version)]

    def recut(self, name: str, tree: GrowingTree | None, version: int) -> list[Change]:
        """Make the automatic cut again, at the resolution that suits best now; other cuts are always up to date."""
        cut, self.version = self[name], version
        if tree is None:
            return []
        self._check_current(tree)
        return cut.recut(tree, version)

    # What there is ------------------------------------------------------------------------------------------------

    def owners(self, name: str, tree: GrowingTree) -> Labels:
        """Return, by node, the id of the cluster that all points under it are in; below 0 where there are several."""
        cut = self[name]
        self._check_current(tree)
        return cut.owners

    def labels(self, name: str, tree: GrowingTree | None) -> Labels:
        """Return the ids of the clusters by point, in the order of positions."""
        return self[name].owners[:0].copy() if tree is None else self.owners(name, tree)[tree.slots()]

    def members(self, name: str, tree: GrowingTree | None) -> dict[int, Counts]:
        """Return, by the id of a cluster, the positions of its points in ascending order."""
        labels = self.labels(name, tree)
        if tree is None or not len(labels):
            return {}
        order, positions = np.argsort(labels, kind="stable"), tree.positions[tree.slots()]
        ids, starts = np.unique(labels[order], return_index=True)
        return dict(zip(ids.tolist(), np.split(positions[order], starts[1:]), strict=True))

    def changed_nodes(self, tree: GrowingTree, since: int) -> Slots:
        """Return the nodes whose points changed after a version, and the leaves that came since."""
        self._check_current(tree)
        return changed_nodes(tree.links, self._follower.arrays, since)

    # Saving -------------------------------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], Arrays]:
        """Return what is known, as something that JSON can hold and arrays, which are those in use and no copies."""
        state = {
            "format": FORMAT,
            "version": self.version,
            "next_number": self._next_number,
            "retired": dict(self._retired),
            "cuts": [cut.to_state() for cut in self._cuts.values()],
        }
        return state, dict(self._follower.arrays) if self._follower.capacity else {}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: Arrays) -> Tracker:
        """Go on with these arrays, which are written to from now on; :meth:`attach` says which tree they are of."""
        if state["format"] != FORMAT:
            raise ValueError(f"this was saved in format {state['format']!r}; this version reads format {FORMAT}")
        tracker = cls(dict(arrays) or None)
        tracker.version, tracker._next_number = state["version"], state["next_number"]
        tracker._retired = dict(state["retired"])
        tracker._cuts = {cut["name"]: TrackedCut.from_state(cut, tracker._follower) for cut in state["cuts"]}
        return tracker

    def attach(self, tree: GrowingTree | None) -> None:
        """Go on with this tree, which has to be as it was at the last commit."""
        if tree is None or not self._follower.capacity:
            return
        if int(tree.links.head[OFFSET]) != self._follower.capacity:
            raise ValueError("this tree is not the one that was tracked: it has room for another number of points")
        self._follower.join(tree, is_current=True)

    # Within -------------------------------------------------------------------------------------------------------

    def _join(self, tree: GrowingTree) -> None:
        if not self._follower.capacity:
            self._follower.join(tree)
        elif self._follower not in tree.builder.moves:
            raise RuntimeError("this tree is not the one that is tracked; attach says to go on with another copy")

    def _check_current(self, tree: GrowingTree) -> None:
        """Refuse a tree that has changed since the last commit; track one without cuts from now on."""
        is_first = not self._follower.capacity
        self._join(tree)
        if is_first and not self._cuts:
            self._update(tree)
        elif not self._follower.is_up_to_date(tree):
            raise RuntimeError("the tree has changed since the last commit; call commit first")
