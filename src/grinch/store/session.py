"""A store that is open: what is in memory, the files it goes with, and how a change gets from the one to the other."""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from grinch._compile import no_garbage_collection
from grinch._types import Counts, count_rows
from grinch.cuts.tracking import Change
from grinch.errors import LinkageError
from grinch.estimators.grinch import Grinch
from grinch.linkage.named import metric_in_full
from grinch.saving.checks import check_model
from grinch.store import disk, inputs
from grinch.store.contents import Contents, ids_as_arrays
from grinch.store.damage import DamagedStore, damaged, reading
from grinch.store.database import SPARSE_FORMAT, Database, Id, Operation
from grinch.store.lock import StoreLocked, WriterLock, describe, holder
from grinch.store.snapshots import CAN_FORK, Snapshot, read_snapshot, run_aside, write_snapshot
from grinch.store.sparse_rows import ENDS, SparseRowFile, checksum_rows

# A snapshot is taken when as many points came, went or moved as this, and as a quarter of all.
LEAST_CHANGED, CHANGED_SHARE = 16_384, 0.25
# Or when there were this many operations, however small: each of them is done again when the store is opened.
MOST_OPERATIONS = 2000
# Rows of up to this many bytes are put into the log.
LOGGED = 2**15
SNAPSHOT_NAME = re.compile(r"snapshot-\d+-[0-9a-f]+\.grinch")
VECTORS_NAME = re.compile(r"vectors-[0-9a-f]+\.bin")
OUR_NAMES = (SNAPSHOT_NAME, VECTORS_NAME, re.compile(VECTORS_NAME.pattern + re.escape(ENDS)))
# What of the database is in a snapshot, too, for whoever rebuilds a store.
ALSO_IN_SNAPSHOTS = ("vectors", "dtype", "n_features", "is_sparse", "is_named", "id_kind", "columns", "default_cut")
# Files that were being written when their process died.
LEFT_OVER = re.compile(r"\.[0-9a-f]{16}\.tmp(-journal)?")


def snapshot_name(version: int) -> str:
    return f"snapshot-{version}-{secrets.token_hex(4)}.grinch"


def vectors_name() -> str:
    return f"vectors-{secrets.token_hex(4)}.bin"


Found = TypeVar("Found")


class StoreClosed(RuntimeError):
    """The store was closed, and is used."""


