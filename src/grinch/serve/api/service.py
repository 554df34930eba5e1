"""What is served: a backend for readers, a writer, and metrics."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from grinch.serve.api.events import Notifier
from grinch.serve.api.guard import Settings
from grinch.serve.api.metrics import Metrics
from grinch.serve.backend import Answer, Backend, StoreBackend, View
from grinch.serve.write_batcher import Writer
from grinch.store import Store, opening

# Rows and columns of the points by which code is compiled before the service is ready.
N_ROWS, MAX_COLUMNS = 40, 64


class RowFormat(NamedTuple):
    """The number of columns and the type of rows; None where that is not known yet."""

    n_features: int | None
    dtype: str | None
    is_of_records: bool = False


class Service:
    """A store, a model or a tree, for the routes of the service.

    >>> import grinch, tempfile
    >>> store = grinch.open(tempfile.mkdtemp())
    >>> service = Service(store)
    >>> service.writer is not None, service.read(len)
    (True, 0)
    >>> service.close()
    """

    def __init__(self, served: Store | Backend, settings: Settings | None = None):
        self.settings = settings or Settings()
        self.metrics = Metrics()
        self.backend: Backend = served if isinstance(served, Backend) else StoreBackend(served)
        self.writer: Writer | None = None
        self.known_row_format: RowFormat | None = None
        is_store = isinstance(self.backend, StoreBackend)
        is_written = is_store and not (self.settings.is_read_only or self.backend.store.is_readonly)  # type: ignore[attr-defined]
        # A store that others write has to be looked at; our own writer notifies.
        is_watched = is_store and not is_written
        self.notifier = Notifier(self.settings.max_listeners, self.version if is_watched else None)
        if is_written:
            self.writer = self._new_writer(self.backend.store)  # type: ignore[attr-defined]
        if self.settings.is_read_only:
            self.backend.names_file = None
        self.metrics.gauges = {
            "grinch_points": ("Points that are there.", lambda: self.read(len)),
            "grinch_version": ("The version that is there.", self.version),
            "grinch_queue_depth": ("Changes that wait to be written.", lambda: self.writer.depth if self.writer else 0),
        }

    def _new_writer(self, store: Store) -> Writer:
        settings = self.settings
        return Writer(
            store,
            max_waiting=settings.max_queued,
            max_bytes=settings.max_waiting,
            max_points=settings.max_gathered,
            changed=self.notifier.notify,
            written=self.metrics.wrote,
        )

    def read(self, ask: Callable[[View], Answer], *, placing: bool = False) -> Answer:
        """Return the answer of a function of the last version; during a change, of the version before it."""
        self.backend.refresh_if_due()
        return self.backend.read(ask, placing=placing)

    def version(self) -> int:
        """Return the last version."""
        return self.read(lambda view: view.version)

    def row_format(self) -> RowFormat:
        """Return the format of rows, which never changes once there are points."""
        if self.known_row_format is not None:
            return self.known_row_format

        def ask(view: View) -> tuple[RowFormat, int]:
            return RowFormat(view.n_features, view.dtype, view.n_features is None and len(view) > 0), len(view)

        row_format, n = self.read(ask)
        self.known_row_format = row_format if n else None
        return row_format

    def close(self) -> None:
        """Write what waits, and close what is served."""
        self.notifier.close()
        if self.writer is not None:
            self.writer.close()
        self.backend.close()


def warm_up(store: Store) -> None:
    """Compile the code of a first request: insert, predict and remove a few points in a store like this one.

    >>> import grinch, tempfile
    >>> store = grinch.open(tempfile.mkdtemp(), linkage="ward")
    >>> warm_up(store)
    >>> len(store)
    0
    """
    about = store.info()
    settings = {name: about[name] for name in ("linkage", "metric", "mode", "n_neighbors", "search")}
    if not all(isinstance(settings[name], str) for name in ("linkage", "mode", "search")):
        return  # functions of users may do anything when they are called
    default = about["cuts"]["default"]
    cut = {name: default.get(name) for name in ("n_clusters", "threshold", "cut", "layer")}
    rows = _some_rows(min(store.n_features or 8, MAX_COLUMNS), about["is_sparse"])
    # Without disk space for it the service works as well.
    with (
        suppress(OSError),
        tempfile.TemporaryDirectory(prefix="grinch-") as folder,
        opening.open(folder, **settings, **cut, dtype=about["dtype"]) as like,
    ):
        like.insert(rows)
        like.predict(rows[:1])
        like.remove(like.ids[:1])


def _some_rows(n_features: int, is_sparse: bool) -> Any:
    rng = np.random.default_rng(0)
    if is_sparse:
        return scipy.sparse.random_array((N_ROWS, n_features), density=min(1.0, 8 / n_features), format="csr", rng=rng)
    return rng.random((N_ROWS, n_features))
