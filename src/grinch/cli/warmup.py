"""Compile what the common calls need, before anybody waits for it."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.sparse
from typer import Argument

import grinch
from grinch._checks import check_name
from grinch._compile import compiled_folder
from grinch.cli.app import console
from grinch.metrics import dendrogram_purity

# From the second number of points on, a search looks in cells of the space.
N_POINTS, N_MANY, N_COLUMNS = 2_000, 25_000, 8


def dense() -> None:
    """Grinch on dense rows, under every linkage"""
    _use(_points())
    for linkage in ("cosine", "tanimoto"):
        _ = grinch.Grinch(linkage=linkage).fit(abs(_points())).labels_
    # What a linkage written in Python is searched by.
    grinch.Grinch(search="nsw").fit(_points()[:300]).remove([0]).partial_fit(_points()[:1])


def sparse() -> None:
    """Grinch on sparse rows"""
    _use(_sparse_points())


def large() -> None:
    """Search in large sets"""
    grinch.Grinch().fit(_points(N_MANY))


def stores() -> None:
    """Stores, with each way to cut"""
    for cut in ({}, {"n_clusters": 5}, {"threshold": 0.0}):
        _use_store(_points()[:210], **cut)
    _use_store(_sparse_points()[:210])


def metrics() -> None:
    """Measures of trees"""
    model = grinch.Grinch().fit(_points())
    model.cluster_tree()
    dendrogram_purity(model.tree_, np.arange(N_POINTS) % 20)


def others() -> None:
    """HAC, MiniBatchHAC and Perch"""
    for model in (grinch.HAC(), grinch.MiniBatchHAC(), grinch.Perch()):
        _ = model.fit(_points()[:300]).labels_


KINDS: dict[str, Callable[[], None]] = {use.__name__: use for use in (dense, sparse, large, stores, metrics, others)}


def warmup(
    kinds: Annotated[list[str] | None, Argument(metavar="KIND", help=f"What to compile: {', '.join(KINDS)}.")] = None,
) -> None:
    """Compile everything now, so that later calls need not wait.

    Code is compiled when it is first used, and cached for all processes on this machine. Run this command after
    installing or updating, for example when an image is built. Code that is compiled already is only loaded.
    """
    for kind in kinds or []:
        check_name("KIND", kind, KINDS)
    begin = time.perf_counter()
    for kind in kinds or KINDS:
        start = time.perf_counter()
        console.print(f"{KINDS[kind].__doc__} … ", end="", markup=False)
        with warnings.catch_warnings(action="ignore"):
            KINDS[kind]()
        console.print(f"{time.perf_counter() - start:.1f} s", markup=False)
    place = compiled_folder() or "no folder: none can be written. Set NUMBA_CACHE_DIR to one"
    console.print(
        f"{time.perf_counter() - begin:.0f} s in all. Compiled code is in {place}", markup=False, soft_wrap=True
    )


def _points(n: int = N_POINTS) -> Any:
    rng = np.random.default_rng(0)
    return rng.normal(size=(20, N_COLUMNS))[rng.integers(0, 20, n)] * 6 + rng.normal(size=(n, N_COLUMNS))


def _sparse_points() -> Any:
    return scipy.sparse.random_array((N_POINTS, 300), density=0.05, format="csr", rng=np.random.default_rng(0))


def _use(rows: Any) -> None:
    """Do with a model of the rows what people do."""
    model = grinch.Grinch().fit(rows[:-50])
    _ = model.labels_, model.layers_
    model.partial_fit(rows[-50:]).predict(rows[:3])
    model.remove([0, 1])
    model.refine()
    model.summary()
    with tempfile.TemporaryDirectory(prefix="grinch-") as folder:
        model.save(Path(folder) / "model.grinch")
        grinch.load(Path(folder) / "model.grinch")
    model = grinch.Grinch(n_clusters=5).fit(rows[:-1])
    _ = model.labels_, model.partial_fit(rows[-1:]).labels_


def _use_store(rows: Any, **cut: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="grinch-") as folder, grinch.open(Path(folder) / "store", **cut) as store:
        store.insert(rows[:-1])
        store.insert(rows[-1:])
        store.predict(rows[:3])
        store.remove(store.ids[:2])
        store.refine()