class Session:
    """One process, or one part of it, that has a store open, to write or to read.

    Operations are done in memory first and then written down, in one transaction of the database; if anything fails,
    memory is read again from disk. ``lock`` is None for readers, ``given`` what the user said of the model.
    """

    def __init__(self, folder: Path, lock: WriterLock | None, given: dict[str, Any], verbose: bool | int):
        self.folder = folder
        self._pid = os.getpid()
        # The snapshot whose checksums have not all been compared yet.
        self._unverified: Path | None = None
        self._lock, self._given, self._verbose = lock, given, verbose
        self._turn = threading.RLock()
        self._database: Database | None = Database(folder, readonly=True)
        self._contents: Contents | None = None
        self._vectors: disk.RowFile | SparseRowFile | None = None
        # By number, rows that a reader finds in the log, but not in the file.
        self._in_log_alone: dict[int, Any] = {}
        self._changed = self._n_operations = 0
        self._aside: threading.Thread | None = None
        try:
            self._db.check_format()
            if self.is_readonly:
                self._db.look_again()
            contents, later = self._read()
            self._check_given(contents.model)
            if not self.is_readonly:
                # Not before all of it is read: where something is wrong, nothing is written.
                self._db.become_writable()
            self._take_up(contents, later)
            if not self.is_readonly:
                self._clean()
        except BaseException:
            self._database.close()
            raise

    @property
    def is_readonly(self) -> bool:
        return self._lock is None

    def close(self) -> None:
        """Take a snapshot, if there is anything new, and let others write. A store is closed once."""
        if os.getpid() != self._pid:
            return
        self._wait_for_aside()
        with self._turn:
            if self._database is None:
                return
            try:
                if not self.is_readonly and self._contents is not None:
                    self.snapshot()
                    self._clean()
            except OSError as error:
                warnings.warn(
                    f"{self.folder} was closed without a new snapshot, so opening takes longer, and nothing is lost:"
                    f" {error}",
                    UserWarning,
                    stacklevel=2,
                )
            finally:
                self._database.close()
                self._database = self._contents = None
                if self._vectors is not None:
                    self._vectors.close()
                if self._lock is not None:
                    self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # Reading ------------------------------------------------------------------------------------------------------

    @property
    def _db(self) -> Database:
        if self._database is None:
            raise StoreClosed(f"the store in {str(self.folder)!r} is closed; open it again with grinch.open")
        if os.getpid() != self._pid:
            raise StoreClosed(
                f"the store in {str(self.folder)!r} was opened by process {self._pid}, of which this one is a fork;"
                " open it here with grinch.open (readonly=True, if the other one writes)"
            )
        return self._database

    def _now(self) -> Contents:
        """What is in the store; read again from disk if a change failed half way."""
        with self._turn:
            if self._contents is None or self._database is None:
                self._take_up(*self._read())
            assert self._contents is not None
            return self._contents

    def _read(self) -> tuple[Contents, list[Operation]]:
        """What is on disk, and the operations since the snapshot; nothing is written."""
        self._snapshot_version, contents, later = self._while_others_write(self._read_all)
        self._unverified = self.folder / self._db.get("snapshot")
        self._check_rows_are_there(contents, later)
        contents.model.verbose = self._verbose
        return contents, later

    def _take_up(self, contents: Contents, later: list[Operation]) -> None:
        """Go on with what was read."""
        self._changed, self._n_operations = sum(one.n_rows for one in later), len(later)
        self._in_log_alone = {}
        for one in later:
            if one.rows is not None and self._vectors is not None:
                self._restore(one)
        if not self.is_readonly and self._db.get("is_to_be_vacuumed"):
            self._vacuum()
        self._contents = contents

    def _check_rows_are_there(self, contents: Contents, done: list[Operation]) -> None:
        """The rows of the snapshot are in their file; those that came since may be in the log alone."""
        if self._vectors is None:
            return
        need = min([one.first_row for one in done if one.n_rows], default=contents.n_rows)
        there, width = self._vectors.count(), contents.model.n_features_in_
        if there < need or self._vectors.width != width:
            raise damaged(
                self._vectors.path,
                f"it must hold {need:,} rows of {width} numbers, and has {there:,} of {self._vectors.width}",
            )

    def _read_all(self) -> tuple[int, Contents, list[Operation]]:
        self._open_rows()
        return self._read_beside()

    def _while_others_write(self, look: Callable[[], Found]) -> Found:
        """Look at files; for a reader, at later ones if those that counted were taken away meanwhile."""
        for attempt in range(20):
            try:
                return look()
            except FileNotFoundError as error:
                missing = error
                if not self.is_readonly:
                    break
                self._db.look_again()
                # A writer that is ahead once may be ahead again.
                time.sleep(0.002 * attempt)
        raise damaged(Path(missing.filename or self.folder), "it is not there")

    def _restore(self, one: Operation) -> None:
        """Rows may have been in the log alone when the machine went down; only a writer can put them where they go."""
        assert self._vectors is not None
        rows, at = self._rows_of(one), np.arange(one.first_row, one.first_row + one.n_rows)
        if not self.is_readonly:
            self._vectors.append(one.first_row, rows, is_kept=True)
        elif not self._is_in_file(at, rows):
            self._in_log_alone |= {row: rows[i : i + 1] for i, row in enumerate(at.tolist())}

    def _is_in_file(self, at: Counts, rows: Any) -> bool:
        assert self._vectors is not None
        if at[-1] >= self._vectors.count():
            return False
        try:
            return bool(inputs.same_rows(self._vectors.at(at), rows).all())
        except (OSError, ValueError):  # rows of another length are there
            return False

    def _read_beside(self) -> tuple[int, Contents, list[Operation]]:
        """What is on disk: the version of the last snapshot, the contents by now, and the operations in between."""
        snapshot = self._find_snapshot()
        is_ours = self._db.find("snapshot_is") == _identity(snapshot.path)
        if not is_ours:
            # It was not written here, but copied: nothing in it is trusted.
            snapshot.verify()
        own = {name: value for name, value in self._given.items() if name in ("linkage", "search")}
        own = {name: value for name, value in own.items() if not isinstance(value, str)}
        with reading(snapshot.path):
            contents = Contents.from_snapshot(snapshot, self.folder, own.get("linkage"), own.get("search"))
            if not is_ours:
                check_model(contents.model)
            if snapshot.manifest.get("store") != self._db.get("store"):
                raise damaged(snapshot.path, "it is of another store")
        version, later = contents.version, list(self._db.operations(contents.version))
        self._replay(contents, later)
        return version, contents, later

    def _replay(self, contents: Contents, later: list[Operation]) -> None:
        with reading(self._db.path, ValueError):
            for done in later:
                if done.version != contents.version + 1:
                    raise damaged(self._db.path, f"version {contents.version + 1} is not in 'operations'")
                contents.replay(done, self._rows_of)

    def _find_snapshot(self) -> Snapshot:
        name = self._db.get("snapshot")
        if not isinstance(name, str) or not SNAPSHOT_NAME.fullmatch(name):
            raise damaged(self._db.path, f"it names {name!r} as the snapshot")
        return read_snapshot(self.folder / name)

    def _open_rows(self) -> None:
        """The file of vectors, once there are any."""
        if self._vectors is not None:
            self._vectors.close()
        self._vectors = None
        width = self._db.get("n_features")
        if width is not None:
            name, dtype = self._db.get("vectors"), self._db.get("dtype")
            if not VECTORS_NAME.fullmatch(name) or dtype not in ("float32", "float64") or not 0 < width < 2**31:
                raise damaged(self._db.path, f"it names {name!r}, {width} x {dtype}, as the vectors")
            kind = SparseRowFile if self._db.find("is_sparse") else disk.RowFile
            self._vectors = kind(self.folder / name, np.dtype(dtype), width)
            if self.is_readonly:
                # The writer may take it away.
                self._vectors.hold()

    def _rows_of(self, done: Operation) -> Any:
        """The rows that came with an operation."""
        if done.rows is not None and self._vectors is not None:
            rows = self._from_disk(lambda vectors: vectors.unpacked(done.rows, done.n_rows))
        else:
            rows = self._rows_at(np.arange(done.first_row, done.first_row + done.n_rows))
        if not isinstance(rows, list) and checksum_rows([rows]) != done.checksum:
            path = self.folder if self._vectors is None else self._vectors.path
            raise damaged(path, f"the vectors of version {done.version} are not those that were written")
        return rows

    def _rows_at(self, rows: Counts) -> Any:
        if self._vectors is None:
            with reading(self._db.path, ValueError):
                return inputs.decode_records(self._db.records_at(rows.tolist()))
        alone = self._in_log_alone
        is_alone = np.array([row in alone for row in rows.tolist()] if alone else np.zeros(len(rows)), np.bool_)
        found = self._from_disk(lambda vectors: vectors.at(rows[~is_alone]))
        if not is_alone.any():
            return found
        # Those in the file first, then the others: back in the order that was asked for.
        places = np.argsort(np.argsort(is_alone, kind="stable"))
        return self._vectors.stacked([found, *(alone[row] for row in rows[is_alone].tolist())])[places]

    def _from_disk(self, read: Callable[[Any], Any]) -> Any:
        """What is read of the vectors."""
        try:
            return read(self._vectors)
        except ValueError as error:
            assert self._vectors is not None
            raise damaged(self._vectors.path, str(error)) from None

    def _check_given(self, model: Grinch) -> None:
        """What was given to open the store must be what it was made with."""
        known = {**model.get_params(), "metric": metric_in_full(model.linkage, model.metric)}
        for name, value in self._given.items():
            if isinstance(value, (str, int, tuple)) and value != known[name]:
                raise ValueError(
                    f"{name} cannot change: {str(self.folder)!r} was made with {name}={known[name]!r}, got {value!r}."
                    " Leave it out, or give another folder"
                )

    # Changing -----------------------------------------------------------------------------------------------------

    def _writable(self) -> Contents:
        if self.is_readonly:
            raise PermissionError(
                f"the store in {str(self.folder)!r} was opened with readonly=True; open it without to change it"
            )
        return self._now()

    @contextmanager
    def _changing(self, n_points: int, *new_files: str) -> Iterator[int]:
        """The version that a change makes; if anything is raised on the way, the store is as it was.

        ``new_files`` are the names of files that are made on the way.
        """
        contents = self._now()
        n_begun = contents.n_begun
        self._announce(*new_files)
        try:
            with self._db.changing(), no_garbage_collection():
                self._check_alone(contents)
                yield contents.version + 1
        except BaseException as error:
            if contents.n_begun != n_begun:
                # Memory is ahead of the disk: it is read again.
                self._contents = None
            self._open_rows()
            if isinstance(error, LinkageError):
                error.outcome = "The store is as it was before"
            raise
        self._changed += n_points
        self._n_operations += 1
        # The change is made; where there is no room for a snapshot, there will be another time.
        with suppress(OSError, RuntimeError, MemoryError, DamagedStore):
            self._snapshot_if_due(contents)

    def _check_alone(self, contents: Contents) -> None:
        """Nobody else has written meanwhile, before anything is: somebody may have taken the lock's file away."""
        assert self._lock is not None
        if self._db.version() != contents.version or not self._lock.is_ours():
            raise StoreLocked(
                f"{self.folder} is no longer this process's to write: its lock was taken away, and it may be written to"
                f" by {describe(holder(self.folder))}. Close it and open it again"
            )

    def _done(self, done: Operation, changes: list[Change]) -> None:
        self._db.add_operation(done)
        by_cut: dict[str, list[list[Any]]] = {}
        for c in changes:
            by_cut.setdefault(c.cut, []).append([c.kind, c.cluster, c.others, c.size, c.count, c.exemplars])
        self._db.add_changes(done.version, by_cut)

    def _append(self, kind: str, version: int, rows: Any, data: bytes | None) -> Operation:
        """Put rows on disk, behind those there are."""
        first = self._now().n_rows
        if self._vectors is None:
            self._db.add_records(first, inputs.encode_records(rows))
            return Operation(version, kind, first, count_rows(rows), data=data)
        if rows.shape[1] > self._vectors.width:
            # Sparse rows may come with new columns.
            self._db.set("n_features", rows.shape[1])
            self._vectors.width = rows.shape[1]
        n_bytes = rows.nbytes if isinstance(rows, np.ndarray) else 8 * rows.shape[0] + 12 * rows.nnz
        log = self._vectors.packed(rows) if n_bytes <= LOGGED else None
        self._vectors.append(first, rows, is_kept=log is not None)
        return Operation(version, kind, first, count_rows(rows), checksum_rows([rows]), data, log)

    def _begin_rows(self, rows: Any, names: list[Id] | None, columns: list[str] | None) -> None:
        """The first points: they say what all are like."""
        self._db.set("is_named", names is not None)
        self._db.set("id_kind", inputs.kind_of(names[0]) if names else None)
        if not isinstance(rows, list):
            is_sparse = not isinstance(rows, np.ndarray)
            self._db.set("is_sparse", is_sparse)
            if is_sparse:
                self._db.set("format", SPARSE_FORMAT)
            self._db.set("n_features", rows.shape[1])
            self._db.set("dtype", rows.dtype.name)
            self._db.set("columns", columns)
            self._open_rows()

    # Snapshots ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Write all there is to a new snapshot, so that opening has nothing to do again; done by itself in time."""
        self._wait_for_aside()
        with self._turn:
            contents = self._writable()
            if contents.version > self._snapshot_version:
                name = snapshot_name(contents.version)
                self._announce(name)
                self._write_snapshot(contents, name)
                with self._db.changing():
                    self._let_count(name, contents.version)
                self._changed = self._n_operations = 0
                self._counts(contents.version)

    def _write_snapshot(self, contents: Contents, name: str) -> None:
        self._verify_last()
        manifest, arrays = self._parts(contents)
        if self._db.get("is_named"):
            arrays |= ids_as_arrays(self._db.all_ids(is_trusted=True))
        write_snapshot(self.folder / name, manifest, arrays)

    def _parts(self, contents: Contents) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is written to a snapshot: the contents, and what the rows are, to be known without the database."""
        manifest, arrays = contents.parts()
        return {**manifest, "about": {name: self._db.find(name) for name in ALSO_IN_SNAPSHOTS}}, arrays

    def _next_snapshot(self) -> str:
        """The name of a snapshot that the next change makes."""
        return snapshot_name(self._now().version + 1)

    def _verify_last(self) -> None:
        """What is written to a new snapshot comes from the last one: damage must not get right checksums that way."""
        if self._unverified is not None:
            read_snapshot(self._unverified).verify()

    def _let_count(self, name: str, version: int) -> None:
        """Within a transaction: from its end on, this snapshot counts, and the log before it is history."""
        if self._vectors is not None:
            self._vectors.sync()
        self._db.set("snapshot", name)
        self._db.set("snapshot_is", _identity(self.folder / name))
        self._db.forget_rows(version)
        self._unverified = None

    def _counts(self, version: int) -> None:
        """Another snapshot counts from here on."""
        self._snapshot_version = version
        self._clean()

    def _snapshot_if_due(self, contents: Contents) -> None:
        is_due = self._changed >= max(LEAST_CHANGED, CHANGED_SHARE * contents.n_points)
        if self._aside is not None or not (is_due or self._n_operations >= MOST_OPERATIONS):
            return
        if not CAN_FORK:
            self.snapshot()
            return
        version, name = contents.version, snapshot_name(contents.version)
        self._announce(name)
        manifest, arrays = self._parts(contents)
        path, lock = self.folder / name, self._lock
        assert lock is not None

        def write() -> None:
            lock.forget()
            self._verify_last()
            write_snapshot(path, manifest, arrays)

        pid = run_aside(write)
        self._changed = self._n_operations = 0
        self._aside = threading.Thread(target=self._await, args=(pid, version, name), daemon=True)
        self._aside.start()

    def _await(self, pid: int, version: int, name: str) -> None:
        """Wait for a snapshot that is written aside, and let it count; if it failed, the one before counts on."""
        with suppress(ChildProcessError):  # somebody else has waited for it
            os.waitpid(pid, 0)
        with self._turn:
            self._aside = None
            if self._database is None:
                return
            # It has its name once it is whole.
            is_to_count = version > self._snapshot_version and (self.folder / name).exists()
            with suppress(OSError):
                if is_to_count:
                    with self._db.changing():
                        self._let_count(name, version)
                    self._snapshot_version = version
                    if self._contents is not None and self._contents.version == version:
                        # Read again when it is next asked for, by a memory map: what was written to is not in memory.
                        self._contents = None
                self._clean()

    def _wait_for_aside(self) -> None:
        """Wait for a snapshot that is written aside; not by whoever has the turn, for which that waits in turn."""
        aside = self._aside
        if aside is not None and not self._turn._is_owned():  # type: ignore[attr-defined]
            aside.join()

    # Files --------------------------------------------------------------------------------------------------------

    def _announce(self, *names: str) -> None:
        """Write down the names of files that are about to be made; only what is written down is ever deleted."""
        if names:
            with self._db.changing():
                self._check_alone(self._now())
                known = {*(self._db.find("files") or []), *self._counting()}
                if self._aside is None:
                    known = {name for name in known if (self.folder / name).exists()}
                self._db.set("files", sorted({*known, *names}))

    def _counting(self) -> set[str]:
        """The names of the files with what is in the store."""
        vectors = self._db.get("vectors")
        return {self._db.get("snapshot"), vectors, vectors + ENDS}

    def _clean(self) -> None:
        """Delete files of this store that no longer count, or never did, and what was written to become one."""
        if self._aside is not None:
            return
        made = {name for name in self._db.find("files") or [] if any(kind.fullmatch(name) for kind in OUR_NAMES)}
        half = {path.name for path in self.folder.iterdir() if LEFT_OVER.fullmatch(path.name)}
        for name in (made | half) - self._counting():
            with suppress(OSError):
                (self.folder / name).unlink()

    def _vacuum(self) -> None:
        # It needs room for another copy. Where there is none, what was compacted counts, and this is done another time.
        with suppress(OSError):
            if self._db.vacuum():
                with self._db.changing():
                    self._db.set("is_to_be_vacuumed", False)


def _identity(path: Path) -> list[int]:
    """What a file is on this machine, which no copy of it is."""
    status = path.stat()
    return [status.st_dev, status.st_ino]
