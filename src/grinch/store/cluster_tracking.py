"""The named cuts of a model, tracked from version to version.

>>> from grinch import Grinch
>>> tracking = ClusterTracking(Grinch().fit([[1, 0], [0, 9], [2, 0.1], [0.1, 8]]))
>>> tracking.add("two", n_clusters=2)
>>> tracking.labels("two").tolist()
[0, 1, 0, 1]
>>> _ = tracking.model.partial_fit([[0, 7], [0.2, 10]])
>>> for change in tracking.commit(version=1):
...     print(change.kind, change.cluster, change.size, change.exemplars)
grew 1 4 (4, 5)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.metrics import adjusted_rand_score

from grinch._checks import count_rows
from grinch._types import Counts, Labels, Slots
from grinch.cuts.choice import Choice
from grinch.cuts.tracking import CUT_BY, Change, TrackedCut, Tracker
from grinch.cuts.tracking.follower import Arrays
from grinch.cuts.tracking.identity import ABOVE, NO_CLUSTER, owners_above
from grinch.estimators.grinch import Grinch


class Recut(NamedTuple):
    """What a recut would give: how many clusters instead of how many now, and the ARI of the two."""

    n_clusters: int
    n_clusters_now: int
    agreement: float


class ClusterTracking:
    """The cuts of one model. After every change of the model :meth:`commit` has to be called first."""

    def __init__(self, model: Grinch, tracker: Tracker | None = None):
        self.model = model
        self._tracker = Tracker() if tracker is None else tracker

    @property
    def names(self) -> list[str]:
        """The names of the cuts, in the order they were added."""
        return self._tracker.names

    def __getitem__(self, name: str) -> TrackedCut:
        return self._tracker[name]

    def add(self, name: str, **how: Any) -> None:
        """Track one more cut, made as a :class:`grinch.cuts.Choice` of these says."""
        self._tracker.add(name, Choice(**how), self.model.growing_tree())

    def drop(self, name: str) -> None:
        """Track a cut no longer. Should one of this name be added again, its ids go on from here."""
        self._tracker.drop(name)

    def commit(self, version: int) -> list[Change]:
        """Follow the model to where it is after a change; return what happened to the clusters of all cuts."""
        return self._tracker.commit(self.model.growing_tree(), version)

    def recut(self, name: str, version: int) -> list[Change]:
        """Make the automatic cut again, at the resolution that suits best now."""
        return self._tracker.recut(name, self.model.growing_tree(), version)

    def would_recut(self, name: str) -> Recut:
        """Return what a recut would give, and how it agrees with the clusters there are; it costs as much as one."""
        cut, tree, now = self[name], self.model.growing_tree(), self.labels(name)
        count = len(np.unique(now))
        if tree is None or not cut.is_automatic:
            return Recut(count, count, 1.0)
        labels = tree.cut_automatically(cut.how).labels
        return Recut(int(labels.max(initial=-1)) + 1, count, float(adjusted_rand_score(now, labels)))

    def labels(self, name: str) -> Labels:
        """Return the ids of the clusters, by leaf of ``model.tree_``."""
        return self._tracker.labels(name, self.model.growing_tree())

    def members(self, name: str) -> dict[int, Counts]:
        """Return, by the id of a cluster, the positions of its points in ascending order."""
        return self._tracker.members(name, self.model.growing_tree())

    def predict(self, name: str, X: Any) -> Labels:
        """Return the ids of the clusters that points would join, as the model's ``predict`` finds them; -1 for none."""
        cut, tree = self[name], self.model.growing_tree()
        if tree is None or not tree.n_leaves:
            return np.full(count_rows(X), NO_CLUSTER, np.int64)
        places, owners = self.model.places(X), self._tracker.owners(name, tree)
        found = owners[places.sibling]
        if cut.how.threshold is None:
            nearest = np.where(places.nearest < 0, NO_CLUSTER, owners[places.nearest])
            return np.where(found < 0, nearest, found)
        above = owners_above(tree.links, places.sibling, owners)
        is_refused = (above == ABOVE) & (places.score < cut.how.threshold)
        return np.where((found < 0) | is_refused, NO_CLUSTER, found)

    def touched(self, since: int) -> Slots:
        """Return the nodes of ``model.tree_`` whose points changed after a version, and the leaves that came since."""
        tree = self.model.growing_tree()
        if tree is None:
            return np.empty(0, np.intp)
        return np.sort(tree.handed_out(self._tracker.changed_nodes(tree, since)))

    def to_state(self) -> tuple[dict[str, Any], Arrays]:
        """Return what is known of the cuts, as something that JSON can hold and arrays in use."""
        return self._tracker.to_state()

    @classmethod
    def from_state(cls, model: Grinch, state: dict[str, Any], arrays: Arrays) -> Self:
        """Go on with a model that is as it was when the state was taken."""
        tracker = Tracker.from_state(state, arrays)
        tracker.attach(model.growing_tree())
        return cls(model, tracker)


def how_of(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a cut is made from what was written of it; earlier releases cut by height, and wrote no layer."""
    known = {"cut": "height", "layer": "auto", **written}
    return {name: known[name] for name in CUT_BY}
