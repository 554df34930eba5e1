"""Rows out of a database that SQLite refuses to read, page by page.

Every row of a store has a checksum of its own, so a row that is found with the right one is a row that was written,
wherever it is found: the tables, the indexes and the order of the pages need not be intact. The format is that of
https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from grinch.store.database import BESIDE, MAGIC, TABLES, row_checksum

PAGE = 4096
HEADER = 100
# Kinds of pages: of a table, with rows or with the numbers of pages that have them.
LEAF, INTERIOR = 0x0D, 0x05
# Tables whose first column is the number of the row, which is not among its values.
NUMBERED = ("operations", "points", "records")
LOG_HEADER, FRAME_HEADER = struct.Struct(">8I"), struct.Struct(">6I")
LOG_MAGIC = (0x377F0682, 0x377F0683)


class Salvaged(NamedTuple):
    """The rows that were found, by table and in the order they were written; and of how many there were two."""

    tables: dict[str, list[tuple[Any, ...]]]
    n_unclear: int


class _Found(NamedTuple):
    """A row, and how likely it is the one that counts of two with the same key; the larger is."""

    rank: tuple[int, ...]
    row: tuple[Any, ...]


def salvage(path: Path) -> Salvaged:
    """Return the rows of the database of a store that are as they were written; nothing is written."""
    found: dict[str, dict[Any, _Found]] = {table: {} for table in TABLES}
    pages, n_unclear = _Pages(path), 0
    unused, children = pages.unused(), pages.children()
    for number in range(1, pages.count + 1):
        if number in unused:
            continue
        for rowid, values in pages.rows(number):
            table, row = _recognized(rowid, values)
            if table is None:
                continue
            # A row that is written again has a higher number; a page that nothing points to may be an earlier one.
            rank = (rowid,) if table in ("about", "names") else (number in children, number)
            key = _key(table, rowid, row)
            before = found[table].get(key)
            if before is not None and before.row != row and table in NUMBERED:
                n_unclear += 1
            if before is None or before.rank < rank:
                found[table][key] = _Found(rank, row)
    tables = {table: [rows[key].row for key in sorted(rows, key=_order)] for table, rows in found.items()}
    return Salvaged(tables, n_unclear)


def _order(key: Any) -> tuple[str, Any]:
    return type(key).__name__, key


def _key(table: str, rowid: int, row: tuple[Any, ...]) -> Any:
    return rowid if table == "changes" else row[:2] if table == "names" else row[0]


def _recognized(rowid: int, values: list[Any]) -> tuple[str | None, tuple[Any, ...]]:
    """The table that a row is of, by its columns and its checksum; without the checksum."""
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
    """The pages of a database as they were last committed: those of its log count first."""

    def __init__(self, path: Path):
        self._data = _mapped(path)
        header = self._data[:HEADER]
        self.size, reserved = PAGE, 0
        if header.startswith(MAGIC):
            size = int.from_bytes(header[16:18], "big")
            size = 65536 if size == 1 else size
            if size >= 512 and size & (size - 1) == 0 and header[20] <= 32:
                self.size, reserved = size, header[20]
        self.usable = self.size - reserved
        self._log = _committed(_mapped(path.with_name(BESIDE[0])), self.size)
        self.count = max(-(-len(self._data) // self.size), max(self._log, default=0))

    def page(self, number: int) -> bytes:
        if not 1 <= number <= self.count:
            raise IndexError(f"there is no page {number}")
        if number in self._log:
            return self._log[number]
        return bytes(self._data[(number - 1) * self.size : number * self.size])

    def unused(self) -> set[int]:
        """The pages that are on the list of free ones, as far as it can be read; what is in them was deleted."""
        found: set[int] = set()
        with suppress(IndexError, struct.error):
            (trunk,) = struct.unpack_from(">I", self.page(1), 32)
            while trunk and trunk not in found:
                following, n = struct.unpack_from(">2I", self.page(trunk))
                found |= {trunk, *struct.unpack_from(f">{min(n, self.size // 4 - 2)}I", self.page(trunk), 8)}
                trunk = following
        return found

    def children(self) -> set[int]:
        """The pages that others point to."""
        found: set[int] = set()
        for number in range(1, self.count + 1):
            page, start = self.page(number), self._start(number)
            with suppress(IndexError, struct.error):
                if page[start] == INTERIOR:
                    n, last = *struct.unpack_from(">H", page, start + 3), *struct.unpack_from(">I", page, start + 8)
                    cells = struct.unpack_from(f">{n}H", page, start + 12)
                    found |= {last, *(struct.unpack_from(">I", page, at)[0] for at in cells)}
        return found

    @staticmethod
    def _start(number: int) -> int:
        return HEADER if number == 1 else 0

    def rows(self, number: int) -> Iterator[tuple[int, list[Any]]]:
        """The rows in a page, with their numbers; those that make no sense are passed over."""
        page, start = self.page(number), self._start(number)
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
        """The bytes of a row, those in other pages as well."""
        if not 0 < size <= self.count * self.size:
            raise ValueError(f"no row has {size} bytes")
        usable, most = self.usable, self.usable - 35
        if size <= most:
            return _exactly(page[at : at + size], size)
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        local = local if local <= most else least
        parts, left = [page[at : at + local]], size - local
        (following,) = struct.unpack_from(">I", page, at + local)
        while left > 0:
            other = self.page(following)
            parts.append(other[4 : min(usable, 4 + left)])
            left -= len(parts[-1])
            following = int.from_bytes(other[:4], "big")
            if not parts[-1]:
                raise ValueError("a row is cut off")
        return _exactly(b"".join(parts), size)


def _mapped(path: Path) -> Any:
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (FileNotFoundError, ValueError):  # an empty file cannot be mapped
        return b""


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError("a row is cut off")
    return data


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of SQLite's, of one to nine bytes, and where it ends."""
    value = 0
    for i in range(8):
        byte = data[at + i]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >> 63 else value, at + 9


