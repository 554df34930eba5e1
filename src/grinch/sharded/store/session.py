"""A sharded store that is open: its branches, and how a change gets to all of them or to none."""

from __future__ import annotations

import errno
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from grinch._types import Labels, Slots
from grinch.errors import LinkageError
from grinch.sharded.store import journal, unfinished
from grinch.sharded.store.branch import Branch
from grinch.sharded.store.building import linkage_of_store, new_branch, settings_of
from grinch.sharded.store.clusters import Followed
from grinch.sharded.store.leaves import Leaves
from grinch.sharded.store.manifest import Manifest
from grinch.sharded.store.routing import Router
from grinch.sharded.store.splitting import two_sides, with_groups
from grinch.sharded.store.steps import Insert, Step, all_points_of
from grinch.sharded.store.top import Moments
from grinch.sharded.store.versions import Versions
from grinch.sharded.whole import merges_of, without
from grinch.store import DamagedStore, Store, disk
from grinch.store.damage import damaged
from grinch.store.lock import WriterLock, is_held
from grinch.store.opening import BRANCH_NAME, is_store
from grinch.store.opening import open as open_store
from grinch.store.session import LEFT_OVER, StoreClosed
from grinch.tree import Tree

log = logging.getLogger("grinch.store")
# How long a reader waits for a change that is being made to several branches, in seconds.
PATIENCE = 5.0

Found = TypeVar("Found")


