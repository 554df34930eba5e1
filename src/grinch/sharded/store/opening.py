"""Making a sharded store, or opening one that is there."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from grinch._checks import check_count
from grinch._types import Counts, Labels, count_rows
from grinch.cuts import check_cut
from grinch.estimators.advice import advise_on_threshold
from grinch.estimators.grinch import Grinch
from grinch.linkage.base import VectorLinkage
from grinch.sharded.store import unfinished
from grinch.sharded.store.branch import Branch
from grinch.sharded.store.building import new_branch, vector_linkage
from grinch.sharded.store.manifest import FILE, Manifest, pairs_of
from grinch.sharded.store.routing import Router
from grinch.sharded.store.steps import Points
from grinch.sharded.store.store import ShardedStore
from grinch.sharded.whole import merges_of
from grinch.store import disk, inputs
from grinch.store.damage import damaged
from grinch.store.database import FILE as PLAIN
from grinch.store.database import Id
from grinch.store.lock import WriterLock
from grinch.store.opening import is_store
from grinch.store.session import LEFT_OVER
from grinch.tree import Tree

MAX_POINTS = 1_000_000


class BranchOfFit(NamedTuple):
    """A branch that was clustered elsewhere.

    ``rows``: its points; ``ids``: their ids, for all branches or for none; ``numbers``: when each came, counted over
    all branches; ``tree``: the tree over them, whose leaf i is row i.
    """

    rows: Any
    ids: Sequence[Id] | None
    numbers: Counts
    tree: Tree


def open_sharded(
    folder: str | Path,
    *,
    max_points: int | None = None,
    readonly: bool = False,
    n_clusters: int | None = None,
    threshold: float | None = None,
    dtype: str | None = None,
    **given: Any,
) -> ShardedStore:
    """Open the sharded store in a folder; if there is none, make one of a single branch.

    Parameters are those of :func:`grinch.open`, which comes here if ``max_points`` is given, or the folder has one.

    >>> import tempfile
    >>> open_sharded(tempfile.mkdtemp(), linkage="ward").max_points
    1000000
    """
    folder = Path(folder)
    if max_points is not None:
        check_count("max_points", max_points, 2)
    check_cut(n_clusters, threshold)
    n_clusters, threshold = inputs.plain_cut(n_clusters, threshold)
    given = {name: value for name, value in given.items() if value is not None}
    if readonly:
        if not (folder / FILE).exists():
            raise FileNotFoundError(f"folder {str(folder)!r} has no sharded store to read; leave readonly out")
        return ShardedStore(folder, None, given)
    _check_room(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = WriterLock(folder)
    try:
        cut = {"n_clusters": n_clusters, "threshold": threshold}
        if not (folder / FILE).exists():
            _create(folder, max_points or MAX_POINTS, {**given, **cut, "dtype": dtype})
        store = ShardedStore(folder, lock, {**given, "dtype": dtype} if dtype else given)
        try:
            _check_same(store, cut)
            store._set(max_points=max_points or store.max_points)
        except BaseException:
            store.close()
            raise
        return store
    except BaseException:
        lock.release()
        raise


def make_sharded(
    folder: str | Path,
    branches: Sequence[BranchOfFit | tuple[Any, ...]],
    top: Tree,
    *,
    max_points: int = MAX_POINTS,
    payload: Sequence[Sequence[Any] | None] | None = None,
    columns: Sequence[str] | None = None,
    clusters: Labels | None = None,
    verbose: bool | int = False,
    **settings: Any,
) -> ShardedStore:
    """Make a sharded store of branches that were clustered elsewhere; leaf i of ``top`` stands for ``branches[i]``.

    Parameters
    ----------
    folder : str or Path
        A new or an empty folder.
    branches : sequence of BranchOfFit, or of tuples (rows, ids, numbers, tree)
        The branches; none without points.
    top : Tree
        The tree over them.
    max_points : int
        A branch with more points is split when points next come.
    payload : sequence, optional
        By branch, what is kept beside its points, or None.
    columns : sequence of str, optional
        The names of the columns of the rows.
    clusters : array of int of shape (n_points,), optional
        The clusters that the automatic cut begins with, by arrival; by default it is chosen when it is first asked for.
    verbose : bool or int, default=False
        Show progress bars.
    settings
        As for :func:`grinch.open`: linkage, metric, mode, n_neighbors, search, n_clusters, threshold, dtype.

    Examples
    --------
    >>> import tempfile
    >>> X, pair = np.eye(4, dtype=np.float32), Tree.from_newick("(0,1);")
    >>> parts = [(X[:2], None, np.array([0, 2]), pair), (X[2:], None, np.array([1, 3]), pair)]
    >>> with make_sharded(tempfile.mkdtemp(), parts, Tree.from_newick("(0,1);")) as store:
    ...     store.tree.to_newick(lengths=False), store.ids
    ('((0,2),(1,3));', [0, 1, 2, 3])
    """
    folder, parts = Path(folder), [BranchOfFit(*part) for part in branches]
    _check_parts(parts, top)
    check_count("max_points", max_points, 2)
    _check_room(folder)
    if (folder / FILE).exists():
        raise FileExistsError(f"folder {str(folder)!r} has a sharded store already; give another name")
    folder.mkdir(parents=True, exist_ok=True)
    lock = WriterLock(folder)
    try:
        _clear(folder)
        manifest = Manifest(
            max_points,
            settings.get("n_clusters"),
            settings.get("threshold"),
            is_named=parts[0].ids is not None,
            next_number=1 + max(int(part.numbers.max()) for part in parts),
            branches=tuple(Manifest(max_points).new_names(len(parts))),
            pairs=pairs_of(merges_of(top).pairs),
        )
        router = _router(settings)
        unfinished.note(folder, manifest.branches)
        for i, (name, part) in enumerate(zip(manifest.branches, parts, strict=True)):
            branch = new_branch(folder / name, {**settings, "verbose": verbose}, router)
            try:
                names = part.numbers.tolist() if part.ids is None else list(part.ids)
                points = Points(part.rows, names, None if payload is None else _listed(payload[i]), part.numbers)
                branch.adopt(*points, part.tree, None if columns is None else list(columns))
            finally:
                branch.store.close()
        disk.sync_folder(folder)
        manifest.write(folder)
        unfinished.forget(folder)
        own = {name: settings[name] for name in ("linkage", "search") if settings.get(name) is not None}
        store = ShardedStore(folder, lock, {**own, "verbose": verbose})
        if clusters is not None:
            store._begin_with(clusters)
        return store
    except BaseException:
        lock.release()
        raise


def _listed(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _router(given: dict[str, Any]) -> Router:
    """How points are sent to branches, under what is given to make a store; raises for what it cannot be."""
    return Router(_linkage(given))


def _linkage(given: dict[str, Any]) -> VectorLinkage:
    model = Grinch(**{name: given[name] for name in ("linkage", "metric") if given.get(name) is not None})
    return vector_linkage(model.linkage, model.metric)


def _create(folder: Path, max_points: int, settings: dict[str, Any]) -> None:
    """A store of one branch without points; it is there once the manifest is."""
    router, linkage = _router(settings), _linkage(settings)
    advise_on_threshold(settings["threshold"], linkage.ceiling, linkage)
    _clear(folder)
    (name,) = Manifest(max_points).new_names(1)
    unfinished.note(folder, [name])
    branch: Branch = new_branch(folder / name, settings, router)
    branch.store.close()
    Manifest(max_points, settings["n_clusters"], settings["threshold"], branches=(name,)).write(folder)
    unfinished.forget(folder)


def _check_room(folder: Path) -> None:
    """A sharded store can be, or is, in this folder."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"folder must be a folder, or the name of one to be made; {str(folder)!r} is a file")
    if (folder / PLAIN).exists():
        raise FileExistsError(
            f"max_points is for a sharded store, and folder {str(folder)!r} has a plain one. Leave max_points out, or"
            " give another name"
        )
    if folder.exists() and not (folder / FILE).exists():
        # What comes from a sharded store that was being made when its process died is known by name.
        known = {"writer.lock", unfinished.FILE, *unfinished.noted(folder)}
        others = [path for path in folder.iterdir() if path.name not in known and not LEFT_OVER.fullmatch(path.name)]
        if others and is_store(folder):
            raise damaged(folder / FILE, "it is not there, and other files of a store are")
        if others:
            raise FileExistsError(
                f"folder {str(folder)!r} is not empty and has no store in it; give another name, or empty it"
            )


