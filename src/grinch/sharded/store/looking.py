"""What looks at a sharded store asks: everything of one version at once, and points by their arrival numbers."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import numpy as np

from grinch import cuts
from grinch._types import Counts, Labels
from grinch.cuts.tracking import Change
from grinch.sharded.files import joined
from grinch.sharded.store.branch import Branch
from grinch.sharded.store.following import Following, _is_recut_advised
from grinch.store import DamagedStore
from grinch.store.database import Database, Id
from grinch.store.looking import Look


class Looking(Following):
    """What can be asked of a sharded store by what shows it, as of a plain one.

    A point is asked for by the number in which it came, which stays its own in whichever branch it is. Of all points
    there are the tree, their clusters and where they are in memory; rows and payloads are read as they are asked for.
    """

    def look(self) -> Look:
        """The store as it is now (:meth:`grinch.store.Store.look`); ``positions`` are the arrival numbers."""
        with self._turn:
            numbers = self._leaves().numbers
            arrived = self._versions.arrived(numbers)
            followed = self._all_followed() if len(numbers) else {}
            return Look(
                self.version,
                self.bare_tree,
                numbers,
                arrived,
                np.append(np.nan, self._versions.times())[arrived],
                {name: self._labels(cut) for name, cut in followed.items()},
                {name: self._file.names(name) for name in followed},
                frozenset(name for name, cut in followed.items() if _is_recut_advised(cut)),
            )

    def arrived(self) -> Counts:
        """The version in which each point came, in the order of :attr:`ids`."""
        with self._turn:
            return self._versions.arrived(self._leaves().numbers)

    def latest_changes(self, since: int, cut: str, limit: int, until: int | None = None) -> tuple[list[Change], bool]:
        """The last things that happened to clusters after version ``since``, the latest first, without exemplars.

        None of them after version ``until``. Also whether that is all.
        """
        with self._turn:
            self._followed(cut)
            last = self.version if until is None else min(until, self.version)
            found = self._file.latest_changes(since, last, cut, limit + 1)
            return found[:limit], len(found) <= limit

    def layers(self) -> list[tuple[Labels, float]]:
        """The resolutions of the automatic cut, finest first: clusters by leaf, and how long they last, from 0 to 1.

        Beyond 50,000 points they are found by the heights of the tree alone.
        """
        with self._turn:
            tree = self.bare_tree
            layers = self._automatic(tree).layers if tree.n_leaves else []
            return [(cuts.labels_of(tree, layer.is_split), layer.persistence) for layer in layers]

    # Points -------------------------------------------------------------------------------------------------------

    def points_at(self, numbers: Any) -> list[tuple[Id | None, Any]]:
        """The id and the payload of each arrival number; an id of None where there is no point any more."""
        with self._turn:
            asked = np.array([int(number) for number in numbers], np.int64)
            found: list[tuple[Id | None, Any]] = [(None, None)] * len(asked)
            for owner, at, positions in self._leaves().parts(asked):
                points = self._now()[owner].store.points_at(positions)
                for i, point in zip(at.tolist(), points, strict=True):
                    found[i] = point
            return found

    def rows_at(self, numbers: Counts) -> Any:
        """The rows of these arrival numbers, dense or CSR; zeros where there is no point any more. None if none came
        yet.
        """
        with self._turn:
            some = self._now()[0].store._vectors
            if some is None:
                return None
            parts, places, n = [some.empty(1)], np.zeros(len(numbers), np.int64), 1
            for owner, at, positions in self._leaves().parts(np.asarray(numbers, np.int64)):
                parts.append(self._now()[owner].rows(positions))
                places[at] = n + np.arange(len(at))
                n += len(at)
            return joined(parts)[places]

    def position_of(self, name: Any) -> int | None:
        """The arrival number of the point with this id; None if there is none."""
        with self._turn:
            try:
                names = self._names([name])
            except ValueError:  # nothing that an id could be
                return None
            owner = int(self._owners(names)[0])
            return None if owner < 0 else int(self._now()[owner]._numbers_of(names)[0])

    def find_text(self, text: str, limit: int = 50, seconds: float = 2.0) -> tuple[list[int], bool]:
        """The arrival numbers of points whose id or payload has this text in it, and whether all were looked at."""
        with self._turn:
            branches = [(branch, branch.order) for branch in self._now()]
        # By connections of its own: nobody waits for it.
        deadline, found, is_complete = time.monotonic() + seconds, list[int](), True
        for branch, order in branches:
            some, is_all = _found_in(branch, text, limit - len(found), deadline)
            found += [int(order[position]) for position in some if position < len(order)]
            is_complete &= is_all
            if len(found) >= limit or time.monotonic() > deadline:
                return found, is_complete and branch is branches[-1][0]
        return found, is_complete


def _found_in(branch: Branch, text: str, limit: int, deadline: float) -> tuple[list[int], bool]:
    """The positions in a branch; what was split meanwhile was not looked at."""
    try:
        with closing(Database(branch.store.folder, readonly=True)) as database:
            return database.find_text(text, limit, deadline)
    except (DamagedStore, OSError):
        return [], False
