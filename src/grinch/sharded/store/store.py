"""The sharded store: a folder of stores, of which each has a branch of one tree."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from grinch._checks import check_count
from grinch._types import Counts, Slots, count_rows
from grinch.sharded.store import journal
from grinch.sharded.store.branch import ORDER, Branch
from grinch.sharded.store.clusters import ClusterFile
from grinch.sharded.store.looking import Looking
from grinch.sharded.store.steps import Insert, Points, Remove, Step, Update, parts_of
from grinch.sharded.store.versions import FILE as VERSIONS
from grinch.sharded.store.versions import TIMES
from grinch.store import DamagedStore, disk, inputs
from grinch.store.database import Id
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.node_names import NodeNames


class ShardedStore(Looking):
    """A clustering in a folder of stores, made by :func:`grinch.open` with ``max_points``.

    A point goes to the branch that most of the five points nearest to it are of (up to 2,000 of each branch are looked
    at). A branch with more than ``max_points`` points is split in two where its tree is. Every change is on disk when
    its method returns, and is made to all branches or to none. One process writes, any number of others read.

    Examples
    --------
    >>> import grinch, tempfile
    >>> store = grinch.open(tempfile.mkdtemp(), max_points=3)
    >>> _ = store.insert([[1, 0], [0, 9], [2, 0.1]], ids=["a", "b", "c"], payload=[{"title": "A"}, None, "C"])
    >>> _ = store.insert([[0.1, 8]], ids=["d"])
    >>> store.branches
    {'branch-00001': 2, 'branch-00002': 2}
    >>> store.clusters(n_clusters=2)
    {0: ['a', 'c'], 1: ['b', 'd']}
    >>> store.close()
    """

    # Changes ------------------------------------------------------------------------------------------------------

    def insert(self, X: Any, ids: Any = None, payload: Any = None, *, columns: Any = None) -> int:
        """Insert points, all of them or none; the version afterwards.

        A point that is there already under the same id, with the same row, is passed over. With another row it is
        refused (use :meth:`update`).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_points, n_features)
            The points.
        ids : list of str or int, optional
            Their ids, for all points of a store or for none. Without ids, points are numbered as they come.
        payload : list or frame, optional
            Anything that JSON can hold for each point, or None.
        columns : list of str, optional
            The names of the columns of X, if it is no frame that knows them; later points must have the same.
        """
        with self._turn:
            self._writable()
            if inputs.is_empty(X):
                return self.version
            columns = inputs.columns_of(X) if columns is None else [str(name) for name in columns]
            rows = self._checked(X, columns)
            names = inputs.check_ids(ids, count_rows(rows), self._is_named, self.id_kind)
            payloads = _plain(inputs.check_payload(payload, count_rows(rows)))
            is_named = names is not None
            numbers = np.arange(self._next_number, self._next_number + count_rows(rows))
            inside: list[Id] = list(numbers.tolist()) if names is None else names
            points = Points(rows, inside, payloads, numbers)
            if is_named:
                points = self._new_ones(points)
            if len(points.names):
                self._set(is_named=is_named)
                self._insert(points, columns)
                self._follow_if_small()
            return self.version

    def _insert(self, points: Points, columns: list[str] | None) -> None:
        branches = self._now()
        owners = self._router.owners(points.rows, [branch.sample for branch in branches])
        steps = [Insert(branches[owner].name, points.taken(at), columns) for owner, at in parts_of(owners)]
        self._carry_out(steps, len(points.names))
        self._split_if_room()

    def _new_ones(self, points: Points) -> Points:
        """Those that are not there yet, numbered; the others must be the same as those that are."""
        owners = self._owners(points.names)
        for owner, at in parts_of(owners):
            if owner >= 0:
                store, some = self._now()[owner].store, points.taken(at)
                texts = None if some.payload is None else inputs.check_payload(some.payload, len(at))
                store._new_ones(store._now(), some.rows, some.names, texts)
        new = points.taken(np.flatnonzero(owners < 0))
        return Points(new.rows, new.names, new.payload, points.numbers[: len(new.names)])

    def remove(self, ids: Any) -> int:
        """Remove points, all of them or none; the version afterwards. Ids that were removed before are passed over."""
        with self._turn:
            self._writable()
            names = self._names(ids)
            owners = self._owners(names)
            self._check_were_there([names[i] for i in np.flatnonzero(owners < 0).tolist()])
            self._carry_out(
                [
                    Remove(self._now()[owner].name, [names[i] for i in at.tolist()])
                    for owner, at in parts_of(owners)
                    if owner >= 0
                ]
            )
            self._follow_if_small()
            return self.version

    def _check_were_there(self, names: list[Id]) -> None:
        if self._is_named:
            known = np.zeros(len(names), np.bool_)
            for branch in self._now():
                known |= np.array(branch.store._db.were_removed(names), np.bool_)
        else:
            known = np.array([isinstance(name, int) and 0 <= name < self._next_number for name in names], np.bool_)
        if not known.all():
            name = names[int(np.argmin(known))]
            raise ValueError(
                f"ids must name points in the store; {name!r} never was{self._kind_hint(name)}. Nothing was removed"
            )

    def update(self, ids: Any, X: Any = None, payload: Any = None) -> int:
        """Give points other rows, or another payload, or both; the version afterwards.

        What stays as it is counts as no change; a point whose new row belongs to another branch moves there.
        """
        with self._turn:
            self._writable()
            if X is None and payload is None:
                raise ValueError("X or payload must be given: what the points are to be, or what is kept beside them")
            names = self._names(ids)
            owned = self._owned(names)
            rows = None if X is None else self._checked(X)
            if rows is not None and count_rows(rows) != len(names):
                raise ValueError(f"X must have a row for each of the {len(names)} ids; got {count_rows(rows)}")
            payloads = _plain(inputs.check_payload(payload, len(names)))
            arriving, staying, leaving = list[Step](), list[Step](), list[Step]()
            targets = None if rows is None else self._router.owners(rows, [b.sample for b in self._now()])
            for branch, at in owned:
                moved = np.empty(0, np.intp) if targets is None else self._moved(branch, names, rows, targets, at)
                stayed = np.setdiff1d(at, moved)
                if len(stayed):
                    staying.append(Update(branch.name, *_taken(names, rows, payloads, stayed)))
                for owner, some in parts_of(targets[moved]) if targets is not None and len(moved) else ():
                    arriving.append(self._arrival(branch, self._now()[owner], names, rows, payloads, moved[some]))
                if len(moved):
                    leaving.append(Remove(branch.name, [names[i] for i in moved.tolist()]))
            # Points come before they leave: at no moment is one nowhere.
            self._carry_out([*arriving, *staying, *leaving])
            self._split_if_room()
            self._follow_if_small()
            return self.version

    def _moved(self, branch: Branch, names: list[Id], rows: Any, targets: Slots, at: Slots) -> Slots:
        """Which of the points ``at``, in a branch, have another row that belongs elsewhere."""
        elsewhere = at[np.array([self._now()[target] is not branch for target in targets[at].tolist()], np.bool_)]
        if not len(elsewhere):
            return elsewhere
        before = branch.store.vectors([names[i] for i in elsewhere.tolist()])
        return elsewhere[~inputs.same_rows(rows[elsewhere], before)]

    def _arrival(
        self, source: Branch, target: Branch, names: list[Id], rows: Any, payloads: list[Any] | None, at: Slots
    ) -> Insert:
        """Points that move from one branch to another, with their numbers and what is kept beside them."""
        own, new, beside = _taken(names, rows, payloads, at)
        if beside is None:
            beside = source.store.payload(own)
        numbers: Counts = source.order[source.store._positions(own)]
        assert new is not None
        return Insert(target.name, Points(new, own, beside, numbers))

    def refine(self, passes: int = 1) -> int:
        """Improve the tree of each branch by itself (:meth:`grinch.Grinch.refine`); the version afterwards."""
        with self._turn:
            check_count("passes", passes, 1)
            return self._for_each(lambda branch: branch.store.refine(passes))

    def compact(self) -> int:
        """Let nothing of removed points, and of earlier rows of updated ones, be left on disk; the version afterwards.

        See :meth:`grinch.store.Store.compact`.
        """
        with self._turn:
            self._writable()
            NodeNames(self.folder / NAMES_FILE).forget(lambda names: (self._owners(names) >= 0).tolist())
            return self._for_each(lambda branch: branch.store.compact())

    def _for_each(self, change: Callable[[Branch], object]) -> int:
        """Change branches one after the other, where it does not matter if some are and some are not."""
        with self._counting():
            for branch in self._writable():
                if branch.n_points:
                    change(branch)
        self._follow_if_small()
        return self.version

    # Care ---------------------------------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Write all there is to new snapshots, so that opening has nothing to do again; done by itself in time."""
        with self._turn:
            for branch in self._writable():
                branch.store.snapshot()
            self._follow()

    def check(self) -> None:
        """Verify everything on disk and in memory; raises :class:`~grinch.store.DamagedStore` with what is wrong."""
        with self._turn:
            self.refresh()
            for branch in self._now():
                branch.store.check()
            numbers = np.concatenate([branch.numbers() for branch in self._now()])
            if len(np.unique(numbers)) < len(numbers) or len(set(self.ids)) < len(numbers):
                raise DamagedStore(f"{self.folder} is damaged: a point is in two branches. Restore it from a backup")
            if numbers.min(initial=0) < 0 or numbers.max(initial=-1) >= self._next_number:
                raise DamagedStore(f"{self.folder} is damaged: a point has no number. Restore it from a backup")
            if not self._is_named and any(branch.store.ids != branch.numbers().tolist() for branch in self._now()):
                raise DamagedStore(f"{self.folder} is damaged: points have other numbers. Restore it from a backup")
            self.tree.check()

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
                self._when_calm(lambda: self._copy_to(temporary))
                if target.exists():
                    target.rmdir()
                os.replace(temporary, target)
                disk.sync_folder(target.parent)
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise

    def _copy_to(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if self.is_readonly:
            self._open_branches()
        for branch in self._branches:
            branch.store.backup(folder / branch.name)
            # Behind what counts there may be more of it by now.
            if (branch.store.folder / ORDER).exists():
                disk.copy_file(branch.store.folder / ORDER, folder / branch.name / ORDER)
        for name in (TIMES, VERSIONS, journal.FILE):
            if (self.folder / name).exists():
                disk.copy_file(self.folder / name, folder / name)
        ClusterFile(self.folder).copy_to(folder)
        NodeNames(self.folder / NAMES_FILE).copy_to(folder / NAMES_FILE)
        self._manifest.write(folder)

    def close(self) -> None:
        """Take snapshots of what is new, and let others write. A store is closed once."""
        with self._turn:
            try:
                if self._is_open and not self.is_readonly and not self._half_done:
                    self._follow()
            finally:
                super().close()


def _plain(texts: list[str | None] | None) -> list[Any] | None:
    """What is kept beside points as JSON gives it back: what is compared later is what was kept."""
    return None if texts is None else [None if text is None else json.loads(text) for text in texts]


def _taken(names: list[Id], rows: Any, payloads: list[Any] | None, at: Slots) -> tuple[list[Id], Any, list[Any] | None]:
    """The ids, rows and payload of some points."""
    some = at.tolist()
    payload = None if payloads is None else [payloads[i] for i in some]
    return [names[i] for i in some], None if rows is None else rows[at], payload
