"""The store: a folder with a cluster tree, its points and its history; every change is durable when it returns."""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
import numpy.typing as npt

import grinch
from grinch._checks import check_count, check_flag, count_rows, taken
from grinch._interrupts import no_garbage_collection
from grinch._types import Counts, Ids, Labels, Slots
from grinch.core.engine import ENGINE
from grinch.cuts.tracking import Change
from grinch.errors import LinkageError
from grinch.estimators.checks import no_advice
from grinch.estimators.grinch import Grinch
from grinch.linkage.named import metric_in_full
from grinch.saving.container import Container
from grinch.store import inputs, snapshots
from grinch.store.damage import DamagedStore, OtherEngine, damaged, reading
from grinch.store.database import NOT_IN_LOG, Database, Id, KnownId, Operation
from grinch.store.forks import CAN_FORK
from grinch.store.lock import Gate, StoreLocked, WriterLock, describe, holder
from grinch.store.maintenance import back_up, check_store
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.node_names import NodeNames
from grinch.store.queries import DEFAULT_CUT, FrozenState, View
from grinch.store.recuts import Recuts
from grinch.store.rows import StoredRows, block_sums, files_of, vectors_name
from grinch.store.snapshots import Snapshots, Verification, snapshot_name
from grinch.store.state import Made, StoreState, ids_as_arrays
from grinch.tree import Tree

# Entries of the database that are in a snapshot, too, to rebuild a store.
ALSO_IN_SNAPSHOTS = ("vectors", "dtype", "n_features", "is_sparse", "is_named", "id_kind", "columns", "default_cut")
# A change of this share of the points publishes a view before it begins, also if no reader has asked for one: one over
# this number. It takes a few per cent of the time of the change.
PUBLISHED_SHARE = 64
POINTS = "model/fitted.builder.summaries.arrays.means"

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


class StoreClosed(RuntimeError):
    """The store was closed, and cannot be used."""


def _asking(
    query: Callable[Concatenate[View, Asked], Answer], *, placing: bool = False
) -> Callable[Concatenate[Store, Asked], Answer]:
    """Return a method that queries the view of the last version."""

    @wraps(query)
    def ask(self: Store, *arguments: Asked.args, **keywords: Asked.kwargs) -> Answer:
        with self.view(placing=placing) as view:
            return query(view, *arguments, **keywords)

    return ask  # type: ignore[return-value]  # the first parameter has a name


def _asking_property(query: Any) -> Any:
    return property(_asking(query.fget), doc=query.__doc__)


