"""What a store knows: points, clusters, and what happened to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch._checks import check_count
from grinch._types import Counts, Labels, Slots
from grinch.cuts.tracking import Change
from grinch.errors import unknown_name
from grinch.estimators.checks import placing
from grinch.store import disk, inputs
from grinch.store.contents import Contents
from grinch.store.damage import damaged
from grinch.store.database import Id
from grinch.store.lock import holder, is_held
from grinch.store.session import Session
from grinch.store.sparse_rows import SparseRowFile
from grinch.tree import Tree

DEFAULT_CUT = "default"
# An automatic cut may be out of date when this share of the points came or went since it was made.
ADVISED = 0.5


class Reading(Session):
    """What readers and writers of a store can ask."""

    @property
    def version(self) -> int:
        """How many changes were made since the store was."""
        return self._now().version

    def __len__(self) -> int:
        """How many points there are."""
        return self._now().n_points

    def __repr__(self) -> str:
        if self._database is None:
            return f"<Store {str(self.folder)!r}, closed>"
        return f"<Store {str(self.folder)!r}: {len(self):,} points, version {self.version}>"

    @property
    def ids(self) -> list[Id]:
        """The ids of all points, in the order they came."""
        with self._turn:
            contents = self._now()
            if not self._db.get("is_named"):
                return contents.positions().tolist()
            found = self._db.all_ids()
            if len(found) != contents.n_points:
                raise damaged(self._db.path, f"there are {len(found):,} ids for {contents.n_points:,} points")
            return found

    @property
    def id_kind(self) -> str | None:
        """What ids are in this store, "text" or "number"; None if there are none, or no points yet."""
        with self._turn:
            self._now()
            kind: str | None = self._db.get("id_kind")
            return kind

    @property
    def tree(self) -> Tree:
        """The cluster tree; its leaves are in the order of :attr:`ids`, which it knows as ``names``."""
        with self._turn:
            tree = self.bare_tree
            if tree.n_leaves and self._db.get("is_named"):
                tree.names = self.ids
            return tree

    @property
    def bare_tree(self) -> Tree:
        """The same without names, which need not be read then."""
        with self._turn:
            contents = self._now()
            found: Tree = contents.model.tree_ if contents.n_points else Tree()
            return found

    @property
    def n_given(self) -> int:
        """How many points ever came: the number of the next one, if it has no id."""
        return self._now().n_given

    def labels(self, cut: str = DEFAULT_CUT) -> Labels:
        """The cluster id of each point, in the order of :attr:`ids`."""
        with self._turn:
            contents = self._now()
            self._check_cut_name(cut)
            if not contents.n_points:
                return np.empty(0, np.int64)
            return contents.tracking.labels(cut)

    def clusters(self, cut: str = DEFAULT_CUT) -> dict[int, list[Id]]:
        """The ids of the points of each cluster, by cluster id.

        A cluster that is the same after a change as before it keeps its id, and no id is ever given to another one.
        It is the same if each is the other's largest part: of the points of the one that are still there, most are in
        the other (at least a third), and no cluster gave it more points. So the id of a cluster that is split goes to
        its largest part, and clusters that merge have the id of the largest.
        """
        with self._turn:
            labels, ids = self.labels(cut), self.ids
            if not ids:
                return {}
            order = np.argsort(labels, kind="stable")
            numbers, starts = np.unique(labels[order], return_index=True)
            groups = np.split(order, starts[1:])
            return {
                int(number): [ids[i] for i in group.tolist()]
                for number, group in zip(numbers.tolist(), groups, strict=True)
                if number >= 0
            }

    def payload(self, ids: Any) -> list[Any]:
        """What was given beside points, by their ids."""
        with self._turn:
            return self._db.parsed_payloads(self._positions(ids).tolist())

    def vectors(self, ids: Any) -> Any:
        """The points themselves, as they were given: a row of numbers each, or a list of records."""
        with self._turn:
            rows = self._now().row_of[self._positions(ids)]
            return self._rows_at(rows)

    def predict(self, X: Any, cut: str = DEFAULT_CUT) -> Labels:
        """The id of the cluster that each point would join, without inserting it; -1 for none."""
        with self._turn:
            contents = self._now()
            self._check_cut_name(cut)
            if not contents.n_points:
                raise ValueError("X cannot be placed: the store has no points yet. Insert some first")
            with placing():
                rows = self._checked(X, contents)
            return contents.tracking.predict(cut, rows)

    def cuts(self) -> dict[str, dict[str, Any]]:
        """The cuts by name: how each is made, how many clusters it has, and how much changed since it was made.

        An automatic cut keeps the resolution it chose. Where it says ``is_recut_advised``, as many points came and went
        since as half of those there were, and :meth:`Store.recut` may find another (:meth:`would_recut` says which).
        """
        with self._turn:
            contents = self._now()
            return {name: self._about_cut(contents, name) for name in contents.tracking.names}

    def _about_cut(self, contents: Contents, name: str) -> dict[str, Any]:
        cut = contents.tracking[name]
        return {
            "kind": "automatic" if cut.is_automatic else "n_clusters" if cut.how.threshold is None else "threshold",
            **cut.parameters,
            "clusters": len(np.unique(self.labels(name))),
            "points_changed": cut.drift.came + cut.drift.left,
            "is_recut_advised": self._is_recut_advised(contents, name),
        }

    @staticmethod
    def _is_recut_advised(contents: Contents, name: str) -> bool:
        cut = contents.tracking[name]
        return bool(cut.is_automatic and cut.drift.share >= ADVISED)

    def changes(self, since: int = 0, cut: str | None = DEFAULT_CUT) -> list[Change]:
        """What happened to clusters after version ``since``, in order; of all cuts where ``cut`` is None.

        ``kind`` is born, grew, shrank, split (``others``: into which besides), merged (of which), dissolved (where its
        points went), or renamed; ``size`` is how many points the cluster has afterwards, ``count`` how many came or
        went, ``exemplars`` the ids of a few of them that are still there.
        """
        with self._turn:
            contents = self._now()
            check_count("since", since, 0)
            if cut is not None:
                self._check_cut_name(cut)
            is_named, found = self._db.get("is_named"), []
            for version, of, records in self._db.changes(since, cut):
                if version > contents.version:
                    break
                for kind, cluster, others, size, count, exemplars in records:
                    ids = self._ids_at(exemplars, is_named)
                    found.append(Change(version, of, kind, cluster, tuple(others), size, count, ids))
            return found

    def touched(self, since: int) -> Slots:
        """The nodes of :attr:`tree` whose members changed after version ``since``.

        Whatever was computed for any other node is still right; it is found again by the node's key in
        :meth:`grinch.Tree.keys`.
        """
        with self._turn:
            contents = self._now()
            check_count("since", since, 0)
            if not contents.n_points:
                return np.empty(0, np.intp)
            return np.asarray(contents.tracking.touched(since), np.intp)

    def names(self, cut: str = DEFAULT_CUT, *, gone: bool = False) -> dict[int, str]:
        """The names that were given to clusters, by cluster id; with ``gone``, of clusters that are no more, too."""
        with self._turn:
            self._now()
            self._check_cut_name(cut)
            there = np.unique(self.labels(cut))
            return {cluster: name for cluster, name in self._db.names(cut).items() if gone or cluster in there}

    def times(self) -> dict[int, float]:
        """When each version was made, in seconds since 1970."""
        with self._turn:
            self._now()
            return self._db.times()

    def info(self) -> dict[str, Any]:
        """What the store is and holds, in numbers: also bytes on disk, and who is writing."""
        with self._turn:
            contents = self._now()
            return {
                "points": contents.n_points,
                "version": contents.version,
                **self._settings(),
                "cuts": self.cuts(),
                **self._upkeep(),
                "writer": holder(self.folder) if is_held(self.folder) else None,
            }

    def _settings(self) -> dict[str, Any]:
        """How the store was made, and what its points are."""
        parameters = self._now().model.get_params()
        return {
            **{name: self._db.get(name) for name in ("grinch", "n_features", "dtype", "is_named", "columns")},
            "is_sparse": isinstance(self._vectors, SparseRowFile),
            **{name: parameters[name] for name in ("linkage", "metric", "mode", "n_neighbors", "search")},
        }

    def _upkeep(self) -> dict[str, Any]:
        """What is on disk, and what of it is no longer needed."""
        contents, sizes = self._now(), disk.sizes_in(self.folder)
        starts = {"vectors": "vectors-", "snapshot": "snapshot-", "database": "store.sqlite"}
        return {
            "operations_since_snapshot": contents.version - self._snapshot_version,
            "rows_of_removed_points": contents.n_rows - contents.n_points,
            "bytes": {
                kind: sum(size for name, size in sizes.items() if name.startswith(start))
                for kind, start in starts.items()
            },
        }

    def would_recut(self, cut: str = DEFAULT_CUT) -> Any:
        """What :meth:`recut` would find, without doing it."""
        with self._turn:
            contents = self._now()
            self._check_cut_name(cut)
            return contents.tracking.would_recut(cut)

    def refresh(self) -> int:
        """For a reader: go on to what is committed by now; the version."""
        with self._turn:
            if not self.is_readonly:
                return self.version
            self._now()
            self._db.look_again()
            return self._catch_up()

    def _catch_up(self) -> int:
        """For a reader: go on to what was committed when it last looked; the version."""
        with self._turn:
            contents = self._now()
            later = list(self._db.operations(contents.version))
            # What is not in the log is in a snapshot.
            if any(done.kind in ("adopt", "refine", "compact") for done in later):
                self._vectors, self._contents = None, None
                return self._now().version
            try:
                if self._vectors is None:
                    self._open_rows()  # there may be points now
                elif self._vectors.width != self._db.get("n_features"):
                    self._vectors.width = self._db.get("n_features")  # there may be more columns now
                self._replay(contents, later)
            except FileNotFoundError:
                self._vectors, self._contents = None, None
                return self._now().version
            except BaseException:
                self._contents = None
                raise
            return contents.version

    # Within -------------------------------------------------------------------------------------------------------

    def _checked(self, X: Any, contents: Contents, columns: list[str] | None = None, new_columns: bool = False) -> Any:
        """X as the store keeps it; ``columns`` are its columns, of a frame its own."""
        columns, known = columns or inputs.columns_of(X), self._db.get("columns")
        shared = min(len(columns or ()), len(known or ())) if new_columns else None
        if columns is not None and known is not None and columns[:shared] != known[:shared]:
            raise ValueError(f"X must have the columns that the first points had, {known}; got {columns}")
        dtype = self._db.get("dtype")
        is_sparse = None if self._vectors is None else isinstance(self._vectors, SparseRowFile)
        dtype = None if dtype is None else np.dtype(dtype)
        try:
            return inputs.check_rows(contents.model, X, dtype, is_sparse, new_columns)
        except ValueError:
            inputs.refuse_texts(X, self.folder)
            raise

    def _positions(self, ids: Any) -> Counts:
        """The positions of points that have to be there."""
        positions, names = self._positions_or_none(ids)
        for position, name in zip(positions, names, strict=True):
            if position is None:
                self._db.check_absence(name)
                raise ValueError(f"ids must name points in the store; {name!r} is not there{self._kind_hint(name)}")
        return np.array(positions, np.int64)

    def _positions_still_there(self, ids: Any) -> tuple[Counts, list[Id]]:
        """The positions and ids of points to remove, without those that were removed before."""
        positions, names = self._positions_or_none(ids)
        missing = [name for position, name in zip(positions, names, strict=True) if position is None]
        if self._db.get("is_named"):
            were_there = self._db.were_removed(missing)
        else:
            given = self._now().n_given
            were_there = [isinstance(name, int) and 0 <= name < given for name in missing]
        for name, was_there in zip(missing, were_there, strict=True):
            if not was_there:
                self._db.check_absence(name)
                raise ValueError(
                    f"ids must name points in the store; {name!r} never was{self._kind_hint(name)}. Nothing was removed"
                )
        here = [(p, name) for p, name in zip(positions, names, strict=True) if p is not None]
        return np.array([p for p, _ in here], np.int64), [name for _, name in here]

    def _kind_hint(self, name: Id) -> str:
        """Why an id may not be found that looks like one that is there."""
        kind = self._db.get("id_kind")
        is_other = kind is not None and kind != inputs.kind_of(name)
        return f" (ids in this store are {kind}s, and this is a {inputs.kind_of(name)})" if is_other else ""

    def _positions_or_none(self, ids: Any) -> tuple[list[int | None], list[Id]]:
        names = [inputs.check_id(name) for name in inputs.listed(ids)]
        inputs.check_each_once(names)
        contents = self._now()
        if self._db.get("is_named"):
            return self._db.positions_of(names), names
        numbers = np.array([name if isinstance(name, int) else -1 for name in names], np.int64)
        return [int(n) if there else None for n, there in zip(numbers, contents.has(numbers), strict=True)], names

    def _ids_at(self, positions: list[int], is_named: bool) -> tuple[Id, ...]:
        """The ids of those points that are still there."""
        if is_named:
            return tuple(name for name in self._db.ids_at(positions) if name is not None)
        there = self._now().has(np.array(positions, np.int64)) if positions else ()
        return tuple(position for position, is_there in zip(positions, there, strict=True) if is_there)

    def _check_cut_name(self, cut: Any) -> None:
        names = self._now().tracking.names
        if cut not in names:
            raise unknown_name("cut", cut, names)
