"""Whether a store is as it should be: what is on disk, what is in memory, and that the one gives the other."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np

from grinch.saving.container import Container
from grinch.store.contents import Contents
from grinch.store.damage import damaged
from grinch.store.database import Database
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.node_names import NodeNames
from grinch.store.rows import Rows
from grinch.store.snapshots import verify


def check_store(
    folder: Path, contents: Contents, read: Contents, database: Database, rows: Rows, snapshot: Container
) -> None:
    """Raise :class:`~grinch.store.DamagedStore` if anything is not as it should be; ``read`` is what is on disk."""
    database.check()
    NodeNames(folder / NAMES_FILE).check()
    verify(snapshot)
    with closing(database.operations(0)) as operations:
        rows.check(operations)
    try:
        contents.model.validate()
    except ValueError as error:
        raise damaged(snapshot.path, str(error)) from error
    _check_points(contents, database)
    _check_same(snapshot.path, contents, read)


def _check_points(contents: Contents, database: Database) -> None:
    """Everybody has an id and a row, and payloads can be read."""
    positions, filed = contents.positions(), database.all_positions()
    if database.get("is_named") and not np.array_equal(positions, filed):
        raise damaged(database.path, f"there are {len(filed):,} ids for {len(positions):,} points")
    if not np.isin(filed, positions).all():
        raise damaged(database.path, "there are payloads of points that are not there")
    rows = contents.row_of[positions]
    if len(rows) and not (rows.min() >= 0 and rows.max() < contents.n_rows and len(np.unique(rows)) == len(rows)):
        raise damaged(database.path, "points do not have a row each")
    for _ in database.all_payloads():
        pass


def _check_same(path: Path, contents: Contents, again: Contents) -> None:
    """What is on disk gives what is in memory."""
    if again.version != contents.version or again.n_rows != contents.n_rows or again.n_given != contents.n_given:
        raise damaged(path, f"the disk is at version {again.version}, memory at {contents.version}")
    if not np.array_equal(again.row_of, contents.row_of) or not np.array_equal(again.positions(), contents.positions()):
        raise damaged(path, "the points on disk are not those in memory")
    if not contents.n_points:
        return
    one, other = contents.tree(), again.tree()
    if not np.array_equal(one.child_pairs(), other.child_pairs()):
        raise damaged(path, "the tree on disk is not the one in memory")
    for cut in contents.cut_names:
        if not np.array_equal(contents.labels(cut), again.labels(cut)):
            raise damaged(path, f"the clusters of cut {cut!r} on disk are not those in memory")
