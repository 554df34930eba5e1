"""Timeouts of stalled connections, and the limit of their number."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("grinch.serve")

# Seconds for the head of a request, and for a further part of its body.
STALL_TIMEOUT = 20.0
# Bytes of a body that have to come in that time, unless it is complete.
MIN_PROGRESS = 1024
# Seconds for a pending body at the end.
SHUTDOWN_GRACE = 2.0
# Files that are reserved for the store and others.
RESERVED_FILES = 128
# Seconds between two equal lines of the log.
LOG_INTERVAL = 60.0

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 61\r\n"
    b"Retry-After: 1\r\nConnection: close\r\n\r\n"
    b'{"error": "too many connections are open; try again shortly"}'
)


def max_connections(wanted: int) -> int:
    """Return the number of connections that leaves enough files for others."""
    try:
        import resource
    except ImportError:
        return wanted
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if files == resource.RLIM_INFINITY else min(wanted, max(files - RESERVED_FILES, files // 2))


class LimitedConnection(H11Protocol):
    """A connection that is closed when a request stalls.

    If there are more than ``max_open``, the one that was silent longest is closed for a new one: one whose last request
    was not allowed, or that never sent one, before any other. One that is being answered stays.
    """

    max_open: int
    by_activity: dict[LimitedConnection, None]
    """All connections of a server, those that were silent longest first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._received = self._seen = 0
        self._phase: Any = None
        if len(self.connections) <= self.max_open or self._make_room():
            self._begin(h11.IDLE)
        else:
            complain("%d connections are being answered; more are refused", self.max_open)
            transport.write(BUSY)
            transport.close()

    def _make_room(self) -> bool:
        """Close the connection that was silent longest, if one can be closed."""
        given_up: LimitedConnection | None = None
        for each in self.by_activity:
            if each.is_waited_for() and (given_up is None or not each.is_known()):
                given_up = each
                if not each.is_known():
                    break
        if given_up is None:
            return False
        complain("there are %d connections; those that do not go on are closed for new ones", self.max_open)
        given_up.transport.abort()
        return True

    def is_waited_for(self) -> bool:
        """Return whether it is the client's turn."""
        is_answered = self.cycle is None or self.cycle.response_complete
        # While reading is paused it is the server's turn.
        is_sending = self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused
        return (is_answered or is_sending) and not self.transport.is_closing()

    def is_known(self) -> bool:
        """Return whether the last request was allowed (:mod:`grinch.serve.api.guard`)."""
        return self.scope is not None and bool(self.scope["state"].get("is_allowed"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        del self.by_activity[self]
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
            self.loop.call_later(SHUTDOWN_GRACE, self.transport.abort)

    def _begin(self, phase: Any) -> None:
        self._stop()
        self._phase, self._seen = phase, self._received
        self._timer = self.loop.call_later(STALL_TIMEOUT, self._look)

    def _stop(self) -> None:
        self.by_activity.pop(self, None)
        self.by_activity[self] = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        # While reading is paused it is the server's turn.
        is_going_on = self.flow.read_paused or self._received - self._seen >= MIN_PROGRESS
        if self._phase is h11.SEND_BODY and is_going_on:
            self._begin(self._phase)
        else:
            self.transport.abort()


def protocol(wanted: int) -> type[LimitedConnection]:
    """Return the protocol of a server with at most this many connections, if the machine allows as many."""
    return type("LimitedConnection", (LimitedConnection,), {"max_open": max_connections(wanted), "by_activity": {}})


_said: dict[str, float] = {}


def complain(message: str, *given: object) -> None:
    """Write a line to the log, unless it was written within the last minute."""
    now = time.monotonic()
    if now - _said.get(message, -LOG_INTERVAL) >= LOG_INTERVAL:
        _said[message] = now
        log.warning(message, *given)


def answer_for_loop(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log errors of a loop; if no connection can be accepted, there are thousands of the same."""
    message = str(context.get("message", ""))
    if "accept()" in message:
        complain("%s: %s", message, context.get("exception"))
    else:
        loop.default_exception_handler(context)