def _clear(folder: Path) -> None:
    """Delete the branches of a sharded store that was being made when its process died."""
    for name in unfinished.noted(folder):
        shutil.rmtree(folder / name, ignore_errors=True)


def _check_same(store: ShardedStore, cut: dict[str, Any]) -> None:
    kept = store._manifest
    if any(value is not None for value in cut.values()) and replace(kept, **cut) != kept:
        raise ValueError(
            f"n_clusters and threshold are for a new store; this one was made with n_clusters={kept.n_clusters},"
            f" threshold={kept.threshold}. Leave them out, and give them to labels() or clusters()"
        )


def _check_parts(parts: Sequence[BranchOfFit], top: Tree) -> None:
    """Branches are of one kind, and every point is in one of them."""
    if not parts or len(parts) != top.n_leaves:
        raise ValueError(f"top must have a leaf for each branch; got {top.n_leaves} for {len(parts)} branches")
    if len({part.ids is None for part in parts}) > 1:
        raise ValueError("ids must be given for all branches or for none")
    for i, part in enumerate(parts):
        n = count_rows(part.rows)
        lengths = {len(part.numbers), part.tree.n_leaves, n if part.ids is None else len(part.ids)}
        if not n or lengths != {n}:
            raise ValueError(
                f"branches must have a row, a number, a leaf and perhaps an id for each of their points, and at least"
                f" one; branch {i} has {n} rows, {len(part.numbers)} numbers and {part.tree.n_leaves} leaves"
            )
    numbers = np.concatenate([part.numbers for part in parts])
    names = [name for part in parts for name in part.ids or ()]
    if len(np.unique(numbers)) < len(numbers) or numbers.min() < 0 or len(set(names)) < len(names):
        raise ValueError("branches must have each point once: a number, or an id, is there twice or below 0")
