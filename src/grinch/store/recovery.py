"""Recovery: a new store out of what can be read of a damaged one, which stays as it is.

A damaged store is read from three sources (:class:`Remains`). Its database has ids, payloads, names, the history and
the operations since the last snapshot; its last whole snapshot has the tree, the clusters and, unless it was taken in
the background, the ids; the rows of its points are in a file or in the database. The state is that of the snapshot, or
an empty one, with the log replayed; if neither is enough, the points are inserted again in the order they came.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from grinch._types import Counts, Mask
from grinch.core.engine import ENGINE
from grinch.cuts.tracking import CUT_BY, MadeCut
from grinch.errors import unknown_name
from grinch.estimators.checks import no_advice
from grinch.estimators.grinch import Grinch
from grinch.estimators.saved import model_from_state
from grinch.linkage.named import is_average
from grinch.saving import container, disk
from grinch.saving.container import Container
from grinch.saving.state import unflatten
from grinch.store import inputs
from grinch.store.damage import DamagedStore, EarlierFormat, LaterFormat, damaged, reading
from grinch.store.database import (
    BESIDE,
    FILE,
    NOT_IN_LOG,
    TABLES,
    Database,
    Id,
    Operation,
    change_rows,
    forgotten,
    operation_of,
)
from grinch.store.lock import StoreLocked, describe, holder, is_held
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.node_names import NodeNames
from grinch.store.opening import is_store, new_about, refuse_sharded
from grinch.store.opening import open as open_store
from grinch.store.queries import DEFAULT_CUT
from grinch.store.rows import (
    DTYPES,
    ENDS,
    VECTORS_NAME,
    SparseRowFile,
    block_sums,
    checksum_rows,
    copy_rows,
    files_of,
    open_rows,
    vectors_name,
)
from grinch.store.snapshots import KIND, SNAPSHOT_NAME, read_snapshot, snapshot_name, verify, verify_pointers
from grinch.store.sqlite_pages import salvage
from grinch.store.state import ClusterTracking, StoreState, how_of, ids_of_arrays

# What the model of a store is before points come.
UNFITTED = {"n_features": None, "feature_names": None, "fitted": None}


class Recovered(NamedTuple):
    """What was recovered from a damaged store.

    ``points``: the number of points; ``ids`` and ``payloads``: the number of those with their id and with a payload;
    ``clusters``: the number of clusters with their ids, by cut; ``names``: the number of names of clusters;
    ``version``: that of the new store; ``lost``: what could not be recovered, a sentence each.
    """

    points: int
    ids: int
    payloads: int
    clusters: dict[str, int]
    names: int
    version: int
    lost: tuple[str, ...]


def recover(
    folder: str | Path,
    new: str | Path,
    *,
    linkage: Any = None,
    metric: str | None = None,
    mode: Any = None,
    n_neighbors: int | None = None,
    search: Any = None,
    dtype: str | None = None,
) -> Recovered:
    """Rebuild in a new folder what can be read of a damaged store; nothing in its own folder changes.

    Parameters
    ----------
    folder : str or Path
        The damaged store. No process may be writing to it.
    new : str or Path
        The folder for the new store; it must not be there yet.
    linkage, metric, mode, n_neighbors, search
        The parameters of the store, if neither a snapshot nor the database has them; and a linkage or a search of your
        own, as for :func:`grinch.open`.
    dtype : {"float32", "float64"}, optional
        The type of the vectors, if neither a snapshot nor the database has it.

    Examples
    --------
    >>> import grinch, os, tempfile
    >>> folder = tempfile.mkdtemp() + "/news"
    >>> with grinch.open(folder) as store:
    ...     _ = store.insert([[1, 0], [0, 1], [5, 0.1]], ids=["a", "b", "c"], payload=["A", "B", "C"])
    >>> os.truncate(folder + "/store.sqlite", 0)
    >>> found = grinch.store.recover(folder, folder + "-again")
    >>> found.points, found.ids, found.payloads
    (3, 3, 0)
    """
    folder, new = Path(folder), Path(new)
    given = {"linkage": linkage, "metric": metric, "mode": mode, "n_neighbors": n_neighbors, "search": search}
    given = {name: value for name, value in given.items() if value is not None}
    _check_folders(folder, new)
    if dtype is not None and dtype not in DTYPES:
        raise unknown_name("dtype", dtype, DTYPES)
    with disk.new_folder(new) as work:
        return _Recovery(Remains(folder, work, given, dtype), work).run()


def _check_folders(folder: Path, new: Path) -> None:
    if not is_store(folder):
        raise FileNotFoundError(f"folder {str(folder)!r} has no files of a store")
    refuse_sharded(folder)
    if new.exists() or new.is_symlink():
        raise FileExistsError(f"new must be a folder that is not there yet; {str(new)!r} is")
    if new.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"new must be outside of {str(folder)!r}, in which nothing is changed; got {str(new)!r}")
    if is_held(folder):
        raise StoreLocked(f"{folder} is being written to by {describe(holder(folder))}. Wait until it is closed")


class Remains:
    """What can be read of a damaged store: its tables, a snapshot, and the rows of its points.

    Parameters
    ----------
    folder : Path
        The store.
    work : Path
        A folder for files that are needed meanwhile.
    given : dict
        Parameters of the model that the user gives.
    dtype : str, optional
        The type of the vectors that the user gives.

    Attributes
    ----------
    tables : dict
        The rows of the database that are as they were written, by table.
    is_whole : bool
        Whether these are all rows that there were.
    about : dict
        The entries of the database, or those of the snapshot.
    snapshot : Container or None
        The snapshot that counts, or else the latest that is whole.
    file : RowFile, SparseRowFile or None
        The rows of the points, if they are vectors; otherwise ``records`` has them.
    lost : list of str
        What cannot be read, a sentence each.
    """

    def __init__(self, folder: Path, work: Path, given: dict[str, Any], dtype: str | None):
        self.folder, self._work, self._given = folder, work, given
        self.own = inputs.own_parts(given)
        self.lost: list[str] = []
        self.tables, self.is_whole = self._read_tables()
        self.log = [operation_of(row) for row in self.tables["operations"]]
        self.about: dict[str, Any] = {}
        for name, text in self.tables["about"]:
            with suppress(ValueError):
                self.about[name] = json.loads(text)
        # The parameters of the store are also known from a snapshot whose arrays are damaged.
        self._header: dict[str, Any] = {}
        self.snapshot = self._find_snapshot()
        known = {name: value for name, value in self.about.items() if value is not None}
        self.about = {**self._header.get("about", {}), **known}
        self.records: dict[int, str] = dict(self.tables["records"])
        self.file = self._find_vectors(dtype)
        self.n_rows = 1 + max(self.records, default=-1) if self.file is None else self.file.count()

    def _read_tables(self) -> tuple[dict[str, list[tuple[Any, ...]]], bool]:
        copy = self._work / "database"
        copy.mkdir()
        for name in (FILE, BESIDE[0]):
            with suppress(FileNotFoundError):
                shutil.copyfile(self.folder / name, copy / name)
        try:
            with closing(Database(copy, readonly=True)) as database:
                database.check_format()
                database.check()
                return {table: database.all_rows(table) for table in TABLES}, True
        except LaterFormat:
            raise
        except EarlierFormat as error:
            raise EarlierFormat(str(error).replace(str(copy), str(self.folder))) from None
        except DamagedStore as error:
            why, (tables, n_unclear) = _why(error), salvage(copy / FILE)
        finally:
            shutil.rmtree(copy)
        n = sum(map(len, tables.values()))
        if n:
            self.lost.append(f"{FILE} is damaged ({why}): {n:,} rows could be read, and others may be missing")
        else:
            self.lost.append(f"{FILE} is lost ({why}): payloads, names of clusters, and what happened to them")
        if n_unclear:
            self.lost.append(f"two versions were found of {n_unclear:,} rows of {FILE}, and one of them taken")
        return tables, False

    def made(self, version: int) -> dict[str, MadeCut] | None:
        """Return the automatic cuts that were made with an operation; None if those may be lost."""
        if version <= (self.about.get("unwritten_cuts") or 0):
            return None
        made: dict[str, MadeCut] = {}
        for _, name, cut in (row for row in self.tables["cuts"] if row[0] == version):
            with suppress(ValueError, TypeError):
                made[name] = MadeCut.from_bytes(cut)
        return made if made or self.is_whole else None

    # The snapshot -----------------------------------------------------------------------------------------------------

    def _find_snapshot(self) -> Container | None:
        named = self.about.get("snapshot")
        names = [path.name for path in self.folder.iterdir() if SNAPSHOT_NAME.fullmatch(path.name)]
        names.sort(key=lambda name: (name == named, int(name.split("-")[1]), name), reverse=True)
        if named is not None and named not in names:
            self.lost.append(f"{named} is not there")
        for name in names:
            try:
                snapshot = read_snapshot(self.folder / name)
                if snapshot.header.get("store") != self.about.get("store", snapshot.header.get("store")):
                    raise damaged(snapshot.path, "it is of another store")
                self._header = self._header or snapshot.header
                verify(snapshot)
                self.state_of(snapshot)
                return snapshot
            except LaterFormat:
                raise
            except DamagedStore as error:
                self.lost.append(f"{name} is damaged ({_why(error)}), and was not used")
        return None

    def state_of(self, snapshot: Container) -> StoreState:
        """Return the state in a snapshot."""
        with reading(snapshot.path):
            copy = read_snapshot(snapshot.path)
            verify_pointers(copy)
            state = StoreState.from_snapshot(copy, self._work, **self.own)
            state.model.validate()
        return state

    def empty_state(self, *, all_cuts: bool) -> StoreState:
        """Return the state of a new store; with the cut called "default", or with all that are known."""
        made = self._header.get("model") or self.about.get("model")
        if made is not None:
            model = model_from_state(unflatten({**made, **UNFITTED}, {}), **self.own)
        elif self._given:
            if is_average(self._given.get("linkage", "average")) and self._given.get("metric") is None:
                raise ValueError(
                    "metric must be given with average linkage, for it is not known how old the store in"
                    f" {str(self.folder)!r} is: 'cosine' was the default once, and 'sqeuclidean' is"
                )
            model = Grinch(**self._given)
            model.n_neighbors = model.checked_parameters().n_neighbors
        else:
            raise ValueError(
                f"linkage must be given, and metric, mode, n_neighbors and search unless they are the default ones: no"
                f" snapshot in {str(self.folder)!r} can be read, and its database does not have the parameters"
            )
        default = dict(zip(CUT_BY, self.about.get("default_cut") or (None, None), strict=False))
        others = self._header.get("followed", {}).get("cuts", []) if all_cuts else []
        tracking = ClusterTracking(model)
        for name, cut in {DEFAULT_CUT: default, **{cut["name"]: cut for cut in others}}.items():
            tracking.add(name, **how_of(cut))
        return StoreState(tracking, self._work, "")

    # The rows of the points -------------------------------------------------------------------------------------------

    def _find_vectors(self, dtype: str | None) -> Any:
        width = self.about.get("n_features") or self._header.get("model", {}).get("n_features")
        files = {path.name: path for path in sorted(self.folder.iterdir()) if VECTORS_NAME.fullmatch(path.name)}
        named = self.about.get("vectors")
        if self.records or (width is None and not files):
            return None
        if width is None:
            raise _hopeless(next(iter(files.values())), "nothing says how many numbers a row of it has")
        if named is None and len(files) > 1:
            raise DamagedStore(
                f"{self.folder} has {', '.join(files)}, and nothing says which of them counts; copy the folder, and"
                " delete the others in the copy"
            )
        path = files.get(named) if named is not None else next(iter(files.values()), None)
        if path is None:
            raise _hopeless(self.folder / str(named or "vectors-….bin"), "it is not there, and the vectors were in it")
        is_sparse = path.with_name(path.name + ENDS).exists()
        dtype = self.about.get("dtype") or dtype or self._dtype_of(path, int(width), is_sparse)
        return open_rows(path, dtype, int(width), is_sparse)

    def _dtype_of(self, path: Path, width: int, is_sparse: bool) -> str:
        """Return the type of vectors by the size of the file: snapshots of earlier releases do not have it."""
        n = int(self._header.get("rows", 0))
        fitting = [name for name in DTYPES if path.stat().st_size == n * width * np.dtype(name).itemsize]
        if is_sparse or not n or not fitting:
            raise ValueError(
                f"dtype must be given: nothing says whether the numbers in {str(path)!r} are kept as"
                f" {' or '.join(DTYPES)}"
            )
        return fitting[0]

    def rows_at(self, numbers: Counts) -> Any:
        """Return rows by number; ValueError or LookupError if one is not there."""
        if self.file is not None:
            return self.file.at(numbers)
        return inputs.decode_records([self.records[number] for number in numbers.tolist()])

    def rows_of(self, done: Operation) -> tuple[Any, bool]:
        """Return the rows that came with an operation, and whether they are those that were written."""
        if self.file is None:
            return self.rows_at(done.numbers), True
        with suppress(ValueError):
            if done.rows is not None and checksum_rows([self.file.unpacked(done.rows, done.n_rows)]) == done.checksum:
                return self.file.unpacked(done.rows, done.n_rows), True
        rows = self.rows_at(done.numbers)
        return rows, checksum_rows([rows]) == done.checksum

    def usable(self, numbers: Counts) -> Mask:
        """Return which of some rows can be read, and are finite."""
        if not len(numbers):
            return np.zeros(0, np.bool_)
        try:
            rows = self.rows_at(numbers)
        except (ValueError, LookupError):
            if len(numbers) == 1:
                return np.zeros(1, np.bool_)
            return np.concatenate([self.usable(half) for half in np.array_split(numbers, 2)])
        if isinstance(rows, list):
            return np.ones(len(rows), np.bool_)
        if isinstance(rows, np.ndarray):
            return np.asarray(np.isfinite(rows).all(axis=1))
        odd = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[~np.isfinite(rows.data)]
        return ~np.isin(np.arange(rows.shape[0]), odd)


def _hopeless(path: Path, why: str) -> DamagedStore:
    return DamagedStore(f"{path}: {why}. Nothing can be rebuilt without it; restore {path.parent} from a backup")


def _why(error: DamagedStore) -> str:
    return str(error).partition(" is damaged: ")[2].partition(". Restore ")[0]


class _Recovery:
    """The way from what remains to a new store in ``work``.

    ``state`` is that of the new store; ``old`` has the position that each of its points had (-1: unknown), by position;
    ``mended`` has the operations that were made here.
    """

    def __init__(self, remains: Remains, work: Path):
        self.remains, self.work, self.lost = remains, work, remains.lost
        self.mended: list[tuple[Any, ...]] = []
        self.changes: list[tuple[Any, ...]] = []
        self.at = max((row[2] for row in remains.tables["operations"]), default=0.0)
        self.last_version = max((done.version for done in remains.log), default=0)
        self.points: dict[int, tuple[Id | None, str | None]] = {p: (i, t) for p, i, t in remains.tables["points"]}
        if remains.snapshot is not None and not remains.is_whole:
            self._add_ids_in(remains.snapshot)
        self.is_named = any(name is not None for name, _ in self.points.values())
        self.is_tracked, self.first_left = True, remains.n_rows
        self.state, self.old = self._rebuilt()

    def _add_ids_in(self, snapshot: Container) -> None:
        """Add the ids of points that the database has lost."""
        ids, known = ids_of_arrays(snapshot.arrays), {name for name, _ in self.points.values()}
        if ids is not None:
            for position, name in zip(self.remains.state_of(snapshot).positions().tolist(), ids, strict=True):
                if position not in self.points and name not in known:
                    self.points[position] = name, None

    def run(self) -> Recovered:
        before, n_before = self.state.version, self.state.n_given
        self._remove_unusable()
        left = self._insert_left()
        points, n_ids = self._named_points(n_before)
        n_names = self._write(points, before, n_before)
        self._copy_others()
        self.lost += left
        with open_store(self.work, **self.remains.own) as store:
            ids = store.ids
            if not ids:
                raise DamagedStore(f"{self.remains.folder} has no points left: {'; '.join(self.lost) or 'it is empty'}")
            store.check()
            return Recovered(
                len(ids),
                n_ids,
                sum(payload is not None for payload in store.payload(ids)),
                {cut: len(store.clusters(cut)) for cut in store.cuts()} if self.is_tracked else {},
                n_names,
                store.version,
                tuple(self.lost),
            )

    # The tree ---------------------------------------------------------------------------------------------------------

    def _rebuilt(self) -> tuple[StoreState, Counts]:
        remains, snapshot = self.remains, self.remains.snapshot
        is_log_enough = _is_complete(remains.log) and not any(done.kind in NOT_IN_LOG for done in remains.log)
        if snapshot is None and not is_log_enough:
            return self._inserted()
        state = self._replayed(
            lambda: remains.empty_state(all_cuts=False) if snapshot is None else remains.state_of(snapshot)
        )
        if not remains.is_whole or state.version < self.last_version:
            self.first_left = state.n_rows
        return state, np.arange(state.n_given)

    def _replayed(self, begin: Callable[[], StoreState]) -> StoreState:
        """Replay the operations since, as far as they are known."""
        state = begin()
        after, wrong = state.version, set[int]()
        known = {done.version: done for done in self.remains.log if done.kind not in NOT_IN_LOG}
        for earlier in self.remains.log:
            if earlier.version <= after and earlier.n_rows:
                with suppress(ValueError, LookupError):  # those that are not there are counted later
                    wrong |= set() if self.remains.rows_of(earlier)[1] else {earlier.version}
        others = sum(done.engine != ENGINE for done in known.values() if done.version > after)
        if others:
            self.lost.append(f"{others:,} operations were replayed by another engine: the tree may be another one")
        while (done := known.get(state.version + 1)) is not None:
            try:
                rows, is_right = self.remains.rows_of(done) if done.n_rows else (None, True)
                with no_advice():
                    state.apply(done, rows, self.remains.made(done.version))
                wrong |= set() if is_right else {done.version}
            except (ValueError, LookupError, TypeError, ArithmeticError) as error:
                self.lost.append(f"version {done.version} could not be made again: {error}")
                # The state is half changed.
                del known[done.version]
                state = begin()
        if state.version < self.last_version:
            self.lost.append(f"versions {state.version + 1} to {self.last_version} could not be made again")
        if wrong:
            which = ", ".join(map(str, sorted(wrong)))
            self.lost.append(f"vectors of version {which} are not those that were written, and are kept as they are")
        return state

    def _inserted(self) -> tuple[StoreState, Counts]:
        """Insert the points again, in the order they came."""
        row_of, state = self._row_of(), self.remains.empty_state(all_cuts=True)
        numbers = np.arange(self.remains.n_rows) if row_of is None else np.array([row_of[p] for p in sorted(row_of)])
        old = np.full(len(numbers), -1) if row_of is None else np.array(sorted(row_of), np.int64)
        is_usable = self.remains.usable(numbers)
        self._note_unusable(~is_usable)
        state.version, self.is_tracked = self.last_version, False
        self.lost.append("the tree: it is built again of the points in the order they came, and clusters have new ids")
        if row_of is None:
            self.lost.append("which row is of which point: all rows are points now, also those of removed ones")
        if is_usable.any():
            self._mend(state, "insert", numbers[is_usable])
        return state, old[is_usable]

    def _row_of(self) -> dict[int, int] | None:
        """Return the row of each point by position, according to the log; None if it is not complete."""
        row_of: dict[int, int] = {}
        n_given, log = 0, self.remains.log
        last = max((i for i, done in enumerate(log) if done.kind in ("compact", "recover") and done.n_rows), default=0)
        needed = log[last:] if self.remains.is_whole else log
        if not _is_complete(needed, needed[0].version if last and needed else 1):
            return None
        for done in log:
            rows, data = done.numbers.tolist(), done.data or b""
            if done.kind in ("insert", "adopt"):
                # Of those before a compaction the number is left.
                row_of |= zip(range(n_given, n_given + done.n_rows), rows, strict=True)
                n_given += done.n_rows or int(data or 0)
            elif done.kind == "update":
                row_of |= zip(np.frombuffer(data, "<i8").tolist(), rows, strict=True)
            elif done.kind == "remove":
                for position in np.frombuffer(data, "<i8").tolist():
                    row_of.pop(position, None)
            elif done.kind in ("compact", "recover") and done.n_rows:
                if len(data) != 8 * done.n_rows:
                    return None  # an earlier release did not write it down
                row_of = dict(zip(np.frombuffer(data, "<i8").tolist(), rows, strict=True))
        return row_of

    def _mend(self, state: StoreState, kind: str, numbers: Counts) -> None:
        """Insert rows by number, or remove points by position."""
        is_insert, version, first = kind == "insert", state.version + 1, state.n_given
        data = str(len(numbers)).encode() if is_insert else numbers.astype("<i8").tobytes()
        done = Operation(version, kind, state.n_rows, len(numbers) if is_insert else 0, data=data)
        changes = state.apply(done, self.remains.rows_at(numbers) if is_insert else None)
        if is_insert:
            state.set_rows(np.append(state.row_of[:first], numbers))
        self.changes += change_rows(version, changes)
        self.mended.append((version, kind, self.at, ENGINE, 0, 0, 0, data if is_insert else None, None))

    def _remove_unusable(self) -> None:
        """Remove points whose rows are gone."""
        positions = self.state.positions()
        is_lost = ~self.remains.usable(self.state.row_of[positions])
        self._note_unusable(is_lost)
        if is_lost.any():
            self._mend(self.state, "remove", positions[is_lost])

    def _note_unusable(self, is_lost: Mask) -> None:
        if is_lost.any():
            self.lost.append(f"{int(is_lost.sum()):,} points, whose rows are not there, or not numbers")

    def _insert_left(self) -> list[str]:
        """Insert rows that came after what is in the tree; return what is lost by that."""
        first, numbers = self.state.n_given, np.arange(self.first_left, self.remains.n_rows)
        is_usable = self.remains.usable(numbers)
        if not is_usable.any():
            return []
        filed = sorted(position for position in self.points if position >= first)
        is_known = filed == list(range(first, first + len(numbers)))
        old = np.arange(first, first + len(numbers)) if is_known else np.full(len(numbers), -1)
        with no_advice():
            self._mend(self.state, "insert", numbers[is_usable])
        self.old = np.append(self.old, old[is_usable])
        has_ids = is_known and any(self.points[p][0] is not None for p in old[is_usable].tolist())
        return [
            f"{int(is_usable.sum()):,} rows that came after the last snapshot are points now"
            + ("" if has_ids else ", without their ids; some may be of points that were removed or replaced since")
        ]

    # Ids and payloads -------------------------------------------------------------------------------------------------

    def _named_points(self, n_before: int) -> tuple[list[tuple[int, Id | None, str | None]], int]:
        """Return the rows of the table of points, and how many points have the ids that they had.

        Points from position ``n_before`` on came after what is in the tree.
        """
        now = self.state.positions()
        old, n_tree = self.old[now], int((now < n_before).sum())
        known = [self.points.get(position, (None, None)) for position in old.tolist()]
        ids, used = list[Id | None](), set[Id | None]()
        for name, _ in known:
            # A point may have it already: a removal that is lost came in between.
            ids.append(None if name in used else name)
            used.add(name)
        n_ids = len(ids) - ids.count(None)
        is_known, missing = bool((old[:n_tree] >= 0).all()), ids[:n_tree].count(None)
        if not self.is_named or not is_known:
            had_ids = self.is_named or self.remains.about.get("is_named")
            # Numbers are ids, too.
            self.is_named = is_known and old[:n_tree].tolist() != now[:n_tree].tolist()
            ids = list(old.tolist()) if self.is_named else [None] * len(ids)
            n_ids = n_tree if is_known else 0
            if n_tree and had_ids is not False:
                self.lost.append(f"{'ids' if had_ids else 'ids, if points had any'}: they are numbered as they came")
                n_ids = 0
        elif missing:
            self.lost.append(f"{missing:,} ids: these points have new ones")
        if self.is_named:
            taken, new = used | {name for name, _ in self.points.values()}, count()
            is_text = any(isinstance(name, str) for name in taken)
            unused = (name for name in (f"recovered-{i}" if is_text else i for i in new) if name not in taken)
            ids = [next(unused) if name is None else name for name in ids]
        rows = zip(now.tolist(), ids, (text for _, text in known), strict=True)
        return [row for row in rows if self.is_named or row[2] is not None], n_ids

    # Writing ----------------------------------------------------------------------------------------------------------

    def _write(self, points: list[tuple[int, Id | None, str | None]], before: int, n_before: int) -> int:
        """Write the files of the new store; return the number of names of clusters in it."""
        state, remains, tables = self.state, self.remains, self.remains.tables
        version, state.store = state.version + 1, secrets.token_hex(16)
        kept, vectors, snapshot = state.compact(version), vectors_name(), snapshot_name(version)
        header, arrays = state.to_state()
        checksum, is_vectors = 0, state.is_fitted and remains.file is not None
        if is_vectors and len(kept):
            is_sparse = isinstance(remains.file, SparseRowFile)
            with closing(open_rows(self.work / vectors, remains.file.dtype, remains.file.width, is_sparse)) as file:
                checksum = copy_rows(remains.file, file, kept)
                arrays |= {f"rows/{name}": array for name, array in block_sums(file).items()}
        container.write(self.work / snapshot, KIND, header, arrays)
        names = [row for row in tables["names"] if self.is_tracked and row[0] in state.cut_names]
        if len(names) < len(tables["names"]):
            self.lost.append(f"{len(tables['names']) - len(names):,} names of clusters")
        history = [forgotten(row) for row in tables["operations"] if row[0] <= before and self.is_tracked]
        if not _is_complete(map(operation_of, history)) or len(history) < before:
            # All points came with the last of them.
            adopted = (before, "adopt", self.at, ENGINE, 0, 0, 0, str(n_before).encode(), None)
            history = [adopted] if before and self.is_tracked else []
        by_row, ids = state.positions_by_row().astype("<i8").tobytes(), {name for _, name, _ in points}
        about = new_about(
            store=state.store,
            snapshot=snapshot,
            vectors=vectors,
            files=[snapshot, *files_of(vectors)],
            model={**header["model"], **UNFITTED},
            dtype=remains.file.dtype.newbyteorder("=").name if is_vectors else remains.about.get("dtype"),
            n_features=state.n_features if is_vectors else None,
            is_sparse=isinstance(remains.file, SparseRowFile) if is_vectors else None,
            is_named=self.is_named if state.is_fitted else None,
            id_kind=inputs.kind_of(points[0][1]) if self.is_named and points else None,  # type: ignore[arg-type]
            columns=remains.about.get("columns") if state.is_fitted else None,
            default_cut=list(state.tracking[DEFAULT_CUT].parameters.values()),
        )
        recover = (version, "recover", self.at, ENGINE, 0, len(kept), checksum, by_row, None)
        new = {
            "about": about,
            "operations": [*history, *self.mended, recover],
            "points": points,
            "records": [(i, remains.records[row]) for i, row in enumerate(kept.tolist() if remains.records else ())],
            "removed": [row for row in tables["removed"] if row[0] not in ids],
            "changes": [*(row for row in tables["changes"] if self.is_tracked and row[0] <= before), *self.changes],
            "names": names,
        }
        Database.create(self.work, new)
        return len(names)

    def _copy_others(self) -> None:
        """Copy what makes rows of texts, and names that were given to nodes."""
        for name in (inputs.TEXT_FILE, NAMES_FILE):
            with suppress(FileNotFoundError):
                shutil.copyfile(self.remains.folder / name, self.work / name)
        try:
            NodeNames(self.work / NAMES_FILE).check()
        except DamagedStore:
            (self.work / NAMES_FILE).unlink()
            self.lost.append(f"{NAMES_FILE} is damaged: names of nodes")


def _is_complete(log: Iterable[Operation], first: int = 1) -> bool:
    """Return whether no version is missing in a log."""
    versions = [done.version for done in log]
    return versions == list(range(first, first + len(versions)))
