"""Rows of a database that SQLite refuses to read, recovered page by page.

Every row of a store has a checksum of its own, so a row that is found with the right one is a row that was written,
wherever it is found: the tables, the indexes and the order of the pages need not be intact. The format is that of
https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import mmap
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from grinch.store.database import MAGIC, TABLES, row_checksum

PAGE = 4096
HEADER = 100
# Kinds of pages: of a table, with rows or with the numbers of pages that have them.
LEAF, INTERIOR = 0x0D, 0x05
# Tables whose first column is the number of the row, which is not among its values.
NUMBERED = ("operations", "points", "records")
# Bytes of a value, by its kind; from 12 on, the kind itself says how many.
SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)


class Salvaged(NamedTuple):
    """Rows by table, in the order they were written; ``n_unclear``: of how many rows there were two versions."""

    tables: dict[str, list[tuple[Any, ...]]]
    n_unclear: int


def salvage(path: Path) -> Salvaged:
    """Return the rows of the database of a store that are as they were written.

    The file is a copy: what is in SQLite's log beside it becomes a part of it.
    """
    _apply_log(path)
    pages, n_unclear = _Pages(path), 0
    # By table and key, a row and its rank: of two with the same key, the one of the higher rank is taken.
    found: dict[str, dict[Any, tuple[Any, tuple[Any, ...]]]] = {table: {} for table in TABLES}
    unused, children = pages.unused(), pages.children()
    for number in set(range(1, pages.count + 1)) - unused:
        for rowid, values in pages.rows(number):
            table, row = _recognized(rowid, values)
            if table is None:
                continue
            # A row that is written again has a higher number; a page that nothing points to may be an earlier one.
            rank = (rowid,) if table in ("about", "names") else (number in children, number)
            key = rowid if table == "changes" else row[:2] if table == "names" else row[0]
            before = found[table].get(key)
            if before is not None and before[1] != row and table in NUMBERED:
                n_unclear += 1
            if before is None or before[0] < rank:
                found[table][key] = rank, row
    by_key = {table: sorted(rows, key=lambda key: (type(key).__name__, key)) for table, rows in found.items()}
    return Salvaged({table: [found[table][key][1] for key in keys] for table, keys in by_key.items()}, n_unclear)


def _apply_log(path: Path) -> None:
    """Let SQLite write the committed pages of its log into the database, for which only the header must be right."""
    path.touch()
    with open(path, "r+b") as file:
        if file.read(len(MAGIC)) != MAGIC:
            file.seek(0)
            file.write(_new_header())
            file.truncate(max(file.seek(0, 2), PAGE))
    # It opens the log before it finds out what is damaged, and the last one to close it writes it.
    with suppress(sqlite3.Error, UnicodeDecodeError), closing(sqlite3.connect(path)) as connection:
        connection.execute("select 1 from sqlite_master").fetchone()


def _new_header() -> bytes:
    """Return how a database with a write-ahead log begins."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"pragma page_size = {PAGE}")
        connection.execute("create table empty (x)")
        header = bytearray(connection.serialize()[:HEADER])
    header[18:20] = b"\2\2"
    return bytes(header)


def _recognized(rowid: int, values: list[Any]) -> tuple[str | None, tuple[Any, ...]]:
    """Return the table that a row is of, by its columns and its checksum; and the row without the checksum."""
    for table, columns in TABLES.items():
        if len(values) != len(columns) + 1 or (values[0] is None) != (table in NUMBERED):
            continue
        row = (rowid, *values[1:-1]) if table in NUMBERED else tuple(values[:-1])
        if table == "operations" and isinstance(row[2], int):
            # SQLite writes a time without a fraction as a whole number.
            row = (*row[:2], float(row[2]), *row[3:])
        is_other = table in ("changes", "names") and isinstance(row[0], int) != (table == "changes")
        if not is_other and row_checksum(table, row) == values[-1]:
            return table, row
    return None, ()


