"""Events for pages: something else is shown by now. One thread looks for all who listen."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import weakref
from collections.abc import AsyncIterator

from grinch.serve.viewer import Viewer

log = logging.getLogger("grinch.serve")

# Seconds between two looks, and between two signs of life to a client that hears nothing else.
LOOKS, KEEP_ALIVE = 1.0, 15.0
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class TooMany(Exception):
    """As many clients listen as may."""


class Events:
    """Who listens, and the thread that looks for them while anybody does."""

    def __init__(self, viewer: Viewer, most: int = 100, seconds: float = LOOKS):
        self._viewer, self._most, self._seconds = viewer, most, seconds
        self._lock = threading.Lock()
        # A stream that is given up before it begins never gets to its end: nothing but the stream holds a listener.
        self._listeners: weakref.WeakSet[_Listener] = weakref.WeakSet()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def join(self) -> _Listener:
        """Begin to listen, within the loop of the server; raises :class:`TooMany`."""
        with self._lock:
            if len(self._listeners) >= self._most:
                raise TooMany(f"{self._most} clients listen already; try again later")
            listener = _Listener(asyncio.get_running_loop())
            self._listeners.add(listener)
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._watch, daemon=True, name="grinch-events")
                self._thread.start()
            return listener

    async def stream(self, listener: _Listener) -> AsyncIterator[bytes]:
        """Server-sent events: the version that is shown, now and whenever it is another."""
        sent = None
        try:
            yield b"retry: 2000\n\n"
            while not self._closing.is_set():
                shown = self._viewer.version, self._viewer.n
                if shown != sent:
                    sent = shown
                    yield event("version", {"version": shown[0], "n": shown[1]})
                elif not await listener.wait(KEEP_ALIVE):
                    yield b": here\n\n"
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def close(self) -> None:
        """Let all streams end."""
        self._closing.set()
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            for listener in self._listeners:
                listener.wake()

    def _watch(self) -> None:
        before = self._viewer.version
        while not self._closing.wait(self._seconds):
            with self._lock:
                if not self._listeners:
                    self._thread = None
                    return
            try:
                version = self._viewer.refresh()
            except Exception:
                # A store that is being restored, perhaps: looked at again in a moment.
                log.warning("what is shown could not be looked at again", exc_info=True)
                continue
            if version != before:
                before = version
                self._wake()


class _Listener:
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


def event(kind: str, data: object, number: int | None = None) -> bytes:
    r"""One server-sent event.

    >>> event("version", {"version": 3})
    b'event: version\ndata: {"version": 3}\n\n'
    """
    known = "" if number is None else f"id: {number}\n"
    return f"{known}event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