def _values(data: bytes) -> list[Any]:
    """The values of a row."""
    end, at = _varint(data, 0)
    body, found = end, list[Any]()
    while at < end:
        kind, at = _varint(data, at)
        if kind >= 12:
            size = (kind - 12) // 2
            value: Any = _exactly(data[body : body + size], size)
            found.append(value.decode() if kind % 2 else value)
        else:
            size = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind]
            value = _exactly(data[body : body + size], size)
            numbers = {0: None, 7: struct.unpack(">d", value)[0] if kind == 7 else None, 8: 0, 9: 1}
            found.append(numbers[kind] if kind in numbers else int.from_bytes(value, "big", signed=True))
        body += size
    return found


def _committed(log: Any, size: int) -> dict[int, bytes]:
    """The pages in a write-ahead log, as of the last transaction in it that was committed."""
    committed: dict[int, bytes] = {}
    if len(log) < LOG_HEADER.size:
        return committed
    magic, _, page_size, _, *salts = LOG_HEADER.unpack_from(log)[:6]
    if magic not in LOG_MAGIC or page_size != size:
        return committed
    order = ">" if magic & 1 else "<"
    sums = _summed(order, log[:24], (0, 0))
    if sums != LOG_HEADER.unpack_from(log)[6:]:
        return committed
    pages: dict[int, bytes] = {}
    for at in range(LOG_HEADER.size, len(log) - size - FRAME_HEADER.size + 1, size + FRAME_HEADER.size):
        number, n_pages, *rest = FRAME_HEADER.unpack_from(log, at)
        page = bytes(log[at + FRAME_HEADER.size : at + FRAME_HEADER.size + size])
        sums = _summed(order, page, _summed(order, log[at : at + 8], sums))
        if rest != [*salts, *sums]:
            break  # of an earlier log, or cut off
        pages[number] = page
        if n_pages:
            committed |= pages
            pages = {}
    return committed


def _summed(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    """The checksum of the log, gone on with."""
    first, second = sums
    for a, b in struct.iter_unpack(f"{order}2I", data):
        first = first + a + second & 0xFFFFFFFF
        second = second + b + first & 0xFFFFFFFF
    return first, second
