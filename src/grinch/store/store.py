"""The store: a folder with a tree that lives on, of which every change is on disk when it is done."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._checks import check_count, check_flag
from grinch._types import Counts, Slots, count_rows
from grinch.cuts.tracking import Change
from grinch.store import disk, inputs
from grinch.store.checking import check_rows, check_store
from grinch.store.contents import Contents
from grinch.store.database import Database, Id, KnownId, Operation
from grinch.store.looking import Looking
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.node_names import NodeNames
from grinch.store.reading import DEFAULT_CUT
from grinch.store.session import vectors_name
from grinch.store.sparse_rows import ENDS, SparseRowFile, checksum_rows
from grinch.tree import Tree


class Store(Looking):
    """A clustering in a folder, made by :func:`grinch.open`: every change is on disk when its method returns.

    One process writes, any number of others read. A change is whole or not at all: if it fails, for whatever reason,
    the store is as it was before. Every change makes a version, counted from 1.

    Points have ids (texts or whole numbers; without any, they are numbered as they come), and may have a payload: any
    thing that JSON can hold. Clusters have ids, too, which stay with them for good: see :meth:`clusters`.

    Examples
    --------
    >>> import grinch, tempfile
    >>> store = grinch.open(tempfile.mkdtemp(), n_clusters=2)
    >>> store.insert([[1, 0], [0, 9], [2, 0.1]], ids=["a", "b", "c"], payload=[{"title": "A"}, None, "C"])
    1
    >>> store.label(0, "first")
    2
    >>> store.insert([[0.1, 8]], ids=["d"])
    3
    >>> [(change.kind, change.cluster, change.size) for change in store.changes(since=2)]
    [('grew', 1, 2)]
    >>> store.payload(["a", "d"])
    [{'title': 'A'}, None]
    >>> store.close()
    """

    # Changes ------------------------------------------------------------------------------------------------------

    def insert(
        self, X: Any, ids: Any = None, payload: Any = None, *, columns: Any = None, new_columns: bool = False
    ) -> int:
        """Insert points, all of them or none; the version afterwards.

        A point that is there already under the same id, with the same row, is passed over: so a batch can be sent
        again when it is not known whether it arrived. With another row it is refused (use :meth:`update`).

        Parameters
        ----------
        X : array-like, sparse matrix or list of records
            The points.
        ids : list of str or int, optional
            Their ids, for all points of a store or for none. Without ids, points are numbered as they come.
        payload : list or frame, optional
            Anything that JSON can hold for each point, or None.
        columns : list of str, optional
            The names of the columns of X, if it is no frame that knows them; later points must have the same.
        new_columns : bool, default=False
            Let a sparse X have more columns than there were, or fewer (:meth:`grinch.Grinch.partial_fit`); with names,
            the first ones must be those that are known.
        """
        check_flag("new_columns", new_columns)
        with self._turn:
            contents = self._writable()
            if inputs.is_empty(X):
                return contents.version
            columns = inputs.columns_of(X) if columns is None else [str(name) for name in columns]
            rows = self._checked(X, contents, columns, new_columns)
            names = inputs.check_ids(ids, count_rows(rows), self._db.get("is_named"), self._db.get("id_kind"))
            payloads = inputs.check_payload(payload, count_rows(rows))
            try:
                return self._insert(contents, rows, names, payloads, columns)
            except KnownId:
                assert names is not None
            kept = self._new_ones(contents, rows, names, payloads)
            if not len(kept):
                return contents.version
            names = [names[i] for i in kept.tolist()]
            payloads = None if payloads is None else [payloads[i] for i in kept.tolist()]
            return self._insert(contents, inputs.taken(rows, kept), names, payloads, columns)

    def _insert(
        self,
        contents: Contents,
        rows: Any,
        names: list[Id] | None,
        payloads: list[str | None] | None,
        columns: list[str] | None,
    ) -> int:
        n = count_rows(rows)
        with self._changing(n) as version:
            if names is not None or payloads is not None:
                self._db.add_points(contents.n_given, names, payloads, n)
            if not contents.is_fitted:
                self._begin_rows(rows, names, columns)
            elif columns is not None and len(columns) > len(self._db.get("columns") or columns):
                self._db.set("columns", columns)
            is_first, done = not contents.is_fitted, self._append("insert", version, rows, None)
            self._done(done, contents.insert(version, rows, done.first_row))
            if is_first:
                # A linkage whose summaries cannot be written is refused now, not when the first snapshot is due.
                contents.parts()
        return version

    def adopt(self, X: Any, tree: Tree, ids: Any = None, payload: Any = None, *, columns: Any = None) -> int:
        """Begin with points that have a tree already, which stays as it is; the version afterwards.

        For a store to which no points have come. Leaf ``i`` of the tree is row ``i``; all else is as in :meth:`insert`.

        >>> import grinch, tempfile
        >>> X = [[1, 0], [0, 9], [2, 0.1], [0.1, 8]]
        >>> with grinch.open(tempfile.mkdtemp()) as store:
        ...     _ = store.adopt(X, grinch.Tree.from_newick("((0,1),(2,3));"))
        ...     store.tree.to_newick(lengths=False)
        '((0,1),(2,3));'
        """
        with self._turn:
            contents = self._writable()
            if contents.is_fitted:
                raise ValueError(f"tree is for a store without points, and this one has had {contents.n_given:,}")
            columns = inputs.columns_of(X) if columns is None else [str(name) for name in columns]
            rows = self._checked(X, contents, columns)
            names = inputs.check_ids(ids, count_rows(rows), None)
            payloads = inputs.check_payload(payload, count_rows(rows))
            snapshot = self._next_snapshot()
            with self._changing(0, snapshot) as version:
                if names is not None or payloads is not None:
                    self._db.add_points(0, names, payloads, count_rows(rows))
                self._begin_rows(rows, names, columns)
                done = self._append("adopt", version, rows, None)
                self._done(done, contents.adopt(version, rows, tree, done.first_row))
                # The rows alone would give another tree.
                self._write_snapshot(contents, snapshot)
                self._let_count(snapshot, version)
            self._counts(version)
            return version

    def remove(self, ids: Any) -> int:
        """Remove points, all of them or none; the version afterwards. Ids that were removed before are passed over."""
        with self._turn:
            contents = self._writable()
            positions, names = self._positions_still_there(ids)
            if not len(positions):
                return contents.version
            with self._changing(len(positions)) as version:
                self._db.remove_points(positions.tolist(), names if self._db.get("is_named") else ())
                done = Operation(version, "remove", data=positions.astype("<i8").tobytes())
                self._done(done, contents.remove(version, positions))
            return version

    def update(self, ids: Any, X: Any = None, payload: Any = None) -> int:
        """Give points other rows, or another payload, or both; the version afterwards.

        What stays as it is counts as no change; a point with another row is placed again.
        """
        with self._turn:
            contents = self._writable()
            if X is None and payload is None:
                raise ValueError("X or payload must be given: what the points are to be, or what is kept beside them")
            positions = self._positions(ids)
            if not len(positions):
                return contents.version
            rows = None if X is None else self._checked(X, contents)
            if rows is not None and count_rows(rows) != len(positions):
                raise ValueError(f"X must have a row for each of the {len(positions)} ids; got {count_rows(rows)}")
            payloads = inputs.check_payload(payload, len(positions))
            moved: Slots = np.empty(0, np.intp)
            if rows is not None:
                moved = np.flatnonzero(~inputs.same_rows(rows, self._rows_at(contents.row_of[positions])))
            is_payload_new = payloads is not None and payloads != self._db.payloads_at(positions.tolist())
            if not len(moved) and not is_payload_new:
                return contents.version
            with self._changing(2 * len(moved)) as version:
                if payloads is not None:
                    self._set_payloads(positions, payloads)
                if not len(moved):
                    done = Operation(version, "payload")
                    self._done(done, contents.nothing(version))
                else:
                    at, new = positions[moved], inputs.taken(rows, moved)
                    done = self._append("update", version, new, at.astype("<i8").tobytes())
                    self._done(done, contents.update(version, at, new, done.first_row))
            return version

    def refine(self, passes: int = 1) -> int:
        """Improve the tree (:meth:`grinch.Grinch.refine`), and take a snapshot of it; the version afterwards."""
        with self._turn:
            contents = self._writable()
            check_count("passes", passes, 1)
            if contents.n_points < 3:
                return contents.version
            snapshot = self._next_snapshot()
            with self._changing(0, snapshot) as version:
                found = contents.refine(version, passes)
                self._done(Operation(version, "refine"), found)
                self._write_snapshot(contents, snapshot)
                self._let_count(snapshot, version)
            self._counts(version)
            return version

    def add_cut(
        self,
        name: str,
        *,
        n_clusters: int | None = None,
        threshold: float | None = None,
        cut: str = "sizeable",
        layer: str | int = "auto",
    ) -> int:
        """Follow another cut of the tree from now on; returns the version afterwards.

        How it is made is as in :class:`grinch.Grinch`: into a number of clusters, at a threshold, or automatic. An
        automatic cut whose ``layer`` is a number is the coarsest as long as there are fewer layers.
        """
        with self._turn:
            contents = self._writable()
            how = inputs.check_how(n_clusters, threshold, cut, layer)
            name = inputs.check_text("name", name)
            if name in contents.tracking.names:
                raise ValueError(f"name must be a text that no cut is called by yet; got {name!r}")
            # A later cut of the same name is another one, and its clusters have other ids.
            with self._changing(0) as version:
                done = Operation(version, "add_cut", data=json.dumps({"name": name, **how}).encode())
                self._done(done, contents.add_cut(version, name, how))
            return version

    def drop_cut(self, name: str) -> int:
        """Follow a cut no longer, and forget the names of its clusters; what happened to them stays known."""
        with self._turn:
            contents = self._writable()
            self._check_cut_name(name)
            if name == DEFAULT_CUT:
                raise ValueError(f"name must be that of another cut than {DEFAULT_CUT!r}, which every store has")
            with self._changing(0) as version:
                self._db.drop_names(name)
                done = Operation(version, "drop_cut", data=json.dumps({"name": name}).encode())
                self._done(done, contents.drop_cut(version, name))
            return version

    def recut(self, cut: str = DEFAULT_CUT) -> int:
        """Let an automatic cut choose its resolution again; clusters that are still the same keep their ids."""
        with self._turn:
            contents = self._writable()
            self._check_cut_name(cut)
            if not contents.n_points:
                return contents.version
            with self._changing(0) as version:
                done = Operation(version, "recut", data=json.dumps({"name": cut}).encode())
                self._done(done, contents.recut(version, cut))
            return version

    def label(self, cluster: int, name: str | None, cut: str = DEFAULT_CUT) -> int:
        """Give a cluster a name that stays with its id (None: take it away); the version afterwards."""
        with self._turn:
            contents = self._writable()
            self._check_cut_name(cut)
            if name is not None:
                name = inputs.check_text("name", name)
            size = 0 if isinstance(cluster, bool) else int((self.labels(cut) == cluster).sum())
            if not size or cluster < 0:
                raise ValueError(f"cluster must be the id of a cluster there is (see clusters()); got {cluster!r}")
            if self._db.names(cut).get(cluster) == name:
                return contents.version
            with self._changing(0) as version:
                self._db.set_name(cut, int(cluster), name)
                renamed = Change(version, cut, "renamed", int(cluster), (), size, 0, ())
                done = Operation(version, "label")
                self._done(done, [*contents.nothing(version), renamed])
            return version

    # Care ---------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Verify everything on disk and in memory; raises :class:`DamagedStore` with what is wrong.

        A reader verifies what is committed by now.
        """
        self._wait_for_aside()
        with self._turn:
            self._while_others_write(self._check)

    def _check(self) -> None:
        self.refresh()
        check_store(self, self._now(), self._db)

    def compact(self) -> int:
        """Let nothing of removed points, and of earlier rows of updated ones, be left on disk; the version afterwards.

        Ids, positions, clusters and what happened to them stay. What came later is placed as in a tree that never had
        the removed points' slots, so it may be another tree than without compacting.
        """
        self._wait_for_aside()
        with self._turn:
            contents = self._writable()
            check_rows(self, self._db)
            NodeNames(self.folder / NAMES_FILE).forget(self._are_there)
            vectors, snapshot, name = self._vectors, self._next_snapshot(), vectors_name()
            with self._changing(0, snapshot, name, name + ENDS) as version:
                kept = contents.compact(version)
                self._db.forget_operations()
                checksum = 0
                if vectors is None:
                    self._db.renumber_records(kept)
                else:
                    self._vectors = type(vectors)(self.folder / name, vectors.dtype, vectors.width)
                    checksum = checksum_rows(self._copy_rows(vectors, kept))
                    self._db.set("vectors", name)
                # Where the snapshot is lost, only this says which row is whose.
                data = contents.positions_by_row().astype("<i8").tobytes()
                self._done(Operation(version, "compact", 0, contents.n_rows, checksum, data), [])
                self._write_snapshot(contents, snapshot)
                self._let_count(snapshot, version)
                self._db.set("is_to_be_vacuumed", True)
            if vectors is not None:
                vectors.close()
            self._counts(version)
            self._vacuum()
            return version

    def _copy_rows(self, source: disk.RowFile | SparseRowFile, kept: Counts) -> Iterator[Any]:
        """Put some rows into the new file, and hand them on."""
        vectors: Any = self._vectors
        step = max(disk.CHUNK * 16 // source.row_bytes, 1)
        vectors.append(0, source.empty(0))
        for start in range(0, len(kept), step):
            piece = source.at(kept[start : start + step])
            vectors.append(start, piece)
            yield piece

    def backup(self, path: str | Path) -> None:
        """Copy the store into a new folder, also while somebody writes: what is committed when it begins."""
        target = Path(path)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise FileExistsError(f"path must be a new or an empty folder; {str(target)!r} is there")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
        with self._turn:
            self._now()
            try:
                # A view of its own: that of a reader is of files that may be gone.
                with closing(Database(self.folder, readonly=True)) as database:
                    _back_up(self.folder, database, temporary)
                if target.exists():
                    target.rmdir()
                os.replace(temporary, target)
                disk.sync_folder(target.parent)
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise

    # Within -------------------------------------------------------------------------------------------------------

    def _are_there(self, ids: list[Id]) -> list[bool]:
        return [position is not None for position in self._positions_or_none(ids)[0]]

    def _set_payloads(self, positions: Counts, payloads: list[str | None]) -> None:
        if not self._db.get("is_named"):
            self._db.file_positions(positions.tolist())
        self._db.set_payloads(positions.tolist(), payloads)

    def _new_ones(
        self, contents: Contents, rows: Any, names: list[Id], payloads: list[str | None] | None
    ) -> npt.NDArray[np.intp]:
        """Which of some points are not there yet; the others must be the same as those that are."""
        positions = self._db.positions_of(names)
        known = np.array([i for i, position in enumerate(positions) if position is not None], np.intp)
        at = np.array([positions[i] for i in known.tolist()], np.int64)
        same = inputs.same_rows(inputs.taken(rows, known), self._rows_at(contents.row_of[at]))
        if not same.all():
            name = names[int(known[np.argmin(same)])]
            raise ValueError(
                f"ids must be new, or name points with the same row; {name!r} is there with another. Nothing was"
                " inserted; use update to change a point"
            )
        if payloads is not None:
            for i, kept in zip(known.tolist(), self._db.payloads_at(at.tolist()), strict=True):
                if _parsed(payloads[i]) != _parsed(kept):
                    raise ValueError(
                        f"payload must be the same for points that are there; that of {names[i]!r} is another. Nothing"
                        " was inserted; use update to change it"
                    )
        return np.setdiff1d(np.arange(len(names)), known)


def _parsed(payload: str | None) -> Any:
    return None if payload is None else json.loads(payload)


def _back_up(folder: Path, database: Database, target: Path) -> None:
    for _ in range(20):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        database.copy_to(target / database.path.name)
        copy = Database(target, readonly=True)
        try:
            names = [copy.get("snapshot")] + ([copy.get("vectors")] if copy.get("n_features") is not None else [])
            names += [copy.get("vectors") + ENDS] if copy.find("is_sparse") else []
        finally:
            copy.close()
        try:
            for name in names:
                disk.copy_file(folder / name, target / name)
            NodeNames(folder / NAMES_FILE).copy_to(target / NAMES_FILE)
            if (folder / inputs.TEXT_FILE).exists():
                disk.copy_file(folder / inputs.TEXT_FILE, target / inputs.TEXT_FILE)
        except FileNotFoundError:
            # The writer has just taken another snapshot.
            continue
        disk.sync_folder(target)
        return
    raise OSError(f"{folder} changed too often to be copied; try again")
