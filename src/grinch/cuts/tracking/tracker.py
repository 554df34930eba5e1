"""Named cuts of one growing tree from version to version, with ids that stay; and the cut that ``labels_`` shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch._compile import kernel
from grinch._types import Counts, Flags, Ids, Labels, Slots
from grinch.cuts.choice import Choice
from grinch.cuts.tracking.changes import Change
from grinch.cuts.tracking.cut import TrackedCut
from grinch.cuts.tracking.follower import Arrays, Follower, GrowingTree, Region
from grinch.tree.keys import GAMMA, Keys, leaf_keys
from grinch.tree.links import NONE, OFFSET, SIZE, Links, left, right, size

FORMAT = 2
# By node: a key, the sum of a pseudo-random number for each of its points, and the version in which they last changed.
# Where a node has other points than before, the key says whether another node had just these.
BY_NODE = {"keys": np.uint64, "changed_at": np.int64}


class Tracker:
    """All named cuts of one tree.

    Points have no names but their positions. After every change of the tree :meth:`commit` has to be called
    before anything else. A tree that has never had points is None. ``to_state`` and ``from_state`` are for
    saving; a tracker that goes on from a state gives the same ids as one that was not interrupted.
    """

    def __init__(self, arrays: Arrays | None = None) -> None:
        self.version = 0
        self._cuts: dict[str, TrackedCut] = {}
        self._follower = Follower(arrays)
        if arrays is None:
            self._follower.add("scores", np.float64)
        for name, dtype in BY_NODE.items():
            if name not in self._follower.arrays:
                self._follower.add(name, dtype)
        self._follower.noted_of_nodes += BY_NODE
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
        """Follow the tree after a change; return the changes of the clusters of all cuts."""
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
        return np.flatnonzero((self._follower.arrays["changed_at"] > since) & (tree.links.table[:, SIZE] != NONE))

    # Saving -------------------------------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the state as JSON can hold it, and arrays, which are those in use and no copies."""
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
        """Continue with these arrays, which are written to from now on; :meth:`attach` gives their tree."""
        if state["format"] != FORMAT:
            raise ValueError(f"this was saved in format {state['format']!r}; this version reads format {FORMAT}")
        tracker = cls(dict(arrays) or None)
        tracker.version, tracker._next_number = state["version"], state["next_number"]
        tracker._retired = dict(state["retired"])
        tracker._cuts = {cut["name"]: TrackedCut.from_state(cut, tracker._follower) for cut in state["cuts"]}
        return tracker

    def attach(self, tree: GrowingTree | None) -> None:
        """Continue with this tree, which has to be as it was at the last commit."""
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
            raise RuntimeError("this tree is not the one that is tracked; call attach to continue with another copy")

    def _check_current(self, tree: GrowingTree) -> None:
        """Refuse a tree that has changed since the last commit; track one without cuts from now on."""
        is_first = not self._follower.capacity
        self._join(tree)
        if is_first and not self._cuts:
            self._update(tree)
        elif not self._follower.is_up_to_date(tree):
            raise RuntimeError("the tree has changed since the last commit; call commit first")


def update_versions(links: Links, arrays: Arrays, region: Region, version: int) -> None:
    """Note which nodes of a region have points that came, or other points than any node had before."""
    keys, changed_at, nodes = arrays["keys"], arrays["changed_at"], region.nodes
    keys[region.came], changed_at[region.came] = keys_of(arrays["oldest"][region.came]), version
    before = keys[nodes]
    has_new = np.zeros(len(keys), np.uint8)
    has_new[region.came] = 1
    _sum_keys(links, nodes, keys, has_new)
    is_new = has_new[nodes] == 1
    others = nodes[~is_new & (keys[nodes] != before)]
    if len(others):
        freed = region.freed_by
        earlier = np.concatenate([freed["keys"], before]), np.concatenate([freed["changed_at"], changed_at[nodes]])
        changed_at[others] = _when(keys[others], *earlier, version)
    changed_at[nodes[is_new]] = version


def _when(keys: Keys, earlier: Keys, changed_at: Counts, version: int) -> Counts:
    """Return the version in which the points of these keys last changed: now, unless a node had them all before."""
    when = np.full(len(keys), version)
    # Few of many: it is the few that are sorted.
    order = np.argsort(keys)
    match = order[np.minimum(np.searchsorted(keys, earlier, sorter=order), len(keys) - 1)]
    is_match = keys[match] == earlier
    when[match[is_match]] = changed_at[is_match]
    return when


def keys_of(positions: Counts) -> Keys:
    """Return a number for every position, which looks random: splitmix64.

    The key of a group is the sum of those of its points, so the order in which they are added does not matter.

    >>> keys_of(np.array([0, 1])).tolist()
    [16294208416658607535, 7960286522194355700]
    """
    return leaf_keys((positions.astype(np.uint64) * GAMMA).view(np.int64))


@kernel
def _sum_keys(tree: Links, nodes: Slots, keys: Keys, has_new: Flags) -> None:
    for i in range(nodes.shape[0]):
        v = nodes[i]
        a, b = left(tree, v), right(tree, v)
        keys[v] = keys[a] + keys[b]
        has_new[v] = has_new[a] | has_new[b]


class LiveCut:
    """The cut of a growing tree into a number of clusters, numbered by their first points.

    What an update costs depends on what changed.

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
