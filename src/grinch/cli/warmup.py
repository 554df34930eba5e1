"""Compile what the common calls need, once, before anybody waits for it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import scipy.sparse
import typer

import grinch
from grinch._compile import compiled_folder
from grinch.cli.app import app, console
from grinch.errors import unknown_name

# Trees of more points than the first are polished as they grow; from the second on, exact search gives way to cells.
N_POINTS, N_MANY, N_COLUMNS = 2_000, 25_000, 8


def _points(n: int = N_POINTS) -> Any:
    rng = np.random.default_rng(0)
    return rng.normal(size=(20, N_COLUMNS))[rng.integers(0, 20, n)] * 6 + rng.normal(size=(n, N_COLUMNS))


def _sparse_points() -> Any:
    return scipy.sparse.random_array((N_POINTS, 300), density=0.05, format="csr", rng=np.random.default_rng(0))


def _use(model: Any, rows: Any) -> None:
    """Call what people call on a model of most of the rows."""
    model.fit(rows[:-50])
    _ = model.labels_, model.layers_
    model.partial_fit(rows[-50:])
    _ = model.labels_
    model.predict(rows[:3])
    model.remove([0, 1])
    model.refine()
    model.set_params(n_clusters=5)
    _ = model.labels_
    model.partial_fit(rows[:1])
    _ = model.labels_
    model.summary()
    with tempfile.TemporaryDirectory(prefix="grinch-") as folder:
        model.save(os.path.join(folder, "model.grinch"))
        grinch.load(os.path.join(folder, "model.grinch"))


def _use_store(rows: Any) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="grinch-") as folder,
        grinch.open(os.path.join(folder, "store")) as store,
    ):
        store.insert(rows[:200])
        store.insert(rows[200:201])
        store.predict(rows[:3])
        store.remove(store.ids[:2])
        store.refine()


KINDS: dict[str, tuple[str, Callable[[], None]]] = {
    "dense": ("Grinch on dense rows, every linkage", lambda: _use(grinch.Grinch(), _points())),
    "sparse": ("Grinch on sparse rows", lambda: _use(grinch.Grinch(), _sparse_points())),
    "large": ("the search in large sets", lambda: grinch.Grinch().fit(_points(N_MANY))),
    "store": ("stores", lambda: (_use_store(_points()), _use_store(_sparse_points()))[0]),
    "exact": ("mode='exact' and 'paper'", lambda: [grinch.Grinch(mode=m).fit(_points()[:60]) for m in ("exact", "paper")].clear()),
    "others": ("HAC and Perch", lambda: [m.fit(_points()[:200]) for m in (grinch.HAC(), grinch.Perch())].clear()),
}


@app.command(short_help="Compile everything now, so that no later call waits for it.")
def warmup(
    kinds: Annotated[
        list[str] | None, typer.Argument(metavar="[KIND]...", help=f"What to compile: {', '.join(KINDS)}; all by default.")
    ] = None,
) -> None:
    """Compile what the common calls need, so that no later call waits for it.

    Each part of the package is compiled where it is first used, and kept for all processes: this command uses them
    once. Run it after installing or updating, for example while an image is built. What has been compiled before is
    only loaded.
    """
    for kind in kinds or []:
        if kind not in KINDS:
            raise unknown_name("KIND", kind, tuple(KINDS))
    begin = time.perf_counter()
    for kind in kinds or KINDS:
        about, use = KINDS[kind]
        console.print(f"{kind}: {about} …", end="", markup=False)
        start = time.perf_counter()
        use()
        console.print(f" {time.perf_counter() - start:.1f} s", markup=False)
    console.print(f"Done in {time.perf_counter() - begin:.1f} s. Compiled code is in {compiled_folder()}", markup=False, soft_wrap=True)
