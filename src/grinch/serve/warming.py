"""What the first client of a service would wait for: code that is compiled on this machine once, or loaded."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse

from grinch.store import Store, opening

N_ROWS, MOST_COLUMNS = 40, 64


def warm_up(store: Store) -> None:
    """Insert, predict and remove a few points in a store like this one, which is thrown away.

    >>> import grinch, tempfile
    >>> store = grinch.open(tempfile.mkdtemp(), linkage="ward")
    >>> warm_up(store)
    >>> len(store)
    0
    """
    about = store.info()
    settings = {name: about[name] for name in ("linkage", "metric", "mode", "n_neighbors", "search")}
    if not all(isinstance(settings[name], str) for name in ("linkage", "mode", "search")):
        return  # what users wrote themselves may do anything when it is called
    default = about["cuts"]["default"]
    cut = {name: default.get(name) for name in ("n_clusters", "threshold", "cut", "layer")}
    rows = _rows(min(store.n_features or 8, MOST_COLUMNS), about["is_sparse"])
    # Without room for it the service works as well.
    with (
        suppress(OSError),
        tempfile.TemporaryDirectory(prefix="grinch-") as folder,
        opening.open(folder, **settings, **cut, dtype=about["dtype"]) as like,
    ):
        like.insert(rows)
        like.predict(rows[:1])
        like.remove(like.ids[:1])


def _rows(n_features: int, is_sparse: bool) -> Any:
    rng = np.random.default_rng(0)
    if is_sparse:
        return scipy.sparse.random_array((N_ROWS, n_features), density=min(1.0, 8 / n_features), format="csr", rng=rng)
    return rng.random((N_ROWS, n_features))
