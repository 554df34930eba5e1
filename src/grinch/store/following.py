"""Named cuts of one model, followed from version to version: clusters with ids that stay, and what changed.

>>> from grinch import Grinch
>>> model, followed = Grinch().fit([[1, 0], [0, 9], [2, 0.1], [0.1, 8]]), Followed()
>>> followed.add("two", n_clusters=2, model=model)
>>> followed.labels("two", model).tolist()
[0, 1, 0, 1]
>>> for change in followed.commit(model.partial_fit([[0, 7], [0.2, 10]]), version=1):
...     print(change.kind, change.cluster, change.size, change.exemplars)
grew 1 4 (4, 5)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.metrics import adjusted_rand_score

from grinch import cuts
from grinch._types import Counts, Labels, Slots, count_rows
from grinch.core.engine import Engine
from grinch.cuts.choice import Choice
from grinch.estimators.automatic import rows_of
from grinch.estimators.fit import Fit
from grinch.estimators.grinch import Grinch
from grinch.store.changes import NOWHERE, Change, Parts, find_changes
from grinch.store.identity import NO_CLUSTER, match
from grinch.tree import follow_cut
from grinch.tree.ends import NEVER, Splits
from grinch.tree.follow import Follower, Region
from grinch.tree.follow_cut import ABOVE, NEW, Local, Pieces

# The automatic cut of fewer points than this says little: it is made again each time they have doubled.
FEW = 256
# How many points a change shows.
FEW_POINTS = 3
# Format 1 knew neither cut nor layer.
FORMAT, FORMATS = 2, (1, 2)
# What says how a cut is made.
CUT_BY = ("n_clusters", "threshold", "cut", "layer")


class Drift(NamedTuple):
    """How far a followed cut is from its last recut, which is free to ask.

    ``points``: how many points there were then; ``came`` and ``left``: how many came and left since; ``born`` and
    ``ended``: how many clusters were made and ended since. What a recut would give is not known without making one
    (:meth:`Followed.would_recut`).
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


class Recut(NamedTuple):
    """What a recut would give: how many clusters instead of how many now, and the ARI of the two."""

    n_clusters: int
    n_clusters_now: int
    agreement: float


class Subject(NamedTuple):
    """A model and who follows it."""

    model: Grinch
    fitted: Fit
    engine: Engine
    follower: Follower


