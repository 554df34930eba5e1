"""Which version of the whole was which version of a branch: a file with a row for each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from grinch._types import Counts
from grinch.sharded.store.branch import Branch
from grinch.store import disk

FILE = "versions.bin"
ROW_BYTES = 16
NO_BRANCH = -1


class Versions:
    """Row i is version i + 1 of the whole: the number of a branch, and the version that a change made of it.

    Where clusters were changed and no branch, it is -1.

    A branch is changed first, and the row is written afterwards. What is missing is added when it is next looked at.
    """

    def __init__(self, folder: Path):
        self.path = folder / FILE
        self._rows: list[tuple[int, int]] = []
        self._last: dict[int, int] = {}
        self.read()

    def __len__(self) -> int:
        return len(self._rows)

    def read(self) -> None:
        """Read the file again."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            data = b""
        whole = len(data) // ROW_BYTES * ROW_BYTES
        self._rows, self._last = [], {}
        self._add(np.frombuffer(data[:whole], "<i8").reshape(-1, 2).tolist())

    def _add(self, rows: list[list[int]]) -> None:
        for branch, version in rows:
            self._rows.append((branch, version))
            self._last[branch] = version

    def catch_up(self, branches: Sequence[Branch], *, is_kept: bool) -> None:
        """Add the versions of branches that are not there yet, to the file, too, if ``is_kept``.

        A reader, which keeps nothing, may see branches as they were before the last of them.
        """
        if not is_kept:
            self._forget_unseen({branch.number: branch.store.version for branch in branches})
        new = [
            [branch.number, version]
            for branch in branches
            for version in range(self._last.get(branch.number, 0) + 1, branch.store.version + 1)
        ]
        if new and is_kept:
            self._write(np.array(new, "<i8"))
        self._add(new)

    def add_empty(self) -> None:
        """A version in which no branch changed."""
        new = [[NO_BRANCH, len(self._rows) + 1]]
        self._write(np.array(new, "<i8"))
        self._add(new)

    def _forget_unseen(self, seen: dict[int, int]) -> None:
        """Branches get ever higher numbers: those below the highest that are not there were split before."""
        newest = max(seen)
        rows = [[branch, own] for branch, own in self._rows if own <= seen.get(branch, own if branch < newest else -1)]
        self._rows, self._last = [], {}
        self._add(rows)

    def _write(self, rows: Counts) -> None:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            disk.write_at(file, rows, ROW_BYTES * len(self._rows))
            disk.sync(file)
        finally:
            os.close(file)

    def since(self, version: int) -> list[tuple[int, int, int]]:
        """The versions of the whole after one, with the number and the version of the branch of each."""
        return [(i + 1, *row) for i, row in enumerate(self._rows[version:], version)]
