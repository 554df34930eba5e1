"""Server-sent events: clients that listen, and the thread that looks for them while anybody does."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import weakref
from collections.abc import AsyncIterator, Callable

from grinch.serve.views.viewer import Viewer

log = logging.getLogger("grinch.serve")

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
# Seconds between two looks, and between two signs of life to a client that hears nothing else.
LOOKS, KEEP_ALIVE = 1.0, 15.0
BEGIN, SIGN_OF_LIFE = b"retry: 2000\n\n", b": here\n\n"


class TooMany(Exception):
    """As many clients listen as may."""


class Bell:
    """Wakes those who listen, whenever it is rung, or when ``look`` finds something else than before.

    ``look`` is called by a thread of its own about once a second, while anybody listens.
    """

    def __init__(self, most: int = 100, look: Callable[[], object] | None = None, seconds: float = LOOKS):
        self._most, self._look, self._seconds = most, look, seconds
        self._lock = threading.Lock()
        # A stream that is given up before it begins never gets to its end: nothing but the stream holds a listener.
        self._listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    @property
    def is_closed(self) -> bool:
        return self._closing.is_set()

    def join(self) -> Listener:
        """Begin to listen, within the loop of the server; raises :class:`TooMany`."""
        with self._lock:
            if len(self._listeners) >= self._most:
                raise TooMany(f"{self._most} clients listen already; try again later")
            listener = Listener(asyncio.get_running_loop())
            self._listeners.add(listener)
            if self._look is not None and self._thread is None and not self.is_closed:
                self._thread = threading.Thread(
                    target=self._watch, args=(self._look,), daemon=True, name="grinch-events"
                )
                self._thread.start()
            return listener

    def leave(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.discard(listener)

    def ring(self) -> None:
        """Wake all who listen."""
        with self._lock:
            for listener in self._listeners:
                listener.wake()

    def close(self) -> None:
        """Let all streams end."""
        self._closing.set()
        self.ring()

    def _watch(self, look: Callable[[], object]) -> None:
        before: object = None
        while not self._closing.wait(self._seconds):
            with self._lock:
                if not self._listeners:
                    self._thread = None
                    return
            try:
                found = look()
            except Exception:
                # A store that is being restored, perhaps: looked at again in a moment.
                log.warning("what is shown could not be looked at again", exc_info=True)
                continue
            if found != before:
                before = found
                self.ring()


class Listener:
    """A client, which waits in the loop of the server for what another thread sees."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop, self._event = loop, asyncio.Event()

    def wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: float) -> bool:
        """Whether it was woken."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        self._event.clear()
        return True


async def versions(bell: Bell, listener: Listener, viewer: Viewer) -> AsyncIterator[bytes]:
    """The version that is shown, now and whenever it is another."""
    sent = None
    try:
        yield BEGIN
        while not bell.is_closed:
            shown = viewer.version, viewer.n
            if shown != sent:
                sent = shown
                yield event("version", {"version": shown[0], "n": shown[1]})
            elif not await listener.wait(KEEP_ALIVE):
                yield SIGN_OF_LIFE
    finally:
        bell.leave(listener)


def event(kind: str, data: object, number: int | None = None) -> bytes:
    r"""One server-sent event.

    >>> event("version", {"version": 3})
    b'event: version\ndata: {"version": 3}\n\n'
    """
    known = "" if number is None else f"id: {number}\n"
    return f"{known}event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