class ClusterIds:
    """One named cut, and the ids of its clusters.

    Parameters
    ----------
    name : str
        What it is called.
    how : Choice
        How to cut, as :class:`grinch.Grinch` does.

    A cluster of an automatic cut may have several parts, each of which is a node: small groups join clusters when the
    cut is made. As the tree changes, parts stay in their cluster, and a new part is a cluster of its own.
    """

    def __init__(self, name: str, how: Choice):
        self.name, self.how = name, how
        self.number = 0
        """By which its arrays are called."""
        self.next_id = self.next_part = 0
        self.drift = Drift(0, 0, 0, 0, 0)

    @property
    def is_automatic(self) -> bool:
        return self.how.is_automatic

    @property
    def parameters(self) -> dict[str, Any]:
        """How it is made, as it is written."""
        return {name: getattr(self.how, name) for name in CUT_BY}

    @property
    def is_sizeable(self) -> bool:
        return self.how.n_clusters is not None and self.how.cut == "sizeable"

    def array(self, subject: Subject, name: str) -> npt.NDArray[Any]:
        return subject.follower.arrays[self.called(name)]

    def called(self, name: str) -> str:
        return f"cut{self.number}.{name}"

    def kept(self) -> dict[str, Any]:
        """The names and types of the arrays by node that it keeps."""
        if self.is_sizeable:
            return {"owners": np.int64, "lows": np.float64, "keys": np.float64, "best": np.float64}
        if self.how.n_clusters is not None:
            return {"owners": np.int64, "keys": np.float64}
        if self.how.threshold is not None:
            return {"owners": np.int64, "marks": np.uint8}
        return {"owners": np.int64, "parts": np.int64, "marks": np.uint8, "levels": np.float64, "exempt": np.uint8}

    @property
    def noted(self) -> list[str]:
        """Which of its arrays have ids of what points are in; the last one is by the nodes of the cut."""
        return ["owners", "parts"] if self.is_automatic else ["owners"]

    # Cutting ------------------------------------------------------------------------------------------------------

    def begin(self, subject: Subject) -> None:
        """Cut the whole tree, in which no point has a cluster yet, and give ids."""
        follower = subject.follower
        self.array(subject, "owners")[:] = NEW
        nodes = follower.all_nodes(subject.engine.links)
        slots, none = subject.engine.slots(), np.empty(0, np.int64)
        region = Region(nodes, follower.arrays["oldest"][nodes], slots, np.full(len(slots), -1), none, {})
        self._follow_new(subject, slots)
        ends, clusters = self._recut(subject) if self.is_automatic else self._ends(subject, region)
        self._settle(subject, ends, clusters)
        if self.is_automatic:
            self._choose_levels(subject, ends)

    def update(self, subject: Subject, region: Region, version: int) -> list[Change]:
        """Follow the tree to where it is."""
        links, n = subject.engine.links, subject.engine.n_leaves
        owners, was = self.array(subject, "owners"), region.left_by[self.called("owners")]
        is_again, was_above = region.came_from >= 0, np.zeros(len(owners), np.uint8)
        for name in self.noted:
            array, before = self.array(subject, name), region.left_by[self.called(name)]
            array[region.came] = NEW
            array[region.came[is_again]] = before[region.came_from[is_again]]
            was_above[region.nodes] = array[region.nodes] == ABOVE
            follow_cut.raise_owners(links, region.nodes, array)
        self._follow_new(subject, region.came)
        is_removed = np.ones(len(was), np.bool_)
        is_removed[region.came_from[is_again]] = False
        removed = was[is_removed], region.left[is_removed]
        # Without a point that was there before there is no resolution to keep.
        is_other = len(region.came) == n
        is_small = self.drift.points < FEW and n >= 2 * self.drift.points
        if self.is_automatic and n and (is_other or is_small):
            ends, joined = self._recut(subject)
            changes, _, _ = self._tell(subject, ends, joined, version, removed)
            self._choose_levels(subject, ends)
            return changes
        clusters: Slots | None
        ends, clusters = self._ends(subject, region)
        if clusters is None:
            by_end = self.array(subject, self.noted[-1])
            ends = follow_cut.without_same(links, ends, subject.follower, by_end, was_above)
            if self.is_automatic:
                ends, clusters = self._follow_parts(subject, ends, removed[0])
        else:
            ends, clusters = follow_cut.without_same_clusters(links, ends, clusters, owners, removed[0])
        changes, born, ended = self._tell(subject, ends, clusters, version, removed)
        came, left, since = len(region.came) - int(is_again.sum()), len(removed[0]), self.drift
        self.drift = Drift(since.points, since.came + came, since.left + left, since.born + born, since.ended + ended)
        return changes

    def recut(self, subject: Subject, version: int) -> list[Change]:
        """Make the automatic cut again; other cuts are always as if they had just been made."""
        if not self.is_automatic:
            return []
        (ends, clusters), owners, nothing = self._recut(subject), self.array(subject, "owners"), np.empty(0, np.int64)
        changed = follow_cut.without_same_clusters(subject.engine.links, ends, clusters, owners, nothing)
        changes, _, _ = self._tell(subject, *changed, version, (nothing, nothing))
        self._choose_levels(subject, ends)
        return changes

    def _follow_new(self, subject: Subject, slots: Slots) -> None:
        if self.is_sizeable:
            splits = self._splits(subject)
            splits.lows[slots], splits.keys[slots], splits.best[slots] = -np.inf, NEVER, NEVER
        elif self.how.n_clusters is not None:
            self.array(subject, "keys")[slots] = -np.inf
        if self.is_automatic:
            self.array(subject, "levels")[slots] = np.nan

    def _ends(self, subject: Subject, region: Region) -> tuple[Slots, Slots | None]:
        """Return the nodes that are whole in the cut, and the number of the cluster of each where several are one.

        Where each is a cluster, only those that are in the region or at its edge.
        """
        links, follower = subject.engine.links, subject.follower
        if self.how.n_clusters is not None:
            ceiling = getattr(subject.engine.linkage, "ceiling", None)
            if self.is_sizeable:
                splits = self._splits(subject)
                return follow_cut.cut_sizeable(links, region.nodes, follower, splits, ceiling, self.how.n_clusters)
            highest, keys = np.inf if ceiling is None else float(ceiling), self.array(subject, "keys")
            return follow_cut.cut_into(links, region.nodes, follower, keys, highest, self.how.n_clusters), None
        marks, owners = self.array(subject, "marks"), self.array(subject, self.noted[-1])
        if self.how.threshold is not None:
            threshold = float(self.how.threshold)
            return follow_cut.cut_by_height(links, region, follower, marks, owners, threshold), None
        local = self._local(subject)
        follow_cut.raise_levels(links, region.nodes, follower, local)
        return follow_cut.cut_by_height(links, region, follower, marks, owners, 0.0, local), None

    def _splits(self, subject: Subject) -> Splits:
        lows, keys, best = (self.array(subject, name) for name in ("lows", "keys", "best"))
        return Splits(lows, subject.follower.arrays["counts"], keys, best)

    def _local(self, subject: Subject) -> Local:
        # Only where it is written to does memory cost anything.
        below = np.zeros(2 * subject.follower.capacity, np.uint8)
        return Local(self.array(subject, "levels"), self.array(subject, "exempt"), below)

    def _recut(self, subject: Subject) -> tuple[Slots, Slots]:
        """Mark the nodes of the automatic cut of the model; returns its parts, numbered from 0, and their clusters."""
        engine, fitted = subject.engine, subject.fitted
        if engine.n_leaves == 0:
            return np.empty(0, np.intp), np.empty(0, np.intp)
        is_split, labels = automatic_labels(subject, self.how)
        numbers = engine.numbered(np.arange(2 * subject.follower.capacity, dtype=np.int32))
        ends = follow_cut.from_whole(engine.links, is_split, numbers, self.array(subject, "marks"))
        parts, some = self.array(subject, "parts"), np.arange(len(ends))
        parts[:] = NEW
        follow_cut.relabel(engine.links, ends, some, ends, some, parts)
        self.next_part = len(ends)
        subtrees, of_subtrees = fitted.tree().number_subtrees(is_split), np.empty(len(ends), np.int64)
        of_subtrees[subtrees[: engine.n_leaves]] = labels
        return ends, of_subtrees[subtrees[fitted.public_ids(numbers[ends])]].astype(np.intp)

    def _follow_parts(self, subject: Subject, changed: Slots, lost: Labels) -> tuple[Slots, Slots]:
        """Give parts that may have changed their ids; returns the parts of all clusters that have, and these clusters.

        ``lost`` are clusters that points were removed from.
        """
        parts, owners = self.array(subject, "parts"), self.array(subject, "owners")
        pieces, ids, self.next_part = settle(subject, parts, changed, None, self.next_part)
        others = follow_cut.other_ends(subject.engine.links, self.array(subject, "marks"), changed)
        others = others[np.isin(owners[others], np.unique(np.append(owners[pieces.nodes], lost)))]
        # Numbers below 0 are for new parts.
        clusters = np.concatenate([-1 - np.arange(len(changed)), owners[others]])
        stays = np.flatnonzero(pieces.owners == ids[pieces.ends])
        clusters[pieces.ends[stays]] = owners[pieces.nodes[stays]]
        return np.concatenate([changed, others]), np.unique(clusters, return_inverse=True)[1]

    def _choose_levels(self, subject: Subject, ends: Slots) -> None:
        """Let each part keep the resolution that it has now."""
        links, follower, slots = subject.engine.links, subject.follower, subject.engine.slots()
        self.drift = Drift(len(slots), 0, 0, 0, 0)
        if not len(slots):
            return
        local = self._local(subject)
        local.levels[slots] = follow_cut.choose_levels(links, ends, follower)[self.array(subject, "parts")[slots]]
        follow_cut.raise_levels(links, follower.all_nodes(links), follower, local)
        follow_cut.exempt_others(links, ends, follower, self.array(subject, "marks"), local)

    # Ids ----------------------------------------------------------------------------------------------------------

    def _tell(
        self, subject: Subject, ends: Slots, clusters: Slots | None, version: int, removed: tuple[Labels, Counts]
    ) -> tuple[list[Change], int, int]:
        """Give the clusters their ids; returns what changed, and how many clusters were born and ended."""
        pieces, ids = self._settle(subject, ends, clusters)
        counts = subject.follower.arrays["counts"][pieces.nodes].astype(np.int64)
        old = np.where(pieces.owners == NEW, NOWHERE, pieces.owners)
        told = Told(subject, old, ids[pieces.ends], counts, pieces.nodes, *removed)
        changes = list(told.changes(version, self.name))
        kinds = [change.kind for change in changes]
        return changes, kinds.count("born"), kinds.count("dissolved")

    def _settle(self, subject: Subject, ends: Slots, clusters: Slots | None) -> tuple[Pieces, Labels]:
        pieces, ids, self.next_id = settle(subject, self.array(subject, "owners"), ends, clusters, self.next_id)
        return pieces, ids

    # Saving -------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **self.parameters,
            "number": self.number,
            "next_id": self.next_id,
            "next_part": self.next_part,
            "drift": list(self.drift),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ClusterIds:
        cut = cls(state["name"], Choice(**how_of(state)))
        cut.number, cut.next_id, cut.drift = state["number"], state["next_id"], Drift(*state["drift"])
        cut.next_part = state.get("next_part", cut.next_id)
        return cut


