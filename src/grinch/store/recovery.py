"""A new store out of what is left of a damaged one, which stays as it is."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import grinch
from grinch._types import Counts, Mask
from grinch.core.engine import ENGINE
from grinch.cuts.tracking import CUT_BY
from grinch.estimators.grinch import Grinch
from grinch.estimators.saved import model_from_state
from grinch.linkage.named import is_average
from grinch.saving import container, disk
from grinch.saving.container import Container
from grinch.saving.state import unflatten
from grinch.store import inputs
from grinch.store.cluster_tracking import ClusterTracking, how_of
from grinch.store.damage import DamagedStore, EarlierFormat, LaterFormat, damaged, reading
from grinch.store.database import (
    BESIDE,
    FILE,
    FORMAT,
    TABLES,
    Database,
    Id,
    Operation,
    about_row,
    forgotten,
    operation_of,
)
from grinch.store.lock import StoreLocked, describe, holder, is_held
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.node_names import NodeNames
from grinch.store.opening import DTYPES, is_store, refuse_sharded
from grinch.store.opening import open as open_store
from grinch.store.queries import DEFAULT_CUT
from grinch.store.row_files import ENDS, RowFile, SparseRowFile, checksum_rows
from grinch.store.rows import VECTORS_NAME, files_of, parts_of, sums_of, vectors_name
from grinch.store.snapshots import KIND, SNAPSHOT_NAME, read_snapshot, snapshot_name, verify, verify_pointers
from grinch.store.sqlite_pages import salvage
from grinch.store.state import StoreState, ids_of_arrays
from grinch.store.store import NOT_IN_LOG, Store


class Recovered(NamedTuple):
    """What came back from a damaged store.

    ``points``: how many; ``ids`` and ``payloads``: how many of them have the id and a payload that they had;
    ``clusters``: by name of the cut, how many have the ids that they had; ``names``: how many names of clusters;
    ``version``: that of the new store; ``lost``: what did not come back, a sentence each.
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
    """Rebuild in a new folder what can be rebuilt of a damaged store; nothing in its own folder changes.

    Parameters
    ----------
    folder : str or Path
        The damaged store. Nobody may be writing to it.
    new : str or Path
        The folder for the new store; it must not be there yet.
    linkage, metric, mode, n_neighbors, search
        What the store was made with, where neither a snapshot nor the database says it; and a linkage or a search of
        your own, as for :func:`grinch.open`.
    dtype : {"float32", "float64"}, optional
        How the vectors are kept, where nothing says it.

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
        raise ValueError(f"dtype must be one of {', '.join(map(repr, DTYPES))}; got {dtype!r}")
    new.parent.mkdir(parents=True, exist_ok=True)
    work = new.with_name(f".{new.name}-{secrets.token_hex(4)}")
    work.mkdir()
    try:
        found = _Recovery(Remains(folder, work, given, dtype), work).run()
        os.rename(work, new)
        disk.sync_folder(new.parent)
        return found
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


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


class _Rebuilt(NamedTuple):
    """A tree over points.

    ``positions``: those that the points of ``state`` had, None where it is not known which is which; ``numbers``: by
    row of ``state``, its number among all rows, None if it is the same; ``is_followed``: whether clusters have the
    ids that they had; ``first_left``: rows from this number on are not in the tree.
    """

    state: StoreState
    positions: Counts | None
    numbers: Counts | None
    is_followed: bool
    first_left: int


class _Recovery:
    """The way from what is left to a new store in ``work``."""

    def __init__(self, remains: Remains, work: Path):
        self.remains, self.work, self.lost = remains, work, remains.lost
        self.points: dict[int, tuple[Id | None, str | None]] = {p: (i, t) for p, i, t in remains.tables["points"]}
        if remains.snapshot is not None and not remains.is_whole:
            self._add_ids_in(remains.snapshot)
        self.is_named = any(name is not None for name, _ in self.points.values())
        self.last_version = max((done.version for done in remains.log), default=0)
        self._used: set[Id | None] = set()
        self._count = count()

    def _add_ids_in(self, snapshot: Container) -> None:
        """The ids of points that the database has lost."""
        ids, known = ids_of_arrays(snapshot.arrays), {name for name, _ in self.points.values()}
        if ids is not None:
            for position, name in zip(self.remains.state_of(snapshot).positions().tolist(), ids, strict=True):
                if position not in self.points and name not in known:
                    self.points[position] = name, None

    def run(self) -> Recovered:
        rebuilt = self._without_unusable(self._rebuilt())
        beside, n_ids = self._beside(rebuilt)
        n_names = self._write(rebuilt, beside)
        self._copy_others()
        own = {name: value for name, value in self.remains.own.items() if value is not None}
        with open_store(self.work, **own) as store:
            n_ids += self._insert_left(rebuilt, store)
            ids = store.ids
            if not ids:
                raise DamagedStore(f"{self.remains.folder} has no points left: {'; '.join(self.lost) or 'it is empty'}")
            store.check()
            return Recovered(
                len(ids),
                n_ids,
                sum(payload is not None for payload in store.payload(ids)),
                {cut: len(store.clusters(cut)) for cut in store.cuts()} if rebuilt.is_followed else {},
                n_names,
                store.version,
                tuple(self.lost),
            )

    # The tree ---------------------------------------------------------------------------------------------------------

    def _rebuilt(self) -> _Rebuilt:
        remains, snapshot = self.remains, self.remains.snapshot
        versions = [done.version for done in remains.log]
        is_log_enough = versions == list(range(1, len(versions) + 1)) and not any(
            done.kind in NOT_IN_LOG for done in remains.log
        )
        if snapshot is None and not is_log_enough:
            return self._inserted()
        state = self._replayed(
            lambda: remains.empty(all_cuts=False) if snapshot is None else remains.state_of(snapshot)
        )
        is_all = remains.is_whole and state.version >= self.last_version
        return _Rebuilt(state, state.positions(), None, True, remains.rows.count if is_all else state.n_rows)

    def _replayed(self, begin: Callable[[], StoreState]) -> StoreState:
        """Do again what was done since, as far as that is known."""
        state = begin()
        after, wrong = state.version, set[int]()
        known = {done.version: done for done in self.remains.log if done.kind not in NOT_IN_LOG}
        self._compare_rows(after)
        others = sum(done.engine != ENGINE for done in known.values() if done.version > after)
        if others:
            self.lost.append(f"{others:,} operations were done again by another engine: the tree may be another one")

        def rows_of(done: Operation) -> Any:
            rows, is_right = self.remains.rows.of(done)
            if not is_right:
                wrong.add(done.version)
            return rows

        while (done := known.get(state.version + 1)) is not None:
            try:
                state.replay(done, rows_of)
            except (ValueError, LookupError, TypeError, ArithmeticError) as error:
                self.lost.append(f"version {done.version} could not be made again: {error}")
                # What was being changed is good for nothing.
                del known[done.version]
                state = begin()
        if state.version < self.last_version:
            self.lost.append(f"versions {state.version + 1} to {self.last_version} could not be made again")
        self._note_wrong(wrong)
        return state

    def _compare_rows(self, up_to: int) -> None:
        """Note which rows are not those that were written."""
        wrong = set()
        for done in self.remains.log:
            if done.version <= up_to and done.n_rows:
                with suppress(ValueError, IndexError):  # those that are not there are counted later
                    if not self.remains.rows.of(done)[1]:
                        wrong.add(done.version)
        self._note_wrong(wrong)

    def _note_wrong(self, versions: set[int]) -> None:
        if versions:
            which = ", ".join(map(str, sorted(versions)))
            self.lost.append(f"vectors of version {which} are not those that were written, and are kept as they are")

    def _inserted(self) -> _Rebuilt:
        """A tree that is built again, of the points in the order they came."""
        remains = self.remains
        row_of = self._row_of()
        numbers = np.arange(remains.rows.count) if row_of is None else np.array([row_of[p] for p in sorted(row_of)])
        is_usable = remains.rows.usable(numbers)
        self._note_unusable(~is_usable)
        state = remains.empty(all_cuts=True)
        if is_usable.any():
            state.insert(self.last_version + 1, remains.rows.at(numbers[is_usable]), 0)
        self.lost.append("the tree: it is built again of the points in the order they came, and clusters have new ids")
        if row_of is None:
            self.lost.append("which row is of which point: all rows are points now, also those of removed ones")
        positions = None if row_of is None else np.array(sorted(row_of), np.int64)[is_usable]
        return _Rebuilt(state, positions, numbers[is_usable], False, remains.rows.count)

    def _row_of(self) -> dict[int, int] | None:
        """By position, the row of each point, as the log says it; None if it does not say it any more."""
        row_of: dict[int, int] = {}
        n_given, log = 0, self.remains.log
        last = max((i for i, done in enumerate(log) if done.kind in ("compact", "recover") and done.n_rows), default=0)
        needed = log[last:] if self.remains.is_whole else log
        first = needed[0].version if last and needed else 1
        if [done.version for done in needed] != list(range(first, first + len(needed))):
            return None
        for done in log:
            rows, data = range(done.first_row, done.first_row + done.n_rows), done.data or b""
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

    def _without_unusable(self, rebuilt: _Rebuilt) -> _Rebuilt:
        """Remove points whose rows are gone."""
        state, positions = rebuilt.state, rebuilt.state.positions()
        if rebuilt.numbers is not None or not len(positions):
            return rebuilt
        is_lost = ~self.remains.rows.usable(state.row_of[positions])
        self._note_unusable(is_lost)
        if is_lost.any():
            state.remove(state.version + 1, positions[is_lost])
        return rebuilt._replace(positions=positions[~is_lost])

    def _note_unusable(self, is_lost: Mask) -> None:
        if is_lost.any():
            self.lost.append(f"{int(is_lost.sum()):,} points, whose rows are not there, or not numbers")

    # What is beside the points ----------------------------------------------------------------------------------------

    def _beside(self, rebuilt: _Rebuilt) -> tuple[list[tuple[int, Id | None, str | None]], int]:
        """The rows of the table of points, and how many have the ids that they had."""
        now, before = rebuilt.state.positions().tolist(), rebuilt.positions
        known = [(None, None)] * len(now) if before is None else [self.points.get(p, (None, None)) for p in before]
        ids, payloads = self._each_once([name for name, _ in known]), [text for _, text in known]
        n_ids = len(ids) - ids.count(None)
        if before is None or not self.is_named:
            # Numbers are ids, too.
            is_numbered = before is not None and now != before.tolist()
            n_ids = 0 if before is None else len(now)
            ids = list(before.tolist()) if before is not None and is_numbered else ids
            had_ids = self.is_named or self.remains.about.get("is_named")
            if now and had_ids is not False:
                whose = "ids" if had_ids else "ids, if points had any"
                self.lost.append(f"{whose}: they are numbered as they came")
                n_ids = 0
            self.is_named = is_numbered
        elif n_ids < len(ids):
            self.lost.append(f"{len(ids) - n_ids:,} ids: these points have new ones")
            ids = self._filled(ids)
        is_filed = [self.is_named or text is not None for text in payloads]
        rows = zip(now, ids, payloads, strict=True)
        return [row for row, is_it in zip(rows, is_filed, strict=True) if is_it], n_ids

    def _each_once(self, ids: Sequence[Id | None]) -> list[Id | None]:
        """Ids, None for those that a point has already: a removal that is lost may have come in between."""
        found = [None if name in self._used else name for name in ids]
        self._used |= {*found} - {None}
        return found

    def _filled(self, ids: Sequence[Id | None]) -> list[Id | None]:
        """Ids with new ones where there are none."""
        taken = self._used | {name for name, _ in self.points.values()}
        is_text = any(isinstance(name, str) for name in taken)
        new: Iterator[Id] = (f"recovered-{i}" if is_text else i for i in self._count)
        return [next(one for one in new if one not in taken) if name is None else name for name in ids]

    # Writing ----------------------------------------------------------------------------------------------------------

    def _write(self, rebuilt: _Rebuilt, beside: list[tuple[int, Id | None, str | None]]) -> int:
        """Write the files of the new store; how many names of clusters it has."""
        state, tables = rebuilt.state, self.remains.tables
        state.store = secrets.token_hex(16)
        before, version = state.version, state.version + 1
        kept = state.compact(version)
        numbers = kept if rebuilt.numbers is None else rebuilt.numbers[kept]
        about, checksum, sums = self._about(state, beside), 0, dict[str, Any]()
        records: list[tuple[int, str]] = []
        if isinstance(self.remains.rows, Records):
            records = [(i, self.remains.rows.texts[number]) for i, number in enumerate(numbers.tolist())]
        elif len(numbers):
            checksum, sums = self._write_vectors(self.remains.rows.file, str(about["vectors"]), numbers)
        header, arrays = state.to_state()
        arrays |= {f"rows/{name}": array for name, array in sums.items()}
        container.write(self.work / str(about["snapshot"]), KIND, header, arrays)
        is_kept = dict.fromkeys(state.cut_names, rebuilt.is_followed)
        names = [row for row in tables["names"] if is_kept.get(row[0])]
        if len(names) < len(tables["names"]):
            self.lost.append(f"{len(tables['names']) - len(names):,} names of clusters")
        history = self._history(rebuilt, before)
        at = max((row[2] for row in tables["operations"]), default=0.0)
        ids, by_row = {name for _, name, _ in beside}, state.positions_by_row().astype("<i8").tobytes()
        Database.create(
            self.work,
            {
                "about": [about_row(name, value) for name, value in about.items()],
                "operations": [*history, (version, "recover", at, ENGINE, 0, len(kept), checksum, by_row, None)],
                "points": beside,
                "records": records,
                "removed": [row for row in tables["removed"] if row[0] not in ids],
                "changes": [row for row in tables["changes"] if rebuilt.is_followed and row[0] <= before],
                "names": names,
            },
        )
        return len(names)

    def _about(self, state: StoreState, beside: list[tuple[int, Id | None, str | None]]) -> dict[str, Any]:
        known, rows, name = self.remains.about, self.remains.rows, vectors_name()
        is_vectors = state.is_fitted and not isinstance(rows, Records)
        is_sparse = is_vectors and isinstance(rows.file, SparseRowFile)  # type: ignore[union-attr]
        default = state.tracking[DEFAULT_CUT]
        snapshot = snapshot_name(state.version)
        return {
            "format": FORMAT,
            "store": state.store,
            "grinch": grinch.__version__,
            "snapshot": snapshot,
            "vectors": name,
            "files": [snapshot, *files_of(name)],
            "model": {**state.to_state()[0]["model"], "n_features": None, "feature_names": None, "fitted": None},
            "dtype": rows.file.dtype.newbyteorder("=").name if is_vectors else known.get("dtype"),  # type: ignore[union-attr]
            "n_features": state.model.n_features_in_ if is_vectors else None,
            "is_sparse": is_sparse if is_vectors else None,
            "is_named": self.is_named if state.is_fitted else None,
            "id_kind": inputs.kind_of(beside[0][1]) if self.is_named and beside else None,  # type: ignore[arg-type]
            "columns": known.get("columns") if state.is_fitted else None,
            "default_cut": list(default.parameters.values()),
            "is_to_be_vacuumed": False,
        }

    def _write_vectors(self, source: Any, name: str, numbers: Counts) -> tuple[int, dict[str, Any]]:
        """Copy rows to a new file; returns their checksum, and those of the blocks of the file."""
        target = type(source)(self.work / name, source.dtype, source.width)
        step = max(disk.CHUNK * 16 // source.row_bytes, 1)

        def pieces() -> Iterator[Any]:
            for start in range(0, len(numbers), step):
                piece = source.at(numbers[start : start + step])
                target.append(start, piece)
                yield piece

        with closing(target):
            checksum = checksum_rows(pieces())
            for part in parts_of(target).values():
                part.blocks.commit()
            return checksum, sums_of(target)

    def _history(self, rebuilt: _Rebuilt, before: int) -> list[tuple[Any, ...]]:
        """That operations were done, if all of them are known; otherwise all points came with the last of them."""
        rows = [forgotten(row) for row in self.remains.tables["operations"] if row[0] <= before]
        if rebuilt.numbers is None and [row[0] for row in rows] == list(range(1, before + 1)):
            return rows
        at = max((row[2] for row in rows), default=0.0)
        return [(before, "adopt", at, ENGINE, 0, 0, 0, str(rebuilt.state.n_given).encode(), None)] if before else []

    def _copy_others(self) -> None:
        """What makes rows of texts, and names that were given to nodes."""
        folder = self.remains.folder
        if (folder / inputs.TEXT_FILE).exists():
            shutil.copyfile(folder / inputs.TEXT_FILE, self.work / inputs.TEXT_FILE)
        if (folder / NAMES_FILE).exists():
            shutil.copyfile(folder / NAMES_FILE, self.work / NAMES_FILE)
            try:
                NodeNames(self.work / NAMES_FILE).check()
            except DamagedStore:
                (self.work / NAMES_FILE).unlink()
                self.lost.append(f"{NAMES_FILE} is damaged: names of nodes")

    def _insert_left(self, rebuilt: _Rebuilt, store: Store) -> int:
        """Insert rows that came after what is in the tree; how many have the ids that they had."""
        first, numbers = rebuilt.state.n_given, np.arange(rebuilt.first_left, self.remains.rows.count)
        is_usable = self.remains.rows.usable(numbers)
        if not is_usable.any():
            return 0
        filed = sorted(position for position in self.points if position >= first)
        is_known = filed == list(range(first, first + len(numbers)))
        known = [self.points[p] for p in filed] if is_known else [(None, None)] * len(numbers)
        known = [one for one, is_it in zip(known, is_usable.tolist(), strict=True) if is_it]
        ids = self._each_once([name for name, _ in known])
        n_ids = len(ids) - ids.count(None)
        is_named = self.is_named if rebuilt.state.is_fitted else n_ids == len(ids)
        payload = [None if text is None else json.loads(text) for _, text in known]
        store.insert(
            self.remains.rows.at(numbers[is_usable]), ids=self._filled(ids) if is_named else None, payload=payload
        )
        self.lost.append(
            f"{len(ids):,} rows that came after the last snapshot are points now"
            + ("" if n_ids else ", without their ids; some may be of points that were removed or replaced since")
        )
        return n_ids


class Remains:
    """What can be read of a store.

    Parameters
    ----------
    folder : Path
        Where it is.
    work : Path
        Where files can be put meanwhile.
    given : dict
        What the user says of the model.
    dtype : str, optional
        How the user says that vectors are kept.

    Attributes
    ----------
    tables : dict
        The rows of the database that are as they were written, by table.
    is_whole : bool
        Whether these are all there were.
    about : dict
        What is known of the store by name.
    snapshot : Container or None
        The snapshot that counts, or else the latest that is whole.
    rows : Vectors or Records
        The rows of the points.
    lost : list of str
        What cannot be read, a sentence each.
    """

    def __init__(self, folder: Path, work: Path, given: dict[str, Any], dtype: str | None):
        self.folder, self._work, self._given = folder, work, given
        self.lost: list[str] = []
        self.tables, self.is_whole = self._read_tables()
        self.log = [operation_of(row) for row in self.tables["operations"]]
        self.about: dict[str, Any] = {}
        for name, text in self.tables["about"]:
            with suppress(ValueError):
                self.about[name] = json.loads(text)
        # How the store was made is also known from a snapshot whose arrays are damaged.
        self._manifest: dict[str, Any] = {}
        self.snapshot = self._find_snapshot()
        known = {name: value for name, value in self.about.items() if value is not None}
        self.about = {**self._manifest.get("about", {}), **known}
        self.rows = self._find_rows(dtype)

    # The database -----------------------------------------------------------------------------------------------------

    def _read_tables(self) -> tuple[dict[str, list[tuple[Any, ...]]], bool]:
        copy = self._work / "database"
        copy.mkdir()
        try:
            for name in (FILE, BESIDE[0]):
                with suppress(FileNotFoundError):
                    shutil.copyfile(self.folder / name, copy / name)
            with closing(Database(copy, readonly=True)) as database:
                database.check_format()
                database.check()
                return {table: database.all_rows(table) for table in TABLES}, True
        except LaterFormat:
            raise
        except EarlierFormat as error:
            raise EarlierFormat(str(error).replace(str(copy), str(self.folder))) from None
        except DamagedStore as error:
            why = _why(error)
        finally:
            shutil.rmtree(copy)
        found = salvage(self.folder / FILE)
        n = sum(map(len, found.tables.values()))
        if n:
            self.lost.append(f"{FILE} is damaged ({why}): {n:,} rows could be read, and others may be missing")
        else:
            self.lost.append(f"{FILE} is lost ({why}): payloads, names of clusters, and what happened to them")
        if found.n_unclear:
            self.lost.append(f"two versions were found of {found.n_unclear:,} rows of {FILE}, and one of them taken")
        return found.tables, False

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
                self._manifest = self._manifest or snapshot.header
                verify(snapshot)
                self.state_of(snapshot)
                return snapshot
            except LaterFormat:
                raise
            except DamagedStore as error:
                self.lost.append(f"{name} is damaged ({_why(error)}), and was not used")
        return None

    def state_of(self, snapshot: Container) -> StoreState:
        """Return what is in a snapshot."""
        with reading(snapshot.path):
            copy = read_snapshot(snapshot.path)
            verify_pointers(copy)
            state = StoreState.from_snapshot(copy, self._work, **self.own)
            state.model.validate()
        return state

    @property
    def own(self) -> dict[str, Any]:
        """The linkage and the search of the user's own."""
        values = {name: self._given.get(name) for name in ("linkage", "search")}
        return {name: None if isinstance(value, str) else value for name, value in values.items()}

    def empty(self, *, all_cuts: bool) -> StoreState:
        """Return the store as it was made, without points; with the cut called "default", or all that are known."""
        made = self._manifest.get("model") or self.about.get("model")
        if made is not None:
            unfitted = {**made, "n_features": None, "feature_names": None, "fitted": None}
            model = model_from_state(unflatten(unfitted, {}), **self.own)
        elif self._given:
            if is_average(self._given.get("linkage", "average")) and self._given.get("metric") is None:
                raise ValueError(
                    "metric must be given with average linkage, for it is not known how old the store in"
                    f" {str(self.folder)!r} is: 'cosine' was the default once, and 'sqeuclidean' is"
                )
            model = Grinch(**self._given)
        else:
            raise ValueError(
                f"linkage must be given, and metric, mode, n_neighbors and search unless they are the default ones: no"
                f" snapshot in {str(self.folder)!r} can be read, and its database does not say what it was made with"
            )
        tracking = ClusterTracking(model)
        for name, cut in self._cuts(all_cuts).items():
            tracking.add(name, **cut)
        return StoreState(tracking, self._work, "")

    def _cuts(self, all_cuts: bool) -> dict[str, dict[str, Any]]:
        default = self.about.get("default_cut") or (None, None)
        found = {DEFAULT_CUT: how_of(dict(zip(CUT_BY, default, strict=False)))}
        if all_cuts:
            for cut in self._manifest.get("followed", {}).get("cuts", []):
                found[cut["name"]] = how_of(cut)
        return found

    # The rows of the points -------------------------------------------------------------------------------------------

    def _find_rows(self, dtype: str | None) -> Vectors | Records:
        width = self.about.get("n_features") or self._manifest.get("model", {}).get("n_features")
        files = sorted(path for path in self.folder.iterdir() if VECTORS_NAME.fullmatch(path.name))
        if self.tables["records"] or (width is None and not files):
            return Records(self.tables["records"])
        if width is None:
            raise _hopeless(files[0], "nothing says how many numbers a row of it has")
        path = self._vector_file(files)
        is_sparse = path.with_name(path.name + ENDS).exists()
        dtype = self.about.get("dtype") or dtype or self._dtype_of(path, int(width), is_sparse)
        kind = SparseRowFile if is_sparse else RowFile
        return Vectors(kind(path, np.dtype(dtype), int(width)))

    def _vector_file(self, files: list[Path]) -> Path:
        named = self.about.get("vectors")
        if named in [path.name for path in files]:
            return self.folder / str(named)
        if len(files) == 1 and named is None:
            return files[0]
        if named is None and files:
            raise DamagedStore(
                f"{self.folder} has {', '.join(path.name for path in files)}, and nothing says which of them counts;"
                " copy the folder, and delete the others in the copy"
            )
        raise _hopeless(self.folder / str(named or "vectors-….bin"), "it is not there, and the vectors were in it")

    def _dtype_of(self, path: Path, width: int, is_sparse: bool) -> str:
        """How numbers are kept, by the size of the file: snapshots of earlier releases do not say it."""
        n = int(self._manifest.get("rows", 0))
        fitting = [name for name in DTYPES if path.stat().st_size == n * width * np.dtype(name).itemsize]
        if is_sparse or not n or not fitting:
            raise ValueError(
                f"dtype must be given: nothing says whether the numbers in {str(path)!r} are kept as"
                f" {' or '.join(DTYPES)}"
            )
        return fitting[0]


