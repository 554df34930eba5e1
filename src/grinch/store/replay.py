"""A store whose log another engine wrote, with that log done again by the engine that is installed."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from grinch.core.engine import ENGINE
from grinch.store.backup import back_up
from grinch.store.database import Database
from grinch.store.lock import WriterLock
from grinch.store.opening import is_store
from grinch.store.store import Store


class Replayed(NamedTuple):
    """What was done again: how many operations, how many of them by another engine before, and the version."""

    operations: int
    of_others: int
    version: int


def replay(folder: str | Path, new: str | Path, *, linkage: Any = None, search: Any = None) -> Replayed:
    """Copy a store to a new folder and do the operations since its last snapshot again; the old folder stays.

    For a store that another engine of grinch wrote, and that was not closed since: its tree, and so its clusters, may
    become others than they were.

    Parameters
    ----------
    folder : str or Path
        The store.
    new : str or Path
        A new or an empty folder.
    linkage, search
        Those of your own, as for :func:`grinch.open`.

    Examples
    --------
    >>> import grinch, tempfile
    >>> folder = tempfile.mkdtemp() + "/news"
    >>> with grinch.open(folder) as store:
    ...     _ = store.insert([[1, 0], [0, 1], [5, 0.1]])
    >>> grinch.store.replay(folder, folder + "-again")
    Replayed(operations=0, of_others=0, version=1)
    """
    folder, new = Path(folder), Path(new)
    if not is_store(folder):
        raise FileNotFoundError(f"folder must be that of a store; {str(folder)!r} has none")
    with closing(Database(folder, readonly=True)) as database:
        database.check_format()
    back_up(folder, new)
    given = {name: value for name, value in {"linkage": linkage, "search": search}.items() if value is not None}
    lock = WriterLock(new)
    try:
        with Store(new, lock, given, False, any_engine=True) as store, store.view() as view:
            later = view.operations_since_snapshot()
            found = Replayed(len(later), sum(done.engine != ENGINE for done in later), view.version)
        return found
    except BaseException:
        lock.release()
        shutil.rmtree(new, ignore_errors=True)
        raise
