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
# Files that are kept for all else: the store, and what it reads.
KEPT_BACK = 128
# Seconds between two lines of the log about the same.
QUIET = 60.0

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 61\r\n"
    b"Retry-After: 1\r\nConnection: close\r\n\r\n"
    b'{"error": "too many connections are open; try again shortly"}'
)


def most_connections(wanted: int) -> int:
    """Return how many connections there may be, so that files can be opened all the same."""
    try:
        import resource
    except ImportError:
        return wanted
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if files == resource.RLIM_INFINITY else min(wanted, max(files - KEPT_BACK, files // 2))


class Patient(H11Protocol):
    """A connection that is closed when a request is begun and not gone on with.

    Where there are more than ``most``, the one that we have waited for longest gives way to a new one: one whose last
    request was not allowed, or that never sent one, before any other. One that is being answered stays.
    """

    most: int
    heard_of: dict[Patient, None]
    """All connections of a server, those that we have not heard of for longest first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._received = self._seen = 0
        self._phase: Any = None
        if len(self.connections) <= self.most or self._make_room():
            self._begin(h11.IDLE)
        else:
            complain("%d connections are being answered; more are refused", self.most)
            transport.write(BUSY)
            transport.close()

    def _make_room(self) -> bool:
        """Close the connection that we have waited for longest, if there is one."""
        given_up: Patient | None = None
        for each in self.heard_of:
            if each.is_waited_for() and (given_up is None or not each.is_known()):
                given_up = each
                if not each.is_known():
                    break
        if given_up is None:
            return False
        complain("there are %d connections; those that do not go on are closed for new ones", self.most)
        given_up.transport.abort()
        return True

    def is_waited_for(self) -> bool:
        """Return whether it is the other end that has to go on."""
        is_answered = self.cycle is None or self.cycle.response_complete
        # Where reading is paused it is us who do not go on.
        is_sending = self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused
        return (is_answered or is_sending) and not self.transport.is_closing()

    def is_known(self) -> bool:
        """Return whether the last request was allowed (:mod:`grinch.serve.api.guard`)."""
        return self.scope is not None and bool(self.scope["state"].get("is_allowed"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        del self.heard_of[self]
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
        self.heard_of.pop(self, None)
        self.heard_of[self] = None
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


def protocol(max_connections: int) -> type[Patient]:
    """Return the protocol of a server with at most this many connections, if the machine allows as many."""
    return type("Patient", (Patient,), {"most": most_connections(max_connections), "heard_of": {}})


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
