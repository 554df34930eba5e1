"""Undo for the interpreted engine: a linkage that raises, or Ctrl-C, leaves the tree as it was before the insert."""

from __future__ import annotations

from typing import Any

from grinch.tree.links import Links, ListTable

Entries = list[tuple[Any, Any, Any]]


class _Watched:
    """A container whose writes are noted before they happen."""

    __slots__ = ("_container", "_entries")

    def __init__(self, container: Any, entries: Entries):
        self._container, self._entries = container, entries

    def __getitem__(self, key: Any) -> Any:
        return self._container[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._entries.append((self._container, key, self._container[key]))
        self._container[key] = value

    def __len__(self) -> int:
        return len(self._container)


class _WatchedTable(ListTable):
    """The same for a table, in one step, for it is read all the time."""

    __slots__ = ("_entries",)

    def __init__(self, table: ListTable, entries: Entries):
        self.flat, self._entries = table.flat, entries

    def __setitem__(self, key: tuple[int, int], value: int) -> None:
        v, column = key
        self._entries.append((self.flat, 4 * v + column, self.flat[4 * v + column]))
        self.flat[4 * v + column] = value


class Journal:
    """The writes of one insert, and the way back."""

    def __init__(self) -> None:
        self._entries: Entries = []

    def watch(self, links: Links) -> Links:
        """A stand-in for the tree that notes every write. Summaries need none: they can be computed anew."""

        def watched(container: Any) -> Any:
            return _Watched(container, self._entries)

        table: Any = links.table
        table = _WatchedTable(table, self._entries) if isinstance(table, ListTable) else watched(table)
        return Links(table, watched(links.head), watched(links.marks))

    def roll_back(self) -> None:
        for container, key, old in reversed(self._entries):
            container[key] = old
        self._entries.clear()
