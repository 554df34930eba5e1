"""Named cuts of one growing tree from version to version, with ids that stay; and the cut that ``labels_`` shows.

A cluster of an automatic cut may have several parts, each of which is a node: small groups join clusters when the cut
is made. As the tree changes, parts stay in their cluster, and a new part is a cluster of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._compile import kernel
from grinch._types import Counts, Flags, Ids, Labels, Slots
from grinch.cuts.choice import Choice
from grinch.cuts.n_cluster_cut import NEVER, Splits
from grinch.cuts.tracking import cut_nodes, identity
from grinch.cuts.tracking.follower import Arrays, Follower, GrowingTree, Region
from grinch.cuts.tracking.identity import ABOVE, NEW, NOWHERE, Change, Moved
from grinch.tree.keys import GAMMA, Keys, leaf_keys
from grinch.tree.links import NONE, SIZE, Links, left, right, size

# The automatic cut of fewer points than this is uncertain: it is made again each time they have doubled.
FEW_POINTS = 256
# The fields of a choice that a tracked cut has.
CUT_BY = ("n_clusters", "threshold", "cut", "layer")


class Drift(NamedTuple):
    """The distance of a cut from its last recut.

    ``points``: the points that there were then; ``came`` and ``left``: those that came and left since; ``born`` and
    ``ended``: the clusters that were made and ended since.
    """

    points: int
    came: int
    left: int
    born: int
    ended: int

    @property
    def share(self) -> float:
        """The points that came and left, by those that there were."""
        return (self.came + self.left) / max(self.points, 1)


class TrackedCut:
    """One cut of the tree that a follower follows, and the ids of its clusters.

    Parameters
    ----------
    name : str
        Its name.
    how : Choice
        How to cut, as :class:`grinch.Grinch` does.
    number : int
        A number for the names of its arrays.
    follower : Follower
        The follower that has its arrays.
    """

    def __init__(self, name: str, how: Choice, number: int, follower: Follower):
        self.name, self.how, self.number = name, how, number
        self.next_id = self.next_part = 0
        self.n_clusters = 0
        """The number of clusters, of a cut into a number of them."""
        self.drift = Drift(0, 0, 0, 0, 0)
        self._follower = follower
        for array, dtype in self._by_node().items():
            if self._called(array) not in follower.arrays:
                follower.add(self._called(array), dtype)
        follower.noted += map(self._called, self._noted)

    def leave(self) -> None:
        """Take its arrays away from the follower."""
        for array in self._noted:
            self._follower.noted.remove(self._called(array))
        for array in self._by_node():
            del self._follower.arrays[self._called(array)]

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields of the choice, as they are written."""
        return {name: getattr(self.how, name) for name in CUT_BY}

    @property
    def is_automatic(self) -> bool:
        """Whether it is an automatic cut."""
        return self.how.is_automatic

    @property
    def _is_sizeable(self) -> bool:
        return self.how.n_clusters is not None and self.how.cut == "sizeable"

    @property
    def owners(self) -> Labels:
        """By node, the id of the cluster that all points under it are in; below 0 where there are several."""
        return self._array("owners")

    def _array(self, name: str) -> npt.NDArray[Any]:
        return self._follower.arrays[self._called(name)]

    def _called(self, name: str) -> str:
        return f"cut{self.number}.{name}"

    def _by_node(self) -> dict[str, Any]:
        """Return the names and types of its arrays by node."""
        if self._is_sizeable:
            return {"owners": np.int64, "lows": np.float64, "keys": np.float64, "best": np.float64}
        if self.how.n_clusters is not None:
            return {"owners": np.int64, "keys": np.float64}
        if self.how.threshold is not None:
            return {"owners": np.int64, "marks": np.uint8}
        return {"owners": np.int64, "parts": np.int64, "marks": np.uint8, "levels": np.float64, "exempt": np.uint8}

    @property
    def _noted(self) -> list[str]:
        """The arrays with the ids of what points are in; the last one is by the nodes of the cut."""
        return ["owners", "parts"] if self.is_automatic else ["owners"]

    # Following the tree -------------------------------------------------------------------------------------------

    def begin(self, tree: GrowingTree) -> None:
        """Cut the whole tree, in which no point has a cluster yet, and give ids."""
        region = self._follower.whole(tree)
        self.owners[:] = NEW
        self._begin_leaves(region.came)
        ends, clusters = self._cut_again(tree) if self.is_automatic else self._ends(tree, region)
        self._move(tree, ends, clusters)
        if self.is_automatic:
            self._choose_levels(tree, ends)

    def update(self, tree: GrowingTree, region: Region, version: int) -> list[Change]:
        """Follow the tree to where it is; return what happened to the clusters."""
        since = self.drift
        moved = self.follow(tree, region)
        changes = moved.changes(tree.links, self._follower.arrays["oldest"], version, self.name)
        if self.drift is since:
            kinds = [change.kind for change in changes]
            came, left = len(region.came) - int((region.came_from >= 0).sum()), len(moved.removed)
            more = 0, came, left, kinds.count("born"), kinds.count("dissolved")
            self.drift = Drift(*(a + b for a, b in zip(since, more, strict=True)))
        return changes

    def follow(self, tree: GrowingTree, region: Region) -> Moved:
        """Follow the tree to where it is; return where the points of clusters that changed were before."""
        links, n, is_again = tree.links, tree.n_leaves, region.came_from >= 0
        was_above = np.zeros(len(links.table), np.uint8)
        for name in self._noted:
            array, before = self._array(name), region.left_by[self._called(name)]
            array[region.came] = NEW
            array[region.came[is_again]] = before[region.came_from[is_again]]
            was_above[region.nodes] = array[region.nodes] == ABOVE
            identity.raise_owners(links, region.nodes, array)
        self._begin_leaves(region.came)
        is_removed = np.ones(len(region.left), np.bool_)
        is_removed[region.came_from[is_again]] = False
        removed = region.left_by[self._called("owners")][is_removed], region.left[is_removed]
        # Without a point that was there before there is no resolution to keep.
        is_other = len(region.came) == n
        is_small = self.drift.points < FEW_POINTS and n >= 2 * self.drift.points
        if self.is_automatic and n and (is_other or is_small):
            ends, clusters = self._cut_again(tree)
            moved = self._move(tree, ends, clusters, removed)
            self._choose_levels(tree, ends)
            return moved
        return self._move(tree, *self._changed(tree, region, was_above, removed[0]), removed)

    def recut(self, tree: GrowingTree, version: int) -> list[Change]:
        """Make the automatic cut again; other cuts are always as if they had just been made."""
        if not self.is_automatic:
            return []
        ends, clusters = self._cut_again(tree)
        nothing = np.empty(0, np.int64)
        moved = self._move(tree, *identity.without_same_clusters(tree.links, ends, clusters, self.owners, nothing))
        self._choose_levels(tree, ends)
        return moved.changes(tree.links, self._follower.arrays["oldest"], version, self.name)

    def _begin_leaves(self, slots: Slots) -> None:
        if self._is_sizeable:
            splits = self._splits()
            splits.lows[slots], splits.keys[slots], splits.best[slots] = -np.inf, NEVER, NEVER
        elif self.how.n_clusters is not None:
            self._array("keys")[slots] = -np.inf
        if self.is_automatic:
            self._array("levels")[slots] = np.nan

    # Which nodes are clusters -------------------------------------------------------------------------------------

    def _changed(self, tree: GrowingTree, region: Region, was_above: Flags, lost: Labels) -> tuple[Slots, Slots | None]:
        """Return the nodes of the clusters that may have changed; and their clusters, where several nodes are one."""
        ends, clusters = self._ends(tree, region)
        if clusters is not None:
            return identity.without_same_clusters(tree.links, ends, clusters, self.owners, lost)
        ends = identity.without_same(tree.links, ends, region, self._array(self._noted[-1]), was_above)
        return self._follow_parts(tree, ends, lost) if self.is_automatic else (ends, None)

    def _ends(self, tree: GrowingTree, region: Region) -> tuple[Slots, Slots | None]:
        """Return the nodes that are whole in the cut, and the number of the cluster of each where several are one.

        Of a cut by height, only those that are in the region or at its edge.
        """
        links, ceiling, arrays, how = tree.links, tree.builder.ceiling, self._follower.arrays, self.how
        if how.n_clusters is not None and self._is_sizeable:
            k, min_size = int(how.n_clusters), int(how.min_cluster_size)
            sizeable = cut_nodes.cut_sizeable(links, region, arrays, self._splits(), ceiling, k, min_size)
            ends, clusters, self.n_clusters = sizeable
            return ends, clusters
        if how.n_clusters is not None:
            keys, k = self._array("keys"), int(how.n_clusters)
            ends = cut_nodes.cut_by_key(links, region, arrays["counts"], keys, ceiling, k)
            self.n_clusters = len(ends)
            return ends, None
        local, threshold = None if how.threshold is not None else self._local(), float(how.threshold or 0.0)
        if local is not None:
            cut_nodes.raise_levels(links, region, arrays, local.levels)
        marks, by_end = self._array("marks"), self._array(self._noted[-1])
        return cut_nodes.cut_by_height(links, region, arrays, marks, by_end, threshold, local), None

    def _splits(self) -> Splits:
        lows, keys, best = (self._array(name) for name in ("lows", "keys", "best"))
        return Splits(lows, self._follower.arrays["counts"], keys, best)

    def _local(self) -> cut_nodes.Local:
        return cut_nodes.Local(self._array("levels"), self._array("exempt"))

    def _cut_again(self, tree: GrowingTree) -> tuple[Slots, Slots]:
        """Mark the nodes of the automatic cut; return its parts, numbered from 0, and their clusters."""
        if tree.n_leaves == 0:
            return np.empty(0, np.intp), np.empty(0, np.intp)
        is_split, labels = tree.cut_automatically(self.how)
        is_split = is_split[tree.handed_out(np.arange(len(tree.links.table)))]
        cut_nodes.mark_whole(tree.links, is_split, self._array("marks"))
        ends = cut_nodes.whole_nodes(tree.links, self._array("marks"))
        parts, some, clusters = self._array("parts"), np.arange(len(ends)), np.empty(len(ends), np.intp)
        parts[:] = NEW
        identity.relabel(tree.links, ends, some, ends, some, parts)
        self.next_part = len(ends)
        clusters[parts[tree.slots()]] = labels
        return ends, clusters

    def _follow_parts(self, tree: GrowingTree, changed: Slots, lost: Labels) -> tuple[Slots, Slots]:
        """Give parts that may have changed their ids; return the parts of all clusters that have, and these clusters.

        ``lost`` are clusters that points were removed from.
        """
        arrays, parts, by_node = self._follower.arrays, self._array("parts"), self.owners
        pieces, ids, self.next_part = identity.settle(tree.links, arrays, parts, changed, None, self.next_part)
        others = cut_nodes.whole_nodes(tree.links, self._array("marks"), changed)
        others = others[np.isin(by_node[others], np.unique(np.append(by_node[pieces.nodes], lost)))]
        # Numbers below 0 are for new parts.
        clusters = np.concatenate([-1 - np.arange(len(changed)), by_node[others]])
        stays = np.flatnonzero(pieces.owners == ids[pieces.ends])
        clusters[pieces.ends[stays]] = by_node[pieces.nodes[stays]]
        return np.concatenate([changed, others]), np.unique(clusters, return_inverse=True)[1]

    def _choose_levels(self, tree: GrowingTree, ends: Slots) -> None:
        """Let each part keep the resolution that it has now."""
        links, arrays, region = tree.links, self._follower.arrays, self._follower.whole(tree)
        slots, local = region.came, self._local()
        self.drift = Drift(len(slots), 0, 0, 0, 0)
        if not len(slots):
            return
        local.levels[slots] = cut_nodes.choose_levels(links, ends, arrays)[self._array("parts")[slots]]
        cut_nodes.raise_levels(links, region, arrays, local.levels)
        cut_nodes.exempt_others(links, ends, arrays, self._array("marks"), local)

    # Ids ----------------------------------------------------------------------------------------------------------

    def _move(
        self, tree: GrowingTree, ends: Slots, clusters: Slots | None, removed: tuple[Labels, Counts] | None = None
    ) -> Moved:
        """Give the clusters of these nodes their ids; return where their points were."""
        arrays, nothing = self._follower.arrays, np.empty(0, np.int64)
        pieces, ids, self.next_id = identity.settle(tree.links, arrays, self.owners, ends, clusters, self.next_id)
        counts = arrays["counts"][pieces.nodes].astype(np.int64)
        old = np.where(pieces.owners == NEW, NOWHERE, pieces.owners)
        return Moved(old, ids[pieces.ends], counts, pieces.nodes, *(removed or (nothing, nothing)))

    # Saving -------------------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Return its state besides the arrays of the follower, as JSON can hold it."""
        return {
            "name": self.name,
            **self.parameters,
            "number": self.number,
            "next_id": self.next_id,
            "next_part": self.next_part,
            "drift": list(self.drift),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], follower: Follower) -> TrackedCut:
        """Go on with a cut whose arrays the follower has."""
        how = Choice(**{name: state[name] for name in CUT_BY})
        cut = cls(state["name"], how, state["number"], follower)
        cut.next_id, cut.next_part, cut.drift = state["next_id"], state["next_part"], Drift(*state["drift"])
        return cut


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
        if tree.links.offset != self._follower.capacity:
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
