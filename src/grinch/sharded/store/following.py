"""Clusters of a sharded store: cuts of the whole tree, followed from version to version so that ids stay."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from grinch import cuts
from grinch._checks import check_count
from grinch._types import Counts, Labels
from grinch.cuts import AutomaticCut
from grinch.cuts.persistence import mean_gaps
from grinch.cuts.tracking import Change
from grinch.errors import unknown_name
from grinch.sharded.files import joined
from grinch.sharded.store.carrying import carried_splits
from grinch.sharded.store.clusters import ClusterFile, Followed
from grinch.sharded.store.reading import Reading
from grinch.store import inputs
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
                tree = self.bare_tree
                return cuts.labels_of(tree, cuts.splits(tree, n_clusters, threshold))
            return self._labels(self._followed(cut)).copy()

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
            leaves = self._leaves().at(self._nearest(X))
            if n_clusters is None and threshold is None:
                labels = self._labels(self._followed(cut))
            else:
                labels = self.labels(n_clusters=n_clusters, threshold=threshold)
            return np.where(leaves < 0, -1, labels[np.maximum(leaves, 0)])

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
            return {
                name: {
                    "kind": "automatic" if cut.is_automatic else "n_clusters" if cut.threshold is None else "threshold",
                    "n_clusters": cut.n_clusters,
                    "threshold": cut.threshold,
                    "clusters": len(np.unique(self._labels(cut))),
                    "points_changed": cut.changed,
                    "is_recut_advised": _is_recut_advised(cut),
                }
                for name, cut in self._all_followed().items()
            }

    def info(self) -> dict[str, Any]:
        """What the store is and holds, in numbers: also its cuts, bytes on disk, and who is writing."""
        with self._turn:
            return {**super().info(), "cuts": self.cuts()}

    def names(self, cut: str = DEFAULT_CUT, *, gone: bool = False) -> dict[int, str]:
        """The names that were given to clusters, by cluster id; with ``gone``, of clusters that are no more, too."""
        with self._turn:
            there = set(np.unique(self.labels(cut)).tolist())
            found = self._file.names(cut)
            return {cluster: name for cluster, name in found.items() if gone or cluster in there}

    def changes(self, since: int = 0, cut: str | None = DEFAULT_CUT) -> list[Change]:
        """What happened to clusters after version ``since``, in order (:meth:`grinch.store.Store.changes`).

        Beyond 50,000 points clusters are followed when they are asked for: a change is then of the version at which
        they were.
        """
        with self._turn:
            self._now()
            check_count("since", since, 0)
            self._all_followed() if cut is None else self._followed(cut)
            found = self._file.changes(since, self.version, cut)
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
            if self._file.names(cut).get(cluster) != name:
                version = self._make_version()
                self._file.rename(Change(version, cut, "renamed", int(cluster), (), size, 0), name)
            return self.version

    def add_cut(
        self,
        name: str,
        *,
        n_clusters: int | None = None,
        threshold: float | None = None,
        cut: str = "height",
        layer: str | int = "auto",
    ) -> int:
        """Follow another cut of the tree from now on: into a number of clusters, at a threshold, or automatic."""
        with self._turn:
            self._writable()
            if (cut, layer) != ("height", "auto"):
                raise ValueError(f"a sharded store takes neither cut nor layer; got cut={cut!r}, layer={layer!r}")
            cuts.check_cut(n_clusters, threshold)
            n_clusters, threshold = inputs.plain_cut(n_clusters, threshold)
            name, file = inputs.check_text("name", name), self._file
            if name in self._cuts():
                raise ValueError(f"name must be a text that no cut is called by yet; got {name!r}")
            self._follow()
            self._make_version()
            new = Followed(name, n_clusters, threshold, file.next_id(name))
            found, _ = self._gone_on(new, self.bare_tree, self._leaves().numbers)
            file.keep([found], [])
            self._follow()
            return self.version

    def drop_cut(self, name: str) -> int:
        """Follow a cut no longer, and forget the names of its clusters; what happened to them stays known."""
        with self._turn:
            self._writable()
            if name == DEFAULT_CUT:
                raise ValueError(f"name must be that of another cut than {DEFAULT_CUT!r}, which every store has")
            self._file.drop(self._followed(name))
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
                after, changes = self._gone_on(before, self.bare_tree, self._leaves().numbers, is_recut=True)
                self._file.keep([after], changes)
                self._follow()
            return self.version

    # Following ----------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Bring all cuts to where the tree is, and write them down; for the writer."""
        behind = [cut for cut in self._cuts().values() if cut.version < self.version]
        if behind:
            tree, numbers = self.bare_tree, self._leaves().numbers
            found = [self._gone_on(cut, tree, numbers) for cut in behind]
            self._file.keep([cut for cut, _ in found], [one for _, some in found for one in some])

    def _begin_with(self, labels: Labels) -> None:
        """Let these be the clusters of the automatic cut, by leaf: those that a run has found with more to go by."""
        tree, numbers = self.bare_tree, self._leaves().numbers
        default = self._cuts()[DEFAULT_CUT]
        found, changes = default.gone_on(tree, numbers, self.version, lambda: carried_splits(tree, labels), True)
        self._file.keep([found], changes)

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
        return self._all_followed([name])[name]

    def _all_followed(self, names: Iterable[str] | None = None) -> dict[str, Followed]:
        """Some cuts by name, or all."""
        if not self.is_readonly:
            self._follow()
        known = self._cuts()
        return {name: self._begun(known[name]) for name in (known if names is None else names)}

    def _begun(self, cut: Followed) -> Followed:
        """A cut that nobody has followed yet, as the writer will find it."""
        if len(cut.labels) or cut.version or not self.is_readonly:
            return cut
        return self._gone_on(cut, self.bare_tree, self._leaves().numbers)[0]

    @property
    def _file(self) -> ClusterFile:
        return ClusterFile(self.folder)

    def _cuts(self) -> dict[str, Followed]:
        state = self._file.state()
        if self._known_cuts is None or self._known_cuts[0] != state:
            found = self._file.cuts()
            default = Followed(DEFAULT_CUT, self._manifest.n_clusters, self._manifest.threshold)
            self._known_cuts = state, found if DEFAULT_CUT in found else {DEFAULT_CUT: default, **found}
            self._known_labels = {}
        return self._known_cuts[1]

    def _labels(self, cut: Followed) -> Labels:
        """By leaf, also of points that came since. Not to be changed: it is kept until there are other points."""
        key = self._key(), cut.version
        known = self._known_labels.get(cut.name)
        if known is None or known[0] != key:
            known = self._known_labels[cut.name] = key, self._all_labels(cut)
        return known[1]

    def _all_labels(self, cut: Followed) -> Labels:
        labels = cut.labels_at(self._leaves().numbers)
        if (labels >= 0).all() or not (labels >= 0).any():
            return labels
        tree = self.bare_tree
        order = tree.preorder()
        beside = order[order < tree.n_leaves]
        known = np.flatnonzero(labels[beside] >= 0)
        at = np.maximum(np.searchsorted(known, np.arange(len(beside)), side="right") - 1, 0)
        labels[beside] = labels[beside][known[at]]
        return labels

    def _gone_on(
        self, cut: Followed, tree: Tree, numbers: Counts, is_recut: bool = False
    ) -> tuple[Followed, list[Change]]:
        return cut.gone_on(tree, numbers, self.version, lambda: self._automatic(tree).is_split, is_recut)

    def _automatic(self, tree: Tree) -> AutomaticCut:
        if tree.n_leaves < 3 or tree.n_leaves > MOST_COMPARED:
            return cuts.automatic_cut(tree, None, tree.heights())
        parts = [branch.rows(branch.positions()) for branch in self._now() if branch.n_points]
        rows = joined(parts)[self._leaves().places]
        metric = "sqeuclidean" if self._linkage.leaf_metric == "sqeuclidean" else "cosine"
        graph, gaps = cuts.neighbor_graph(rows, metric), mean_gaps(tree, rows, metric)
        return cuts.automatic_cut(tree, graph, gaps)

    def _with_ids(self, change: Change) -> Change:
        """A change whose exemplars are ids, of points that are still there."""
        numbers = np.array(change.exemplars, np.int64)
        ids: list[Id | None] = [None] * len(numbers)
        for owner, at, positions in self._leaves().parts(numbers):
            found = self._now()[owner].store._db.ids_at(positions.tolist())
            for i, name in zip(at.tolist(), found, strict=True):
                ids[i] = name
        about = change.version, change.cut, change.kind, change.cluster, change.others, change.size, change.count
        return Change(*about, tuple(name for name in ids if name is not None))

    def _make_version(self) -> int:
        """A version in which no point changes."""
        self._versions.add_empty(self._next_number)
        return self.version


def _is_recut_advised(cut: Followed) -> bool:
    """Whether half as many points came or went as there were when an automatic cut was chosen."""
    return cut.is_automatic and cut.changed >= ADVISED * max(cut.points, 1)
