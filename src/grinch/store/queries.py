"""Queries of a store at one version."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from grinch._checks import check_count, check_name
from grinch._types import Counts, Floats, Ids, Labels, Mask
from grinch.cuts import ClusterTree, collapse
from grinch.cuts.tracking import Change
from grinch.estimators.checks import listed, placing
from grinch.saving import disk
from grinch.store import inputs
from grinch.store.change_summary import ChangeSummary, summarize_changes, told_once
from grinch.store.damage import DamagedStore
from grinch.store.database import Database, Id, Operation
from grinch.store.digest import Digest, make_digest, titles_of
from grinch.store.inputs import RowCheck
from grinch.store.lock import holder, is_held
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.node_names import NodeName, NodeNames
from grinch.store.rows import StoredRows
from grinch.store.state import AboutCut, Placed, StoreState
from grinch.tree import NONE, Tree

DEFAULT_CUT = "default"
# Changes that are summed up.
MAX_SUMMED = 50_000
# Payloads that are read for the title of a cluster, and of all points to compare them with.
MAX_READ, MAX_BACKGROUND = 60, 400
# A cluster has the name of a node if the Jaccard similarity of their points is above this: of no more than one node.
MIN_SAME = 1 / 2


class Look(NamedTuple):
    """A store at one version, which later ones do not change.

    ``tree``: the cluster tree, without names; ``positions``: by leaf, the position of the point, by which it is asked
    for later; ``arrived``: by leaf, the version in which it came; ``times``: by leaf, when, in seconds since 1970;
    ``cuts``: by name, the cluster ids by leaf; ``names``: by cut, the names of clusters; ``automatic``: the names
    of the automatic cuts.
    """

    version: int
    tree: Tree
    positions: Counts
    arrived: Counts
    times: Floats | None
    cuts: dict[str, Labels]
    names: dict[str, dict[int, str]]
    automatic: frozenset[str] = frozenset()


def _narrow(values: Labels) -> Ids | Labels:
    """Return numbers in half of the bytes where they fit; a view is to be much smaller than its store."""
    return values if len(values) and values.max() > np.iinfo(np.int32).max else values.astype(np.int32)


class FrozenState:
    """The state of a store at the moment this is made, with the queries of :class:`StoreState`.

    It has a copy of the tree and the labels of each cut; points are found and placed by the engine's own view.
    Without one, of linkages written in Python, nothing can be placed (``can_place``).
    """

    def __init__(self, state: StoreState):
        self.version, self.n_points, self.n_given = state.version, state.n_points, state.n_given
        self.n_rows, self.row_of, self.settings = state.n_rows, state.shared_row_of(), state.settings
        self.cut_names = list(state.cut_names)
        self._row_check, self._verify_points = state.row_check().without_points(), state.verify_points
        self._positions = _narrow(state.positions())
        self._engine = state.engine_view()
        # By leaf of the engine's tree, the leaf of the tree that is handed out.
        self._leaves = _narrow(state.leaves())
        self._tree = state.tree() if self._engine is None else self._handed_out(self._engine.tree)
        self._cuts = {
            name: (state.about_cut(name), _narrow(state.labels(name) if self.n_points else np.empty(0, np.int64)))
            for name in self.cut_names
        }
        self._owners: dict[str, Ids | Labels] = {}

    @property
    def can_place(self) -> bool:
        return self._engine is not None or not self.n_points

    def positions(self) -> Counts:
        return self._positions.astype(np.int64)

    def has(self, positions: Counts) -> Mask:
        at = np.searchsorted(self._positions, positions)
        return np.append(self._positions, -1)[at] == positions

    def tree(self) -> Tree:
        return copy.copy(self._tree)

    def labels(self, cut: str) -> Labels:
        return self._cuts[cut][1].astype(np.int64)

    def about_cut(self, cut: str) -> AboutCut:
        return self._cuts[cut][0]

    def row_check(self) -> RowCheck:
        return self._row_check

    def place(self, rows: Any) -> Placed:
        nearest, beside, _ = self._places(rows)
        return Placed(beside, np.where(nearest == NONE, -1, np.append(self.positions(), -1)[nearest]))

    def predict(self, cut: str, rows: Any) -> Labels:
        nearest, beside, scores = self._places(rows)
        owners, threshold = self._owners_by_node(cut), self.about_cut(cut).parameters["threshold"]
        joined = owners[beside].astype(np.int64)
        if threshold is None:
            near = np.where(nearest == NONE, -1, owners[nearest])
            return np.where(joined < 0, near, joined)
        parents = self._tree.parents()[beside]
        is_whole = (joined >= 0) & ((parents < 0) | (owners[parents] < 0))
        return np.where(is_whole & (scores < threshold), -1, joined)

    def _places(self, rows: Any) -> tuple[Counts, Counts, Any]:
        """Return the nearest leaf, the node beside which each row would go, and the score of the two."""
        assert self._engine is not None
        places = self._engine.place(self._row_check.as_inserted(rows))
        self._verify_points(self._engine.slots[places.nearest[places.nearest != NONE]])
        return self._public(places.nearest), self._public(places.sibling), places.score

    def _public(self, nodes: Any) -> Counts:
        is_leaf = (nodes >= 0) & (nodes < self.n_points)
        return np.where(is_leaf, self._leaves[np.where(is_leaf, nodes, 0)], nodes)

    def _handed_out(self, tree: Tree) -> Tree:
        is_in_order = bool((self._leaves == np.arange(len(self._leaves))).all())
        tree = copy.copy(tree) if is_in_order else tree.relabelled(self._leaves)
        is_plain = bool((self._positions == np.arange(len(self._positions))).all())
        tree.names = None if is_plain else self._positions.tolist()
        return tree

    def _owners_by_node(self, cut: str) -> Ids | Labels:
        """Return the cluster of each node, -1 above the clusters."""
        if cut not in self._owners:
            labels, below = self._cuts[cut][1], np.full(self._tree.n_ids, -np.inf)
            below[: len(labels)] = labels
            highest = self._tree.max_upward(below)
            below[: len(labels)] = -labels
            # A node is in a cluster if all of its leaves are.
            owners = np.where(highest == -self._tree.max_upward(below), highest, -1)
            self._owners[cut] = _narrow(owners.astype(np.int64))
        return self._owners[cut]


def _from_database(name: str, doc: str) -> Any:
    """Return a property that is read from the database."""
    return property(lambda view: view.from_database(name), doc=doc)


class View:
    """A store at one version: all that it returns is of this version.

    Made by :meth:`Store.view`, and used within its ``with`` statement.
    """

    def __init__(
        self, folder: Path, state: StoreState | FrozenState, database: Database, rows: StoredRows, snapshot_version: int
    ):
        self.folder, self._state, self._database, self._rows = folder, state, database, rows
        self._snapshot_version = snapshot_version

    @property
    def version(self) -> int:
        """The number of changes since the store was made."""
        return self._state.version

    def __len__(self) -> int:
        """Return the number of points."""
        return self._state.n_points

    @property
    def can_place(self) -> bool:
        """Whether ``predict`` and ``place`` can be used."""
        return self._state.can_place

    def from_database(self, name: str) -> Any:
        """Return an entry of the database."""
        return self._database.get(name)

    # Points -------------------------------------------------------------------------------------------------------

    @property
    def ids(self) -> list[Id]:
        """The ids of all points, in the order they came."""
        if not self._database.get("is_named"):
            return self._state.positions().tolist()
        return self._database.ids_of(self._state.positions()).tolist()

    id_kind: Any = _from_database("id_kind", 'The kind of the ids, "text" or "number"; None if there are none yet.')
    n_features: Any = _from_database("n_features", "The length of the vectors; None if there are none.")
    dtype: Any = _from_database("dtype", "The type of the vectors' numbers; None if it is not known yet.")
    columns: Any = _from_database("columns", "The names of the columns of the vectors; None if they have none.")

    @property
    def n_given(self) -> int:
        """The number of points that ever came: that of the next one, if it has no id."""
        return self._state.n_given

    def payload(self, ids: Any) -> list[Any]:
        """Return the payload of points, by their ids."""
        return self._database.parsed_payloads(self.positions(ids).tolist())

    def vectors(self, ids: Any) -> Any:
        """Return points by their ids: a matrix, or a list of records."""
        return self._rows.at(self._state.row_of[self.positions(ids)])

    def points_at(self, positions: Any) -> list[tuple[Id | None, Any]]:
        """Return the id and the payload at each position; an id of None where there is no point any more."""
        asked = [int(position) for position in positions]
        ids, payloads = self._ids_at(asked, self._database.get("is_named")), self._database.parsed_payloads(asked)
        return list(zip(ids, payloads, strict=True))

    def rows_at(self, positions: Counts) -> Any:
        """Return the rows at these positions; None if points are no vectors.

        Of points that were removed, the rows they had; zeros once the store is compacted.
        """
        if self._rows.file is None:
            return None
        numbers, is_known = np.full(len(positions), -1, np.int64), positions < self._state.n_given
        numbers[is_known] = self._state.row_of[positions[is_known]]
        return self._rows.at(numbers)

    def position_of(self, name: Any) -> int | None:
        """Return the position of the point with this id; None if there is none."""
        try:
            return self.find_positions([name])[0][0]
        except ValueError:  # nothing that an id could be
            return None

    def arrived(self) -> Counts:
        """Return the version in which each point was inserted, in the order of :attr:`ids`.

        >>> import grinch, tempfile
        >>> with grinch.open(tempfile.mkdtemp()) as store:
        ...     _ = store.insert([[1, 0], [0, 9]]), store.insert([[2, 0.1]])
        ...     store.arrived().tolist()
        [1, 1, 2]
        """
        inserted = np.array(self._database.inserted(), np.int64).reshape(-1, 2)
        which = np.searchsorted(np.cumsum(inserted[:, 1]), self._state.positions(), side="right")
        # It is not known in stores that an earlier release compacted; those points were there from the start.
        return np.append(inserted[:, 0], 0)[np.minimum(which, len(inserted))]

    # The tree -----------------------------------------------------------------------------------------------------

    @property
    def tree(self) -> Tree:
        """The cluster tree; its leaves are in the order of :attr:`ids`, which are its ``names``."""
        tree = self._state.tree()
        if tree.n_leaves and self._database.get("is_named"):
            tree.names = self.ids
        return tree

    @property
    def bare_tree(self) -> Tree:
        """The same tree without the ids of points, which need not be read then."""
        return self._state.tree()

    def place(self, X: Any) -> tuple[int, list[tuple[int, int]]]:
        """Return the version, and where each row of X would go: the node of :attr:`tree` beside which, and the
        position of the point that is nearest (-1 if none is known).
        """
        self._check_not_empty()
        beside, nearest = self._state.place(self._rows.checked(X, self._state.row_check()))
        return self.version, list(zip(beside.tolist(), nearest.tolist(), strict=True))

    # Clusters -----------------------------------------------------------------------------------------------------

    def labels(self, cut: str = DEFAULT_CUT) -> Labels:
        """Return the cluster id of each point, in the order of :attr:`ids`."""
        self.check_cut(cut)
        return self._state.labels(cut) if len(self) else np.empty(0, np.int64)

    def clusters(self, cut: str = DEFAULT_CUT) -> dict[int, list[Id]]:
        """Return the ids of the points of each cluster, by cluster id.

        A cluster that is the same after a change as before it keeps its id, and no id is ever given to another one.
        It is the same if each is the other's largest part: of the points of the one that are still there, most are in
        the other (at least a third), and no cluster gave it more points. So the id of a cluster that is split goes to
        its largest part, and clusters that merge have the id of the largest.
        """
        labels, is_named = self.labels(cut), self._database.get("is_named")
        positions = self._state.positions()
        ids = self._database.ids_of(positions) if is_named else positions
        # Small numbers are sorted by their digits, in a tenth of the time.
        is_small = labels.max(initial=0) < 2**15
        order = np.argsort(labels.astype(np.int16) if is_small else labels, kind="stable")
        labels, ordered = labels[order], ids[order].tolist()
        starts = np.flatnonzero(np.diff(labels, prepend=-2))
        groups = zip(labels[starts].tolist(), pairwise([*starts.tolist(), len(labels)]), strict=True)
        return {number: ordered[start:end] for number, (start, end) in groups if number >= 0}

    def predict(self, X: Any, cut: str = DEFAULT_CUT) -> Labels:
        """Return the id of the cluster that each point would join, without inserting it; -1 for none."""
        self.check_cut(cut)
        self._check_not_empty()
        with placing():
            rows = self._rows.checked(X, self._state.row_check())
        return self._state.predict(cut, rows)

    def names(self, cut: str = DEFAULT_CUT, *, gone: bool = False) -> dict[int, str]:
        """Return the names of clusters, by cluster id; with ``gone``, also of dissolved clusters.

        A cluster that was given none has that of the node of the tree which is most of it, given in the explorer.
        """
        there = np.unique(self.labels(cut))
        given = {cluster: name for cluster, name in self._database.names(cut).items() if gone or cluster in there}
        return {**self._names_by_nodes(cut), **given}

    def _names_by_nodes(self, cut: str) -> dict[int, str]:
        """Return the names that were given to nodes, by the cluster that has much the same points."""
        names, named = dict[int, str](), list[NodeName]()
        with suppress(DamagedStore):  # check says so
            named = NodeNames(self.folder / NAMES_FILE).all()
        for given in named:
            found = [position for position in self.find_positions(given.points)[0] if position is not None]
            labels, positions = self.labels(cut), self._state.positions()
            clusters, counts = np.unique(labels[np.searchsorted(positions, found)], return_counts=True)
            sizes = np.array([(labels == cluster).sum() for cluster in clusters])
            scores = given.similarities(len(found), counts, sizes, len(labels))
            names |= {int(clusters[i]): given.name for i in np.flatnonzero(scores > MIN_SAME)}
        return names

    @property
    def cut_names(self) -> list[str]:
        """The names of the cuts that are tracked."""
        return list(self._state.cut_names)

    def cuts(self) -> dict[str, dict[str, Any]]:
        """Return the cuts by name: how each is made, the number of its clusters, and of points that changed since.

        An automatic cut is made again when a quarter of the points came, left or moved (``points_changed``); other cuts
        are always up to date.
        """
        return {
            name: {
                "kind": about.kind,
                **about.parameters,
                "clusters": len(np.unique(self.labels(name))),
                "points_changed": about.points_changed,
            }
            for name, about in ((name, self._state.about_cut(name)) for name in self._state.cut_names)
        }

    # History -----------------------------------------------------------------------------------------------------

    def changes(self, since: int = 0, cut: str | None = DEFAULT_CUT) -> list[Change]:
        """Return the changes of clusters after version ``since``, in order; of all cuts if ``cut`` is None.

        ``kind`` is born, grew, shrank, split (``others``: the new parts), merged (the clusters that it absorbed),
        dissolved (where its points went), or renamed; ``size`` is the number of points of the cluster afterwards,
        ``count`` the number that came or went, ``exemplars`` the ids of a few of them that are still there.
        """
        check_count("since", since, 0)
        if cut is not None:
            self.check_cut(cut)
        is_named, changes = self._database.get("is_named"), list[Change]()
        for version, of, records in list(self._database.changes(since, self.version, cut)):
            for change in told_once(_changes_of(version, of, records)):
                ids = tuple(
                    name for name in self._ids_at([int(one) for one in change.exemplars], is_named) if name is not None
                )
                changes.append(replace(change, exemplars=ids))
        return changes

    def net_changes(self, since: int = 0, cut: str = DEFAULT_CUT, until: int | None = None) -> ChangeSummary:
        """Return the changes of clusters from version ``since`` to ``until``, without what came and went in between.

        Exemplars are positions. Of more than 50,000 changes, it is those of the last ones.
        """
        check_count("since", since, 0)
        self.check_cut(cut)
        last = self.version if until is None else min(until, self.version)
        latest = list[list[Change]]()
        with closing(self._database.changes(since, last, cut, "desc")) as versions:
            room = MAX_SUMMED
            for version, of, records in versions:
                room -= len(records)
                if room < 0:
                    break
                latest.append(_changes_of(version, of, records))
        return summarize_changes([change for changes in reversed(latest) for change in changes])

    def digest(self, since: int = 0, limit: int = 10, cut: str = DEFAULT_CUT, *, until: int | None = None) -> Digest:
        """Return the news since a version: what became of clusters, in words, the most important first.

        At most ``limit`` events are told: new topics, topics that grew by half or more, splits and merges of large
        ones, and topics that went; first of all those of clusters that have a name. The rest is counted.

        >>> import grinch, tempfile
        >>> with grinch.open(tempfile.mkdtemp(), n_clusters=2) as store:
        ...     _ = store.insert([[1, 0], [0, 9], [1, 1], [1, 0.5]], payload=["a cat", "rain", "cats", "the cat"])
        ...     print(store.digest())
        cat, cats: new, 3 points
        Other clusters: 1 new
        """
        net = self.net_changes(since, cut, until)
        names, labels = self.names(cut, gone=True), self.labels(cut)
        known = np.unique(labels[labels >= 0])
        arrived = self.arrived()
        last = self.version if until is None else min(until, self.version)
        n_new = int(((arrived > since) & (arrived <= last)).sum())

        def describe(clusters: Sequence[int]) -> dict[int, str]:
            return self._titles(clusters, labels, names, net.exemplars)

        return make_digest(net, names, describe, (since, last), n_new, len(labels) / max(len(known), 1), limit)

    def cluster_tree(self, cut: str = DEFAULT_CUT) -> ClusterTree:
        """Return the tree above the clusters of a cut, whose leaves are the clusters.

        They have the names that :meth:`Store.label` gave them; others are named after the keywords of their payloads.
        For a picture, see :func:`grinch.plots.plot_clusters`.

        >>> import grinch, tempfile
        >>> with grinch.open(tempfile.mkdtemp(), n_clusters=2) as store:
        ...     _ = store.insert([[1, 0], [0, 9], [1, 1], [1, 0.5]], payload=["a cat", "rain", "cats", "the cat"])
        ...     store.cluster_tree().names
        ['cat, cats', 'rain']
        """
        labels = self.labels(cut)
        clusters = collapse(self.bare_tree, labels)
        numbers = clusters.clusters.tolist()
        titles = self._titles(numbers, labels, self.names(cut), {})
        return clusters.described([titles[number] for number in numbers])

    def _titles(
        self, clusters: Sequence[int], labels: Labels, names: Mapping[int, str], exemplars: Mapping[int, Sequence[Any]]
    ) -> dict[int, str]:
        """Return the titles of clusters, from some of their payloads; of those that are gone, from their exemplars."""
        positions, payloads = self._state.positions(), dict[int, list[Any]]()
        order = np.argsort(labels, kind="stable")
        ordered = labels[order]
        for cluster in clusters:
            start, stop = np.searchsorted(ordered, (cluster, cluster + 1))
            own = positions[order[start:stop]].tolist() or [int(one) for one in exemplars.get(cluster, ())]
            payloads[cluster] = self._database.parsed_payloads(own[:: max(-(-len(own) // MAX_READ), 1)])
        step = max(-(-len(positions) // MAX_BACKGROUND), 1)
        return titles_of(clusters, names, payloads, self._database.parsed_payloads(positions[::step].tolist()))

    def times(self) -> dict[int, float]:
        """Return when each version was made, in seconds since 1970."""
        return self._database.times()

    def operations_since_snapshot(self) -> list[Operation]:
        """Return the operations that are replayed when the store is opened."""
        return list(self._database.operations(self._snapshot_version))

    # Overviews ----------------------------------------------------------------------------------------------------

    def look(self) -> Look:
        """Return the tree, the cuts and the times of arrival at this version."""
        arrived, at = self.arrived(), self.times()
        when = np.full(max(at, default=0) + 1, np.nan)
        when[list(at)] = list(at.values())
        names = self._state.cut_names if len(self) else []
        return Look(
            self.version,
            self.bare_tree,
            self._state.positions(),
            arrived,
            when[arrived],
            {name: self.labels(name) for name in names},
            {name: self._database.names(name) for name in names},
            frozenset(name for name in names if self._state.about_cut(name).kind == "automatic"),
        )

    def info(self) -> dict[str, Any]:
        """Return the parameters of the store, what it holds, its bytes on disk, and the process that writes."""
        sizes = disk.sizes_in(self.folder)
        starts = {"vectors": "vectors-", "snapshot": "snapshot-", "database": "store.sqlite"}
        return {
            "points": len(self),
            "version": self.version,
            **{name: self._database.get(name) for name in ("grinch", "n_features", "dtype", "is_named", "columns")},
            "is_sparse": self._rows.is_sparse,
            **self._state.settings,
            "cuts": self.cuts(),
            "operations_since_snapshot": self.version - self._snapshot_version,
            "rows_of_removed_points": self._state.n_rows - len(self),
            "bytes": {
                kind: sum(size for name, size in sizes.items() if name.startswith(start))
                for kind, start in starts.items()
            },
            "writer": holder(self.folder) if is_held(self.folder) else None,
        }

    # For changes --------------------------------------------------------------------------------------------------

    def positions(self, ids: Any) -> Counts:
        """Return the positions of points that have to be there."""
        positions, names = self.find_positions(ids)
        for position, name in zip(positions, names, strict=True):
            if position is None:
                self._database.check_absence(name)
                raise ValueError(f"ids must name points in the store; {name!r} is not there{self._kind_hint(name)}")
        return np.array(positions, np.int64)

    def positions_to_remove(self, ids: Any) -> tuple[Counts, list[Id]]:
        """Return the positions and ids of points to remove, without those that were removed before."""
        positions, names = self.find_positions(ids)
        missing = [name for position, name in zip(positions, names, strict=True) if position is None]
        if self._database.get("is_named"):
            were_there = self._database.were_removed(missing)
        else:
            were_there = [isinstance(name, int) and 0 <= name < self.n_given for name in missing]
        for name, was_there in zip(missing, were_there, strict=True):
            if not was_there:
                self._database.check_absence(name)
                raise ValueError(
                    f"ids must name points in the store; {name!r} never was{self._kind_hint(name)}. Nothing was removed"
                )
        here = [(p, name) for p, name in zip(positions, names, strict=True) if p is not None]
        return np.array([p for p, _ in here], np.int64), [name for _, name in here]

    def find_positions(self, ids: Any) -> tuple[list[int | None], list[Id]]:
        """Return the positions of points, None for those that are not there; and the ids as they are in the store."""
        names = [inputs.check_id(name) for name in listed(ids)]
        inputs.check_each_once(names)
        if self._database.get("is_named"):
            return self._database.positions_of(names), names
        numbers = np.array([name if isinstance(name, int) else -1 for name in names], np.int64)
        there = self._state.has(numbers)
        return [int(n) if is_there else None for n, is_there in zip(numbers, there, strict=True)], names

    def check_cut(self, cut: Any) -> None:
        """Raise unless this is the name of a cut."""
        check_name("cut", cut, self._state.cut_names)

    # Within -------------------------------------------------------------------------------------------------------

    def _check_not_empty(self) -> None:
        if not len(self):
            raise ValueError("X cannot be placed: the store has no points yet. Insert some first")

    def _kind_hint(self, name: Id) -> str:
        """Return why an id may not be found that looks like one that is there."""
        kind = self._database.get("id_kind")
        is_other = kind is not None and kind != inputs.kind_of(name)
        return f" (ids in this store are {kind}s, and this is a {inputs.kind_of(name)})" if is_other else ""

    def _ids_at(self, positions: list[int], is_named: bool) -> list[Id | None]:
        """Return the id at each position; None where there is no point any more."""
        if is_named or not positions:
            return self._database.ids_at(positions)
        there = self._state.has(np.array(positions, np.int64)).tolist()
        return [position if is_there else None for position, is_there in zip(positions, there, strict=True)]


def _changes_of(version: int, cut: str, records: Any) -> list[Change]:
    """Return the changes that a version made of a cut; exemplars are positions."""
    return [
        Change(version, cut, kind, cluster, tuple(others), size, count, tuple(exemplars))
        for kind, cluster, others, size, count, exemplars in records
    ]
