"""Which version of the whole was which version of a branch, and when: two files with a row for each."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from grinch._types import Counts, Floats
from grinch.sharded.store.branch import Branch
from grinch.store import disk

FILE, TIMES = "versions.bin", "times.bin"
ROW_BYTES = 16
NO_BRANCH = -1
SECOND = 1_000_000_000


class Version(NamedTuple):
    """A version of the whole: the branch that changed, its own version, the number of the next point to come, and
    when, in nanoseconds since 1970 (0 if that is not known).
    """

    branch: int
    own: int
    next_number: int = 0
    at: int = 0


class Versions:
    """Row i is version i + 1 of the whole: the number of a branch, and the version that a change made of it.

    Where clusters were changed and no branch, it is -1.

    A branch is changed first, and the row is written afterwards. What is missing is added when it is next looked at.
    ``times.bin`` has a row for each, too: the number of the next point, and when. It need not outlive a power cut: rows
    of zeros are as good as none.
    """

    def __init__(self, folder: Path):
        self.path, self.times_path = folder / FILE, folder / TIMES
        self._rows: list[Version] = []
        self._last: dict[int, int] = {}
        self.read()

    def __len__(self) -> int:
        return len(self._rows)

    def size(self) -> int:
        """The bytes of the file: more whenever there is another version."""
        return self.path.stat().st_size if self.path.exists() else 0

    def read(self) -> None:
        """Read the files again."""
        rows, times = _pairs(self.path), _pairs(self.times_path)
        # In this order: the times of a version are written first.
        beside = np.zeros_like(rows)
        n = min(len(rows), len(times))
        beside[:n] = times[:n]
        self._rows, self._last = [], {}
        self._add([Version(*row) for row in np.concatenate([rows, beside], axis=1).tolist()])

    def _add(self, rows: list[Version]) -> None:
        for row in rows:
            self._rows.append(row)
            self._last[row.branch] = row.own

    def catch_up(self, branches: Sequence[Branch], next_number: int = 0, *, is_kept: bool) -> None:
        """Add the versions of branches that are not there yet, to the files, too, if ``is_kept``.

        A reader, which keeps nothing, may see branches as they were before the last of them.
        """
        if not is_kept:
            self._forget_unseen({branch.number: branch.store.version for branch in branches})
        now = time.time_ns() if is_kept else 0
        new = [
            Version(branch.number, version, next_number, now)
            for branch in branches
            for version in range(self._last.get(branch.number, 0) + 1, branch.store.version + 1)
        ]
        if new and is_kept:
            self._write(new)
        self._add(new)

    def add_empty(self, next_number: int) -> None:
        """A version in which no branch changed."""
        new = [Version(NO_BRANCH, len(self._rows) + 1, next_number, time.time_ns())]
        self._write(new)
        self._add(new)

    def _forget_unseen(self, seen: dict[int, int]) -> None:
        """Branches get ever higher numbers: those below the highest that are not there were split before."""
        newest = max(seen)
        rows = [row for row in self._rows if row.own <= seen.get(row.branch, row.own if row.branch < newest else -1)]
        self._rows, self._last = [], {}
        self._add(rows)

    def _write(self, rows: list[Version]) -> None:
        for path, part in ((self.times_path, slice(2, 4)), (self.path, slice(0, 2))):
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                disk.write_at(file, np.array([row[part] for row in rows], "<i8"), ROW_BYTES * len(self._rows))
                if path == self.path:
                    disk.sync(file)
            finally:
                os.close(file)

    def times(self) -> Floats:
        """When each version was made, in seconds since 1970; where that is not known, when the next one was."""
        at = np.array([row.at for row in self._rows], np.int64)
        last = self.path.stat().st_mtime_ns if self.path.exists() else 0
        at[at == 0] = max(last, int(at.max(initial=0)))
        return np.minimum.accumulate(at[::-1])[::-1] / SECOND

    def arrived(self, numbers: Counts) -> Counts:
        """The version in which each point came; of those of whom it is not known, the last one."""
        came = np.maximum.accumulate(np.array([row.next_number for row in self._rows], np.int64))
        return np.minimum(np.searchsorted(came, numbers, side="right") + 1, max(len(self._rows), 1))


def _pairs(path: Path) -> Counts:
    """A file of pairs of numbers, as far as they are whole."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    whole = len(data) // ROW_BYTES * ROW_BYTES
    return np.frombuffer(data[:whole], "<i8").reshape(-1, 2).astype(np.int64)
