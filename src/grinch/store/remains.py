"""What is left of a damaged store: rows of its database, its last whole snapshot, and the rows of its points.

The snapshot has the tree and the clusters and, unless it was taken in the background, the ids; ids, payloads, names,
the history and what came since the snapshot are in the database. Nothing is written to the folder.
"""

from __future__ import annotations

import json
import shutil
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from grinch._types import Counts, Mask
from grinch.cuts.tracking import CUT_BY
from grinch.estimators.grinch import Grinch
from grinch.estimators.saved import model_from_state
from grinch.linkage.named import is_average
from grinch.saving.container import Container
from grinch.saving.state import unflatten
from grinch.store import inputs
from grinch.store.cluster_tracking import ClusterTracking, how_of
from grinch.store.contents import Contents
from grinch.store.damage import DamagedStore, EarlierFormat, LaterFormat, damaged, reading
from grinch.store.database import BESIDE, FILE, TABLES, Database, Operation, operation_of
from grinch.store.opening import DTYPES
from grinch.store.queries import DEFAULT_CUT
from grinch.store.row_files import ENDS, RowFile, SparseRowFile, checksum_rows
from grinch.store.rows import VECTORS_NAME
from grinch.store.salvage import salvage
from grinch.store.snapshots import SNAPSHOT_NAME, read_snapshot, verify, verify_pointers


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
                self.contents_of(snapshot)
                return snapshot
            except LaterFormat:
                raise
            except DamagedStore as error:
                self.lost.append(f"{name} is damaged ({_why(error)}), and was not used")
        return None

    def contents_of(self, snapshot: Container) -> Contents:
        """Return what is in a snapshot."""
        with reading(snapshot.path):
            copy = read_snapshot(snapshot.path)
            verify_pointers(copy)
            contents = Contents.from_snapshot(copy, self._work, **self.own)
            contents.model.validate()
        return contents

    @property
    def own(self) -> dict[str, Any]:
        """The linkage and the search of the user's own."""
        values = {name: self._given.get(name) for name in ("linkage", "search")}
        return {name: None if isinstance(value, str) else value for name, value in values.items()}

    def empty(self, *, all_cuts: bool) -> Contents:
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
        return Contents(tracking, self._work, "")

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