def settle(
    subject: Subject, owners: Labels, ends: Slots, clusters: Slots | None, next_id: int
) -> tuple[Pieces, Labels, int]:
    """Give the clusters of these nodes their ids; returns where their points were, the ids by node, and the next id.

    Without ``clusters``, the number of the cluster of each node, each is one.
    """
    links, arrays = subject.engine.links, subject.follower.arrays
    if not len(ends):
        nothing = np.empty(0, np.intp)
        return Pieces(nothing, nothing, np.empty(0, np.int64)), np.empty(0, np.int64), next_id
    clusters = np.arange(len(ends)) if clusters is None else clusters
    pieces, oldest = follow_cut.pieces_of(links, ends, owners), np.full(clusters.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(oldest, clusters, arrays["oldest"][ends])
    is_known = pieces.owners >= 0
    counts = arrays["counts"][pieces.nodes[is_known]].astype(np.int64)
    old, new, counts = _summed(pieces.owners[is_known], clusters[pieces.ends[is_known]], counts)
    ids = match(old, new, counts, oldest)
    fresh = np.flatnonzero(ids == NO_CLUSTER)
    ids[fresh[np.argsort(oldest[fresh])]] = next_id + np.arange(len(fresh))
    follow_cut.relabel(links, ends, ids[clusters], pieces.nodes, pieces.ends, owners)
    return pieces, ids[clusters], next_id + len(fresh)


class Told(NamedTuple):
    """Pieces of clusters, of all that changed, and points that were removed from some."""

    subject: Subject
    old: Labels
    new: Labels
    counts: Counts
    nodes: Slots
    removed_from: Labels
    removed: Counts

    def changes(self, version: int, name: str) -> Iterator[Change]:
        """What changed, with a few points for each."""
        if not len(self.old) and not len(self.removed):
            return
        links, follower = self.subject.engine.links, self.subject.follower
        # The pieces of each pair of clusters, those with the oldest points first.
        order = np.lexsort((follower.arrays["oldest"][self.nodes], self.new, self.old))
        old, new, nodes = self.old[order], self.new[order], self.nodes[order]
        starts = _starts(old, new)
        totals = np.add.reduceat(self.counts[order], starts) if len(starts) else self.counts
        clusters, n_removed = np.unique(self.removed_from, return_counts=True)
        removed = dict(zip(clusters.tolist(), n_removed.tolist(), strict=True))
        found = find_changes(Parts(old[starts], new[starts], totals, removed))
        few = [nodes[i : min(i + FEW_POINTS, j)].tolist() for i, j in pairwise([*starts.tolist(), len(old)])]
        groups = [few[change.parts[0]] if len(change.parts) == 1 else _all_of(few, change.parts) for change in found]
        oldest = follow_cut.oldest_under(links, follower, groups, FEW_POINTS)
        for change, exemplars in zip(found, oldest, strict=True):
            if change.removed:
                gone = np.sort(self.removed[self.removed_from == change.cluster])[:FEW_POINTS]
                exemplars = sorted([*exemplars, *gone.tolist()])[:FEW_POINTS]
            kind, cluster, others, size, count = change[:5]
            yield Change(version, name, kind, cluster, others, size, count, tuple(exemplars))


def _all_of(few: list[list[int]], parts: tuple[int, ...]) -> list[int]:
    return [node for part in parts for node in few[part]]


def _starts(old: Labels, new: Labels) -> Slots:
    """Where each pair of clusters begins, of pairs in order."""
    return np.flatnonzero(np.append(len(old) > 0, (old[1:] != old[:-1]) | (new[1:] != new[:-1]))[: len(old)])


def _summed(old: Labels, new: Slots, counts: Counts) -> tuple[Labels, Slots, Counts]:
    """Each pair of an old and a new cluster once, with the sum of its counts."""
    if not len(old):
        return old, new, counts
    order = np.lexsort((new, old))
    old, new = old[order], new[order]
    starts = _starts(old, new)
    return old[starts], new[starts], np.add.reduceat(counts[order], starts)


def how_of(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a cut is made from what was written of it; earlier releases cut by height, and wrote no layer."""
    known = {"cut": "height", "layer": "auto", **written}
    return {name: known[name] for name in CUT_BY}


def automatic_labels(subject: Subject, how: Choice) -> tuple[npt.NDArray[np.bool_], Labels]:
    """Return where the automatic cut goes through the model's tree, by node, and the cluster of each point.

    Where there are fewer layers than ``how`` asks for, it is the coarsest.
    """
    found, tree = subject.model._automatic(subject.fitted), subject.fitted.tree()
    layer = how.layer_of(found, rows_of(subject.fitted), or_coarsest=True)
    labels = cuts.labels_of(tree, layer.is_split, layer.becomes)
    # Clusters of a layer are made of those of a finer one; what is whole in the layer itself stays whole if it can.
    values = np.full(tree.n_ids, -np.inf)
    values[: tree.n_leaves] = labels
    highest = tree.max_upward(values)
    values[: tree.n_leaves] = -labels
    is_mixed = highest != -tree.max_upward(values)
    assert layer.as_found is not None
    return layer.as_found | (layer.is_split & is_mixed), labels


class Followed:
    """All named cuts of one model, from version to version.

    The model's points have no names: positions say who is who. After every change of the model :meth:`commit` has to
    be called before anything else is asked. ``state`` and ``from_state`` are for what outlives the process; a
    ``Followed`` that goes on from a state gives the same ids as one that was never interrupted.
    """

    def __init__(self) -> None:
        self.version = 0
        self._cuts: dict[str, ClusterIds] = {}
        self._follower: Follower | None = None
        self._next_number = 0
        # Of cuts that were dropped, the next id: it is not given again if a cut of this name comes back.
        self._retired: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        """The names of the cuts, in the order they were added."""
        return list(self._cuts)

    def __getitem__(self, name: str) -> ClusterIds:
        return self._cuts[self._known(name)]

    def add(self, name: str, *, model: Grinch, **how: Any) -> None:
        """Follow one more cut, made as a :class:`grinch.cuts.Choice` of these says; the work is that of a cut."""
        if name in self._cuts:
            raise ValueError(f"there is a cut called {name!r} already; drop it first, or choose another name")
        cut = ClusterIds(name, Choice(**how))
        cut.number, cut.next_id = self._next_number, self._retired.pop(name, 0)
        self._next_number += 1
        subject = self._subject(model)
        self._cuts[name] = cut
        if subject is not None:
            self._keep(cut, subject.follower)
            cut.begin(subject)

    def drop(self, name: str) -> None:
        """Follow a cut no longer. Should one of this name be added again, its ids go on from here."""
        cut = self._cuts.pop(self._known(name))
        self._retired[name] = cut.next_id
        if self._follower is not None:
            for array in cut.noted:
                self._follower.noted.remove(cut.called(array))
            for array in cut.kept():
                self._follower.drop(cut.called(array))

    def commit(self, model: Grinch, version: int) -> list[Change]:
        """Follow the model to where it is after a change; returns what happened to the clusters of all cuts."""
        self.version = version
        subject = self._subject(model, is_changed=True)
        if subject is None:
            return []
        engine, follower, positions = subject.engine, subject.follower, subject.fitted.ids.positions
        region = follower.update(engine.links, positions, engine.sibling_scores, version)
        engine.links = follower.go_on(engine.links)
        if region.is_empty:
            return []
        return [change for cut in self._cuts.values() for change in cut.update(subject, region, version)]

    def recut(self, name: str, model: Grinch, version: int) -> list[Change]:
        """Make the automatic cut again, at the resolution that suits best now; other cuts are always up to date."""
        cut, subject = self._cuts[self._known(name)], self._subject(model)
        self.version = version
        return [] if subject is None else cut.recut(subject, version)

    def would_recut(self, name: str, model: Grinch) -> Recut:
        """What a recut would give, and how it agrees with the clusters there are. It costs what a recut costs."""
        cut, subject = self._cuts[self._known(name)], self._subject(model)
        now = self.labels(name, model)
        count = len(np.unique(now))
        if subject is None or not cut.is_automatic:
            return Recut(count, count, 1.0)
        _, labels = automatic_labels(subject, cut.how)
        return Recut(int(labels.max(initial=-1)) + 1, count, float(adjusted_rand_score(now, labels)))

    def drift(self, name: str) -> Drift:
        """How far the cut is from its last recut; free to ask."""
        return self._cuts[self._known(name)].drift

    # What there is ------------------------------------------------------------------------------------------------

    def labels(self, name: str, model: Grinch) -> Labels:
        """The ids of the clusters, by leaf of ``model.tree_``."""
        cut, subject = self._cuts[self._known(name)], self._subject(model)
        if subject is None:
            return np.empty(0, np.int64)
        owners: Labels = cut.array(subject, "owners")
        return owners[subject.fitted.ids.sorted(subject.engine.slots())]

    def members(self, name: str, model: Grinch) -> dict[int, Counts]:
        """By the id of a cluster, the positions of its points in ascending order."""
        subject = self._subject(model)
        if subject is None:
            return {}
        labels = self.labels(name, model)
        positions = np.sort(subject.fitted.ids.positions[subject.engine.slots()])
        order = np.argsort(labels, kind="stable")
        ids, starts = np.unique(labels[order], return_index=True)
        parts = np.split(positions[order], starts[1:])
        return dict(zip(ids.tolist(), parts, strict=False))

    def cluster_of_places(self, name: str, model: Grinch, X: Any) -> Labels:
        """The clusters that points would join, as ``predict`` finds them, by their ids; -1 for none."""
        cut, subject = self._cuts[self._known(name)], self._subject(model)
        if subject is None:
            return np.full(count_rows(X), NO_CLUSTER, np.int64)
        rows = model._validate(X, reset=False).rows
        if subject.engine.n_leaves == 0:
            return np.full(count_rows(rows), NO_CLUSTER, np.int64)
        places, owners = subject.engine.place(rows), cut.array(subject, "owners")
        found = owners[places.sibling]
        if cut.how.threshold is None:
            nearest = np.where(places.nearest < 0, NO_CLUSTER, owners[places.nearest])
            return np.where(found < 0, nearest, found)
        above = follow_cut.owners_above(subject.engine.links, places.sibling, owners)
        is_refused = (above == ABOVE) & (places.score < cut.how.threshold)
        return np.where((found < 0) | is_refused, NO_CLUSTER, found)

    def touched(self, model: Grinch, since: int) -> Counts:
        """The nodes of ``model.tree_`` whose points changed after a version, and the leaves that came since."""
        subject = self._subject(model)
        if subject is None:
            return np.empty(0, np.int64)
        engine = subject.engine
        nodes = subject.follower.touched(engine.links, since)
        return np.sort(subject.fitted.public_ids(engine.numbered(nodes.astype(np.int32))))

    # Saving -------------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """What is known, as something that JSON can hold and arrays, which are those in use and no copies."""
        state = {
            "format": FORMAT,
            "version": self.version,
            "next_number": self._next_number,
            "retired": dict(self._retired),
            "cuts": [cut.state() for cut in self._cuts.values()],
        }
        return state, {} if self._follower is None else dict(self._follower.arrays)

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Followed:
        """The other way round. The arrays are written to from now on; :meth:`attach` says which model they are of."""
        if state["format"] not in FORMATS:
            raise ValueError(f"this was saved in format {state['format']!r}; this version reads formats {FORMATS}")
        followed = cls()
        followed.version, followed._next_number = state["version"], state["next_number"]
        followed._retired = dict(state["retired"])
        followed._cuts = {cut["name"]: ClusterIds.from_state(cut) for cut in state["cuts"]}
        if arrays:
            followed._follower = Follower.of(dict(arrays))
            for cut in followed._cuts.values():
                followed._follower.noted += map(cut.called, cut.noted)
                if cut.called(cut.noted[-1]) not in arrays:  # format 1: each part is a cluster
                    followed._follower.arrays[cut.called("parts")] = arrays[cut.called("owners")].copy()
        return followed

    def attach(self, model: Grinch) -> None:
        """Go on with this model, which has to be as it was at the last commit."""
        if self._follower is None:
            return
        engine = model._engine()
        if len(engine.links.table) != 2 * self._follower.capacity:
            raise ValueError("this model is not the one that was followed: it has room for another number of points")
        engine.own_arrays()
        engine.follower = self._follower
        engine.links = self._follower.go_on(engine.links)

    # Within -------------------------------------------------------------------------------------------------------

    def _known(self, name: str) -> str:
        if name not in self._cuts:
            raise KeyError(f"there is no cut called {name!r}; there are {', '.join(map(repr, self._cuts)) or 'none'}")
        return name

    def _keep(self, cut: ClusterIds, follower: Follower) -> None:
        follower.noted += map(cut.called, cut.noted)
        for name, dtype in cut.kept().items():
            follower.add(cut.called(name), dtype)

    def _subject(self, model: Grinch, is_changed: bool = False) -> Subject | None:
        """The model and who follows it, from now on if nobody did; None for a model that has never had points."""
        if not model.__sklearn_is_fitted__():
            return None
        fitted, engine = model._check_fitted(), model._engine()
        if self._follower is None:
            self._start(fitted, engine, is_changed)
        follower = self._follower
        assert follower is not None
        if engine.follower is not follower:
            raise RuntimeError("this model is not the one that is followed; attach says to go on with another copy")
        if not is_changed and not follower.is_up_to_date(engine.links):
            raise RuntimeError("the model has changed since the last commit; call commit first")
        return Subject(model, fitted, engine, follower)

    def _start(self, fitted: Fit, engine: Engine, is_changed: bool) -> None:
        """Follow a model for the first time: cuts that were added before it had points find all of them new."""
        if self._cuts and not is_changed:
            raise RuntimeError("the model has got its first points since the last commit; call commit first")
        engine.own_arrays()
        self._follower = follower = Follower(engine.summaries.capacity)
        for cut in self._cuts.values():
            self._keep(cut, follower)
        engine.follower = follower
        engine.links = follower.follow(engine.links)
        if not is_changed:
            follower.update(engine.links, fitted.ids.positions, engine.sibling_scores, self.version)
            engine.links = follower.go_on(engine.links)
