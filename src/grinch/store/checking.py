"""Whether a store is as it should be: what is on disk, what is in memory, and that the one gives the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grinch.saving.checks import check_model
from grinch.store import disk
from grinch.store.contents import Contents
from grinch.store.damage import damaged
from grinch.store.database import Database
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.node_names import NodeNames
from grinch.store.sparse_rows import checksum_rows

if TYPE_CHECKING:
    from grinch.store.session import Session


def check_store(store: Session, contents: Contents, database: Database) -> None:
    """Raise :class:`~grinch.store.DamagedStore` if anything is not as it should be."""
    database.check()
    NodeNames(store.folder / NAMES_FILE).check()
    snapshot = store._find_snapshot()
    snapshot.verify()
    check_rows(store, database)
    try:
        check_model(contents.model)
    except ValueError as error:
        raise damaged(snapshot.path, str(error)) from error
    _check_points(contents, database)
    _check_same(snapshot.path, contents, store._read_beside()[1])


def check_rows(store: Session, database: Database) -> None:
    """Rows are those that came."""
    if store._vectors is None:
        return
    step = max(disk.CHUNK * 16 // store._vectors.row_bytes, 1)
    for done in database.operations(0):
        stop = done.first_row + done.n_rows
        pieces = (np.arange(start, min(start + step, stop)) for start in range(done.first_row, stop, step))
        if checksum_rows(map(store._rows_at, pieces)) != done.checksum:
            raise damaged(store._vectors.path, f"the vectors of version {done.version} are not those that were written")


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
    one, other = contents.model.tree_, again.model.tree_
    if not np.array_equal(one.child_pairs(), other.child_pairs()):
        raise damaged(path, "the tree on disk is not the one in memory")
    for cut in contents.tracking.names:
        if not np.array_equal(contents.tracking.labels(cut), again.tracking.labels(cut)):
            raise damaged(path, f"the clusters of cut {cut!r} on disk are not those in memory")
