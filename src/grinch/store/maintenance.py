"""Checks and backups of stores."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np

from grinch.saving import disk
from grinch.saving.container import Container
from grinch.store import inputs
from grinch.store.damage import damaged
from grinch.store.database import Database
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.node_names import NodeNames
from grinch.store.rows import StoredRows, files_of
from grinch.store.snapshots import verify
from grinch.store.state import StoreState


def check_store(
    folder: Path, state: StoreState, read: StoreState, database: Database, rows: StoredRows, snapshot: Container
) -> None:
    """Raise :class:`~grinch.store.DamagedStore` if anything is not as it should be; ``read`` is what is on disk."""
    database.check()
    NodeNames(folder / NAMES_FILE).check()
    verify(snapshot)
    with closing(database.operations(0)) as operations:
        rows.check(operations)
    try:
        state.model.validate()
    except ValueError as error:
        raise damaged(snapshot.path, str(error)) from error
    _check_points(state, database)
    _check_same(snapshot.path, state, read)


def _check_points(state: StoreState, database: Database) -> None:
    """Check that each point has an id and a row, and that payloads can be read."""
    positions, filed = state.positions(), database.all_positions()
    if database.get("is_named") and not np.array_equal(positions, filed):
        raise damaged(database.path, f"there are {len(filed):,} ids for {len(positions):,} points")
    if not np.isin(filed, positions).all():
        raise damaged(database.path, "there are payloads of points that are not there")
    rows = state.row_of[positions]
    if len(rows) and not (rows.min() >= 0 and rows.max() < state.n_rows and len(np.unique(rows)) == len(rows)):
        raise damaged(database.path, "points do not have a row each")
    database.check_payloads()


def _check_same(path: Path, state: StoreState, again: StoreState) -> None:
    """Check that what is on disk gives what is in memory."""
    if again.version != state.version or again.n_rows != state.n_rows or again.n_given != state.n_given:
        raise damaged(path, f"the disk is at version {again.version}, memory at {state.version}")
    if not np.array_equal(again.row_of, state.row_of) or not np.array_equal(again.positions(), state.positions()):
        raise damaged(path, "the points on disk are not those in memory")
    if not state.n_points:
        return
    one, other = state.tree(), again.tree()
    if not np.array_equal(one.child_pairs(), other.child_pairs()):
        raise damaged(path, "the tree on disk is not the one in memory")
    for cut in state.cut_names:
        if not np.array_equal(state.labels(cut), again.labels(cut)):
            raise damaged(path, f"the clusters of cut {cut!r} on disk are not those in memory")


ATTEMPTS = 20


def back_up(folder: Path, target: Path) -> None:
    """Copy a store into a new folder, also while a process writes to it: what is committed when it begins."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"path must be a new or an empty folder; {str(target)!r} is there")
    # By a connection of its own: that of a reader may see files that are gone.
    with disk.new_folder(target) as work, closing(Database(folder, readonly=True)) as database:
        _copy(folder, database, work)


def _copy(folder: Path, database: Database, target: Path) -> None:
    for _ in range(ATTEMPTS):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        database.copy_to(target / database.path.name)
        with closing(Database(target, readonly=True)) as copy:
            names = [copy.get("snapshot")]
            if copy.get("n_features") is not None:
                names += files_of(copy.get("vectors"))[: 2 if copy.find("is_sparse") else 1]
        try:
            for name in names:
                disk.copy_file(folder / name, target / name)
            NodeNames(folder / NAMES_FILE).copy_to(target / NAMES_FILE)
            if (folder / inputs.TEXT_FILE).exists():
                disk.copy_file(folder / inputs.TEXT_FILE, target / inputs.TEXT_FILE)
        except FileNotFoundError:
            continue  # the writer has just taken another snapshot
        disk.sync_folder(target)
        return
    raise OSError(f"{folder} changed too often to be copied; try again")