def _hopeless(path: Path, why: str) -> DamagedStore:
    return DamagedStore(f"{path}: {why}. Nothing can be rebuilt without it; restore {path.parent} from a backup")


def _why(error: DamagedStore) -> str:
    return str(error).partition(" is damaged: ")[2].partition(". Restore ")[0]


class Vectors:
    """The rows of points in a file."""

    def __init__(self, file: RowFile | SparseRowFile):
        self.file: Any = file
        self.count: int = file.count()

    def of(self, done: Operation) -> tuple[Any, bool]:
        """Return the rows that came with an operation, and whether they are those that were written."""
        if done.rows is not None:
            with suppress(ValueError):
                rows = self.file.unpacked(done.rows, done.n_rows)
                if checksum_rows([rows]) == done.checksum:
                    return rows, True
        rows = self.at(np.arange(done.first_row, done.first_row + done.n_rows))
        return rows, checksum_rows([rows]) == done.checksum

    def at(self, numbers: Counts) -> Any:
        return self.file.at(numbers)

    def usable(self, numbers: Counts) -> Mask:
        """Return which of some rows can be read, and are finite."""
        if not len(numbers):
            return np.zeros(0, np.bool_)
        try:
            rows = self.at(numbers)
        except (ValueError, IndexError):
            if len(numbers) == 1:
                return np.zeros(1, np.bool_)
            middle = len(numbers) // 2
            return np.concatenate([self.usable(numbers[:middle]), self.usable(numbers[middle:])])
        if isinstance(rows, np.ndarray):
            return np.asarray(np.isfinite(rows).all(axis=1))
        odd = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[~np.isfinite(rows.data)]
        return ~np.isin(np.arange(rows.shape[0]), odd)


class Records:
    """The rows of points that are no vectors: they are in the database."""

    def __init__(self, rows: list[tuple[Any, ...]]):
        self.texts: dict[int, str] = dict(rows)
        self.count = 1 + max(self.texts, default=-1)

    def of(self, done: Operation) -> tuple[Any, bool]:
        """Return the records that came with an operation, and that they are those that were written."""
        return self.at(np.arange(done.first_row, done.first_row + done.n_rows)), True

    def at(self, numbers: Counts) -> Any:
        missing = next((number for number in numbers.tolist() if number not in self.texts), None)
        if missing is not None:
            raise ValueError(f"record {missing} is not there")
        return inputs.decode_records([self.texts[number] for number in numbers.tolist()])

    def usable(self, numbers: Counts) -> Mask:
        """Return which of some records are there."""
        return np.array([number in self.texts for number in numbers.tolist()], np.bool_)
