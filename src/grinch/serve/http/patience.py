"""Connections that do not go on: how long they are waited for, and how many there may be."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("grinch.serve")

# Seconds in which the head of a request has to be there, and in which some of its body has to come.
STALLED = 20.0
# Bytes of a body that have to come in that time, unless it is complete.
SOME = 1024
# At the end, a body that is on its way has this many seconds.
LAST_CALL = 2.0
# Connections, if the machine allows as many.
MOST = 1_000
# Files that are kept for all else: the store, and what it reads.
KEPT_BACK = 128
# Seconds between two lines of the log about the same.
QUIET = 60.0

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 61\r\n"
    b"Retry-After: 1\r\nConnection: close\r\n\r\n"
    b'{"error": "too many connections are open; try again shortly"}'
)


def most_connections() -> int:
    """How many connections there may be, so that files can be opened all the same."""
    try:
        import resource
    except ImportError:
        return MOST
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if files == resource.RLIM_INFINITY else min(MOST, max(files - KEPT_BACK, files // 2))


class Patient(H11Protocol):
    """A connection that is closed when a request is begun and not gone on with."""

    most = MOST

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._received = self._seen = 0
        self._phase: Any = None
        if len(self.connections) > self.most:
            complain("there are %d connections; more are refused", self.most)
            transport.write(BUSY)
            transport.close()
        else:
            self._begin(h11.IDLE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self._received += len(data)
            super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        phase = self.conn.their_state
        # Between two requests a connection may be idle for longer.
        is_begun = phase is h11.SEND_BODY or (phase is h11.IDLE and bool(self.conn.trailing_data[0]))
        if not is_begun:
            self._stop()
        elif self._timer is None or phase is not self._phase:
            self._begin(phase)

    def shutdown(self) -> None:
        super().shutdown()
        if self.conn.their_state is h11.SEND_BODY:
            self.loop.call_later(LAST_CALL, self.transport.abort)

    def _begin(self, phase: Any) -> None:
        self._stop()
        self._phase, self._seen = phase, self._received
        self._timer = self.loop.call_later(STALLED, self._look)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        # Where reading is paused it is us who do not go on.
        is_going_on = self.flow.read_paused or self._received - self._seen >= SOME
        if self._phase is h11.SEND_BODY and is_going_on:
            self._begin(self._phase)
        else:
            self.transport.abort()


_said: dict[str, float] = {}


def complain(message: str, *given: object) -> None:
    """A line in the log, unless it was there within the last minute."""
    now = time.monotonic()
    if now - _said.get(message, -QUIET) >= QUIET:
        _said[message] = now
        log.warning(message, *given)


def answer_for_loop(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Errors of a loop: where no connection can be accepted, that is thousands of the same."""
    message = str(context.get("message", ""))
    if "accept()" in message:
        complain("%s: %s", message, context.get("exception"))
    else:
        loop.default_exception_handler(context)
