"""Names that people give to nodes of a tree, in a small file of their own.

Whoever looks at a store names what they see while another process inserts, so names are not part of the store's log,
and nobody waits for the writer. A node has no number that stays: it is kept by some of its points, and found again as
the node that has most of them and little else.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from grinch.store.snapshots import DamagedStore

FILE = "node-names.sqlite"
# A name is kept by this many points of its node at most.
MOST_POINTS = 64
LONGEST = 200

Id = int | str


class NodeName(NamedTuple):
    """A name, some of the points of its node, how many it had, and of how many points in all."""

    number: int
    name: str
    points: list[Id]
    size: int
    total: int


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
        """The names that were given, the oldest first."""
        if not self.path.exists():
            return []
        try:
            with closing(self._connect()) as connection:
                rows = connection.execute("select number, name, points, size, total from names order by number")
                return [NodeName(row[0], row[1], json.loads(row[2]), row[3], row[4]) for row in rows]
        except (sqlite3.DatabaseError, ValueError) as error:
            raise DamagedStore(f"{self.path} is damaged: {error}. Take it away to go on without these names") from None

    def add(self, name: str, points: Sequence[Id], size: int, total: int) -> int:
        """Give a name to a node with these points; its number."""
        row = (check_name(name), json.dumps(list(points), ensure_ascii=False), int(size), int(total), time.time())
        with closing(self._connect()) as connection, connection:
            connection.execute(
                "create table if not exists names (number integer primary key autoincrement, name text not null,"
                " points text not null, size integer not null, total integer not null, at real not null)"
            )
            found = connection.execute("insert into names (name, points, size, total, at) values (?, ?, ?, ?, ?)", row)
            return int(found.lastrowid or 0)

    def drop(self, numbers: Sequence[int]) -> None:
        """Take names away."""
        if numbers and self.path.exists():
            with closing(self._connect()) as connection, connection:
                connection.executemany("delete from names where number = ?", ((number,) for number in numbers))

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=10)
        connection.execute("pragma trusted_schema = off")
        connection.execute("pragma synchronous = full")
        return connection


def check_name(name: object) -> str:
    """A name as it can be kept: one line of text."""
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"name must be a text with a letter in it; got {name!r:.60}. None takes a name away")
    text = " ".join(name.encode("utf-8", "replace").decode("utf-8").split())
    if len(text) > LONGEST:
        raise ValueError(f"name must have at most {LONGEST} characters; got {len(text)}")
    return text
