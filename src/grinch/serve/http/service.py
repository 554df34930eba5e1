"""What is served: where readers ask, who writes, and what is counted."""

from __future__ import annotations

from typing import Any

from grinch.serve.desk import Desk, FixedDesk, StoreDesk
from grinch.serve.gathering import Writer
from grinch.serve.http.events import Bell
from grinch.serve.http.metrics import Metrics
from grinch.serve.http.settings import Settings
from grinch.serve.live import Live, LiveSource
from grinch.serve.sources import MemorySource, StoreSource
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
            live = Live(served)
            self.desk: Desk = StoreDesk(live)
            self.source = LiveSource(live)
            is_written = not (self.settings.is_read_only or served.is_readonly)
            # Who reads only has to look; who writes knows.
            self.bell = Bell(self.settings.max_listeners, None if is_written else self._version)
            if is_written:
                self.writer = self._new_writer(live)
        else:
            self.desk, self.source, self.bell = FixedDesk(served), served, Bell(self.settings.max_listeners)
        if self.settings.is_read_only:
            self.source.names_file = None
        self._count()

    def _new_writer(self, live: Live) -> Writer:
        settings = self.settings
        writer = Writer(
            live,
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
            "grinch_version": ("The version that is there.", self._version),
            "grinch_queue_depth": ("Changes that wait to be written.", lambda: self.writer.depth if self.writer else 0),
        }

    def _version(self) -> int:
        def version(seen: Any) -> int:
            return int(seen.version)

        return self.desk.read(version)

    def close(self) -> None:
        """Write what waits, and close what is served."""
        self.bell.close()
        if self.writer is not None:
            self.writer.close()
        self.source.close()
