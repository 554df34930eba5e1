"""The cut of a growing tree into a number of clusters, numbered by their first points."""

from __future__ import annotations

import numpy as np

from grinch._compile import kernel
from grinch._types import Ids, Labels, Slots
from grinch.cuts.choice import Choice
from grinch.cuts.tracking.cut import TrackedCut
from grinch.cuts.tracking.follower import Follower
from grinch.cuts.tracking.growing_tree import GrowingTree
from grinch.tree.links import NONE, Links, size


class LiveCut:
    """A cut that is up to date whenever it is asked; what an update costs depends on what changed.

    Parameters
    ----------
    tree : GrowingTree
        The tree.
    how : Choice
        How to cut: into a number of clusters that the tree alone decides.
    """

    def __init__(self, tree: GrowingTree, how: Choice):
        self._follower = Follower()
        self._cut = TrackedCut("live", how, 0, self._follower)
        self._follower.join(tree)
        self._numbers: Labels = np.empty(0, np.int64)

    @staticmethod
    def can_follow(tree: GrowingTree, how: Choice) -> bool:
        """Return whether a cut can be followed at a cost that depends on what changed.

        Not one by sizeable splits where the score of two identical points is not known: heights count from the best
        score in the tree then, and one change changes all.
        """
        return how.is_plain and (how.cut == "height" or tree.builder.ceiling is not None)

    def is_like(self, tree: GrowingTree, how: Choice) -> bool:
        """Return whether this is a cut of the same tree, of the same kind, into perhaps another number of clusters."""
        mine = self._cut.how
        is_same_kind = (mine.cut, mine.min_cluster_size) == (how.cut, how.min_cluster_size)
        return is_same_kind and self._follower in tree.builder.moves

    def update(self, tree: GrowingTree, how: Choice, order: Slots) -> None:
        """Follow the tree to where it is, and number the clusters by their first points in this order of slots.

        Empty slots are skipped. Whatever is raised, this cut is not to be used any more.
        """
        region, is_same = self._follower.update(tree), self._cut.how == how
        self._cut.how = how
        if not (is_same and region.is_empty):
            self._cut.follow(tree, region)
        owners = self._cut.owners
        # Room for the marks of nodes that are in no cluster.
        self._numbers = np.full(self._cut.next_id + 2, NONE, np.int64)
        number_along(tree.links, order, owners, self._cut.n_clusters, self._numbers)
        if self._cut.next_id > len(owners):
            owners[:] = np.where(owners < 0, owners, self._numbers[owners])
            self._cut.next_id = self._cut.n_clusters
            self._numbers = np.append(np.arange(self._cut.n_clusters), [NONE, NONE])

    def labels(self, slots: Slots | slice) -> Labels:
        """Return the number of the cluster of each of these slots, which have points."""
        return self._numbers[self._cut.owners[slots]]

    def labels_of(self, nodes: Ids) -> Labels:
        """Return the number of the cluster that each node is in; -1 above the cut, and for NONE."""
        return np.where(nodes == NONE, NONE, self._numbers[self._cut.owners[nodes]])


@kernel
def number_along(tree: Links, order: Slots, owners: Labels, n_clusters: int, numbers: Labels) -> None:
    """Number clusters, by their ids, in the order of their first points."""
    n = 0
    for i in range(order.shape[0]):
        if n == n_clusters:
            break
        if size(tree, order[i]) != NONE and numbers[owners[order[i]]] == NONE:
            numbers[owners[order[i]]] = n
            n += 1
