"""List the files of ours in which a function runs: for a fit with labels_, an insert into a store, and a zoom step.

    python benchmarks/files_run.py            writes benchmarks/files_run.json; fill.py shows it in CONTRIBUTING.md

The engine runs interpreted, so that the moves are seen too; everything is done once before it is counted, so that
imports and compiling are not.
"""

from __future__ import annotations

import functools
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import grinch
from grinch.core.engine import Engine
from written import write_figures

OUT = Path(__file__).parent / "files_run.json"
PACKAGE = Path(grinch.__file__).parent
MOST = {"fit": 25, "insert": 15, "zoom": 8}


def files_run(work: Callable[[], Any]) -> list[str]:
    """Return the files of the package in which a function runs during a call, in the order in which one first does."""
    names: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            names.setdefault(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return [str(Path(name).relative_to(PACKAGE)) for name in names if name.startswith(f"{PACKAGE}/")]


def measured() -> dict[str, list[str]]:
    """Return the files of a fit, of an insert those beyond, and of a zoom step."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8)).astype(np.float32) + 8 * rng.integers(0, 3, size=(300, 1))

    def fit() -> None:
        assert len(grinch.Grinch().fit(X).labels_) == len(X)

    compiled = Engine.__init__
    Engine.__init__ = functools.partialmethod(compiled, compiled=False)  # type: ignore[assignment, method-assign]
    try:
        fit()
        of_fit = files_run(fit)
        with tempfile.TemporaryDirectory() as folder:
            with grinch.open(Path(folder) / "store") as store:
                store.insert(X[:100])
                store.insert(X[100:200])
                of_insert = files_run(lambda: store.insert(X[200:]))
            of_zoom = files_run(zoom_step(Path(folder) / "store"))
    finally:
        Engine.__init__ = compiled  # type: ignore[method-assign]
    return {"fit": of_fit, "insert": [name for name in of_insert if name not in of_fit], "zoom": of_zoom}


def zoom_step(folder: Path) -> Callable[[], Any]:
    """Return a function that asks for a part of the tree of a store, as the page does; the page is open already."""
    from fastapi.testclient import TestClient

    from grinch.serve.api.app import make_app
    from grinch.serve.model_backend import open_backend
    from grinch.serve.views.viewer import Viewer

    client = TestClient(make_app(Viewer(open_backend(folder))), base_url="http://127.0.0.1")

    def ask(first: int, last: int) -> None:
        client.get(f"/api/view?x0={first}&x1={last}").raise_for_status()

    ask(0, 300)
    return lambda: ask(50, 150)


if __name__ == "__main__":
    found = measured()
    write_figures(OUT, found)
    for what, files in found.items():
        print(f"{what}: {len(files)} files (at most {MOST[what]})\n  {' '.join(files)}")