class Store:
    """A clustering in a folder, opened by :func:`grinch.open`. Every change is on disk when its method returns.

    One process writes, any number of others read. Changes are atomic: if one fails, the store is as it was before.
    Every change makes a version, counted from 1. Threads can share a store: while one of them changes it, the others
    see the previous version.

    Points have ids (texts or whole numbers; without any, they are numbered in order of arrival), and may have a
    payload: anything that JSON can hold. Clusters have permanent ids too: see :meth:`clusters`.

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

    def __init__(
        self,
        folder: Path,
        lock: WriterLock | None,
        given: dict[str, Any],
        verbose: bool | int,
        *,
        any_engine: bool = False,
    ):
        """Open the store in a folder: to write with a lock, otherwise to read; ``given`` are model parameters."""
        self.folder, self._pid = folder, os.getpid()
        self._lock, self._given, self._verbose, self._any_engine = lock, given, verbose, any_engine
        self._gate: Gate[View] = Gate()
        self._open_database: Database | None = Database(folder, readonly=True)
        # Connections for views that are not in use.
        self._spare: list[Database] = []
        self._snapshots, self._recuts = Snapshots(folder, self._open_database), Recuts(folder)
        self._rows = StoredRows(folder, self._open_database, is_readonly=lock is None)
        self._state: StoreState | None = None
        self._verification: Verification | None = None
        try:
            self._database.check_format()
            if self.is_readonly:
                self._database.look_again()
            snapshot, state, later = self._read()
            self._check_given(state.model)
            if not self.is_readonly:
                # Not before all of it is read: if anything is damaged, nothing is written.
                self._database.become_writable()
            self._take_up(state, later)
            if not self.is_readonly:
                self._snapshots.clean()
            self._verify_rest(snapshot)
        except BaseException:
            self._open_database.close()
            raise

    @property
    def is_readonly(self) -> bool:
        return self._lock is None

    def close(self) -> None:
        """Make automatic cuts that are due, take a snapshot if there is anything new, and release the lock.

        Closing again does nothing.
        """
        if os.getpid() != self._pid:
            return
        if not self._gate.is_ours:
            self._snapshots.wait()
        with self._gate.inside():
            if self._open_database is None:
                return
            try:
                if not self.is_readonly and self._state is not None:
                    self._finish_cuts()
                    self.snapshot()
                    self._snapshots.clean()
            except OSError as error:
                warnings.warn(
                    f"{self.folder} was closed without a new snapshot, so opening takes longer, and nothing is lost:"
                    f" {error}",
                    UserWarning,
                    stacklevel=2,
                )
            finally:
                self._release()

    def _release(self) -> None:
        if self._verification is not None:
            self._verification.stop()
        self._recuts.discard()
        database, self._open_database, self._state = self._database, None, None
        for connection in sorted([*self._spare, database], key=lambda connection: connection.closes_last):
            connection.close()
        self._spare.clear()
        self._rows.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._open_database is None:
            return f"<Store {str(self.folder)!r}, closed>"
        return f"<Store {str(self.folder)!r}: {len(self):,} points, version {self.version}>"

    # Reading ------------------------------------------------------------------------------------------------------

    @contextmanager
    def view(self, *, placing: bool = False) -> Iterator[View]:
        """Return a view of one version, to use within a ``with`` statement.

        While another thread changes the store, it is the version before. With ``placing``, it can also place rows
        (``predict``, ``place``): under a linkage written in Python, that waits for the change.

        >>> import grinch, tempfile
        >>> with grinch.open(tempfile.mkdtemp()) as store:
        ...     _ = store.insert([[1, 0], [0, 9], [2, 0.1]])
        ...     with store.view() as view:
        ...         view.version, len(view)
        (1, 3)
        """
        with self._gate.reading(lambda view: not placing or view.can_place) as published:
            self._check_usable()
            yield self._live() if published is None else published

    version: int = _asking_property(View.version)
    ids: list[Id] = _asking_property(View.ids)
    id_kind: str | None = _asking_property(View.id_kind)
    n_given: int = _asking_property(View.n_given)
    n_features: int | None = _asking_property(View.n_features)
    dtype: str | None = _asking_property(View.dtype)
    columns: list[str] | None = _asking_property(View.columns)
    tree: Tree = _asking_property(View.tree)
    bare_tree: Tree = _asking_property(View.bare_tree)
    cut_names: list[str] = _asking_property(View.cut_names)
    __len__ = _asking(View.__len__)
    payload = _asking(View.payload)
    vectors = _asking(View.vectors)
    points_at = _asking(View.points_at)
    rows_at = _asking(View.rows_at)
    position_of = _asking(View.position_of)
    arrived = _asking(View.arrived)
    labels = _asking(View.labels)
    clusters = _asking(View.clusters)
    names = _asking(View.names)
    cuts = _asking(View.cuts)
    changes = _asking(View.changes)
    net_changes = _asking(View.net_changes)
    digest = _asking(View.digest)
    cluster_tree = _asking(View.cluster_tree)
    times = _asking(View.times)
    look = _asking(View.look)
    info = _asking(View.info)
    predict = _asking(View.predict, placing=True)
    place = _asking(View.place, placing=True)

    def find_text(self, text: str, limit: int = 50, seconds: float = 2.0) -> tuple[list[int], bool]:
        """Return the positions of points with this text in their id or payload, and whether all were searched."""
        # By a connection of its own: nothing waits for it.
        with closing(Database(self.folder, readonly=True)) as database:
            return database.find_text(text, limit, time.monotonic() + seconds)

    def touched(self, since: int) -> Slots:
        """Return the nodes of :attr:`tree` whose members changed after version ``since``.

        Whatever was computed for any other node is still right, and can be looked up by the node's key
        (:meth:`grinch.Tree.keys`).
        """
        with self._alone() as state:
            check_count("since", since, 0)
            return np.asarray(state.touched(since), np.intp)

    def layers(self) -> tuple[int, list[tuple[Labels, float]]]:
        """Return the version, and the layers of the automatic cut, the finest first: clusters by leaf, persistence."""
        with self._alone() as state:
            return state.version, state.layers()

    def neighbors(self) -> tuple[Counts, Ids]:
        """Return the positions of all points, and the nearest neighbours of each as numbers into these, best first.

        They are looked for unless they are known; rows are padded with -1.
        """
        with self._alone() as state:
            return state.positions(), state.neighbors()

    def would_recut(self, cut: str = DEFAULT_CUT) -> Any:
        """Return the outcome of :meth:`recut`, without making it."""
        with self._alone() as state:
            self._live().check_cut(cut)
            return state.tracking.would_recut(cut)

    def refresh(self, *, wait: bool = True) -> int:
        """Advance a reader to what is committed now; return the version.

        Without ``wait``, not while another thread has the store to itself.
        """
        if not self.is_readonly or not (wait or self._gate.is_free):
            return self.version
        with self._gate.inside():
            before, newest = self._now(), self._new_connection()
            is_same = newest.version() == before.version
            self.give_back(newest)
            if not is_same and self._gate.is_asked and _has_other_threads():
                self._publish()
            self._database.look_again()
            return before.version if is_same else self._catch_up(before)

    def _catch_up(self, state: StoreState) -> int:
        """Advance to what is committed; what is not in the log is in a snapshot."""
        later, self._state = list(self._database.operations(state.version)), None
        if not any(done.kind in NOT_IN_LOG for done in later):
            with suppress(FileNotFoundError):
                if self._rows.file is None:
                    self._rows.open()  # there may be points now
                else:
                    self._rows.file.width = self._database.get("n_features")  # there may be more columns now
                self._replay(state, later, self._rows)
                self._state = state
        return self._now().version

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
        """Show the store in a page: inline in a notebook, or ``.open()`` in the browser.

        ``text``, ``image``, ``label``, ``x`` and ``y`` name fields of the payload; image files are read below the
        folder ``images``. See docs/explorer.md.
        """
        fields = {"text": text, "image": image, "label": label, "x": x, "y": y}
        return grinch.explore(self, images=images, height=height, fields=fields)

    # Changes ------------------------------------------------------------------------------------------------------

    def insert(
        self, X: Any, ids: Any = None, payload: Any = None, *, columns: Any = None, new_columns: bool = False
    ) -> int:
        """Insert points, all of them or none; return the version afterwards.

        A point that is already there with the same id and row is skipped, so a batch can be inserted again if it is not
        known whether it succeeded. With another row it is refused (use :meth:`update`).

        Parameters
        ----------
        X : array-like, sparse matrix or list of records
            The points.
        ids : list of str or int, optional
            Their ids, for all points of a store or for none. Without ids, points are numbered in order of arrival.
        payload : list or frame, optional
            Anything that JSON can hold for each point, or None.
        columns : list of str, optional
            The names of the columns of X, if it is no frame that knows them; later points must have the same.
        new_columns : bool, default=False
            Let a sparse X have more columns than there were, or fewer (:meth:`grinch.Grinch.partial_fit`); with names,
            the first ones must be those that are known.
        """
        check_flag("new_columns", new_columns)
        with self._writing() as state:
            if inputs.is_empty(X):
                return state.version
            batch = self._checked(X, ids, payload, columns, new_columns)
            try:
                return self._insert(state, batch)
            except KnownId:
                batch = batch.take(self._new_ones(state, batch))
            return self._insert(state, batch) if count_rows(batch.rows) else state.version

    def _checked(self, X: Any, ids: Any, payload: Any, columns: Any, new_columns: bool = False) -> inputs.Batch:
        """Return points that come as the store keeps them."""
        columns = inputs.columns_of(X) if columns is None else [str(name) for name in columns]
        rows = self._rows.checked(X, self._now().row_check(), columns, new_columns)
        n, is_named, kind = count_rows(rows), self._database.get("is_named"), self._database.get("id_kind")
        return inputs.Batch(rows, inputs.check_ids(ids, n, is_named, kind), inputs.check_payload(payload, n), columns)

    def _insert(self, state: StoreState, batch: inputs.Batch) -> int:
        is_first = not state.is_fitted
        with self._changing(count_rows(batch.rows)) as version:
            done = self._add(state, "insert", version, batch)
            self._note(done, state.apply(done, batch.rows))
            if is_first:
                # A linkage whose summaries cannot be written is refused now, not when the first snapshot is due.
                state.to_state()
        return version

    def _add(self, state: StoreState, kind: str, version: int, batch: inputs.Batch) -> Operation:
        """Put points on disk; return the operation that brings them."""
        if batch.ids is not None or batch.payloads is not None:
            self._database.add_points(state.n_given, batch.ids, batch.payloads, count_rows(batch.rows))
        if not state.is_fitted:
            self._rows.begin(batch.rows, batch.ids, batch.columns)
        elif batch.columns is not None and len(batch.columns) > len(self._database.get("columns") or batch.columns):
            self._database.set("columns", batch.columns)
        return self._rows.append(kind, version, state.n_rows, batch.rows)

    def adopt(self, X: Any, tree: Tree, ids: Any = None, payload: Any = None, *, columns: Any = None) -> int:
        """Insert the first points of a store with an existing tree; return the version afterwards.

        Leaf ``i`` of the tree is row ``i``; all else is as in :meth:`insert`.

        >>> import grinch, tempfile
        >>> X = [[1, 0], [0, 9], [2, 0.1], [0.1, 8]]
        >>> with grinch.open(tempfile.mkdtemp()) as store:
        ...     _ = store.adopt(X, grinch.Tree.from_newick("((0,1),(2,3));"))
        ...     store.tree.to_newick(lengths=False)
        '((0,1),(2,3));'
        """
        with self._writing() as state:
            if state.is_fitted:
                raise ValueError(f"tree is for a store without points, and this one has had {state.n_given:,}")
            batch = self._checked(X, ids, payload, columns)
            # The rows alone would give another tree.
            with self._changing_by_snapshot() as version:
                done = self._add(state, "adopt", version, batch)
                self._note(done, state.adopt(version, batch.rows, tree))
            return version

    def remove(self, ids: Any) -> int:
        """Remove points, all of them or none; ids that were removed before are skipped. Return the version."""
        with self._writing() as state:
            positions, names = self._live().positions_to_remove(ids)
            if not len(positions):
                return state.version
            with self._changing(len(positions)) as version:
                self._database.remove_points(positions.tolist(), names if self._database.get("is_named") else ())
                self._apply(Operation(version, "remove", data=positions.astype("<i8").tobytes()))
            return version

    def update(self, ids: Any, X: Any = None, payload: Any = None) -> int:
        """Replace the rows of points, or their payload, or both; return the version afterwards.

        Values that stay the same are no change; a point with another row is placed again.
        """
        with self._writing() as state:
            if X is None and payload is None:
                raise ValueError("X or payload must be given: the new rows of the points, or their new payload")
            positions = self._live().positions(ids)
            if not len(positions):
                return state.version
            rows = None if X is None else self._rows.checked(X, state.row_check())
            if rows is not None and count_rows(rows) != len(positions):
                raise ValueError(f"X must have a row for each of the {len(positions)} ids; got {count_rows(rows)}")
            payloads = inputs.check_payload(payload, len(positions))
            moved: Slots = np.empty(0, np.intp)
            if rows is not None:
                moved = np.flatnonzero(~inputs.same_rows(rows, self._rows.at(state.row_of[positions])))
            is_payload_new = payloads is not None and payloads != self._database.payloads_at(positions.tolist())
            if not len(moved) and not is_payload_new:
                return state.version
            with self._changing(2 * len(moved)) as version:
                if payloads is not None:
                    self._database.set_payloads(positions.tolist(), payloads)
                if not len(moved):
                    self._apply(Operation(version, "payload"))
                else:
                    new, data = taken(rows, moved), positions[moved].astype("<i8").tobytes()
                    self._apply(self._rows.append("update", version, state.n_rows, new, data), new)
            return version

    def refine(self, passes: int = 1) -> int:
        """Improve the tree (:meth:`grinch.Grinch.refine`), and take a snapshot of it; return the version."""
        with self._writing() as state:
            check_count("passes", passes, 1)
            if state.n_points < 3:
                return state.version
            with self._changing_by_snapshot() as version:
                self._note(Operation(version, "refine"), state.refine(version, passes))
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
        """Track another cut of the tree from now on; return the version afterwards.

        The parameters are those of :class:`grinch.Grinch`: a number of clusters, a threshold, or an automatic cut. An
        automatic cut whose ``layer`` is a number is the coarsest as long as there are fewer layers.
        """
        with self._writing() as state:
            how = inputs.check_how(n_clusters, threshold, cut, layer)
            name = inputs.check_text("name", name)
            if name in state.cut_names:
                raise ValueError(f"name must be a text that no cut is called by yet; got {name!r}")
            with self._changing(is_long=True) as version:
                self._apply(_with_json(version, "add_cut", name=name, **how))
            return version

    def drop_cut(self, name: str) -> int:
        """Stop tracking a cut, and forget the names of its clusters; their history stays.

        A later cut of the same name is another one, and its clusters have other ids.
        """
        with self._writing():
            self._live().check_cut(name)
            if name == DEFAULT_CUT:
                raise ValueError(f"name must be that of another cut than {DEFAULT_CUT!r}, which every store has")
            with self._changing() as version:
                self._database.drop_names(name)
                self._apply(_with_json(version, "drop_cut", name=name))
            return version

    def recut(self, cut: str = DEFAULT_CUT) -> int:
        """Make an automatic cut of the tree as it is, now; clusters that are still the same keep their ids.

        It is made by itself when a quarter of the points came, left or moved. Other cuts are always up to date.
        """
        with self._writing() as state:
            self._live().check_cut(cut)
            if not state.n_points:
                return state.version
            if cut in self._recuts.names:
                self._recuts.discard()
            return self._recut([cut])

    def _recut(self, names: list[str], made: Made | None = None) -> int:
        """Take automatic cuts that were made, or make them now; return the version."""
        with self._changing(is_long=made is None) as version:
            self._apply(_with_json(version, "recut", names=names), made=made)
        return version

    def label(self, cluster: int, name: str | None, cut: str = DEFAULT_CUT) -> int:
        """Set the name of a cluster, which stays with its id (None: delete it); return the version afterwards."""
        with self._writing() as state:
            labels = self._live().labels(cut)
            if name is not None:
                name = inputs.check_text("name", name)
            size = 0 if isinstance(cluster, bool) else int((labels == cluster).sum())
            if not size or cluster < 0:
                raise ValueError(f"cluster must be the id of a cluster there is (see clusters()); got {cluster!r}")
            if self._database.names(cut).get(cluster) == name:
                return state.version
            with self._changing() as version:
                self._database.set_name(cut, int(cluster), name)
                self._apply(Operation(version, "label"))
                self._database.add_changes(version, [Change(version, cut, "renamed", int(cluster), (), size, 0, ())])
            return version

    # Maintenance --------------------------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Write the whole state to a new snapshot, so that opening need not replay operations; also automatic."""
        if not self._gate.is_ours:
            self._snapshots.wait()
        with self._writing() as state:
            if state.version > self._snapshots.version:
                name = snapshot_name(state.version)
                self._announce(name)
                self._snapshots.write(name, self._snapshot_content(state))
                self._let_snapshot_count(name)
                self._snapshots.restart()

    def check(self) -> None:
        """Verify everything on disk and in memory; raises :class:`DamagedStore` with the reason.

        A reader verifies what is committed by now.
        """
        if not self._gate.is_ours:
            self._snapshots.wait()
        with self._alone():
            self._while_others_write(self._check)

    def _check(self) -> None:
        self.refresh()
        state, (snapshot, _) = self._now(), self._snapshots.read()
        again = StoredRows(self.folder, self._database, is_readonly=True)
        with closing(again):
            read = self._read_state(again)[1]
            check_store(self.folder, state, read, self._database, self._rows, snapshot)

    def compact(self) -> int:
        """Delete removed points, and earlier rows of updated ones, from disk; return the version.

        Ids, positions, clusters and their history stay. Later points are placed as in a tree that never had the removed
        points, so the tree may differ from one without compacting.
        """
        if not self._gate.is_ours:
            self._snapshots.wait()
        with self._writing() as state:
            with closing(self._database.operations(0)) as operations:
                self._rows.check(operations)
            NodeNames(self.folder / NAMES_FILE).forget(
                lambda ids: [position is not None for position in self._live().find_positions(ids)[0]]
            )
            name = vectors_name()
            with self._changing_by_snapshot(*files_of(name)) as version:
                kept = state.compact(version)
                self._database.forget_operations()
                checksum = self._rows.rewrite(kept, name)
                # If the snapshot is lost, only this maps rows to points.
                data = state.positions_by_row().astype("<i8").tobytes()
                self._note(Operation(version, "compact", 0, state.n_rows, checksum, data), [])
                self._database.set("is_to_be_vacuumed", True)
            # What a reader still uses cannot be taken out of SQLite's log.
            self._gate.withdraw()
            self._vacuum()
            return version

    def backup(self, path: str | Path) -> None:
        """Copy the store, as it is committed now, into a new folder, also while another process writes."""
        with self._alone():
            back_up(self.folder, Path(path))

    # Opening ------------------------------------------------------------------------------------------------------

    @property
    def _database(self) -> Database:
        if self._open_database is None:
            raise StoreClosed(f"the store in {str(self.folder)!r} is closed; open it again with grinch.open")
        if os.getpid() != self._pid:
            raise StoreClosed(
                f"the store in {str(self.folder)!r} was opened by process {self._pid}, of which this one is a fork;"
                " open it here with grinch.open (readonly=True, if the other one writes)"
            )
        return self._open_database

    def _now(self) -> StoreState:
        """Return the state; it is read again from disk if a change failed half way."""
        self._check_usable()
        if self._state is None:
            _, state, later = self._read()
            self._take_up(state, later)
        assert self._state is not None
        return self._state

    def _check_usable(self) -> None:
        """Raise if the store is closed, or damage was found since it was opened."""
        _ = self._database
        if self._verification is not None:
            self._verification.check()

    def _read(self) -> tuple[Container, StoreState, list[Operation]]:
        """Return what is on disk, and the operations since the snapshot; nothing is written."""
        snapshot, state, later = self._while_others_write(lambda: self._read_state(self._rows))
        need = min([done.first_row for done in later if done.n_rows], default=state.n_rows)
        self._rows.check_size(need, state.n_features)
        self._snapshots.begin(snapshot, sum(done.n_rows for done in later), len(later))
        state.model.verbose = self._verbose
        return snapshot, state, later

    def _read_state(self, rows: StoredRows) -> tuple[Container, StoreState, list[Operation]]:
        snapshot, is_ours = self._snapshots.read()
        if is_ours:
            snapshots.verify_pointers(snapshot)
        else:
            # It was not written here, but copied: nothing in it is trusted.
            snapshots.verify(snapshot)
        own = inputs.own_parts(self._given)
        with reading(snapshot.path, ValueError):
            state = StoreState.from_snapshot(snapshot, self.folder, **own)
            if not is_ours:
                state.model.validate()
            rows.open(state.row_sums)
        later = list(self._database.operations(state.version))
        self._replay(state, later, rows)
        return snapshot, state, later

    def _check_engine(self, later: list[Operation]) -> None:
        """Raise if an operation to replay was made by another engine: the tree could become another one."""
        other = next((done for done in later if done.engine != ENGINE), None)
        if other is not None and not self._any_engine:
            raise OtherEngine(
                f"{self.folder} has {len(later):,} operations since its last snapshot, which engine {other.engine} of"
                f" grinch made; this is engine {ENGINE}, and could build another tree from them. Open and close it once"
                f" with the release that wrote it, or replay them in a new folder:"
                f" grinch store replay {self.folder} NEW"
            )

    def _replay(self, state: StoreState, later: list[Operation], rows: StoredRows) -> None:
        self._check_engine(later)
        # Advice was given when the points came.
        with reading(self._database.path, ValueError), no_advice():
            for done in later:
                if done.version != state.version + 1:
                    raise damaged(self._database.path, f"version {state.version + 1} is not in 'operations'")
                state.apply(done, rows.of(done) if done.n_rows else None, self._database.made(done.version))

    def _take_up(self, state: StoreState, later: list[Operation]) -> None:
        """Continue with what was read."""
        self._rows.take_up(later)
        if not self.is_readonly and self._database.get("is_to_be_vacuumed"):
            self._vacuum()
        self._state = state

    def _while_others_write(self, look: Callable[[], Answer]) -> Answer:
        """Read files; for a reader, later ones if those that counted were deleted meanwhile."""
        for attempt in range(20):
            try:
                return look()
            except FileNotFoundError as error:
                missing = error
                if not self.is_readonly:
                    break
                self._database.look_again()
                # A writer that is ahead once may be ahead again.
                time.sleep(0.002 * attempt)
        raise damaged(Path(missing.filename or self.folder), "it is not there")

    def _check_given(self, model: Grinch) -> None:
        """Raise unless the parameters given to open the store are those that it was made with."""
        known = {**model.get_params(), "metric": metric_in_full(model.linkage, model.metric)}
        for name, value in self._given.items():
            if isinstance(value, (str, int, tuple)) and value != known[name]:
                raise ValueError(
                    f"{name} cannot change: {str(self.folder)!r} was made with {name}={known[name]!r}, got {value!r}."
                    " Leave it out, or give another folder"
                )

    def _verify_rest(self, snapshot: Container) -> None:
        """Verify in the background what opening did not; rows that are used meanwhile are verified first."""
        rest = [*snapshots.unverified(snapshot), *self._rows.unverified()]
        if not rest:
            return
        self._verification = verification = Verification(rest)
        known = set[int]()

        def verify_points(slots: Slots) -> None:
            if verification.is_done:
                return verification.check()
            for number in snapshots.numbers_in_block(snapshot, POINTS, slots).tolist():
                if number not in known:
                    snapshots.verify_block(snapshot, POINTS, number)
                    known.add(number)

        if POINTS in snapshot.arrays and self._state is not None:
            self._state.verify_points = verify_points

    # Threads ------------------------------------------------------------------------------------------------------

    def _live(self) -> View:
        """Return a view of the current state, for the thread that is inside the gate."""
        return View(self.folder, self._now(), self._database, self._rows, self._snapshots.version)

    @contextmanager
    def _alone(self) -> Iterator[StoreState]:
        """Hold the gate for long, without a change; others read meanwhile."""
        with self._gate.inside():
            state = self._now()
            if _has_other_threads():
                self._publish()
            yield state

    @contextmanager
    def _writing(self) -> Iterator[StoreState]:
        """Hold the gate to make a change."""
        if self.is_readonly:
            raise PermissionError(
                f"the store in {str(self.folder)!r} was opened with readonly=True; open it without to change it"
            )
        with self._gate.inside():
            yield self._now()

    def _publish(self) -> None:
        """Let other threads read the state before it is changed."""
        state = self._now()
        try:
            frozen = FrozenState(state)
        except LinkageError:  # a reader gets it, too
            return
        if self.is_readonly:
            # Its connection sees this version only as long as it does not look again.
            database, self._open_database = self._database, self._new_connection()
            self._snapshots.database = self._rows.database = self._open_database
        else:
            database = self._new_connection()
        view = View(self.folder, frozen, database, self._rows.fixed(state.n_rows, database), self._snapshots.version)
        weakref.finalize(view, _give_back, database, weakref.ref(self))
        self._gate.publish(view)

    def _new_connection(self) -> Database:
        """Return a connection for reading, which sees what is committed now."""
        connection = self._spare.pop() if self._spare else self._database.reader()
        connection.look_again()
        return connection

    def give_back(self, connection: Database) -> None:
        """Accept a connection that a view no longer needs."""
        if self._open_database is None:
            connection.close()
        else:
            connection.end_look()
            self._spare.append(connection)

    # Changing -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self, n_points: int = 0, *new_files: str, is_long: bool = False) -> Iterator[int]:
        """Yield the version that a change makes; if anything is raised on the way, the store is as it was.

        ``n_points`` come, go or move; ``new_files`` are the names of files that are made on the way.
        """
        state = self._now()
        is_long = is_long or n_points * PUBLISHED_SHARE >= state.n_points > 0
        if (is_long or self._gate.is_asked) and _has_other_threads():
            self._publish()
        n_begun = state.n_begun
        if new_files:
            self._announce(*new_files)
        try:
            with self._database.changing(), no_garbage_collection():
                self._check_alone(state)
                yield state.version + 1
        except BaseException as error:
            if state.n_begun != n_begun:
                # Memory is ahead of the disk: it is read again.
                self._state = None
            self._rows.open()
            if isinstance(error, LinkageError):
                error.outcome = "The store is as it was before"
            raise
        self._rows.commit()
        self._snapshots.note(n_points)
        # The change is made; where there is no room for a snapshot, there will be another time.
        with suppress(OSError, RuntimeError, MemoryError, DamagedStore):
            self._snapshot_if_due(state)
        with suppress(OSError, RuntimeError, MemoryError, DamagedStore):
            self._recut_if_due()

    @contextmanager
    def _changing_by_snapshot(self, *new_files: str) -> Iterator[int]:
        """Yield the version that a change makes which ends with a snapshot, for the log does not have it."""
        name = snapshot_name(self._now().version + 1)
        with self._changing(0, name, *new_files, is_long=True) as version:
            yield version
            self._rows.commit()
            self._snapshots.write(name, self._snapshot_content(self._now()))
            self._rows.sync()
            self._snapshots.let_count(name)
        self._snapshots.counts(name)

    def _check_alone(self, state: StoreState) -> None:
        """Raise if another process has written meanwhile: the file of the lock may have been deleted."""
        assert self._lock is not None
        if self._database.version() != state.version or not self._lock.is_ours():
            raise StoreLocked(
                f"{self.folder} is no longer this process's to write: its lock was deleted, and it may be written to"
                f" by {describe(holder(self.folder))}. Close it and open it again"
            )

    def _apply(self, done: Operation, rows: Any = None, made: Made | None = None) -> None:
        """Make a change and add it to the log."""
        self._note(done, self._now().apply(done, rows, made))

    def _note(self, done: Operation, changes: list[Change]) -> None:
        """Add an operation to the log, the automatic cuts that were made with it, and what it changed."""
        assert self._state is not None
        self._database.add_operation(done)
        self._database.add_made(done.version, self._state.made)
        self._database.add_changes(done.version, changes)

    def _announce(self, *names: str) -> None:
        with self._database.changing():
            self._check_alone(self._now())
            self._snapshots.announce(*names)

    # Automatic cuts -----------------------------------------------------------------------------------------------

    def _recut_if_due(self) -> None:
        """Take automatic cuts that a forked process has made; let one make those that are due."""
        if self._recuts.is_under_way():
            return
        state = self._now()
        made = state.tracking.still_new(self._recuts.take())
        if made:
            # At its end, this is called again.
            self._recut(list(made), made)
        elif state.can_cut_later and (names := state.tracking.due()):
            lock, tracking = self._lock, state.tracking
            assert lock is not None
            self._recuts.start(names, lambda: tracking.make(names), lock.forget)

    def _finish_cuts(self) -> None:
        """Wait for automatic cuts that are being made, and make those that are due."""
        self._recuts.wait()
        made = self._now().tracking.still_new(self._recuts.take())
        if made:
            self._recut(list(made), made)
        if names := self._now().tracking.due():
            self._recut(names)

    # Snapshots ----------------------------------------------------------------------------------------------------

    def _snapshot_content(self, state: StoreState, *, with_ids: bool = True) -> snapshots.Content:
        """Return what a snapshot holds: the state, and what recovery needs if there is no database."""
        header, arrays = state.to_state()
        arrays |= {f"rows/{name}": array for name, array in block_sums(self._rows.file).items()}
        if with_ids and self._database.get("is_named"):
            arrays |= ids_as_arrays(self._database.all_ids(is_trusted=True))
        return {**header, "about": {name: self._database.find(name) for name in ALSO_IN_SNAPSHOTS}}, arrays

    def _snapshot_if_due(self, state: StoreState) -> None:
        if not self._snapshots.is_due(state.n_points):
            return
        if not CAN_FORK:
            self.snapshot()
            return
        # The version now: the state goes on while the snapshot is written.
        version, lock = state.version, self._lock
        name = snapshot_name(version)
        assert lock is not None
        self._announce(name)
        # Reading the ids from the database takes too long here.
        content = self._snapshot_content(state, with_ids=False)
        self._snapshots.fork_snapshot(name, content, lock.forget, lambda: self._snapshot_ended(version, name))

    def _snapshot_ended(self, version: int, name: str) -> None:
        """Let a snapshot count that was written in a forked process; if that failed, the one before still counts."""
        with self._gate.inside():
            self._snapshots.ended()
            if self._open_database is None:
                return
            with suppress(OSError):
                # It has its name once it is whole.
                if version <= self._snapshots.version or not (self.folder / name).exists():
                    return self._snapshots.clean()
                self._let_snapshot_count(name)
                if self._state is not None and self._state.version == version:
                    # Read again when it is next asked for, by a memory map: what was written to is not in memory.
                    self._state = None

    def _let_snapshot_count(self, name: str) -> None:
        with self._database.changing():
            self._rows.sync()
            self._snapshots.let_count(name)
        self._snapshots.counts(name)

    def _vacuum(self) -> None:
        # It needs room for another copy. If there is none, what was compacted counts, and this is done another time.
        with suppress(OSError):
            if self._database.vacuum():
                with self._database.changing():
                    self._database.set("is_to_be_vacuumed", False)

    # Points -------------------------------------------------------------------------------------------------------

    def _new_ones(self, state: StoreState, batch: inputs.Batch) -> npt.NDArray[np.intp]:
        """Return which of some points are not there yet; the others must be the same as those that are."""
        ids = batch.ids or []
        positions = self._database.positions_of(ids)
        known = np.array([i for i, position in enumerate(positions) if position is not None], np.intp)
        at = np.array([positions[i] for i in known.tolist()], np.int64)
        is_same = inputs.same_rows(taken(batch.rows, known), self._rows.at(state.row_of[at]))
        if not is_same.all():
            raise ValueError(
                f"ids must be new, or name points with the same row; {ids[int(known[np.argmin(is_same)])]!r} is there"
                " with another. Nothing was inserted; use update to change a point"
            )
        for i, kept in zip(known.tolist(), self._database.payloads_at(at.tolist()), strict=True):
            if batch.payloads is not None and _parsed(batch.payloads[i]) != _parsed(kept):
                raise ValueError(
                    f"payload must be the same for points that are there; that of {ids[i]!r} is another. Nothing was"
                    " inserted; use update to change it"
                )
        return np.setdiff1d(np.arange(len(ids)), known)


def _with_json(version: int, kind: str, **data: Any) -> Operation:
    return Operation(version, kind, data=json.dumps(data).encode())


def _parsed(payload: str | None) -> Any:
    return None if payload is None else json.loads(payload)


def _has_other_threads() -> bool:
    return threading.active_count() > 1


def _give_back(connection: Database, store: weakref.ref[Store]) -> None:
    owner = store()
    if owner is None:
        connection.close()
    else:
        owner.give_back(connection)
