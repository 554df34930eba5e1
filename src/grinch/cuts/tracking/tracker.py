"""Named cuts of one growing tree from version to version, with ids that stay; and the cut that ``labels_`` shows.

A cluster of an automatic cut may have several parts, each of which is a node: small groups join clusters when the cut
is made. As the tree changes, parts stay in their cluster, and a new part is a cluster of its own, until the cut is made
again: it is due when a quarter of the points came, left or moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._compile import kernel
from grinch._types import Counts, Flags, Ids, Labels, Slots
from grinch.cuts.choice import Choice
from grinch.cuts.n_cluster_cut import NEVER, Splits
from grinch.cuts.tracking import cut_nodes, identity
from grinch.cuts.tracking.dissolved import Dissolved, leaves_of
from grinch.cuts.tracking.follower import Arrays, Follower, GrowingTree, Region
from grinch.cuts.tracking.identity import ABOVE, NEW, NOWHERE, Change, Moved
from grinch.cuts.tracking.made_cut import MadeCut
from grinch.tree.keys import GAMMA, Keys, leaf_keys
from grinch.tree.links import NONE, SIZE, Links, left, right, size

# An automatic cut is due when a share of the points of one over this number came, left or moved since it was made.
DUE_SHARE = 4
# Or when a smaller share came or left, and the number of its clusters is this many times what it was, or more than as
# many times less: followed, new points are often clusters of their own.
SOON_SHARE, MAX_RATIO = 25, 1.25
# The fields of a choice that a tracked cut has.
CUT_BY = ("n_clusters", "threshold", "cut", "layer")


class Drift(NamedTuple):
    """The distance of a cut from the tree that it was made of.

    ``points``: the points that there were then; ``came``, ``left`` and ``moved``: those that came, left, and were
    updated or went to another cluster since; ``clusters`` and ``clusters_now``: the number of clusters then and now.
    """

    points: int = 0
    came: int = 0
    left: int = 0
    moved: int = 0
    clusters: int = 0
    clusters_now: int = 0

    @property
    def changed(self) -> int:
        return self.came + self.left + self.moved

    def is_large(self, n_points: int, n_changing: int) -> bool:
        """Return whether the cut of so many points is due; ``n_changing`` of them come, leave or are updated now."""
        ratio = self.clusters_now / max(self.clusters, 1)
        is_other = not 1 / MAX_RATIO <= ratio <= MAX_RATIO
        is_soon = is_other and SOON_SHARE * (self.came + self.left + n_changing) >= n_points
        return n_points > 0 and (is_soon or DUE_SHARE * (self.changed + n_changing) >= n_points)


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
        self.drift = Drift()
        self.made_at = -1
        """The version of the tree that an automatic cut was last made of."""
        self._dissolved = Dissolved() if how.is_automatic else None
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

    def begin(self, tree: GrowingTree, made: MadeCut | None = None) -> None:
        """Cut the whole tree, in which no point has a cluster yet, and give ids; ``made`` is an automatic cut of it."""
        region = self._follower.whole(tree)
        self.owners[:] = NEW
        self._begin_leaves(region.came)
        self._move(tree, *(self._ends(tree, region) if made is None else self._take(tree, made)))

    def is_due(self, tree: GrowingTree, n_changing: int = 0) -> bool:
        """Return whether an automatic cut is to be made again; ``n_changing`` points change now."""
        return self.is_automatic and self.drift.is_large(tree.n_leaves, n_changing)

    def update(self, tree: GrowingTree, region: Region, version: int, made: MadeCut | None = None) -> list[Change]:
        """Follow the tree to where it is, or take an automatic cut of it; return what happened to the clusters."""
        moved = self.follow(tree, region, made)
        changes = moved.changes(tree.links, self._follower.arrays["oldest"], version, self.name)
        if made is None:
            kinds, drift = [change.kind for change in changes], self.drift
            has_moved = (moved.old != moved.new) & (moved.old != NOWHERE)
            self.drift = drift._replace(
                came=drift.came + region.n_came,
                left=drift.left + region.n_left,
                moved=drift.moved + region.n_updated + int(moved.counts[has_moved].sum()),
                clusters_now=drift.clusters_now + kinds.count("born") - kinds.count("dissolved"),
            )
        return changes

    def follow(self, tree: GrowingTree, region: Region, made: MadeCut | None = None) -> Moved:
        """Follow the tree to where it is; return where the points of clusters that changed were before."""
        links, is_again = tree.links, region.came_from >= 0
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
        if made is not None:
            return self._move(tree, *self._take(tree, made), removed)
        return self._move(tree, *self._changed(tree, region, was_above, removed[0]), removed)

    def recut(self, tree: GrowingTree, version: int, made: MadeCut) -> list[Change]:
        """Take an automatic cut of the tree, or of an earlier one."""
        ends, clusters = self._take(tree, made)
        nothing = np.empty(0, np.int64)
        moved = self._move(tree, *identity.without_same_clusters(tree.links, ends, clusters, self.owners, nothing))
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

    def _take(self, tree: GrowingTree, made: MadeCut) -> tuple[Slots, Slots]:
        """Mark the nodes that a cut divides; return its parts, numbered from 0, and their clusters.

        If the cut is of an earlier tree, points that came or moved since are in the part that they stand in. Groups of
        them that stand beside all parts are clusters of their own.
        """
        links, arrays, region = tree.links, self._follower.arrays, self._follower.whole(tree)
        parts, marks, slots, internal = self._array("parts"), self._array("marks"), region.came, region.nodes
        parts[slots] = self._parts_in(made, tree.positions[slots], arrays["changed_at"][slots])
        cut_nodes.raise_parts(links, internal, parts, NEW)
        marks[:] = 0
        marks[internal] = parts[internal] == ABOVE
        ends = cut_nodes.whole_nodes(links, marks)
        is_new = parts[ends] == NEW
        if len(ends):
            self._choose_levels(links, region, ends[~is_new])
        if is_new.any():
            cut_nodes.split_high(links, ends[is_new], arrays["scores"], arrays["counts"], self._array("levels"), marks)
            ends = cut_nodes.whole_nodes(links, marks)
            is_new = parts[ends] == NEW
        clusters = np.empty(len(ends), np.intp)
        clusters[~is_new] = made.clusters[parts[ends[~is_new]]]
        clusters[is_new] = len(made.clusters) + np.arange(is_new.sum())
        numbers = np.arange(len(ends))
        parts[:] = NEW
        identity.relabel(links, ends, numbers, ends, numbers, parts)
        self.next_part = len(ends)
        cut_nodes.exempt_others(links, ends, arrays, marks, self._local())
        assert self._dissolved is not None
        self._dissolved.begin()
        found, clusters = np.unique(clusters, return_inverse=True)
        self.drift = self.drift._replace(clusters=len(found), clusters_now=len(found))
        return ends, clusters

    def _parts_in(self, made: MadeCut, positions: Counts, changed_at: Counts) -> Labels:
        """Return the part of each point in a cut; NEW if it came or moved later. Count these from now on."""
        at = np.minimum(np.searchsorted(made.positions, positions), max(len(made.positions) - 1, 0))
        was_there = made.positions[at] == positions if len(made.positions) else np.zeros(len(at), np.bool_)
        is_known = was_there & (changed_at <= made.version)
        came, there = len(positions) - int(was_there.sum()), int(was_there.sum())
        self.drift = Drift(len(made.positions), came, len(made.positions) - there, there - int(is_known.sum()))
        self.made_at = made.version
        parts = np.full(len(positions), NEW, np.int64)
        parts[is_known] = made.parts[at[is_known]]
        return parts

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

    def _choose_levels(self, links: Links, whole: Region, ends: Slots) -> None:
        """Let each of these parts keep the resolution that it has now; other points take that around them."""
        arrays, local = self._follower.arrays, self._local()
        slots, numbers = leaves_of(links, ends)
        local.levels[whole.came] = np.nan
        local.levels[slots] = cut_nodes.choose_levels(links, ends, arrays)[numbers]
        cut_nodes.raise_levels(links, whole, arrays, local.levels)

    # Ids ----------------------------------------------------------------------------------------------------------

    def _move(
        self, tree: GrowingTree, ends: Slots, clusters: Slots | None, removed: tuple[Labels, Counts] | None = None
    ) -> Moved:
        """Give the clusters of these nodes their ids; return where their points were."""
        arrays, nothing = self._follower.arrays, np.empty(0, np.int64)
        if self._dissolved is not None and removed is not None and len(removed[1]):
            self._dissolved.remove(removed[1])
        pieces, ids, self.next_id = identity.settle(
            tree.links, arrays, self.owners, ends, clusters, self.next_id, self._dissolved
        )
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
            "made_at": self.made_at,
        }

    def dissolved_arrays(self) -> Arrays:
        """Return the clusters that can come back, as arrays under the names that a saved state gives them."""
        arrays = {} if self._dissolved is None else self._dissolved.to_arrays()
        return {f"{DISSOLVED}{self.number}.{name}": array for name, array in arrays.items()}

    @classmethod
    def from_state(cls, state: dict[str, Any], follower: Follower, dissolved: Arrays) -> TrackedCut:
        """Go on with a cut whose arrays the follower has."""
        how = Choice(**{name: state[name] for name in CUT_BY})
        cut = cls(state["name"], how, state["number"], follower)
        cut.next_id, cut.next_part, cut.drift = state["next_id"], state["next_part"], Drift(*state["drift"])
        cut.made_at, prefix = state["made_at"], f"{DISSOLVED}{cut.number}."
        own = {name.removeprefix(prefix): array for name, array in dissolved.items() if name.startswith(prefix)}
        if own:
            cut._dissolved = Dissolved.from_arrays(own)
        return cut


FORMAT = 3
# How the names of arrays with clusters that can come back begin; all others are by node.
DISSOLVED = "dissolved"
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
        self.made: dict[str, MadeCut] = {}
        """The automatic cuts that the last change made again, by name."""

    @property
    def names(self) -> list[str]:
        """The names of the cuts, in the order they were added."""
        return list(self._cuts)

    def __getitem__(self, name: str) -> TrackedCut:
        if name not in self._cuts:
            raise KeyError(f"there is no cut called {name!r}; there are {', '.join(map(repr, self._cuts)) or 'none'}")
        return self._cuts[name]

    def add(self, name: str, how: Choice, tree: GrowingTree | None, made: Mapping[str, MadeCut] | None = None) -> None:
        """Track one more cut; the work is that of making it, unless it is ``made``."""
        if name in self._cuts:
            raise ValueError(f"there is a cut called {name!r} already; drop it first, or choose another name")
        if tree is not None:
            self._check_current(tree)
        cut = TrackedCut(name, how, self._next_number, self._follower)
        cut.next_id = self._retired.pop(name, 0)
        self._next_number += 1
        self._cuts[name], self.made = cut, {}
        if tree is not None:
            if how.is_automatic and tree.n_leaves:
                self.made = {name: MadeCut.of(tree, how, self.version) if made is None else made[name]}
            cut.begin(tree, self.made.get(name))

    def drop(self, name: str) -> None:
        """Track a cut no longer. Should one of this name be added again, its ids go on from here."""
        self._retired[name] = self[name].next_id
        self._cuts.pop(name).leave()

    def commit(
        self,
        tree: GrowingTree | None,
        version: int,
        made: Mapping[str, MadeCut] | None = None,
        is_at_once: Callable[[int, int], bool] = lambda n_points, n_changing: True,
    ) -> list[Change]:
        """Follow the tree after a change; return the changes of the clusters of all cuts.

        ``made`` has the automatic cuts that are taken with it. If it is None, those are made that are due, if
        ``is_at_once`` says so of the number of points and of those that change now.
        """
        self.version, self.made = version, {}
        if tree is None:
            return []
        self._join(tree)
        region, arrays = self._follower.update(tree), self._follower.arrays
        if region.is_empty:
            return []
        arrays["scores"][region.nodes] = region.scores
        update_versions(tree.links, arrays, region, self.version)
        if made is None:
            n = region.n_came + region.n_left + region.n_updated
            due = [cut for cut in self._cuts.values() if cut.is_due(tree, n) and is_at_once(tree.n_leaves, n)]
            made = {cut.name: MadeCut.of(tree, cut.how, version) for cut in due}
        self.made = dict(made)
        cuts = self._cuts.values()
        return [change for cut in cuts for change in cut.update(tree, region, version, made.get(cut.name))]

    def due(self, tree: GrowingTree | None) -> list[str]:
        """Return the names of the automatic cuts that are to be made again."""
        return [] if tree is None else [name for name, cut in self._cuts.items() if cut.is_due(tree)]

    def make(self, names: Iterable[str], tree: GrowingTree) -> dict[str, MadeCut]:
        """Return automatic cuts of the tree as it is, which :meth:`recut` takes now or later."""
        self._check_current(tree)
        return {name: MadeCut.of(tree, self[name].how, self.version) for name in names}

    def still_new(self, tree: GrowingTree | None, made: Mapping[str, MadeCut]) -> dict[str, MadeCut]:
        """Return the cuts of those that are there, were not made since, and of a tree with half of the points now."""
        if tree is None or not made:  # at every commit: not a look at all points for nothing
            return {}
        since = self._follower.arrays["changed_at"][tree.slots()]
        return {
            name: cut
            for name, cut in made.items()
            if name in self._cuts
            and self._cuts[name].made_at < cut.version
            and 2 * int((since <= cut.version).sum()) >= len(since) > 0
        }

    def recut(self, tree: GrowingTree | None, version: int, made: Mapping[str, MadeCut]) -> list[Change]:
        """Take automatic cuts; other cuts are always up to date."""
        self.version, self.made = version, {}
        if tree is None:
            return []
        self._check_current(tree)
        self.made = dict(made)
        return [change for name, cut in made.items() for change in self[name].recut(tree, version, cut)]

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
        arrays = dict(self._follower.arrays) if self._follower.capacity else {}
        for cut in self._cuts.values():
            arrays |= cut.dissolved_arrays()
        return state, arrays

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: Arrays) -> Tracker:
        """Continue with these arrays, which are written to from now on; :meth:`attach` gives their tree."""
        if state["format"] != FORMAT:
            raise ValueError(f"this was saved in format {state['format']!r}; this version reads format {FORMAT}")
        by_node = {name: array for name, array in arrays.items() if not name.startswith(DISSOLVED)}
        tracker = cls(by_node or None)
        tracker.version, tracker._next_number = state["version"], state["next_number"]
        tracker._retired = dict(state["retired"])
        cuts = [TrackedCut.from_state(cut, tracker._follower, arrays) for cut in state["cuts"]]
        tracker._cuts = {cut.name: cut for cut in cuts}
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
            self.commit(tree, self.version)
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
