"""The SQLite file of a store: operations, ids, payloads, changes, names, and which snapshot counts."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from grinch._types import Counts, Objects
from grinch.core.engine import ENGINE
from grinch.cuts.tracking import Change, MadeCut
from grinch.saving import disk
from grinch.store.damage import DamagedStore, EarlierFormat, LaterFormat, damaged, reading, unusable

# Formats 1 and 2 had snapshots of another kind, no checksums of blocks of rows, and operations without an engine.
# Format 3, which no release wrote, did not have the automatic cuts.
FORMAT = 4
FILE = "store.sqlite"
# The files that SQLite keeps beside it.
BESIDE = (f"{FILE}-wal", f"{FILE}-shm", f"{FILE}-journal")
# How every file of SQLite begins.
MAGIC = b"SQLite format 3\0"
Id = int | str
# So many of them, each of at most 60,000 characters, are in a text that SQLite can hold.
IDS_AT_ONCE = 2**14

# The last column of each table is a checksum of what else is in the row (without its number, where that may change).
TABLES = {
    "about": ("name text primary key", "value text not null"),
    "operations": (
        "version integer primary key",
        "kind text not null",
        "at real not null",
        "engine integer not null",
        "first_row integer not null",
        "n_rows integer not null",
        "checksum integer not null",
        "data blob",
        "rows blob",
    ),
    "points": ("position integer primary key", "id unique", "payload text"),
    "records": ("number integer primary key", "record text not null"),
    "removed": ("id primary key",),
    # All changes that a version made to a cut, as a list in JSON: there are thousands of them in a large batch.
    "changes": ("version integer not null", "cut text not null", "records text not null"),
    "names": ("cut text", "cluster integer", "name text not null"),
    # The automatic cuts that were made with an operation; to replay it, they are taken as they were.
    "cuts": ("version integer not null", "cut text not null", "made blob not null"),
}
OTHERS = (
    "create index changes_by_version on changes (version)",
    "create unique index by_name on names (cut, cluster)",
    "create unique index by_cut on cuts (version, cut)",
)


# Kinds of operations whose outcome is in a snapshot: they are not replayed.
NOT_IN_LOG = ("adopt", "refine", "compact", "recover")


class Operation(NamedTuple):
    """An entry of the log: a change, the rows that came with it, and the number of the engine that made it.

    Few rows are in the log themselves (``rows``): then one file is on disk sooner than two.
    """

    version: int
    kind: str
    first_row: int = 0
    n_rows: int = 0
    checksum: int = 0
    data: bytes | None = None
    rows: bytes | None = None
    engine: int = ENGINE

    @property
    def numbers(self) -> Counts:
        """The numbers of the rows that came with it."""
        return np.arange(self.first_row, self.first_row + self.n_rows)


# What is known of a store by name, and of which type it is.
ABOUT: dict[str, Any] = {
    "format": int,
    "store": str,
    "grinch": str,
    "snapshot": str | None,
    "snapshot_is": list | None,
    "vectors": str,
    "files": list | None,
    "model": dict | None,
    "dtype": str | None,
    "n_features": int | None,
    "is_sparse": bool | None,
    "is_named": bool | None,
    "id_kind": str | None,
    "columns": list | None,
    "default_cut": list,
    "is_to_be_vacuumed": bool,
    # Of a store that an earlier format wrote: the last version whose automatic cuts were not written down.
    "unwritten_cuts": int,
}


class KnownId(Exception):
    """A point with one of these ids is there already."""


class IdCache:
    """The ids of all points as they were last read, shared by the connections of a store.

    The point at a position never has another id, and no other point is ever at its position.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        # Positions, ascending, and the ids there; both are replaced at once, for several threads read.
        self._last: tuple[Counts, Objects] = np.empty(0, np.int64), np.empty(0, object)

    def ids_at(self, positions: Counts, read: Callable[[int], list[Id]]) -> Objects:
        """Return the ids at all positions of a version; ``read`` returns those after a position."""
        known_at, known = self._last
        last = int(known_at.max(initial=-1))
        old = positions[: np.searchsorted(positions, last, side="right")]
        at = np.searchsorted(known_at, old)
        if not np.array_equal(known_at[at], old):
            # The version is an earlier one, with points that are gone.
            last, at = -1, at[:0]
        ids = np.concatenate([known[at], np.array(read(last), object)])
        if len(ids) == len(positions):
            self._last = positions, ids
        return ids


