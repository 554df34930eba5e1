"""What a store keeps in SQLite: operations, ids, payloads, changes, names, and where the last snapshot is."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from grinch._types import Counts
from grinch.store.snapshots import DamagedStore

FORMAT = 1
# Of a store whose vectors are sparse: an earlier release would take its rows for dense ones.
SPARSE_FORMAT = 2
FILE = "store.sqlite"
Id = int | str

# The last column of each table is a checksum of what else is in the row (without its number, where that may change).
TABLES = {
    "about": ("name text primary key", "value text not null"),
    "operations": (
        "version integer primary key",
        "kind text not null",
        "at real not null",
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
}
OTHERS = ("create index changes_by_version on changes (version)", "create unique index by_name on names (cut, cluster)")


class Operation(NamedTuple):
    """A line of the log: what was done, and which rows came with it.

    Few rows are in the log themselves (``rows``): then one file is on disk sooner than two.
    """

    version: int
    kind: str
    first_row: int = 0
    n_rows: int = 0
    checksum: int = 0
    data: bytes | None = None
    rows: bytes | None = None


# Parts of the names of SQLite's errors where something could not be written.
NO_ROOM = ("FULL", "IOERR_WRITE", "IOERR_FSYNC", "IOERR_TRUNCATE", "IOERR_SHMSIZE", "IOERR_SHMMAP", "IOERR_SHMOPEN")


class Database:
    """The SQLite file of a store; one connection, which the threads of a process share (the store takes turns)."""

    def __init__(self, folder: Path, readonly: bool):
        self.path = folder / FILE
        mode = "ro" if readonly else "rwc"
        uri = f"file:{quote(str(self.path.resolve()))}?mode={mode}"
        if readonly and not os.access(folder, os.W_OK) and not self.path.with_name(f"{FILE}-wal").exists():
            # Nobody can write here, and SQLite need not make the files by which it would notice.
            uri += "&immutable=1"
        try:
            self._connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=30)
            self._connection.execute("pragma trusted_schema = off")
            if not readonly:
                self._connection.execute("pragma journal_mode = wal")
                self._connection.execute("pragma synchronous = full")
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> Exception:
        code = getattr(error, "sqlite_errorname", "")
        if any(word in code for word in NO_ROOM):
            return OSError(errno.ENOSPC, f"{self.path} cannot be written ({error}); is the disk full?")
        return DamagedStore(f"{self.path} is not the database of a store, or is damaged: {error}")

    def create(self, about: dict[str, Any]) -> None:
        """Make the tables of a new store, in one transaction."""
        with self.changing():
            for table, columns in TABLES.items():
                self._connection.execute(f"create table {table} ({', '.join(columns)}, row_checksum integer not null)")
            for statement in OTHERS:
                self._connection.execute(statement)
            for name, value in {"format": FORMAT, **about}.items():
                self.set(name, value)

    def is_new(self) -> bool:
        """Whether nothing has been made here yet."""
        try:
            return self._one("select count(*) from sqlite_master")[0] == 0
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None

    def check_format(self) -> None:
        try:
            odd = self._one("select type, name from sqlite_master where type not in ('table', 'index')")
            if odd is not None:
                # A trigger would run whenever something is written.
                raise ValueError(f"it has the {odd[0]} {odd[1]!r}, which no store has")
            version = self.get("format")
        except (sqlite3.DatabaseError, KeyError, ValueError) as error:
            raise self._damaged(error) from None
        if not isinstance(version, int) or version > SPARSE_FORMAT:
            raise DamagedStore(
                f"{self.path} is of format {version}, written by a later version of grinch; this one reads up to"
                f" {SPARSE_FORMAT}. Upgrade grinch"
            )

    # Transactions -------------------------------------------------------------------------------------------------

    @contextmanager
    def changing(self) -> Iterator[None]:
        """All changes within are on disk when this ends, or none of them is made."""
        try:
            self._connection.execute("begin immediate")
            yield
            self.commit()
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            raise

    def commit(self) -> None:
        self._connection.execute("commit")

    def look_again(self) -> None:
        """For a reader: what was committed by now; until the next call nothing of it changes."""
        if self._connection.in_transaction:
            self._connection.execute("rollback")
        self._connection.execute("begin")
        self._one("select count(*) from about")

    def close(self) -> None:
        self._connection.close()

    def _write(self, table: str, rows: Iterable[tuple[Any, ...]], how: str = "insert or replace") -> None:
        """Write rows with their checksums."""
        marks = ", ".join("?" * (len(TABLES[table]) + 1))
        summed = ((*row, row_checksum(table, row)) for row in rows)
        self._connection.executemany(f"{how} into {table} values ({marks})", summed)

    def _one(self, query: str, *values: Any) -> Any:
        return self._connection.execute(query, values).fetchone()

    # What the store is --------------------------------------------------------------------------------------------

    def get(self, name: str) -> Any:
        found = self._one("select value from about where name = ?", name)
        if found is None:
            raise KeyError(name)
        return json.loads(found[0])

    def find(self, name: str) -> Any:
        """What is known by this name; None if nothing is."""
        found = self._one("select value from about where name = ?", name)
        return None if found is None else json.loads(found[0])

    def set(self, name: str, value: Any) -> None:
        self._write("about", [(name, json.dumps(value))])

    # Operations ---------------------------------------------------------------------------------------------------

    def version(self) -> int:
        return int(self._one("select coalesce(max(version), 0) from operations")[0])

    def add_operation(self, done: Operation) -> None:
        self._write("operations", [(done.version, done.kind, time.time(), *done[2:])], "insert")

    def operations(self, after: int) -> Iterator[Operation]:
        """Those after a version, in order."""
        columns = ", ".join(Operation._fields)
        query = f"select {columns} from operations where version > ? order by version"
        for row in self._connection.execute(query, (after,)):
            yield Operation(*row)

    def times(self) -> dict[int, float]:
        """When each version was made, in seconds since 1970."""
        return dict(self._connection.execute("select version, at from operations"))

    def inserted(self) -> list[tuple[int, int]]:
        """The versions in which points came, and how many did."""
        query = "select version, n_rows, data from operations where kind in ('insert', 'adopt') order by version"
        return [(version, n or int(data or 0)) for version, n, data in self._connection.execute(query)]

    def forget_operations(self) -> None:
        """A snapshot has it all: what is needed to do operations again goes, that they were done stays."""
        done = self._connection.execute("select version, kind, at, n_rows, data from operations").fetchall()
        # How many points an insert brought stays known, too: which of those there are came when.
        kept = ((*row[:3], 0, 0, 0, _count_kept(*row[1:]), None) for row in done)
        self._write("operations", kept)
        self._connection.execute("delete from removed")

    def forget_rows(self, up_to: int) -> None:
        """The rows of operations up to a version are on disk elsewhere."""
        query = "update operations set rows = null where version <= ? and rows is not null"
        self._connection.execute(query, (up_to,))

    # Points -------------------------------------------------------------------------------------------------------

    def add_points(self, first: int, ids: Sequence[Id] | None, payloads: Sequence[str | None] | None, n: int) -> None:
        """File points from position ``first`` on; raises sqlite3.IntegrityError if an id is known."""
        nothing: list[None] = [None] * n
        rows = zip(range(first, first + n), ids or nothing, payloads or nothing, strict=True)
        self._write("points", rows, "insert")

    def file_positions(self, positions: Iterable[int]) -> None:
        """File points that have neither an id nor a payload yet."""
        self._write("points", ((p, None, None) for p in positions), "insert or ignore")

    def positions_of(self, ids: Sequence[Id]) -> list[int | None]:
        """The position of each id; None for those that are not there."""
        found = self._connection.cursor()
        rows = (found.execute("select position from points where id = ?", (name,)).fetchone() for name in ids)
        return [None if row is None else int(row[0]) for row in rows]

    def were_removed(self, ids: Sequence[Id]) -> list[bool]:
        """Which of these ids were there before and were removed."""
        return [self._one("select 1 from removed where id = ?", name) is not None for name in ids]

    def all_removed(self) -> list[Id]:
        """The ids of all points that were removed, as far as they are remembered."""
        return [row[0] for row in self._connection.execute("select id from removed")]

    def ids_at(self, positions: Iterable[int]) -> list[Id | None]:
        """The ids at these positions; None where there is no point any more."""
        cursor = self._connection.cursor()
        rows = (cursor.execute("select id from points where position = ?", (p,)).fetchone() for p in positions)
        return [None if row is None else row[0] for row in rows]

    def all_ids(self) -> list[Id]:
        """The ids of all points, by position."""
        return [row[0] for row in self._connection.execute("select id from points order by position")]

    def all_positions(self) -> Counts:
        rows = self._connection.execute("select position from points order by position")
        return np.fromiter((row[0] for row in rows), np.int64)

    def count_points(self) -> int:
        return int(self._one("select count(*) from points")[0])

    def remove_points(self, positions: Iterable[int], ids: Iterable[Id]) -> None:
        self._connection.executemany("delete from points where position = ?", ((p,) for p in positions))
        self._write("removed", ((name,) for name in ids))

    def set_payloads(self, positions: Sequence[int], payloads: Sequence[str | None]) -> None:
        self._write("points", zip(positions, self.ids_at(positions), payloads, strict=True))

    def payloads_at(self, positions: Iterable[int]) -> list[str | None]:
        cursor = self._connection.cursor()
        rows = (cursor.execute("select payload from points where position = ?", (p,)).fetchone() for p in positions)
        return [None if row is None else row[0] for row in rows]

    def all_payloads(self) -> Iterator[tuple[int, str | None]]:
        yield from self._connection.execute("select position, payload from points order by position")

    def find_text(self, text: str, limit: int, deadline: float) -> tuple[list[int], bool]:
        """Positions of points whose id or payload has a text in it, until ``limit`` or a moment; whether all were seen.

        Small and capital letters from a to z are the same.
        """
        # Quotes and line ends are escaped in a payload.
        escaped = json.dumps(text, ensure_ascii=False)[1:-1]
        marked = [part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") for part in (text, escaped)]
        query = (
            "select position, id, payload from points where id like '%' || ? || '%' escape '\\'"
            " or payload like '%' || ? || '%' escape '\\'"
        )
        found: list[int] = []
        self._connection.set_progress_handler(lambda: int(time.monotonic() > deadline), 20_000)
        try:
            with closing(self._connection.execute(query, marked)) as cursor:
                for position, name, payload in cursor:
                    if time.monotonic() > deadline:
                        return found, False
                    # The name of a field is no text of a point.
                    if _has_text(text.lower(), name, payload):
                        found.append(position)
                    if len(found) == limit:
                        return found, False
        except sqlite3.OperationalError:
            return found, False
        finally:
            self._connection.set_progress_handler(None, 0)
        return found, True

    # Records, where points are not vectors ------------------------------------------------------------------------

    def add_records(self, first: int, records: Sequence[str]) -> None:
        self._write("records", enumerate(records, first))

    def records_at(self, rows: Iterable[int]) -> list[str]:
        cursor = self._connection.cursor()
        found = [cursor.execute("select record from records where number = ?", (int(row),)).fetchone() for row in rows]
        if None in found:
            raise self._damaged(ValueError(f"{found.count(None)} records are not there"))
        return [row[0] for row in found]

    def renumber_records(self, kept: Counts) -> None:
        """Keep these records only, in ascending order, numbered from 0."""
        last = -1
        for new, old in enumerate(kept.tolist()):
            self._connection.execute("delete from records where number > ? and number < ?", (last, old))
            # Never later than before, and the place is free by now.
            self._connection.execute("update records set number = ? where number = ?", (new, old))
            last = old
        self._connection.execute("delete from records where number > ?", (last,))

    # Changes and names --------------------------------------------------------------------------------------------

    def add_changes(self, version: int, by_cut: dict[str, list[list[Any]]]) -> None:
        """Note what a version changed: by cut, a list for each change."""
        rows = ((version, cut, json.dumps(records)) for cut, records in by_cut.items())
        self._write("changes", rows, "insert")

    def latest_changes(self, since: int, until: int, cut: str) -> Generator[tuple[int, list[list[Any]]], None, None]:
        """Versions after one and up to another, and the changes of a cut in each; the latest first."""
        query = "select version, records from changes where version > ? and version <= ? and cut = ?"
        cursor = self._connection.execute(f"{query} order by version desc, rowid desc", (since, until, cut))
        with closing(cursor):
            for version, records in cursor:
                yield version, json.loads(records)

    def changes(self, since: int, cut: str | None) -> Iterator[tuple[int, str, list[list[Any]]]]:
        """The version, the cut and the changes of it, after a version."""
        query = "select version, cut, records from changes where version > ?"
        values: list[Any] = [since]
        if cut is not None:
            query, values = f"{query} and cut = ?", [since, cut]
        for version, name, records in self._connection.execute(f"{query} order by version, rowid", values).fetchall():
            yield version, name, json.loads(records)

    def set_name(self, cut: str, cluster: int, name: str | None) -> None:
        if name is None:
            self._connection.execute("delete from names where cut = ? and cluster = ?", (cut, cluster))
        else:
            self._write("names", [(cut, cluster, name)])

    def names(self, cut: str) -> dict[int, str]:
        return dict(self._connection.execute("select cluster, name from names where cut = ? order by cluster", (cut,)))

    def drop_names(self, cut: str) -> None:
        self._connection.execute("delete from names where cut = ?", (cut,))

    # Care ---------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Let SQLite verify the file."""
        try:
            found = self._connection.execute("pragma integrity_check").fetchall()
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None
        if found != [("ok",)]:
            raise self._damaged(ValueError("; ".join(str(row[0]) for row in found[:5])))
        for table in TABLES:
            for *row, checksum in self._connection.execute(f"select * from {table}"):
                if row_checksum(table, tuple(row)) != checksum:
                    raise self._damaged(ValueError(f"the checksum of a row in {table!r} is wrong ({row!r:.100})"))

    def vacuum(self) -> bool:
        """Write the file again without what was deleted; whether it is gone. A reader's view may keep it in the log."""
        self._connection.execute("pragma busy_timeout = 500")
        try:
            self._connection.execute("vacuum")
            is_kept = self._one("pragma wal_checkpoint(truncate)")[0]
        finally:
            self._connection.execute("pragma busy_timeout = 30000")
        return not is_kept

    def copy_to(self, path: Path) -> None:
        """A copy of what is committed, while others may write."""
        target = sqlite3.connect(path)
        try:
            self._connection.backup(target)
            target.execute("pragma journal_mode = delete")
        finally:
            target.close()


def _count_kept(kind: str, _: float, n_rows: int, data: bytes | None) -> bytes | None:
    """What is left of the data of an operation that is never done again."""
    if kind not in ("insert", "adopt"):
        return None
    return str(n_rows).encode() if n_rows else data


def row_checksum(table: str, row: tuple[Any, ...]) -> int:
    """A number that changes with any bit of a row; records may be numbered anew, and rows have another checksum."""
    told = row[1:] if table == "records" else row[:-1] if table == "operations" else row
    return zlib.crc32(repr(told).encode("utf-8", "surrogatepass"))


def _has_text(wanted: str, name: Id | None, payload: str | None) -> bool:
    """Whether an id, or a value anywhere in a payload, has a text in it."""
    if wanted in str(name).lower():
        return True
    waiting = [] if payload is None else [json.loads(payload)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (dict, list)):
            waiting.extend(value.values() if isinstance(value, dict) else value)
        elif value is not None and wanted in str(value).lower():
            return True
    return False
