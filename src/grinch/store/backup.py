"""Copies of stores, also of those that somebody is writing to."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import closing
from pathlib import Path

from grinch.saving import disk
from grinch.store import inputs
from grinch.store.database import Database
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.node_names import NodeNames
from grinch.store.rows import files_of

ATTEMPTS = 20


def back_up(folder: Path, target: Path) -> None:
    """Copy a store into a new folder, also while somebody writes to it: what is committed when it begins."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"path must be a new or an empty folder; {str(target)!r} is there")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    try:
        # By a connection of its own: that of a reader may see files that are gone.
        with closing(Database(folder, readonly=True)) as database:
            _copy(folder, database, temporary)
        if target.exists():
            target.rmdir()
        os.replace(temporary, target)
        disk.sync_folder(target.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


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
