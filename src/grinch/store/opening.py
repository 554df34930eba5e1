"""Making a store, or opening one that is there."""

from __future__ import annotations

import secrets
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import grinch
from grinch.cuts import check_cut
from grinch.errors import unknown_name
from grinch.estimators.advice import advise_on_threshold
from grinch.estimators.grinch import Grinch
from grinch.store import inputs
from grinch.store.contents import Contents
from grinch.store.database import FILE, Database
from grinch.store.following import Followed
from grinch.store.lock import WriterLock
from grinch.store.reading import DEFAULT_CUT
from grinch.store.session import snapshot_name, vectors_name
from grinch.store.snapshots import write_snapshot
from grinch.store.store import Store

DTYPES = ("float32", "float64")
# A folder with this file has a sharded store in it.
SHARDED = "sharded.json"


def open(
    folder: str | Path,
    *,
    max_points: int | None = None,
    readonly: bool = False,
    linkage: Any = None,
    metric: str | None = None,
    mode: Any = None,
    n_neighbors: int | None = None,
    search: Any = None,
    n_clusters: int | None = None,
    threshold: float | None = None,
    dtype: str | None = None,
    verbose: bool | int = False,
) -> Store:
    """Open the store in a folder and go on with it; if there is none, make one.

    Parameters
    ----------
    folder : str or Path
        Where the store is, or is to be made.
    max_points : int, optional
        Make a sharded store: a folder of stores, each with a branch of the tree, of which one that grows beyond this
        number of points is split in two (:class:`grinch.sharded.store.ShardedStore`). For one that is there, another
        number. A folder that has a sharded store is opened as one without it.
    readonly : bool, default=False
        Read beside a writer: what was committed last, and :meth:`Store.refresh` for what was committed since. Any
        number of readers, in this process and in others, and one writer.
    linkage, metric, mode, n_neighbors, search
        As in :class:`~grinch.Grinch`, for a new store. One that is there knows its own; what is given must be the same.
        A linkage (or a search) of your own is to be given again unless its module is imported.
    n_clusters, threshold
        For a new store, where the cut called "default" goes; without them it is automatic. There may be others
        (:meth:`Store.add_cut`).
    dtype : {"float32", "float64"}, optional
        For a new store, how vectors are kept. Without it, as the first ones come: float32 if they are in float32 or
        less.
    verbose : bool or int, default=False
        Show progress bars.

    Examples
    --------
    >>> import grinch, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with grinch.open(folder, n_clusters=2) as store:
    ...     store.insert([[1, 0], [0, 9], [2, 0.1]], ids=["a", "b", "c"])
    ...     store.clusters()
    1
    {0: ['a', 'c'], 1: ['b']}
    >>> with grinch.open(folder) as store:
    ...     store.insert([[0.1, 8]], ids=["d"])
    ...     store.clusters()
    2
    {0: ['a', 'c'], 1: ['b', 'd']}
    """
    folder = Path(folder)
    given = {"linkage": linkage, "metric": metric, "mode": mode, "n_neighbors": n_neighbors, "search": search}
    given = {name: value for name, value in given.items() if value is not None}
    if dtype is not None and dtype not in DTYPES:
        raise unknown_name("dtype", dtype, DTYPES)
    if max_points is not None or (folder / SHARDED).exists():
        # By name, for sharded stores know plain ones, and not the other way round.
        return import_module("grinch.sharded.store").open_sharded(
            folder,
            max_points=max_points,
            readonly=readonly,
            n_clusters=n_clusters,
            threshold=threshold,
            dtype=dtype,
            verbose=verbose,
            **given,
        )
    check_cut(n_clusters, threshold)
    n_clusters, threshold = inputs.plain_cut(n_clusters, threshold)
    model = Grinch(**given, verbose=verbose)
    found, is_there = model._check_parameters(reset=True).linkage, (folder / FILE).exists()
    if not is_there:
        advise_on_threshold(threshold, getattr(found, "ceiling", None), found)
    if readonly:
        if not is_there:
            raise FileNotFoundError(f"folder {str(folder)!r} has no store to read; leave readonly out to make one")
        return Store(folder, None, given, verbose)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"folder must be a folder, or the name of one to be made; {str(folder)!r} is a file")
    if not is_there and folder.exists() and not _is_unfinished(folder) and not (folder / FILE).exists():
        raise FileExistsError(
            f"folder {str(folder)!r} is not empty and has no store in it; give another name, or empty it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    lock = WriterLock(folder)
    try:
        with closing(Database(folder, readonly=False)) as database:
            if database.is_new():
                _create(folder, database, model, n_clusters, threshold, dtype)
            else:
                database.check_format()
                _check_same(database, n_clusters, threshold, dtype)
        return Store(folder, lock, given, verbose)
    except BaseException:
        lock.release()
        raise


def _is_unfinished(folder: Path) -> bool:
    """Whether nothing is there but what comes from a store that was being made when its process died."""
    return all(path.name.startswith(("writer.lock", "snapshot-", ".", FILE)) for path in folder.iterdir())


def _create(
    folder: Path,
    database: Database,
    model: Grinch,
    n_clusters: int | None,
    threshold: float | None,
    dtype: str | None,
) -> None:
    followed = Followed()
    followed.add(DEFAULT_CUT, n_clusters=n_clusters, threshold=threshold, model=model)
    name, store = snapshot_name(0), secrets.token_hex(16)
    write_snapshot(folder / name, *Contents(model, followed, folder, store).parts())
    database.create(
        {
            "store": store,
            "grinch": grinch.__version__,
            "snapshot": name,
            "vectors": vectors_name(),
            "dtype": dtype,
            "n_features": None,
            "is_named": None,
            "id_kind": None,
            "columns": None,
            "default_cut": [n_clusters, threshold],
            "is_to_be_vacuumed": False,
        }
    )


def _check_same(database: Database, n_clusters: int | None, threshold: float | None, dtype: str | None) -> None:
    kept = database.get("dtype")
    if dtype is not None and kept is not None and np.dtype(dtype) != np.dtype(kept):
        raise ValueError(f"dtype cannot change: the store keeps {kept}, got {dtype!r}. Leave it out")
    default = database.get("default_cut")
    if (n_clusters is not None or threshold is not None) and [n_clusters, threshold] != default:
        raise ValueError(
            f"n_clusters and threshold are for a new store; this one was made with n_clusters={default[0]},"
            f" threshold={default[1]}. Leave them out, and use store.add_cut(name, ...) for another cut"
        )