class Session:
    """One process that has a sharded store open, to write or to read (``lock`` is None)."""

    def __init__(self, folder: Path, lock: WriterLock | None, given: dict[str, Any]):
        self.folder, self._lock, self._given = folder, lock, given
        self._turn = threading.RLock()
        self._branches: list[Branch] = []
        self._is_open, self._half_done = True, False
        # What was found out of the branches, with the versions it is of.
        self._whole: tuple[Any, Tree] | None = None
        self._known_leaves: tuple[Any, Leaves] | None = None
        self._known_cuts: tuple[Any, dict[str, Followed]] | None = None
        self._known_labels: dict[str, tuple[Any, Labels]] = {}
        self._known_moments: dict[str, tuple[int, Moments]] = {}
        self._manifest = Manifest.read(folder)
        try:
            self._look()
            self._linkage = linkage_of_store(self._branches[0].store)
            if not self.is_readonly:
                self._finish()
                self._clean()
            self._count()
        except BaseException:
            self._close_branches(self._branches)
            raise

    @property
    def is_readonly(self) -> bool:
        return self._lock is None

    def close(self) -> None:
        """Take snapshots of what is new, and let others write. A store is closed once."""
        with self._turn:
            if self._is_open:
                self._is_open = False
                try:
                    self._close_branches(self._branches)
                finally:
                    if self._lock is not None:
                        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # Branches -----------------------------------------------------------------------------------------------------

    def _now(self) -> list[Branch]:
        """The branches, in the order of the leaves of the tree over them."""
        if not self._is_open:
            raise StoreClosed(f"the store in {str(self.folder)!r} is closed; open it again with grinch.open")
        return self._branches

    @property
    def _by_name(self) -> dict[str, Branch]:
        return {branch.name: branch for branch in self._now()}

    def _open_branches(self) -> None:
        """Open what the manifest names; branches that are open stay so."""
        self._manifest = Manifest.read(self.folder)
        known, opened = {branch.name: branch for branch in self._branches}, list[Branch]()
        try:
            for name in self._manifest.branches:
                if name not in known:
                    opened.append(self._opened(name))
                    known[name] = opened[-1]
        except BaseException:
            self._close_branches(opened)
            raise
        self._close_branches([branch for branch in self._branches if branch.name not in self._manifest.branches])
        self._branches = [known[name] for name in self._manifest.branches]

    def _opened(self, name: str) -> Branch:
        if not is_store(self.folder / name):
            raise damaged(self.folder / name, "it is not there, and the manifest names it as a branch")
        store: Store = open_store(self.folder / name, readonly=self.is_readonly, **self._given)
        if not hasattr(self, "_router"):
            self._router = Router(linkage_of_store(store))
        return Branch(store, self._router)

    @staticmethod
    def _close_branches(branches: Sequence[Branch]) -> None:
        for branch in branches:
            branch.store.close()

    def _clean(self) -> None:
        """Take away what a process left that died: folders of branches that never counted, or no longer do."""
        for name in unfinished.noted(self.folder) - {*self._manifest.branches}:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        unfinished.forget(self.folder)
        for path in self.folder.iterdir():
            if LEFT_OVER.fullmatch(path.name):
                path.unlink(missing_ok=True)

    # Beside a writer ----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Open what is there; a reader goes on to what is committed by now."""
        self._when_calm(self._see)
        if self.is_readonly:
            for branch in self._branches:
                branch.catch_up()

    def _see(self) -> None:
        self._open_branches()
        if self.is_readonly:
            # Of all branches at one moment; going on to what is seen may take longer.
            for branch in self._branches:
                branch.look_again()

    def _when_calm(self, look: Callable[[], Found]) -> Found:
        """Look at branches; for a reader, at a moment at which no change was made to a part of them only."""
        if not self.is_readonly:
            return look()
        give_up = time.monotonic() + PATIENCE
        while True:
            before = self._moment()
            try:
                found, missing = look(), None
            except (FileNotFoundError, DamagedStore) as error:
                # A branch may have been split meanwhile; its folder is gone then.
                missing = error
            is_calm = before == self._moment() and not (before[1] and is_held(self.folder))
            if missing is None and (is_calm or time.monotonic() > give_up):
                return found
            if missing is not None and (before == self._moment() or time.monotonic() > give_up):
                raise missing
            time.sleep(0.005)

    def _moment(self) -> tuple[int, bool]:
        """Something else whenever a change that touches several branches, or a split, begins or ends."""
        return self.folder.stat().st_mtime_ns, (self.folder / journal.FILE).exists()

    # Changing -----------------------------------------------------------------------------------------------------

    def _writable(self) -> list[Branch]:
        if self.is_readonly:
            raise PermissionError(
                f"the store in {str(self.folder)!r} was opened with readonly=True; open it without to change it"
            )
        if self._half_done:
            raise RuntimeError(
                f"the last change to {str(self.folder)!r} failed half way; close the store and open it again, which"
                " finishes it"
            )
        return self._now()

    def _carry_out(self, steps: Sequence[Step], n_new: int = 0) -> None:
        """All of these steps or none, in which ``n_new`` points come.

        A single one needs no journal: the store of a branch sees to that.
        """
        with self._counting(n_new):
            if len(steps) == 1:
                steps[0].apply(self._by_name)
            elif steps:
                journal.write(self.folder, steps)
                self._apply_all(steps)
                journal.remove(self.folder)

    def _apply_all(self, steps: Sequence[Step]) -> None:
        undo: list[Step] = []
        try:
            for step in steps:
                inverse = step.inverse(self._by_name)
                step.apply(self._by_name)
                undo.append(inverse)
        except BaseException as error:
            self._half_done = True
            try:
                for step in reversed(undo):
                    step.apply(self._by_name)
                journal.remove(self.folder)
            except OSError as again:
                raise OSError(
                    getattr(again, "errno", None) or errno.EIO,
                    f"a part of the change is made, and cannot be taken back ({again}). Make room on the disk, close"
                    " the store and open it again, which makes the rest of the change",
                    str(self.folder),
                ) from error
            self._half_done = False
            raise

    def _finish(self) -> None:
        """Make the change that a process was making when it died."""
        steps = journal.read(self.folder)
        try:
            for step in steps:
                step.apply(self._by_name)
        except LinkageError:
            # It would have failed, and been taken back. Points come before anything else is changed.
            for step in steps:
                if isinstance(step, Insert):
                    self._by_name[step.branch].remove(step.points.names)
        if steps:
            journal.remove(self.folder)

    @contextmanager
    def _counting(self, n_new: int = 0) -> Iterator[None]:
        """Versions that branches get within are versions of the whole, in which ``n_new`` points came."""
        came = 0
        try:
            yield
            came = n_new
        finally:
            self._next_number += came
            self._versions.catch_up(self._branches, self._next_number, is_kept=True)

    def _count(self) -> None:
        """The versions of the whole, and the number of the next point."""
        highest = [int(branch.order.max(initial=-1)) for branch in self._branches]
        self._next_number = max(self._manifest.next_number, max(highest) + 1)
        self._versions = Versions(self.folder)
        self._counted = self._versions.size(), self._key()
        self._versions.catch_up(self._branches, self._next_number, is_kept=not self.is_readonly)

    def _count_again(self) -> None:
        """For a reader: the same, unless nothing has changed since."""
        if self._counted != (self._versions.size(), self._key()):
            self._count()

    def _key(self) -> tuple[tuple[str, int], ...]:
        """Something else whenever there are other points, or another tree."""
        return tuple((branch.name, branch.store.version) for branch in self._now())

    # Splitting ----------------------------------------------------------------------------------------------------

    def _split_if_room(self) -> None:
        """Split what is too large; without room on disk, when points next come, for the change itself is made."""
        try:
            self._split_large()
        except OSError as error:
            log.warning("a branch of %s is too large and could not be split: %s", self.folder, error)

    def _split_large(self) -> None:
        """Split branches until none has more points than it may."""
        at = 0
        while at < len(self._branches):
            if self._branches[at].n_points > self._manifest.max_points:
                self._split(at)
            else:
                at += 1

    def _split(self, at: int) -> None:
        """Two branches for one. They count from the moment at which the manifest names them."""
        there = (path.name for path in self.folder.iterdir() if BRANCH_NAME.fullmatch(path.name))
        old, names = self._branches[at], self._manifest.new_names(2, there)
        unfinished.note(self.folder, [old.name, *names])
        new = self._sides_of(old, names)
        manifest = self._manifest.with_split(at, names[0], names[1], self._next_number)
        try:
            manifest.write(self.folder)
        except BaseException:
            self._drop(new)
            raise
        self._manifest = manifest
        self._branches[at] = new[0]
        self._branches.append(new[1])
        self._versions.catch_up(self._branches, self._next_number, is_kept=True)
        self._drop([old])
        if not old.store.folder.exists():
            unfinished.forget(self.folder)

    def _sides_of(self, old: Branch, names: Sequence[str]) -> list[Branch]:
        """The two sides of a branch as branches, on disk as a whole."""
        points, columns, new = all_points_of(old), old.store.columns, list[Branch]()
        tree = old.store.tree
        sides = with_groups(two_sides(tree), points.rows, points.numbers, self._router)
        try:
            for side, name in enumerate(names):
                new.append(new_branch(self.folder / name, settings_of(old.store), self._router))
                at: Slots = np.flatnonzero(sides == side)
                new[-1].adopt(*points.taken(at), without(merges_of(tree), sides != side).tree(), columns)
            # Who was removed stays known.
            with new[0].store._db.changing():
                new[0].store._db.remove_points((), old.store._db.all_removed())
            disk.sync_folder(self.folder)
        except BaseException:
            self._drop(new)
            raise
        return new

    def _drop(self, branches: Sequence[Branch]) -> None:
        """Branches that do not count; what cannot be deleted now is deleted when the store is next opened."""
        self._close_branches(branches)
        for branch in branches:
            with suppress(OSError):
                shutil.rmtree(branch.store.folder)

    def _set(self, **about: Any) -> None:
        """Change what the manifest says."""
        changed = replace(self._manifest, **about)
        if changed != self._manifest:
            changed.write(self.folder)
            self._manifest = changed
