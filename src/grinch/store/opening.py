"""Creating and opening stores."""

from __future__ import annotations

import secrets
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import grinch
from grinch.core.engine import ENGINE
from grinch.cuts.tracking import CUT_BY
from grinch.errors import unknown_name
from grinch.estimators.checks import advise_on_threshold
from grinch.estimators.grinch import Grinch
from grinch.linkage.named import metric_in_full
from grinch.saving import container
from grinch.store import inputs
from grinch.store.database import BESIDE, FILE, FORMAT, Database, about_row
from grinch.store.lock import WriterLock, holder
from grinch.store.maintenance import back_up
from grinch.store.queries import DEFAULT_CUT
from grinch.store.rows import DTYPES, vectors_name
from grinch.store.snapshots import KIND, OUR_NAMES, snapshot_name
from grinch.store.state import ClusterTracking, StoreState, how_of
from grinch.store.store import Store

# A folder with this file has a store of several branches in it, made by grinch before 0.2.
SHARDED = "sharded.json"


def open(
    folder: str | Path,
    *,
    readonly: bool = False,
    linkage: Any = None,
    metric: str | None = None,
    mode: Any = None,
    n_neighbors: int | None = None,
    search: Any = None,
    n_clusters: int | None = None,
    threshold: float | None = None,
    cut: str | None = None,
    layer: str | int | None = None,
    dtype: str | None = None,
    verbose: bool | int = False,
) -> Store:
    """Open the store in a folder; if there is none, create one.

    Parameters
    ----------
    folder : str or Path
        The folder of the store, or of the new one.
    readonly : bool, default=False
        Read what was committed last; :meth:`Store.refresh` advances to what was committed since. There may be any
        number of readers, in this process and others, and one writer.
    linkage, metric, mode, n_neighbors, search
        As in :class:`~grinch.Grinch`, for a new store; for an existing one, they must be the same if they are given.
        A linkage (or a search) of your own must be given again unless its module is imported.
    n_clusters, threshold, cut, layer
        As in :class:`~grinch.Grinch`, for a new store: the cut called "default". There may be others
        (:meth:`Store.add_cut`).
    dtype : {"float32", "float64"}, optional
        The type in which a new store keeps vectors. By default, float32 if the first ones are in float32 or less,
        otherwise float64.
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
    refuse_sharded(folder)
    how = inputs.check_how(n_clusters, threshold, cut or "sizeable", "auto" if layer is None else layer)
    # By its name and its number, for defaults may change.
    in_full = metric_in_full(given.get("linkage", "average"), metric)
    model = Grinch(**{**given, "metric": in_full}, verbose=verbose)
    _, own_linkage, _, model.n_neighbors = model.checked_parameters()
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"folder must be a folder, or the name of one to be made; {str(folder)!r} is a file")
    asked = {"n_clusters": n_clusters, "threshold": threshold, "cut": cut, "layer": layer}
    asked = {name: how[name] for name, value in asked.items() if value is not None and not readonly}
    is_made = is_store(folder) and _is_made(folder, asked, None if readonly else dtype)
    if readonly:
        if not is_made:
            raise FileNotFoundError(f"folder {str(folder)!r} has no store to read; leave readonly out to make one")
        return Store(folder, None, given, verbose)
    if not is_store(folder) and folder.exists() and not all(map(_is_passed_over, folder.iterdir())):
        raise FileExistsError(
            f"folder {str(folder)!r} is not empty and has no store in it; give another name, or empty it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    lock = WriterLock(folder)
    try:
        # Another process may have made it since.
        if not is_store(folder):
            # Without a snapshot it is not complete.
            Database.create(folder, {"about": new_about()})
        if not is_made and not _is_made(folder, asked, dtype):
            advise_on_threshold(threshold, getattr(own_linkage, "ceiling", None), own_linkage)
            _finish(folder, model, how, dtype)
        return Store(folder, lock, given, verbose)
    except BaseException:
        lock.release()
        raise


def is_store(folder: Path) -> bool:
    """Return whether a folder has a store in it, or files that are left of one."""
    return folder.is_dir() and any(_is_of_store(path.name) for path in folder.iterdir())


def _is_of_store(name: str) -> bool:
    return name in (FILE, *BESIDE, SHARDED) or any(kind.fullmatch(name) for kind in OUR_NAMES)


def refuse_sharded(folder: Path) -> None:
    """Raise an error if a folder has a sharded store in it, which only earlier versions read."""
    if (folder / SHARDED).exists():
        raise ValueError(
            f"folder {str(folder)!r} has a sharded store, made by grinch before 0.2 with max_points, which is no longer"
            " read. Each branch-* folder in it is a store of its own: convert it (grinch convert BRANCH NEW), open it,"
            " and insert its ids, vectors(ids) and payload(ids) into one new store. The last commit of grinch that"
            " reads the tree of all branches is a026ddb. Nothing in the folder was changed"
        )


def _is_passed_over(path: Path) -> bool:
    """Return whether a store can be made beside a file: a hidden one, or one that is left of an interrupted start."""
    # After a power cut, the lock may have its length and none of its bytes.
    is_lock = path.name == "writer.lock" and (not path.read_bytes().strip(b"\0") or holder(path.parent) is not None)
    return is_lock or path.name.startswith(".")


def _is_made(folder: Path, asked: dict[str, Any], dtype: str | None) -> bool:
    """Return whether the store in a folder is complete; raise if it is damaged, or has other parameters."""
    with closing(Database(folder, readonly=True)) as database:
        database.check_format()
        if database.get("snapshot") is None:
            return False
        _check_same(database, asked, dtype)
        return True


def new_about(**known: Any) -> list[tuple[str, str]]:
    """Return the rows of the table ``about`` of a new store, with what is known of it."""
    about = {
        "format": FORMAT,
        "store": secrets.token_hex(16),
        "grinch": grinch.__version__,
        "snapshot": None,
        "vectors": vectors_name(),
        "files": [snapshot_name(0)],
        **dict.fromkeys(("dtype", "n_features", "is_named", "id_kind", "columns")),
        "default_cut": [None, None],
        "is_to_be_vacuumed": False,
        **known,
    }
    return [about_row(name, value) for name, value in about.items()]


def _finish(folder: Path, model: Grinch, how: dict[str, Any], dtype: str | None) -> None:
    """Complete a new store: with an empty model, and its cut."""
    tracking = ClusterTracking(model)
    tracking.add(DEFAULT_CUT, **how)
    with closing(Database(folder, readonly=False)) as database:
        (name,) = database.get("files")
        state = StoreState(tracking, folder, database.get("store"))
        header, arrays = state.to_state()
        container.write(folder / name, KIND, header, arrays)
        with database.changing():
            # Recovery needs it if the snapshot is lost.
            database.set("model", header["model"])
            database.set("dtype", dtype)
            database.set("default_cut", [how[name] for name in CUT_BY])
            database.set("snapshot", name)


def _check_same(database: Database, asked: dict[str, Any], dtype: str | None) -> None:
    kept = database.get("dtype")
    if dtype is not None and kept is not None and np.dtype(dtype) != np.dtype(kept):
        raise ValueError(f"dtype cannot change: the store keeps {kept}, got {dtype!r}. Leave it out")
    made = how_of(dict(zip(CUT_BY, database.get("default_cut"), strict=False)))
    if asked != {name: made[name] for name in asked}:
        said = ", ".join(f"{name}={value!r}" for name, value in made.items())
        raise ValueError(
            f"n_clusters, threshold, cut and layer are for a new store; this one was made with {said}. Leave them out,"
            " and use store.add_cut(name, ...) for another cut"
        )


class Replayed(NamedTuple):
    """The number of operations that were replayed, of those that another engine had made, and the version."""

    operations: int
    of_others: int
    version: int


def replay(folder: str | Path, new: str | Path, *, linkage: Any = None, search: Any = None) -> Replayed:
    """Copy a store to a new folder and replay the operations since its last snapshot; the old folder stays.

    For a store that another engine of grinch wrote, and that was not closed since: its tree, and so its clusters, may
    differ from what they were.

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
            return Replayed(len(later), sum(done.engine != ENGINE for done in later), view.version)
    except BaseException:
        lock.release()
        shutil.rmtree(new, ignore_errors=True)
        raise
