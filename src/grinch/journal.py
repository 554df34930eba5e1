"""Undo for the interpreted engine: a linkage that raises, or Ctrl-C, leaves the tree as it was before the insert."""

from __future__ import annotations

import copy
from typing import Any

from grinch.tree.links import Links


class _Watched:
    """A container whose writes are noted before they happen."""

    __slots__ = ("_container", "_entries")

    def __init__(self, container: Any, entries: list[tuple[Any, Any, Any]]):
        self._container, self._entries = container, entries

    def __getitem__(self, key: Any) -> Any:
        return self._container[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._entries.append((self._container, key, self._container[key]))
        self._container[key] = value

    def __len__(self) -> int:
        return len(self._container)


class Journal:
    """The writes of one insert, and the way back."""

    def __init__(self) -> None:
        self._entries: list[tuple[Any, Any, Any]] = []

    def watch(self, links: Links, sums: Any) -> tuple[Links, Any]:
        """Stand-ins for the tree and its summaries that note every write."""

        def watched(container: Any) -> Any:
            return _Watched(container, self._entries)

        tree = Links(watched(links.table), watched(links.head), watched(links.marks))
        if isinstance(sums, tuple):
            return tree, sums._replace(bonds=watched(sums.bonds), stale=watched(sums.stale))  # type: ignore[attr-defined]
        sums = copy.copy(sums)
        sums.items, sums.bonds, sums.stale = watched(sums.items), watched(sums.bonds), watched(sums.stale)
        return tree, sums

    def roll_back(self) -> None:
        for container, key, old in reversed(self._entries):
            container[key] = old
        self._entries.clear()
