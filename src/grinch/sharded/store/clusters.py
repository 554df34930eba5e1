"""The clusters of a sharded store on disk: cuts of the whole tree, ids of their clusters, what became of them."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from grinch import cuts
from grinch._types import Counts, Labels, Mask
from grinch.cuts.tracking.changes import NOWHERE, Change, Parts, find_changes
from grinch.cuts.tracking.ids import NO_CLUSTER, match
from grinch.sharded.store.carrying import carried_splits
from grinch.store import DamagedStore
from grinch.store.damage import unusable
from grinch.tree import Tree

FILE = "clusters.sqlite"
# How many points a change shows.
FEW_POINTS = 3
# The automatic cut of fewer points than this says little: it is made again each time they have doubled.
FEW = 256
TABLES = """
CREATE TABLE IF NOT EXISTS cuts (name TEXT PRIMARY KEY, about TEXT, numbers BLOB, labels BLOB);
CREATE TABLE IF NOT EXISTS changes (version INTEGER, cut TEXT, record TEXT);
CREATE INDEX IF NOT EXISTS changes_by_version ON changes (version);
CREATE TABLE IF NOT EXISTS names (cut TEXT, cluster INTEGER, name TEXT, PRIMARY KEY (cut, cluster));
CREATE TABLE IF NOT EXISTS retired (cut TEXT PRIMARY KEY, next_id INTEGER);
"""


class Followed(NamedTuple):
    """A cut as it was at a version: how it is made, and the cluster of each point by the number it came in.

    ``points`` were there when an automatic cut was chosen, and ``changed`` came or went since.
    """

    name: str
    n_clusters: int | None
    threshold: float | None
    next_id: int = 0
    version: int = 0
    points: int = 0
    changed: int = 0
    numbers: Counts = np.empty(0, np.int64)
    labels: Labels = np.empty(0, np.int64)

    @property
    def is_automatic(self) -> bool:
        return self.n_clusters is None and self.threshold is None

    def labels_at(self, numbers: Counts) -> Labels:
        """The clusters of these points; -1 for those that came since."""
        at = np.searchsorted(self.numbers, numbers)
        found = np.full(len(numbers), NO_CLUSTER, np.int64)
        is_there = at < len(self.numbers)
        is_there[is_there] = self.numbers[at[is_there]] == numbers[is_there]
        found[is_there] = self.labels[at[is_there]]
        return found

    def gone_on(
        self, tree: Tree, numbers: Counts, version: int, choose: Callable[[], Mask], is_recut: bool = False
    ) -> tuple[Followed, list[Change]]:
        """The same cut of the tree as it is now, and what changed; exemplars are numbers of points.

        ``numbers`` are by leaf, ascending; ``choose`` makes the automatic cut.
        """
        before = self.labels_at(numbers)
        is_gone = ~np.isin(self.numbers, numbers)
        came, left = int((before < 0).sum()), int(is_gone.sum())
        is_small = self.points < FEW and tree.n_leaves >= 2 * self.points
        is_chosen = self.is_automatic and (is_recut or is_small or came == tree.n_leaves)
        if not tree.n_leaves:
            is_split = np.zeros(tree.n_ids, np.bool_)
        elif not self.is_automatic:
            is_split = cuts.splits(tree, self.n_clusters, self.threshold)
        else:
            is_split = choose() if is_chosen else carried_splits(tree, before)
        groups = cuts.labels_of(tree, is_split)
        labels, next_id = _with_ids(before, groups, numbers, self.next_id)
        removed = dict(
            zip(*(part.tolist() for part in np.unique(self.labels[is_gone], return_counts=True)), strict=True)
        )
        changes = list(_changes(before, labels, numbers, removed, version, self.name))
        points, changed = (tree.n_leaves, 0) if is_chosen else (self.points, self.changed + came + left)
        new = (next_id, version, points, changed, numbers, labels)
        return Followed(self.name, self.n_clusters, self.threshold, *new), changes


def _with_ids(before: Labels, groups: Labels, numbers: Counts, next_id: int) -> tuple[Labels, int]:
    """Clusters by point under the ids that they keep or get, and the next id."""
    if not len(groups):
        return groups, next_id
    n = int(groups.max()) + 1
    oldest = numbers[np.unique(groups, return_index=True)[1]]
    is_old = before >= 0
    pairs, counts = np.unique(np.stack([before[is_old], groups[is_old]]), axis=1, return_counts=True)
    ids = match(pairs[0], pairs[1], counts, oldest)
    fresh = np.flatnonzero(ids == NO_CLUSTER)
    ids[fresh[np.argsort(oldest[fresh])]] = next_id + np.arange(len(fresh))
    assert len(ids) == n
    return ids[groups], next_id + len(fresh)


def _changes(
    before: Labels, after: Labels, numbers: Counts, removed: dict[int, int], version: int, cut: str
) -> Iterator[Change]:
    order = np.lexsort((numbers, after, before))
    old, new = np.where(before < 0, NOWHERE, before)[order], after[order]
    starts = np.flatnonzero(np.append(len(old) > 0, (old[1:] != old[:-1]) | (new[1:] != new[:-1]))[: len(old)])
    counts = np.diff(np.append(starts, len(old)))
    for found in find_changes(Parts(old[starts], new[starts], counts, removed)):
        few = [numbers[order[starts[part] : starts[part] + min(counts[part], FEW_POINTS)]] for part in found.parts]
        exemplars = sorted(number for some in few for number in some.tolist())[:FEW_POINTS]
        yield Change(version, cut, *found[:5], tuple(exemplars))


class ClusterFile:
    """``clusters.sqlite``: one process writes, others read; each change is whole or not there."""

    def __init__(self, folder: Path):
        self.path = folder / FILE

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
                yield connection
        except (sqlite3.Error, ValueError, TypeError, LookupError) as error:
            passing = unusable(self.path, error) if isinstance(error, sqlite3.Error) else None
            raise passing or DamagedStore(
                f"{self.path} is damaged: {error}. Restore it from a backup, or remove it: clusters get new ids then"
            ) from None

    def state(self) -> tuple[int, bytes] | None:
        """Something else whenever another process has written, or this one."""
        try:
            with open(self.path, "rb") as file:
                # SQLite counts its commits at byte 24 of the file.
                return os.fstat(file.fileno()).st_mtime_ns, file.read(28)[24:]
        except FileNotFoundError:
            return None

    def cuts(self) -> dict[str, Followed]:
        """All cuts as they were last followed, in the order they were added."""
        if not self.path.exists():
            return {}
        with self._open() as connection:
            rows = connection.execute("SELECT name, about, numbers, labels FROM cuts ORDER BY rowid").fetchall()
            found = {}
            for name, about, numbers, labels in rows:
                arrays = (np.frombuffer(some, "<i8").astype(np.int64) for some in (numbers, labels))
                found[name] = Followed(name, *json.loads(about), *arrays)
            return found

    def keep(self, followed: list[Followed], changes: list[Change]) -> None:
        """Write down cuts as they are now, and what changed."""
        with self._open() as connection:
            connection.executescript(TABLES)
            connection.execute("BEGIN")
            for cut in followed:
                arrays = (some.astype("<i8").tobytes() for some in (cut.numbers, cut.labels))
                kept = "INSERT INTO cuts VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET about = excluded.about,"
                connection.execute(
                    f"{kept} numbers = excluded.numbers, labels = excluded.labels",
                    (cut.name, json.dumps(cut[1:7]), *arrays),
                )
            for change in changes:
                record = [change.kind, change.cluster, change.others, change.size, change.count, change.exemplars]
                connection.execute(
                    "INSERT INTO changes VALUES (?, ?, ?)", (change.version, change.cut, json.dumps(record))
                )

    def changes(self, since: int, until: int, cut: str | None) -> list[Change]:
        """What happened after a version, up to another; exemplars are numbers of points."""
        if not self.path.exists():
            return []
        with self._open() as connection:
            rows = connection.execute(
                "SELECT version, cut, record FROM changes WHERE version > ? AND version <= ? AND (? IS NULL OR cut = ?)"
                " ORDER BY version, rowid",
                (since, until, cut, cut),
            ).fetchall()
            found = []
            for version, of, record in rows:
                kind, cluster, others, size, count, exemplars = json.loads(record)
                found.append(Change(version, of, kind, cluster, tuple(others), size, count, tuple(exemplars)))
            return found

    def latest_changes(self, since: int, until: int, cut: str, limit: int) -> list[Change]:
        """The last that happened to the clusters of a cut after a version, up to another; the latest first."""
        if not self.path.exists():
            return []
        with self._open() as connection:
            rows = connection.execute(
                "SELECT version, record FROM changes WHERE version > ? AND version <= ? AND cut = ?"
                " ORDER BY version DESC, rowid DESC LIMIT ?",
                (since, until, cut, limit),
            ).fetchall()
            found = []
            for version, record in rows:
                kind, cluster, others, size, count, _ = json.loads(record)
                found.append(Change(version, cut, kind, cluster, tuple(others), size, count, ()))
            return found

    def names(self, cut: str) -> dict[int, str]:
        """The names that were given to clusters."""
        if not self.path.exists():
            return {}
        with self._open() as connection:
            return dict(connection.execute("SELECT cluster, name FROM names WHERE cut = ?", (cut,)).fetchall())

    def rename(self, change: Change, name: str | None) -> None:
        """Give a cluster a name, or take it away."""
        with self._open() as connection:
            connection.execute("DELETE FROM names WHERE cut = ? AND cluster = ?", (change.cut, change.cluster))
            if name is not None:
                connection.execute("INSERT INTO names VALUES (?, ?, ?)", (change.cut, change.cluster, name))
            record = [change.kind, change.cluster, [], change.size, 0, []]
            connection.execute("INSERT INTO changes VALUES (?, ?, ?)", (change.version, change.cut, json.dumps(record)))

    def drop(self, cut: Followed) -> None:
        """Follow a cut no longer; should one of this name come back, its ids go on from here."""
        with self._open() as connection:
            connection.execute("DELETE FROM cuts WHERE name = ?", (cut.name,))
            connection.execute("DELETE FROM names WHERE cut = ?", (cut.name,))
            connection.execute("INSERT OR REPLACE INTO retired VALUES (?, ?)", (cut.name, cut.next_id))

    def next_id(self, name: str) -> int:
        """The first id of a cut that is added: none that a dropped one of this name has given."""
        if not self.path.exists():
            return 0
        with self._open() as connection:
            row = connection.execute("SELECT next_id FROM retired WHERE cut = ?", (name,)).fetchone()
        return 0 if row is None else int(row[0])

    def copy_to(self, folder: Path) -> None:
        """A copy of what is committed."""
        if self.path.exists():
            with self._open() as connection, closing(sqlite3.connect(folder / FILE)) as copy:
                connection.backup(copy)
