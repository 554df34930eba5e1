"""Count the files of ours in which a function runs: for a fit with labels_, an insert into a store, and a zoom step.

    python benchmarks/files_run.py

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

PACKAGE = Path(grinch.__file__).parent


def files_run(work: Callable[[], Any]) -> set[str]:
    """Return the files of the package in which a function runs during a call, as paths within it."""
    names: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            names.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {str(Path(name).relative_to(PACKAGE)) for name in names if name.startswith(f"{PACKAGE}/")}


def main() -> None:
    Engine.__init__ = functools.partialmethod(Engine.__init__, compiled=False)  # type: ignore[assignment]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8)).astype(np.float32) + 8 * rng.integers(0, 3, size=(300, 1))

    def fit() -> None:
        assert len(grinch.Grinch().fit(X).labels_) == len(X)

    fit()
    of_fit = files_run(fit)
    with tempfile.TemporaryDirectory() as folder:
        with grinch.open(Path(folder) / "store") as store:
            store.insert(X[:100])
            store.insert(X[100:200])
            of_insert = files_run(lambda: store.insert(X[200:])) - of_fit
        of_zoom = files_run(zoom_step(Path(folder) / "store"))
    for what, files, most in (
        ("fit with labels_", of_fit, 25),
        ("store.insert, beyond these", of_insert, 15),
        ("zoom step", of_zoom, 8),
    ):
        print(f"{what}: {len(files)} files (at most {most})\n  {' '.join(sorted(files))}")


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
    main()
