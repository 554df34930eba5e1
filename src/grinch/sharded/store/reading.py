"""What a sharded store knows: points, one tree over all of them, and clusters."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._checks import check_count
from grinch._types import Counts, Labels, Slots
from grinch.cuts import check_cut, cut_auto, cut_n_clusters, cut_threshold
from grinch.sharded.store.branch import Branch
from grinch.sharded.store.session import Session
from grinch.sharded.store.top import Moments, moments_of, top_tree
from grinch.sharded.whole import Merges, compose, without
from grinch.store import inputs
from grinch.store.changes import Change
from grinch.store.database import Id
from grinch.store.lock import holder, is_held
from grinch.tree import Tree

# Up to this many points the automatic cut compares all with all; beyond, it goes by the heights of the tree alone.
MOST_COMPARED = 50_000
# Rows that are summed up together.
PIECE = 65_536


class BranchChange(NamedTuple):
    """Something that happened to a cluster of a branch: in which version of the whole, in which branch, and what."""

    version: int
    branch: str
    change: Change


class Place(NamedTuple):
    """Where a point would go: the branch, the node of its tree beside which, and the id of the nearest point."""

    branch: str
    node: int
    nearest: Id | None


class Reading(Session):
    """What readers and writers of a sharded store can ask."""

    @property
    def version(self) -> int:
        """How many changes were made: a change counts once for each branch that it touched, and a split for two."""
        with self._turn:
            self._now()
            return len(self._versions)

    @property
    def n_points(self) -> int:
        """How many points there are."""
        with self._turn:
            return sum(branch.n_points for branch in self._now())

    def __len__(self) -> int:
        return self.n_points

    def __repr__(self) -> str:
        if not self._is_open:
            return f"<ShardedStore {str(self.folder)!r}, closed>"
        n = len(self._branches)
        return f"<ShardedStore {str(self.folder)!r}: {len(self):,} points in {n} branch{'es' if n > 1 else ''}>"

    @property
    def branches(self) -> dict[str, int]:
        """The names of the branches, which are folders, and how many points each has."""
        with self._turn:
            return {branch.name: branch.n_points for branch in self._now()}

    @property
    def max_points(self) -> int:
        """A branch with more points than that is split."""
        return self._manifest.max_points

    @property
    def n_features(self) -> int | None:
        """How many numbers a point has; None if there are no points yet."""
        with self._turn:
            return self._now()[0].store.n_features

    @property
    def columns(self) -> list[str] | None:
        """What these numbers are called; None if they have no names."""
        with self._turn:
            return self._now()[0].store.columns

    @property
    def id_kind(self) -> str | None:
        """What ids are in this store, "text" or "number"; None if there are none, or no points yet."""
        with self._turn:
            return self._now()[0].store.id_kind if self._is_named else None

    @property
    def ids(self) -> list[Id]:
        """The ids of all points, in the order they came."""
        with self._turn:
            branches = self._now()
            if not self._is_named:
                return np.sort(np.concatenate([branch.numbers() for branch in branches])).tolist()
            found = [name for branch in branches for name in branch.store.ids]
            return [found[i] for i in self._by_arrival().tolist()]

    def _by_arrival(self) -> Slots:
        """Points branch by branch, put into the order in which they came."""
        return np.argsort(np.concatenate([branch.numbers() for branch in self._now()]), kind="stable")

    def payload(self, ids: Any) -> list[Any]:
        """What was given beside points, by their ids."""
        return self._gathered(ids, lambda branch, names: branch.store.payload(names))

    def vectors(self, ids: Any) -> npt.NDArray[Any]:
        """The points themselves, as they were given."""
        with self._turn:
            rows = self._gathered(ids, lambda branch, names: list(branch.store.vectors(names)))
            dtype = self._now()[0].store._db.get("dtype")
            return np.array(rows, dtype).reshape(len(rows), self.n_features or 0)

    def _gathered(self, ids: Any, ask: Any) -> list[Any]:
        """What the branches say of points, in the order in which they are asked for."""
        with self._turn:
            names = self._names(ids)
            found: list[Any] = [None] * len(names)
            for branch, at in self._owned(names):
                answers = ask(branch, [names[i] for i in at.tolist()])
                for i, answer in zip(at.tolist(), answers, strict=True):
                    found[i] = answer
            return found

    # The tree and its clusters ------------------------------------------------------------------------------------

    @property
    def tree(self) -> Tree:
        """One tree over all points, in the order of :attr:`ids`, which it knows as ``names`` where points have them."""
        with self._turn:
            there = [branch for branch in self._now() if branch.n_points]
            versions = tuple((branch.name, branch.store.version) for branch in there)
            if self._whole is None or self._whole[0] != versions:
                self._whole = versions, self._composed(there)
            tree = self._whole[1]
            if self._is_named:
                tree.names = self.ids
            return tree

    def _composed(self, there: list[Branch]) -> Tree:
        numbers = [branch.numbers() for branch in there]
        if len(there) < 2 and all((np.diff(some) > 0).all() for some in numbers):
            return there[0].store.tree if there else Tree()
        order = np.argsort(np.concatenate(numbers), kind="stable")
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        rows = np.split(ranks, np.cumsum([len(some) for some in numbers])[:-1])
        return compose(self._top(), [branch.store.tree for branch in there], rows, self._linkage.ceiling)

    def _top(self) -> Tree:
        """The tree over the branches that have points."""
        branches = self._now()
        pairs = np.array(self._manifest.pairs, np.int64).reshape(-1, 2)
        is_empty = np.array([branch.n_points == 0 for branch in branches])
        kept = without(Merges(pairs, np.zeros(len(pairs))), is_empty)
        return top_tree(self._linkage, kept.pairs, [self._moments(branch) for branch in branches if branch.n_points])

    def _moments(self, branch: Branch) -> Moments:
        known = self._known_moments.get(branch.name)
        if known is None or known[0] != branch.store.version:
            positions = branch.positions()
            pieces = (branch.rows(positions[i : i + PIECE]) for i in range(0, len(positions), PIECE))
            is_unit = self._linkage.is_spherical
            known = branch.store.version, moments_of(pieces, branch.store.n_features or 0, is_unit)
            self._known_moments[branch.name] = known
        return known[1]

    def labels(self, n_clusters: int | None = None, threshold: float | None = None) -> Labels:
        """The number of the cluster of each point, in the order of :attr:`ids`.

        Cut into ``n_clusters``, at a ``threshold``, or as the store was made to; automatic, if that was not said. The
        automatic cut compares all points up to 50,000, and goes by the heights of the tree alone if there are more.
        Unlike those of a plain store, these numbers are of one cut, and do not stay with a cluster.
        """
        with self._turn:
            self._now()
            check_cut(n_clusters, threshold)
            if n_clusters is None and threshold is None:
                n_clusters, threshold = self._manifest.n_clusters, self._manifest.threshold
            tree = self.tree
            if n_clusters is not None:
                return cut_n_clusters(tree, n_clusters)
            if threshold is not None:
                return cut_threshold(tree, threshold)
            return self._automatic(tree)

    def _automatic(self, tree: Tree) -> Labels:
        if tree.n_leaves < 3 or tree.n_leaves > MOST_COMPARED:
            return cut_auto(tree)
        rows = np.concatenate([branch.rows(branch.positions()) for branch in self._now() if branch.n_points])
        metric = "sqeuclidean" if self._linkage.leaf_metric == "sqeuclidean" else "cosine"
        return cut_auto(tree, rows[self._by_arrival()], metric=metric)

    def clusters(self, n_clusters: int | None = None, threshold: float | None = None) -> dict[int, list[Id]]:
        """The ids of the points of each cluster, by its number in :meth:`labels`."""
        with self._turn:
            labels, ids = self.labels(n_clusters, threshold), self.ids
            found: dict[int, list[Id]] = {number: [] for number in np.unique(labels).tolist()}
            for number, name in zip(labels.tolist(), ids, strict=True):
                found[number].append(name)
            return found

    # Points that do not come --------------------------------------------------------------------------------------

    def place(self, X: Any) -> list[Place]:
        """Where each row of X would go."""
        with self._turn:
            branches = self._now()
            if not self.n_points:
                raise ValueError("X cannot be placed: the store has no points yet. Insert some first")
            rows = self._checked(X)
            owners = self._router.owners(rows, [branch.sample for branch in branches])
            found: list[Place | None] = [None] * len(rows)
            for number in np.unique(owners).tolist():
                branch, at = branches[number], np.flatnonzero(owners == number)
                for i, place in zip(at.tolist(), branch.store.place(rows[at])[1], strict=True):
                    found[i] = Place(branch.name, place[0], self._id_at(branch, place[1]))
            return found  # type: ignore[return-value]

    def predict(self, X: Any, n_clusters: int | None = None, threshold: float | None = None) -> Labels:
        """The number in :meth:`labels` of the cluster of the point that is nearest to each row of X; -1 for none."""
        with self._turn:
            places = self.place(X)
            number = dict(zip(self.ids, self.labels(n_clusters, threshold).tolist(), strict=True))
            return np.array([-1 if p.nearest is None else number[p.nearest] for p in places], np.int64)

    @staticmethod
    def _id_at(branch: Branch, position: int) -> Id | None:
        return None if position < 0 else branch.store._db.ids_at([position])[0]

    def explore(
        self,
        *,
        images: str | os.PathLike[str] | None = None,
        text: str | None = None,
        image: str | None = None,
        label: str | None = None,
        x: str | None = None,
        y: str | None = None,
        height: int = 720,
    ) -> Any:
        """Look at the tree as it is now in a page: inline in a notebook, or ``.open()`` in the browser.

        ``text``, ``image``, ``label``, ``x`` and ``y`` name fields of the payload; image files are read below the
        folder ``images``. See docs/explorer.md.
        """
        with self._turn:
            tree, payload = self.tree, self.payload(self.ids)
        # By name, for what shows stores is beside this, and neither knows the other.
        return import_module("grinch.serve.notebook").explore(
            tree,
            payload=payload,
            images=images,
            height=height,
            fields={"text": text, "image": image, "label": label, "x": x, "y": y},
        )

    # What happened ------------------------------------------------------------------------------------------------

    def changes(self, since: int = 0) -> list[BranchChange]:
        """What happened to the clusters of each branch after version ``since``, in the order of the versions.

        Clusters are those of the branch's own store. A branch that was split is no more, and so is what happened to it;
        the clusters of its parts are born with them.
        """
        with self._turn:
            by_number = {branch.number: branch for branch in self._now()}
            check_count("since", since, 0)
            version_of, first = dict[tuple[int, int], int](), dict[int, int]()
            for version, number, own in self._versions.since(since):
                version_of[number, own] = version
                first.setdefault(number, own - 1)
            found = [
                BranchChange(version_of[number, change.version], by_number[number].name, change)
                for number, own in first.items()
                if number in by_number
                for change in by_number[number].store.changes(since=own)
            ]
            return sorted(found, key=lambda one: one.version)

    def info(self) -> dict[str, Any]:
        """What the store is and holds, in numbers: also who is writing."""
        with self._turn:
            about = [branch.store.info() for branch in self._now()]
            settings = ("linkage", "metric", "mode", "n_neighbors", "search", "n_features", "dtype", "columns")
            kinds = ("vectors", "snapshot", "database")
            return {
                "points": self.n_points,
                "version": self.version,
                **{name: about[0][name] for name in settings},
                "is_named": self._is_named,
                "max_points": self.max_points,
                "branches": self.branches,
                "bytes": {kind: sum(one["bytes"][kind] for one in about) for kind in kinds},
                "writer": holder(self.folder) if is_held(self.folder) else None,
            }

    def refresh(self) -> int:
        """For a reader: go on to what is committed by now; the version."""
        with self._turn:
            self._now()
            if self.is_readonly:
                self._look()
                self._count()
            return self.version

    # Within -------------------------------------------------------------------------------------------------------

    @property
    def _is_named(self) -> bool | None:
        """Whether points have ids; None if none has come yet."""
        return self._manifest.is_named if self._next_number else None

    def _checked(self, X: Any, columns: list[str] | None = None) -> npt.NDArray[Any]:
        store = self._now()[0].store
        # Branches are split and told apart by dense rows.
        rows = store._checked(X, store._now(), columns)
        found: npt.NDArray[Any] = rows if isinstance(rows, np.ndarray) else inputs.kept_rows(rows, rows.dtype, False)
        return found

    def _names(self, ids: Any) -> list[Id]:
        names = [inputs.check_id(name) for name in inputs.listed(ids)]
        inputs.check_each_once(names)
        return names

    def _owners(self, names: list[Id]) -> Counts:
        """For each id, the number of the branch that has the point; -1 for none."""
        owners = np.full(len(names), -1, np.int64)
        for number, branch in enumerate(self._now()):
            left = np.flatnonzero(owners < 0)
            if not len(left):
                break
            owners[left[branch.has([names[i] for i in left.tolist()])]] = number
        return owners

    def _owned(self, names: list[Id]) -> list[tuple[Branch, Slots]]:
        """The branches of points that have to be there, and which of the points each has."""
        owners = self._owners(names)
        if (owners < 0).any():
            name = names[int(np.argmin(owners))]
            raise ValueError(f"ids must name points in the store; {name!r} is not there{self._kind_hint(name)}")
        return [(self._now()[number], np.flatnonzero(owners == number)) for number in np.unique(owners).tolist()]

    def _kind_hint(self, name: Id) -> str:
        """Why an id may not be found that looks like one that is there."""
        kind = self.id_kind or ("number" if self._next_number else None)
        is_other = kind is not None and kind != inputs.kind_of(name)
        return f" (ids in this store are {kind}s, and this is a {inputs.kind_of(name)})" if is_other else ""
