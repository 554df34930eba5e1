"""Clusters of a sharded store: cuts of the whole tree, followed from version to version so that ids stay."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from grinch import cuts
from grinch._checks import check_count
from grinch._types import Counts, Labels, Mask
from grinch.cuts.persistence import mean_gaps
from grinch.errors import unknown_name
from grinch.sharded.store.clusters import ClusterFile, Followed
from grinch.sharded.store.reading import Reading
from grinch.store import inputs
from grinch.store.changes import Change
from grinch.store.database import Id
from grinch.store.reading import ADVISED, DEFAULT_CUT
from grinch.tree import Tree

# Up to this many points the automatic cut compares all with all; beyond, it goes by the heights of the tree alone.
MOST_COMPARED = 50_000
# Up to this many points clusters are followed after each change; beyond, when they are asked for or it is closed.
FOLLOWED_AT_ONCE = 50_000


class Following(Reading):
    """What readers and writers of a sharded store can ask of its clusters, and what writers say about them."""

    # Asking -------------------------------------------------------------------------------------------------------

    def labels(
        self, cut: str = DEFAULT_CUT, *, n_clusters: int | None = None, threshold: float | None = None
    ) -> Labels:
        """The cluster id of each point, in the order of :attr:`ids`.

        With ``n_clusters`` or ``threshold``, the tree is cut just like that, and clusters are numbered from 0. To a
        reader, points that came since clusters were last followed are in the cluster they are beside in the tree.
        """
        with self._turn:
            self._now()
            cuts.check_cut(n_clusters, threshold)
            if n_clusters is not None or threshold is not None:
                tree = self.tree
                return cuts.labels_of(tree, cuts.splits(tree, n_clusters, threshold))
            return self._labels(self._followed(cut))

    def clusters(
        self, cut: str = DEFAULT_CUT, *, n_clusters: int | None = None, threshold: float | None = None
    ) -> dict[int, list[Id]]:
        """The ids of the points of each cluster, by cluster id (:meth:`grinch.store.Store.clusters`)."""
        with self._turn:
            labels, ids = self.labels(cut, n_clusters=n_clusters, threshold=threshold), self.ids
            found: dict[int, list[Id]] = {number: [] for number in np.unique(labels).tolist()}
            for number, name in zip(labels.tolist(), ids, strict=True):
                found[number].append(name)
            return found

    def predict(
        self, X: Any, cut: str = DEFAULT_CUT, *, n_clusters: int | None = None, threshold: float | None = None
    ) -> Labels:
        """The cluster in :meth:`labels` of the point that is nearest to each row of X; -1 for none."""
        with self._turn:
            places = self.place(X)
            labels = self.labels(cut, n_clusters=n_clusters, threshold=threshold)
            number = dict(zip(self.ids, labels.tolist(), strict=True))
            return np.array([-1 if p.nearest is None else number[p.nearest] for p in places], np.int64)

    @property
    def cut_names(self) -> list[str]:
        """The names of the cuts that are followed."""
        with self._turn:
            self._now()
            return list(self._cuts())

    def cuts(self) -> dict[str, dict[str, Any]]:
        """The cuts by name: how each is made, how many clusters it has, and how much changed since it was made.

        An automatic cut is carried: its clusters stay where most of their points are. Where it says
        ``is_recut_advised``, as many points came and went since as half of those there were.
        """
        with self._turn:
            self._now()
            found = {}
            for name in self._cuts():
                cut = self._followed(name)
                found[name] = {
                    "kind": "automatic" if cut.is_automatic else "n_clusters" if cut.threshold is None else "threshold",
                    "n_clusters": cut.n_clusters,
                    "threshold": cut.threshold,
                    "clusters": len(np.unique(self._labels(cut))),
                    "points_changed": cut.changed,
                    "is_recut_advised": cut.is_automatic and cut.changed >= ADVISED * max(cut.points, 1),
                }
            return found

    def names(self, cut: str = DEFAULT_CUT, *, gone: bool = False) -> dict[int, str]:
        """The names that were given to clusters, by cluster id; with ``gone``, of clusters that are no more, too."""
        with self._turn:
            there = set(np.unique(self.labels(cut)).tolist())
            found = ClusterFile(self.folder).names(cut)
            return {cluster: name for cluster, name in found.items() if gone or cluster in there}

    def changes(self, since: int = 0, cut: str | None = DEFAULT_CUT) -> list[Change]:
        """What happened to clusters after version ``since``, in order (:meth:`grinch.store.Store.changes`).

        Beyond 50,000 points clusters are followed when they are asked for: a change is then of the version at which
        they were.
        """
        with self._turn:
            self._now()
            check_count("since", since, 0)
            for name in self._cuts() if cut is None else [cut]:
                self._followed(name)
            found = ClusterFile(self.folder).changes(since, self.version, cut)
            return [self._with_ids(change) for change in found]

    # Saying -------------------------------------------------------------------------------------------------------

    def label(self, cluster: int, name: str | None, cut: str = DEFAULT_CUT) -> int:
        """Give a cluster a name that stays with its id (None: take it away); the version afterwards."""
        with self._turn:
            self._writable()
            if name is not None:
                name = inputs.check_text("name", name)
            size = 0 if isinstance(cluster, bool) else int((self.labels(cut) == cluster).sum())
            if not size or cluster < 0:
                raise ValueError(f"cluster must be the id of a cluster there is (see clusters()); got {cluster!r}")
            if ClusterFile(self.folder).names(cut).get(cluster) != name:
                version = self._make_version()
                ClusterFile(self.folder).rename(Change(version, cut, "renamed", int(cluster), (), size, 0), name)
            return self.version

    def add_cut(self, name: str, *, n_clusters: int | None = None, threshold: float | None = None) -> int:
        """Follow another cut of the tree from now on: into a number of clusters, at a threshold, or automatic."""
        with self._turn:
            self._writable()
            cuts.check_cut(n_clusters, threshold)
            n_clusters, threshold = inputs.plain_cut(n_clusters, threshold)
            name, file = inputs.check_text("name", name), ClusterFile(self.folder)
            if name in self._cuts():
                raise ValueError(f"name must be a text that no cut is called by yet; got {name!r}")
            self._follow()
            self._make_version()
            new = Followed(name, n_clusters, threshold, file.next_id(name))
            found, _ = self._gone_on(new, self.tree, self._numbers())
            file.keep([found], [])
            self._follow()
            return self.version

    def drop_cut(self, name: str) -> int:
        """Follow a cut no longer, and forget the names of its clusters; what happened to them stays known."""
        with self._turn:
            self._writable()
            if name == DEFAULT_CUT:
                raise ValueError(f"name must be that of another cut than {DEFAULT_CUT!r}, which every store has")
            ClusterFile(self.folder).drop(self._followed(name))
            self._make_version()
            self._follow()
            return self.version

    def recut(self, cut: str = DEFAULT_CUT) -> int:
        """Let an automatic cut choose its clusters again; those that are still the same keep their ids."""
        with self._turn:
            self._writable()
            before = self._followed(cut)
            if before.is_automatic and self.n_points:
                self._make_version()
                after, changes = self._gone_on(before, self.tree, self._numbers(), is_recut=True)
                ClusterFile(self.folder).keep([after], changes)
                self._follow()
            return self.version

    # Following ----------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Bring all cuts to where the tree is, and write them down; for the writer."""
        behind = [cut for cut in self._cuts().values() if cut.version < self.version]
        if behind:
            tree, numbers = self.tree, self._numbers()
            found = [self._gone_on(cut, tree, numbers) for cut in behind]
            ClusterFile(self.folder).keep([cut for cut, _ in found], [one for _, some in found for one in some])

    def _follow_if_small(self) -> None:
        if self.n_points <= FOLLOWED_AT_ONCE:
            # The change itself is made: without room on disk, clusters are followed later.
            with suppress(OSError):
                self._follow()

    def _followed(self, name: str) -> Followed:
        """A cut, as it is now if this is the writer; for a reader, as it was last followed."""
        known = self._cuts()
        if name not in known:
            raise unknown_name("cut", name, tuple(known))
        if not self.is_readonly:
            self._follow()
            return self._cuts()[name]
        cut = known[name]
        return cut if len(cut.labels) or cut.version else self._gone_on(cut, self.tree, self._numbers())[0]

    def _cuts(self) -> dict[str, Followed]:
        found = ClusterFile(self.folder).cuts()
        default = Followed(DEFAULT_CUT, self._manifest.n_clusters, self._manifest.threshold)
        return found if DEFAULT_CUT in found else {DEFAULT_CUT: default, **found}

    def _labels(self, cut: Followed) -> Labels:
        """By leaf, also of points that came since."""
        labels = cut.labels_at(self._numbers())
        if (labels >= 0).all() or not (labels >= 0).any():
            return labels
        tree = self.tree
        order = tree.preorder()
        beside = order[order < tree.n_leaves]
        known = np.flatnonzero(labels[beside] >= 0)
        at = np.maximum(np.searchsorted(known, np.arange(len(beside)), side="right") - 1, 0)
        labels[beside] = labels[beside][known[at]]
        return labels

    def _gone_on(
        self, cut: Followed, tree: Tree, numbers: Counts, is_recut: bool = False
    ) -> tuple[Followed, list[Change]]:
        return cut.gone_on(tree, numbers, self.version, lambda: self._automatic(tree), is_recut)

    def _automatic(self, tree: Tree) -> Mask:
        if tree.n_leaves < 3 or tree.n_leaves > MOST_COMPARED:
            return cuts.automatic_cut(tree, None, tree.heights()).is_split
        parts = [branch.rows(branch.positions()) for branch in self._now() if branch.n_points]
        rows = np.concatenate(parts)[self._by_arrival()]
        metric = "sqeuclidean" if self._linkage.leaf_metric == "sqeuclidean" else "cosine"
        graph, gaps = cuts.neighbor_graph(rows, metric), mean_gaps(tree, rows, metric)
        return cuts.automatic_cut(tree, graph, gaps).is_split

    def _numbers(self) -> Counts:
        """By leaf, the number in which the point came."""
        return np.sort(np.concatenate([branch.numbers() for branch in self._now()]))

    def _with_ids(self, change: Change) -> Change:
        """A change whose exemplars are ids, of points that are still there."""
        at = {number: (branch, place) for branch in self._now() for number, place in _places(branch, change.exemplars)}
        there = [at[number] for number in change.exemplars if number in at]
        ids = [branch.store._db.ids_at([place])[0] for branch, place in there]
        about = change.version, change.cut, change.kind, change.cluster, change.others, change.size, change.count
        return Change(*about, tuple(name for name in ids if name is not None))

    def _make_version(self) -> int:
        """A version in which no point changes."""
        self._versions.add_empty()
        return self.version


def _places(branch: Any, numbers: tuple[Any, ...]) -> list[tuple[int, int]]:
    """Which of some points are in a branch, and at which positions."""
    positions = branch.positions()
    there = branch.order[positions]
    found = np.flatnonzero(np.isin(there, np.array(numbers, np.int64)))
    return [(int(there[i]), int(positions[i])) for i in found.tolist()]