class Database:
    """The SQLite file of a store; one connection, which the threads of a process share (the store takes turns).

    Rows are compared with their checksums when they are read. Whatever is wrong with the file is a
    :class:`~grinch.store.damage.DamagedStore`, whatever is wrong with the disk an OSError.
    """

    def __init__(self, folder: Path, readonly: bool):
        self.path = folder / FILE
        check_header(self.path)
        self._log = self.path.with_name(BESIDE[0])
        self.is_readonly = readonly
        # A connection that only reads makes files that it cannot delete.
        self._leaves_files = readonly and not self._log.exists() and os.access(folder, os.W_OK)
        # Tables all of whose rows have been compared with their checksums, by any connection.
        self._compared_tables = set[str]()
        self._ids = IdCache()
        # What the store is, as far as it was asked for; forgotten whenever somebody else may have changed it.
        self._about: dict[str, Any] = {}
        mode = "ro" if readonly else "rw"
        if readonly and not os.access(folder, os.W_OK) and not self._log.exists():
            # Nothing can write here, and SQLite need not make the files by which it would notice.
            mode += "&immutable=1"
        self._open(mode)

    def reader(self) -> Database:
        """Return another connection for reading, which need not compare or read what this one has."""
        twin = Database(self.path.parent, readonly=True)
        twin._compared_tables, twin._ids = self._compared_tables, self._ids
        return twin

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"file:{quote(str(self.path.resolve()))}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=30)
        connection.execute("pragma trusted_schema = off")
        return connection

    def _open(self, mode: str) -> None:
        with self._explained():
            self._connection = self._connect(mode)
        if mode == "rw":
            self._all("pragma journal_mode = wal")
            self._all("pragma synchronous = full")

    def become_writable(self) -> None:
        """Write from now on to what was opened to be read, and is known to be whole."""
        self._connection.close()
        self._about.clear()
        self.is_readonly = self._leaves_files = False
        self._open("rw")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Let an error of SQLite say which file it is about, and what to do."""
        try:
            yield
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
            raise  # ours, and no fault of the file
        except UnicodeDecodeError as error:
            # SQLite's message has a part of the file in it.
            raise damaged(self.path, f"it has text that is not UTF-8 ({error})") from error
        except sqlite3.Error as error:
            raise unusable(self.path, error) or damaged(self.path, str(error)) from error

    @staticmethod
    def create(folder: Path, tables: Mapping[str, Iterable[tuple[Any, ...]]]) -> None:
        """Make the database of a new store, with these rows in it; it is there as a whole or not at all."""
        path, temporary = folder / FILE, folder / f".{secrets.token_hex(8)}.tmp"
        try:
            with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
                connection.execute("begin")
                for table, columns in TABLES.items():
                    connection.execute(f"create table {table} ({', '.join(columns)}, row_checksum integer not null)")
                for statement in OTHERS:
                    connection.execute(statement)
                for table, rows in tables.items():
                    connection.executemany(*_statement(table, rows, "insert"))
                connection.execute("commit")
            os.replace(temporary, path)
            disk.sync_folder(folder)
        except BaseException as error:
            with suppress(OSError):
                temporary.unlink()
            if isinstance(error, sqlite3.Error):
                raise unusable(path, error) or damaged(path, str(error)) from error
            raise

    def check_format(self) -> None:
        """Raise unless this is the database of a store that this version can read."""
        objects = dict(self._all("select name, type from sqlite_master"))
        if objects.get("about") == "table":
            # First, and without its checksum: a later format may have other tables and checksums.
            row = self._one("select value from about where name = 'format'")
            version = None if row is None else self._parsed("about", row[0])
            check_version(self.path, version)
        missing = next((table for table in TABLES if objects.get(table) != "table"), None)
        if missing is not None:
            raise damaged(self.path, f"it is not the database of a store, for it has no table {missing!r}")
        odd = next((name for name, kind in objects.items() if kind not in ("table", "index")), None)
        if odd is not None:
            # A trigger would run whenever something is written.
            raise damaged(self.path, f"it has the {objects[odd]} {odd!r}, which no store has")
        self.get("format")

    # Transactions -------------------------------------------------------------------------------------------------

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Make all changes within durable when this ends, or none of them."""
        try:
            self._all("begin immediate")
            yield
            self._all("commit")
        except BaseException:
            # What was read within may never be there.
            self._ids.clear()
            self.end_look()
            raise

    def look_again(self) -> None:
        """Let a reader see what is committed now; until the next call nothing of it changes."""
        self.end_look()
        self._all("begin")
        self._one("select count(*) from about")

    def end_look(self) -> None:
        """Let a reader see what is committed whenever it asks, until the next :meth:`look_again`."""
        self._about.clear()
        if self._connection.in_transaction:
            self._all("rollback")

    @property
    def closes_last(self) -> bool:
        """Whether SQLite's other files go with this connection, if no other is open."""
        return self._leaves_files or not self.is_readonly

    def close(self) -> None:
        """Close the connection; a reader leaves no file behind."""
        self._connection.close()
        with suppress(OSError, sqlite3.Error, UnicodeDecodeError):
            if self._leaves_files and not self._log.stat().st_size:
                # The last connection that can write takes them away when it is closed.
                with closing(self._connect("rw")) as connection:
                    connection.execute("select 1 from sqlite_master").fetchone()

    def _write(self, table: str, rows: Iterable[tuple[Any, ...]], how: str = "insert or replace") -> None:
        """Write rows with their checksums."""
        with self._explained():
            self._connection.executemany(*_statement(table, rows, how))

    def _one(self, query: str, *values: Any) -> Any:
        with self._explained():
            return self._connection.execute(query, values).fetchone()

    def _all(self, query: str, *values: Any) -> list[Any]:
        with self._explained():
            return self._connection.execute(query, values).fetchall()

    def _rows(self, table: str, which: str = "", *values: Any) -> Generator[tuple[Any, ...], None, None]:
        """Yield rows of a table as they were written, without their checksums."""
        with self._explained(), closing(self._connection.execute(f"select * from {table} {which}", values)) as cursor:
            for row in cursor:
                yield self._compared(table, row)

    def _row(self, table: str, column: str, value: Any) -> tuple[Any, ...] | None:
        """Return the row of a table with this value in a unique column; None if there is none."""
        row = self._one(f"select * from {table} where {column} = ?", value)
        return None if row is None else self._compared(table, row)

    def _compared(self, table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a row without its checksum, which must be right."""
        if row_checksum(table, row[:-1]) != row[-1]:
            raise damaged(self.path, f"the checksum of a row in {table!r} is wrong ({row[:-1]!r:.100})")
        return row[:-1]

    def _parsed(self, table: str, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise damaged(self.path, f"{text!r:.60} in {table!r} is not JSON: {error}") from None

    # What the store is --------------------------------------------------------------------------------------------

    def get(self, name: str) -> Any:
        """Return what is known by this name; raises if nothing is."""
        if name in self._about:
            return self._about[name]
        row = self._row("about", "name", name)
        if row is None:
            raise damaged(self.path, f"{name!r} is not in 'about'")
        value = self._parsed("about", row[1])
        if not isinstance(value, ABOUT[name]):
            raise damaged(self.path, f"{name!r} in 'about' cannot be {value!r:.60}")
        if (self._connection.in_transaction or not self.is_readonly) and not isinstance(value, (list, dict)):
            self._about[name] = value
        return value

    def find(self, name: str) -> Any:
        """Return what is known by this name; None if nothing is, as in stores of earlier releases."""
        return None if self._row("about", "name", name) is None else self.get(name)

    def set(self, name: str, value: Any) -> None:
        self._about.pop(name, None)
        self._write("about", [about_row(name, value)])

    # Operations ---------------------------------------------------------------------------------------------------

    def version(self) -> int:
        return int(self._one("select coalesce(max(version), 0) from operations")[0])

    def add_operation(self, done: Operation) -> None:
        row = (done.version, done.kind, time.time(), done.engine, *done[2:-1])
        self._write("operations", [row], "insert")

    def operations(self, after: int) -> Generator[Operation, None, None]:
        """Yield those after a version, in order."""
        return (operation_of(row) for row in self._rows("operations", "where version > ? order by version", after))

    def add_made(self, version: int, made: Mapping[str, MadeCut]) -> None:
        """Write down the automatic cuts that were made with an operation, by name."""
        self._write("cuts", [(version, name, cut.to_bytes()) for name, cut in made.items()], "insert")

    def made(self, version: int) -> dict[str, MadeCut] | None:
        """Return the automatic cuts that were made with an operation, by name; None if they were not written down."""
        if version <= (self.find("unwritten_cuts") or 0):
            return None
        rows = self._rows("cuts", "where version = ? order by rowid", version)
        with reading(self.path, ValueError):
            return {name: MadeCut.from_bytes(cut) for _, name, cut in rows}

    def times(self) -> dict[int, float]:
        """Return when each version was made, in seconds since 1970."""
        return dict(self._all("select version, at from operations"))

    def inserted(self) -> list[tuple[int, int]]:
        """Return the versions in which points came, and how many did."""
        query = "select version, n_rows, data from operations where kind in ('insert', 'adopt') order by version"
        with reading(self.path, ValueError):
            return [(version, n or int(data or 0)) for version, n, data in self._all(query)]

    def forget_operations(self) -> None:
        """Forget what is needed to replay operations, for a snapshot has it all; that they were done stays."""
        self._write("operations", [forgotten(row) for row in self._rows("operations")])
        self._all("delete from removed")
        self._all("delete from cuts")

    def forget_rows(self, up_to: int) -> None:
        """Forget the rows of operations up to a version, which are on disk elsewhere."""
        self._all("update operations set rows = null where version <= ? and rows is not null", up_to)

    # Points -------------------------------------------------------------------------------------------------------

    def add_points(self, first: int, ids: Sequence[Id] | None, payloads: Sequence[str | None] | None, n: int) -> None:
        """File points from position ``first`` on; raises :class:`KnownId` if a point has one of these ids."""
        nothing: list[None] = [None] * n
        rows = zip(range(first, first + n), ids or nothing, payloads or nothing, strict=True)
        try:
            self._write("points", rows, "insert")
        except DamagedStore as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError) and "points.id" in str(error.__cause__):
                raise KnownId from None
            raise

    def positions_of(self, ids: Sequence[Id]) -> list[int | None]:
        """Return the position of each id; None for those that are not there."""
        rows = [self._row("points", "id", name) for name in ids]
        for row, name in zip(rows, ids, strict=True):
            if row is not None and row[1] != name:
                raise damaged(self.path, f"it has the id {row[1]!r:.60} where {name!r:.60} should be")
        return [None if row is None else int(row[0]) for row in rows]

    def check_absence(self, name: Id) -> None:
        """Raise if an id that was not found is there: then the index is damaged, by which it is looked for."""
        if self._one("select 1 from points not indexed where id = ?", name) is not None:
            raise damaged(self.path, f"the index of 'points' does not have the id {name!r:.60}, which is there")

    def were_removed(self, ids: Sequence[Id]) -> list[bool]:
        """Return which of these ids were there before and were removed."""
        return [self._one("select 1 from removed where id = ?", name) is not None for name in ids]

    def ids_at(self, positions: Iterable[int]) -> list[Id | None]:
        """Return the ids at these positions; None where there is no point any more."""
        return [None if row is None else row[1] for row in self._points_at(positions)]

    def _points_at(self, positions: Iterable[int]) -> Iterator[tuple[Any, ...] | None]:
        return (self._row("points", "position", position) for position in positions)

    def ids_of(self, positions: Counts) -> Objects:
        """Return the ids of all points, which are at these positions; those read before are not read again."""
        ids = self._ids.ids_at(positions, self.all_ids)
        if len(ids) != len(positions):
            raise damaged(self.path, f"there are {len(ids):,} ids for {len(positions):,} points")
        return ids

    def all_ids(self, after: int = -1, *, is_trusted: bool = False) -> list[Id]:
        """Return the ids of all points after a position; if they are trusted, not compared with their checksums."""
        if not self._compared_tables and not is_trusted and after < 0:
            found = [row[1] for row in self._rows("points", "order by position")]
            self._compared_tables.add("points")
            return found
        # Many at a time: in half the time, and others run while SQLite puts them together.
        query = (
            "select json_group_array(id), max(position)"
            " from (select id, position from points where position > ? order by position limit ?)"
        )
        ids: list[Id] = []
        last: int | None = after
        while last is not None:
            some, last = self._one(query, last, IDS_AT_ONCE)
            ids += self._parsed("points", some)
        return ids

    def all_positions(self) -> Counts:
        return np.array([row[0] for row in self._all("select position from points order by position")], np.int64)

    def remove_points(self, positions: Iterable[int], ids: Iterable[Id]) -> None:
        with self._explained():
            self._connection.executemany("delete from points where position = ?", ((p,) for p in positions))
        self._write("removed", ((name,) for name in ids))

    def set_payloads(self, positions: Sequence[int], payloads: Sequence[str | None]) -> None:
        """Replace payloads, also of points that had neither an id nor a payload, and so no row."""
        self._write("points", zip(positions, self.ids_at(positions), payloads, strict=True))

    def payloads_at(self, positions: Iterable[int]) -> list[str | None]:
        return [None if row is None else row[2] for row in self._points_at(positions)]

    def parsed_payloads(self, positions: Iterable[int]) -> list[Any]:
        """Return the payloads at these positions; None where there is none."""
        return [None if text is None else self._parsed("points", text) for text in self.payloads_at(positions)]

    def check_payloads(self) -> None:
        """Raise unless all payloads are JSON."""
        for _, _, text in self._rows("points"):
            if text is not None:
                self._parsed("points", text)

    def find_text(self, text: str, limit: int, deadline: float) -> tuple[list[int], bool]:
        """Return positions of points with a text in id or payload, up to ``limit``, and whether all were searched.

        Small and capital letters from a to z are the same.
        """
        # Quotes and line ends are escaped in a payload.
        escaped = json.dumps(text, ensure_ascii=False)[1:-1]
        marked = [part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") for part in (text, escaped)]
        query = (
            "select position, id, payload from points where id like '%' || ? || '%' escape '\\'"
            " or payload like '%' || ? || '%' escape '\\'"
        )
        matches = list[int]()
        self._connection.set_progress_handler(lambda: int(time.monotonic() > deadline), 20_000)
        try:
            with self._explained(), closing(self._connection.execute(query, marked)) as cursor:
                for position, name, payload in cursor:
                    if time.monotonic() > deadline:
                        return matches, False
                    # The name of a field is no text of a point.
                    if _has_text(text.lower(), name, None if payload is None else self._parsed("points", payload)):
                        matches.append(position)
                    if len(matches) == limit:
                        return matches, False
        except InterruptedError:
            return matches, False
        finally:
            self._connection.set_progress_handler(None, 0)
        return matches, True

    # Records, where points are not vectors ------------------------------------------------------------------------

    def add_records(self, first: int, records: Sequence[str]) -> None:
        self._write("records", enumerate(records, first))

    def records_at(self, rows: Iterable[int]) -> list[str]:
        records = [self._row("records", "number", int(row)) for row in rows]
        if None in records:
            raise damaged(self.path, f"{records.count(None)} records are not there")
        return [row[1] for row in records if row is not None]

    def renumber_records(self, kept: Counts) -> None:
        """Keep these records only, in ascending order, numbered from 0."""
        last = -1
        for new, old in enumerate(kept.tolist()):
            self._all("delete from records where number > ? and number < ?", last, old)
            # Never later than before, and the place is free by now.
            self._all("update records set number = ? where number = ?", new, old)
            last = old
        self._all("delete from records where number > ?", last)

    # Changes and names --------------------------------------------------------------------------------------------

    def add_changes(self, version: int, changes: Iterable[Change]) -> None:
        """Note what a version changed."""
        self._write("changes", change_rows(version, changes), "insert")

    def changes(
        self, since: int, until: int, cut: str | None = None, order: str = "asc"
    ) -> Generator[tuple[int, str, list[list[Any]]], None, None]:
        """Yield versions after one and up to another, and the changes of a cut, or of all, in each."""
        which = "where version > ? and version <= ? and coalesce(cut = ?, true)"
        which += f" order by version {order}, rowid {order}"
        for version, name, records in self._rows("changes", which, since, until, cut):
            yield version, name, self._changes_in(records)

    def _changes_in(self, text: str) -> list[list[Any]]:
        changes = self._parsed("changes", text)
        if not isinstance(changes, list) or not all(isinstance(one, list) and len(one) == 6 for one in changes):
            raise damaged(self.path, f"{text!r:.60} in 'changes' are none")
        return changes

    def set_name(self, cut: str, cluster: int, name: str | None) -> None:
        if name is None:
            self._all("delete from names where cut = ? and cluster = ?", cut, cluster)
        else:
            self._write("names", [(cut, cluster, name)])

    def names(self, cut: str) -> dict[int, str]:
        # Few enough to need no index, which could be damaged without being noticed.
        which = "not indexed where cut = ? order by cluster"
        return {cluster: name for _, cluster, name in self._rows("names", which, cut)}

    def drop_names(self, cut: str) -> None:
        self._all("delete from names where cut = ?", cut)

    # Care ---------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Let SQLite verify the file, and compare all rows with their checksums."""
        problems = self._all("pragma integrity_check")
        if problems != [("ok",)]:
            raise damaged(self.path, "; ".join(str(row[0]) for row in problems[:5]))
        for table in TABLES:
            for _ in self._rows(table):
                pass

    def all_rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return all rows of a table, in the order they were written."""
        return list(self._rows(table, "order by rowid"))

    def vacuum(self) -> bool:
        """Rewrite the file without what was deleted; return whether it is gone, for a reader may keep it in the log."""
        self._all("pragma busy_timeout = 500")
        try:
            self._all("vacuum")
            is_kept = self._one("pragma wal_checkpoint(truncate)")[0]
        finally:
            self._all("pragma busy_timeout = 30000")
        return not is_kept

    def copy_to(self, path: Path) -> None:
        """Copy what is committed, while others may write."""
        with self._explained(), closing(sqlite3.connect(path)) as target:
            self._connection.backup(target)
            target.execute("pragma journal_mode = delete")


def check_header(path: Path) -> None:
    """Raise unless a file begins as a database does.

    Before SQLite opens it: beside an empty file, that would delete the log, in which all may still be.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(len(MAGIC))
    except FileNotFoundError:
        raise damaged(path, "it is not there") from None
    if start != MAGIC:
        raise damaged(path, "it does not begin as a database does" if start else "it is empty")


def check_version(path: Path, version: Any) -> None:
    """Raise if a database is of a format that this version does not read."""
    if isinstance(version, int) and version > FORMAT:
        raise LaterFormat(
            f"{path} is of format {version}, written by a later version of grinch; this one reads {FORMAT}."
            " Upgrade grinch"
        )
    if version == 3:
        raise EarlierFormat(
            f"{path} is of format 3, which no release of grinch wrote. Insert its points into a new store"
        )
    if version in (1, 2):
        raise EarlierFormat(
            f"{path} is of format {version}, which grinch 0.1 wrote; this version reads {FORMAT}. Convert the store:"
            f" grinch convert {path.parent} NEW"
        )


def about_row(name: str, value: Any) -> tuple[str, str]:
    """Return what is known by a name as a row of the table ``about``."""
    return name, json.dumps(value)


def change_rows(version: int, changes: Iterable[Change]) -> list[tuple[int, str, str]]:
    """Return the changes that a version made as rows of the table ``changes``."""
    by_cut: dict[str, list[list[Any]]] = {}
    for c in changes:
        by_cut.setdefault(c.cut, []).append([c.kind, c.cluster, c.others, c.size, c.count, c.exemplars])
    return [(version, cut, json.dumps(records)) for cut, records in by_cut.items()]


def operation_of(row: tuple[Any, ...]) -> Operation:
    """Return a row of the table ``operations`` as an operation."""
    version, kind, _, engine, first_row, n_rows, checksum, data, rows = row
    return Operation(version, kind, first_row, n_rows, checksum, data, rows, engine)


def forgotten(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the row of an operation that is never done again.

    How many points an insert brought stays known: which of those there are came when.
    """
    version, kind, at, engine, _, n_rows, _, data, _ = row
    count = None if kind not in ("insert", "adopt") else str(n_rows).encode() if n_rows else data
    return version, kind, at, engine, 0, 0, 0, count, None


def _statement(table: str, rows: Iterable[tuple[Any, ...]], how: str) -> tuple[str, Iterator[tuple[Any, ...]]]:
    """Return the statement that writes rows with their checksums into a table, and these rows."""
    marks = ", ".join("?" * (len(TABLES[table]) + 1))
    return f"{how} into {table} values ({marks})", ((*row, row_checksum(table, row)) for row in rows)


def row_checksum(table: str, row: tuple[Any, ...]) -> int:
    """Return a number that changes with any bit of a row.

    Records may be renumbered, and the rows of operations have a checksum of their own.
    """
    covered = row[1:] if table == "records" else row[:-1] if table == "operations" else row
    return zlib.crc32(repr(covered).encode("utf-8", "surrogatepass"))


def _has_text(wanted: str, name: Id | None, payload: Any) -> bool:
    """Return whether an id, or a value anywhere in a payload, has a text in it."""
    if wanted in str(name).lower():
        return True
    waiting = [payload]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (dict, list)):
            waiting.extend(value.values() if isinstance(value, dict) else value)
        elif value is not None and wanted in str(value).lower():
            return True
    return False
