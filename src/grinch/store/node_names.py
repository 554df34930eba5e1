"""Names that people give to nodes of a tree, and the fields they named, in a small file of their own.

Names are given in the explorer while another process inserts, so they are not part of the store's log, and giving one
does not wait for the writer. A node has no permanent number: it is kept by some of its points, and found again as the
node that has most of them and little else.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from grinch._types import Counts, Floats, Ids
from grinch.store.damage import DamagedStore, unusable

FILE = "node-names.sqlite"
# A name is kept by this many points of its node at most.
MAX_POINTS = 64
MAX_LENGTH = 200
TABLE = (
    "create table if not exists names (number integer primary key autoincrement, name text not null,"
    " points text not null, size integer not null, total integer not null, at real not null)"
)
FIELDS_TABLE = "create table if not exists fields (purpose text primary key, name text not null)"
# How much of the file is its header.
HEADER = 100
# A name is that of a group of points if the Jaccard similarity of the group to the named node is above this.
MIN_SIMILARITY = 1 / 3
Id = int | str


class NodeName(NamedTuple):
    """A name, some of the points of its node, the number of points of the node, and that of all points then."""

    number: int
    name: str
    points: list[Id]
    size: int
    total: int

    def similarities(self, n_left: int, counts: Ids | Counts, sizes: Ids | Counts, n: int) -> Floats:
        """Return how similar groups of points are to the node, from 0 to 1.

        ``counts`` are the numbers of points of the name in each group, of ``n_left`` that are still there; ``sizes``
        those of all its points; ``n`` is the number of all points now. Points that were removed or came later do not
        count against a group: later ones are assumed to have come everywhere at the same rate.
        """
        growth = max(n / max(self.total, 1), 1.0)
        # The number of points of the node that are still there.
        left = max(self.size * n_left / len(self.points), 1.0)
        # Between that size and the size it would have by now, the one that fits best.
        expected = np.minimum(np.maximum(sizes, left), left * growth)
        shared = np.minimum(counts / n_left * expected, sizes)
        # Sums in another order must not decide.
        return np.round(shared / (expected + sizes - shared), 9)


class NodeNames:
    """The names in a file, which is made when the first one is given.

    >>> import tempfile
    >>> names = NodeNames(Path(tempfile.mkdtemp()) / FILE)
    >>> names.add("tax questions", [3, 7], size=2, total=100)
    1
    >>> [(found.name, found.points) for found in names.all()]
    [('tax questions', [3, 7])]
    """

    def __init__(self, path: Path):
        self.path = path

    def all(self) -> list[NodeName]:
        """Return the names, the oldest first."""
        if not self.path.exists():
            return []
        with self._opened() as connection:
            return _all_in(connection)

    def add(self, name: str, points: Sequence[Id], size: int, total: int) -> int:
        """Give a name to a node with these points; return its number."""
        row = (check_name(name), _as_json(points), int(size), int(total), time.time())
        with self._opened() as connection, connection:
            connection.execute(TABLE)
            cursor = connection.execute("insert into names (name, points, size, total, at) values (?, ?, ?, ?, ?)", row)
            return int(cursor.lastrowid or 0)

    def drop(self, numbers: Sequence[int]) -> None:
        """Delete names."""
        if not numbers or not self.path.exists():
            return
        with self._opened() as connection, connection:
            connection.executemany("delete from names where number = ?", ((number,) for number in numbers))

    def fields(self) -> dict[str, str]:
        """Return the fields of the payload that a user named, by their purpose."""
        if not self.path.exists():
            return {}
        with self._opened() as connection:
            if not _has_table(connection, "fields"):
                return {}
            return {str(purpose): str(name) for purpose, name in connection.execute("select * from fields")}

    def name_fields(self, **fields: str | None) -> None:
        """Remember which field of the payload serves which purpose; None forgets it."""
        with self._opened() as connection, connection:
            connection.execute(FIELDS_TABLE)
            connection.executemany("delete from fields where purpose = ?", ((purpose,) for purpose in fields))
            named = [(purpose, name) for purpose, name in fields.items() if name is not None]
            connection.executemany("insert into fields values (?, ?)", named)

    def forget(self, are_there: Callable[[list[Id]], Sequence[bool]]) -> None:
        """Forget points that were removed: ``are_there`` returns which of some ids still have a point.

        A name without any point left is deleted.
        """
        if not self.path.exists():
            return
        with self._opened() as connection, connection:
            connection.execute("begin immediate")
            for given in _all_in(connection):
                kept = list(compress(given.points, are_there(given.points)))
                if not kept:
                    connection.execute("delete from names where number = ?", (given.number,))
                elif len(kept) < len(given.points):
                    size = max(round(given.size * len(kept) / len(given.points)), len(kept))
                    values = (_as_json(kept), size, given.number)
                    connection.execute("update names set points = ?, size = ? where number = ?", values)

    def check(self) -> None:
        """Let SQLite verify the file; raises :class:`DamagedStore`."""
        if not self.path.exists():
            return
        with self._opened() as connection:
            problems = connection.execute("pragma integrity_check").fetchall()
            if problems != [("ok",)]:
                raise ValueError("; ".join(str(row[0]) for row in problems[:5]))
            _all_in(connection)

    def copy_to(self, path: Path) -> None:
        """Copy the file, while others may write."""
        if not self.path.exists():
            return
        with self._opened() as connection, closing(sqlite3.connect(path)) as target:
            connection.backup(target)

    def state(self) -> object:
        """Return a cache key of the names; None while there is no file."""
        try:
            with open(self.path, "rb") as file:
                # The header of SQLite counts the changes; times of files are too coarse.
                return os.fstat(file.fileno()).st_ino, file.read(HEADER)
        except FileNotFoundError:
            return None

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=10)) as connection:
                connection.execute("pragma trusted_schema = off")
                connection.execute("pragma synchronous = full")
                # What is deleted is overwritten.
                connection.execute("pragma secure_delete = on")
                yield connection
        except DamagedStore:
            raise
        except (sqlite3.Error, ValueError, TypeError, RecursionError) as error:
            passing = unusable(self.path, error) if isinstance(error, sqlite3.Error) else None
            raise passing or DamagedStore(
                f"{self.path} is damaged: {error}. Move it away to go on without these names, or restore it from a"
                " backup"
            ) from None


def _all_in(connection: sqlite3.Connection) -> list[NodeName]:
    if not _has_table(connection, "names"):
        return []
    rows = connection.execute("select number, name, points, size, total from names order by number")
    return [
        NodeName(number, str(name), _points(text), int(size), int(total)) for number, name, text, size, total in rows
    ]


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether a table is there; another process may be about to make it."""
    return connection.execute("select 1 from sqlite_master where name = ?", (name,)).fetchone() is not None


def _points(text: str) -> list[Id]:
    points = json.loads(text)
    if not isinstance(points, list) or not all(isinstance(point, (int, str)) for point in points):
        raise ValueError(f"points must be a list of ids; got {text!r:.60}")
    return points


def _as_json(points: Sequence[Id]) -> str:
    return json.dumps(list(points), ensure_ascii=False)


def check_name(name: object) -> str:
    """Return a name as it can be kept: one line of text."""
    text = " ".join(name.encode("utf-8", "replace").decode("utf-8").split()) if isinstance(name, str) else ""
    if not text:
        raise ValueError(f"name must be a text that is not empty; got {name!r:.60}. None takes a name away")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"name must have at most {MAX_LENGTH} characters; got {len(text)}")
    return text
