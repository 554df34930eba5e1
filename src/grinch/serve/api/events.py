"""Server-sent events: clients that listen, and the thread that looks for changes while there are any."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import weakref
from collections.abc import AsyncIterator, Callable

from fastapi.responses import StreamingResponse

from grinch.serve.views.viewer import Viewer

log = logging.getLogger("grinch.serve")

MEDIA_TYPE = "text/event-stream"
# Seconds between two looks for changes, and between two signs of life to a client that hears nothing else.
LOOK_INTERVAL, KEEP_ALIVE = 1.0, 15.0
BEGIN, SIGN_OF_LIFE = b"retry: 2000\n\n", b": here\n\n"


class TooManyListeners(Exception):
    """The limit of clients that listen is reached."""


class Notifier:
    """Wakes all listeners when it is notified, or when ``look`` returns something else than before.

    ``look`` is called by a thread of its own about once a second, while there are listeners.
    """

    def __init__(
        self, max_listeners: int = 100, look: Callable[[], object] | None = None, seconds: float = LOOK_INTERVAL
    ):
        self._max_listeners, self._look, self._seconds = max_listeners, look, seconds
        self._lock = threading.Lock()
        # A stream that is given up before it begins never gets to its end: nothing but the stream holds a listener.
        self._listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    @property
    def is_closed(self) -> bool:
        return self._closing.is_set()

    def join(self) -> Listener:
        """Begin to listen, within the loop of the server; raises :class:`TooManyListeners`."""
        with self._lock:
            if len(self._listeners) >= self._max_listeners:
                raise TooManyListeners(f"{self._max_listeners} clients listen already; try again later")
            listener = Listener(asyncio.get_running_loop())
            self._listeners.add(listener)
            if self._look is not None and self._thread is None and not self.is_closed:
                self._thread = threading.Thread(
                    target=self._watch, args=(self._look,), daemon=True, name="grinch-events"
                )
                self._thread.start()
            return listener

    def leave(self, listener: Listener) -> None:
        """End listening."""
        with self._lock:
            self._listeners.discard(listener)

    def notify(self) -> None:
        """Wake all listeners."""
        with self._lock:
            for listener in self._listeners:
                listener.wake()

    def close(self) -> None:
        """Let all streams end."""
        self._closing.set()
        self.notify()

    def _watch(self, look: Callable[[], object]) -> None:
        before: object = None
        while not self._closing.wait(self._seconds):
            with self._lock:
                if not self._listeners:
                    self._thread = None
                    return
            try:
                now = look()
            except Exception:
                # A store that is being restored, perhaps: looked at again in a moment.
                log.warning("changes could not be looked for", exc_info=True)
                continue
            if now != before:
                before = now
                self.notify()


class Listener:
    """A client, which waits in the loop of the server for a signal of another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop, self._event = loop, asyncio.Event()

    def wake(self) -> None:
        """Signal that there may be something new."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: float) -> bool:
        """Return whether there was a signal within some seconds."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        self._event.clear()
        return True


async def versions(notifier: Notifier, listener: Listener, viewer: Viewer) -> AsyncIterator[bytes]:
    """Yield the version that is shown, now and whenever it changes."""
    sent = None
    try:
        yield BEGIN
        while not notifier.is_closed:
            shown = viewer.version, viewer.n
            if shown != sent:
                sent = shown
                yield event("version", {"version": shown[0], "n": shown[1]})
            elif not await listener.wait(KEEP_ALIVE):
                yield SIGN_OF_LIFE
    finally:
        notifier.leave(listener)


def event(kind: str, data: object, number: int | None = None) -> bytes:
    r"""Return one server-sent event.

    >>> event("version", {"version": 3})
    b'event: version\ndata: {"version": 3}\n\n'
    """
    id_line = "" if number is None else f"id: {number}\n"
    return f"{id_line}event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def streamed(stream: AsyncIterator[bytes]) -> StreamingResponse:
    """Return events as an answer that goes on."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, media_type=MEDIA_TYPE, headers=headers)
