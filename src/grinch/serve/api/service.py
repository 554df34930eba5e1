"""What is served: where readers ask, who writes, and what is counted."""

from __future__ import annotations

from grinch.serve.api.events import Bell
from grinch.serve.api.metrics import Metrics
from grinch.serve.api.settings import Settings
from grinch.serve.backend import Desk, FixedDesk, StoreDesk
from grinch.serve.sources import MemorySource, StoreSource
from grinch.serve.write_batcher import Writer
from grinch.store import Store


class Service:
    """A store, a model or a tree, for the routes of the service; ``source`` is for a viewer of the same.

    >>> import grinch, tempfile
    >>> store = grinch.open(tempfile.mkdtemp())
    >>> service = Service(store)
    >>> service.writer is not None, service.desk.read(len)
    (True, 0)
    >>> service.close()
    """

    def __init__(self, served: Store | MemorySource, settings: Settings | None = None):
        self.settings = settings or Settings()
        self.metrics, self.writer = Metrics(), None
        self.source: StoreSource | MemorySource
        if not isinstance(served, MemorySource):
            self.desk: Desk = StoreDesk(served)
            self.source = StoreSource(served)
            is_written = not (self.settings.is_read_only or served.is_readonly)
            # Who reads only has to look; who writes knows.
            self.bell = Bell(self.settings.max_listeners, None if is_written else self.version)
            if is_written:
                self.writer = self._new_writer(served)
        else:
            self.desk, self.source, self.bell = FixedDesk(served), served, Bell(self.settings.max_listeners)
        if self.settings.is_read_only:
            self.source.names_file = None
        self._count()

    def _new_writer(self, store: Store) -> Writer:
        settings = self.settings
        writer = Writer(
            store,
            most=settings.max_queued,
            most_bytes=settings.max_waiting,
            most_points=settings.max_gathered,
            changed=self.bell.ring,
        )
        writer.batches = self.metrics.wrote
        return writer

    def _count(self) -> None:
        self.metrics.gauges = {
            "grinch_points": ("Points that are there.", lambda: self.desk.read(len)),
            "grinch_version": ("The version that is there.", self.version),
            "grinch_queue_depth": ("Changes that wait to be written.", lambda: self.writer.depth if self.writer else 0),
        }

    def version(self) -> int:
        """Return the version that is there."""
        return int(self.desk.read(lambda seen: seen.version))

    def close(self) -> None:
        """Write what waits, and close what is served."""
        self.bell.close()
        if self.writer is not None:
            self.writer.close()
        self.source.close()