class _Pages:
    """The pages of a database, numbered from 1."""

    def __init__(self, path: Path):
        with open(path, "rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.size, reserved, header = PAGE, 0, self._data[:HEADER]
        size = int.from_bytes(header[16:18], "big")
        size = 65536 if size == 1 else size
        if size >= 512 and size & (size - 1) == 0 and header[20] <= 32:
            self.size, reserved = size, header[20]
        self.usable = self.size - reserved
        self.count = -(-len(self._data) // self.size)

    def page(self, number: int) -> bytes:
        if not 1 <= number <= self.count:
            raise IndexError(f"there is no page {number}")
        return self._data[(number - 1) * self.size : number * self.size]

    def unused(self) -> set[int]:
        """Return the pages on the list of free ones, as far as it can be read; what is in them was deleted."""
        found: set[int] = set()
        with suppress(IndexError, struct.error):
            (trunk,) = struct.unpack_from(">I", self.page(1), 32)
            while trunk and trunk not in found:
                following, n = struct.unpack_from(">2I", self.page(trunk))
                found |= {trunk, *struct.unpack_from(f">{min(n, self.size // 4 - 2)}I", self.page(trunk), 8)}
                trunk = following
        return found

    def children(self) -> set[int]:
        """Return the pages that others point to."""
        found: set[int] = set()
        for number in range(1, self.count + 1):
            page, start = self.page(number), HEADER if number == 1 else 0
            with suppress(IndexError, struct.error):
                if page[start] == INTERIOR:
                    n, last = *struct.unpack_from(">H", page, start + 3), *struct.unpack_from(">I", page, start + 8)
                    cells = struct.unpack_from(f">{n}H", page, start + 12)
                    found |= {last, *(struct.unpack_from(">I", page, at)[0] for at in cells)}
        return found

    def rows(self, number: int) -> Iterator[tuple[int, list[Any]]]:
        """Return the rows in a page, with their numbers; those that make no sense are passed over."""
        page, start = self.page(number), HEADER if number == 1 else 0
        if len(page) < start + 8 or page[start] != LEAF:
            return
        n = int.from_bytes(page[start + 3 : start + 5], "big")
        for i in range(min(n, (self.size - start - 8) // 2)):
            with suppress(IndexError, ValueError, struct.error):
                (at,) = struct.unpack_from(">H", page, start + 8 + 2 * i)
                size, at = _varint(page, at)
                rowid, at = _varint(page, at)
                yield rowid, _values(self._payload(page, at, size))

    def _payload(self, page: bytes, at: int, size: int) -> bytes:
        """Return the bytes of a row, those in other pages as well."""
        if not 0 < size <= self.count * self.size:
            raise ValueError(f"no row has {size} bytes")
        usable, most = self.usable, self.usable - 35
        if size <= most:
            return _exactly(page, at, size)
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        local = local if local <= most else least
        payload, following = page[at : at + local], page[at + local : at + local + 4]
        while len(payload) < size:
            other = self.page(int.from_bytes(following, "big"))
            payload, following = payload + _exactly(other, 4, min(usable - 4, size - len(payload))), other[:4]
        return payload


def _exactly(data: bytes, at: int, size: int) -> bytes:
    if len(data) < at + size:
        raise ValueError("a row is cut off")
    return data[at : at + size]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of SQLite's, of one to nine bytes, and where it ends."""
    value = 0
    for i in range(8):
        byte = data[at + i]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >> 63 else value, at + 9


def _values(data: bytes) -> list[Any]:
    """Return the values of a row."""
    end, at = _varint(data, 0)
    body, values = end, list[Any]()
    while at < end:
        kind, at = _varint(data, at)
        content = _exactly(data, body, (kind - 12) // 2 if kind >= 12 else SIZES[kind])
        body += len(content)
        if kind >= 12:
            values.append(content.decode() if kind % 2 else content)
        elif kind == 7:
            values.append(struct.unpack(">d", content)[0])
        else:
            values.append(None if kind == 0 else kind - 8 if kind >= 8 else int.from_bytes(content, "big", signed=True))
    return values
